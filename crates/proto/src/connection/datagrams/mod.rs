//! Datagrams of the application, beside its streams: at most once, in any order, and
//! not sent again. They pay tokens as symbols do. Where a path loses packets, repairs
//! go with them (`protect`), by which the receiver brings back what was lost
//! (`recover`).
//!
//! Both queues are bounded. The way out drops the oldest: what waits for a congested
//! path is of the least use. The way in drops the newest: who does not read has no
//! right to memory.

mod protect;
mod recover;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use ctcp_units::{Instant, StreamId};
use thiserror::Error;

use super::{Connection, Violation};
use crate::Transmit;
use crate::crypto::ReplayError;
use crate::path::Cargo;
use crate::wire::{CONTROL_OVERHEAD, Frame, Header, datagram_content, varint_len, write_varint};
use protect::{Protection, RepairPlan};
use recover::Recovery;

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
    protection: Protection,
    /// There once a numbered datagram or a repair has come.
    recovery: Option<Box<Recovery>>,
    recovered: u64,
}

impl Datagrams {
    /// None waits to be sent, nor a repair.
    pub(super) fn is_idle(&self, now: Instant) -> bool {
        self.outgoing.is_empty() && !self.protection.wants_repair(now)
    }

    /// Datagrams that repairs brought back.
    pub(super) const fn recovered(&self) -> u64 {
        self.recovered
    }

    /// Numbered datagrams and repairs held to recover others by.
    pub(super) fn held(&self) -> usize {
        let recovery = self.recovery.as_ref();
        recovery.map_or(0, |recovery| recovery.buffers())
    }

    /// The repair that goes next, if it is a repair's turn; see
    /// [`Protection::next_repair`].
    fn next_repair(&self, now: Instant, udp_payload_max: usize) -> Option<RepairPlan> {
        let is_turn = self.outgoing.is_empty();
        is_turn.then(|| self.protection.next_repair(now, udp_payload_max))?
    }

