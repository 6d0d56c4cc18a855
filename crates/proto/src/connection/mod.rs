//! A connection: ties paths, blocks, streams and keys together and owns no
//! arithmetic of its own (architecture 9).
//!
//! `receive` takes datagrams in, `transmit` makes them, `timers` knows what is
//! due when, `paths` opens and closes paths and watches them, `plan` asks the
//! scheduler; this file holds the state and what the application calls.

mod coupling;
mod datagrams;
mod handshake;
mod paths;
mod plan;
mod receive;
mod stats;
#[cfg(test)]
mod tests;
mod timers;
mod transmit;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use ctcp_rlnc::SlidingError;
use ctcp_units::{Duration, Instant, PathId, StreamId, SymbolId};
use thiserror::Error;

use crate::Transmit;
use crate::block::{BlockReceiver, BlockSender, BlockViolation, SendConfig, SymbolSource};
use crate::config::TransportConfig;
use crate::crypto::{Keys, PublicKey, Refusal, SecretRandom, UpdateError};
use crate::memory::PathMemory;
use crate::path::{Bottlenecks, Cargo, Control, Path, PathPlace, PathState};
use crate::schedule::Copies;
use crate::stream::{
    OpenError, Read, ReadError, Side, StreamEvent, StreamViolation, Streams, StreamsConfig,
    WriteError,
};
use crate::trace::{Trace, TraceEvent};
use crate::wire::{ConnectionId, ParseError, TransportParams};

pub use coupling::{Coupling, UnknownCoupling};
pub use datagrams::DatagramError;
use datagrams::Datagrams;
use handshake::ClientHello;
pub(crate) use handshake::HelloSetup;
pub(crate) use paths::LocalIds;
pub use paths::{ClosePathError, OpenPathError, PathEvent, PathOptions};
use paths::{PathIds, path_setup};
pub use stats::{ConnectionStats, PacketCounts};

/// Names a connection at its endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionHandle(pub u64);

/// Codes of a close that the transport itself uses; applications use what lies
/// below 2^31.
pub mod close_code {
    /// Nothing went wrong.
    pub const NONE: u32 = 0;
    /// The peer broke the protocol.
    pub const VIOLATION: u32 = 1 << 31;
    /// The keys are worn out.
    pub const KEYS_WORN_OUT: u32 = 1 << 31 | 1;
}

/// How the peer broke the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Violation {
    /// A packet that makes no sense.
    #[error("malformed packet: {0}")]
    Malformed(#[from] ParseError),
    /// Against the rules of the code.
    #[error("broken code: {0}")]
    Block(#[from] BlockViolation),
    /// Against the rules of streams.
    #[error("broken stream: {0}")]
    Stream(#[from] StreamViolation),
    /// Against the rules of datagrams and their repairs.
    #[error("broken datagrams: {0}")]
    Datagram(#[from] SlidingError),
    /// An ACK of what was never sent, or for a path that does not exist.
    #[error("acknowledgement of packets that were never sent on {0}")]
    UnsentAcknowledged(PathId),
    /// Keys changed again before the last change was settled.
    #[error("keys updated too early")]
    KeyUpdate,
}

/// Why a connection ended.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConnectionError {
    /// This end closed it.
    #[error("closed by this end")]
    LocallyClosed,
    /// The peer closed it.
    #[error("closed by the peer: {reason} (code {code})")]
    PeerClosed {
        /// Why.
        code: u32,
        /// The same for people.
        reason: String,
    },
    /// Nothing was heard for too long.
    #[error("nothing heard from the peer for {} s", .0.as_secs())]
    IdleTimeout(Duration),
    /// The handshake was never answered.
    #[error(
        "no answer from {remote}: the address may be wrong, UDP may be blocked by a firewall, \
         or the server may have another key than the one given"
    )]
    NoAnswer {
        /// Who was asked.
        remote: SocketAddr,
    },
    /// The server refused, and proved that it is the server.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// The server's hello or parameters make no sense.
    #[error("the server's answer makes no sense: {0}")]
    BadHandshake(&'static str),
    /// The peer broke the protocol.
    #[error("the peer broke the protocol: {0}")]
    Violation(Violation),
    /// The keys are worn out and could not be renewed.
    #[error("the keys are worn out: connect again")]
    KeysWornOut,
}

/// What the application may want to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The handshake is done; the peer has proven its key.
    Connected,
    /// Something happened to a stream.
    Stream(StreamEvent),
    /// Something happened to a path.
    Path(PathEvent),
    /// The connection ended. Nothing follows but datagrams that say so.
    Closed(ConnectionError),
}

