//! What can be set on a controller.

mod flavours;

use ctcp_units::Duration;

pub use flavours::{HyblaParams, Mp12BaseRtt, Mp12Params, SatParams, VegasParams, VegasRtt};

/// Which round-trip sample `cc14` takes for "the last" one when it backs off.
///
/// Delay that varies without a queue (Wi-Fi aggregation, cellular schedulers)
/// makes RTTmin/RTT < 1 on every random loss; [SAT] §IV saw WiMAX collapse the
/// window so. The minimum over a few samples hides variation that is shorter
/// than they span, and reports a standing queue all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JitterGuard {
    /// The last sample, as the papers do.
    #[default]
    Off,
    /// The smallest of the last so many samples, 1 to 16.
    LastSamples(u8),
    /// The smallest sample of the current and the previous round trip.
    LastRound,
}

/// How many packets an ACK counts for when the window grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AckCounting {
    /// All that it newly acknowledges, so that growth does not depend on how
    /// often the receiver answers.
    #[default]
    Packets,
    /// As many, but at most so many in slow start: appropriate byte counting
    /// with L packets (RFC 3465 §2.2).
    SlowStartUpTo(u64),
    /// One, whatever it acknowledges: RFC 5681 §3.1 with delayed ACKs, which
    /// halve the growth.
    Acks,
}

impl AckCounting {
    /// What an ACK of `packets` counts for in slow start.
    pub fn in_slow_start(self, packets: u64) -> u64 {
        match self {
            Self::Packets => packets,
            Self::SlowStartUpTo(limit) => packets.min(limit),
            Self::Acks => packets.min(1),
        }
    }

    /// What an ACK of `packets` counts for in congestion avoidance.
    pub fn in_avoidance(self, packets: u64) -> u64 {
        match self {
            Self::Packets | Self::SlowStartUpTo(_) => packets,
            Self::Acks => packets.min(1),
        }
    }
}

/// What a connection found out about a path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Remembered {
    /// Packets a second that it delivered.
    pub packets_per_second: f64,
    /// Smallest round trip.
    pub rtt: Duration,
}

/// Parameters of the controllers; each uses those it knows.
///
/// Values outside a field's range are held within it by [`Params::clamped`],
/// which every controller applies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Params {
    /// α: packets by which the window of `cc14`, `reno`, `westwood` and `tcp-cd`
    /// grows a round trip, and the least that `cc14-cubic` grows; above 0, at most
    /// 1000.
    pub alpha: f64,
    /// Factor by which `reno`, `hybla` and `compound` back off, and `tcp-cd` at a
    /// mark; 0.1 to 1.
    pub beta: f64,
    /// Tokens at the start and, unless `silence_tokens` says otherwise, after
    /// persistent silence; 1 to `max_tokens`.
    pub init_tokens: f64,
    /// Tokens after persistent silence, 1 to `init_tokens`; `None`: as at the
    /// start. TCP's loss window is 1 (RFC 5681 §3.1).
    pub silence_tokens: Option<f64>,
    /// No backoff and no threshold goes below this; 1 to `init_tokens`. Only
    /// `silence_tokens` may be smaller.
    pub min_tokens: f64,
    /// Tokens never exceed this. Without it a window that nothing bounds grows
    /// for ever.
    pub max_tokens: f64,
    /// Slow start ends above this many tokens; infinite: only a loss ends it.
    pub init_ss_threshold: f64,
    /// Whether a loss event ends slow start (`transport.md` §11.2, a reading).
    pub ss_exit_on_loss: bool,
    /// The sample `cc14` backs off by.
    pub jitter_guard: JitterGuard,
    /// How many packets an ACK counts for.
    pub ack_counting: AckCounting,
    /// Whether a growing delay ends slow start (HyStart++, RFC 9406), in every
    /// controller made of an increase and a backoff.
    pub hystart: bool,
    /// What `sat` alone knows.
    pub sat: SatParams,
    /// Whether `htcp` divides its growth by 0.1 s/RTTmin, as Linux does.
    pub htcp_rtt_scaling: bool,
    /// Whether `cubic` gives up room when a loss comes below the last W_max.
    pub cubic_fast_convergence: bool,
    /// What `hybla` alone knows.
    pub hybla: HyblaParams,
    /// β_N of `veno`: with so many packets queued a loss is congestion; 0 to
    /// 1000.
    pub veno_backlog: f64,
    /// What `vegas` alone knows.
    pub vegas: VegasParams,
    /// What `mp12` alone knows.
    pub mp12: Mp12Params,
    /// What an earlier connection knew of the path, for `auto`: it starts from half
    /// of it once the round trip is the same.
    pub resume: Option<Remembered>,
}

impl Params {
    /// The papers' values (`transport.md` §17): a window may shrink to one
    /// packet.
    pub const fn papers() -> Self {
        Self {
            alpha: 1.0,
            beta: 0.5,
            init_tokens: 10.0,
            silence_tokens: None,
            min_tokens: 1.0,
            max_tokens: 131_072.0,
            init_ss_threshold: f64::INFINITY,
            ss_exit_on_loss: true,
            jitter_guard: JitterGuard::Off,
            ack_counting: AckCounting::Packets,
            hystart: false,
            sat: SatParams::papers(),
            htcp_rtt_scaling: false,
            cubic_fast_convergence: true,
            hybla: HyblaParams::papers(),
            veno_backlog: 3.0,
            vegas: VegasParams::linux(),
            mp12: Mp12Params::papers(),
            resume: None,
        }
    }

