//! The loops that all vector kernels share.
//!
//! An instruction set is described by [`Lanes`]: how many bytes it holds in a
//! register and how it adds and multiplies them. The loops here are written
//! once and compiled into each kernel with that kernel's instructions, which is
//! why everything is `inline(always)`: the caller carries the
//! `target_feature`.
//!
//! A length that is no multiple of the register is finished by one more
//! register that ends where the slice ends and overlaps what the loop writes.
//! It is computed from the old bytes, before the loop, and stored after it, so
//! the overlapped bytes receive the same values twice.

use crate::Term;

/// One register of bytes.
///
/// # Safety
/// `load` and `store` touch exactly `LEN` bytes at the address given, which
/// needs no alignment, and `LEN` is between 1 and [`LANES_LEN_MAX`].
///
/// All functions may be called only where the CPU has the instructions of the
/// implementing kernel.
pub(crate) unsafe trait Lanes: Copy {
    /// Bytes in the register.
    const LEN: usize;
    /// A factor made ready for many products.
    type Factor: Copy;
    /// A register made ready for products with many factors.
    type Operand: Copy;

    /// # Safety
    /// `LEN` bytes at `from` are readable.
    unsafe fn load(from: *const u8) -> Self;
    /// # Safety
    /// `LEN` bytes at `to` are writable.
    unsafe fn store(self, to: *mut u8);
    /// # Safety
    /// The CPU has the kernel's instructions.
    unsafe fn add(self, other: Self) -> Self;
    /// # Safety
    /// The CPU has the kernel's instructions.
    unsafe fn factor(c: u8) -> Self::Factor;
    /// # Safety
    /// The CPU has the kernel's instructions.
    unsafe fn operand(self) -> Self::Operand;
    /// # Safety
    /// The CPU has the kernel's instructions.
    unsafe fn product(operand: Self::Operand, factor: Self::Factor) -> Self;
}

/// The widest register, in bytes.
pub(crate) const LANES_LEN_MAX: usize = 64;

/// dst ^= src.
///
/// # Safety
/// The CPU has the instructions of `V`; both slices have one length.
#[inline(always)]
pub(crate) unsafe fn add<V: Lanes>(dst: &mut [u8], src: &[u8]) {
    debug_assert_eq!(dst.len(), src.len());
    let len = dst.len();
    if len < V::LEN {
        for (d, s) in dst.iter_mut().zip(src) {
            *d ^= s;
        }
        return;
    }
    let (dst, src) = (dst.as_mut_ptr(), src.as_ptr());
    let last = len - V::LEN;
    // SAFETY: `at` is at most `last` in every turn, so `LEN` bytes from there
    // lie inside both slices; instructions by this function's contract.
    unsafe {
        let end = V::load(dst.add(last)).add(V::load(src.add(last)));
        let mut at = 0;
        while at < last {
            V::load(dst.add(at))
                .add(V::load(src.add(at)))
                .store(dst.add(at));
            at += V::LEN;
        }
        end.store(dst.add(last));
    }
}

/// dst = c · src, where `dst` and `src` may be the same bytes.
///
/// # Safety
/// The CPU has the instructions of `V`; `len` bytes are readable at `src` and
/// writable at `dst`; the two ranges are one and the same or do not overlap.
#[inline(always)]
pub(crate) unsafe fn mul<V: Lanes>(dst: *mut u8, src: *const u8, len: usize, c: u8) {
    if len < V::LEN {
        for at in 0..len {
            // SAFETY: `at` is below `len`.
            unsafe { *dst.add(at) = crate::mul(c, *src.add(at)) };
        }
        return;
    }
    let last = len - V::LEN;
    // SAFETY: `at` is at most `last` in every turn, so `LEN` bytes from there
    // lie inside both ranges; instructions by this function's contract.
    unsafe {
        let factor = V::factor(c);
        let end = V::product(V::load(src.add(last)).operand(), factor);
        let mut at = 0;
        while at < last {
            V::product(V::load(src.add(at)).operand(), factor).store(dst.add(at));
            at += V::LEN;
        }
        end.store(dst.add(last));
    }
}

