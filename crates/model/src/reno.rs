//! TCP with independent losses: [MODEL] §IV eq. (1)–(17).
//!
//! A round lasts one RTT; every packet is acknowledged by itself. W grows by 1/W
//! an ACK; a triple duplicate (TD) halves it, a timeout (TO) sets it to 1. p is
//! the packet loss probability, r the number of rounds up to and including the
//! one with the loss, T_o the timeout in rounds.
//!
//! Eq. (1) defines throughput as a limit of packets over time and has no
//! function here; (3), (4), (6) and (7) are steps of the derivation of (8).

use core::str::FromStr;

use crate::surplus::named;
use crate::{Domain, ModelError};

const ROUNDS: Domain = Domain::closed(0.0, 1e6);

/// E[N] = (1−p)/p, packets delivered between two TD events: [MODEL] §IV eq. (2).
///
/// # Errors
/// p outside (0, 1].
pub fn packets_between_losses(p: f64) -> Result<f64, ModelError> {
    // 1/p of a subnormal p would be infinite.
    let p = Domain::SOME_LOSS.check("p", p)?.max(f64::MIN_POSITIVE);
    Ok((1.0 - p) / p)
}

/// E[r] = 2/3 + sqrt(−1/18 + (2/3)(1−p)/p), rounds up to a loss: [MODEL] §IV
/// eq. (9).
///
/// The radicand is negative above p = 12/13, which the paper does not say; it
/// is clamped at 0 there (E-MODEL-13).
///
/// # Errors
/// p outside (0, 1].
pub fn rounds_to_loss(p: f64) -> Result<f64, ModelError> {
    let radicand = -1.0 / 18.0 + 2.0 / 3.0 * packets_between_losses(p)?;
    Ok(2.0 / 3.0 + radicand.max(0.0).sqrt())
}

/// E[Δ] = RTT·(E[r]+1), seconds between two losses: [MODEL] §IV eq. (3).
///
/// # Errors
/// p outside (0, 1] or RTT out of range.
pub fn seconds_between_losses(p: f64, rtt: f64) -> Result<f64, ModelError> {
    Ok(Domain::SECONDS.check("rtt", rtt)? * (rounds_to_loss(p)? + 1.0))
}

/// E[W_{j+r−1}] = 2(E[r] − ¾), the window in the round with the loss: [MODEL] §IV
/// eq. (5).
///
/// # Errors
/// p outside (0, 1].
pub fn window_at_loss(p: f64) -> Result<f64, ModelError> {
    Ok(2.0 * (rounds_to_loss(p)? - 0.75))
}

/// E[W_j] = E[r] − ½, the window after a reduction: [MODEL] §IV eq. (5).
///
/// # Errors
/// p outside (0, 1].
pub fn window_after_loss(p: f64) -> Result<f64, ModelError> {
    Ok(rounds_to_loss(p)? - 0.5)
}

/// The right side of [MODEL] §IV eq. (8) minus its left side,
/// (3/2)(E[r]−1)² + E[r] − ¾ − (1−p)/p: 0 where (9) solves it.
///
/// # Errors
/// p outside (0, 1].
pub fn balance(p: f64) -> Result<f64, ModelError> {
    let r = rounds_to_loss(p)?;
    Ok(1.5 * (r - 1.0).powi(2) + (r - 0.75) - packets_between_losses(p)?)
}

/// E[W] = (3/2)·E[r] − 1, the mean window: [MODEL] §IV eq. (10), (11).
///
/// Below 1, and so no window any more, for p > 4/7.
///
/// # Errors
/// p outside (0, 1].
pub fn window_mean(p: f64) -> Result<f64, ModelError> {
    Ok(1.5 * rounds_to_loss(p)? - 1.0)
}

/// 𝒯' = (1−p)/p · 1/(RTT(E[r]+1)), packets/s without timeouts or a window limit:
/// [MODEL] §IV eq. (12).
///
/// Tends to sqrt(3/(2p))/RTT for small p; for large p to (1−p)/p/RTT times
/// 1/(E[r]+1), a factor near 3/5 that the paper lacks (E-MODEL-06).
///
/// # Errors
/// p outside (0, 1] or RTT out of range.
pub fn rate_unlimited(p: f64, rtt: f64) -> Result<f64, ModelError> {
    Ok(packets_between_losses(p)? / seconds_between_losses(p, rtt)?)
}

