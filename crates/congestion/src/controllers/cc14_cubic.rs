//! `cc14-cubic`: CUBIC's growth with the papers' β = RTTmin/RTT.
//!
//! [CC14] §III names the combination and leaves it at that. The curve is
//! [RFC9438]'s ([`CubicIncrease`]); its floor is `cc14`'s growth of α packets a
//! round trip, and its epoch restarts only at a backoff below `beta_hold`, as in
//! `sat`: both are ours. Helps where `cc14` does, and reaches a large window
//! sooner after a real reduction.

use crate::aimd::Aimd;
use crate::backoff::RttRatio;
use crate::increase::{CubicIncrease, CubicRules};
use crate::params::Params;

/// The controller `cc14-cubic`.
pub fn cc14_cubic(params: &Params) -> Aimd<CubicIncrease, RttRatio> {
    let params = params.clamped();
    let rules = CubicRules {
        alpha: params.alpha,
        beta_hold: params.sat.beta_hold,
        fast_convergence: params.cubic_fast_convergence,
    };
    Aimd::new(
        "cc14-cubic",
        &params,
        CubicIncrease::new(rules),
        RttRatio::new(params.jitter_guard),
    )
}
