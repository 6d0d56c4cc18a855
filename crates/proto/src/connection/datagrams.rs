//! Datagrams of the application, beside its streams: at most once, in any order, not
//! coded and not sent again. They pay tokens as symbols do.
//!
//! Both queues are bounded. The way out drops the oldest: what waits for a congested
//! path is of the least use. The way in drops the newest: who does not read has no
//! right to memory.

use std::collections::VecDeque;

use ctcp_units::{Instant, StreamId};
use thiserror::Error;

use super::Connection;
use crate::wire::{CONTROL_OVERHEAD, varint_len};

/// Datagrams that wait for tokens, at most.
const OUTGOING_MAX: usize = 128;

/// Datagrams that wait to be read, at most.
const INCOMING_MAX: usize = 256;

/// Datagrams in a row while symbols wait: then these have a turn, so that streams go on
/// whatever an application pours out beside them.
const IN_A_ROW_MAX: u32 = 16;

/// Why a datagram was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DatagramError {
    /// It fits no packet of any path: send less, or by a stream.
    #[error("a datagram of {len} bytes; the paths carry {max} at most")]
    TooLong {
        /// Bytes given.
        len: usize,
        /// Bytes that fit now.
        max: usize,
    },
    /// The connection is not set up yet, or has ended.
    #[error("there is no connection to send a datagram by")]
    NotConnected,
}

/// The longest datagram of `stream` in a packet of `udp_payload_max` bytes.
pub(super) fn datagram_len_max(udp_payload_max: usize, stream: StreamId) -> usize {
    udp_payload_max.saturating_sub(CONTROL_OVERHEAD + 1 + varint_len(stream.0))
}

#[derive(Debug, Default)]
pub(super) struct Datagrams {
    outgoing: VecDeque<(StreamId, Vec<u8>)>,
    incoming: VecDeque<(StreamId, Vec<u8>)>,
    dropped: u64,
    /// Sent since symbols had a turn.
    in_a_row: u32,
}

impl Datagrams {
    /// None waits to be sent.
    pub(super) fn is_empty(&self) -> bool {
        self.outgoing.is_empty()
    }

    pub(super) const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Stream and length of the next one to be sent.
    pub(super) fn next_len(&self) -> Option<(StreamId, usize)> {
        let (stream, data) = self.outgoing.front()?;
        Some((*stream, data.len()))
    }

    pub(super) fn pop(&mut self) -> Option<(StreamId, Vec<u8>)> {
        self.in_a_row += 1;
        self.outgoing.pop_front()
    }

    /// Whether symbols that wait have a turn now; it is theirs then.
    pub(super) fn yields(&mut self) -> bool {
        let is_over = self.in_a_row >= IN_A_ROW_MAX;
        if is_over {
            self.in_a_row = 0;
        }
        is_over
    }

    fn push(&mut self, stream: StreamId, data: &[u8]) {
        if self.outgoing.len() >= OUTGOING_MAX {
            self.outgoing.pop_front();
            self.dropped += 1;
        }
        self.outgoing.push_back((stream, data.to_vec()));
    }

    /// Drops the next ones until one fits.
    fn drop_until(&mut self, fits: impl Fn(StreamId, usize) -> bool) {
        while self
            .next_len()
            .is_some_and(|(stream, len)| !fits(stream, len))
        {
            self.outgoing.pop_front();
            self.dropped += 1;
        }
    }

    pub(super) fn on_received(&mut self, stream: StreamId, data: &[u8]) {
        if self.incoming.len() >= INCOMING_MAX {
            self.dropped += 1;
            return;
        }
        self.incoming.push_back((stream, data.to_vec()));
    }

    fn read(&mut self) -> Option<(StreamId, Vec<u8>)> {
        self.incoming.pop_front()
    }
}

impl Connection {
    /// Sends a datagram that belongs to `stream` as soon as a path has a token. It may
    /// be lost on the way, or here if others keep coming.
    ///
    /// # Errors
    /// [`DatagramError`].
    pub fn send_datagram(
        &mut self,
        now: Instant,
        stream: StreamId,
        data: &[u8],
    ) -> Result<(), DatagramError> {
        self.advance(now);
        if !self.is_open() || self.keys.is_none() {
            return Err(DatagramError::NotConnected);
        }
        let max = self.datagram_len_max(stream);
        if data.len() > max {
            let len = data.len();
            return Err(DatagramError::TooLong { len, max });
        }
        self.datagrams.push(stream, data);
        Ok(())
    }

    /// The longest datagram of `stream` that some path carries now, bytes.
    pub fn datagram_len_max(&self, stream: StreamId) -> usize {
        datagram_len_max(self.widest(), stream)
    }

    /// The largest UDP payload of the paths that carry data.
    fn widest(&self) -> usize {
        let usable = self.paths.iter().zip(self.usable_paths());
        let lens =
            usable.filter_map(|(path, is_usable)| is_usable.then_some(path.udp_payload_max()));
        lens.max().unwrap_or(0)
    }

    /// Whether the next datagram may go by path `index`.
    pub(super) fn carries_next_datagram(&self, index: usize) -> bool {
        let Some((stream, len)) = self.datagrams.next_len() else {
            return false;
        };
        len <= datagram_len_max(self.paths[index].udp_payload_max(), stream)
            && self.usable_paths()[index]
    }

    /// Drops what would be next and fits no path any more; paths have narrowed since
    /// it was taken.
    pub(super) fn drop_unfit_datagrams(&mut self) {
        let widest = self.widest();
        if widest > 0 {
            self.datagrams
                .drop_until(|stream, len| len <= datagram_len_max(widest, stream));
        }
    }

    /// The next datagram that came, and the stream it belongs to, of which nothing may
    /// be known yet or any more. To be asked after each input, until there is none.
    pub fn poll_datagram(&mut self) -> Option<(StreamId, Vec<u8>)> {
        self.datagrams.read()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_bounded() {
        let mut datagrams = Datagrams::default();
        for number in 0..1000_u64 {
            datagrams.push(StreamId(0), &number.to_be_bytes());
            datagrams.on_received(StreamId(0), &number.to_be_bytes());
        }
        let number = |taken: Option<(StreamId, Vec<u8>)>| {
            let (_, data) = taken.expect("it is full");
            u64::from_be_bytes(data.try_into().expect("eight bytes"))
        };
        assert_eq!(number(datagrams.pop()), 1000 - OUTGOING_MAX as u64);
        assert_eq!(number(datagrams.read()), 0);
        assert_eq!(datagrams.incoming.len(), INCOMING_MAX - 1);
        let dropped = 2000 - (OUTGOING_MAX + INCOMING_MAX) as u64;
        assert_eq!(datagrams.dropped(), dropped);
        datagrams.drop_until(|_, len| len < 8);
        assert!(datagrams.is_empty());
        assert_eq!(datagrams.dropped(), dropped + OUTGOING_MAX as u64 - 1);
    }
}
