//! The choice of an instruction set, made once, and the slice operations.

use core::fmt;
use std::sync::OnceLock;

use thiserror::Error;

use crate::{Term, naive, portable, terms};

#[cfg(target_arch = "aarch64")]
use crate::neon;
#[cfg(target_arch = "x86_64")]
use crate::{avx2, gfni, gfni512, ssse3};

/// The environment variable that names the kernel to use, for tests.
pub const KERNEL_VARIABLE: &str = "CTCP_GF256_KERNEL";

/// One implementation of the slice operations.
///
/// Only kernels whose instructions this CPU has can be had, so every operation
/// is safe. All kernels give the same bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kernel(Kind);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    #[cfg(target_arch = "x86_64")]
    Gfni512,
    #[cfg(target_arch = "x86_64")]
    Gfni,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Ssse3,
    #[cfg(target_arch = "aarch64")]
    Neon,
    Portable,
    Naive,
}

/// All that this build holds, fastest first.
const KINDS: &[Kind] = &[
    #[cfg(target_arch = "x86_64")]
    Kind::Gfni512,
    #[cfg(target_arch = "x86_64")]
    Kind::Gfni,
    #[cfg(target_arch = "x86_64")]
    Kind::Avx2,
    #[cfg(target_arch = "x86_64")]
    Kind::Ssse3,
    #[cfg(target_arch = "aarch64")]
    Kind::Neon,
    Kind::Portable,
    Kind::Naive,
];

/// Why a kernel cannot be had by its name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KernelError {
    /// No kernel has this name, or it belongs to another architecture. Remedy:
    /// take one of the names listed, or unset `CTCP_GF256_KERNEL`.
    #[error("no GF(256) kernel is called `{name}`: this CPU can run {available}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names that work here, separated by commas.
        available: String,
    },
    /// This CPU lacks the kernel's instructions. Remedy: as for `Unknown`.
    #[error("this CPU lacks the instructions of GF(256) kernel `{name}`: it can run {available}")]
    Unavailable {
        /// The name asked for.
        name: String,
        /// The names that work here, separated by commas.
        available: String,
    },
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Gfni512 => "gfni512",
            #[cfg(target_arch = "x86_64")]
            Self::Gfni => "gfni",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Self::Ssse3 => "ssse3",
            #[cfg(target_arch = "aarch64")]
            Self::Neon => "neon",
            Self::Portable => "portable",
            Self::Naive => "naive",
        }
    }

    /// Whether this CPU has the instructions. What is asked for here is what
    /// the kernel's functions enable; the operations' safety rests on it.
    fn is_available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Gfni512 => {
                is_x86_feature_detected!("gfni")
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
            }
            #[cfg(target_arch = "x86_64")]
            Self::Gfni => {
                is_x86_feature_detected!("gfni")
                    && is_x86_feature_detected!("avx")
                    && is_x86_feature_detected!("avx2")
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Self::Ssse3 => is_x86_feature_detected!("ssse3"),
            #[cfg(target_arch = "aarch64")]
            Self::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            Self::Portable | Self::Naive => true,
        }
    }
}

