//! All streams of a connection: what the application calls.

use std::collections::{BTreeMap, VecDeque};

use ctcp_units::{StreamId, SymbolId};

use super::chunks::ChunkPool;
use super::control::Topic;
use super::fill::{Planned, Ready};
use super::flow::{Announced, Notice, ReceiveCredit, SendCredit, SharedBudget};
use super::receive::{ReceiveHalf, ReceiveState};
use super::send::{SendHalf, SendState};
use super::{OpenError, Read, ReadError, StreamEvent, StreamsConfig, WriteError};

/// Streams of one side, ever: their ids fill 32 bits with that of the other.
pub(super) const STREAMS_EVER_MAX: u64 = 1 << 31;

/// Both halves of a stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) send: SendHalf,
    pub(super) receive: ReceiveHalf,
}

/// The streams of a connection.
///
/// The application calls [`open`](Self::open), [`accept`](Self::accept),
/// [`write`](Self::write), [`read`](Self::read), [`finish`](Self::finish),
/// [`reset`](Self::reset) and [`stop`](Self::stop); the connection moves symbols
/// and control frames. Events are raised on a change: `Readable` after a read
/// that found nothing (or for a new stream), `Writable` after a write that was
/// cut short, `Opened` after an `accept` that found nothing, `CreditOpened`
/// after a refused `open`. After every call the connection takes events until
/// none is left; so their queue is bounded by the streams.
///
/// An application that loses interest in a stream calls `reset` and `stop`,
/// which do nothing to halves that are through; so a stream that is dropped
/// unfinished never looks finished to the peer.
#[derive(Debug)]
pub struct Streams {
    pub(super) config: StreamsConfig,
    pub(super) streams: BTreeMap<StreamId, Box<Stream>>,
    /// Streams opened here, ever.
    pub(super) opened_here: u64,
    /// Streams opened by the peer, ever.
    pub(super) opened_there: u64,
    /// Of ours, those not forgotten.
    pub(super) live_here: u64,
    /// Of the peer's, those forgotten.
    pub(super) closed_there: u64,
    /// Streams the peer lets us open, ever.
    pub(super) open_max: u64,
    /// Streams the peer may open, ever.
    pub(super) max_streams: Announced,
    pub(super) opener_waits: bool,
    pub(super) accepts: VecDeque<StreamId>,
    pub(super) acceptor_waits: bool,
    pub(super) events: VecDeque<StreamEvent>,
    pub(super) control: VecDeque<Topic>,
    pub(super) pool: ChunkPool,

    /// Credit of a new stream at the peer.
    pub(super) peer_max_stream_data: u64,
    pub(super) send_credit: SendCredit,
    /// What streams hold to be sent.
    pub(super) send_budget: SharedBudget,
    pub(super) bytes_to_send: u64,
    pub(super) ready: Ready,
    /// Frames of the symbol being filled; kept for its memory.
    pub(super) plan: Vec<Planned>,
    /// Streams that were all sent, with the symbol that held the last part.
    pub(super) completing: VecDeque<(SymbolId, StreamId)>,

    pub(super) receive_credit: ReceiveCredit,
    /// What streams are promised to be allowed to send.
    pub(super) promises: SharedBudget,
    pub(super) bytes_received: u64,
    /// Ranges beyond gaps, in all streams.
    pub(super) islands: usize,
}

impl Streams {
    /// No streams yet, and nothing may be sent or opened before
    /// [`set_peer_limits`](Self::set_peer_limits).
    ///
    /// # Panics
    /// If [`StreamsConfig::check`] refuses `config`.
    pub fn new(config: StreamsConfig) -> Self {
        if let Err(error) = config.check() {
            panic!("limits are checked before they are used: {error}");
        }
        Self {
            streams: BTreeMap::new(),
            opened_here: 0,
            opened_there: 0,
            live_here: 0,
            closed_there: 0,
            open_max: 0,
            max_streams: Announced::known(config.max_streams),
            opener_waits: false,
            accepts: VecDeque::new(),
            acceptor_waits: true,
            events: VecDeque::new(),
            control: VecDeque::new(),
            pool: ChunkPool::default(),
            peer_max_stream_data: 0,
            send_credit: SendCredit::default(),
            send_budget: SharedBudget::new(config.send_buffer_floor, config.send_buffer_bytes_max),
            bytes_to_send: 0,
            ready: Ready::default(),
            plan: Vec::new(),
            completing: VecDeque::new(),
            receive_credit: ReceiveCredit::new(config.max_data),
            promises: SharedBudget::new(config.max_stream_data, config.shared_promises()),
            bytes_received: 0,
            islands: 0,
            config,
        }
    }

