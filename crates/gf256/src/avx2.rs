//! AVX2: as SSSE3, 32 bytes at a time.
//!
//! The shuffle works within each half of the register, so each half carries
//! the same table.

use core::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_loadu_si256,
    _mm256_set1_epi8, _mm256_shuffle_epi8, _mm256_srli_epi64, _mm256_storeu_si256,
    _mm256_xor_si256,
};

use crate::Term;
use crate::lanes::{self, Lanes};
use crate::tables::HALF_BYTE_PRODUCTS;

#[derive(Clone, Copy)]
struct Register(__m256i);

// SAFETY: `load` and `store` touch 32 bytes, unaligned.
unsafe impl Lanes for Register {
    const LEN: usize = 32;
    type Factor = [__m256i; 2];
    type Operand = [__m256i; 2];

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
        let products = &HALF_BYTE_PRODUCTS[usize::from(c)];
        // SAFETY: both tables are 16 bytes; the CPU has AVX2 by contract.
        unsafe {
            [
                _mm256_broadcastsi128_si256(_mm_loadu_si128(products.low.as_ptr().cast())),
                _mm256_broadcastsi128_si256(_mm_loadu_si128(products.high.as_ptr().cast())),
            ]
        }
    }

    #[inline(always)]
    unsafe fn operand(self) -> Self::Operand {
        // SAFETY: the CPU has AVX2 by contract.
        unsafe {
            let low_half = _mm256_set1_epi8(0x0f);
            [
                _mm256_and_si256(self.0, low_half),
                _mm256_and_si256(_mm256_srli_epi64::<4>(self.0), low_half),
            ]
        }
    }

    #[inline(always)]
    unsafe fn product([low, high]: Self::Operand, factor: Self::Factor) -> Self {
        // SAFETY: the CPU has AVX2 by contract.
        Self(unsafe {
            _mm256_xor_si256(
                _mm256_shuffle_epi8(factor[0], low),
                _mm256_shuffle_epi8(factor[1], high),
            )
        })
    }
}

#[target_feature(enable = "avx2")]
pub(crate) fn add(dst: &mut [u8], src: &[u8]) {
    // SAFETY: the instructions are this function's; `Kernel` checked lengths.
    unsafe { lanes::add::<Register>(dst, src) };
}

#[target_feature(enable = "avx2")]
pub(crate) fn mul_in_place(dst: &mut [u8], c: u8) {
    let (bytes, len) = (dst.as_mut_ptr(), dst.len());
    // SAFETY: the instructions are this function's; source and destination are
    // one slice.
    unsafe { lanes::mul::<Register>(bytes, bytes, len, c) };
}

#[target_feature(enable = "avx2")]
pub(crate) fn mul_into(dst: &mut [u8], c: u8, src: &[u8]) {
    let len = dst.len().min(src.len());
    // SAFETY: the instructions are this function's; `len` bytes are in both
    // slices, which do not overlap.
    unsafe { lanes::mul::<Register>(dst.as_mut_ptr(), src.as_ptr(), len, c) };
}

#[target_feature(enable = "avx2")]
pub(crate) fn mul_add_terms<const R: usize>(dsts: [&mut [u8]; R], terms: &[Term<'_, R>]) {
    // SAFETY: the instructions are this function's; `terms` made one length.
    unsafe {
        match R {
            1 => lanes::mul_add_terms::<Register, R, 4>(dsts, terms),
            _ => lanes::mul_add_terms::<Register, R, 2>(dsts, terms),
        }
    }
}
