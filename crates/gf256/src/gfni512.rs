//! GFNI on AVX-512 registers: 64 products with one instruction.
//!
//! As `gfni`, with registers twice as wide and twice as many of them.

use core::arch::x86_64::{
    __m512i, _mm512_gf2p8affine_epi64_epi8, _mm512_loadu_si512, _mm512_set1_epi64,
    _mm512_storeu_si512, _mm512_xor_si512,
};

use crate::Term;
use crate::lanes::{self, Lanes};
use crate::tables::BIT_MATRICES;

#[derive(Clone, Copy)]
struct Register(__m512i);

// SAFETY: `load` and `store` touch 64 bytes, unaligned.
unsafe impl Lanes for Register {
    const LEN: usize = 64;
    type Factor = __m512i;
    type Operand = __m512i;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: 64 readable bytes by contract.
        Self(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: 64 writable bytes by contract.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the CPU has AVX-512F by contract.
        Self(unsafe { _mm512_xor_si512(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn factor(c: u8) -> Self::Factor {
        let matrix = BIT_MATRICES[usize::from(c)].cast_signed();
        // SAFETY: the CPU has AVX-512F by contract.
        unsafe { _mm512_set1_epi64(matrix) }
    }

    #[inline(always)]
    unsafe fn operand(self) -> Self::Operand {
        self.0
    }

    #[inline(always)]
    unsafe fn product(operand: Self::Operand, factor: Self::Factor) -> Self {
        // SAFETY: the CPU has GFNI and AVX-512 by contract.
        Self(unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(operand, factor) })
    }
}

#[target_feature(enable = "gfni,avx512f,avx512bw")]
pub(crate) fn add(dst: &mut [u8], src: &[u8]) {
    // SAFETY: the instructions are this function's; `Kernel` checked lengths.
    unsafe { lanes::add::<Register>(dst, src) };
}

#[target_feature(enable = "gfni,avx512f,avx512bw")]
pub(crate) fn mul_in_place(dst: &mut [u8], c: u8) {
    let (bytes, len) = (dst.as_mut_ptr(), dst.len());
    // SAFETY: the instructions are this function's; source and destination are
    // one slice.
    unsafe { lanes::mul::<Register>(bytes, bytes, len, c) };
}

#[target_feature(enable = "gfni,avx512f,avx512bw")]
pub(crate) fn mul_into(dst: &mut [u8], c: u8, src: &[u8]) {
    let len = dst.len().min(src.len());
    // SAFETY: the instructions are this function's; `len` bytes are in both
    // slices, which do not overlap.
    unsafe { lanes::mul::<Register>(dst.as_mut_ptr(), src.as_ptr(), len, c) };
}

#[target_feature(enable = "gfni,avx512f,avx512bw")]
pub(crate) fn mul_add_terms<const R: usize>(dsts: [&mut [u8]; R], terms: &[Term<'_, R>]) {
    // SAFETY: the instructions are this function's; `terms` made one length.
    unsafe {
        match R {
            1 => lanes::mul_add_terms::<Register, R, 4>(dsts, terms),
            _ => lanes::mul_add_terms::<Register, R, 4>(dsts, terms),
        }
    }
}