    /// Takes what the peer allows at first, from its transport parameters.
    pub fn set_peer_limits(&mut self, max_data: u64, max_stream_data: u64, max_streams: u64) {
        self.peer_max_stream_data = max_stream_data;
        self.on_max_data(max_data);
        let ids: Vec<_> = self.streams.keys().copied().collect();
        for id in ids {
            self.raise_stream_max(id, max_stream_data);
        }
        self.on_max_streams(max_streams);
    }

    /// Opens a stream. The peer hears of it with its first frame.
    ///
    /// # Errors
    /// As many are open as may be.
    pub fn open(&mut self) -> Result<StreamId, OpenError> {
        if self.opened_here >= STREAMS_EVER_MAX {
            return Err(OpenError::Exhausted);
        }
        if !self.may_open() {
            self.opener_waits = true;
            return Err(OpenError::TooMany);
        }
        let id = StreamId(2 * self.opened_here + self.config.side.bit());
        self.opened_here += 1;
        self.live_here += 1;
        self.insert(id);
        Ok(id)
    }

    fn may_open(&self) -> bool {
        self.opened_here < self.open_max && self.live_here < self.config.local_streams_max
    }

    pub(super) fn note_may_open(&mut self) {
        if self.opener_waits && self.may_open() {
            self.opener_waits = false;
            self.events.push_back(StreamEvent::CreditOpened);
        }
    }

    pub(super) fn insert(&mut self, id: StreamId) {
        let stream = Stream {
            send: SendHalf::new(self.peer_max_stream_data),
            receive: ReceiveHalf::new(self.config.max_stream_data),
        };
        self.streams.insert(id, Box::new(stream));
    }

    /// The next stream that the peer opened, in the order of ids.
    pub fn accept(&mut self) -> Option<StreamId> {
        let next = self.accepts.pop_front();
        self.acceptor_waits = next.is_none();
        next
    }

    /// Writes as much of `data` as there is room for; returns how many bytes.
    ///
    /// # Errors
    /// No room at all, or nothing may be written any more.
    pub fn write(&mut self, id: StreamId, data: &[u8]) -> Result<usize, WriteError> {
        let stream = self.streams.get_mut(&id).ok_or(WriteError::Unknown)?;
        let half = &mut stream.send;
        if let Err(error) = half.check_writable() {
            self.forget_if_closed(id);
            return Err(error);
        }
        let held = half.held();
        let limit = Self::write_limit(&self.config, &self.send_budget);
        let len = (data.len() as u64).min(limit.saturating_sub(held)) as usize;
        half.writer_waits = len < data.len();
        if len == 0 && !data.is_empty() {
            return Err(WriteError::Blocked);
        }
        half.write(&mut self.pool, &data[..len]);
        self.send_budget.change(held, half.held());
        self.bytes_to_send += len as u64;
        self.ready.note(id, half);
        Ok(len)
    }

    /// Bytes one stream may have waiting to be sent.
    fn write_limit(config: &StreamsConfig, budget: &SharedBudget) -> u64 {
        let most = config.stream_send_buffer_max.max(config.send_buffer_floor);
        budget.limit().min(most)
    }

    /// Raises `Writable` once half of the room is free. It comes for certain:
    /// whoever waits has bytes in the buffer, and an empty buffer is half free
    /// whatever the other streams hold.
    pub(super) fn wake_writer(
        config: &StreamsConfig,
        budget: &SharedBudget,
        events: &mut VecDeque<StreamEvent>,
        id: StreamId,
        half: &mut SendHalf,
    ) {
        if half.writer_waits && half.held() <= Self::write_limit(config, budget) / 2 {
            half.writer_waits = false;
            events.push_back(StreamEvent::Writable(id));
        }
    }

    /// Ends the sending half after what was written. Reading goes on.
    ///
    /// # Errors
    /// It ended before, in one way or another.
    pub fn finish(&mut self, id: StreamId) -> Result<(), WriteError> {
        let stream = self.streams.get_mut(&id).ok_or(WriteError::Unknown)?;
        if let Err(error) = stream.send.check_writable() {
            self.forget_if_closed(id);
            return Err(error);
        }
        stream.send.state = SendState::Finishing;
        stream.send.writer_waits = false;
        self.ready.note(id, &mut stream.send);
        Ok(())
    }

    /// Gives the sending half up: what has not been sent is dropped, and the
    /// peer learns `code`. Does nothing once everything has reached the peer.
    pub fn reset(&mut self, id: StreamId, code: u32) {
        self.abort_sending(id, code, false);
        self.forget_if_closed(id);
    }

