//! Time since the last congestion event, less the time nothing was tried.
//!
//! H-TCP and CUBIC grow with time. While the application is the limit, or
//! nothing is sent at all, nobody asks the path for more; a clock that went on
//! would pay out that time as one burst (RFC 9438 §5.8 warns of it).

use ctcp_units::{Duration, Instant, seconds};

use crate::event::AckEvent;

/// ACKs further apart than this many round trips, and than [`IDLE_MIN`], mean
/// that nothing was sent in between.
const IDLE_ROUND_TRIPS: u32 = 4;
const IDLE_MIN: Duration = seconds(1);

/// A clock that starts with the first ACK it sees.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Clock {
    start: Option<Instant>,
    seen: Instant,
}

impl Clock {
    /// A clock that started at `now`.
    pub(super) const fn started(now: Instant) -> Self {
        Self {
            start: Some(now),
            seen: now,
        }
    }

    /// Seconds on the clock at this ACK, which may earn growth.
    pub(super) fn seconds_at(&mut self, ack: &AckEvent) -> f64 {
        let gap = ack.now - self.seen;
        if self.start.is_some() && gap > IDLE_MIN.max(ack.rtt.srtt.saturating_mul(IDLE_ROUND_TRIPS))
        {
            self.pause(ack.now);
        }
        self.seen = ack.now;
        let start = *self.start.get_or_insert(ack.now);
        (ack.now - start).as_secs_f64()
    }

    /// Takes in an ACK that earns no growth. If the application was the limit, the
    /// time since the last ACK does not count; the repair of losses does.
    pub(super) fn on_pause(&mut self, ack: &AckEvent) {
        if ack.app_limited {
            self.pause(ack.now);
        } else if self.start.is_some() {
            self.seconds_at(ack);
        }
    }

    fn pause(&mut self, now: Instant) {
        if let Some(start) = &mut self.start {
            *start += now - self.seen;
        }
        self.seen = now;
    }
}
