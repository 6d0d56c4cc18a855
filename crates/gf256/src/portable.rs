//! Any CPU: the bytes of 64-bit words, multiplied side by side.
//!
//! A product is the sum of c · 2^j over the bits j that are set in the operand.
//! For each j, the bit of every byte in a word becomes a mask of its whole byte,
//! which keeps or drops c · 2^j. Nothing but shifts, ands and exclusive ors on
//! words, without look-ups, so compilers turn groups of words into whatever
//! vectors the target has.

use crate::Term;
use crate::lanes::{self, Lanes};
use crate::tables::HALF_BYTE_PRODUCTS;

/// The lowest bit of each byte.
const LOWEST_BITS: u64 = 0x0101_0101_0101_0101;
const WORDS: usize = 4;

#[derive(Clone, Copy)]
struct Register([u64; WORDS]);

// SAFETY: `load` and `store` touch 32 bytes, unaligned.
unsafe impl Lanes for Register {
    const LEN: usize = 8 * WORDS;
    /// c · 2^j in every byte of word j.
    type Factor = [u64; 8];
    type Operand = Self;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: 32 readable bytes by contract; any bytes are a valid array.
        Self(unsafe { from.cast::<[u64; WORDS]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: 32 writable bytes by contract.
        unsafe { to.cast::<[u64; WORDS]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        Self(core::array::from_fn(|word| self.0[word] ^ other.0[word]))
    }

    #[inline(always)]
    unsafe fn factor(c: u8) -> Self::Factor {
        let products = &HALF_BYTE_PRODUCTS[usize::from(c)];
        let bits = [
            products.low[1],
            products.low[2],
            products.low[4],
            products.low[8],
            products.high[1],
            products.high[2],
            products.high[4],
            products.high[8],
        ];
        bits.map(|product| u64::from(product) * LOWEST_BITS)
    }

    #[inline(always)]
    unsafe fn operand(self) -> Self::Operand {
        self
    }

    #[inline(always)]
    unsafe fn product(operand: Self::Operand, factor: Self::Factor) -> Self {
        Self(operand.0.map(|word| {
            let mut product = 0;
            for (j, kept) in factor.iter().enumerate() {
                let bits = (word >> j) & LOWEST_BITS;
                // 1 becomes 0xff in each byte; what leaves one byte is taken
                // back by the subtraction in the next.
                let mask = (bits << 8).wrapping_sub(bits);
                product ^= mask & kept;
            }
            product
        }))
    }
}

pub(crate) fn add(dst: &mut [u8], src: &[u8]) {
    // SAFETY: plain words need no instructions; `Kernel` checked lengths.
    unsafe { lanes::add::<Register>(dst, src) };
}

pub(crate) fn mul_in_place(dst: &mut [u8], c: u8) {
    let (bytes, len) = (dst.as_mut_ptr(), dst.len());
    // SAFETY: plain words need no instructions; source and destination are one
    // slice.
    unsafe { lanes::mul::<Register>(bytes, bytes, len, c) };
}

pub(crate) fn mul_into(dst: &mut [u8], c: u8, src: &[u8]) {
    let len = dst.len().min(src.len());
    // SAFETY: plain words need no instructions; `len` bytes are in both slices,
    // which do not overlap.
    unsafe { lanes::mul::<Register>(dst.as_mut_ptr(), src.as_ptr(), len, c) };
}

pub(crate) fn mul_add_terms<const R: usize>(dsts: [&mut [u8]; R], terms: &[Term<'_, R>]) {
    // SAFETY: plain words need no instructions; `terms` made one length.
    unsafe { lanes::mul_add_terms::<Register, R, 1>(dsts, terms) };
}
