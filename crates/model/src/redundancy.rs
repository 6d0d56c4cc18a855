//! How many coded packets follow a block: [CC14] §II; and how often a random
//! combination over GF(2^8) is innovative.

use crate::{Domain, ModelError};

/// The largest block, and the largest number of packets lacking in one: what the
/// wire format allows a generation.
pub const BLOCK: Domain = Domain::whole(1, 255);

/// 0.2·32/0.8 must count as 8, not as 7.999….
const ROUNDING: f64 = 1e-12;

/// Coded packets to send ahead of any feedback.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ahead {
    /// N_c, their mean number.
    pub mean: f64,
    /// ⌊N_c⌋ are always sent.
    pub always: f64,
    /// The probability of one more.
    pub extra_probability: f64,
}

/// N_c = N·(1/(1−p) − 1) coded packets after a block of N: [CC14] §II.
///
/// ⌊N_c⌋ always, one more with the probability N_c − ⌊N_c⌋.
///
/// # Errors
/// N outside 1…255 or p outside [0, 1).
pub fn coded_ahead(block: u32, p: f64) -> Result<Ahead, ModelError> {
    let block = BLOCK.check("block", f64::from(block))?;
    let p = Domain::LOSS.check("p", p)?;
    let mean = block * (1.0 / (1.0 - p) - 1.0);
    let always = (mean + ROUNDING).floor();
    Ok(Ahead {
        mean,
        always,
        extra_probability: (mean - always).max(0.0),
    })
}

/// d/(1−p): packets to send so that d degrees of freedom are expected to arrive
/// ([SAT] §II-A).
///
/// # Errors
/// p outside [0, 1) or d not in 1…255.
pub fn repair_packets(missing: u32, p: f64) -> Result<f64, ModelError> {
    let missing = BLOCK.check("missing", f64::from(missing))?;
    let p = Domain::LOSS.check("p", p)?;
    Ok(missing / (1.0 - p))
}

/// The probability that m erased symbols are *not* recovered from m + extra
/// random combinations: 1 − Π_{i=1..m} (1 − 256^−(extra+i)).
///
/// Coefficients are uniform in GF(2^8), zero included ([CC14] §II).
///
/// # Errors
/// m outside 1…255 or extra outside 0…255.
pub fn failure_probability(missing: u32, extra: u32) -> Result<f64, ModelError> {
    BLOCK.check("missing", f64::from(missing))?;
    Domain::whole(0, 255).check("extra", f64::from(extra))?;
    // As a sum of logarithms: 1 − (1 − 1e−17) would be 0.
    let log: f64 = (1..=missing)
        .map(|i| (-(256f64.powf(-f64::from(extra + i)))).ln_1p())
        .sum();
    // Not −0 where every term underflows.
    Ok((-log.exp_m1()).max(0.0))
}

/// Combinations beyond m that the recovery of m symbols takes on average:
/// Σ_{i=1..m} (1/(1 − 256^−i) − 1).
///
/// # Errors
/// m outside 1…255.
pub fn extra_packets_mean(missing: u32) -> Result<f64, ModelError> {
    BLOCK.check("missing", f64::from(missing))?;
    let extra = |i: u32| {
        let dependent = 256f64.powf(-f64::from(i));
        dependent / (1.0 - dependent)
    };
    Ok((1..=missing).map(extra).sum())
}
