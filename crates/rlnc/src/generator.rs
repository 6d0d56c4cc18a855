//! The coefficients of coded packets, derived from their names.
//!
//! **This is wire format**, pinned by `tests/golden/coefficients.json`.
//!
//! A coded packet names its generator (a code point of one byte) and a repair
//! index of 16 bits that is never used twice in a generation. Coefficient j
//! multiplies symbol j of the generation. A packet over the first `count`
//! symbols takes coefficients 0 to count − 1 of the same sequence.
//!
//! # Code point 0: uniform
//!
//! Every coefficient is uniform over all 256 values, zero included (\[CC14\] §II
//! "equiprobable"). With all arithmetic modulo 2^64, f the id of the
//! generation's first symbol, g the code point, r the repair index, and
//!
//! ```text
//! γ      = 0x9E3779B97F4A7C15
//! mix(z) : z ← (z ⊕ (z ≫ 30)) · 0xBF58476D1CE4E5B9
//!          z ← (z ⊕ (z ≫ 27)) · 0x94D049BB133111EB
//!          z ⊕ (z ≫ 31)
//! key    = mix(mix(f + γ) ⊕ (g · 2^16 + r))
//! w_k    = mix(key + (k + 1) · γ)          k = 0, 1, …
//! ```
//!
//! coefficient j is byte j mod 8 of `w_⌊j/8⌋`, the least significant byte being
//! byte 0. `mix` is the finalizer of SplitMix64 (Steele, Lea, Flood 2014) and
//! `w_k` its sequence seeded with `key`. `mix` is a bijection, so the repairs of
//! one generation have different keys.
//!
//! Once in 256^count the coefficients are all zero. Such an index is skipped by
//! the sender and refused by the receiver.
//!
//! # Code point 1: Cauchy
//!
//! Coefficient j of repair r is u / (u ⊕ r) with u = 255 − j: a Cauchy matrix,
//! 1 / (x_r + y_j) with x_r = 255 ⊕ r and y_j = j, whose column j is scaled by
//! 255 ⊕ j. All square parts of a Cauchy matrix are invertible and scaling
//! keeps that, so *any* `count` of the symbols and the repairs over all of them
//! decode, always. Repair 0 is the plain sum of the symbols.
//!
//! x_r must differ from every y_j: r + count ≤ 255. Where more repairs are
//! needed, the uniform ones follow.

use ctcp_units::SymbolId;
use thiserror::Error;

/// A rule that gives coded packets their coefficients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum Generator {
    /// Uniform over GF(2^8), as in the papers: as many repairs as 16 bits can
    /// name, two of which are dependent about once in 256 times.
    #[default]
    Uniform = 0,
    /// A Cauchy matrix: never dependent, up to 255 − count repairs.
    Cauchy = 1,
}

impl Generator {
    /// The byte that names it on the wire.
    #[must_use]
    pub const fn code_point(self) -> u8 {
        self as u8
    }

    /// The generator that `code_point` names, if there is one.
    #[must_use]
    pub const fn from_code_point(code_point: u8) -> Option<Self> {
        match code_point {
            0 => Some(Self::Uniform),
            1 => Some(Self::Cauchy),
            _ => None,
        }
    }
}

/// The name of a coded packet within its generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Repair {
    /// The rule of the coefficients.
    pub generator: Generator,
    /// Which of the rule's packets; never used twice in a generation.
    pub index: u16,
}

impl Repair {
    /// Repair `index` of [`Generator::Uniform`].
    #[must_use]
    pub const fn uniform(index: u16) -> Self {
        Self {
            generator: Generator::Uniform,
            index,
        }
    }

    /// Repair `index` of [`Generator::Cauchy`].
    #[must_use]
    pub const fn cauchy(index: u16) -> Self {
        Self {
            generator: Generator::Cauchy,
            index,
        }
    }
}

/// Why a name stands for no coded packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NoRepair {
    /// All coefficients are zero. Remedy: take the next index.
    #[error("all coefficients of repair {index} over {count} symbols are zero")]
    AllZero {
        /// The repair index.
        index: u16,
        /// Symbols covered.
        count: usize,
    },
    /// The generator has no such index over so many symbols. Remedy: go on with
    /// [`Generator::Uniform`].
    #[error("the Cauchy generator has no repair {index} over {count} symbols")]
    OutOfRange {
        /// The repair index.
        index: u16,
        /// Symbols covered.
        count: usize,
    },
}

/// Writes the coefficients of `repair` over the first `out.len()` symbols of
/// the generation that starts at `first`; `out[j]` multiplies symbol j.
///
/// # Errors
/// [`NoRepair`] if the name stands for no packet over so many symbols; `out` is
/// then unspecified.
pub fn coefficients(first: SymbolId, repair: Repair, out: &mut [u8]) -> Result<(), NoRepair> {
    let Repair { generator, index } = repair;
    let count = out.len();
    match generator {
        Generator::Uniform => {
            uniform(first, index, out);
            if out.iter().all(|&c| c == 0) {
                return Err(NoRepair::AllZero { index, count });
            }
        }
        Generator::Cauchy => {
            if usize::from(index) + count > 255 {
                return Err(NoRepair::OutOfRange { index, count });
            }
            if count == 0 {
                return Err(NoRepair::AllZero { index, count });
            }
            cauchy(index as u8, out);
        }
    }
    Ok(())
}

