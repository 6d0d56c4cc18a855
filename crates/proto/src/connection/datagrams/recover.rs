//! Lost datagrams, brought back by repairs: each once, and none that has grown old.
//!
//! How old a datagram is the receiver does not know, but it was sent no later than
//! any with a higher number: its age counts from when the first of these arrived, or
//! the first repair that covers it. Past [`AGE_MAX`] it is forgotten.

use std::collections::VecDeque;

use ctcp_rlnc::{SLIDING_MAX, SlidingDecoder, SlidingError};
use ctcp_units::{Duration, Instant, PacketNumber, millis};

use crate::crypto::{ReplayError, ReplayWindow};

/// A lost datagram is recovered no later than this after it was missed. Whoever
/// sends covers it for 200 ms; the rest is for the ways to differ by.
pub(super) const AGE_MAX: Duration = millis(500);

/// What has come of the numbered datagrams.
///
/// Memory: [`SLIDING_MAX`] datagrams of the longest packet, 94 kB with those of
/// 1472 bytes, while some are younger than [`AGE_MAX`]; and 1 KiB of numbers.
#[derive(Debug)]
pub(super) struct Recovery {
    decoder: SlidingDecoder,
    seen: ReplayWindow,
    /// Up to which number datagrams were known of, and since when, within the
    /// decoder's window.
    noticed: VecDeque<(u64, Instant)>,
}

impl Recovery {
    /// For datagrams in packets of at most `symbol_len` bytes.
    pub(super) fn new(symbol_len: usize) -> Self {
        Self {
            decoder: SlidingDecoder::new(SLIDING_MAX, symbol_len),
            seen: ReplayWindow::new(),
            noticed: VecDeque::new(),
        }
    }

    /// Datagram `number` arrived. `Ok(Err(_))`: it is not new, or may not be.
    pub(super) fn on_numbered(
        &mut self,
        now: Instant,
        number: u64,
        content: &[u8],
    ) -> Result<Result<(), ReplayError>, SlidingError> {
        self.notice(now, number);
        let is_new = self.seen.check(PacketNumber(number));
        self.seen.mark(PacketNumber(number));
        self.decoder.insert_symbol(number, content)?;
        Ok(is_new)
    }

    /// A repair of `count` datagrams from `first` on arrived.
    pub(super) fn on_repair(
        &mut self,
        now: Instant,
        (first, count): (u64, u8),
        index: u16,
        payload: &[u8],
    ) -> Result<(), SlidingError> {
        self.notice(now, first + u64::from(count) - 1);
        self.decoder
            .insert_repair(first, count.into(), index, payload)?;
        Ok(())
    }

    /// The content of the next datagram recovered. To be asked after each arrival
    /// until there is none.
    pub(super) fn next_recovered(&mut self) -> Option<&[u8]> {
        let (number, content) = self.decoder.next_recovered()?;
        self.seen.mark(PacketNumber(number));
        Some(content)
    }

    /// Notes that datagrams up to `number` are known of, and forgets old ones.
    fn notice(&mut self, now: Instant, number: u64) {
        self.forget(now);
        if self.noticed.back().is_none_or(|(known, _)| *known < number) {
            self.noticed.push_back((number, now));
        }
        let window = SLIDING_MAX as u64;
        while self
            .noticed
            .front()
            .is_some_and(|(known, _)| known + window <= number)
        {
            self.noticed.pop_front();
        }
    }

    fn forget(&mut self, now: Instant) {
        while let Some((number, at)) = self.noticed.front().copied()
            && at + AGE_MAX <= now
        {
            self.noticed.pop_front();
            self.decoder.forget_below(number + 1);
        }
    }

    /// When nothing that is held is of use any more.
    pub(super) fn due(&self) -> Option<Instant> {
        self.noticed.back().map(|(_, at)| *at + AGE_MAX)
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.due().is_some_and(|due| due <= now) {
            self.forget(now);
        }
    }

    /// Datagrams and repairs in memory.
    pub(super) fn buffers(&self) -> usize {
        self.decoder.buffers()
    }

    /// Marks of time in memory.
    #[cfg(test)]
    pub(super) fn noticed(&self) -> usize {
        self.noticed.len()
    }
}
