//! Links of `ctcp-link` in real time.
//!
//! [`relay`] forwards UDP datagrams through a pair of links, one per direction:
//! whoever sends to its address reaches the target behind a path that loses,
//! delays and limits. It needs no privileges.
//!
//! ```
//! use std::net::UdpSocket;
//!
//! use ctcp_emu::{LinkConfig, Relay, RelayConfig};
//! use ctcp_units::{Rate, millis};
//!
//! let target = UdpSocket::bind("127.0.0.1:0")?;
//! let link = LinkConfig::new(Rate::mbit(25), millis(5)).queue_bdp(1.0, millis(10));
//! let listen = "127.0.0.1:0".parse()?;
//! let relay = Relay::spawn(RelayConfig::new(listen, target.local_addr()?, link.clone(), link))?;
//!
//! let client = UdpSocket::bind("127.0.0.1:0")?;
//! client.send_to(b"hello", relay.local_addr())?;
//! let mut space = [0; 100];
//! let (len, _) = target.recv_from(&mut space)?;
//! assert_eq!(&space[..len], b"hello");
//! assert_eq!(relay.stop()?.up.delivered, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Linux only: it sleeps on epoll and a timer of nanosecond resolution.

pub mod relay;

mod buffer;
mod clock;
mod poller;
mod timing;

pub use ctcp_link::{LinkConfig, LinkCounters};
pub use relay::{Relay, RelayConfig, RelayCounters, RelayError, RelayHandle};
pub use timing::TimingError;
