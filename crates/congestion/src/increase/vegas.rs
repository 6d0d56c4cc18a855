//! Growth that keeps a few packets in the queue.

use ctcp_units::{Duration, Instant};

use super::{BackoffEvent, Increase};
use crate::backlog::backlog;
use crate::event::AckEvent;
use crate::params::{VegasParams, VegasRtt};
use crate::round::Round;

/// Vegas (Brakmo & Peterson 1994; `tcp-flavours.md` §8): once a round trip, with
/// diff = tokens·(RTT − RTTmin)/RTT packets queued,
///
/// ```text
/// slow start:   doubles every other round trip; over when diff > γ
/// avoidance:    diff < α: tokens += 1;   diff > β: tokens −= 1
/// ```
///
/// RTT is the smallest sample of the round, which hides late ACKs, or their mean
/// ([`VegasRtt`]). Slow start ends at tokens·RTTmin/RTT + 1, what the path holds
/// without the queue that ended it (Linux does so; the papers leave it open).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VegasIncrease {
    params: VegasParams,
    round: Round,
    smallest: Option<Duration>,
    sum: Duration,
    sample_count: u32,
    is_growing_round: bool,
    /// The round trip of the round that just ended, in slow start.
    ended: Option<Duration>,
}

impl VegasIncrease {
    /// The rule before its first round.
    pub const fn new(params: VegasParams) -> Self {
        Self {
            params,
            round: Round::START,
            smallest: None,
            sum: Duration::ZERO,
            sample_count: 0,
            is_growing_round: false,
            ended: None,
        }
    }

    /// By how much the window changes at the end of a round: 1, 0 or −1.
    pub fn change(&self, tokens: f64, rtt_min: Duration, rtt: Duration) -> f64 {
        let diff = backlog(tokens, rtt_min, rtt);
        if diff < self.params.alpha {
            1.0
        } else if diff > self.params.beta {
            -1.0
        } else {
            0.0
        }
    }

    /// The round trip of a round that ends with this ACK, if one does and had a
    /// sample.
    fn round_ended(&mut self, ack: &AckEvent) -> Option<Duration> {
        let mut ended = None;
        if self.round.begins_with(ack) {
            ended = match self.params.rtt {
                VegasRtt::RoundMin => self.smallest,
                VegasRtt::RoundMean => self.sum.checked_div(self.sample_count),
            };
            self.forget_samples();
            self.is_growing_round = !self.is_growing_round;
        }
        if let Some(sample) = ack.rtt_sample {
            self.smallest = Some(self.smallest.map_or(sample, |least| least.min(sample)));
            self.sum = self.sum.saturating_add(sample);
            self.sample_count += 1;
        }
        ended
    }

    fn forget_samples(&mut self) {
        self.smallest = None;
        self.sum = Duration::ZERO;
        self.sample_count = 0;
    }
}

impl Increase for VegasIncrease {
    fn avoidance(&mut self, tokens: f64, _packets: u64, ack: &AckEvent) -> f64 {
        match self.round_ended(ack) {
            Some(rtt) => self.change(tokens, ack.rtt.rtt_min, rtt),
            None => 0.0,
        }
    }

    fn slow_start(&mut self, _tokens: f64, ack: &AckEvent) -> f64 {
        self.ended = self.round_ended(ack);
        if self.is_growing_round { 1.0 } else { 0.0 }
    }

    fn slow_start_exit(&mut self, tokens: f64, ack: &AckEvent) -> Option<f64> {
        let rtt = self.ended.take()?;
        let waiting = backlog(tokens, ack.rtt.rtt_min, rtt);
        (waiting > self.params.gamma).then_some(tokens - waiting + 1.0)
    }

    fn on_pause(&mut self, ack: &AckEvent) {
        // Its samples are no less true than others.
        self.round_ended(ack);
    }

    fn on_backoff(&mut self, _event: &BackoffEvent) {
        self.forget_samples();
    }

    fn on_restart(&mut self, _now: Instant) {
        self.forget_samples();
        self.is_growing_round = false;
    }
}
