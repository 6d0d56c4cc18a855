//! β = RTTmin/RTTmax, or ½ when the throughput moves: H-TCP's backoff.

use ctcp_units::{Duration, Instant};

use super::Backoff;
use crate::event::{AckEvent, EcnEvent, LossEvent};
use crate::round::Round;

/// Bounds of β.
const BETA_RANGE: (f64, f64) = (0.5, 0.8);
/// A throughput that differs by more than this share from that before the
/// previous event asks for β = ½.
const THROUGHPUT_CHANGE_MAX: f64 = 0.2;

/// `tokens ← β·tokens`, β = RTTmin/RTTmax held in `[0.5, 0.8]`, but ½ if the
/// throughput before this event differs by more than a fifth from that before
/// the last one (Leith & Shorten 2004; `tcp-flavours.md` §4).
///
/// RTTmin is that of the path's life, RTTmax the largest sample since the last
/// event, throughput what the last whole round trip delivered. It gives back no
/// more than the queue holds, but at least a fifth, and so still pays √(1/p) to
/// random loss.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct HTcpBackoff {
    rtt_max: Option<Duration>,
    round: Round,
    /// When the round began, and what had been delivered then.
    round_start: Option<(Instant, u64)>,
    /// Packets per second of the last whole round.
    throughput: Option<f64>,
    throughput_before: Option<f64>,
}

impl HTcpBackoff {
    /// β of these round-trip times, in `[0.5, 0.8]`.
    pub fn beta(rtt_min: Duration, rtt_max: Duration) -> f64 {
        let (low, high) = BETA_RANGE;
        if rtt_max <= rtt_min {
            return high;
        }
        (rtt_min.as_secs_f64() / rtt_max.as_secs_f64()).clamp(low, high)
    }

    fn factor(&mut self, rtt_min: Duration, latest: Duration) -> f64 {
        let rtt_max = self.rtt_max.take().unwrap_or(latest).max(latest);
        let before = core::mem::replace(&mut self.throughput_before, self.throughput);
        if let (Some(before), Some(now)) = (before, self.throughput)
            && (now - before).abs() > THROUGHPUT_CHANGE_MAX * before
        {
            return BETA_RANGE.0;
        }
        Self::beta(rtt_min, rtt_max)
    }
}

impl Backoff for HTcpBackoff {
    fn on_ack(&mut self, event: &AckEvent) {
        if let Some(sample) = event.rtt_sample {
            self.rtt_max = Some(self.rtt_max.map_or(sample, |largest| largest.max(sample)));
        }
        if self.round.begins_with(event) {
            if let Some((start, delivered)) = self.round_start {
                let seconds = (event.now - start).as_secs_f64();
                if seconds > 0.0 {
                    let packets = event.delivered_packets.saturating_sub(delivered);
                    self.throughput = Some(packets as f64 / seconds);
                }
            }
            self.round_start = Some((event.now, event.delivered_packets));
        }
    }

    fn on_loss(&mut self, _tokens: f64, event: &LossEvent) -> f64 {
        self.factor(event.rtt.rtt_min, event.rtt.latest)
    }

    fn on_ecn(&mut self, _tokens: f64, event: &EcnEvent) -> f64 {
        self.factor(event.rtt.rtt_min, event.rtt.latest)
    }

    fn on_path_change(&mut self) {
        *self = Self {
            round: self.round,
            ..Self::default()
        };
    }
}
