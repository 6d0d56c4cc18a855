//! TCP/NC, coded end to end (E2E): [MODEL] §V and §VI, eq. (18)–(31).
//!
//! Coding hides losses from TCP, so the window never shrinks while the path is
//! up. R is the redundancy factor, packets sent per packet of data; R ≥ 1/(1−p)
//! is assumed and R = 1/(1−p) the best. n is a number of rounds, SRTT the
//! smoothed round-trip time in seconds.

use core::str::FromStr;

use crate::surplus::named;
use crate::{Domain, ModelError};

/// Rounds to look at. Real where a mean number of rounds is put in.
const ROUNDS: Domain = Domain::closed(0.0, 1e12).above();

/// The window of a TCP/NC connection: where it starts and where it stops.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Windows {
    /// E[W_1] in packets.
    pub first: f64,
    /// W_max in packets, at least E[W_1].
    pub max: f64,
}

impl Windows {
    /// From 1 to 90 packets: [MODEL] §VII.
    pub const SECTION_VII: Self = Self {
        first: 1.0,
        max: 90.0,
    };

    fn check(self) -> Result<Self, ModelError> {
        Domain::WINDOW.check("window_first", self.first)?;
        Domain::WINDOW.check("window_max", self.max)?;
        if self.max < self.first {
            return Err(ModelError::TooSmall {
                name: "window_max",
                value: self.max,
                least: self.first,
                why: "the first window",
            });
        }
        Ok(self)
    }

    /// r* = (W_max − E[W_1])/(1−p), rounds until the window is full.
    ///
    /// # Errors
    /// p outside [0, 1), a window below 1, or W_max below E[W_1].
    pub fn rounds_to_full(self, p: f64) -> Result<f64, ModelError> {
        let p = Domain::LOSS.check("p", p)?;
        let Self { first, max } = self.check()?;
        Ok((max - first) / (1.0 - p))
    }

    /// E[W_i] = min(W_max, E[W_1] + i(1−p)): [MODEL] §V eq. (19).
    ///
    /// As printed; unrolling (18) would give i−1 in place of i (E-MODEL-01).
    ///
    /// # Errors
    /// As [`Windows::rounds_to_full`]; i negative.
    pub fn at_round(self, round: f64, p: f64) -> Result<f64, ModelError> {
        let round = Domain::closed(0.0, 1e12).check("round", round)?;
        let p = Domain::LOSS.check("p", p)?;
        let Self { first, max } = self.check()?;
        Ok(max.min(first + round * (1.0 - p)))
    }
}

/// E[W_i] = E[W_{i−1}] + (1−p): [MODEL] §V eq. (18), one step without the limit.
///
/// # Errors
/// p outside [0, 1) or a window below 1.
pub fn window_step(window: f64, p: f64) -> Result<f64, ModelError> {
    let p = Domain::LOSS.check("p", p)?;
    Ok(Domain::WINDOW.check("window", window)? + (1.0 - p))
}

/// How the sum over rounds in (26)–(28) is read (E-MODEL-02).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// f of (28) as printed, the same as (31): beyond r* it falls by
    /// W_max − E[W_1]. Table I supports it.
    Printed,
    /// Σ_{i=1}^n E[W_i] of (27), without the jump.
    Sum,
    /// Σ_{i=0}^{n−1}: what the second printed branch sums.
    SumFromZero,
}

impl Reading {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Printed, Self::Sum, Self::SumFromZero];

    /// What users type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Printed => "printed",
            Self::Sum => "sum",
            Self::SumFromZero => "sum-from-0",
        }
    }
}

impl FromStr for Reading {
    type Err = ModelError;

    fn from_str(name: &str) -> Result<Self, ModelError> {
        named(&Self::ALL, Self::name, name)
    }
}

/// f(n), the windows of n rounds added up, in packets: [MODEL] §V eq. (28).
///
/// n·E[W_1] + (1−p)n(n+1)/2 for n ≤ r*, else
/// n·W_max − r*(W_max − E[W_1]) + (1−p)r*(r*−1)/2; or a sum, by `reading`.
///
/// # Errors
/// As [`Windows::rounds_to_full`]; n not positive, or not whole in a sum.
pub fn packets_in_rounds(
    rounds: f64,
    p: f64,
    windows: Windows,
    reading: Reading,
) -> Result<f64, ModelError> {
    let n = ROUNDS.check("rounds", rounds)?;
    let full = windows.rounds_to_full(p)?;
    let Windows { first, max } = windows;
    let growing = |n: f64| n * first + (1.0 - p) * n * (n + 1.0) / 2.0;
    // Σ_{i=1}^n: growing up to the last round below r*, full from there on.
    let sum = |n: f64| {
        let before = n.min(full.floor());
        growing(before) + (n - before) * max
    };
    if reading != Reading::Printed {
        let whole = Domain::whole(1, u32::MAX);
        whole.check("rounds", n)?;
    }
    Ok(match reading {
        Reading::Printed if n <= full => growing(n),
        Reading::Printed => n * max - full * (max - first) + (1.0 - p) * full * (full - 1.0) / 2.0,
        Reading::Sum => sum(n),
        Reading::SumFromZero => first + sum(n - 1.0),
    })
}

