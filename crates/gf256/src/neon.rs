//! NEON (AArch64): 16 bytes at a time, two table look-ups for each product.
//!
//! The method is the one of `tables::HalfByteProducts`; `TBL` looks up 16
//! bytes in a table of 16 at once.

use core::arch::aarch64::{
    uint8x16_t, vandq_u8, vdupq_n_u8, veorq_u8, vld1q_u8, vqtbl1q_u8, vshrq_n_u8, vst1q_u8,
};

use crate::Term;
use crate::lanes::{self, Lanes};
use crate::tables::HALF_BYTE_PRODUCTS;

#[derive(Clone, Copy)]
struct Register(uint8x16_t);

// SAFETY: `load` and `store` touch 16 bytes, unaligned.
unsafe impl Lanes for Register {
    const LEN: usize = 16;
    type Factor = [uint8x16_t; 2];
    type Operand = [uint8x16_t; 2];

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: 16 readable bytes by contract.
        Self(unsafe { vld1q_u8(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: 16 writable bytes by contract.
        unsafe { vst1q_u8(to, self.0) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the CPU has NEON by contract.
        Self(unsafe { veorq_u8(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn factor(c: u8) -> Self::Factor {
        let products = &HALF_BYTE_PRODUCTS[usize::from(c)];
        // SAFETY: both tables are 16 bytes; the CPU has NEON by contract.
        unsafe {
            [
                vld1q_u8(products.low.as_ptr()),
                vld1q_u8(products.high.as_ptr()),
            ]
        }
    }

    #[inline(always)]
    unsafe fn operand(self) -> Self::Operand {
        // SAFETY: the CPU has NEON by contract.
        unsafe { [vandq_u8(self.0, vdupq_n_u8(0x0f)), vshrq_n_u8::<4>(self.0)] }
    }

    #[inline(always)]
    unsafe fn product([low, high]: Self::Operand, factor: Self::Factor) -> Self {
        // SAFETY: the CPU has NEON by contract.
        Self(unsafe { veorq_u8(vqtbl1q_u8(factor[0], low), vqtbl1q_u8(factor[1], high)) })
    }
}

#[target_feature(enable = "neon")]
pub(crate) fn add(dst: &mut [u8], src: &[u8]) {
    // SAFETY: the instructions are this function's; `Kernel` checked lengths.
    unsafe { lanes::add::<Register>(dst, src) };
}

#[target_feature(enable = "neon")]
pub(crate) fn mul_in_place(dst: &mut [u8], c: u8) {
    let (bytes, len) = (dst.as_mut_ptr(), dst.len());
    // SAFETY: the instructions are this function's; source and destination are
    // one slice.
    unsafe { lanes::mul::<Register>(bytes, bytes, len, c) };
}

#[target_feature(enable = "neon")]
pub(crate) fn mul_into(dst: &mut [u8], c: u8, src: &[u8]) {
    let len = dst.len().min(src.len());
    // SAFETY: the instructions are this function's; `len` bytes are in both
    // slices, which do not overlap.
    unsafe { lanes::mul::<Register>(dst.as_mut_ptr(), src.as_ptr(), len, c) };
}

#[target_feature(enable = "neon")]
pub(crate) fn mul_add_terms<const R: usize>(dsts: [&mut [u8]; R], terms: &[Term<'_, R>]) {
    // SAFETY: the instructions are this function's; `terms` made one length.
    unsafe {
        match R {
            1 => lanes::mul_add_terms::<Register, R, 4>(dsts, terms),
            _ => lanes::mul_add_terms::<Register, R, 4>(dsts, terms),
        }
    }
}
