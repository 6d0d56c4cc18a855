//! The share of packets sent in vain: [CC14] §IV eq. (5), with every reading.
//!
//! Printed: η = (1/N) Σ_{k=0}^{n−1} (n−k)·binom(n,k)·p^k·(1−p)^{N−k}, with
//! N = 32 and n = ⌊N/(1−p)⌋ − N. It is described both as a bound on efficiency
//! and as the mean number of coded packets sent in vain. The printed weights
//! sum to (1−p)^{N−n} and are thus no distribution; η is the wasted share, and
//! what it bounds is 1 − η.

use core::str::FromStr;

use crate::redundancy::{BLOCK, coded_ahead};
use crate::{Domain, ModelError};

/// 32/0.8 must count as 40, not as 39.999….
const ROUNDING: f64 = 1e-9;

/// p up to which η is computed: above, n runs into the tens of thousands.
const LOSS: Domain = Domain::closed(0.0, 0.99);

/// How eq. (5) is read: which weights, which number of coded packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// binom(n,k)·p^k·(1−p)^{N−k}, literally. For comparison only.
    Printed,
    /// binom(N,k)·p^k·(1−p)^{N−k}: the smallest repair, one letter; most
    /// probably what the authors plotted as theory.
    A,
    /// binom(N+n,k)·p^k·(1−p)^{N+n−k}: exact for n coded packets.
    B,
    /// B averaged over ⌊N_c⌋ and ⌈N_c⌉ as [CC14] §II draws them: what the
    /// protocol does.
    C,
    /// B with n = ⌈N/(1−p)⌉ − N, the rounding of [MP12] Algorithm 3.
    D,
    /// binom(n,k)·p^k·(1−p)^{n−k}: losses among the coded packets alone.
    CodedOnly,
}

impl Reading {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Printed,
        Self::A,
        Self::B,
        Self::C,
        Self::D,
        Self::CodedOnly,
    ];

    /// What users type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Printed => "printed",
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
            Self::D => "D",
            Self::CodedOnly => "coded-only",
        }
    }
}

impl FromStr for Reading {
    type Err = ModelError;

    fn from_str(name: &str) -> Result<Self, ModelError> {
        named(&Self::ALL, Self::name, name)
    }
}

/// The one of `all` that is called `name`.
pub(crate) fn named<T: Copy>(
    all: &[T],
    name_of: fn(T) -> &'static str,
    name: &str,
) -> Result<T, ModelError> {
    let found = all.iter().copied().find(|one| name_of(*one) == name);
    found.ok_or_else(|| {
        let known: Vec<_> = all.iter().map(|one| name_of(*one)).collect();
        ModelError::UnknownReading {
            name: name.to_owned(),
            known: known.join(", "),
        }
    })
}

/// What eq. (5) says for one block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Surplus {
    /// Coded packets per block on average: n, or N_c in reading C.
    pub coded: f64,
    /// η, packets delivered in vain per packet of the block.
    pub eta: f64,
    /// The sum of the weights for k = 0…n. In B, C and D the probability that
    /// the block can be decoded without feedback (every combination counted as
    /// innovative).
    pub mass: f64,
}

impl Surplus {
    /// 1 − η, the bound on efficiency where losses use up link capacity.
    pub fn bound_after(&self) -> f64 {
        1.0 - self.eta
    }

    /// 1/(1+η), the bound where losses come before the rate limit: the link
    /// carries N useful and N·η surplus packets.
    pub fn bound_before(&self) -> f64 {
        1.0 / (1.0 + self.eta)
    }
}

