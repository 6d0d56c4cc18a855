//! `westwood`: TCP Westwood+, Reno that falls back to the bandwidth it saw.
//!
//! Mascolo et al. 2001, Grieco & Mascolo 2004; `tcp-flavours.md` §6: Reno's
//! growth, and [`Bandwidth`] for the backoff. Helps on lossy paths with a small
//! bandwidth-delay product.

use crate::aimd::Aimd;
use crate::backoff::Bandwidth;
use crate::increase::Linear;
use crate::params::Params;

/// The controller `westwood`.
pub fn westwood(params: &Params) -> Aimd<Linear, Bandwidth> {
    let params = params.clamped();
    Aimd::new(
        "westwood",
        &params,
        Linear::new(params.alpha),
        Bandwidth::default(),
    )
}