/// `dsts[r]` ^= Σ `coefficients[r]` · `bytes` over all terms, for each r.
///
/// Goes over the slices in tiles of `WIDE` registers. A tile's destinations
/// stay in registers while all terms pass; each destination is read and written
/// once and each source read once, however many of either there are.
///
/// # Safety
/// The CPU has the instructions of `V`; all destinations and the bytes of all
/// terms have one length.
#[inline(always)]
pub(crate) unsafe fn mul_add_terms<V: Lanes, const R: usize, const WIDE: usize>(
    dsts: [&mut [u8]; R],
    terms: &[Term<'_, R>],
) {
    let len = dsts[0].len();
    debug_assert!(dsts.iter().all(|dst| dst.len() == len));
    debug_assert!(terms.iter().all(|term| term.bytes.len() == len));
    let dsts = dsts.map(|dst| dst.as_mut_ptr());
    if len < V::LEN {
        // SAFETY: `len` bytes are there by contract and fit a register.
        unsafe { mul_add_terms_short::<V, R>(dsts, len, terms) };
        return;
    }
    let last = len - V::LEN;
    // SAFETY: the tile at `at` ends at or before `len` in every turn, by the
    // loops' conditions; instructions and lengths by this function's contract.
    unsafe {
        let ragged = !len.is_multiple_of(V::LEN);
        let end = ragged.then(|| tile::<V, R, 1>(&dsts, last, terms));
        let mut at = 0;
        while at + WIDE * V::LEN <= len {
            let sums = tile::<V, R, WIDE>(&dsts, at, terms);
            store_tile(&dsts, at, sums);
            at += WIDE * V::LEN;
        }
        while at + V::LEN <= len {
            let sums = tile::<V, R, 1>(&dsts, at, terms);
            store_tile(&dsts, at, sums);
            at += V::LEN;
        }
        if let Some(sums) = end {
            store_tile(&dsts, last, sums);
        }
    }
}

/// What the destinations will hold in the `WIDE` registers from `at` on.
///
/// # Safety
/// The CPU has the instructions of `V`; `WIDE` registers from `at` on lie
/// inside every destination and every source.
#[inline(always)]
unsafe fn tile<V: Lanes, const R: usize, const WIDE: usize>(
    dsts: &[*mut u8; R],
    at: usize,
    terms: &[Term<'_, R>],
) -> [[V; WIDE]; R] {
    // SAFETY: all by this function's contract.
    unsafe {
        let mut sums: [[V; WIDE]; R] = core::array::from_fn(|r| {
            core::array::from_fn(|w| V::load(dsts[r].add(at + w * V::LEN)))
        });
        for term in terms {
            let from = term.bytes.as_ptr().add(at);
            let operands: [V::Operand; WIDE] =
                core::array::from_fn(|w| V::load(from.add(w * V::LEN)).operand());
            for (registers, c) in sums.iter_mut().zip(term.coefficients) {
                let factor = V::factor(c);
                for (sum, operand) in registers.iter_mut().zip(operands) {
                    *sum = sum.add(V::product(operand, factor));
                }
            }
        }
        sums
    }
}

/// Writes what [`tile`] computed.
///
/// # Safety
/// As for [`tile`].
#[inline(always)]
unsafe fn store_tile<V: Lanes, const R: usize, const WIDE: usize>(
    dsts: &[*mut u8; R],
    at: usize,
    sums: [[V; WIDE]; R],
) {
    for (dst, registers) in dsts.iter().zip(sums) {
        for (w, register) in registers.into_iter().enumerate() {
            // SAFETY: inside the destination by this function's contract.
            unsafe { register.store(dst.add(at + w * V::LEN)) };
        }
    }
}

/// [`mul_add_terms`] for less than a register, by way of the stack.
///
/// # Safety
/// The CPU has the instructions of `V`; `len` is below `V::LEN` and is the
/// length of all destinations and of the bytes of all terms.
#[inline(always)]
unsafe fn mul_add_terms_short<V: Lanes, const R: usize>(
    dsts: [*mut u8; R],
    len: usize,
    terms: &[Term<'_, R>],
) {
    if len == 0 {
        return;
    }
    let mut buffer = [0; LANES_LEN_MAX];
    // SAFETY: `len` is below `V::LEN`, which is at most the buffer's length, so
    // the copies stay inside the buffer and the loads and stores too; `len`
    // bytes are there in destinations and sources by contract.
    unsafe {
        let mut sums: [V; R] = core::array::from_fn(|r| {
            buffer.as_mut_ptr().copy_from_nonoverlapping(dsts[r], len);
            V::load(buffer.as_ptr())
        });
        for term in terms {
            buffer[..len].copy_from_slice(&term.bytes[..len]);
            let operand = V::load(buffer.as_ptr()).operand();
            for (sum, c) in sums.iter_mut().zip(term.coefficients) {
                *sum = sum.add(V::product(operand, V::factor(c)));
            }
        }
        for (sum, dst) in sums.into_iter().zip(dsts) {
            sum.store(buffer.as_mut_ptr());
            dst.copy_from_nonoverlapping(buffer.as_ptr(), len);
        }
    }
}