const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn uniform(first: SymbolId, index: u16, out: &mut [u8]) {
    let name = u64::from(Generator::Uniform.code_point()) << 16 | u64::from(index);
    let mut counter = mix(mix(first.0.wrapping_add(GAMMA)) ^ name);
    for chunk in out.chunks_mut(8) {
        counter = counter.wrapping_add(GAMMA);
        let word = mix(counter).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}

/// `index` + `out.len()` is at most 255.
fn cauchy(index: u8, out: &mut [u8]) {
    for (u, coefficient) in (0..=255).rev().zip(out) {
        *coefficient = ctcp_gf256::div(u, u ^ index)
            .expect("the index is below every u, so the divisor is not zero");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(first: u64, repair: Repair, count: usize) -> Vec<u8> {
        let mut out = vec![0; count];
        coefficients(SymbolId(first), repair, &mut out).expect("a repair");
        out
    }

    #[test]
    fn a_prefix_has_the_first_coefficients_of_the_whole() {
        for generator in [Generator::Uniform, Generator::Cauchy] {
            let repair = Repair {
                generator,
                index: 5,
            };
            let whole = row(77, repair, 250);
            for count in 1..250 {
                assert_eq!(row(77, repair, count), whole[..count]);
            }
        }
    }

    #[test]
    fn names_that_differ_have_different_coefficients() {
        let here = row(0, Repair::uniform(0), 32);
        assert_ne!(here, row(0, Repair::uniform(1), 32));
        assert_ne!(here, row(1, Repair::uniform(0), 32));
        assert_ne!(here, row(u64::MAX, Repair::uniform(0), 32));
    }

    #[test]
    fn an_index_whose_coefficients_are_all_zero_is_reported() {
        let zero = (0..=u16::MAX)
            .find(|&index| coefficients(SymbolId(0), Repair::uniform(index), &mut [0]).is_err())
            .expect("one in 256 single coefficients is zero");
        assert_eq!(
            coefficients(SymbolId(0), Repair::uniform(zero), &mut [0]),
            Err(NoRepair::AllZero {
                index: zero,
                count: 1
            })
        );
        // Over more symbols the same index is a repair.
        assert_eq!(row(0, Repair::uniform(zero), 4)[0], 0);
        for generator in [Generator::Uniform, Generator::Cauchy] {
            let index = 0;
            let repair = Repair { generator, index };
            assert_eq!(
                coefficients(SymbolId(0), repair, &mut []),
                Err(NoRepair::AllZero { index, count: 0 })
            );
        }
    }

    #[test]
    fn the_first_cauchy_repair_is_the_plain_sum() {
        assert_eq!(row(9, Repair::cauchy(0), 255), [1; 255]);
    }

    #[test]
    fn cauchy_repairs_end_where_indices_and_symbols_would_meet() {
        row(0, Repair::cauchy(223), 32);
        assert_eq!(
            coefficients(SymbolId(0), Repair::cauchy(224), &mut [0; 32]),
            Err(NoRepair::OutOfRange {
                index: 224,
                count: 32
            })
        );
    }

    #[test]
    fn every_cauchy_coefficient_is_that_of_the_scaled_matrix_and_not_zero() {
        for index in 0..255u8 {
            let count = 255 - usize::from(index);
            let coefficients = row(0, Repair::cauchy(u16::from(index)), count);
            for (j, coefficient) in (0u8..=254).zip(coefficients) {
                let plain = ctcp_gf256::inv((255 ^ index) ^ j).expect("x and y differ");
                assert_eq!(coefficient, ctcp_gf256::mul(plain, 255 ^ j));
                assert_ne!(coefficient, 0);
            }
        }
    }

    #[test]
    fn uniform_coefficients_take_all_values_equally_often() {
        let mut seen = [0u32; 256];
        for index in 0..4096 {
            let mut out = [0; 64];
            coefficients(SymbolId(1 << 40), Repair::uniform(index), &mut out).expect("a repair");
            for c in out {
                seen[usize::from(c)] += 1;
            }
        }
        // 1024 expected of each; chi-square with 255 degrees of freedom stays
        // below 360 with probability 0.99999.
        let chi_square: f64 = seen
            .iter()
            .map(|&n| (f64::from(n) - 1024.0).powi(2) / 1024.0)
            .sum();
        assert!(chi_square < 360.0, "{chi_square}");
    }

    #[test]
    fn code_points_name_their_generators() {
        for code_point in 0..=255 {
            if let Some(generator) = Generator::from_code_point(code_point) {
                assert_eq!(generator.code_point(), code_point);
            }
        }
        assert_eq!(Generator::from_code_point(2), None);
    }
}
