//! `compound`: Compound TCP, Reno with a window more while the queue is short.
//!
//! Tan et al. 2006; `tcp-flavours.md` §9: [`CompoundIncrease`], halved by every
//! loss. Helps on fast long paths with short queues.

use crate::aimd::Aimd;
use crate::backoff::Fixed;
use crate::increase::CompoundIncrease;
use crate::params::Params;

/// The controller `compound`.
pub fn compound(params: &Params) -> Aimd<CompoundIncrease, Fixed> {
    let params = params.clamped();
    Aimd::new(
        "compound",
        &params,
        CompoundIncrease::new(),
        Fixed::new(params.beta),
    )
}
