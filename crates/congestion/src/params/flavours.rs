//! Parameters that only one controller knows.

use ctcp_units::{Duration, millis, seconds};

use super::held;

/// Parameters of `sat`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SatParams {
    /// A backoff by this factor or a milder one leaves the clock of the increase
    /// running; 0.1 to 1. 1: every real reduction restarts it.
    pub beta_hold: f64,
    /// Scale the increase by 2(1 − β) with β held in `[0.5, 0.8]`, as H-TCP does.
    pub htcp_scaling: bool,
}

impl SatParams {
    /// `transport.md` §17.
    pub const fn papers() -> Self {
        Self {
            beta_hold: 0.95,
            htcp_scaling: false,
        }
    }

    pub(super) fn clamped(self) -> Self {
        Self {
            beta_hold: held(self.beta_hold, Self::papers().beta_hold, 0.1, 1.0),
            ..self
        }
    }
}

/// Parameters of `hybla`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HyblaParams {
    /// RTT_0: the round trip of the flow that it equals; 1 ms to 10 s. 25 ms in
    /// the paper; 50 ms is in use as well.
    pub rtt0: Duration,
    /// The first slow start ends at ρ times so many packets; 1 to infinity.
    ///
    /// At 500 ms an ACK adds 2^16 packets: without a threshold the first one
    /// opens the window to `max_tokens` and the path is flooded until the
    /// receiver's window stops it, as Linux does.
    pub ss_threshold: f64,
}

impl HyblaParams {
    /// RTT_0 = 25 ms, nothing ends the first slow start but a loss.
    pub const fn papers() -> Self {
        Self {
            rtt0: millis(25),
            ss_threshold: f64::INFINITY,
        }
    }

    /// With the threshold of the paper's own measurements, 65 535 bytes.
    pub(super) const fn product() -> Self {
        Self {
            ss_threshold: 45.0,
            ..Self::papers()
        }
    }

    pub(super) fn clamped(self) -> Self {
        Self {
            rtt0: self.rtt0.clamp(millis(1), seconds(10)),
            ss_threshold: held(self.ss_threshold, f64::INFINITY, 1.0, f64::INFINITY),
        }
    }
}

/// Which round-trip time Vegas takes for that of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VegasRtt {
    /// The smallest sample, as Linux: late ACKs do not count.
    #[default]
    RoundMin,
    /// The mean of all samples, as the paper and ns-2.
    RoundMean,
}

/// Parameters of `vegas`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VegasParams {
    /// α: with fewer packets queued the window grows; 0 to 1000.
    pub alpha: f64,
    /// β: with more packets queued the window shrinks; α to 1000.
    pub beta: f64,
    /// γ: with more packets queued slow start ends; 0 to 1000.
    pub gamma: f64,
    /// The sample it goes by.
    pub rtt: VegasRtt,
}

impl VegasParams {
    /// Linux's: α, β, γ = 2, 4, 1 and the smallest sample of a round.
    pub const fn linux() -> Self {
        Self {
            alpha: 2.0,
            beta: 4.0,
            gamma: 1.0,
            rtt: VegasRtt::RoundMin,
        }
    }

    /// The paper's and ns-2's: α, β, γ = 1, 3, 1 and the mean of a round.
    pub const fn ns2() -> Self {
        Self {
            alpha: 1.0,
            beta: 3.0,
            gamma: 1.0,
            rtt: VegasRtt::RoundMean,
        }
    }

    pub(super) fn clamped(self) -> Self {
        let linux = Self::linux();
        let alpha = held(self.alpha, linux.alpha, 0.0, 1000.0);
        Self {
            alpha,
            beta: held(self.beta, linux.beta, alpha, 1000.0).max(alpha),
            gamma: held(self.gamma, linux.gamma, 0.0, 1000.0),
            rtt: self.rtt,
        }
    }
}

/// What `mp12` compares a sample with (E-MP12-06).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mp12BaseRtt {
    /// The smallest sample of the path's life, as Vegas means it.
    #[default]
    RttMin,
    /// The smoothed mean, as printed. It has no equilibrium: the mean follows the
    /// queue, and the window grows for ever.
    Srtt,
}

/// Parameters of `mp12`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mp12Params {
    /// α_v: below this share of queueing in the round trip the window grows; 0
    /// to 1.
    pub alpha_v: f64,
    /// β_v: above this share it shrinks; α_v to 1.
    pub beta_v: f64,
    /// What a sample is compared with.
    pub base_rtt: Mp12BaseRtt,
    /// Slow start ends when more than so many packets stand in the queue by the
    /// smallest sample of a round, 0 to 1000; `None`: by `ss_threshold` alone, as printed.
    pub ss_exit_backlog: Option<f64>,
}

impl Mp12Params {
    /// `transport.md` §17; the paper prints no values.
    pub const fn papers() -> Self {
        Self {
            alpha_v: 0.05,
            beta_v: 0.15,
            base_rtt: Mp12BaseRtt::RttMin,
            ss_exit_backlog: None,
        }
    }

    /// With the end of slow start that the authors' own program has: else
    /// nothing but an initial threshold keeps the window from flooding a path.
    pub(super) const fn product() -> Self {
        Self {
            ss_exit_backlog: Some(1.0),
            ..Self::papers()
        }
    }

    pub(super) fn clamped(self) -> Self {
        let papers = Self::papers();
        let alpha_v = held(self.alpha_v, papers.alpha_v, 0.0, 1.0);
        Self {
            alpha_v,
            beta_v: held(self.beta_v, papers.beta_v, alpha_v, 1.0).max(alpha_v),
            base_rtt: self.base_rtt,
            ss_exit_backlog: self
                .ss_exit_backlog
                .map(|packets| held(packets, 1.0, 0.0, 1000.0)),
        }
    }
}
