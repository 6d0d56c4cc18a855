//! Layouts of everything inside a protected datagram: parse and write, nothing
//! stateful. `docs/wire-format.md` draws them; golden bytes pin them.
//!
//! A protected datagram is `flags:1 | connection id:8 | packet number:3 |
//! plaintext | tag:16`. The plaintext begins with a [`Header`] that the flags
//! announce and goes on with
//!
//! * control frames ([`Frame`]) in a control packet,
//! * one source symbol in a systematic packet,
//! * one linear combination of source symbols in a coded packet.
//!
//! A source symbol holds stream frames ([`StreamFrame`]). All numbers are
//! big-endian; `varint` is that of RFC 9000 §16.

mod ack;
mod frame;
mod header;
mod params;
mod symbol;
mod varint;

pub use ack::{AckRanges, AckView, ECN_NONE, EcnCounts, RangesView};
pub use frame::{Frame, FrameIter, GenerationReport, ReportsView, datagram_content};
pub use header::{Flags, Header, SymbolTruncation};
pub use params::TransportParams;
pub use symbol::{StreamFrame, StreamFrames, stream_header_len};
pub use varint::{Reader, varint_len, write_varint};

use thiserror::Error;

/// Protocol version spoken by this code, carried in the first handshake packet.
pub const VERSION: u32 = 1;

/// Bytes of a connection id.
pub const CONNECTION_ID_LEN: usize = 8;
/// Bytes of the header in the clear: flags, connection id, packet number.
pub const CLEAR_HEADER_LEN: usize = 1 + CONNECTION_ID_LEN + 3;
/// Bytes of the authentication tag.
pub const TAG_LEN: usize = 16;
/// What a coded packet adds to the coded symbol it carries.
pub const CODED_OVERHEAD: usize = CLEAR_HEADER_LEN + 6 + TAG_LEN;
/// What a systematic packet adds to the content of its symbol.
pub const SYSTEMATIC_OVERHEAD: usize = CLEAR_HEADER_LEN + 4 + TAG_LEN;
/// What a control packet adds to its frames.
pub const CONTROL_OVERHEAD: usize = CLEAR_HEADER_LEN + TAG_LEN;
/// Bytes of the length that every symbol carries inside (architecture 5).
pub const SYMBOL_LEN_PREFIX: usize = 2;

/// Most ranges in one ACK (architecture 12).
pub const ACK_RANGES_MAX: usize = 64;
/// Most generations reported in one frame.
pub const REPORTS_MAX: usize = 64;
/// Longest text in a close frame, bytes.
pub const CLOSE_REASON_MAX: usize = 128;

/// The longest content a symbol may have when datagrams of `udp_payload_max`
/// bytes pass: what a *coded* packet has room for, less the length inside.
pub const fn symbol_content_max(udp_payload_max: usize) -> usize {
    udp_payload_max.saturating_sub(CODED_OVERHEAD + SYMBOL_LEN_PREFIX)
}

/// A connection id: names connection and path at the end that issued it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub [u8; CONNECTION_ID_LEN]);

impl core::fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl core::fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

/// Why bytes from the network make no sense.
///
/// Inside an authenticated packet this is the peer breaking the protocol: the
/// connection closes and says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ParseError {
    /// The bytes end inside a field.
    #[error("truncated: {needed} bytes needed, {present} present")]
    Truncated {
        /// Bytes the field needs.
        needed: usize,
        /// Bytes that were left.
        present: usize,
    },
    /// A frame type this version does not know.
    #[error("unknown frame type {0:#x}")]
    UnknownFrame(u64),
    /// A packet kind this version does not know.
    #[error("unknown packet kind in flags {0:#04x}")]
    UnknownPacketKind(u8),
    /// A field whose value cannot be.
    #[error("{field} has the impossible value {value}")]
    Impossible {
        /// The field's name.
        field: &'static str,
        /// What it held.
        value: u64,
    },
}
