//! The sending half of one stream: bytes not yet in a symbol, and how it ends.
//!
//! A byte leaves this buffer when it enters a symbol; from then on the coding
//! window keeps it. It comes back only if its generation is abandoned.

use std::collections::VecDeque;

use ctcp_units::SymbolId;

use super::WriteError;
use super::chunks::{ChunkPool, Chunks};
use super::flow::Notice;

/// How far a sending half has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SendState {
    /// The application may write.
    Open,
    /// It said that no more comes; the end is not in a symbol yet.
    Finishing,
    /// Everything is in symbols.
    Sent,
    /// Everything has reached the peer.
    Finished,
    /// Given up; `code` tells the peer why.
    Reset {
        code: u32,
        /// The peer wanted no more.
        by_peer: bool,
        /// The application knows.
        is_told: bool,
    },
}

/// A piece that was in an abandoned generation.
#[derive(Debug)]
struct Again {
    offset: u64,
    data: Vec<u8>,
    is_fin: bool,
}

/// A frame that could be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) offset: u64,
    /// Bytes there are; fewer may be taken.
    pub(super) available: u64,
    /// The stream ends with the last of these bytes.
    pub(super) is_fin: bool,
}

/// The sending half of one stream.
#[derive(Debug)]
pub(super) struct SendHalf {
    chunks: Chunks,
    /// First byte that has never been in a symbol.
    sent: u64,
    written: u64,
    again: VecDeque<Again>,
    /// Bytes taken of the front of `again`.
    again_taken: usize,
    again_bytes: u64,
    /// The peer's credit: offset not to be passed.
    pub(super) max: u64,
    pub(super) state: SendState,
    /// Latest symbol with a frame of this stream.
    pub(super) last_symbol: SymbolId,
    /// A write was cut short.
    pub(super) writer_waits: bool,
    pub(super) is_in_metered: bool,
    pub(super) is_in_unmetered: bool,
    /// What the peer knows of the reset.
    pub(super) reset: Notice,
}

impl SendHalf {
    pub(super) fn new(max: u64) -> Self {
        Self {
            chunks: Chunks::default(),
            sent: 0,
            written: 0,
            again: VecDeque::new(),
            again_taken: 0,
            again_bytes: 0,
            max,
            state: SendState::Open,
            last_symbol: SymbolId(0),
            writer_waits: false,
            is_in_metered: false,
            is_in_unmetered: false,
            reset: Notice::None,
        }
    }

    /// Offset after the last byte that was ever in a symbol.
    pub(super) const fn sent(&self) -> u64 {
        self.sent
    }

    /// Bytes written and never in a symbol.
    pub(super) const fn held(&self) -> u64 {
        self.written - self.sent
    }

    /// Bytes that were given back and wait for a new symbol.
    pub(super) const fn again_bytes(&self) -> u64 {
        self.again_bytes
    }

    /// Nothing more can happen here.
    pub(super) const fn is_closed(&self) -> bool {
        match self.state {
            SendState::Finished => true,
            SendState::Reset { is_told, .. } => is_told && matches!(self.reset, Notice::Acked),
            SendState::Open | SendState::Finishing | SendState::Sent => false,
        }
    }

    /// Everything up to the end is in symbols, and none was given back.
    pub(super) fn is_all_sent(&self) -> bool {
        self.state == SendState::Sent && self.again.is_empty()
    }

    /// Why nothing can be written, if so. The application then knows.
    pub(super) fn check_writable(&mut self) -> Result<(), WriteError> {
        match &mut self.state {
            SendState::Open => Ok(()),
            SendState::Finishing | SendState::Sent | SendState::Finished => {
                Err(WriteError::Finished)
            }
            SendState::Reset {
                code,
                by_peer,
                is_told,
            } => {
                *is_told = true;
                Err(if *by_peer {
                    WriteError::Stopped(*code)
                } else {
                    WriteError::Reset
                })
            }
        }
    }

    /// Appends `data`; the caller has looked for room.
    pub(super) fn write(&mut self, pool: &mut ChunkPool, data: &[u8]) {
        self.chunks.write(pool, self.written, data);
        self.written += data.len() as u64;
    }

    /// Whether it has new bytes that its own credit allows.
    pub(super) const fn wants_metered(&self) -> bool {
        self.written > self.sent
            && self.sent < self.max
            && matches!(self.state, SendState::Open | SendState::Finishing)
    }

