//! β = RTTmin/RTT: back off by what the queue holds, [CC14] §III eq. (1).

use ctcp_units::{Duration, PacketNumber};

use super::Backoff;
use crate::event::{AckEvent, EcnEvent, LossEvent, RttSummary};
use crate::params::JitterGuard;

/// Samples the jitter guard can remember.
const SAMPLES_MAX: usize = 16;

/// The factor for congestion marks is at most this , the value of RFC 8511 for Reno.
///
/// A mark, unlike a loss, is never chance, and routers mark long before a queue
/// moves the RTT: β = RTTmin/RTT alone would stay near 1 and the mark without
/// an answer.
const ECN_FACTOR_MAX: f64 = 0.8;

/// `tokens ← β·tokens` with β = RTTmin/RTT, RTTmin the smallest sample of the
/// path's lifetime and RTT the last one ([SAT] §II-B), or what the
/// [`JitterGuard`] makes of the last few.
///
/// An idle queue gives β = 1: random loss costs nothing. A drop-tail queue of
/// one bandwidth-delay product, full, gives β = ½: TCP's answer. In general
/// the queue is just empty after a backoff and the link stays busy.
///
/// Weakness: delay that varies without a queue looks like one. With a loss
/// event every round trip the window settles at 1/(1−β) packets ([SAT] §IV).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RttRatio {
    guard: JitterGuard,
    /// Ring of the last samples; `sample_count` tells how many were ever put.
    samples: [Duration; SAMPLES_MAX],
    sample_count: usize,
    round_end: PacketNumber,
    round_min: Option<Duration>,
    previous_round_min: Option<Duration>,
}

impl RttRatio {
    /// The rule with the given guard.
    pub const fn new(guard: JitterGuard) -> Self {
        Self {
            guard,
            samples: [Duration::ZERO; SAMPLES_MAX],
            sample_count: 0,
            round_end: PacketNumber(0),
            round_min: None,
            previous_round_min: None,
        }
    }

    /// β = rtt_min/rtt, in `(0, 1]`; 1 if `rtt` is not above `rtt_min`.
    pub fn ratio(rtt_min: Duration, rtt: Duration) -> f64 {
        if rtt <= rtt_min {
            return 1.0;
        }
        // The smallest positive number keeps a minimum of zero out of 0·tokens.
        (rtt_min.as_secs_f64() / rtt.as_secs_f64()).max(f64::MIN_POSITIVE)
    }

    fn factor(&self, rtt: &RttSummary) -> f64 {
        let guarded = match self.guard {
            JitterGuard::Off => None,
            JitterGuard::LastSamples(count) => self.smallest_of_last(usize::from(count)),
            JitterGuard::LastRound => smaller(self.round_min, self.previous_round_min),
        };
        let sample = smaller(guarded, Some(rtt.latest)).unwrap_or(rtt.latest);
        Self::ratio(rtt.rtt_min, sample)
    }

    fn smallest_of_last(&self, count: usize) -> Option<Duration> {
        let known = count.min(self.sample_count).min(SAMPLES_MAX);
        (1..=known)
            .map(|back| self.samples[(self.sample_count - back) % SAMPLES_MAX])
            .min()
    }

    fn remember(&mut self, sample: Duration, event: &AckEvent) {
        self.samples[self.sample_count % SAMPLES_MAX] = sample;
        // Kept below 2·SAMPLES_MAX: only the position and "full" matter.
        self.sample_count += 1;
        if self.sample_count == 2 * SAMPLES_MAX {
            self.sample_count = SAMPLES_MAX;
        }
        if event.newest_acked >= self.round_end {
            self.round_end = event.largest_sent.next();
            self.previous_round_min = self.round_min.take();
        }
        self.round_min = smaller(self.round_min, Some(sample));
    }
}

fn smaller(one: Option<Duration>, two: Option<Duration>) -> Option<Duration> {
    match (one, two) {
        (Some(one), Some(two)) => Some(one.min(two)),
        (one, two) => one.or(two),
    }
}

impl Backoff for RttRatio {
    fn on_ack(&mut self, event: &AckEvent) {
        if let Some(sample) = event.rtt_sample {
            self.remember(sample, event);
        }
    }

    fn on_loss(&mut self, _tokens: f64, event: &LossEvent) -> f64 {
        self.factor(&event.rtt)
    }

    fn on_ecn(&mut self, _tokens: f64, event: &EcnEvent) -> f64 {
        self.factor(&event.rtt).min(ECN_FACTOR_MAX)
    }

    fn on_path_change(&mut self) {
        *self = Self::new(self.guard);
    }
}