#[derive(Debug)]
enum Phase {
    /// A client whose hello has not been answered.
    Hello(Box<ClientHello>),
    /// A server that has answered a hello and waits for proof that the client is
    /// there, until then.
    Unproven {
        until: Instant,
    },
    Open,
    /// This end closed; the close is said again to whoever still sends.
    Closing {
        until: Instant,
        /// Index of the path on which it is said next.
        next_path: usize,
        /// Datagrams that came since.
        heard: u32,
    },
    /// The peer closed; late packets are swallowed.
    Draining {
        until: Instant,
    },
    Gone,
}

/// One connection, a state machine.
///
/// # Contract
///
/// One input at a time: [`handle_datagram`](Self::handle_datagram),
/// [`handle_timeout`](Self::handle_timeout), or a call of the application. Then
/// [`poll_transmit`](Self::poll_transmit) and [`poll_event`](Self::poll_event)
/// until both give nothing, then wait for the next input or for
/// [`poll_timeout`](Self::poll_timeout), whichever is first. Time never goes
/// back: debug builds assert it.
#[derive(Debug)]
pub struct Connection {
    side: Side,
    config: Arc<TransportConfig>,
    phase: Phase,
    now: Instant,
    keys: Option<Keys>,
    peer_key: PublicKey,
    peer_params: Option<TransportParams>,
    /// At least one.
    paths: Vec<Path>,
    ids: PathIds,
    /// Frames about paths that the peer has not acknowledged.
    path_controls: usize,
    sender: BlockSender,
    copies: Copies,
    bottlenecks: Bottlenecks,
    receiver: BlockReceiver,
    streams: Streams,
    datagrams: Datagrams,
    /// Control frames to be sent, those of streams apart.
    controls: VecDeque<Control>,
    /// Challenges of the peer to be answered, by path.
    responses: VecDeque<(PathId, SocketAddr, [u8; 8])>,
    events: VecDeque<Event>,
    /// The last event has been taken.
    has_told_end: bool,
    close: (u32, String),
    last_received: Instant,
    random: SecretRandom,
    /// A packet too long for the batch it was made in.
    held: Option<(Transmit, Vec<u8>)>,
    fates: Vec<Fate>,
    sent: PacketCounts,
    received: PacketCounts,
    stats: stats::Counters,
    trace: Option<Box<dyn Trace>>,
}

/// A packet whose fate became known, noted while its path is busy.
#[derive(Debug, Clone, Copy)]
struct Fate {
    number: u64,
    cargo: Cargo,
    has_arrived: bool,
    was_aged: bool,
}

impl SymbolSource for Streams {
    fn fill(&mut self, symbol: SymbolId, room: usize, out: &mut Vec<u8>) {
        self.fill_symbol(symbol, room, out);
    }

    fn has_more(&self) -> bool {
        self.can_fill()
    }

    fn bytes_left(&self) -> u64 {
        self.bytes_buffered_send()
    }
}

/// Where a connection leads and how it begins.
pub(crate) struct Start {
    pub(crate) side: Side,
    pub(crate) remote: SocketAddr,
    pub(crate) remote_id: Option<ConnectionId>,
    pub(crate) peer_key: PublicKey,
    pub(crate) local: LocalIds,
}

