//! What symbols and control frames of the peer bring.

use ctcp_units::StreamId;

use super::control::Topic;
use super::flow::Notice;
use super::receive::ReceiveState;
use super::{StreamEvent, StreamViolation, Streams};
use crate::wire::{StreamFrame, StreamFrames};

impl Streams {
    /// Takes the content of a symbol. The same content, or parts of it, may come
    /// any number of times and in any order.
    ///
    /// # Errors
    /// The peer broke the rules; the connection closes.
    pub fn on_symbol(&mut self, content: &[u8]) -> Result<(), StreamViolation> {
        StreamFrames::new(content).try_for_each(|frame| self.on_stream_frame(&frame?))
    }

    fn on_stream_frame(&mut self, frame: &StreamFrame<'_>) -> Result<(), StreamViolation> {
        let id = frame.stream;
        if !self.is_live(id)? {
            return Ok(());
        }
        let end = frame.offset + frame.data.len() as u64;
        self.advance(id, end, frame.is_fin)?;
        let half = &mut self
            .streams
            .get_mut(&id)
            .expect("live streams are known")
            .receive;
        match half.state {
            ReceiveState::Open => {
                let (held, islands) = (half.assembler.held(), half.assembler.island_count());
                half.assembler
                    .insert(&mut self.pool, frame.offset, frame.data);
                self.bytes_received += half.assembler.held() - held;
                self.islands = self.islands + half.assembler.island_count() - islands;
                if half.reader_waits && half.is_readable() {
                    half.reader_waits = false;
                    self.events.push_back(StreamEvent::Readable(id));
                }
                let promise = half.promise();
                let (limit, window_max) = (self.promises.limit(), self.config.stream_window_max);
                if half.raise_credit_behind_hole(limit, window_max) {
                    self.control.push_back(Topic::MaxStreamData(id));
                }
                self.promises.change(promise, half.promise());
                let max = self.config.islands_max();
                if self.islands > max {
                    return Err(StreamViolation::TooManyGaps { max });
                }
            }
            ReceiveState::Stopped { .. } => {
                self.end_stopped(id);
                self.discard_received(id);
                self.forget_if_closed(id);
            }
            ReceiveState::Ended | ReceiveState::Reset { .. } | ReceiveState::Discarded => {}
        }
        Ok(())
    }

    /// Whether `id` is open, after opening it if it is the peer's and new; false
    /// for those that are through and forgotten.
    fn is_live(&mut self, id: StreamId) -> Result<bool, StreamViolation> {
        let index = id.0 >> 1;
        if self.is_ours(id) {
            if index >= self.opened_here {
                return Err(StreamViolation::NeverOpened(id));
            }
        } else if index >= self.opened_there {
            let max = self.max_streams.value();
            if index >= max {
                return Err(StreamViolation::TooManyStreams { stream: id, max });
            }
            self.open_up_to(index);
        }
        Ok(self.streams.contains_key(&id))
    }

    /// Opens the peer's streams up to the one with this index: ids are used in
    /// order, so whoever uses one has opened those before.
    fn open_up_to(&mut self, index: u64) {
        for index in self.opened_there..=index {
            let id = StreamId(2 * index + (1 - self.config.side.bit()));
            self.insert(id);
            self.accepts.push_back(id);
        }
        self.opened_there = index + 1;
        if core::mem::take(&mut self.acceptor_waits) {
            self.events.push_back(StreamEvent::Opened);
        }
    }

    /// Counts what the peer sent up to `end` of a live stream against credit.
    fn advance(&mut self, id: StreamId, end: u64, is_final: bool) -> Result<(), StreamViolation> {
        let half = &mut self
            .streams
            .get_mut(&id)
            .expect("live streams are known")
            .receive;
        let promise = half.promise();
        let growth = half.advance(id, end, is_final)?;
        self.promises.change(promise, half.promise());
        self.receive_credit.received += growth;
        let (received, max) = (
            self.receive_credit.received,
            self.receive_credit.announced.value(),
        );
        if received > max {
            return Err(StreamViolation::ConnectionCredit { received, max });
        }
        Ok(())
    }

    /// A stopped half whose end is known by now is through.
    fn end_stopped(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id)
            && stream.receive.final_offset.is_some()
        {
            stream.receive.state = ReceiveState::Discarded;
        }
    }

    /// Drops what was received of a stream and counts it as read, so that its
    /// credit goes back to the connection at once.
    pub(super) fn discard_received(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        let half = &mut stream.receive;
        let promise = half.promise();
        let unread = half.highest - half.assembler.read_offset();
        self.bytes_received -= half.assembler.held();
        self.islands -= half.assembler.island_count();
        half.assembler.discard_to(&mut self.pool, half.highest);
        self.promises.change(promise, half.promise());
        if self.receive_credit.consume(unread) {
            self.control.push_back(Topic::MaxData);
        }
    }

    /// The peer allows `max` bytes over all streams.
    pub fn on_max_data(&mut self, max: u64) {
        self.send_credit.max = self.send_credit.max.max(max);
    }

    /// The peer allows stream `id` to go to offset `max`.
    ///
    /// # Errors
    /// The stream cannot be.
    pub fn on_max_stream_data(&mut self, id: StreamId, max: u64) -> Result<(), StreamViolation> {
        if self.is_live(id)? {
            self.raise_stream_max(id, max);
        }
        Ok(())
    }

    pub(super) fn raise_stream_max(&mut self, id: StreamId, max: u64) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.send.max = stream.send.max.max(max);
            self.ready.note(id, &mut stream.send);
        }
    }

    /// The peer allows us to open `max` streams in all.
    pub fn on_max_streams(&mut self, max: u64) {
        self.open_max = self.open_max.max(max);
        self.note_may_open();
    }

    /// The peer gave its half of stream `id` up after `final_offset` bytes. What
    /// has not been read is dropped: whoever reads sees the reset at once, unless
    /// the end was read before.
    ///
    /// # Errors
    /// The stream cannot be, or the offset does not fit what was received.
    pub fn on_reset_stream(
        &mut self,
        id: StreamId,
        code: u32,
        final_offset: u64,
    ) -> Result<(), StreamViolation> {
        if !self.is_live(id)? {
            return Ok(());
        }
        self.advance(id, final_offset, true)?;
        let half = &mut self
            .streams
            .get_mut(&id)
            .expect("live streams are known")
            .receive;
        match half.state {
            ReceiveState::Open => {
                half.state = ReceiveState::Reset {
                    code,
                    is_told: false,
                };
                self.events.push_back(StreamEvent::Reset { id, code });
            }
            ReceiveState::Stopped { .. } => self.end_stopped(id),
            ReceiveState::Ended | ReceiveState::Reset { .. } | ReceiveState::Discarded => {
                return Ok(());
            }
        }
        self.discard_received(id);
        self.forget_if_closed(id);
        Ok(())
    }

    /// The peer wants no more of stream `id`: its sending half is reset with the
    /// same code.
    ///
    /// # Errors
    /// The stream cannot be.
    pub fn on_stop_sending(&mut self, id: StreamId, code: u32) -> Result<(), StreamViolation> {
        if self.is_live(id)? {
            self.abort_sending(id, code, true);
        }
        Ok(())
    }

    /// The peer knows of our reset of stream `id`.
    pub(super) fn on_reset_acked(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.send.reset = Notice::Acked;
            self.forget_if_closed(id);
        }
    }
}
