//! The sender's blocks: from stream bytes to systematic and coded packets.
//!
//! Symbols are filled when a token is there to send them, not before, so each
//! carries the newest bytes and none waits. Per block the sender knows how many
//! packets it sent, how many of those may still arrive on each path, and how
//! many degrees of freedom the receiver reported; after each event that touches
//! a block it judges anew whether the block wants a packet, and keeps that one
//! bit in a [`ReadySet`]. Nothing walks the window.

use std::collections::VecDeque;

use ctcp_rlnc::{Encoder, Repair};
use ctcp_units::{LossRate, Random, SymbolId};

use super::redundancy::{Plan, arriving};
use super::{PATHS_MAX, Redundancy};
use crate::path::LossProcess;
use crate::schedule::{BlockView, ReadySet};
use crate::wire::{CODED_OVERHEAD, Header, REPORTS_MAX, ReportsView, SYMBOL_LEN_PREFIX};

/// Encoders kept for the next blocks.
const SPARE_ENCODERS: usize = 32;

/// Packets that the paths are taken to hold before anything is known.
const FLIGHT: f64 = 10.0;

/// Where the bytes of new symbols come from.
pub(crate) trait SymbolSource {
    /// Appends at most `room` bytes as the content of `symbol`.
    fn fill(&mut self, symbol: SymbolId, room: usize, out: &mut Vec<u8>);

    /// Whether there is more to send.
    fn has_more(&self) -> bool;

    /// Bytes that wait to be sent.
    fn bytes_left(&self) -> u64;
}

/// What the sender of blocks is told once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SendConfig {
    pub(crate) redundancy: Redundancy,
    /// Symbols per full block, 1–255.
    pub(crate) block_symbols: u8,
    /// Blocks in memory at most.
    pub(crate) blocks_max: u64,
    /// Symbols from the oldest block in memory on at most, however wide the
    /// peer opens its window.
    pub(crate) symbols_max: u64,
    pub(crate) seed: u64,
}

#[derive(Debug)]
struct Block {
    first: SymbolId,
    count: u8,
    /// Symbols and code; gone once the block is complete or abandoned.
    encoder: Option<Encoder>,
    symbol_len: usize,
    /// No symbol will be added.
    is_closed: bool,
    /// Path slot that the last packet took.
    slot: usize,
    next_repair: u32,
    /// Coded packets of the first pass not sent yet.
    ahead: u32,
    /// Every packet of the first pass has been accounted for once.
    is_resolved: bool,
    /// Nothing is in flight, and what is missing is to be sent with what it takes.
    is_repair_due: bool,
    /// Degrees of freedom reported by the receiver.
    rank: u8,
    /// Packets acknowledged.
    acked: u8,
    /// Share of the symbols that the paths they took lose, summed.
    losses_expected: f64,
    /// Packets that may still arrive, per path slot.
    in_flight: [u16; PATHS_MAX],
    dither: f64,
}

impl Block {
    fn end(&self) -> SymbolId {
        self.first.plus(self.count.into())
    }

    fn is_done(&self) -> bool {
        self.encoder.is_none()
    }

    fn in_flight_total(&self) -> u32 {
        self.in_flight.iter().map(|n| u32::from(*n)).sum()
    }
}

/// All blocks that are not complete.
#[derive(Debug)]
pub(crate) struct BlockSender {
    config: SendConfig,
    blocks: VecDeque<Block>,
    /// Serial number of the front block.
    first_serial: u64,
    ready: ReadySet,
    spare: Vec<Encoder>,
    next_symbol: SymbolId,
    window_end: SymbolId,
    /// Symbols from the oldest block on that the paths can make use of.
    span: u64,
    /// Every symbol below reached the receiver.
    base: SymbolId,
    /// Blocks from here on are missing from the last report for want of room.
    reported_below: SymbolId,
    loss: [LossProcess; PATHS_MAX],
    /// Packets that the paths hold.
    flight: f64,
    /// Symbols that wait to be filled, as of the last one.
    left: f64,
    random: Random,
    scratch: Vec<u8>,
    /// Coded packets sent when feedback had shown what the first pass missed.
    coded_on_feedback: u64,
}

