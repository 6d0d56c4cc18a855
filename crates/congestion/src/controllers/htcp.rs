//! `htcp`: H-TCP, growth by the time since the last congestion.
//!
//! Leith & Shorten 2004; `tcp-flavours.md` §4. Increase max(1, 2(1 − β)·α(Δ))
//! packets a round trip ([`HTcpIncrease`]), backoff RTTmin/RTTmax in `[0.5, 0.8]`
//! ([`HTcpBackoff`]). Helps on fast long paths that are rarely congested. Random
//! loss restarts Δ every time, so on lossy paths it is TCP Reno.

use crate::aimd::Aimd;
use crate::backoff::HTcpBackoff;
use crate::increase::{HTcpIncrease, HTcpRules};
use crate::params::Params;

/// The controller `htcp`.
pub fn htcp(params: &Params) -> Aimd<HTcpIncrease, HTcpBackoff> {
    let params = params.clamped();
    let rules = HTcpRules {
        is_scaled: true,
        is_rtt_scaled: params.htcp_rtt_scaling,
        // Above every factor: each event restarts Δ.
        beta_hold: 2.0,
    };
    Aimd::new(
        "htcp",
        &params,
        HTcpIncrease::new(rules),
        HTcpBackoff::default(),
    )
}
