//! `hybla`: TCP Hybla, for satellites beside short paths.
//!
//! Caini & Firrincieli 2004; `tcp-flavours.md` §5. Growth by ρ² packets a round
//! trip ([`HyblaIncrease`]), halved by every loss as Reno. Helps on long paths
//! that share a bottleneck with short ones; random loss holds it at Reno's rate
//! over RTT_0, √(1.5/p)/RTT_0, as long as losses are rarer than round trips. Where
//! every round trip has one, the single backoff a round trip leaves it near ρ²
//! packets, whatever p: TCP loses that to its retransmissions, the token
//! transport does not.

use crate::aimd::Aimd;
use crate::backoff::Fixed;
use crate::increase::HyblaIncrease;
use crate::params::Params;

/// The controller `hybla`.
pub fn hybla(params: &Params) -> Aimd<HyblaIncrease, Fixed> {
    let params = params.clamped();
    Aimd::new(
        "hybla",
        &params,
        HyblaIncrease::new(params.hybla),
        Fixed::new(params.beta),
    )
}