/// 𝒯 = min(W_max/RTT, 𝒯'), packets/s without timeouts: [MODEL] §IV eq. (13).
///
/// # Errors
/// p outside [0, 1] or another value out of range.
pub fn rate_without_timeouts(p: f64, rtt: f64, window_max: f64) -> Result<f64, ModelError> {
    let most =
        Domain::WINDOW.check("window_max", window_max)? / Domain::SECONDS.check("rtt", rtt)?;
    if p == 0.0 {
        return Ok(most);
    }
    Ok(most.min(rate_unlimited(p, rtt)?))
}

/// How the real E[W] of (11) enters (14), which needs a whole number (E-MODEL-03).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowReading {
    /// Rounded to the nearest, half up: the only one of E[W] that, with rounding
    /// up, gives Table I.
    Nearest,
    /// Rounded up.
    Up,
    /// Rounded down.
    Down,
    /// Kept real, as printed.
    Real,
    /// The window at the loss, 2(E[r] − ¾), rounded down: also near Table I, but
    /// the text names E[W].
    PeakDown,
}

/// Whether P(TO|W) already stands for the first timeout (E-MODEL-05).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DurationReading {
    /// (15) as printed: p times Padhye's mean duration, p counted twice.
    Printed,
    /// Padhye's mean duration, given that a timeout occurs: the print over p.
    Conditional,
}

/// The readings that (17) depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// W in (14).
    pub window: WindowReading,
    /// The duration in (15).
    pub duration: DurationReading,
}

impl Default for Reading {
    /// What reproduces Table I.
    fn default() -> Self {
        Self::NEAREST
    }
}

impl Reading {
    const NEAREST: Self = Self::printed(WindowReading::Nearest);

    /// Those that have a name. The rest can be composed.
    pub const ALL: [Self; 6] = [
        Self::NEAREST,
        Self::printed(WindowReading::Up),
        Self::printed(WindowReading::Down),
        Self::printed(WindowReading::Real),
        Self::printed(WindowReading::PeakDown),
        Self {
            window: WindowReading::Nearest,
            duration: DurationReading::Conditional,
        },
    ];

    const fn printed(window: WindowReading) -> Self {
        Self {
            window,
            duration: DurationReading::Printed,
        }
    }

    /// What users type.
    pub const fn name(self) -> &'static str {
        match (self.duration, self.window) {
            (DurationReading::Conditional, _) => "conditional",
            (_, WindowReading::Nearest) => "nearest",
            (_, WindowReading::Up) => "up",
            (_, WindowReading::Down) => "down",
            (_, WindowReading::Real) => "real",
            (_, WindowReading::PeakDown) => "peak-down",
        }
    }

    /// The window that (14) sees at this p.
    fn window(self, p: f64) -> Result<f64, ModelError> {
        let window = match self.window {
            WindowReading::Nearest => (window_mean(p)? + 0.5).floor(),
            WindowReading::Up => window_mean(p)?.ceil(),
            WindowReading::Down => window_mean(p)?.floor(),
            WindowReading::Real => window_mean(p)?,
            WindowReading::PeakDown => window_at_loss(p)?.floor(),
        };
        // Near p = 12/13 the formulas leave what windows can be (E-MODEL-13).
        Ok(window.max(0.0))
    }
}

impl FromStr for Reading {
    type Err = ModelError;

    fn from_str(name: &str) -> Result<Self, ModelError> {
        named(&Self::ALL, Self::name, name)
    }
}

/// P(TO|W), the probability that a loss in a window of W packets ends in a
/// timeout: [MODEL] §IV eq. (14).
///
/// 1 for W < 3, else Σ_{i=0}^{2} binom(W,i)·p^{W−i}·(1−p)^i: fewer than three
/// packets arrive to cause duplicates. binom(W,i) is meant for a whole W and
/// continued for a real one.
///
/// # Errors
/// p outside [0, 1] or W negative.
pub fn timeout_probability(window: f64, p: f64) -> Result<f64, ModelError> {
    let w = Domain::closed(0.0, 1e9).check("window", window)?;
    let p = Domain::PROBABILITY.check("p", p)?;
    if w < 3.0 {
        return Ok(1.0);
    }
    let arrived = 1.0 - p;
    let sum = p.powf(w)
        + w * p.powf(w - 1.0) * arrived
        + w * (w - 1.0) / 2.0 * p.powf(w - 2.0) * arrived * arrived;
    Ok(sum.min(1.0))
}

