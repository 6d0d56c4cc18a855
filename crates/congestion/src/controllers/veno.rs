//! `veno`: TCP Veno, Reno that asks the queue whether a loss was chance.
//!
//! Fu & Liew 2003; `tcp-flavours.md` §7: [`VenoIncrease`] and [`VenoBackoff`] with
//! β_N = 3 packets. Helps a little on short lossy paths: a random loss costs a
//! fifth and not half, which raises √(1.5/p) by a factor of about 1.7.

use crate::aimd::Aimd;
use crate::backoff::VenoBackoff;
use crate::increase::VenoIncrease;
use crate::params::Params;

/// The controller `veno`.
pub fn veno(params: &Params) -> Aimd<VenoIncrease, VenoBackoff> {
    let params = params.clamped();
    Aimd::new(
        "veno",
        &params,
        VenoIncrease::new(params.veno_backlog),
        VenoBackoff::new(params.veno_backlog),
    )
}
