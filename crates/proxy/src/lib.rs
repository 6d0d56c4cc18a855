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
//!
//! Both ends in one process, with a tunnel in memory between them:
//!
//! ```
//! use ctcp_proxy::egress::EgressPolicy;
//! use ctcp_proxy::forward::{Entry, ForwardConfig, ForwardProxy};
//! use ctcp_proxy::reverse::{ReverseConfig, ReverseProxy};
//! use ctcp_proxy::shutdown::shutdown;
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use tokio::net::{TcpListener, TcpStream};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let (tunnel, listener) = ctcp_proxy::memory::tunnel(16, 64 << 10);
//! let (stop, stopped) = shutdown();
//!
//! let far = ReverseProxy::new(EgressPolicy::default(), ReverseConfig::default());
//! let far = tokio::spawn({
//!     let stopped = stopped.clone();
//!     async move { far.serve(listener, stopped).await }
//! });
//!
//! let socket = TcpListener::bind("127.0.0.1:0").await?;
//! let address = socket.local_addr()?;
//! let near = ForwardProxy::new(tunnel, ForwardConfig::default());
//! let near = tokio::spawn(async move { near.serve(socket, Entry::Socks, stopped).await });
//!
//! // An application asks by SOCKS5 for the far side's own port 22.
//! let mut application = TcpStream::connect(address).await?;
//! application.write_all(&[5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1, 0, 22]).await?;
//! let mut answer = [0; 12];
//! application.read_exact(&mut answer).await?;
//! assert_eq!(answer[3], 2, "not allowed by the egress policy");
//!
//! stop.start(std::time::Duration::from_secs(5));
//! near.await?;
//! far.await?;
//! # Ok(())
//! # }
//! ```

mod accept;
pub mod allowlist;
pub mod client;
mod connect;
pub mod egress;
pub mod forward;
mod gate;
pub mod invite;
pub mod key;
pub mod limits;
pub mod memory;
pub mod port_forward;
pub mod redirect;
pub mod request;
pub mod resolve;
pub mod reverse;
pub mod shutdown;
pub mod socks;
pub mod speedtest;
pub mod splice;
pub mod stats;
pub mod streams;
pub mod target;
mod throttle;
pub mod tunnel;
pub mod udp;

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