/// f(n) in the form of [MODEL] §VI eq. (31), algebraically the same as (28).
///
/// # Errors
/// As [`packets_in_rounds`].
pub fn packets_in_rounds_31(rounds: f64, p: f64, windows: Windows) -> Result<f64, ModelError> {
    let n = ROUNDS.check("rounds", rounds)?;
    let full = windows.rounds_to_full(p)?;
    let gap = windows.max - windows.first;
    Ok(if n <= full {
        n * windows.first + (1.0 - p) * n * (n + 1.0) / 2.0
    } else {
        n * windows.max - gap * gap / (1.0 - p) + 0.5 * gap * (gap / (1.0 - p) - 1.0)
    })
}

/// 1/(1−p), the smallest redundancy factor that hides losses from TCP, and the
/// best: [MODEL] §V.
///
/// # Errors
/// p outside [0, 1).
pub fn redundancy_least(p: f64) -> Result<f64, ModelError> {
    Ok(1.0 / (1.0 - Domain::LOSS.check("p", p)?))
}

/// How a connection codes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Coding {
    /// R, packets sent per packet of data; at least [`redundancy_least`], or
    /// losses reach TCP and the model does not hold. Equations here only need
    /// R ≥ 1; see [`Coding::hides_losses`].
    pub redundancy: f64,
    /// SRTT in seconds.
    pub srtt: f64,
}

impl Coding {
    /// The coding itself if R ≥ 1/(1−p).
    ///
    /// # Errors
    /// [`ModelError::TooSmall`] with the least R otherwise.
    pub fn hides_losses(self, p: f64) -> Result<Self, ModelError> {
        let least = redundancy_least(p)?;
        // R = 1/(1−p) typed with few digits is meant to be enough.
        if self.redundancy < least * (1.0 - 1e-4) {
            return Err(ModelError::TooSmall {
                name: "redundancy",
                value: self.redundancy,
                least,
                why: "1/(1−p), or losses reach TCP",
            });
        }
        Ok(self)
    }

    /// (1−p)/(R·SRTT), packets/s per packet of window.
    ///
    /// Discounts both by what arrives and by what is new, so at R = 1/(1−p) it
    /// stays below the achievable min(1/R, 1−p)/SRTT; kept as printed
    /// (E-MODEL-12).
    fn rate_per_window(self, p: f64) -> Result<f64, ModelError> {
        let p = Domain::LOSS.check("p", p)?;
        let redundancy = Domain::closed(1.0, 1e6).check("redundancy", self.redundancy)?;
        let srtt = Domain::SECONDS.check("srtt", self.srtt)?;
        Ok((1.0 - p) / (redundancy * srtt))
    }
}

/// 𝒯_i = (1−p)/(R·SRTT)·E[W_i], packets/s in round i: [MODEL] §V eq. (23).
///
/// With E[W_i] = W_max it is also the limit of (28) for n → ∞.
///
/// # Errors
/// A value out of range; R below 1.
pub fn rate_at_round(
    round: f64,
    p: f64,
    windows: Windows,
    coding: Coding,
) -> Result<f64, ModelError> {
    Ok(coding.rate_per_window(p)? * windows.at_round(round, p)?)
}

/// 𝒯_e2e = (1−p)/(n·R·SRTT)·f(n), packets/s averaged over n rounds: [MODEL] §V
/// eq. (26)–(28).
///
/// Table I and Fig. 12 show this one (E-MODEL-17).
///
/// # Errors
/// A value out of range; R below 1.
pub fn rate_mean(
    rounds: f64,
    p: f64,
    windows: Windows,
    coding: Coding,
    reading: Reading,
) -> Result<f64, ModelError> {
    let packets = packets_in_rounds(rounds, p, windows, reading)?;
    Ok(coding.rate_per_window(p)? * packets / rounds)
}

/// SRTT = RTT + t_p·p/(1−p), seconds: [MODEL] §V eq. (25).
///
/// t_p is the transmission time of a packet in seconds. Far below what the
/// paper's simulation shows, most of which is store-and-forward (E-MODEL-10).
///
/// # Errors
/// p outside [0, 1) or a time out of range.
pub fn smoothed_rtt(rtt: f64, packet_time: f64, p: f64) -> Result<f64, ModelError> {
    let rtt = Domain::SECONDS.check("rtt", rtt)?;
    let packet_time = Domain::SECONDS.check("packet_time", packet_time)?;
    let p = Domain::LOSS.check("p", p)?;
    Ok(rtt + packet_time * p / (1.0 - p))
}