    /// Ends the sending half by a reset.
    pub(super) fn abort_sending(&mut self, id: StreamId, code: u32, by_peer: bool) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        let half = &mut stream.send;
        let is_told = match &mut half.state {
            SendState::Finished => return,
            SendState::Reset { is_told, .. } => {
                *is_told |= !by_peer;
                return;
            }
            SendState::Open => !by_peer,
            SendState::Finishing | SendState::Sent => true,
        };
        self.bytes_to_send -= half.held() + half.again_bytes();
        self.send_budget.change(half.held(), 0);
        half.give_up(&mut self.pool);
        half.state = SendState::Reset {
            code,
            by_peer,
            is_told,
        };
        half.reset = Notice::Queued;
        self.ready.remove(id, half);
        self.control.push_back(Topic::Reset(id));
        if by_peer {
            self.events.push_back(StreamEvent::Stopped { id, code });
        }
    }

    /// Refuses the rest of the receiving half: what has not been read is
    /// dropped, and the peer learns `code`. Does nothing once the end was read.
    pub fn stop(&mut self, id: StreamId, code: u32) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        match &mut stream.receive.state {
            ReceiveState::Open => {}
            ReceiveState::Reset { is_told, .. } => {
                *is_told = true;
                self.forget_if_closed(id);
                return;
            }
            ReceiveState::Ended | ReceiveState::Stopped { .. } | ReceiveState::Discarded => return,
        }
        if stream.receive.final_offset.is_some() {
            stream.receive.state = ReceiveState::Discarded;
        } else {
            stream.receive.state = ReceiveState::Stopped { code };
            stream.receive.stop = Notice::Queued;
            self.control.push_back(Topic::Stop(id));
        }
        self.discard_received(id);
        self.forget_if_closed(id);
    }

    /// Reads what is there into `out`.
    ///
    /// # Errors
    /// Nothing there yet, or nothing will come any more.
    pub fn read(&mut self, id: StreamId, out: &mut [u8]) -> Result<Read, ReadError> {
        let stream = self.streams.get_mut(&id).ok_or(ReadError::Unknown)?;
        let half = &mut stream.receive;
        if let Err(error) = half.check_readable() {
            self.forget_if_closed(id);
            return Err(error);
        }
        let promise = half.promise();
        let len = half.assembler.read(&mut self.pool, out);
        if len > 0 {
            self.promises.change(promise, half.promise());
            self.bytes_received -= len as u64;
            if self.receive_credit.consume(len as u64) {
                self.control.push_back(Topic::MaxData);
            }
            let promise = half.promise();
            if half.raise_credit(self.promises.limit(), self.config.stream_window_max) {
                self.control.push_back(Topic::MaxStreamData(id));
            }
            self.promises.change(promise, half.promise());
            return Ok(Read::Bytes(len));
        }
        if half.is_at_end() {
            half.state = ReceiveState::Ended;
            self.forget_if_closed(id);
            return Ok(Read::End);
        }
        if out.is_empty() {
            return Ok(Read::Bytes(0));
        }
        half.reader_waits = true;
        Err(ReadError::Blocked)
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<StreamEvent> {
        self.events.pop_front()
    }

    /// Forgets a stream both of whose halves are through.
    pub(super) fn forget_if_closed(&mut self, id: StreamId) {
        let is_closed = |stream: &Stream| stream.send.is_closed() && stream.receive.is_closed();
        if !self.streams.get(&id).is_some_and(|s| is_closed(s)) {
            return;
        }
        let stream = self.streams.remove(&id).expect("it was just found");
        assert!(
            stream.receive.promise() == 0,
            "a closed half expects nothing"
        );
        if stream.receive.credit.is_queued() || stream.receive.stop == Notice::Queued {
            self.control.retain(|topic| topic.stream() != Some(id));
        }
        if self.is_ours(id) {
            self.live_here -= 1;
            self.note_may_open();
        } else {
            self.closed_there += 1;
            let allowed = (self.closed_there + self.config.max_streams).min(STREAMS_EVER_MAX);
            let step = (self.config.max_streams / 8).max(1);
            if allowed - self.max_streams.value() >= step && self.max_streams.raise(allowed) {
                self.control.push_back(Topic::MaxStreams);
            }
        }
    }

    /// Whether `id` is one of those that we open.
    pub(super) fn is_ours(&self, id: StreamId) -> bool {
        id.0 & 1 == self.config.side.bit()
    }

    /// Streams that are not through, of both sides.
    pub fn count(&self) -> usize {
        self.streams.len()
    }

    /// Bytes waiting to be put into symbols, those given back by abandoned
    /// generations included.
    pub fn bytes_buffered_send(&self) -> u64 {
        self.bytes_to_send
    }

    /// Bytes received and not yet read, those behind gaps included.
    pub fn bytes_buffered_receive(&self) -> u64 {
        self.bytes_received
    }

    /// Bytes of memory behind both, chunks kept for reuse included; what was
    /// given back by abandoned generations is not in it.
    pub fn memory_bytes(&self) -> usize {
        self.pool.memory_bytes()
    }

    /// Whether there is nothing to send, in symbols or beside them, nothing that
    /// waits for credit, and nothing unread.
    pub fn is_idle(&self) -> bool {
        !self.can_fill()
            && !self.has_control()
            && self.bytes_to_send == 0
            && self.bytes_received == 0
    }
}
