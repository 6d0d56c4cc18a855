//! Ordered byte streams multiplexed onto symbols, and flow control.
//!
//! A stream is two halves, each with its own end. What the application writes
//! waits in the sending half until a symbol is to be filled; from then on the
//! coding window keeps it and this module only remembers in which symbol a
//! stream last had a part. What symbols bring is put in order by offset;
//! duplicates and overlaps are harmless, so a symbol may be given up and its
//! content sent again in others.
//!
//! # Credit
//! Per stream the peer may send up to an offset, over all streams up to a sum.
//! Both are raised as the application reads, when a quarter has been used up, and
//! a stream's also while what came waits behind a hole. A stream that nobody reads
//! never blocks another:
//!
//! * Every stream has its first credit (`max_stream_data`) beyond what was read,
//!   at any time. It is reserved for all streams that may come to be open.
//! * A window grows beyond that only out of what is left of the promises the
//!   connection can keep: at most as much as then stays free (`flow.rs`).
//! * All promises together stay within three quarters of `max_data`, and the
//!   connection's limit follows what was read or given up by less than a quarter
//!   of it. So the connection's limit is never reached before a stream's own is:
//!   it guards memory and holds nobody back.
//!
//! Unread bytes of a stream that was reset or stopped count as read at once.
//!
//! # Control
//! Limits, resets and stops travel outside symbols. Each is a piece of state with
//! a mark "to be said"; a lost packet sets the mark again if what it said is
//! still the newest. Order and repetition do not matter to the receiver.
//!
//! # Forgetting
//! A stream goes when both halves are through: the sending half when everything
//! reached the peer or the peer knows of the reset, the receiving half when the
//! application has read the end, learnt of the reset, or stopped it and the peer
//! has named the end. Ids only grow, so what comes late for an id below the next
//! one and not among the open streams is known to be for a forgotten one.

mod assembler;
mod chunks;
mod config;
mod control;
mod fill;
mod flow;
mod incoming;
mod receive;
mod send;
mod streams;
#[cfg(test)]
mod tests;

pub use config::{ConfigError, Side, StreamsConfig};
pub use control::StreamControl;
pub use fill::FILL_ROOM_MIN;
pub use streams::Streams;

use ctcp_units::StreamId;
use thiserror::Error;

use crate::wire::ParseError;

/// Something the application may want to act on.
///
/// At most one of each kind is underway for a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEvent {
    /// The peer opened streams: call `accept` until it gives none.
    Opened,
    /// A read that found nothing would find something now.
    Readable(StreamId),
    /// A write that was cut short can go on.
    Writable(StreamId),
    /// The peer wants no more of what we write; the sending half was reset.
    Stopped {
        /// The stream.
        id: StreamId,
        /// Why, in the peer's words.
        code: u32,
    },
    /// The peer gave its sending half up: the rest will not come.
    Reset {
        /// The stream.
        id: StreamId,
        /// Why, in the peer's words.
        code: u32,
    },
    /// All that was written, and the end, reached the peer.
    Finished(StreamId),
    /// An `open` that was refused would be granted now.
    CreditOpened,
}

/// Why no stream was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum OpenError {
    /// As many are open as the peer or the configuration allows; `CreditOpened`
    /// tells when one more may be.
    #[error("too many streams are open; close one first")]
    TooMany,
    /// All 2^31 ids were used: a new connection is needed.
    #[error("the connection has used up its stream ids; open a new one")]
    Exhausted,
}

/// Why nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WriteError {
    /// The buffer is full; `Writable` tells when to go on.
    #[error("the send buffer is full")]
    Blocked,
    /// The peer wants no more.
    #[error("the peer stopped the stream with code {0}")]
    Stopped(u32),
    /// The end was written before.
    #[error("the stream was finished before")]
    Finished,
    /// The sending half was given up before.
    #[error("the stream was reset before")]
    Reset,
    /// Never opened, or through and forgotten.
    #[error("there is no such stream any more")]
    Unknown,
}

/// What a read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// So many bytes; 0 only into an empty buffer.
    Bytes(usize),
    /// The clean end: everything the peer wrote has been read.
    End,
}

/// Why nothing was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ReadError {
    /// Nothing there yet; `Readable` tells when to go on.
    #[error("nothing to read yet")]
    Blocked,
    /// The peer gave up; what had not been read is gone.
    #[error("the peer reset the stream with code {0}")]
    Reset(u32),
    /// The application itself wanted no more.
    #[error("the stream was stopped before")]
    Stopped,
    /// Never opened, or through and forgotten.
    #[error("there is no such stream any more")]
    Unknown,
}

/// How the peer broke the rules of streams. The connection closes and says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum StreamViolation {
    /// A symbol whose content makes no sense.
    #[error("malformed stream frame: {0}")]
    Malformed(#[from] ParseError),
    /// A stream that we would have had to open.
    #[error("{0} was never opened")]
    NeverOpened(StreamId),
    /// More streams than allowed.
    #[error("{stream} passes the limit of {max} streams")]
    TooManyStreams {
        /// The stream.
        stream: StreamId,
        /// Streams that were allowed.
        max: u64,
    },
    /// Bytes beyond the credit of their stream.
    #[error("{stream} goes to offset {end}, allowed were {max}")]
    StreamCredit {
        /// The stream.
        stream: StreamId,
        /// Offset after the last byte.
        end: u64,
        /// Offset that was allowed.
        max: u64,
    },
    /// Bytes beyond the credit of the connection.
    #[error("{received} bytes in all streams, allowed were {max}")]
    ConnectionCredit {
        /// Bytes of all streams.
        received: u64,
        /// Bytes that were allowed.
        max: u64,
    },
    /// Bytes after the end, or two ends.
    #[error("{stream} was known to reach {known}, now it ends or goes on at {end}")]
    FinalOffset {
        /// The stream.
        stream: StreamId,
        /// The offset that does not fit.
        end: u64,
        /// The end, or the highest offset, known before.
        known: u64,
    },
    /// More gaps than an honest sender's coding window can leave.
    #[error("more than {max} gaps in the streams received")]
    TooManyGaps {
        /// Gaps allowed.
        max: usize,
    },
}
