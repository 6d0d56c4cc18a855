//! The transport as a state machine without sockets and without a clock.
//!
//! An [`Endpoint`] routes datagrams to [`Connection`]s and answers handshakes. A
//! [`Connection`] is driven by `(now, datagram)` and answers with `(datagram,
//! deadline, event)`; its documentation states the contract. The same code runs
//! over UDP, inside the simulator and under a test that injects faults, and a bug
//! seen in one is replayed in the others from a seed.

mod block;
mod config;
mod connection;
pub mod crypto;
mod endpoint;
mod histogram;
mod memory;
mod path;
mod ping;
pub mod schedule;
pub mod stream;
mod trace;
pub mod wire;

pub use block::PATHS_MAX;
pub use block::{BlockViolation, Redundancy};
pub use config::{TransportConfig, TransportConfigError};
pub use connection::{
    ClosePathError, Connection, ConnectionError, ConnectionHandle, ConnectionStats, Coupling,
    DatagramError, Event, OpenPathError, PacketCounts, PathEvent, PathOptions, UnknownCoupling,
    Violation, close_code,
};
pub use crypto::{Identity, PublicKey, SecretKey};
pub use ctcp_congestion::Remembered;
pub use endpoint::{Authorize, Decision, Endpoint, EndpointConfig, EndpointStats, Verdict};
pub use histogram::DelayHistogram;
pub use memory::PathMemory;
pub use path::{ByteCounts, EcnFailure, EcnState, MtuMode, PathState, PathStats};
pub use ping::{PINGS_MAX, PingDirection, PingFate, PingLog, PingReport};
pub use schedule::{Scheduler, UnknownScheduler};
pub use trace::{Trace, TraceContent, TraceEvent};

use std::net::SocketAddr;

use ctcp_units::PathId;

/// The ECN field of an IP packet, when it is not zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ecn {
    /// The transport understands ECN; codepoint `10`.
    Ect0,
    /// The same, codepoint `01`.
    Ect1,
    /// A router met congestion; codepoint `11`.
    Ce,
}

/// A datagram, or several for the same address, to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// The path it leaves on.
    pub path: PathId,
    /// Where it goes.
    pub remote: SocketAddr,
    /// The mark it carries.
    pub ecn: Option<Ecn>,
    /// Length of each datagram; the last may be shorter.
    pub segment_len: usize,
    /// Length of all of them.
    pub len: usize,
}