impl Connection {
    fn new(
        now: Instant,
        config: Arc<TransportConfig>,
        start: &Start,
        phase: Phase,
        mut random: SecretRandom,
    ) -> Self {
        let streams = Streams::new(StreamsConfig {
            side: start.side,
            ..config.streams
        });
        let sender = BlockSender::new(SendConfig {
            redundancy: config.redundancy,
            block_symbols: config.block_symbols,
            blocks_max: config.blocks_max,
            symbols_max: config.window_symbols,
            seed: u64::from_be_bytes(random.array()),
        });
        let symbol_len_max = usize::from(config.udp_payload_max().max(1472));
        let place = PathPlace {
            id: PathId(0),
            slot: 0,
            local: None,
            remote: start.remote,
            remote_id: start.remote_id,
        };
        let setup = path_setup(&config, start.remote, &config.congestion, true);
        let path = Path::new(now, place, setup);
        Self {
            side: start.side,
            receiver: BlockReceiver::new(config.window_symbols, symbol_len_max),
            config,
            phase,
            now,
            keys: None,
            peer_key: start.peer_key,
            peer_params: None,
            paths: vec![path],
            ids: PathIds::new(start.local.clone()),
            path_controls: 0,
            sender,
            copies: Copies::default(),
            bottlenecks: Bottlenecks::default(),
            streams,
            datagrams: Datagrams::default(),
            controls: VecDeque::new(),
            responses: VecDeque::new(),
            events: VecDeque::new(),
            has_told_end: false,
            close: (close_code::NONE, String::new()),
            last_received: now,
            random,
            held: None,
            fates: Vec::new(),
            sent: PacketCounts::default(),
            received: PacketCounts::default(),
            stats: stats::Counters::default(),
            trace: None,
        }
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// [`OpenError`]: too many are open.
    pub fn open_stream(&mut self) -> Result<StreamId, OpenError> {
        self.streams.open()
    }

    /// The next stream that the peer opened.
    pub fn accept_stream(&mut self) -> Option<StreamId> {
        self.streams.accept()
    }

    /// Writes as much of `data` as there is room for; returns how many bytes.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn write(&mut self, id: StreamId, data: &[u8]) -> Result<usize, WriteError> {
        self.streams.write(id, data)
    }

