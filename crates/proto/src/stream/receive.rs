//! The receiving half of one stream: reassembly, its end, and its credit.

use super::assembler::Assembler;
use super::flow::{Announced, Notice};
use super::{ReadError, StreamViolation};
use ctcp_units::StreamId;

/// How far a receiving half has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReceiveState {
    /// Bytes are wanted.
    Open,
    /// The application has read the end.
    Ended,
    /// The peer gave up.
    Reset {
        code: u32,
        /// The application knows.
        is_told: bool,
    },
    /// The application wants no more; the peer has yet to name the end.
    Stopped { code: u32 },
    /// The application wants no more, and the end is known.
    Discarded,
}

/// The receiving half of one stream.
#[derive(Debug)]
pub(super) struct ReceiveHalf {
    pub(super) assembler: Assembler,
    /// Highest offset seen.
    pub(super) highest: u64,
    /// Where the stream ends, once known.
    pub(super) final_offset: Option<u64>,
    pub(super) state: ReceiveState,
    /// The last read found nothing.
    pub(super) reader_waits: bool,
    /// Offset the peer may not pass.
    pub(super) credit: Announced,
    /// Bytes beyond what was read that the peer shall be allowed.
    window: u64,
    /// What the peer knows of the stop.
    pub(super) stop: Notice,
}

impl ReceiveHalf {
    /// A half whose first credit the peer knows from the handshake.
    pub(super) fn new(max_stream_data: u64) -> Self {
        Self {
            assembler: Assembler::default(),
            highest: 0,
            final_offset: None,
            state: ReceiveState::Open,
            reader_waits: true,
            credit: Announced::known(max_stream_data),
            window: max_stream_data,
            stop: Notice::None,
        }
    }

    /// Nothing more can happen here.
    pub(super) const fn is_closed(&self) -> bool {
        match self.state {
            ReceiveState::Ended | ReceiveState::Discarded => true,
            ReceiveState::Reset { is_told, .. } => is_told,
            ReceiveState::Open | ReceiveState::Stopped { .. } => false,
        }
    }

    /// Bytes beyond what was read that the peer may make us hold.
    pub(super) fn promise(&self) -> u64 {
        let max = self.credit.value();
        self.final_offset.map_or(max, |end| end.min(max)) - self.assembler.read_offset()
    }

    /// Whether everything up to the end has been read.
    pub(super) fn is_at_end(&self) -> bool {
        self.final_offset == Some(self.assembler.read_offset())
    }

    /// Whether a read would say something new.
    pub(super) fn is_readable(&self) -> bool {
        self.state == ReceiveState::Open && (self.assembler.readable() > 0 || self.is_at_end())
    }

    /// Why nothing can be read, if so. The application then knows.
    pub(super) fn check_readable(&mut self) -> Result<(), ReadError> {
        match &mut self.state {
            ReceiveState::Open | ReceiveState::Ended => Ok(()),
            ReceiveState::Reset { code, is_told } => {
                *is_told = true;
                Err(ReadError::Reset(*code))
            }
            ReceiveState::Stopped { .. } | ReceiveState::Discarded => Err(ReadError::Stopped),
        }
    }

    /// The peer sent bytes up to `end`, or named it as the end; returns by how
    /// much that passes what was known.
    pub(super) fn advance(
        &mut self,
        stream: StreamId,
        end: u64,
        is_final: bool,
    ) -> Result<u64, StreamViolation> {
        let max = self.credit.value();
        if end > max {
            return Err(StreamViolation::StreamCredit { stream, end, max });
        }
        let contradicts = self
            .final_offset
            .is_some_and(|known| end > known || (is_final && end != known))
            || (is_final && end < self.highest);
        if contradicts {
            let known = self.final_offset.unwrap_or(self.highest);
            return Err(StreamViolation::FinalOffset { stream, end, known });
        }
        if is_final {
            self.final_offset = Some(end);
        }
        let growth = end.saturating_sub(self.highest);
        self.highest += growth;
        Ok(growth)
    }

