//! Links of `ctcp-link` in real time.
//!
//! [`relay`] forwards UDP datagrams through a pair of links, one per direction:
//! whoever sends to its address reaches the target behind a path that loses,
//! delays and limits. It needs no privileges.
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
