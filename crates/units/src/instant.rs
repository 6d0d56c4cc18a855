//! A moment as whole nanoseconds from an epoch the caller picks.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

/// A moment: whole nanoseconds since an epoch of the caller's choice.
///
/// Two instants compare only if they share that epoch. 2^64 ns are 584 years;
/// additions past that saturate at [`Instant::FAR_FUTURE`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The epoch itself.
    pub const EPOCH: Self = Self(0);
    /// Later than anything that happens.
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// The moment `nanos` nanoseconds after the epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the epoch, for display and statistics.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Time passed since `earlier`; zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// This moment less `span`, not before the epoch.
    pub fn saturating_sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(whole_nanos(span)))
    }
}

fn whole_nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(whole_nanos(span)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Sub for Instant {
    type Output = Duration;

    /// Time passed since `earlier`; zero if `earlier` is later.
    fn sub(self, earlier: Self) -> Duration {
        self.saturating_since(earlier)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{:09}s",
            self.0 / 1_000_000_000,
            self.0 % 1_000_000_000
        )
    }
}

/// `n` microseconds.
pub const fn micros(n: u64) -> Duration {
    Duration::from_micros(n)
}

/// `n` milliseconds.
pub const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// `n` seconds.
pub const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_added_comes_back_as_the_difference() {
        let start = Instant::from_nanos(7);
        assert_eq!((start + millis(3)) - start, millis(3));
    }

    #[test]
    fn the_end_of_time_is_not_passed() {
        assert_eq!(Instant::FAR_FUTURE + seconds(1), Instant::FAR_FUTURE);
        assert_eq!(Instant::EPOCH + Duration::MAX, Instant::FAR_FUTURE);
        assert_eq!(Instant::EPOCH - Instant::FAR_FUTURE, Duration::ZERO);
    }

    #[test]
    fn it_prints_seconds_with_all_nine_digits() {
        assert_eq!(
            Instant::from_nanos(1_000_000_023).to_string(),
            "1.000000023s"
        );
    }
}
