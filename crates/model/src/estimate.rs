//! The loss filters of [MP12] Algorithm 1, as equations.
//!
//! x ← (1−μ)·x + μ·z takes one datum a packet: z = 1 lost, 0 acknowledged. An
//! ACK that shows L losses stands for L + 1 data.

use core::str::FromStr;

use crate::surplus::named;
use crate::{Domain, ModelError};

const GAIN: Domain = Domain::closed(0.0, 1.0).above();
const LOSSES: Domain = Domain::whole(0, 1_000_000_000);

/// In which order an ACK's success and the losses before it are filtered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The success first, as printed: the mean at ACK instants is exactly p.
    Printed,
    /// The losses first, as they happened: the mean is (1−μ)·p, because it is
    /// always read just after a success (E-MP12-03).
    Chronological,
}

impl Order {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Printed, Self::Chronological];

    /// What users type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Printed => "printed",
            Self::Chronological => "chronological",
        }
    }
}

impl FromStr for Order {
    type Err = ModelError;

    fn from_str(name: &str) -> Result<Self, ModelError> {
        named(&Self::ALL, Self::name, name)
    }
}

/// The estimate after an ACK that shows `losses` losses, [MP12] Algorithm 1:
/// p·(1−μ)^{L+1} + 1 − (1−μ)^L as printed, (1−μ)·[p·(1−μ)^L + 1 − (1−μ)^L] in
/// time's order. With L = 0 and L = 1 it is [MP12] eq. (1) and (2).
///
/// # Errors
/// p outside [0, 1] or μ outside (0, 1].
pub fn loss_after_ack(p: f64, gain: f64, losses: u32, order: Order) -> Result<f64, ModelError> {
    let p = Domain::PROBABILITY.check("p_before", p)?;
    let gain = GAIN.check("gain", gain)?;
    let losses = LOSSES.check("losses", f64::from(losses))?;
    let kept = 1.0 - gain;
    let kept_by_losses = kept.powf(losses);
    Ok(match order {
        Order::Printed => p * kept.powf(losses + 1.0) + (1.0 - kept_by_losses),
        Order::Chronological => kept * (p * kept_by_losses + (1.0 - kept_by_losses)),
    })
}

/// p_dev ← (1−ν)·p_dev + ν·|p − p_long|: [MP12] Algorithm 1, a mean deviation and
/// not a standard deviation (E-MP12-24).
///
/// # Errors
/// A share outside [0, 1] or ν outside (0, 1].
pub fn deviation_after_ack(dev: f64, gain: f64, p: f64, p_long: f64) -> Result<f64, ModelError> {
    let dev = Domain::PROBABILITY.check("p_dev", dev)?;
    let gain = GAIN.check("gain", gain)?;
    let p = Domain::PROBABILITY.check("p", p)?;
    let p_long = Domain::PROBABILITY.check("p_long", p_long)?;
    Ok(dev * (1.0 - gain) + gain * (p - p_long).abs())
}

/// The mean of the estimate at ACK instants under independent loss p.
///
/// g = (1−p)/(1−p(1−μ)) is the mean of (1−μ)^L, and a fixed point of the mean
/// has the value (1−g)/(1−(1−μ)g) as printed, which reduces to p itself, and
/// (1−μ) times that in time's order.
///
/// # Errors
/// p outside [0, 1) or μ outside (0, 1].
pub fn loss_mean(p: f64, gain: f64, order: Order) -> Result<f64, ModelError> {
    let p = Domain::LOSS.check("p", p)?;
    let kept = 1.0 - GAIN.check("gain", gain)?;
    Ok(match order {
        Order::Printed => p,
        Order::Chronological => kept * p,
    })
}

/// 1 − (p − p_long)/2: what the loss rule of [MP12] Algorithm 2, applied on every
/// ACK, does to a window in one round trip.
///
/// # Errors
/// A share outside [0, 1].
pub fn loss_jump_factor(p: f64, p_long: f64) -> Result<f64, ModelError> {
    let p = Domain::PROBABILITY.check("p", p)?;
    let p_long = Domain::PROBABILITY.check("p_long", p_long)?;
    Ok(1.0 - (p - p_long).max(0.0) / 2.0)
}
