//! `reno`: fixed-backoff AIMD on the same tokens, TCP Reno's window.
//!
//! α = 1, β = ½ (`transport.md` §11.4, `reno_tokens`). It serves as control in
//! friendliness tests ([CC14] §IV); on lossy paths it is as slow as TCP.

use crate::aimd::Aimd;
use crate::backoff::Fixed;
use crate::increase::Linear;
use crate::params::Params;

/// The controller `reno`.
pub fn reno(params: &Params) -> Aimd<Linear, Fixed> {
    let params = params.clamped();
    Aimd::new(
        "reno",
        &params,
        Linear::new(params.alpha),
        Fixed::new(params.beta),
    )
}