/// Runs one operation on the kernel that `$kernel` names.
macro_rules! dispatch {
    ($kernel:expr, $operation:ident($($argument:expr),*)) => {
        match $kernel.0 {
            // SAFETY (all arms): a `Kernel` of this kind exists only if
            // `Kind::is_available` found the instructions.
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Kind::Gfni512 => unsafe { gfni512::$operation($($argument),*) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Kind::Gfni => unsafe { gfni::$operation($($argument),*) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Kind::Avx2 => unsafe { avx2::$operation($($argument),*) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Kind::Ssse3 => unsafe { ssse3::$operation($($argument),*) },
            #[cfg(target_arch = "aarch64")]
            // SAFETY: as above.
            Kind::Neon => unsafe { neon::$operation($($argument),*) },
            Kind::Portable => portable::$operation($($argument),*),
            Kind::Naive => naive::$operation($($argument),*),
        }
    };
}

impl Kernel {
    /// Byte by byte; slow, for reading and for checking the others.
    pub const NAIVE: Self = Self(Kind::Naive);
    /// The fastest that needs no certain instruction set.
    pub const PORTABLE: Self = Self(Kind::Portable);

    /// All kernels that this CPU can run, fastest first.
    pub fn available() -> impl Iterator<Item = Self> {
        KINDS
            .iter()
            .filter(|kind| kind.is_available())
            .map(|&kind| Self(kind))
    }

    /// The fastest that this CPU can run.
    #[must_use]
    pub fn best() -> Self {
        Self::available().next().unwrap_or(Self::PORTABLE)
    }

    /// The kernel in use: what [`Kernel::requested`] found at the first call, or
    /// the best. The choice is made once and holds for the whole process.
    ///
    /// A request that cannot be met does not stop a transfer: the best is used.
    /// Programs that want to report it call [`Kernel::requested`] at the start.
    #[must_use]
    pub fn active() -> Self {
        static ACTIVE: OnceLock<Kernel> = OnceLock::new();
        *ACTIVE.get_or_init(|| Self::requested().ok().flatten().unwrap_or_else(Self::best))
    }

    /// The kernel that the environment variable `CTCP_GF256_KERNEL` names;
    /// `None` if it is unset or empty.
    ///
    /// # Errors
    /// [`KernelError`] if that kernel does not exist here or cannot run here.
    pub fn requested() -> Result<Option<Self>, KernelError> {
        match std::env::var_os(KERNEL_VARIABLE) {
            Some(name) if !name.is_empty() => Self::by_name(&name.to_string_lossy()).map(Some),
            _ => Ok(None),
        }
    }

    /// The kernel with this name: `gfni512`, `gfni`, `avx2`, `ssse3`, `neon`,
    /// `portable` or `naive`.
    ///
    /// # Errors
    /// [`KernelError`] if it does not exist here or cannot run here.
    pub fn by_name(name: &str) -> Result<Self, KernelError> {
        let available = || {
            let names: Vec<_> = Self::available().map(Self::name).collect();
            names.join(", ")
        };
        let Some(&kind) = KINDS.iter().find(|kind| kind.name() == name) else {
            return Err(KernelError::Unknown {
                name: name.to_owned(),
                available: available(),
            });
        };
        if !kind.is_available() {
            return Err(KernelError::Unavailable {
                name: name.to_owned(),
                available: available(),
            });
        }
        Ok(Self(kind))
    }

    /// Its name, for tests, benchmarks and bug reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0.name()
    }

    /// dst += src.
    ///
    /// `src` may be shorter, as if zeros followed.
    ///
    /// # Panics
    /// If `src` is longer than `dst`.
    pub fn add(self, dst: &mut [u8], src: &[u8]) {
        let dst = &mut dst[..src.len()];
        dispatch!(self, add(dst, src));
    }

    /// dst = c · dst.
    pub fn mul(self, dst: &mut [u8], c: u8) {
        dispatch!(self, mul_in_place(dst, c));
    }

    /// dst = c · src.
    ///
    /// `src` may be shorter, as if zeros followed: the rest of `dst` is zeroed.
    ///
    /// # Panics
    /// If `src` is longer than `dst`.
    pub fn mul_into(self, dst: &mut [u8], c: u8, src: &[u8]) {
        let (covered, rest) = dst.split_at_mut(src.len());
        rest.fill(0);
        dispatch!(self, mul_into(covered, c, src));
    }

    /// dst += c · src.
    ///
    /// `src` may be shorter, as if zeros followed.
    ///
    /// # Panics
    /// If `src` is longer than `dst`.
    pub fn mul_add(self, dst: &mut [u8], c: u8, src: &[u8]) {
        let dst = &mut dst[..src.len()];
        let terms = [Term::one(c, src)];
        dispatch!(self, mul_add_terms([dst], &terms));
    }

    /// Adds to each of up to four destinations its own sum over the same
    /// sources: `dsts[r]` += Σ `coefficients[r]` · `bytes`.
    ///
    /// Each destination is read and written once and each source read once, in
    /// one pass over all of them. Sources may be shorter than the destinations,
    /// as if zeros followed; equal lengths are fastest.
    ///
    /// # Panics
    /// If the destinations differ in length, or a source is longer than they.
    /// `R` outside 1 to [`DESTINATIONS_MAX`](crate::DESTINATIONS_MAX) does not
    /// compile.
    pub fn mul_add_terms<const R: usize>(self, dsts: [&mut [u8]; R], terms: &[Term<'_, R>]) {
        terms::in_equal_lengths(dsts, terms, |dsts, terms| {
            dispatch!(self, mul_add_terms(dsts, terms));
        });
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Default for Kernel {
    /// [`Kernel::active`].
    fn default() -> Self {
        Self::active()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_available_kernel_is_found_by_its_name() {
        for kernel in Kernel::available() {
            assert_eq!(Kernel::by_name(kernel.name()), Ok(kernel));
        }
        assert!(Kernel::available().any(|kernel| kernel == Kernel::NAIVE));
        assert!(Kernel::available().any(|kernel| kernel == Kernel::PORTABLE));
        assert_ne!(Kernel::best(), Kernel::NAIVE);
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_names_that_work() {
        let error = Kernel::by_name("abacus").unwrap_err();
        assert!(
            matches!(&error, KernelError::Unknown { name, .. } if name == "abacus"),
            "{error}"
        );
        assert!(error.to_string().contains("portable, naive"), "{error}");
    }

    #[test]
    fn the_environment_chooses_the_active_kernel() {
        // Whatever the caller set; .ci runs this for several.
        match Kernel::requested() {
            Ok(Some(kernel)) => assert_eq!(Kernel::active(), kernel),
            Ok(None) | Err(_) => assert_eq!(Kernel::active(), Kernel::best()),
        }
    }

    #[test]
    #[should_panic]
    fn a_source_longer_than_the_destination_is_refused() {
        Kernel::active().mul_add(&mut [0; 3], 1, &[0; 4]);
    }

    #[test]
    #[should_panic(expected = "no source is longer")]
    fn a_term_longer_than_the_destination_is_refused() {
        Kernel::active().mul_add_terms([&mut [0; 3]], &[Term::one(1, &[0; 4])]);
    }

    #[test]
    #[should_panic(expected = "one length")]
    fn destinations_of_different_lengths_are_refused() {
        Kernel::active().mul_add_terms([&mut [0; 3], &mut [0; 2]], &[]);
    }
}