impl BlockSender {
    pub(crate) fn new(config: SendConfig) -> Self {
        Self {
            config: SendConfig {
                block_symbols: config.block_symbols.max(1),
                blocks_max: config.blocks_max.clamp(1, ReadySet::CAPACITY - 1),
                ..config
            },
            blocks: VecDeque::new(),
            first_serial: 0,
            ready: ReadySet::new(),
            spare: Vec::new(),
            next_symbol: SymbolId(0),
            window_end: SymbolId(0),
            span: u64::MAX,
            base: SymbolId(0),
            reported_below: SymbolId(u64::MAX),
            loss: [LossProcess::default(); PATHS_MAX],
            flight: FLIGHT,
            left: 0.0,
            random: Random::from_seed(config.seed),
            scratch: Vec::new(),
            coded_on_feedback: 0,
        }
    }

    /// The receiver accepts symbols below `end`.
    pub(crate) fn open_window(&mut self, end: SymbolId) {
        self.window_end = self.window_end.max(end);
    }

    /// Every symbol below reached the receiver or was abandoned.
    pub(crate) const fn base(&self) -> SymbolId {
        self.base
    }

    /// Blocks that are not complete.
    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Coded packets sent because feedback called for them.
    pub(crate) const fn coded_on_feedback(&self) -> u64 {
        self.coded_on_feedback
    }

    /// Bytes of symbol storage held, an upper bound.
    pub(crate) fn bytes_held(&self) -> usize {
        let live = self.blocks.iter().filter(|block| !block.is_done());
        live.map(|block| block.symbol_len * usize::from(block.count))
            .sum()
    }

    /// How a path loses packets, for the decisions that follow.
    pub(crate) fn set_loss(&mut self, slot: usize, process: LossProcess) {
        self.loss[slot] = process;
    }

    /// New symbols may run so far ahead of the oldest block, and the paths hold
    /// `flight` packets.
    pub(crate) fn set_span(&mut self, symbols: u64, flight: f64) {
        self.span = symbols;
        self.flight = flight;
    }

    /// The part of a round trip by which everything would come later if what is
    /// sent now failed: what can be sent until that is known hides it.
    fn delay(&self) -> f64 {
        let room = self.symbols_end().0.saturating_sub(self.next_symbol.0) as f64;
        (1.0 - self.left.min(room) / self.flight.max(1.0)).max(0.0)
    }

    fn index_of(&self, serial: u64) -> Option<usize> {
        let index = usize::try_from(serial.checked_sub(self.first_serial)?).ok()?;
        (index < self.blocks.len()).then_some(index)
    }

    fn serial_of(&self, index: usize) -> u64 {
        self.first_serial + index as u64
    }

    /// The open block takes more symbols of this length.
    fn open_index(&self, symbol_len: usize) -> Option<usize> {
        let block = self.blocks.back()?;
        let takes = !block.is_closed && !block.is_done() && block.symbol_len == symbol_len;
        takes.then(|| self.blocks.len() - 1)
    }

    /// Whether another symbol with `content_max` bytes of content fits window
    /// and memory.
    pub(crate) fn has_room_for_symbol(&self, content_max: usize) -> bool {
        self.next_symbol < self.symbols_end()
            && (self.open_index(content_max + SYMBOL_LEN_PREFIX).is_some()
                || (self.blocks.len() as u64) < self.config.blocks_max)
    }

    /// First symbol that window or memory has no place for.
    fn symbols_end(&self) -> SymbolId {
        let oldest = self.blocks.front().map_or(self.next_symbol, |b| b.first);
        let symbols_max = self.config.symbols_max.min(self.span);
        self.window_end.min(oldest.plus(symbols_max))
    }