    /// Reads into `buf`.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read(&mut self, id: StreamId, buf: &mut [u8]) -> Result<Read, ReadError> {
        self.streams.read(id, buf)
    }

    /// Ends what is written to the stream.
    ///
    /// # Errors
    /// [`WriteError`] if it had ended before.
    pub fn finish(&mut self, id: StreamId) -> Result<(), WriteError> {
        self.streams.finish(id)
    }

    /// Gives up what is written to the stream: the peer sees a reset.
    pub fn reset(&mut self, id: StreamId, code: u32) {
        self.streams.reset(id, code);
    }

    /// Refuses the rest of what the peer writes to the stream.
    pub fn stop(&mut self, id: StreamId, code: u32) {
        self.streams.stop(id, code);
    }

    /// What happened, one thing a call. [`Event::Closed`] comes last.
    pub fn poll_event(&mut self) -> Option<Event> {
        if self.has_told_end {
            return None;
        }
        if matches!(self.events.front(), Some(Event::Closed(_)) | None)
            && let Some(event) = self.streams.poll_event()
        {
            return Some(Event::Stream(event));
        }
        let event = self.events.pop_front();
        self.has_told_end = matches!(event, Some(Event::Closed(_)));
        event
    }

    /// Renews the sending keys now. They are renewed by themselves long before
    /// they are worn out; this is for those who want it sooner, and for tests.
    ///
    /// # Errors
    /// [`UpdateError`] if the last update is not settled, or the handshake is
    /// not done.
    pub fn update_keys(&mut self) -> Result<(), UpdateError> {
        let is_open = self.is_open();
        match &mut self.keys {
            Some(keys) if is_open => keys.update(),
            _ => Err(UpdateError::NotAcknowledged),
        }
    }

    /// Tells `trace` of everything from now on, and nobody else.
    pub fn set_trace(&mut self, trace: Box<dyn Trace>) {
        self.trace = Some(trace);
    }

    fn trace(&mut self, event: &TraceEvent<'_>) {
        if let Some(trace) = &mut self.trace {
            trace.on_event(self.now, event);
        }
    }

    /// What it has found out about its first path, for
    /// [`Endpoint::remember`](crate::Endpoint::remember) when it has ended; none if
    /// that is nothing yet, or the path is no more.
    pub fn learnt(&self) -> Option<PathMemory> {
        let first = self.paths.iter().find(|path| path.id == PathId(0))?;
        Some(PathMemory {
            peer: self.peer_key,
            address: first.remote.ip(),
            learnt: first.learnt()?,
        })
    }

    /// The peer's static key.
    pub const fn peer_key(&self) -> PublicKey {
        self.peer_key
    }

    /// Whether the handshake is done and nothing has ended the connection.
    pub const fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// Nothing more will come of it: forget it.
    pub const fn is_drained(&self) -> bool {
        matches!(self.phase, Phase::Gone)
    }

    /// Ends the connection at once. Streams are not waited for.
    pub fn close(&mut self, now: Instant, code: u32, reason: &str) {
        self.end(now, code, reason, ConnectionError::LocallyClosed);
    }

    fn end(&mut self, now: Instant, code: u32, reason: &str, error: ConnectionError) {
        self.advance(now);
        match self.phase {
            Phase::Closing { .. } | Phase::Draining { .. } | Phase::Gone => return,
            // Nothing is said to an address that has not been proven.
            Phase::Hello(_) | Phase::Unproven { .. } => self.phase = Phase::Gone,
            Phase::Open => {
                self.close = (code, reason.to_owned());
                self.phase = Phase::Closing {
                    until: now + self.drain_span(),
                    next_path: 0,
                    heard: 0,
                };
            }
        }
        self.held = None;
        if self.trace.is_some() {
            let reason = &error.to_string();
            let is_local = true;
            self.trace(&TraceEvent::Closed { is_local, reason });
        }
        self.events.push_back(Event::Closed(error));
    }

    /// Three probe timeouts of the slowest path, at most the idle timeout.
    fn drain_span(&self) -> Duration {
        let slowest = self.paths.iter().map(Path::probe_timeout).max();
        // After round trips of many seconds this could outlive what it is for.
        (slowest.unwrap_or_default() * 3).min(self.idle_timeout())
    }

    /// The local address changed: every path proves itself anew.
    pub fn on_local_address_changed(&mut self, now: Instant) {
        self.advance(now);
        if !self.is_open() {
            return;
        }
        for index in 0..self.paths.len() {
            if self.paths[index].is_validated {
                self.change_address(now, index, self.paths[index].remote);
                self.paths[index].is_ping_due = true;
            }
        }
    }

    fn advance(&mut self, now: Instant) {
        debug_assert!(now >= self.now, "time went back: {now} after {}", self.now);
        self.now = self.now.max(now);
    }

    fn path_index(&self, id: PathId) -> Option<usize> {
        self.paths.iter().position(|path| path.id == id)
    }

    /// Longest content of new symbols: what the narrowest path in use carries.
    fn content_max(&self) -> usize {
        let narrowest = if let [path] = self.paths.as_slice() {
            Some(path.udp_payload_max())
        } else {
            let in_use = self.paths.iter().zip(self.usable_paths());
            let in_use = in_use.filter(|(_, is_usable)| *is_usable);
            in_use.map(|(path, _)| path.udp_payload_max()).min()
        };
        let peer_max = self.peer_params.map_or(usize::MAX, |params| {
            usize::try_from(params.udp_payload_max).unwrap_or(usize::MAX)
        });
        crate::wire::symbol_content_max(narrowest.unwrap_or(0).min(peer_max))
    }
}