/// E[TO duration] in rounds, closed form: [MODEL] §IV eq. (16).
///
/// (1−p)·T_o·[p + 3p² + 7p³ + 15p⁴ + 31p⁵ + 63p⁶/(1−p) + 64p⁷/(1−p)²]; the timeout
/// doubles up to 64·T_o.
///
/// # Errors
/// p outside [0, 1), where the sum converges, or T_o out of range.
pub fn timeout_rounds_mean(
    p: f64,
    timeout_rounds: f64,
    reading: DurationReading,
) -> Result<f64, ModelError> {
    let p = Domain::LOSS.check("p", p)?;
    let to = ROUNDS.check("timeout_rounds", timeout_rounds)?;
    let q = 1.0 - p;
    // Divided by p once, so that the conditional one has its value at p = 0.
    let over_p =
        1.0 + p * (3.0 + p * (7.0 + p * (15.0 + p * (31.0 + p * (63.0 / q + p * 64.0 / (q * q))))));
    let conditional = q * to * over_p;
    Ok(match reading {
        DurationReading::Printed => p * conditional,
        DurationReading::Conditional => conditional,
    })
}

/// The first `terms` terms of the series of [MODEL] §IV eq. (15), in rounds; for
/// checking (16).
///
/// # Errors
/// As [`timeout_rounds_mean`].
pub fn timeout_rounds_series(p: f64, timeout_rounds: f64, terms: u32) -> Result<f64, ModelError> {
    let p = Domain::LOSS.check("p", p)?;
    let to = ROUNDS.check("timeout_rounds", timeout_rounds)?;
    let mut power = 1.0;
    let mut sum = 0.0;
    for k in 1..=terms {
        power *= p;
        let timeouts = if k <= 6 {
            f64::from((1u32 << k) - 1)
        } else {
            63.0 + 64.0 * f64::from(k - 6)
        };
        sum += timeouts * power;
    }
    Ok((1.0 - p) * to * sum)
}

/// The connection that (17) describes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Connection {
    /// RTT in seconds.
    pub rtt: f64,
    /// W_max in packets.
    pub window_max: f64,
    /// T_o in rounds ("3/RTT" in the paper is 3 s over 0.8 s, E-MODEL-14).
    pub timeout_rounds: f64,
    /// Rounds that the sender idles at a TD event.
    pub idle_rounds_td: f64,
    /// Rounds that it idles at a TO event on top of the timeout.
    pub idle_rounds_to: f64,
}

impl Connection {
    /// RTT 0.8 s, W_max 90, T_o 3.75 rounds, no idle time: [MODEL] §VII.
    pub const SECTION_VII: Self = Self {
        rtt: 0.8,
        window_max: 90.0,
        timeout_rounds: 3.75,
        idle_rounds_td: 0.0,
        idle_rounds_to: 0.0,
    };

    /// The same with two rounds of idle time at each TD and each TO event, as
    /// Table I needs (E-MODEL-04).
    pub const fn idling(self) -> Self {
        Self {
            idle_rounds_td: 2.0,
            idle_rounds_to: 2.0,
            ..self
        }
    }
}

/// 𝒯 of TCP in packets/s with timeouts: [MODEL] §IV eq. (17).
///
/// min(W_max/RTT, (1−p)/p · 1/(RTT·(E[r] + 1 + P(TO|E[W])·E[TO duration]))), with
/// the idle rounds of [MODEL] §VII added to E[r]+1 and to the TO duration. p = 0
/// gives W_max/RTT, p = 1 gives 0.
///
/// # Errors
/// p outside [0, 1] or a value of the connection out of range.
pub fn rate(p: f64, tcp: Connection, reading: Reading) -> Result<f64, ModelError> {
    let p = Domain::PROBABILITY.check("p", p)?;
    let rtt = Domain::SECONDS.check("rtt", tcp.rtt)?;
    let most = Domain::WINDOW.check("window_max", tcp.window_max)? / rtt;
    let idle_td = ROUNDS.check("idle_rounds_td", tcp.idle_rounds_td)?;
    let idle_to = ROUNDS.check("idle_rounds_to", tcp.idle_rounds_to)?;
    ROUNDS.check("timeout_rounds", tcp.timeout_rounds)?;
    if p == 0.0 {
        return Ok(most);
    }
    if p == 1.0 {
        return Ok(0.0);
    }
    let timeout = timeout_rounds_mean(p, tcp.timeout_rounds, reading.duration)? + idle_to;
    let timeouts = timeout_probability(reading.window(p)?, p)? * timeout;
    let rounds = rounds_to_loss(p)? + 1.0 + idle_td + timeouts;
    Ok(most.min(packets_between_losses(p)? / (rtt * rounds)))
}

/// P(TO|E[W]) as (17) uses it, with W read as `reading` says.
///
/// # Errors
/// p outside (0, 1].
pub fn timeout_probability_at(p: f64, reading: Reading) -> Result<f64, ModelError> {
    timeout_probability(reading.window(p)?, p)
}
