//! The receiver's side: packets of one generation in, symbols out.
//!
//! `rows` eliminates coefficients as packets arrive; here are the bytes. Those
//! of a coded packet are kept as they came. When symbols become determined, each
//! is one linear combination of known symbols and kept payloads, computed in one
//! pass for up to four of them. So m lost symbols of N cost an m × m
//! elimination and m combinations, whatever arrived in between.

use ctcp_gf256::{DESTINATIONS_MAX, Kernel, Term};
use ctcp_units::SymbolId;
use thiserror::Error;

use crate::generator::{NoRepair, Repair, coefficients};
use crate::index_set::IndexSet;
use crate::rows::{Row, Rows};
use crate::slot::{Pool, Slot};
use crate::sum::sum_into;
use crate::{COUNT_MAX, LEN_PREFIX_BYTES, SYMBOL_LEN_MAX};

/// Recovers the symbols of one generation from any sufficient set of packets.
///
/// Every insertion tells whether the packet was innovative. Symbols that a
/// coded packet determined are then waiting at [`Decoder::next_recovered`];
/// symbols that arrived as they are do not pass there.
///
/// The number of symbols need not be known: it grows with the packets, and
/// whoever learns the final count asks [`Decoder::missing`] and
/// [`Decoder::is_complete`] with it.
///
/// Memory: at most one buffer of `symbol_len` for each symbol known and one for
/// each coded packet kept, and never more of both together than the rank. They
/// are kept for reuse by [`Decoder::reset`], after which nothing is allocated
/// for a generation no larger than those before.
///
/// ```
/// use ctcp_rlnc::{Decoder, Encoder, Insertion, Repair};
/// use ctcp_units::SymbolId;
///
/// let mut encoder = Encoder::new(SymbolId(0), 1400);
/// encoder.push(b"arrives")?;
/// encoder.push(b"is lost")?;
/// let mut payload = [0; 1400];
/// let len = encoder.encode(Repair::uniform(0), 2, &mut payload)?;
///
/// let mut decoder = Decoder::new(SymbolId(0), 1400);
/// decoder.insert_systematic(0, b"arrives")?;
/// let insertion = decoder.insert_coded(Repair::uniform(0), 2, &payload[..len])?;
/// assert_eq!(insertion, Insertion::Innovative);
/// assert_eq!(decoder.next_recovered(), Some(1));
/// assert_eq!(decoder.content(1), Some(b"is lost".as_slice()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    first: SymbolId,
    kernel: Kernel,
    pool: Pool,
    /// The symbols in `known`, each at its index.
    symbols: Vec<Option<Slot>>,
    known: IndexSet,
    /// Known by recovery and not yet told.
    recovered: IndexSet,
    rows: Rows,
    /// The payloads that the rows refer to by number.
    payloads: Vec<Slot>,
    count_seen: u8,
    bad_symbol: Option<u8>,
}

/// What a packet was worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Insertion {
    /// It raised the rank by one.
    Innovative,
    /// All it says was known: a duplicate, late, or linearly dependent.
    Dependent,
}

impl Insertion {
    /// Whether the packet raised the rank.
    #[must_use]
    pub const fn is_innovative(self) -> bool {
        matches!(self, Self::Innovative)
    }
}

/// Why a packet was not taken: no honest peer sends it.
///
/// The decoder is as it was before, except after `BadSymbol`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InsertError {
    /// The index of a systematic packet is 255; the largest is 254.
    #[error("symbol index {index} is beyond a generation of {COUNT_MAX}")]
    IndexOutOfRange {
        /// The index.
        index: u8,
    },
    /// A coded packet covers no symbol.
    #[error("a coded packet covers no symbol")]
    CoversNothing,
    /// The name stands for no coded packet.
    #[error(transparent)]
    NoRepair(#[from] NoRepair),
    /// Content or payload is longer than the generation's symbols.
    #[error("{len} bytes do not fit: {len_max} do")]
    TooLong {
        /// Bytes of content or payload.
        len: usize,
        /// The most that fits.
        len_max: usize,
    },
    /// A coded payload is shorter than a length, or than a known symbol that it
    /// covers.
    #[error("a coded payload of {len} bytes is too short: what it covers has {needed}")]
    TooShort {
        /// Bytes of payload.
        len: usize,
        /// The least that is possible.
        needed: usize,
    },
    /// A recovered symbol's length exceeds its room, or what lies behind its
    /// content is not zero. The packets contradict one another; nothing more is
    /// taken for this generation, and all later insertions say the same.
    #[error(
        "recovered symbol {index} is malformed: the generation's packets contradict each other"
    )]
    BadSymbol {
        /// The symbol's index.
        index: u8,
    },
}

