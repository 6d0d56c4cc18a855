//! The system's clocks as instants of ours.

use ctcp_units::{Duration, Instant};
use rustix::time::{ClockId, Timespec, clock_gettime};

fn read(clock: ClockId) -> Instant {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Instant::from_nanos(seconds * 1_000_000_000 + nanos)
}

/// Now, by the monotonic clock that timers run on: since the machine started.
pub(crate) fn now() -> Instant {
    read(ClockId::Monotonic)
}

/// Time that the calling thread has spent on a processor.
pub(crate) fn thread_time() -> Duration {
    read(ClockId::ThreadCPUTime) - Instant::EPOCH
}

/// The moment as the timers want it.
pub(crate) fn to_timespec(at: Instant) -> Timespec {
    let nanos = at.as_nanos();
    Timespec {
        tv_sec: i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: (nanos % 1_000_000_000) as _,
    }
}

/// Turns the kernel's receive time stamps, which count from the Unix epoch, into
/// moments of [`now`].
///
/// Both clocks are read once for a batch; when somebody sets the clock, time
/// stamps of that batch are off, which the caller bounds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StampConverter {
    pub(crate) now: Instant,
    unix: Instant,
}

impl StampConverter {
    pub(crate) fn read() -> Self {
        Self {
            now: now(),
            unix: read(ClockId::Realtime),
        }
    }

    /// When the kernel received what bears `stamp`: not after `now` and not
    /// before `earliest`.
    pub(crate) fn received_at(&self, stamp: Option<Duration>, earliest: Instant) -> Instant {
        let Some(stamp) = stamp else {
            return self.now;
        };
        let age = self.unix - (Instant::EPOCH + stamp);
        self.now.saturating_sub(age).max(earliest).min(self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctcp_units::{micros, seconds};

    #[test]
    fn time_does_not_go_back() {
        let before = now();
        assert!(now() >= before);
        let time = to_timespec(Instant::from_nanos(3_000_000_007));
        assert_eq!((time.tv_sec, time.tv_nsec), (3, 7));
    }

    #[test]
    fn a_stamp_is_as_old_as_the_unix_clock_says_within_bounds() {
        let converter = StampConverter {
            now: Instant::EPOCH + seconds(100),
            unix: Instant::EPOCH + seconds(1_700_000_000),
        };
        let earliest = converter.now.saturating_sub(micros(50));
        let at = |stamp| converter.received_at(Some(stamp), earliest);
        let unix = seconds(1_700_000_000);
        assert_eq!(
            at(unix - micros(20)),
            converter.now.saturating_sub(micros(20))
        );
        assert_eq!(at(unix - seconds(3600)), earliest);
        assert_eq!(at(unix + seconds(3600)), converter.now);
        assert_eq!(converter.received_at(None, earliest), converter.now);
    }
}
