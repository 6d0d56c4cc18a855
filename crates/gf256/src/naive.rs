//! Byte by byte, as the formulas say: text to read, and the oracle of all
//! other kernels' tests.

use crate::{Term, mul};

pub(crate) fn add(dst: &mut [u8], src: &[u8]) {
    for (d, s) in dst.iter_mut().zip(src) {
        *d ^= s;
    }
}

pub(crate) fn mul_in_place(dst: &mut [u8], c: u8) {
    for d in dst {
        *d = mul(c, *d);
    }
}

pub(crate) fn mul_into(dst: &mut [u8], c: u8, src: &[u8]) {
    for (d, s) in dst.iter_mut().zip(src) {
        *d = mul(c, *s);
    }
}

pub(crate) fn mul_add_terms<const R: usize>(dsts: [&mut [u8]; R], terms: &[Term<'_, R>]) {
    for (r, dst) in dsts.into_iter().enumerate() {
        for term in terms {
            let c = term.coefficients[r];
            for (d, s) in dst.iter_mut().zip(term.bytes) {
                *d ^= mul(c, *s);
            }
        }
    }
}
