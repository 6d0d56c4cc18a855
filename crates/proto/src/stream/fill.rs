//! Filling symbols with stream frames, and what becomes of them.
//!
//! Streams take turns, a frame each. Two queues hold exactly those that have
//! something to send: *unmetered* ones, with bytes of abandoned generations or a
//! bare end, go first since they need no credit and the reader waits for them;
//! *metered* ones have new bytes that their own credit allows, and wait all
//! together when the connection's is used up. A stream stands in each at most
//! once, so asking whether anything can be sent looks at two queues.

use std::collections::VecDeque;

use ctcp_units::{StreamId, SymbolId};

use super::send::{Offer, SendHalf, SendState};
use super::{StreamEvent, Streams};
use crate::wire::{StreamFrame, StreamFrames, stream_header_len};

/// Room with which [`Streams::fill_symbol`] writes whenever
/// [`Streams::can_fill`] says so: the longest header and a few bytes.
pub const FILL_ROOM_MIN: usize = 32;
/// A frame is begun with at least so many bytes of data, or all there are.
const DATA_WORTH: u64 = 8;
/// Bytes of the length of a frame that does not reach to the end.
const LEN_BYTES: usize = 2;

/// A frame of the symbol being filled.
#[derive(Debug)]
pub(super) struct Planned {
    stream: StreamId,
    offset: u64,
    len: usize,
    is_fin: bool,
    is_metered: bool,
}

/// Streams that have something to send.
#[derive(Debug, Default)]
pub(super) struct Ready {
    metered: VecDeque<StreamId>,
    unmetered: VecDeque<StreamId>,
}

impl Ready {
    /// Queues a stream that may have come to have something to send.
    pub(super) fn note(&mut self, id: StreamId, half: &mut SendHalf) {
        self.note_metered(id, half);
        self.note_unmetered(id, half);
    }

    fn note_metered(&mut self, id: StreamId, half: &mut SendHalf) {
        if !half.is_in_metered && half.wants_metered() {
            half.is_in_metered = true;
            self.metered.push_back(id);
        }
    }

    fn note_unmetered(&mut self, id: StreamId, half: &mut SendHalf) {
        if !half.is_in_unmetered && half.wants_unmetered() {
            half.is_in_unmetered = true;
            self.unmetered.push_back(id);
        }
    }

    /// Takes out a stream that has nothing to send any more; only a reset makes
    /// it so, and resets are rare.
    pub(super) fn remove(&mut self, id: StreamId, half: &mut SendHalf) {
        if core::mem::take(&mut half.is_in_metered) {
            self.metered.retain(|queued| *queued != id);
        }
        if core::mem::take(&mut half.is_in_unmetered) {
            self.unmetered.retain(|queued| *queued != id);
        }
    }

    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.metered.len(), self.unmetered.len())
    }
}

impl Streams {
    /// Whether some stream has data or an end to send that credit allows.
    pub fn can_fill(&self) -> bool {
        !self.ready.unmetered.is_empty()
            || (!self.ready.metered.is_empty() && self.send_credit.left() > 0)
    }

    /// Appends stream frames, at most `room` bytes, as the content of `symbol`
    /// to `out`; returns how many bytes. With [`FILL_ROOM_MIN`] or more it is 0
    /// exactly if [`can_fill`](Self::can_fill) says no.
    ///
    /// The last frame reaches to the end of the symbol, which is sent as long as
    /// it is. Symbols are filled in ascending order, each once.
    pub fn fill_symbol(&mut self, symbol: SymbolId, room: usize, out: &mut Vec<u8>) -> usize {
        let before = out.len();
        let mut left = room.min(usize::from(u16::MAX));
        let mut plan = core::mem::take(&mut self.plan);
        while let Some(rest) = left.checked_sub(if plan.is_empty() { 0 } else { LEN_BYTES })
            && let Some(frame) = self.plan_frame(rest)
        {
            left = rest - stream_header_len(frame.stream, frame.offset) - frame.len;
            plan.push(frame);
        }
        let last = plan.len().wrapping_sub(1);
        for (index, frame) in plan.drain(..).enumerate() {
            let len = (index != last).then_some(frame.len as u16);
            StreamFrame::write_header(out, frame.stream, frame.offset, frame.is_fin, len);
            self.put_frame(symbol, &frame, out);
        }
        self.plan = plan;
        out.len() - before
    }

