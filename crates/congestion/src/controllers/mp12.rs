//! `mp12`: the first CTCP, Vegas-like with a loss jump.
//!
//! [MP12] Algorithm 2, literally but for what the errata force (`transport.md`
//! §10, §11.1). Per acknowledged packet, δ = 1 − RTT_ref/rtt:
//!
//! ```text
//! slow start:                 tokens += 1, until tokens > ss_threshold
//! avoidance, δ > β_v:         tokens −= 1/tokens
//!            δ < α_v:         tokens += 1/tokens
//! either, p > p_long + p_dev: tokens −= (p − p_long)/2
//! silence:                    ss_threshold ← tokens/2, tokens ← init_tokens
//! ```
//!
//! RTT_ref is RTTmin, or the smoothed mean as printed ([`Mp12BaseRtt`],
//! E-MP12-06). α_v and β_v are shares of the round trip, not packets. The loss
//! jump is kept literal (E-MP12-16): at every ACK, in slow start as well, which
//! over a window of ACKs multiplies the window by about 1 − (p − p_long)/2. A
//! loss by itself costs nothing and does not end slow start.
//!
//! Helps on lossy paths with the queue to itself; beside a loss-based flow it
//! starves, as Vegas does.
//!
//! Departures: with the product's parameters slow start also ends when a packet
//! stands in the queue ([`ss_exit_backlog`](crate::Mp12Params::ss_exit_backlog)), as in the authors' own
//! program; an ACK of n packets applies each rule n times, with the estimates
//! that stand after all of them; windows that are not used do not grow; a CE mark
//! (the paper knows none) is answered as `cc14` does, at most once a round trip.

use ctcp_units::{Duration, PacketNumber};

use crate::backlog::backlog;
use crate::backoff::{Backoff, RttRatio};
use crate::controller::{Controller, ControllerState};
use crate::event::{AckEvent, EcnEvent, LossEstimate, LossEvent, PathChangeEvent, SilenceEvent};
use crate::params::{JitterGuard, Mp12BaseRtt, Params};
use crate::round::Round;

/// Samples of a round before its smallest is believed: packets that left in one
/// burst queue behind each other ([RFC9406] §4.3 has the same number).
const ROUND_SAMPLES_MIN: u32 = 8;

/// The controller `mp12`.
#[derive(Debug, Clone)]
pub struct Mp12 {
    params: Params,
    tokens: f64,
    ss_threshold: f64,
    in_slow_start: bool,
    /// Packets from this one on were sent after the last answer to a mark.
    recover: PacketNumber,
    /// Packets before this one earn no growth.
    stale_before: PacketNumber,
    is_silent: bool,
    round: Round,
    /// Smallest sample of this round.
    round_min: Option<Duration>,
    round_samples: u32,
    last_backoff: Option<f64>,
    backoff_count: u64,
}

/// The controller `mp12`.
pub fn mp12(params: &Params) -> Mp12 {
    let params = params.clamped();
    Mp12 {
        params,
        tokens: params.init_tokens,
        ss_threshold: params.init_ss_threshold,
        in_slow_start: true,
        recover: PacketNumber(0),
        stale_before: PacketNumber(0),
        is_silent: false,
        round: Round::START,
        round_min: None,
        round_samples: 0,
        last_backoff: None,
        backoff_count: 0,
    }
}

impl Mp12 {
    /// δ = 1 − RTT_ref/rtt; negative where a sample is below the smoothed mean.
    fn delta(&self, event: &AckEvent) -> f64 {
        let reference = match self.params.mp12.base_rtt {
            Mp12BaseRtt::RttMin => event.rtt.rtt_min,
            Mp12BaseRtt::Srtt => event.rtt.srtt,
        };
        let rtt = event.rtt_sample.unwrap_or(event.rtt.latest);
        if rtt == Duration::ZERO {
            return 0.0;
        }
        1.0 - reference.as_secs_f64() / rtt.as_secs_f64()
    }

