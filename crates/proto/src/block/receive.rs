//! The receiver's generations: every symbol goes to its streams the moment it is
//! known, whether it came as it is or out of the decoder.
//!
//! `base` is the lowest symbol still missing. Generations from there on are kept
//! in order; a complete one keeps only its place until `base` has passed it.
//! Memory: symbols below `base + window` only, one decoder per incomplete
//! generation, decoders reused.

use std::collections::VecDeque;

use ctcp_rlnc::{Decoder, InsertError, Insertion as Innovation, Repair};
use ctcp_units::{Instant, SymbolId};
use thiserror::Error;

use super::waits::Waits;
use crate::wire::GenerationReport;

/// Decoders kept for the next generations.
const SPARE_DECODERS: usize = 32;

/// What became of a symbol or combination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Insertion {
    /// One more degree of freedom.
    Innovative,
    /// Known or dependent.
    Useless,
    /// Beyond the coding window: dropped.
    OutsideWindow,
}

impl From<Innovation> for Insertion {
    fn from(innovation: Innovation) -> Self {
        match innovation {
            Innovation::Innovative => Self::Innovative,
            Innovation::Dependent => Self::Useless,
        }
    }
}

/// The peer breaks the rules of the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BlockViolation {
    /// A generation reaches into another, or past its own final count.
    #[error("the generation at {0} does not fit the ones around it")]
    Overlap(SymbolId),
    /// The decoder refuses.
    #[error("the generation at {first}: {cause}")]
    Code {
        /// Its first symbol.
        first: SymbolId,
        /// Why.
        cause: InsertError,
    },
}

#[derive(Debug)]
struct Generation {
    first: SymbolId,
    /// Symbols known to exist.
    count: u8,
    /// `count` is final.
    is_final: bool,
    /// Gone once complete or abandoned.
    decoder: Option<Decoder>,
    rank: u8,
    /// When an arrival first showed that something is missing.
    missed_since: Option<Instant>,
}

impl Generation {
    fn end(&self) -> SymbolId {
        self.first.plus(self.count.into())
    }

    fn is_complete(&self) -> bool {
        self.is_final && self.rank >= self.count
    }

    /// An arrival shows that the first `sent` symbols have been sent.
    fn note_sent(&mut self, now: Instant, sent: u8) {
        let rank = self.decoder.as_ref().map_or(self.count, Decoder::rank);
        if rank < sent {
            self.missed_since.get_or_insert(now);
        }
    }
}

#[derive(Debug)]
pub(crate) struct BlockReceiver {
    base: SymbolId,
    window_symbols: u64,
    symbol_len_max: usize,
    generations: VecDeque<Generation>,
    spare: Vec<Decoder>,
    /// Symbols that only decoding brought.
    recovered: u64,
    waits: Waits,
}

impl BlockReceiver {
    pub(crate) fn new(window_symbols: u64, symbol_len_max: usize) -> Self {
        Self {
            base: SymbolId(0),
            window_symbols,
            symbol_len_max,
            generations: VecDeque::new(),
            spare: Vec::new(),
            recovered: 0,
            waits: Waits::default(),
        }
    }

    /// Lowest symbol still missing.
    pub(crate) const fn base(&self) -> SymbolId {
        self.base
    }

    /// First symbol not accepted yet; never moves back.
    pub(crate) fn window_end(&self) -> SymbolId {
        self.base.plus(self.window_symbols)
    }

    /// Symbols that only decoding brought.
    pub(crate) const fn recovered(&self) -> u64 {
        self.recovered
    }

    /// How long it waited for what was lost.
    pub(crate) const fn waits(&self) -> &Waits {
        &self.waits
    }

    /// Generations held, complete ones among them.
    pub(crate) fn len(&self) -> usize {
        self.generations.len()
    }