impl Decoder {
    /// A decoder for the generation that starts at `first`, of symbols of at
    /// most `symbol_len` bytes, length prefix included.
    #[must_use]
    pub fn new(first: SymbolId, symbol_len: usize) -> Self {
        Self::with_kernel(first, symbol_len, Kernel::active())
    }

    /// The same, computing with a certain kernel.
    #[must_use]
    pub fn with_kernel(first: SymbolId, symbol_len: usize, kernel: Kernel) -> Self {
        Self {
            first,
            kernel,
            pool: Pool::new(symbol_len.min(SYMBOL_LEN_MAX)),
            symbols: Vec::new(),
            known: IndexSet::default(),
            recovered: IndexSet::default(),
            rows: Rows::new(kernel),
            payloads: Vec::new(),
            count_seen: 0,
            bad_symbol: None,
        }
    }

    /// Forgets everything and starts the generation at `first`. Memory is kept
    /// for it.
    pub fn reset(&mut self, first: SymbolId, symbol_len: usize) {
        self.first = first;
        self.pool.set_symbol_len(symbol_len.min(SYMBOL_LEN_MAX));
        for slot in self.symbols.drain(..).flatten() {
            self.pool.give(slot);
        }
        self.drop_rows();
        self.known = IndexSet::default();
        self.recovered = IndexSet::default();
        self.count_seen = 0;
        self.bad_symbol = None;
    }

    /// The id of symbol 0.
    #[must_use]
    pub const fn first(&self) -> SymbolId {
        self.first
    }

    /// Most bytes of a symbol, length prefix included.
    #[must_use]
    pub const fn symbol_len(&self) -> usize {
        self.pool.symbol_len()
    }

    /// Degrees of freedom received: symbols known, and innovative coded packets
    /// that have not become symbols yet.
    #[must_use]
    pub fn rank(&self) -> u8 {
        u8::try_from(self.known.count() + self.rows.len())
            .expect("rank is at most the number of columns, 255")
    }

    /// The smallest count that all packets so far agree with: one past the last
    /// symbol received or covered.
    #[must_use]
    pub const fn count_seen(&self) -> u8 {
        self.count_seen
    }

    /// Degrees of freedom that a generation of `count` symbols still lacks,
    /// where `count` is at least [`Decoder::count_seen`].
    #[must_use]
    pub fn missing(&self, count: u8) -> u8 {
        count.saturating_sub(self.rank())
    }

    /// Whether the first `count` symbols are known.
    #[must_use]
    pub fn is_complete(&self, count: u8) -> bool {
        IndexSet::below(count.into())
            .without(&self.known)
            .is_empty()
    }

    /// Whether symbol `index` is known.
    #[must_use]
    pub const fn is_known(&self, index: u8) -> bool {
        self.known.contains(index)
    }

    /// The content of symbol `index` if it is known.
    #[must_use]
    pub fn content(&self, index: u8) -> Option<&[u8]> {
        if !self.is_known(index) {
            return None;
        }
        let slot = self.symbols.get(usize::from(index))?;
        slot.as_ref().map(Slot::content)
    }

    /// The smallest index among the symbols that were recovered from coded
    /// packets and have not been told by this function.
    pub fn next_recovered(&mut self) -> Option<u8> {
        let index = self.recovered.first()?;
        self.recovered.remove(index);
        Some(index)
    }

