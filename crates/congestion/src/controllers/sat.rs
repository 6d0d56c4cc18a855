//! `sat`: CTCP v2, H-TCP's increase with the papers' β = RTTmin/RTT.
//!
//! [SAT] §III; `transport.md` §11.3. Per acknowledged packet in avoidance
//! `tokens += α(Δ)/tokens`, see [`HTcpIncrease`]; per loss event
//! `tokens ← tokens·RTTmin/RTT`, see [`RttRatio`]. Helps on long paths
//! (satellites) that lose by chance: losses cost nothing and the window reaches
//! a bandwidth-delay product of hundreds of packets in seconds, where `cc14`
//! adds one packet a round trip. It shares `cc14`'s weakness for delay that
//! varies without a queue.
//!
//! Readings: α is not scaled by 2(1 − β) unless `htcp_scaling` says so, as β is 1
//! on an idle queue (E-SAT-01); Δ restarts only when β < `beta_hold` (E-SAT-02).

use crate::aimd::Aimd;
use crate::backoff::RttRatio;
use crate::increase::{HTcpIncrease, HTcpRules};
use crate::params::Params;

/// The controller `sat`.
pub fn sat(params: &Params) -> Aimd<HTcpIncrease, RttRatio> {
    let params = params.clamped();
    let rules = HTcpRules {
        is_scaled: params.sat.htcp_scaling,
        is_rtt_scaled: false,
        beta_hold: params.sat.beta_hold,
    };
    Aimd::new(
        "sat",
        &params,
        HTcpIncrease::new(rules),
        RttRatio::new(params.jitter_guard),
    )
}