    /// Fills the next symbol and appends its systematic packet.
    ///
    /// The block stays open while the source has more. Returns `None`, with
    /// nothing appended, if the source had nothing.
    pub(crate) fn write_systematic(
        &mut self,
        slot: usize,
        content_max: usize,
        out: &mut Vec<u8>,
        source: &mut impl SymbolSource,
    ) -> Option<(u64, Header)> {
        debug_assert!(self.has_room_for_symbol(content_max));
        let symbol_len = content_max + SYMBOL_LEN_PREFIX;
        self.scratch.clear();
        source.fill(self.next_symbol, content_max, &mut self.scratch);
        if self.scratch.is_empty() {
            return None;
        }
        let index = match self.open_index(symbol_len) {
            Some(index) => index,
            None => self.open_block(symbol_len),
        };
        let symbol = self.next_symbol;
        self.next_symbol = symbol.next();
        let is_window_full = self.next_symbol >= self.symbols_end();
        let block_symbols = self.config.block_symbols;
        let block = &mut self.blocks[index];
        let encoder = block
            .encoder
            .as_mut()
            .expect("an open block has its symbols");
        let place = encoder
            .push(&self.scratch)
            .expect("an open block has room, and the source kept to its room");
        block.count += 1;
        block.slot = slot;
        block.losses_expected += self.loss[slot].rate.share();
        let has_more = source.has_more();
        self.left = if has_more {
            source.bytes_left() as f64 / content_max as f64
        } else {
            0.0
        };
        let is_last = block.count >= block_symbols || is_window_full || !has_more;
        let header = Header::Systematic {
            symbol,
            index: place,
            is_last,
        };
        header.write(out);
        out.extend_from_slice(&self.scratch);
        block.in_flight[slot] = block.in_flight[slot].saturating_add(1);
        let serial = self.serial_of(index);
        if is_last {
            self.close(index);
        }
        Some((serial, header))
    }

    /// Whether a symbol sent before may still be of use to the receiver, as far as
    /// is known.
    pub(crate) fn is_wanted(&self, serial: u64, place: u8) -> bool {
        let block = self.index_of(serial).map(|index| &self.blocks[index]);
        block.is_some_and(|block| {
            !block.is_done()
                && block.first.plus(place.into()) >= self.base
                && block.rank < block.count
        })
    }

    /// Appends the systematic packet of a symbol once more.
    pub(crate) fn write_copy(
        &mut self,
        serial: u64,
        place: u8,
        slot: usize,
        out: &mut Vec<u8>,
    ) -> Option<Header> {
        let index = self.index_of(serial)?;
        let block = &mut self.blocks[index];
        let content = block.encoder.as_ref()?.content(place)?;
        let header = Header::Systematic {
            symbol: block.first.plus(place.into()),
            index: place,
            is_last: block.is_closed && place + 1 == block.count,
        };
        header.write(out);
        out.extend_from_slice(content);
        block.in_flight[slot] = block.in_flight[slot].saturating_add(1);
        self.judge(index);
        Some(header)
    }

    fn open_block(&mut self, symbol_len: usize) -> usize {
        if let Some(index) = self.blocks.len().checked_sub(1) {
            self.close(index);
        }
        let first = self.next_symbol;
        let encoder = match self.spare.pop() {
            Some(mut encoder) => {
                encoder.reset(first, symbol_len);
                encoder
            }
            None => Encoder::new(first, symbol_len),
        };
        self.blocks.push_back(Block {
            first,
            count: 0,
            encoder: Some(encoder),
            symbol_len,
            is_closed: false,
            slot: 0,
            next_repair: 0,
            ahead: 0,
            is_resolved: false,
            is_repair_due: false,
            rank: 0,
            acked: 0,
            losses_expected: 0.0,
            in_flight: [0; PATHS_MAX],
            dither: self.random.unit(),
        });
        self.blocks.len() - 1
    }

    /// The block has its final count: its first pass can be planned.
    fn close(&mut self, index: usize) {
        let delay = self.delay();
        let block = &mut self.blocks[index];
        if core::mem::replace(&mut block.is_closed, true) || block.is_done() {
            return;
        }
        // Its symbols may have gone out on several paths.
        let rate = LossRate::clamped(block.losses_expected / f64::from(block.count.max(1)));
        let plan = Plan {
            needed: block.count,
            process: LossProcess {
                rate,
                ..self.loss[block.slot]
            },
            delay,
        };
        block.ahead = self.config.redundancy.ahead(&plan, &mut self.random);
        self.judge(index);
        // It may have been complete but for its end, and no report is to come.
        self.pop_complete();
    }

    /// Closes the open block: no stream has anything to add to it.
    pub(crate) fn close_open_block(&mut self) {
        self.left = 0.0;
        if let Some(index) = self.blocks.len().checked_sub(1) {
            self.close(index);
        }
    }

    /// The oldest block that wants a packet.
    pub(crate) fn oldest_ready(&self) -> Option<u64> {
        self.ready.oldest(self.first_serial)
    }

    /// The oldest block after `serial` that wants a packet.
    pub(crate) fn next_ready(&self, serial: u64) -> Option<u64> {
        // The set is a ring: what it finds must not lie before where it began.
        let next = self.ready.oldest(serial + 1)?;
        self.index_of(next).map(|_| next)
    }