    /// Takes a symbol that arrived as it is.
    ///
    /// # Errors
    /// [`InsertError`] if no honest peer sends it.
    pub fn insert_systematic(
        &mut self,
        index: u8,
        content: &[u8],
    ) -> Result<Insertion, InsertError> {
        self.check_good()?;
        if index == COUNT_MAX {
            return Err(InsertError::IndexOutOfRange { index });
        }
        let len = content.len();
        if len.saturating_add(LEN_PREFIX_BYTES) > self.symbol_len() {
            let len_max = self.symbol_len().saturating_sub(LEN_PREFIX_BYTES);
            return Err(InsertError::TooLong { len, len_max });
        }
        self.count_seen = self.count_seen.max(index + 1);
        if self.is_known(index) {
            return Ok(Insertion::Dependent);
        }
        let mut slot = self.pool.take();
        slot.put_symbol(content);
        self.place(index, slot);
        self.known.insert(index);
        if self.rows.len() > 0 {
            self.rows.reveal(index, &self.known);
            self.recover()?;
        }
        Ok(Insertion::Innovative)
    }

    /// Takes the coded packet `repair` over the first `count` symbols.
    ///
    /// # Errors
    /// [`InsertError`] if no honest peer sends it.
    pub fn insert_coded(
        &mut self,
        repair: Repair,
        count: u8,
        payload: &[u8],
    ) -> Result<Insertion, InsertError> {
        self.check_payload(count, payload)?;
        if self.is_complete(count) {
            return Ok(Insertion::Dependent);
        }
        let mut row = [0; COUNT_MAX as usize];
        let row = &mut row[..usize::from(count)];
        coefficients(self.first, repair, row)?;
        self.insert_row(row, payload)
    }

    /// Takes a combination with any coefficients: `coefficients[j]` multiplies
    /// symbol j of the generation. For relays that re-code, and for tests.
    ///
    /// # Errors
    /// [`InsertError`] as for [`Decoder::insert_coded`]; more than 255
    /// coefficients are too long.
    pub fn insert_combination(
        &mut self,
        coefficients: &[u8],
        payload: &[u8],
    ) -> Result<Insertion, InsertError> {
        let Ok(count) = u8::try_from(coefficients.len()) else {
            return Err(InsertError::TooLong {
                len: coefficients.len(),
                len_max: COUNT_MAX.into(),
            });
        };
        self.check_payload(count, payload)?;
        self.insert_row(coefficients, payload)
    }

    fn check_good(&self) -> Result<(), InsertError> {
        match self.bad_symbol {
            Some(index) => Err(InsertError::BadSymbol { index }),
            None => Ok(()),
        }
    }

    fn check_payload(&self, count: u8, payload: &[u8]) -> Result<(), InsertError> {
        self.check_good()?;
        if count == 0 {
            return Err(InsertError::CoversNothing);
        }
        let (len, len_max) = (payload.len(), self.symbol_len());
        if len > len_max {
            return Err(InsertError::TooLong { len, len_max });
        }
        let covered = self.symbols.iter().take(count.into()).flatten();
        let needed = covered.map(Slot::len).fold(LEN_PREFIX_BYTES, usize::max);
        if len < needed {
            return Err(InsertError::TooShort { len, needed });
        }
        Ok(())
    }

    fn insert_row(&mut self, row: &[u8], payload: &[u8]) -> Result<Insertion, InsertError> {
        let count = u8::try_from(row.len()).expect("the callers' counts are u8");
        self.count_seen = self.count_seen.max(count);
        if !self.rows.insert(row, &self.known) {
            return Ok(Insertion::Dependent);
        }
        let mut slot = self.pool.take();
        slot.put_payload(payload);
        self.payloads.push(slot);
        self.recover()?;
        Ok(Insertion::Innovative)
    }

    fn place(&mut self, index: u8, slot: Slot) {
        let index = usize::from(index);
        if self.symbols.len() <= index {
            self.symbols.resize_with(index + 1, || None);
        }
        self.symbols[index] = Some(slot);
    }

