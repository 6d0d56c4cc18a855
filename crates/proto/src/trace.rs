//! What a connection tells of each packet, to whoever listens: qlog, tests.
//!
//! Without a listener the cost is one comparison a packet. The names of the
//! fields are those of [`PathStats`](crate::PathStats).

use core::fmt::Debug;

use ctcp_units::{Instant, PathId, SymbolId};

use crate::PathStats;
use crate::wire::AckView;

/// Hears of everything that happens to the packets of one connection.
pub trait Trace: Send + Debug {
    /// `event` happened at `now`; moments never go back. Called with the
    /// connection at work: the answer must be quick and must not wait.
    fn on_event(&mut self, now: Instant, event: &TraceEvent<'_>);
}

/// What a packet carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceContent {
    /// Control frames only.
    Control,
    /// A source symbol.
    Systematic {
        /// The symbol.
        symbol: SymbolId,
        /// Its place in its generation, from 0.
        index: u8,
    },
    /// A combination of the first symbols of a generation.
    Coded {
        /// The generation's first symbol.
        first: SymbolId,
        /// Symbols combined.
        count: u8,
    },
}

/// One thing that happened.
#[derive(Debug)]
#[non_exhaustive]
pub enum TraceEvent<'a> {
    /// A packet left.
    Sent {
        /// On this path.
        path: PathId,
        /// Its number there.
        number: u64,
        /// UDP payload, bytes.
        len: usize,
        /// What it carries.
        content: TraceContent,
    },
    /// The packet that is told of just before is a ping that was asked for.
    Ping {
        /// On this path.
        path: PathId,
        /// Its number there.
        number: u64,
    },
    /// An ACK came, in the packet whose [`TraceEvent::Received`] follows.
    Ack(&'a AckView<'a>),
    /// A packet came that had not come before.
    Received {
        /// On this path.
        path: PathId,
        /// Its number there.
        number: u64,
        /// UDP payload, bytes.
        len: usize,
        /// What it carries.
        content: TraceContent,
        /// It brought a degree of freedom; true of control packets.
        is_innovative: bool,
        /// Lost symbols that decoding brought with it.
        recovered: u64,
    },
    /// A packet stands as lost.
    Lost {
        /// On this path.
        path: PathId,
        /// Its number there.
        number: u64,
        /// It carried a symbol or a combination.
        is_symbol: bool,
    },
    /// Round trip, tokens and losses of a path after an ACK.
    Metrics(&'a PathStats),
    /// The connection ended.
    Closed {
        /// This end ended it.
        is_local: bool,
        /// Why, in words.
        reason: &'a str,
    },
}
