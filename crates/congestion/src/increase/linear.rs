//! α packets per round trip, as TCP Reno and [CC14] do.

use super::Increase;
use crate::event::AckEvent;

/// Per acknowledged packet `tokens += α/tokens` ([CC14] §III; RFC 5681 §3.1
/// with α = 1).
///
/// Only acknowledged packets count, so at loss p the growth is (1−p)·α a round
/// trip (E-CC14-10).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Linear {
    alpha: f64,
}

impl Linear {
    /// Growth by `alpha` packets a round trip.
    pub const fn new(alpha: f64) -> Self {
        Self { alpha }
    }
}

impl Increase for Linear {
    /// n packets of one ACK add n·α/tokens. One by one they would add less by a
    /// share below 1/(2·tokens), which is the price of constant time.
    fn avoidance(&mut self, tokens: f64, packets: u64, _ack: &AckEvent) -> f64 {
        self.alpha * packets as f64 / tokens
    }
}