    /// What is held of each generation from `base` on, oldest first.
    pub(crate) fn reports(&self) -> impl Iterator<Item = GenerationReport> + '_ {
        self.generations
            .iter()
            .filter(|generation| generation.rank > 0 && generation.end() > self.base)
            .map(|generation| GenerationReport {
                first: generation.first,
                rank: generation.rank,
            })
    }

    /// A source symbol as it is. `deliver` gets its content if it is news, and
    /// that of every symbol it makes known.
    pub(crate) fn on_systematic(
        &mut self,
        now: Instant,
        symbol: SymbolId,
        index: u8,
        is_last: bool,
        content: &[u8],
        mut deliver: impl FnMut(&[u8]),
    ) -> Result<Insertion, BlockViolation> {
        if symbol >= self.window_end() {
            return Ok(Insertion::OutsideWindow);
        }
        if symbol < self.base {
            return Ok(Insertion::Useless);
        }
        let first = SymbolId(symbol.0 - u64::from(index));
        let Some(place) = self.place(first, index + 1, is_last)? else {
            return Ok(Insertion::Useless);
        };
        let generation = &mut self.generations[place];
        let Some(decoder) = generation.decoder.as_mut() else {
            return Ok(Insertion::Useless);
        };
        let inserted = decoder
            .insert_systematic(index, content)
            .map_err(|cause| BlockViolation::Code { first, cause })?;
        if inserted.is_innovative() {
            deliver(content);
        }
        generation.note_sent(now, index + 1);
        self.waits.note_sent(symbol.next());
        self.settle(now, place, deliver);
        Ok(inserted.into())
    }

    /// A combination of the first `count` symbols of the generation at `first`.
    #[expect(
        clippy::too_many_arguments,
        reason = "the fields of the packet, as they come"
    )]
    pub(crate) fn on_coded(
        &mut self,
        now: Instant,
        first: SymbolId,
        count: u8,
        is_final: bool,
        repair: Repair,
        payload: &[u8],
        deliver: impl FnMut(&[u8]),
    ) -> Result<Insertion, BlockViolation> {
        let end = first.plus(count.into());
        if end > self.window_end() {
            return Ok(Insertion::OutsideWindow);
        }
        if end <= self.base && !is_final {
            return Ok(Insertion::Useless);
        }
        let Some(place) = self.place(first, count, is_final)? else {
            return Ok(Insertion::Useless);
        };
        let generation = &mut self.generations[place];
        let Some(decoder) = generation.decoder.as_mut() else {
            return Ok(Insertion::Useless);
        };
        let inserted = decoder
            .insert_coded(repair, count, payload)
            .map_err(|cause| BlockViolation::Code { first, cause })?;
        generation.note_sent(now, count);
        self.waits.note_sent(end);
        self.settle(now, place, deliver);
        Ok(inserted.into())
    }

    /// The sender gave these symbols up.
    pub(crate) fn on_abandon(&mut self, first: SymbolId, count: u8) -> Result<(), BlockViolation> {
        if count == 0 || first.plus(count.into()) > self.window_end() {
            return Err(BlockViolation::Overlap(first));
        }
        if let Some(place) = self.place(first, count, true)? {
            let generation = &mut self.generations[place];
            generation.rank = generation.count;
            let decoder = generation.decoder.take();
            self.recycle(decoder);
            self.advance();
            self.waits.on_abandoned();
        }
        Ok(())
    }

    /// Finds or makes the generation at `first`, which has at least `count`
    /// symbols. `None`: it is behind us.
    fn place(
        &mut self,
        first: SymbolId,
        count: u8,
        is_final: bool,
    ) -> Result<Option<usize>, BlockViolation> {
        let place = match self.generations.back() {
            Some(newest) if newest.first == first => self.generations.len() - 1,
            Some(newest) if newest.first < first => self.generations.len(),
            _ => self
                .generations
                .partition_point(|generation| generation.first < first),
        };
        let overlap = Err(BlockViolation::Overlap(first));
        let end = first.plus(count.into());
        let is_known = self
            .generations
            .get(place)
            .is_some_and(|generation| generation.first == first);
        let next = self.generations.get(place + usize::from(is_known));
        if next.is_some_and(|next| next.first < end) {
            return overlap;
        }
        let is_next_adjacent = next.is_some_and(|next| next.first == end);
        if !is_known {
            if first < self.base {
                return Ok(None);
            }
            if let Some(previous) = place.checked_sub(1) {
                let previous = &mut self.generations[previous];
                if previous.end() > first {
                    return overlap;
                }
                previous.is_final |= previous.end() == first;
            }
            let decoder = match self.spare.pop() {
                Some(mut decoder) => {
                    decoder.reset(first, self.symbol_len_max);
                    decoder
                }
                None => Decoder::new(first, self.symbol_len_max),
            };
            self.generations.insert(
                place,
                Generation {
                    first,
                    count,
                    is_final: is_final || is_next_adjacent,
                    decoder: Some(decoder),
                    rank: 0,
                    missed_since: None,
                },
            );
            return Ok(Some(place));
        }
        let generation = &mut self.generations[place];
        if generation.is_final && count > generation.count || is_final && count < generation.count {
            return overlap;
        }
        generation.count = generation.count.max(count);
        generation.is_final |= is_final || is_next_adjacent && end == generation.end();
        Ok(Some(place))
    }

    /// Delivers what decoding made known and moves on past what is complete.
    fn settle(&mut self, now: Instant, place: usize, mut deliver: impl FnMut(&[u8])) {
        let base = self.base;
        let generation = &mut self.generations[place];
        if let Some(decoder) = generation.decoder.as_mut() {
            generation.rank = decoder.rank();
            while let Some(index) = decoder.next_recovered() {
                self.recovered += 1;
                let missed_since = generation.missed_since.unwrap_or(now);
                self.waits.on_recovered(now - missed_since);
                deliver(decoder.content(index).expect("what was recovered is known"));
            }
        }
        if generation.is_complete() {
            let decoder = generation.decoder.take();
            self.recycle(decoder);
        }
        self.advance();
        self.waits.on_base(now, base, self.base);
    }

    fn recycle(&mut self, decoder: Option<Decoder>) {
        if let Some(decoder) = decoder
            && self.spare.len() < SPARE_DECODERS
        {
            self.spare.push(decoder);
        }
    }

    /// Moves `base` over every symbol that is known.
    fn advance(&mut self) {
        while let Some(front) = self.generations.front_mut() {
            if front.first > self.base {
                break;
            }
            match &front.decoder {
                None => self.base = self.base.max(front.end()),
                Some(decoder) => {
                    while self.base < front.end()
                        && decoder.is_known((self.base.0 - front.first.0) as u8)
                    {
                        self.base = self.base.next();
                    }
                }
            }
            if self.base < front.end() || !front.is_final {
                break;
            }
            let decoder = front.decoder.take();
            self.generations.pop_front();
            self.recycle(decoder);
        }
    }
}
