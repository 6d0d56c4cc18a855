//! Links of `ctcp-link` in real time.
//!
//! [`network`] joins network namespaces by paths: a [`router`] passes every
//! packet between them through links that lose, delay and limit. It needs root,
//! or user namespaces ([`namespace::enter_user_namespace`]).
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

pub mod attachment;
pub mod check;
pub mod namespace;
pub mod network;
pub mod preflight;
pub mod relay;
pub mod router;

mod buffer;
mod clock;
mod line;
mod packet;
mod poller;
mod priority;
mod timing;

pub use attachment::{Attachment, AttachmentKind};
pub use ctcp_link::{LinkConfig, LinkCounters};
pub use namespace::{Namespace, NamespaceError, Process, enter_user_namespace};
pub use network::{Network, NetworkConfig, NetworkError, PathConfig, TcpTuning};
pub use relay::{Relay, RelayConfig, RelayCounters, RelayError, RelayHandle};
pub use router::{Router, RouterConfig, RouterCounters, RouterError, RouterHandle};
pub use timing::{LATE, TimingError};
