//! Additive increase with adaptive backoff: [CC14] §IV eq. (1)–(4).
//!
//! n flows share a link; flow i has the round-trip propagation delay T_i and
//! sends s_i = w_i/T_i packets per second. A *network backoff event* is an
//! instant at which at least one flow reduces its tokens. Queueing is
//! negligible or the link lossy enough, and all flows see an event at once.
//!
//! Symbols: α increase in packets per round trip, α̃ = α/T² in packets/s²,
//! β factor at an event, T(k) seconds between events k−1 and k.

use crate::{Domain, ModelError};

const BETA: Domain = Domain::closed(0.0, 1.0).above();
const ALPHA: Domain = Domain::closed(0.0, 1e6).above();
const RATE: Domain = Domain::closed(0.0, 1e12);
const INTERVAL: Domain = Domain::closed(0.0, 1e6);
const PACKETS: Domain = Domain::closed(0.0, 1e15);

/// How a flow increases: α packets per round trip of T seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Increase {
    /// α in packets per round trip, above 0.
    pub alpha: f64,
    /// T_i, the round-trip propagation delay in seconds, above 0.
    pub rtt: f64,
}

impl Increase {
    /// α̃ = α/T² in packets/s².
    ///
    /// # Errors
    /// α or T out of range.
    pub fn per_second_squared(self) -> Result<f64, ModelError> {
        let alpha = ALPHA.check("alpha", self.alpha)?;
        let rtt = Domain::SECONDS.check("rtt", self.rtt)?;
        Ok(alpha / (rtt * rtt))
    }
}

/// β = RTT_min/RTT, in (0, 1]: [CC14] §IV eq. (1).
///
/// Times in seconds. An empty queue gives 1, a full queue of one
/// bandwidth-delay product 0.5.
///
/// # Errors
/// A time out of range, or `rtt` below its own minimum.
pub fn backoff_factor(rtt_min: f64, rtt: f64) -> Result<f64, ModelError> {
    Domain::SECONDS.check("rtt_min", rtt_min)?;
    Domain::SECONDS.check("rtt", rtt)?;
    if rtt < rtt_min {
        return Err(ModelError::TooSmall {
            name: "rtt",
            value: rtt,
            least: rtt_min,
            why: "the smallest round trip seen",
        });
    }
    Ok(rtt_min / rtt)
}

/// s(k) = β̃·s(k−1) + α̃·T(k), packets/s: [CC14] §IV eq. (2).
///
/// With means in place of β̃, s and T(k) it is eq. (3), which holds where β̃ and
/// s are independent.
///
/// # Errors
/// A value out of range: β̃ in (0, 1], s and T(k) not negative.
pub fn rate_at_event(
    beta: f64,
    rate_before: f64,
    increase: Increase,
    interval: f64,
) -> Result<f64, ModelError> {
    let beta = BETA.check("beta", beta)?;
    let rate_before = RATE.check("rate", rate_before)?;
    let interval = INTERVAL.check("interval", interval)?;
    Ok(beta * rate_before + increase.per_second_squared()? * interval)
}

/// N(t) = β̃·s·t + ½·α̃·t², packets that a flow sends in t seconds after an event:
/// [CC14] §IV, as corrected by E-CC14-03.
///
/// # Errors
/// As [`rate_at_event`].
pub fn packets_in_interval(
    beta: f64,
    rate_before: f64,
    increase: Increase,
    interval: f64,
) -> Result<f64, ModelError> {
    let beta = BETA.check("beta", beta)?;
    let rate_before = RATE.check("rate", rate_before)?;
    let t = INTERVAL.check("interval", interval)?;
    Ok(beta * rate_before * t + 0.5 * increase.per_second_squared()? * t * t)
}

/// Prob(T(k) ≤ t) = 1 − (1−p)^N_t: [CC14] §IV.
///
/// `packets` is N_t, the sum of [`packets_in_interval`] over the flows; losses
/// are independent.
///
/// # Errors
/// p outside [0, 1] or a negative number of packets.
pub fn event_probability(p: f64, packets: f64) -> Result<f64, ModelError> {
    let p = Domain::PROBABILITY.check("p", p)?;
    let packets = PACKETS.check("packets", packets)?;
    Ok(1.0 - (1.0 - p).powf(packets))
}

/// γ = (1−p)^(s·T), the probability that a flow does not back off at an event:
/// [CC14] §IV, for many flows (E-CC14-02).
///
/// # Errors
/// p outside [0, 1], s negative, T out of range.
pub fn no_backoff_probability(p: f64, rate: f64, rtt: f64) -> Result<f64, ModelError> {
    let p = Domain::PROBABILITY.check("p", p)?;
    let rate = RATE.check("rate", rate)?;
    let rtt = Domain::SECONDS.check("rtt", rtt)?;
    Ok((1.0 - p).powf(rate * rtt))
}

/// E[s] = α̃/(1 − E[β̃])·E[T], packets/s: [CC14] §IV eq. (4).
///
/// The fixed point of eq. (3). E[T] is common to all flows of a link.
///
/// # Errors
/// E[β̃] outside (0, 1): a flow that never backs off has no mean.
pub fn mean_rate(
    increase: Increase,
    beta_mean: f64,
    interval_mean: f64,
) -> Result<f64, ModelError> {
    let beta = BETA.below().check("beta_mean", beta_mean)?;
    let interval = INTERVAL.check("interval_mean", interval_mean)?;
    Ok(increase.per_second_squared()? / (1.0 - beta) * interval)
}

/// E[s_i]/E[s_j] = (T_j/T_i)² of flows with the same E[β̃]: [CC14] §IV, from
/// eq. (4).
///
/// # Errors
/// A time out of range.
pub fn rate_ratio_by_rtt(rtt: f64, rtt_other: f64) -> Result<f64, ModelError> {
    let rtt = Domain::SECONDS.check("rtt", rtt)?;
    let other = Domain::SECONDS.check("rtt_other", rtt_other)?;
    Ok((other / rtt).powi(2))
}

/// β = T/(T + q_max/B) = 1/(1+q): the factor when a drop-tail queue of `queue_bdp`
/// bandwidth-delay products is full. [CC14] §IV.
///
/// # Errors
/// A negative queue.
pub fn full_queue_factor(queue_bdp: f64) -> Result<f64, ModelError> {
    let queue = Domain::closed(0.0, 1e6).check("queue_bdp", queue_bdp)?;
    Ok(1.0 / (1.0 + queue))
}

/// E[s_i]/E[s_j] = (1 − β_j)/(1 − β_i) of flows with the same T: [CC14] §IV, from
/// eq. (4).
///
/// With β_i = 0.5 it is 2(1 − β_j), standard TCP beside an adaptive flow on a
/// link that loses by overflow alone.
///
/// # Errors
/// β_i outside (0, 1) or β_j outside (0, 1].
pub fn rate_ratio_by_backoff(beta: f64, beta_other: f64) -> Result<f64, ModelError> {
    let beta = BETA.below().check("beta", beta)?;
    let other = BETA.check("beta_other", beta_other)?;
    Ok((1.0 - other) / (1.0 - beta))
}
