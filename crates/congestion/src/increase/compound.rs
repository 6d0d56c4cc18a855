//! Reno's growth plus a second window that goes by delay.

use ctcp_units::{Duration, Instant};

use super::{BackoffEvent, Increase};
use crate::backlog::backlog;
use crate::event::AckEvent;
use crate::round::Round;

/// α, k of the growth α·win^k.
const ALPHA: f64 = 0.125;
const K: f64 = 0.75;
/// γ: packets in the queue from which on the delay window shrinks.
const GAMMA: f64 = 30.0;
/// ζ: how many times the packets in the queue it shrinks by.
const ZETA: f64 = 1.0;

/// Compound's two windows (Tan et al. 2006; `tcp-flavours.md` §9), tokens =
/// cwnd + dwnd:
///
/// ```text
/// per acknowledged packet:        cwnd += 1/tokens
/// once a round trip, diff = tokens·(RTT − RTTmin)/RTT:
///   diff < γ:                     dwnd += max(0, α·tokens^k − 1)
///   diff ≥ γ:                     dwnd = max(0, dwnd − ζ·diff)
/// backoff by β:                   cwnd ← β·cwnd, dwnd ← β·dwnd
/// ```
///
/// with α = ⅛, k = ¾, γ = 30, ζ = 1 and RTT the smoothed one. The printed
/// dwnd ← max(0, win(1 − b) − cwnd/2) with b = ½ is the last line at β = ½; so
/// written it holds for β = RTTmin/RTT as well.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CompoundIncrease {
    delay_window: f64,
    round: Round,
    before_backoff: Option<f64>,
}

impl CompoundIncrease {
    /// The rule with an empty delay window.
    pub fn new() -> Self {
        Self::default()
    }

    /// Change of the delay window at the end of a round, before it is held at 0.
    pub fn delay_window_change(tokens: f64, rtt_min: Duration, rtt: Duration) -> f64 {
        let diff = backlog(tokens, rtt_min, rtt);
        if diff < GAMMA {
            (ALPHA * tokens.powf(K) - 1.0).max(0.0)
        } else {
            -ZETA * diff
        }
    }

    /// dwnd, in packets.
    pub const fn delay_window(&self) -> f64 {
        self.delay_window
    }
}

impl Increase for CompoundIncrease {
    fn avoidance(&mut self, tokens: f64, packets: u64, ack: &AckEvent) -> f64 {
        let mut change = packets as f64 / tokens;
        if self.round.begins_with(ack) {
            // The window may have met its bounds: its part never exceeds it.
            let before = self.delay_window.min(tokens);
            let rtt = &ack.rtt;
            let step = Self::delay_window_change(tokens, rtt.rtt_min, rtt.srtt);
            self.delay_window = (before + step).max(0.0);
            change += self.delay_window - before;
        }
        change
    }

    fn on_backoff(&mut self, event: &BackoffEvent) {
        self.before_backoff = Some(self.delay_window);
        self.delay_window *= (event.tokens_after / event.tokens_before).min(1.0);
    }

    fn on_undo(&mut self) {
        if let Some(before) = self.before_backoff.take() {
            self.delay_window = before;
        }
    }

    fn on_restart(&mut self, _now: Instant) {
        self.before_backoff = None;
        self.delay_window = 0.0;
    }
}
