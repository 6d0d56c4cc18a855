//! GFNI on AVX2 registers: 32 products with one instruction.
//!
//! The instruction's own multiplication, `GF2P8MULB`, is fixed to AES's
//! polynomial `0x11B`. Multiplying by a constant is linear over GF(2) whatever
//! the polynomial, so `GF2P8AFFINEQB` with the matrices of
//! `tables::BIT_MATRICES` does it in ours.

use core::arch::x86_64::{
    __m256i, _mm256_gf2p8affine_epi64_epi8, _mm256_loadu_si256, _mm256_set1_epi64x,
    _mm256_storeu_si256, _mm256_xor_si256,
};

use crate::Term;
use crate::lanes::{self, Lanes};
use crate::tables::BIT_MATRICES;

#[derive(Clone, Copy)]
struct Register(__m256i);

// SAFETY: `load` and `store` touch 32 bytes, unaligned.
unsafe impl Lanes for Register {
    const LEN: usize = 32;
    type Factor = __m256i;
    type Operand = __m256i;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: 32 readable bytes by contract.
        Self(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: 32 writable bytes by contract.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the CPU has AVX2 by contract.
        Self(unsafe { _mm256_xor_si256(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn factor(c: u8) -> Self::Factor {
        let matrix = BIT_MATRICES[usize::from(c)].cast_signed();
        // SAFETY: the CPU has AVX2 by contract.
        unsafe { _mm256_set1_epi64x(matrix) }
    }

    #[inline(always)]
    unsafe fn operand(self) -> Self::Operand {
        self.0
    }

    #[inline(always)]
    unsafe fn product(operand: Self::Operand, factor: Self::Factor) -> Self {
        // SAFETY: the CPU has GFNI by contract.
        Self(unsafe { _mm256_gf2p8affine_epi64_epi8::<0>(operand, factor) })
    }
}

#[target_feature(enable = "gfni,avx,avx2")]
pub(crate) fn add(dst: &mut [u8], src: &[u8]) {
    // SAFETY: the instructions are this function's; `Kernel` checked lengths.
    unsafe { lanes::add::<Register>(dst, src) };
}

#[target_feature(enable = "gfni,avx,avx2")]
pub(crate) fn mul_in_place(dst: &mut [u8], c: u8) {
    let (bytes, len) = (dst.as_mut_ptr(), dst.len());
    // SAFETY: the instructions are this function's; source and destination are
    // one slice.
    unsafe { lanes::mul::<Register>(bytes, bytes, len, c) };
}

#[target_feature(enable = "gfni,avx,avx2")]
pub(crate) fn mul_into(dst: &mut [u8], c: u8, src: &[u8]) {
    let len = dst.len().min(src.len());
    // SAFETY: the instructions are this function's; `len` bytes are in both
    // slices, which do not overlap.
    unsafe { lanes::mul::<Register>(dst.as_mut_ptr(), src.as_ptr(), len, c) };
}

#[target_feature(enable = "gfni,avx,avx2")]
pub(crate) fn mul_add_terms<const R: usize>(dsts: [&mut [u8]; R], terms: &[Term<'_, R>]) {
    // SAFETY: the instructions are this function's; `terms` made one length.
    unsafe {
        match R {
            1 => lanes::mul_add_terms::<Register, R, 4>(dsts, terms),
            _ => lanes::mul_add_terms::<Register, R, 2>(dsts, terms),
        }
    }
}
