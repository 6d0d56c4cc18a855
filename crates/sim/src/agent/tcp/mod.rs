//! TCP: a sender with a SACK scoreboard, driven by any controller, and its
//! receiver.
//!
//! Sequence numbers count segments, not bytes; each has its own length, as the
//! last one of an object is short. Every transmission has a packet number of its
//! own beside it, which is what controllers hear of. A sender sends no data
//! with its acknowledgements of nothing: data flows one way.
//!
//! Algorithms: [RFC6675] loss recovery with SACK, [RFC6582] without, [RFC6298]
//! timer, [RFC5681], [RFC3465] byte counting, [RFC3042] limited transmit,
//! [RFC3168] ECN; [RFC8985] RACK-TLP and [FEC]'s erasure blocks as options. Departures stand at their
//! places.

mod client;
mod config;
mod constant;
mod fec;
mod rack;
mod receiver;
mod rtt;
mod scoreboard;
mod sender;
mod server;
#[cfg(test)]
mod tests;

pub(crate) use client::TcpClient;
pub use config::{Recovery, TcpConfig};
pub use constant::ConstantRate;
pub use fec::Coding;
pub(crate) use receiver::TcpReceiver;
pub(crate) use rtt::RttEstimator;
pub(crate) use sender::TcpSender;
pub(crate) use server::{TcpServer, controller};

/// SACK blocks that fit beside timestamps ([RFC2018] §3).
pub(crate) const SACK_BLOCKS_MAX: usize = 3;

/// A segment with data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Segment {
    /// Number of the connection among those of the flow.
    pub(crate) connection: u32,
    /// Application bytes.
    pub(crate) len: u32,
    /// Place in the stream, in segments.
    pub(crate) sequence: u64,
    /// The sender has reduced its window ([RFC3168] §6.1.2).
    pub(crate) is_window_reduced: bool,
    /// Number of this transmission.
    pub(crate) number: u64,
    /// Its erasure block.
    pub(crate) block: fec::BlockTag,
}

impl Segment {
    /// Whether it has no data of its own.
    pub(crate) fn is_parity(&self) -> bool {
        self.block.n > 0 && self.sequence >= self.block.start + u64::from(self.block.k)
    }
}

/// An acknowledgement, or a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Ack {
    pub(crate) connection: u32,
    /// The next segment expected.
    pub(crate) cumulative: u64,
    /// Segments received beyond it, `from..to`, the newest first.
    pub(crate) blocks: [(u64, u64); SACK_BLOCKS_MAX],
    pub(crate) block_count: u8,
    /// A router met congestion ([RFC3168] §6.1.3).
    pub(crate) is_congested: bool,
    /// No data arrived that this would acknowledge: it only asks.
    pub(crate) is_request: bool,
    /// Bytes the client has asked for on this connection.
    pub(crate) requested: u64,
    /// Transmissions that came, and one more than the highest of their numbers.
    pub(crate) received: u64,
    pub(crate) due: u64,
}

impl Ack {
    pub(crate) fn blocks(&self) -> &[(u64, u64)] {
        &self.blocks[..usize::from(self.block_count)]
    }
}