    /// The oldest block the receiver has not completed, for a probe.
    pub(crate) fn oldest_open(&self) -> Option<u64> {
        self.oldest_open_index().map(|index| self.serial_of(index))
    }

    fn oldest_open_index(&self) -> Option<usize> {
        self.blocks
            .iter()
            .position(|block| !block.is_done() && block.count > 0)
    }

    /// The oldest block that is closed and not complete, as schedulers see it.
    pub(crate) fn oldest_view(&self) -> Option<(u64, BlockView)> {
        let index = self.oldest_open_index()?;
        let block = &self.blocks[index];
        block
            .is_closed
            .then(|| (self.serial_of(index), self.view_of(block)))
    }

    /// Whether a coded packet of the block is no longer than `udp_payload_max`.
    pub(crate) fn fits(&self, serial: u64, udp_payload_max: usize) -> bool {
        let block = self.index_of(serial).map(|index| &self.blocks[index]);
        block.is_some_and(|block| block.symbol_len + CODED_OVERHEAD <= udp_payload_max)
    }

    fn view_of(&self, block: &Block) -> BlockView {
        // Where the report had no room, what was acknowledged must do.
        let dof = if block.first < self.reported_below {
            block.rank
        } else {
            block.rank.max(block.acked)
        };
        BlockView {
            dof_missing: u32::from(block.count.saturating_sub(dof)),
            arrivals_expected: (block.in_flight.iter().zip(&self.loss))
                .map(|(in_flight, loss)| f64::from(*in_flight) * arriving(loss.rate))
                .sum(),
        }
    }

    /// Appends a coded packet of the block. Returns `None` if there is no such
    /// block or it has used up its repair indices.
    pub(crate) fn write_coded(
        &mut self,
        serial: u64,
        slot: usize,
        out: &mut Vec<u8>,
    ) -> Option<Header> {
        let index = self.index_of(serial)?;
        if core::mem::take(&mut self.blocks[index].is_repair_due) {
            self.plan_repair(index);
        }
        let block = &mut self.blocks[index];
        let encoder = block.encoder.as_ref()?;
        let start = out.len();
        loop {
            let Ok(repair_index) = u16::try_from(block.next_repair) else {
                self.ready.set(serial, false);
                return None;
            };
            block.next_repair += 1;
            let repair = Repair::uniform(repair_index);
            let header = Header::Coded {
                first: block.first,
                count: block.count,
                is_final: block.is_closed,
                repair,
            };
            header.write(out);
            let payload = out.len();
            out.resize(payload + encoder.payload_len(block.count), 0);
            // Refused when all coefficients are zero: the next index, then.
            if encoder
                .encode(repair, block.count, &mut out[payload..])
                .is_ok()
            {
                block.in_flight[slot] = block.in_flight[slot].saturating_add(1);
                block.slot = slot;
                let is_answer = block.ahead == 0 && (block.is_resolved || block.acked > 0);
                self.coded_on_feedback += u64::from(is_answer);
                block.ahead = block.ahead.saturating_sub(1);
                self.judge(index);
                return Some(header);
            }
            out.truncate(start);
        }
    }

    /// What the block still lacks is sent like a block of so many symbols.
    fn plan_repair(&mut self, index: usize) {
        let block = &self.blocks[index];
        let missing = self.view_of(block).dof_missing;
        let plan = Plan {
            needed: missing as u8,
            process: self.loss[block.slot],
            delay: self.delay(),
        };
        let ahead = self.config.redundancy.ahead(&plan, &mut self.random);
        self.blocks[index].ahead = missing + ahead;
    }

    /// A packet of the block was acknowledged.
    pub(crate) fn on_acked(&mut self, serial: u64, slot: usize, was_aged: bool) {
        if let Some(index) = self.index_of(serial) {
            let block = &mut self.blocks[index];
            block.acked = block.acked.saturating_add(1);
            self.leave_flight(index, slot, was_aged);
        }
    }

    /// A packet of the block was lost, or is too old to be counted on.
    pub(crate) fn on_gone(&mut self, serial: u64, slot: usize, was_aged: bool) {
        if let Some(index) = self.index_of(serial) {
            self.leave_flight(index, slot, was_aged);
        }
    }

    fn leave_flight(&mut self, index: usize, slot: usize, was_aged: bool) {
        let in_flight = &mut self.blocks[index].in_flight[slot];
        if !was_aged {
            *in_flight = in_flight.saturating_sub(1);
        }
        self.judge(index);
    }

