//! Arithmetic in GF(2^8), on single elements and on slices of bytes.
//!
//! The field is GF(2)\[x\] / (x^8 + x^4 + x^3 + x^2 + 1), polynomial `0x11D`, with
//! the generator 2. The papers do not name a polynomial; both ends of a
//! connection must agree on it, so it is a constant of the protocol. Addition
//! and subtraction are the same: exclusive or.
//!
//! * [`mul`], [`inv`], [`div`], [`exp`], [`log`] work on single elements.
//! * [`Kernel`] works on slices. There is one kernel for each instruction set,
//!   in a file of its own, and all give the same bytes. [`Kernel::active`] is
//!   the one to use unless a test or a benchmark wants a certain one:
//!
//! ```
//! use ctcp_gf256::{Kernel, Term};
//!
//! let kernel = Kernel::active();
//! let (a, b) = ([1, 2, 3, 4], [5, 6]);
//! let mut sum = [0; 4];
//! kernel.mul_add(&mut sum, 3, &a);
//! // `b` is shorter: it counts as if zeros followed.
//! kernel.mul_add_terms([&mut sum], &[Term::one(7, &b)]);
//! assert_eq!(sum[3], ctcp_gf256::mul(3, 4));
//! ```
//!
//! None of this is constant-time in its coefficients; they are no secrets here.
//!
//! This is the only crate of the workspace with `unsafe` code. All of it stands
//! in the kernels' files and `lanes`, behind safe functions that check lengths,
//! and behind [`Kernel`], which exists only for what the CPU can do.

mod kernel;
mod lanes;
mod scalar;
mod tables;
mod terms;

mod naive;
mod portable;

#[cfg(target_arch = "aarch64")]
mod neon;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod gfni;
#[cfg(target_arch = "x86_64")]
mod gfni512;
#[cfg(target_arch = "x86_64")]
mod ssse3;

pub use kernel::{KERNEL_VARIABLE, Kernel, KernelError};
pub use scalar::{div, exp, inv, log, mul};
pub use terms::{DESTINATIONS_MAX, Term};

/// The field's polynomial, x^8 + x^4 + x^3 + x^2 + 1.
pub const POLYNOMIAL: u16 = 0x11D;
/// A generator of the multiplicative group: its powers are all elements but 0.
pub const GENERATOR: u8 = 2;
