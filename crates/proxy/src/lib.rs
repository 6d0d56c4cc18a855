//! SOCKS forward proxy and reverse proxy.
//!
//! An application speaks SOCKS to the [`forward::ForwardProxy`] near it. That
//! opens a stream through a [`tunnel::Tunnel`], asks by [`request`] for the
//! target, and relays. At the far side the [`reverse::ReverseProxy`] judges the
//! target by its [`egress::EgressPolicy`], connects, and relays. Neither knows
//! what the tunnel is made of.
//!
//! What holds for both: names are resolved at the far side; each direction ends
//! by itself; whatever ends early is seen as a reset at the other side, never as
//! a clean end; every wait and every table has a limit.

mod accept;
mod connect;
pub mod egress;
pub mod forward;
mod gate;
pub mod memory;
pub mod port_forward;
pub mod request;
pub mod resolve;
pub mod reverse;
pub mod shutdown;
pub mod socks;
pub mod splice;
pub mod stats;
pub mod target;
pub mod tunnel;

/// The seed of randomized tests: `CTCP_SEED`, else a fixed one. Printed, so that
/// a failure shows it.
#[cfg(test)]
pub(crate) fn test_seed() -> u64 {
    let seed = std::env::var("CTCP_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1);
    println!("CTCP_SEED={seed}");
    seed
}
