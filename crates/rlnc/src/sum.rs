//! Linear combinations of any number of byte slices.

use ctcp_gf256::{Kernel, Term};

/// Terms handed to the kernel at a time. Each time it reads and writes the
/// destinations once, so among 32 sources that hardly counts; and they fit the
/// stack.
const TERMS_AT_A_TIME: usize = 32;

/// `dsts[r]` = Σ `coefficients[r]` · `bytes` over all terms, none of which is
/// longer than the destinations.
pub(crate) fn sum_into<'a, const R: usize>(
    kernel: Kernel,
    mut dsts: [&mut [u8]; R],
    terms: impl Iterator<Item = Term<'a, R>>,
) {
    for dst in &mut dsts {
        dst.fill(0);
    }
    add_into(kernel, dsts, terms);
}

/// As [`sum_into`], added to what the destinations hold.
pub(crate) fn add_into<'a, const R: usize>(
    kernel: Kernel,
    mut dsts: [&mut [u8]; R],
    terms: impl Iterator<Item = Term<'a, R>>,
) {
    let mut group = [Term::NOTHING; TERMS_AT_A_TIME];
    let mut group_len = 0;
    for term in terms {
        group[group_len] = term;
        group_len += 1;
        if group_len == TERMS_AT_A_TIME {
            kernel.mul_add_terms(dsts.each_mut().map(|dst| &mut **dst), &group);
            group_len = 0;
        }
    }
    if group_len > 0 {
        kernel.mul_add_terms(dsts, &group[..group_len]);
    }
}