    /// Raises the credit after a read if a quarter of it has been used up and
    /// `limit`, what the connection can promise this stream, allows. True if it
    /// has to be queued for sending.
    ///
    /// The window doubles while the reader keeps up, up to `window_max`: so long
    /// it may be the window that holds the sender back, and a reader that lags
    /// gains nothing from more.
    pub(super) fn raise_credit(&mut self, limit: u64, window_max: u64) -> bool {
        if self.state != ReceiveState::Open || self.final_offset.is_some() {
            return false;
        }
        let promise = self.promise();
        if promise > self.window.min(limit) / 4 * 3 {
            return false;
        }
        if self.assembler.readable() <= self.window / 4 {
            self.window = (2 * self.window).min(window_max.max(self.window));
        }
        let max = self.assembler.read_offset() + self.window.min(limit);
        self.credit.raise(max)
    }

    /// Raises the credit, within the same bounds, if the reader keeps up and yet
    /// a quarter of the window has been used: what came waits behind a hole,
    /// and its repair takes round trips in which a sender on a long path would
    /// stand still. True if it has to be queued for sending.
    pub(super) fn raise_credit_behind_hole(&mut self, limit: u64, window_max: u64) -> bool {
        if self.state != ReceiveState::Open || self.final_offset.is_some() {
            return false;
        }
        let left = self.credit.value() - self.highest;
        if left > self.window / 4 * 3 || self.assembler.readable() > self.window / 4 {
            return false;
        }
        self.window = (2 * self.window).min(window_max.max(self.window));
        let max = self.assembler.read_offset() + self.window.min(limit);
        max > self.credit.value() && self.credit.raise(max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::chunks::ChunkPool;

    const ID: StreamId = StreamId(4);

    #[test]
    fn the_end_may_be_named_once_and_not_passed() {
        let mut half = ReceiveHalf::new(100);
        assert_eq!(half.advance(ID, 60, false), Ok(60));
        let contradiction = |end, known| {
            Err(StreamViolation::FinalOffset {
                stream: ID,
                end,
                known,
            })
        };
        assert_eq!(half.advance(ID, 50, true), contradiction(50, 60));
        assert_eq!(half.advance(ID, 70, true), Ok(10));
        assert_eq!(half.advance(ID, 70, true), Ok(0));
        assert_eq!(half.advance(ID, 71, false), contradiction(71, 70));
        assert_eq!(half.advance(ID, 69, true), contradiction(69, 70));
    }

    #[test]
    fn credit_may_be_used_up_and_not_passed() {
        let mut half = ReceiveHalf::new(100);
        assert_eq!(half.advance(ID, 100, false), Ok(100));
        assert!(matches!(
            half.advance(ID, 101, false),
            Err(StreamViolation::StreamCredit { max: 100, .. })
        ));
    }

    #[test]
    fn the_window_grows_behind_a_hole_and_not_before_an_idle_reader() {
        let mut pool = ChunkPool::default();
        let mut half = ReceiveHalf::new(100);
        half.advance(ID, 24, false).unwrap();
        assert!(!half.raise_credit_behind_hole(1000, 1000));
        half.advance(ID, 26, false).unwrap();
        assert!(half.raise_credit_behind_hole(1000, 1000));
        assert_eq!((half.window, half.credit.send()), (200, 200));
        half.advance(ID, 200, false).unwrap();
        assert!(!half.raise_credit_behind_hole(200, 1000));
        assert_eq!(half.credit.value(), 200);
        half.assembler.insert(&mut pool, 0, &[0; 200]);
        assert!(!half.raise_credit_behind_hole(1000, 1000));
        assert_eq!(half.credit.value(), 200);
    }

    #[test]
    fn the_window_grows_only_while_the_reader_keeps_up() {
        let mut pool = ChunkPool::default();
        let mut half = ReceiveHalf::new(100);
        half.advance(ID, 100, false).unwrap();
        half.assembler.insert(&mut pool, 0, &[0; 100]);
        half.assembler.read(&mut pool, &mut [0; 30]);
        assert!(half.raise_credit(1000, 1000));
        assert_eq!((half.window, half.credit.send()), (100, 130));
        half.assembler.read(&mut pool, &mut [0; 70]);
        assert!(half.raise_credit(1000, 1000));
        assert_eq!((half.window, half.credit.send()), (200, 300));
        assert!(!half.raise_credit(1000, 1000));
    }
}
