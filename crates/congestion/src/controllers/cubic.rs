//! `cubic`: CUBIC, what most of the Internet's senders do.
//!
//! [RFC9438]: growth along W(t) = 0.4(t − K)³ + W_max with a Reno-friendly floor
//! ([`CubicIncrease`]), `tokens ← 0.7·tokens` at a loss, fast convergence.
//! Initial slow start as Reno, or with HyStart++ by [`Params::hystart`]. Helps on
//! fast paths with rare loss; takes every loss for congestion.

use crate::aimd::Aimd;
use crate::backoff::Fixed;
use crate::increase::{CubicIncrease, CubicRules};
use crate::params::Params;

/// β_cubic ([RFC9438] §4.6).
const BETA: f64 = 0.7;

/// The controller `cubic`.
pub fn cubic(params: &Params) -> Aimd<CubicIncrease, Fixed> {
    let params = params.clamped();
    let rules = CubicRules {
        alpha: CubicIncrease::alpha_cubic(BETA),
        // Above every factor: each event begins an epoch.
        beta_hold: 2.0,
        fast_convergence: params.cubic_fast_convergence,
    };
    Aimd::new(
        "cubic",
        &params,
        CubicIncrease::new(rules),
        Fixed::new(BETA).with_silence(BETA),
    )
}