    /// What a TCP sender starts from: the papers' values, but a window of one
    /// packet after a timeout and never less than two after a loss (RFC 5681
    /// §3.1).
    pub const fn tcp() -> Self {
        Self {
            silence_tokens: Some(1.0),
            min_tokens: 2.0,
            ..Self::papers()
        }
    }

    /// Tokens after persistent silence.
    pub(crate) fn after_silence(&self) -> f64 {
        self.silence_tokens.unwrap_or(self.init_tokens)
    }

    /// The same with every value held within its range; NaN becomes the papers'
    /// value.
    #[must_use]
    pub fn clamped(self) -> Self {
        let papers = Self::papers();
        let max_tokens = held(self.max_tokens, papers.max_tokens, 1.0, 1e9);
        let init_tokens = held(self.init_tokens, papers.init_tokens, 1.0, max_tokens);
        Self {
            alpha: held(self.alpha, papers.alpha, 1e-6, 1000.0),
            beta: held(self.beta, papers.beta, 0.1, 1.0),
            init_tokens,
            silence_tokens: self
                .silence_tokens
                .map(|tokens| held(tokens, 1.0, 1.0, init_tokens)),
            min_tokens: held(self.min_tokens, papers.min_tokens, 1.0, init_tokens),
            max_tokens,
            init_ss_threshold: held(
                self.init_ss_threshold,
                papers.init_ss_threshold,
                1.0,
                f64::INFINITY,
            ),
            ss_exit_on_loss: self.ss_exit_on_loss,
            jitter_guard: match self.jitter_guard {
                JitterGuard::LastSamples(count) => JitterGuard::LastSamples(count.clamp(1, 16)),
                other => other,
            },
            ack_counting: match self.ack_counting {
                AckCounting::SlowStartUpTo(limit) => AckCounting::SlowStartUpTo(limit.max(1)),
                other => other,
            },
            hystart: self.hystart,
            sat: self.sat.clamped(),
            htcp_rtt_scaling: self.htcp_rtt_scaling,
            cubic_fast_convergence: self.cubic_fast_convergence,
            hybla: self.hybla.clamped(),
            veno_backlog: held(self.veno_backlog, papers.veno_backlog, 0.0, 1000.0),
            vegas: self.vegas.clamped(),
            mp12: self.mp12.clamped(),
            resume: self.resume.filter(|remembered| {
                let rate = remembered.packets_per_second;
                rate.is_finite() && rate > 0.0 && !remembered.rtt.is_zero()
            }),
        }
    }
}

/// `value` within `[low, high]`; for NaN the papers' value, within it too.
fn held(value: f64, papers: f64, low: f64, high: f64) -> f64 {
    let value = if value.is_nan() { papers } else { value };
    value.clamp(low, high)
}

impl Default for Params {
    /// The papers' values, but never fewer than two tokens: a path that holds a
    /// single packet learns of its loss only by a probe timeout, as nothing
    /// later arrives to reveal the gap. [MP12] leaves the choice.
    ///
    /// And `cc14` backs off by the smallest sample of the last round, as the
    /// authors' own program did: by the last sample alone it leaves the link idle
    /// whenever few of the packets in flight happen to be lost. Simulated at
    /// 25 Mbit/s, 25 ms, share of the payload rate at 5 / 10 / 20 % loss: 0.94,
    /// 0.89, 0.80 by the last sample, 0.97, 0.95, 0.92 by the last round.
    ///
    /// And `hybla` keeps the threshold of the paper's measurements, and `mp12` the
    /// end of slow start of the authors' program: as printed, the first ACK of the
    /// one and the slow start of the other flood a path.
    fn default() -> Self {
        Self {
            min_tokens: 2.0,
            jitter_guard: JitterGuard::LastRound,
            hybla: HyblaParams::product(),
            mp12: Mp12Params::product(),
            ..Self::papers()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_lie_within_their_ranges() {
        assert_eq!(Params::default().clamped(), Params::default());
        assert_eq!(Params::papers().clamped(), Params::papers());
        assert_eq!(Params::tcp().clamped(), Params::tcp());
    }

    #[test]
    fn values_out_of_range_are_held_within_it() {
        let wild = Params {
            alpha: f64::NAN,
            beta: 7.0,
            init_tokens: 0.0,
            min_tokens: 50.0,
            max_tokens: f64::INFINITY,
            init_ss_threshold: -1.0,
            ss_exit_on_loss: true,
            jitter_guard: JitterGuard::LastSamples(0),
            silence_tokens: Some(-3.0),
            ack_counting: AckCounting::SlowStartUpTo(0),
            ..Params::papers()
        }
        .clamped();
        assert_eq!(wild.alpha, 1.0);
        assert_eq!(wild.beta, 1.0);
        assert_eq!((wild.init_tokens, wild.min_tokens), (1.0, 1.0));
        assert_eq!(wild.max_tokens, 1e9);
        assert_eq!(wild.init_ss_threshold, 1.0);
        assert_eq!(wild.jitter_guard, JitterGuard::LastSamples(1));
        assert_eq!(wild.silence_tokens, Some(1.0));
        assert_eq!(wild.ack_counting, AckCounting::SlowStartUpTo(1));
    }
}