    /// Ends slow start if this round's smallest sample shows a queue.
    fn watch_queue(&mut self, event: &AckEvent) {
        if self.round.begins_with(event) {
            (self.round_min, self.round_samples) = (None, 0);
        }
        if let Some(sample) = event.rtt_sample {
            let smallest = self.round_min.map_or(sample, |least| least.min(sample));
            self.round_min = Some(smallest);
            self.round_samples += 1;
            if let Some(limit) = self.params.mp12.ss_exit_backlog
                && self.round_samples >= ROUND_SAMPLES_MIN
                && backlog(self.tokens, event.rtt.rtt_min, smallest) > limit
            {
                self.in_slow_start = false;
                self.ss_threshold = self.tokens;
            }
        }
    }

    fn grow(&mut self, event: &AckEvent) {
        if self.in_slow_start {
            self.watch_queue(event);
        }
        let mut packets = event.acked_packets;
        if self.in_slow_start {
            let below = (self.ss_threshold - self.tokens).max(0.0).floor() as u64;
            let taken = packets.min(below.saturating_add(1));
            self.tokens += taken as f64;
            packets -= taken;
            self.in_slow_start = self.tokens <= self.ss_threshold;
        }
        let step = packets as f64 / self.tokens;
        let delta = self.delta(event);
        if delta > self.params.mp12.beta_v {
            self.tokens -= step;
        } else if delta < self.params.mp12.alpha_v {
            self.tokens += step;
        }
    }

    /// The loss jump, once for each of `packets`.
    fn jump(&mut self, packets: u64, loss: &LossEstimate) {
        let (p, p_long) = (loss.p.share(), loss.p_long.share());
        if p > p_long + loss.p_dev {
            self.tokens -= packets as f64 * (p - p_long) / 2.0;
        }
    }

    fn hold(&mut self) {
        let low = self.params.min_tokens.min(self.params.after_silence());
        self.tokens = self.tokens.clamp(low, self.params.max_tokens);
    }
}

impl Controller for Mp12 {
    fn on_ack(&mut self, event: &AckEvent) {
        if event.newest_acked < self.stale_before {
            return;
        }
        self.is_silent = false;
        if !event.app_limited && !event.in_recovery {
            self.grow(event);
            self.hold();
        }
        self.jump(event.acked_packets, &event.loss);
        self.hold();
    }

    /// Losses speak through the estimates of the next ACK only.
    fn on_loss(&mut self, _event: &LossEvent) {}

    fn on_ecn(&mut self, event: &EcnEvent) {
        if event.newest_acked < self.recover {
            return;
        }
        let factor = RttRatio::new(JitterGuard::Off).on_ecn(self.tokens, event);
        self.tokens *= factor;
        self.hold();
        self.ss_threshold = self.tokens;
        self.in_slow_start = false;
        self.recover = event.largest_sent.next();
        self.last_backoff = Some(factor);
        self.backoff_count += 1;
    }

    fn on_silence(&mut self, event: &SilenceEvent) {
        if !self.is_silent {
            self.ss_threshold = (self.tokens / 2.0).max(self.params.min_tokens);
        }
        self.is_silent = true;
        self.tokens = self.params.after_silence();
        self.in_slow_start = true;
        self.recover = event.largest_sent.next();
        self.stale_before = event.largest_sent.next();
    }

    fn on_path_change(&mut self, event: &PathChangeEvent) {
        let after = event.largest_sent.next();
        *self = Self {
            recover: after,
            stale_before: after,
            backoff_count: self.backoff_count,
            ..mp12(&self.params)
        };
    }

    fn tokens(&self) -> f64 {
        self.tokens
    }

    fn in_slow_start(&self) -> bool {
        self.in_slow_start
    }

    fn name(&self) -> &'static str {
        "mp12"
    }

    fn state(&self) -> ControllerState {
        ControllerState {
            tokens: self.tokens,
            ss_threshold: self.ss_threshold.is_finite().then_some(self.ss_threshold),
            phase: if self.in_slow_start {
                "slow_start"
            } else {
                "avoidance"
            },
            last_backoff: self.last_backoff,
            backoff_count: self.backoff_count,
        }
    }
}
