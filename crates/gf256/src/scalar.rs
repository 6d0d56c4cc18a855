//! Single elements: product, inverse, quotient, powers of the generator.
//!
//! Tables of exponents and logarithms to the base 2, built at compile time by
//! doubling: 2 is primitive modulo `0x11D`, so its first 255 powers are all
//! elements but 0. The exponents stand twice in a row so that the sum of two
//! logarithms needs no reduction.

use crate::{GENERATOR, POLYNOMIAL};

const ORDER: usize = 255;

const EXP: [u8; 2 * ORDER] = exp_table();
const LOG: [u8; 256] = log_table();

/// The product by its definition: shift, add, reduce. For building tables.
pub(crate) const fn mul_by_definition(a: u8, b: u8) -> u8 {
    let (mut a, mut b, mut product) = (a as u16, b, 0);
    while b != 0 {
        if b & 1 == 1 {
            product ^= a;
        }
        a <<= 1;
        if a & 0x100 != 0 {
            a ^= POLYNOMIAL;
        }
        b >>= 1;
    }
    product as u8
}

const fn exp_table() -> [u8; 2 * ORDER] {
    let mut table = [0; 2 * ORDER];
    let (mut i, mut power) = (0, 1);
    while i < ORDER {
        table[i] = power;
        table[i + ORDER] = power;
        power = mul_by_definition(power, GENERATOR);
        i += 1;
    }
    table
}

const fn log_table() -> [u8; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < ORDER {
        table[EXP[i] as usize] = i as u8;
        i += 1;
    }
    table
}

/// 2 to the power `exponent`.
#[inline]
#[must_use]
pub const fn exp(exponent: u8) -> u8 {
    EXP[exponent as usize]
}

/// The exponent in `0..=254` to which 2 gives `a`; `None` for 0.
#[inline]
#[must_use]
pub const fn log(a: u8) -> Option<u8> {
    if a == 0 {
        return None;
    }
    Some(LOG[a as usize])
}

/// a · b.
#[inline]
#[must_use]
pub const fn mul(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    EXP[LOG[a as usize] as usize + LOG[b as usize] as usize]
}

/// 1 / a; `None` for 0.
#[inline]
#[must_use]
pub const fn inv(a: u8) -> Option<u8> {
    if a == 0 {
        return None;
    }
    Some(EXP[ORDER - LOG[a as usize] as usize])
}

/// a / b; `None` if b is 0.
#[inline]
#[must_use]
pub const fn div(a: u8, b: u8) -> Option<u8> {
    match inv(b) {
        Some(inverse) => Some(mul(a, inverse)),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_product_is_the_one_by_definition() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(mul(a, b), mul_by_definition(a, b), "{a} · {b}");
                assert_eq!(mul(a, b), mul(b, a), "{a} · {b}");
            }
        }
    }

    #[test]
    fn the_product_is_associative_and_distributes_over_the_sum() {
        // Interpreted, all of them take hours.
        let step = if cfg!(miri) { 85 } else { 1 };
        for a in (0..=255).step_by(step) {
            for b in 0..=255 {
                let product = mul(a, b);
                for c in 0..=255 {
                    assert_eq!(mul(product, c), mul(a, mul(b, c)), "{a} · {b} · {c}");
                    assert_eq!(mul(a, b ^ c), product ^ mul(a, c), "{a} · ({b} + {c})");
                }
            }
        }
    }

    #[test]
    fn one_changes_nothing_and_zero_absorbs() {
        for a in 0..=255 {
            assert_eq!(mul(a, 1), a);
            assert_eq!(mul(a, 0), 0);
        }
    }

    #[test]
    fn every_element_but_zero_has_exactly_one_inverse() {
        assert_eq!(inv(0), None);
        for a in 1..=255 {
            let inverses: Vec<u8> = (0..=255).filter(|&b| mul(a, b) == 1).collect();
            assert_eq!(inverses, [inv(a).unwrap()], "1 / {a}");
        }
    }

    #[test]
    fn a_quotient_times_its_divisor_is_the_dividend() {
        for a in 0..=255 {
            assert_eq!(div(a, 0), None);
            for b in 1..=255 {
                assert_eq!(mul(div(a, b).unwrap(), b), a, "{a} / {b}");
            }
        }
    }

    #[test]
    fn logarithm_and_power_undo_each_other() {
        assert_eq!(log(0), None);
        for a in 1..=255 {
            assert_eq!(exp(log(a).unwrap()), a);
        }
        for exponent in 0..=254 {
            assert_eq!(log(exp(exponent)), Some(exponent));
        }
        assert_eq!(exp(255), 1);
    }
}