/// η of eq. (5), [CC14] §IV, for a block of N packets and the loss rate p.
///
/// n = 0, and thus η = 0, for p < 1/(N+1) in the readings that round down.
///
/// # Errors
/// N outside 1…255, or p outside [0, 0.99]: n grows without bound as p → 1.
///
/// ```
/// use ctcp_model::surplus::{Reading, surplus};
///
/// let at_20_percent = surplus(32, 0.2, Reading::C)?;
/// assert_eq!(at_20_percent.coded, 8.0);
/// assert!((at_20_percent.eta - 0.0312).abs() < 5e-5);
/// # Ok::<(), ctcp_model::ModelError>(())
/// ```
pub fn surplus(block: u32, p: f64, reading: Reading) -> Result<Surplus, ModelError> {
    BLOCK.check("block", f64::from(block))?;
    let p = LOSS.check("p", p)?;
    let sent = f64::from(block) / (1.0 - p);
    let rounded_down = (sent + ROUNDING).floor() as u32 - block;
    Ok(match reading {
        Reading::Printed => sum(block, rounded_down, rounded_down, block, p),
        Reading::A => sum(block, rounded_down, block, block, p),
        Reading::B => exact(block, rounded_down, p),
        Reading::D => exact(block, (sent - ROUNDING).ceil() as u32 - block, p),
        Reading::CodedOnly => sum(block, rounded_down, rounded_down, rounded_down, p),
        Reading::C => {
            let ahead = coded_ahead(block, p)?;
            let (few, share) = (ahead.always as u32, ahead.extra_probability);
            let (less, more) = (exact(block, few, p), exact(block, few + 1, p));
            Surplus {
                coded: ahead.mean,
                eta: (1.0 - share) * less.eta + share * more.eta,
                mass: (1.0 - share) * less.mass + share * more.mass,
            }
        }
    })
}

/// The exact surplus of `block` packets and `coded` combinations.
fn exact(block: u32, coded: u32, p: f64) -> Surplus {
    sum(block, coded, block + coded, block + coded, p)
}

/// Σ over k of (n−k)·w_k and of w_k with w_k = binom(from,k)·p^k·(1−p)^{exponent−k}.
fn sum(block: u32, coded: u32, from: u32, exponent: u32, p: f64) -> Surplus {
    let (mut surplus, mut mass) = (0.0, 0.0);
    // In logarithms: binom(25 000, k) does not fit a float.
    let (ln_p, ln_rest) = (p.ln(), (-p).ln_1p());
    let mut ln_binom = 0.0;
    for k in 0..=coded.min(from) {
        let weight = if k == 0 {
            (f64::from(exponent) * ln_rest).exp()
        } else {
            let i = f64::from(k);
            ln_binom += (f64::from(from - k + 1) / i).ln();
            // The printed exponent may be negative.
            (ln_binom + i * ln_p + (f64::from(exponent) - i) * ln_rest).exp()
        };
        surplus += f64::from(coded - k) * weight;
        mass += weight;
    }
    Surplus {
        coded: f64::from(coded),
        eta: surplus / f64::from(block),
        mass,
    }
}

/// Room for headers in a packet so that payload/link bits still reach an
/// efficiency, in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeaderBudget {
    /// η in reading C.
    pub eta: f64,
    /// Bytes of payload that each packet must carry.
    pub payload_bytes: f64,
    /// What is left for our headers; negative if the aim is out of reach.
    pub header_bytes: f64,
}

/// Header bytes allowed if payload must fill `efficiency` of the link in spite of
/// surplus packets: packet − lower − efficiency·(1+η)·packet, η as in reading C.
///
/// `packet_bytes` is the whole IP packet, `lower_bytes` its IP and UDP headers.
///
/// # Errors
/// A value out of range; efficiency in (0, 1].
pub fn header_budget(
    block: u32,
    p: f64,
    efficiency: f64,
    packet_bytes: f64,
    lower_bytes: f64,
) -> Result<HeaderBudget, ModelError> {
    Domain::SOME_LOSS.check("efficiency", efficiency)?;
    Domain::closed(64.0, 65_535.0).check("packet_bytes", packet_bytes)?;
    Domain::closed(0.0, 200.0).check("lower_bytes", lower_bytes)?;
    let eta = surplus(block, p, Reading::C)?.eta;
    let payload_bytes = efficiency * (1.0 + eta) * packet_bytes;
    Ok(HeaderBudget {
        eta,
        payload_bytes,
        header_bytes: packet_bytes - lower_bytes - payload_bytes,
    })
}