    /// Chooses the next frame for `room` bytes and takes its stream out of the
    /// queue, if there is one worth the room.
    fn plan_frame(&mut self, room: usize) -> Option<Planned> {
        let credit = self.send_credit.left();
        let (stream, is_metered) = match self.ready.unmetered.front() {
            Some(stream) => (*stream, false),
            None if credit == 0 => return None,
            None => (*self.ready.metered.front()?, true),
        };
        let half = &mut self
            .streams
            .get_mut(&stream)
            .expect("queued streams are known")
            .send;
        let Offer {
            offset,
            mut available,
            is_fin,
        } = if is_metered {
            half.offer_metered()
        } else {
            half.offer_unmetered()
        };
        let wanted = available;
        if is_metered {
            available = available.min(credit);
        }
        let data_room = room.checked_sub(stream_header_len(stream, offset))? as u64;
        if data_room < available.min(DATA_WORTH) {
            return None;
        }
        let len = available.min(data_room);
        if is_metered {
            self.ready.metered.pop_front();
            half.is_in_metered = false;
            self.send_credit.sent += len;
        } else {
            self.ready.unmetered.pop_front();
            half.is_in_unmetered = false;
        }
        Some(Planned {
            stream,
            offset,
            len: len as usize,
            is_fin: is_fin && len == wanted,
            is_metered,
        })
    }

    /// Moves the bytes of a planned frame into the symbol.
    fn put_frame(&mut self, symbol: SymbolId, frame: &Planned, out: &mut Vec<u8>) {
        let id = frame.stream;
        let half = &mut self
            .streams
            .get_mut(&id)
            .expect("planned streams are known")
            .send;
        let held = half.held();
        // Each frame brings its stream back into the queue it came from. The
        // stream's frame from the other queue may still be to come.
        if frame.is_metered {
            half.take_metered(&mut self.pool, frame.len, frame.is_fin, out);
            self.ready.note_metered(id, half);
        } else {
            half.take_unmetered(frame.len, out);
            self.ready.note_unmetered(id, half);
        }
        self.bytes_to_send -= frame.len as u64;
        self.send_budget.change(held, half.held());
        Self::wake_writer(&self.config, &self.send_budget, &mut self.events, id, half);
        debug_assert!(symbol >= half.last_symbol, "symbols are filled in order");
        half.last_symbol = symbol;
        if half.is_all_sent() {
            self.completing.push_back((symbol, id));
        }
    }

    /// Every symbol below `base` has reached the peer, or was abandoned and its
    /// content given to [`requeue`](Self::requeue) before.
    pub fn on_symbols_complete(&mut self, base: SymbolId) {
        while let Some((symbol, id)) = self.completing.front().copied()
            && symbol < base
        {
            self.completing.pop_front();
            if let Some(stream) = self.streams.get_mut(&id)
                && stream.send.is_all_sent()
                && stream.send.last_symbol < base
            {
                stream.send.state = SendState::Finished;
                self.events.push_back(StreamEvent::Finished(id));
                self.forget_if_closed(id);
            }
        }
    }

    /// Takes back the content of a symbol of ours whose generation was
    /// abandoned: what its streams still want to send goes out again in new
    /// symbols. Contents given in ascending order need fewest frames.
    pub fn requeue(&mut self, content: &[u8]) {
        for frame in StreamFrames::new(content).flatten() {
            let Some(stream) = self.streams.get_mut(&frame.stream) else {
                continue;
            };
            let half = &mut stream.send;
            if matches!(half.state, SendState::Finished | SendState::Reset { .. }) {
                continue;
            }
            half.put_again(frame.offset, frame.data, frame.is_fin);
            self.bytes_to_send += frame.data.len() as u64;
            self.ready.note(frame.stream, half);
        }
    }
}