    /// Whether it has something that needs no credit: bytes that were sent
    /// before, or its bare end.
    pub(super) fn wants_unmetered(&self) -> bool {
        !self.again.is_empty() || (self.state == SendState::Finishing && self.held() == 0)
    }

    /// New bytes.
    pub(super) fn offer_metered(&self) -> Offer {
        let allowed = self.written.min(self.max);
        Offer {
            offset: self.sent,
            available: allowed - self.sent,
            is_fin: self.state == SendState::Finishing && allowed == self.written,
        }
    }

    /// Bytes sent before, or the bare end.
    pub(super) fn offer_unmetered(&self) -> Offer {
        match self.again.front() {
            Some(piece) => Offer {
                offset: piece.offset + self.again_taken as u64,
                available: (piece.data.len() - self.again_taken) as u64,
                is_fin: piece.is_fin,
            },
            None => Offer {
                offset: self.sent,
                available: 0,
                is_fin: true,
            },
        }
    }

    /// Moves `len` new bytes to `out`; `is_fin` if the end goes with them.
    pub(super) fn take_metered(
        &mut self,
        pool: &mut ChunkPool,
        len: usize,
        is_fin: bool,
        out: &mut Vec<u8>,
    ) {
        for piece in self.chunks.pieces(self.sent, len) {
            out.extend_from_slice(piece);
        }
        self.sent += len as u64;
        if self.held() == 0 {
            self.chunks.clear(pool, self.sent);
        } else {
            self.chunks.release_below(pool, self.sent);
        }
        if is_fin {
            self.state = SendState::Sent;
        }
    }

    /// Moves `len` bytes that were sent before to `out`, or sends the bare end.
    pub(super) fn take_unmetered(&mut self, len: usize, out: &mut Vec<u8>) {
        let Some(piece) = self.again.front() else {
            self.state = SendState::Sent;
            return;
        };
        let end = self.again_taken + len;
        out.extend_from_slice(&piece.data[self.again_taken..end]);
        self.again_taken = end;
        self.again_bytes -= len as u64;
        if end == piece.data.len() {
            self.again.pop_front();
            self.again_taken = 0;
        }
    }

    /// Takes back a piece of an abandoned generation.
    pub(super) fn put_again(&mut self, offset: u64, data: &[u8], is_fin: bool) {
        self.again_bytes += data.len() as u64;
        if let Some(last) = self.again.back_mut()
            && last.offset + last.data.len() as u64 == offset
        {
            last.data.extend_from_slice(data);
            last.is_fin |= is_fin;
            return;
        }
        self.again.push_back(Again {
            offset,
            data: data.to_vec(),
            is_fin,
        });
    }

    /// Drops what waits to be sent. What was never sent does not count as
    /// written any more.
    pub(super) fn give_up(&mut self, pool: &mut ChunkPool) {
        self.written = self.sent;
        self.chunks.clear(pool, self.sent);
        self.again = VecDeque::new();
        self.again_taken = 0;
        self.again_bytes = 0;
        self.writer_waits = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_pieces_come_again_as_one() {
        let mut half = SendHalf::new(100);
        half.put_again(10, b"abc", false);
        half.put_again(13, b"def", true);
        half.put_again(30, b"x", false);
        assert_eq!(
            half.offer_unmetered(),
            Offer {
                offset: 10,
                available: 6,
                is_fin: true
            }
        );
        let mut out = Vec::new();
        half.take_unmetered(4, &mut out);
        assert_eq!(half.offer_unmetered().offset, 14);
        half.take_unmetered(2, &mut out);
        assert_eq!(out, b"abcdef");
        assert_eq!(half.offer_unmetered().offset, 30);
        assert_eq!(half.again_bytes(), 1);
    }

    #[test]
    fn the_end_goes_with_the_last_byte_that_credit_allows() {
        let mut pool = ChunkPool::default();
        let mut half = SendHalf::new(3);
        half.write(&mut pool, b"abcd");
        half.state = SendState::Finishing;
        assert!(!half.offer_metered().is_fin);
        half.max = 4;
        assert!(half.offer_metered().is_fin);
        let mut out = Vec::new();
        half.take_metered(&mut pool, 4, true, &mut out);
        assert!(half.is_all_sent());
        assert!(!half.wants_metered() && !half.wants_unmetered());
    }
}