    /// When to call [`Self::handle_timeout`].
    pub(super) fn due(&self) -> Option<Instant> {
        let recovery = self.recovery.as_ref();
        let due = [
            self.protection.due(),
            recovery.and_then(|recovery| recovery.due()),
        ];
        due.into_iter().flatten().min()
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.protection.handle_timeout(now);
        if let Some(recovery) = &mut self.recovery {
            recovery.handle_timeout(now);
        }
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

    fn on_received(&mut self, stream: StreamId, data: &[u8]) {
        if self.incoming.len() >= INCOMING_MAX {
            self.dropped += 1;
            return;
        }
        self.incoming.push_back((stream, data.to_vec()));
    }

    /// A numbered datagram came.
    fn on_numbered(
        &mut self,
        now: Instant,
        number: u64,
        content: &[u8],
        symbol_len: usize,
    ) -> Result<(), Violation> {
        match self
            .recovery(symbol_len)
            .on_numbered(now, number, content)?
        {
            Ok(()) => {
                let (stream, data) = datagram_content(content)?;
                self.on_received(stream, data);
            }
            // A repair was faster.
            Err(ReplayError::Duplicate) => {}
            Err(ReplayError::TooOld) => self.dropped += 1,
        }
        self.take_recovered()
    }

    /// A repair came.
    fn on_repair(
        &mut self,
        now: Instant,
        range: (u64, u8),
        index: u16,
        payload: &[u8],
        symbol_len: usize,
    ) -> Result<(), Violation> {
        let recovery = self.recovery(symbol_len);
        recovery.on_repair(now, range, index, payload)?;
        self.take_recovered()
    }

    fn recovery(&mut self, symbol_len: usize) -> &mut Recovery {
        let make = || Box::new(Recovery::new(symbol_len));
        self.recovery.get_or_insert_with(make)
    }

    fn take_recovered(&mut self) -> Result<(), Violation> {
        let Some(mut recovery) = self.recovery.take() else {
            return Ok(());
        };
        let mut broken = Ok(());
        while let Some(content) = recovery.next_recovered() {
            match datagram_content(content) {
                Ok((stream, data)) => {
                    self.recovered += 1;
                    self.on_received(stream, data);
                }
                Err(error) => broken = Err(error.into()),
            }
        }
        self.recovery = Some(recovery);
        broken
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

    /// Whether the next datagram, or a repair if none waits, may go by path `index`.
    pub(super) fn carries_next_datagram(&self, index: usize) -> bool {
        let udp_payload_max = self.paths[index].udp_payload_max();
        let fits = match self.datagrams.next_len() {
            Some((stream, len)) => len <= datagram_len_max(udp_payload_max, stream),
            None => {
                let repair = self.datagrams.next_repair(self.now, udp_payload_max);
                repair.is_some()
            }
        };
        fits && self.usable_paths()[index]
    }

    /// A datagram of the application, or a repair: it pays a token as a symbol does,
    /// and goes before symbols, a few at a time, as it does not wait.
    pub(super) fn transmit_datagram(
        &mut self,
        now: Instant,
        index: usize,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if self.datagrams.is_idle(now) {
            return None;
        }
        self.drop_unfit_datagrams();
        if !self.carries_next_datagram(index) {
            return None;
        }
        let path = &mut self.paths[index];
        if !path.has_token() {
            path.is_app_limited = false;
            return None;
        }
        if !path.may_send(now) || self.has_symbols_to_send() && self.datagrams.yields() {
            return None;
        }
        let udp_payload_max = self.paths[index].udp_payload_max();
        let repair = self.datagrams.next_repair(now, udp_payload_max);
        let datagram = self.datagrams.pop();
        self.begin(index, out);
        let cargo = if let Some((stream, data)) = datagram {
            self.write_datagram(now, index, stream, &data, out);
            Cargo::Datagram
        } else {
            self.datagrams.protection.write_repair(&repair?, out);
            Cargo::DatagramRepair
        };
        self.seal(now, index, out, 0, Header::Control.flags(), cargo)?;
        Some(self.single(index, self.paths[index].remote, out))
    }

    /// Appends the frame of a datagram, numbered if repairs are worth sending.
    fn write_datagram(
        &mut self,
        now: Instant,
        index: usize,
        stream: StreamId,
        data: &[u8],
        out: &mut Vec<u8>,
    ) {
        let path = &self.paths[index];
        let protection = &mut self.datagrams.protection;
        let share = protection.share(now, self.config.redundancy, path.loss_process());
        let window = self.peer_params.map_or(0, |params| params.datagram_window);
        if protect::is_numbered(share, window) {
            let mut content = Vec::with_capacity(varint_len(stream.0) + data.len());
            write_varint(&mut content, stream.0);
            content.extend_from_slice(data);
            if Protection::fits(&content, path.udp_payload_max()) {
                let number = protection.push(now, share, &content);
                let content = &content;
                return Frame::NumberedDatagram { number, content }.write(out);
            }
        }
        Frame::Datagram { stream, data }.write(out);
    }

    pub(super) fn on_numbered_datagram(
        &mut self,
        number: u64,
        content: &[u8],
    ) -> Result<(), Violation> {
        self.count_as_datagram();
        let symbol_len = self.datagram_symbol_len();
        self.datagrams
            .on_numbered(self.now, number, content, symbol_len)
    }

    pub(super) fn on_datagram_repair(
        &mut self,
        range: (u64, u8),
        index: u16,
        payload: &[u8],
    ) -> Result<(), Violation> {
        // It was taken for a control packet, and can hold no second one.
        self.received.control -= 1;
        self.received.datagram_repairs += 1;
        let symbol_len = self.datagram_symbol_len();
        self.datagrams
            .on_repair(self.now, range, index, payload, symbol_len)
    }

    pub(super) fn on_datagram(&mut self, stream: StreamId, data: &[u8]) {
        self.count_as_datagram();
        self.datagrams.on_received(stream, data);
    }

    /// It was taken for a control packet, and can hold no second one.
    const fn count_as_datagram(&mut self) {
        self.received.control -= 1;
        self.received.datagrams += 1;
    }

    /// What numbered datagrams may be long: as a packet is.
    fn datagram_symbol_len(&self) -> usize {
        usize::from(self.config.udp_payload_max().max(1472))
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
