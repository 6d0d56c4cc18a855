//! How long a flow may still take.

use std::thread;
use std::time::{Duration, Instant};

use crate::venue::{RunError, Stop};

/// No wait is longer than this without a look at [`Stop`].
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// The moment at which a point is cut, unless it is interrupted before.
#[derive(Debug, Clone)]
pub(crate) struct Deadline {
    at: Instant,
    stop: Stop,
}

impl Deadline {
    pub(crate) fn after(limit: Duration, stop: &Stop) -> Self {
        Self {
            at: Instant::now() + limit,
            stop: stop.clone(),
        }
    }

    /// The same, but no later than `limit` from now.
    pub(crate) fn within(&self, limit: Duration) -> Self {
        Self {
            at: self.at.min(Instant::now() + limit),
            stop: self.stop.clone(),
        }
    }

    /// Whether the time is up; an interruption is an error.
    pub(crate) fn is_over(&self) -> Result<bool, RunError> {
        if self.stop.is_set() {
            return Err(RunError::Interrupted);
        }
        Ok(Instant::now() >= self.at)
    }

    /// Sleeps until `moment` or the deadline. Tells whether the moment came.
    pub(crate) fn sleep_until(&self, moment: Instant) -> Result<bool, RunError> {
        let end = moment.min(self.at);
        loop {
            if self.stop.is_set() {
                return Err(RunError::Interrupted);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(moment <= self.at);
            }
            thread::sleep(left.min(LOOK));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_behind_the_deadline_does_not_come() {
        let deadline = Deadline::after(Duration::from_millis(5), &Stop::default());
        let now = Instant::now();
        assert_eq!(
            deadline.sleep_until(now + Duration::from_millis(1)),
            Ok(true)
        );
        assert_eq!(
            deadline.sleep_until(now + Duration::from_secs(9)),
            Ok(false)
        );
        assert_eq!(deadline.is_over(), Ok(true));
    }

    #[test]
    fn a_stop_ends_every_wait() {
        let stop = Stop::default();
        let deadline = Deadline::after(Duration::from_secs(60), &stop);
        stop.set();
        assert_eq!(
            deadline.sleep_until(deadline.at),
            Err(RunError::Interrupted)
        );
        assert_eq!(deadline.is_over(), Err(RunError::Interrupted));
    }
}