    /// The receiver's report: all symbols below `base` arrived, and for
    /// generations from there on it holds these degrees of freedom.
    pub(crate) fn on_report(&mut self, base: SymbolId, reports: ReportsView<'_>) {
        if base > self.next_symbol {
            return;
        }
        self.base = self.base.max(base);
        let (mut count, mut newest) = (0, SymbolId(0));
        for report in reports.iter() {
            count += 1;
            newest = report.first;
        }
        self.reported_below = if count < REPORTS_MAX {
            SymbolId(u64::MAX)
        } else {
            newest.next()
        };
        for report in reports.iter() {
            let index = self
                .blocks
                .partition_point(|block| block.first < report.first);
            let Some(block) = self.blocks.get_mut(index) else {
                break;
            };
            if block.first != report.first || block.is_done() {
                continue;
            }
            // Also if the rank is known: what the last report had no room for
            // may have been judged by its acknowledgements.
            block.rank = block.rank.max(report.rank);
            self.judge(index);
        }
        self.pop_complete();
        self.note_base();
        self.pop_complete();
    }

    /// Lets go of the oldest blocks as far as they are complete.
    fn pop_complete(&mut self) {
        while let Some(block) = self.blocks.front() {
            if !(block.end() <= self.base || block.is_done()) {
                break;
            }
            // An open block may grow on, so it stays until it is closed.
            if !block.is_closed && self.blocks.len() == 1 {
                break;
            }
            self.ready.set(self.first_serial, false);
            let block = self.blocks.pop_front().expect("the front was just seen");
            self.recycle(block.encoder);
            self.first_serial += 1;
        }
    }

    /// The block that `base` stands in: what lies below has arrived, and if the
    /// receiver has heard of nothing above, no report says so.
    fn note_base(&mut self) {
        if let Some(front) = self.blocks.front_mut()
            && front.first < self.base
            && !front.is_done()
        {
            let known = u8::try_from(self.base.0 - front.first.0).unwrap_or(u8::MAX);
            front.rank = front.rank.max(known);
            self.judge(0);
        }
    }

    fn recycle(&mut self, encoder: Option<Encoder>) {
        if let Some(encoder) = encoder
            && self.spare.len() < SPARE_ENCODERS
        {
            self.spare.push(encoder);
        }
    }

    /// Decides anew whether the block wants a packet.
    fn judge(&mut self, index: usize) {
        let serial = self.serial_of(index);
        let view = self.view_of(&self.blocks[index]);
        let delay = self.delay();
        let block = &mut self.blocks[index];
        if block.is_done() {
            self.ready.set(serial, false);
            return;
        }
        if block.is_closed && block.rank >= block.count {
            let encoder = block.encoder.take();
            self.recycle(encoder);
            self.ready.set(serial, false);
            return;
        }
        if block.is_closed && block.ahead == 0 && block.in_flight_total() == 0 {
            block.is_resolved = true;
            // Planned when it begins: the report may still be on its way in.
            block.is_repair_due = delay > 0.0 && self.config.redundancy.plans_repairs();
        }
        let wants = block.is_closed
            && ((block.ahead > 0 || block.is_repair_due) && view.dof_missing > 0
                || self.config.redundancy.calls_for_more(
                    &view,
                    arriving(self.loss[block.slot].rate),
                    block.is_resolved,
                    block.dither,
                ));
        self.ready.set(serial, wants);
    }

    /// Gives up every block whose symbols no path can carry any more. `lost`
    /// hears the symbols of each, `on_block` which they were.
    pub(crate) fn abandon_longer_than(
        &mut self,
        symbol_len_max: usize,
        mut lost: impl FnMut(&[u8]),
        mut on_block: impl FnMut(SymbolId, u8),
    ) {
        for index in 0..self.blocks.len() {
            let serial = self.serial_of(index);
            let block = &mut self.blocks[index];
            if block.symbol_len <= symbol_len_max || block.count == 0 {
                continue;
            }
            let Some(encoder) = block.encoder.take() else {
                continue;
            };
            block.is_closed = true;
            (0..block.count)
                .filter_map(|place| encoder.content(place))
                .for_each(&mut lost);
            on_block(block.first, block.count);
            self.recycle(Some(encoder));
            self.ready.set(serial, false);
        }
    }
}