    /// Computes all symbols that have become determined and drops their rows.
    fn recover(&mut self) -> Result<(), InsertError> {
        let determined = self.rows.determined(&self.known);
        if determined.is_empty() {
            return Ok(());
        }
        let mut group = [0; DESTINATIONS_MAX];
        let mut group_len = 0;
        let mut left = determined.count();
        let mut new = IndexSet::default();
        for row in determined.iter() {
            new.insert(self.rows.get(row.into()).pivot());
            group[group_len] = row;
            group_len += 1;
            left -= 1;
            if group_len < DESTINATIONS_MAX && left > 0 {
                continue;
            }
            match group_len {
                1 => self.recover_group::<1>(&group)?,
                2 => self.recover_group::<2>(&group)?,
                3 => self.recover_group::<3>(&group)?,
                _ => self.recover_group::<4>(&group)?,
            }
            group_len = 0;
        }
        for index in new.iter() {
            self.known.insert(index);
            self.recovered.insert(index);
        }
        self.retire(determined);
        Ok(())
    }

    /// Drops the rows whose symbols are known, and as many payloads.
    fn retire(&mut self, determined: IndexSet) {
        if determined.count() == self.rows.len() {
            self.drop_rows();
            return;
        }
        let mut numbers = [0; COUNT_MAX as usize];
        let numbers = &mut numbers[..determined.count()];
        for (number, row) in numbers.iter_mut().zip(determined.iter()) {
            *number = row;
        }
        // From the last: the row that fills a gap is then none of these.
        for &row in numbers.iter().rev() {
            let payload = self.rows.retire(row.into());
            self.pool.give(self.payloads.swap_remove(payload));
        }
    }

    fn drop_rows(&mut self) {
        self.rows.clear();
        for slot in self.payloads.drain(..) {
            self.pool.give(slot);
        }
    }

    /// Computes the symbols that the first R of `rows` tell.
    fn recover_group<const R: usize>(
        &mut self,
        rows: &[u8; DESTINATIONS_MAX],
    ) -> Result<(), InsertError> {
        let mut slots: [Slot; R] = core::array::from_fn(|_| self.pool.take());
        let rows: [&Row; R] = core::array::from_fn(|r| self.rows.get(rows[r].into()));
        let indices = rows.map(Row::pivot);

        // Every symbol is covered by a payload, which is no shorter than it.
        let len = self.payloads.iter().map(Slot::len).max();
        let len = len.expect("a row belongs to a payload");
        let known = IndexSet::below(self.rows.width()).and(&self.known);
        let symbols = known.iter().map(|index| Term {
            coefficients: rows.map(|row| row.column(index)),
            bytes: self.symbols[usize::from(index)]
                .as_ref()
                .expect("known symbols are in place")
                .padded(len),
        });
        let payloads = (0..).zip(&self.payloads).map(|(k, payload)| Term {
            coefficients: rows.map(|row| row.raw(k)),
            bytes: payload.padded(len),
        });
        let terms = symbols
            .chain(payloads)
            .filter(|term| term.coefficients != [0; R]);
        let dsts = slots.each_mut().map(|slot| slot.bytes_mut(len));
        sum_into(self.kernel, dsts, terms);

        for (index, mut slot) in indices.into_iter().zip(slots) {
            let Some(content_len) = content_len_of(slot.padded(len)) else {
                self.bad_symbol = Some(index);
                return Err(InsertError::BadSymbol { index });
            };
            slot.finish_symbol(content_len);
            self.place(index, slot);
        }
        Ok(())
    }
}

/// Bytes of content in the recovered `len ‖ content ‖ zeros`; `None` if the
/// length exceeds its room or what follows is not zero.
fn content_len_of(symbol: &[u8]) -> Option<usize> {
    let (prefix, room) = symbol.split_first_chunk()?;
    let content_len = usize::from(u16::from_be_bytes(*prefix));
    let padding = room.get(content_len..)?;
    padding.iter().all(|&byte| byte == 0).then_some(content_len)
}

#[cfg(test)]
#[path = "decoder_tests.rs"]
mod tests;
