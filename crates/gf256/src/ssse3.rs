//! SSSE3: 16 bytes at a time, two look-ups by byte shuffle for each product.
//!
//! The method is the one of `tables::HalfByteProducts`; `PSHUFB` looks up 16
//! bytes in a table of 16 at once.

use core::arch::x86_64::{
    __m128i, _mm_and_si128, _mm_loadu_si128, _mm_set1_epi8, _mm_shuffle_epi8, _mm_srli_epi64,
    _mm_storeu_si128, _mm_xor_si128,
};

use crate::Term;
use crate::lanes::{self, Lanes};
use crate::tables::HALF_BYTE_PRODUCTS;

#[derive(Clone, Copy)]
struct Register(__m128i);

// SAFETY: `load` and `store` touch 16 bytes, unaligned.
unsafe impl Lanes for Register {
    const LEN: usize = 16;
    type Factor = [__m128i; 2];
    type Operand = [__m128i; 2];

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: 16 readable bytes by contract.
        Self(unsafe { _mm_loadu_si128(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: 16 writable bytes by contract.
        unsafe { _mm_storeu_si128(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the CPU has SSSE3 by contract.
        Self(unsafe { _mm_xor_si128(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn factor(c: u8) -> Self::Factor {
        let products = &HALF_BYTE_PRODUCTS[usize::from(c)];
        // SAFETY: both tables are 16 bytes; the CPU has SSSE3 by contract.
        unsafe {
            [
                _mm_loadu_si128(products.low.as_ptr().cast()),
                _mm_loadu_si128(products.high.as_ptr().cast()),
            ]
        }
    }

    #[inline(always)]
    unsafe fn operand(self) -> Self::Operand {
        // SAFETY: the CPU has SSSE3 by contract.
        unsafe {
            let low_half = _mm_set1_epi8(0x0f);
            [
                _mm_and_si128(self.0, low_half),
                _mm_and_si128(_mm_srli_epi64::<4>(self.0), low_half),
            ]
        }
    }

    #[inline(always)]
    unsafe fn product([low, high]: Self::Operand, factor: Self::Factor) -> Self {
        // SAFETY: the CPU has SSSE3 by contract.
        Self(unsafe {
            _mm_xor_si128(
                _mm_shuffle_epi8(factor[0], low),
                _mm_shuffle_epi8(factor[1], high),
            )
        })
    }
}

#[target_feature(enable = "ssse3")]
pub(crate) fn add(dst: &mut [u8], src: &[u8]) {
    // SAFETY: the instructions are this function's; `Kernel` checked lengths.
    unsafe { lanes::add::<Register>(dst, src) };
}

#[target_feature(enable = "ssse3")]
pub(crate) fn mul_in_place(dst: &mut [u8], c: u8) {
    let (bytes, len) = (dst.as_mut_ptr(), dst.len());
    // SAFETY: the instructions are this function's; source and destination are
    // one slice.
    unsafe { lanes::mul::<Register>(bytes, bytes, len, c) };
}

#[target_feature(enable = "ssse3")]
pub(crate) fn mul_into(dst: &mut [u8], c: u8, src: &[u8]) {
    let len = dst.len().min(src.len());
    // SAFETY: the instructions are this function's; `len` bytes are in both
    // slices, which do not overlap.
    unsafe { lanes::mul::<Register>(dst.as_mut_ptr(), src.as_ptr(), len, c) };
}

#[target_feature(enable = "ssse3")]
pub(crate) fn mul_add_terms<const R: usize>(dsts: [&mut [u8]; R], terms: &[Term<'_, R>]) {
    // SAFETY: the instructions are this function's; `terms` made one length.
    unsafe {
        match R {
            1 => lanes::mul_add_terms::<Register, R, 4>(dsts, terms),
            _ => lanes::mul_add_terms::<Register, R, 2>(dsts, terms),
        }
    }
}
