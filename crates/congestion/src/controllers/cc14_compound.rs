//! `cc14-compound`: Compound's growth with the papers' β = RTTmin/RTT.
//!
//! [CC14] §III names the combination and leaves it at that: [`CompoundIncrease`],
//! both windows multiplied by β at a loss event. Helps where `cc14` does, and
//! fills a large idle path by up to ⅛·tokens^¾ packets a round trip instead of
//! one, while fewer than 30 packets wait.

use crate::aimd::Aimd;
use crate::backoff::RttRatio;
use crate::increase::CompoundIncrease;
use crate::params::Params;

/// The controller `cc14-compound`.
pub fn cc14_compound(params: &Params) -> Aimd<CompoundIncrease, RttRatio> {
    let params = params.clamped();
    Aimd::new(
        "cc14-compound",
        &params,
        CompoundIncrease::new(),
        RttRatio::new(params.jitter_guard),
    )
}
