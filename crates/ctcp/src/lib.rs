//! CTCP for applications: endpoints, connections and streams on tokio and UDP.
//!
//! An [`Endpoint`] owns a UDP socket, and one for each further path. It opens and accepts [`Connection`]s,
//! authenticated by static keys and encrypted; each carries many [`Stream`]s,
//! which are [`AsyncRead`](tokio::io::AsyncRead) and
//! [`AsyncWrite`](tokio::io::AsyncWrite). The transport inside is
//! `ctcp_proto`, a state machine without sockets or clock; this crate gives it
//! both.
//!
//! Datagrams leave and arrive in batches (GSO, GRO) with their ECN marks.
//! Deadlines are kept to microseconds where the system allows it: the pacing of
//! datagrams depends on it.

mod clock;
mod config;
mod connection;
mod driver;
mod endpoint;
mod error;
mod path;
mod shared;
mod socket;
mod sockets;
mod stream;
mod timer;

pub use config::{ClientConfig, ServerConfig};
pub use connection::Connection;
pub use endpoint::{Endpoint, EndpointStats};
pub use error::{
    ClosePathError, ConnectError, ConnectionError, OpenPathError, OpenStreamError, StartError,
    StreamError,
};
pub use path::PathConfig;
pub use socket::{SocketConfig, SocketStats};
pub use stream::{ReceiveStream, SendStream, Stream};

pub use ctcp_proto::crypto::{ClientError, Refusal};
pub use ctcp_proto::{
    Authorize, ConnectionStats, DatagramError, Decision, DelayHistogram, Identity, PacketCounts,
    PathEvent, PathOptions, PathState, PathStats, PingDirection, PingLog, PingReport, PublicKey,
    Remembered, SecretKey, Trace, TraceContent, TraceEvent, TransportConfig, TransportConfigError,
};
pub use ctcp_units::{PathId, StreamId};

/// The book's page about this crate: its code is compiled and run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/library.md")]
pub struct BookPage;