/// Σ_{i<terms} (RTT + i·t_p)·p^i·(1−p), seconds: [MODEL] §V eq. (24), for checking
/// (25).
///
/// # Errors
/// As [`smoothed_rtt`].
pub fn smoothed_rtt_series(
    rtt: f64,
    packet_time: f64,
    p: f64,
    terms: u32,
) -> Result<f64, ModelError> {
    smoothed_rtt(rtt, packet_time, p)?;
    let mut power = 1.0 - p;
    let mut sum = 0.0;
    for i in 0..terms {
        sum += (rtt + f64::from(i) * packet_time) * power;
        power *= p;
    }
    Ok(sum)
}

/// Packets until the window reaches W, by several ways of counting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    /// T(W) = W(W−1)/(2(1−p)), the states before S(W): [MODEL] §V eq. (22).
    pub packets: f64,
    /// The number of these states, W(W−1)/2.
    pub states: f64,
    /// (21) literally, S(W) included: one state more than (22) (E-MODEL-07).
    pub packets_inclusive: f64,
    /// (W²−1)/(2(1−p)), the area under Fig. 5, said to equal T(W) (E-MODEL-08).
    pub area: f64,
    /// (W−1)(W+p)/(2(1−p)), the sum over whole rounds; T(W) only at p = 0
    /// (E-MODEL-08).
    pub rounds_sum: f64,
    /// Rounds to W, (W−1)/(1−p), from (19).
    pub rounds: f64,
    /// Increments of a window that really grows by 1/W each.
    pub increments_exact: f64,
    /// These over 1−p: 1.1 % more than T(W) at W = 90.
    pub packets_exact: f64,
}

/// The Markov chain of [MODEL] §V: a packet that arrives advances the window by
/// 1/W, a lost one does not.
///
/// # Errors
/// W not a whole number in 1…2000, or p outside [0, 1).
pub fn growth(window: u32, p: f64) -> Result<Growth, ModelError> {
    let w = Domain::whole(1, 2000).check("window", f64::from(window))?;
    let per_state = redundancy_least(p)?;
    let states = w * (w - 1.0) / 2.0;
    let increments_exact = f64::from(increments(w));
    Ok(Growth {
        packets: states * per_state,
        states,
        packets_inclusive: (states + 1.0) * per_state,
        area: (w * w - 1.0) / 2.0 * per_state,
        rounds_sum: (w - 1.0) * (w + p) / 2.0 * per_state,
        rounds: (w - 1.0) * per_state,
        increments_exact,
        packets_exact: increments_exact * per_state,
    })
}

/// Steps of 1/w that take a window from 1 to `target`; about target²/2.
fn increments(target: f64) -> u32 {
    let (mut w, mut count) = (1.0, 0);
    while w < target - 1e-12 {
        w += 1.0 / w;
        count += 1;
    }
    count
}

/// N(1,:) = [1/(1−p), …], the first row of the fundamental matrix (I−Q)^{−1} of a
/// chain of `states` transient states: [MODEL] §V eq. (20).
///
/// Solved from x(I−Q) = e_1, with p on Q's diagonal and 1−p above it.
///
/// # Errors
/// No state or more than two million, or p outside [0, 1).
pub fn fundamental_row(states: u32, p: f64) -> Result<Vec<f64>, ModelError> {
    Domain::whole(1, 2_000_000).check("states", f64::from(states))?;
    let p = Domain::LOSS.check("p", p)?;
    let mut visits = 1.0 / (1.0 - p);
    let mut row = vec![visits];
    for _ in 1..states {
        visits = visits * (1.0 - p) / (1.0 - p);
        row.push(visits);
    }
    Ok(row)
}

/// E[r_up] = (1−p_d)/p_d, rounds that the path stays up: [MODEL] §VI.
///
/// Counts from 0, so empty periods are possible (E-MODEL-15). In the down-state
/// (29)–(31) are 0; in the up-state (29) is [`crate::reno::rate`] and (30) is
/// [`rate_mean`] with n = E[r_up].
///
/// # Errors
/// p_d outside (0, 1].
pub fn rounds_up(p_down: f64) -> Result<f64, ModelError> {
    let p_down = Domain::SOME_LOSS.check("p_down", p_down)?;
    Ok((1.0 - p_down) / p_down)
}

/// E[r_down] = p_d/(1−p_d), rounds that the path stays down: [MODEL] §VI.
///
/// # Errors
/// p_d outside [0, 1).
pub fn rounds_down(p_down: f64) -> Result<f64, ModelError> {
    let p_down = Domain::LOSS.check("p_down", p_down)?;
    Ok(p_down / (1.0 - p_down))
}
