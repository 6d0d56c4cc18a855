//! Back off to what the path was seen to carry: Westwood+.

use ctcp_units::{Duration, Instant};

use super::Backoff;
use crate::event::{AckEvent, EcnEvent, LossEvent, SilenceEvent};
use crate::round::Round;

/// Weight of the old estimate in the filter.
const MEMORY: f64 = 0.9;

/// `tokens ← min(tokens, bwe·RTTmin)` with bwe the filtered bandwidth (Westwood+,
/// Grieco & Mascolo 2004; `tcp-flavours.md` §6). Once a round trip
///
/// ```text
/// b_k = D_k/Δ_k                 packets delivered in the round / its length
/// bwe ← 0.9·bwe + 0.1·b_k       the first sample as it is
/// ```
///
/// The window that remains fills the path with an empty queue, if bwe is right;
/// but bwe never exceeds the rate the sender had, so under steady random loss
/// it follows the window down. Half until there is a first sample. Rounds in
/// which the application was the limit can only raise the estimate (ours).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Bandwidth {
    round: Round,
    /// When the round began, and what had been delivered then.
    round_start: Option<(Instant, u64)>,
    /// Packets per second.
    estimate: Option<f64>,
    rtt_min: Option<Duration>,
}

impl Bandwidth {
    /// bwe·RTTmin, at least 2: the window at `packets_per_second`.
    pub fn window(packets_per_second: f64, rtt_min: Duration) -> f64 {
        (packets_per_second * rtt_min.as_secs_f64()).max(2.0)
    }

    /// The bandwidth estimate, packets per second, if there is one.
    pub const fn estimate(&self) -> Option<f64> {
        self.estimate
    }

    fn factor(&self, tokens: f64, rtt_min: Duration) -> f64 {
        match self.estimate {
            Some(estimate) => (Self::window(estimate, rtt_min) / tokens).min(1.0),
            None => 0.5,
        }
    }
}

impl Backoff for Bandwidth {
    fn on_ack(&mut self, event: &AckEvent) {
        self.rtt_min = Some(event.rtt.rtt_min);
        if !self.round.begins_with(event) {
            return;
        }
        if let Some((start, delivered)) = self.round_start {
            let seconds = (event.now - start).as_secs_f64();
            if seconds <= 0.0 {
                return;
            }
            let packets = event.delivered_packets.saturating_sub(delivered);
            let sample = packets as f64 / seconds;
            self.estimate = match self.estimate {
                None => Some(sample),
                Some(estimate) if event.app_limited && sample < estimate => Some(estimate),
                Some(estimate) => Some(MEMORY * estimate + (1.0 - MEMORY) * sample),
            };
        }
        self.round_start = Some((event.now, event.delivered_packets));
    }

    fn on_loss(&mut self, tokens: f64, event: &LossEvent) -> f64 {
        self.factor(tokens, event.rtt.rtt_min)
    }

    fn on_ecn(&mut self, tokens: f64, event: &EcnEvent) -> f64 {
        self.factor(tokens, event.rtt.rtt_min)
    }

    fn silence_threshold(&mut self, tokens: f64, _event: &SilenceEvent) -> f64 {
        match (self.estimate, self.rtt_min) {
            (Some(estimate), Some(rtt_min)) => Self::window(estimate, rtt_min),
            _ => tokens / 2.0,
        }
    }

    fn on_path_change(&mut self) {
        *self = Self {
            round: self.round,
            ..Self::default()
        };
    }
}
