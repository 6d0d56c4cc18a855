//! The edge where the system's clocks become instants of ours.

use std::time::{SystemTime, UNIX_EPOCH};

use ctcp_units::Instant;

/// A monotonic clock that counts from when it was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    epoch: std::time::Instant,
}

impl Clock {
    /// Starts counting.
    pub(crate) fn start() -> Self {
        Self {
            epoch: std::time::Instant::now(),
        }
    }

    /// Now.
    pub(crate) fn now(&self) -> Instant {
        Instant::EPOCH + self.epoch.elapsed()
    }
}

/// Nanoseconds since the Unix epoch by the wall clock; 0 for a clock set before.
pub(crate) fn wall_nanos() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
        })
}
