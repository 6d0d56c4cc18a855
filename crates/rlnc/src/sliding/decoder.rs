//! The receiver's side: symbols and repairs in any order, lost symbols out.
//!
//! Each repair kept is a row: coefficients of unknown symbols alone, and a payload
//! from which the known ones have been subtracted. Rows are in reduced echelon form:
//! each has a pivot, an unknown symbol that no other row mentions. So a row that
//! mentions nothing else *is* its pivot's symbol, and none of the others changes
//! when it goes.
//!
//! Known symbols and rows are of different numbers of the window, so there are
//! never more than `window` buffers. One insertion costs at most a pass over them:
//! O(window), whatever came before.

use std::collections::VecDeque;

use ctcp_gf256::{Kernel, inv};
use ctcp_units::SymbolId;
use thiserror::Error;

use super::SLIDING_MAX;
use crate::decoder::Insertion;
use crate::generator::{NoRepair, Repair, coefficients};
use crate::{LEN_PREFIX_BYTES, SYMBOL_LEN_MAX};

/// Why a symbol or a repair was not taken: no honest peer sends it. The decoder is
/// as it was before, except after `BadSymbol`, when the rows at fault are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SlidingError {
    /// A repair that covers no symbol, or more than the window holds.
    #[error("a repair covers {count} symbols; 1 to {window} can be")]
    Count {
        /// Symbols covered.
        count: usize,
        /// The most that can be.
        window: usize,
    },
    /// The name stands for no repair.
    #[error(transparent)]
    NoRepair(#[from] NoRepair),
    /// Content or payload is longer than a symbol.
    #[error("{len} bytes do not fit a symbol of {len_max}")]
    TooLong {
        /// Bytes given, a length prefix included.
        len: usize,
        /// The most that fits.
        len_max: usize,
    },
    /// What was recovered is no symbol: the peer's repairs contradict its symbols.
    #[error("recovered symbol {number} is malformed: repairs and symbols contradict each other")]
    BadSymbol {
        /// Its number.
        number: u64,
    },
}

/// One repair, as far as it is not known yet.
#[derive(Debug)]
struct Row {
    pivot: u64,
    /// Of unknown symbols, each in its cell.
    cells: [u8; SLIDING_MAX],
    payload: Vec<u8>,
}

/// Recovers lost symbols of a window that slides along.
///
/// Only what lies in the window, `window` numbers up to the highest one seen, is
/// remembered; whoever knows that symbols have become too old says so earlier, by
/// [`SlidingDecoder::forget_below`].
#[derive(Debug)]
pub struct SlidingDecoder {
    kernel: Kernel,
    window: u64,
    symbol_len: usize,
    /// The lowest number in the window.
    base: u64,
    /// `len ‖ content` of the symbols from `base` on that are known.
    symbols: VecDeque<Option<Vec<u8>>>,
    rows: Vec<Row>,
    /// Known by recovery and not yet told.
    recovered: VecDeque<u64>,
}

fn cell(number: u64) -> usize {
    (number % SLIDING_MAX as u64) as usize
}

/// `dst` += `coefficient` · `src`; `dst` grows if it must.
fn add(kernel: Kernel, dst: &mut Vec<u8>, coefficient: u8, src: &[u8]) {
    if dst.len() < src.len() {
        dst.resize(src.len(), 0);
    }
    kernel.mul_add(&mut dst[..src.len()], coefficient, src);
}

impl Row {
    /// Subtracts the multiple of `other` that leaves nothing of its pivot.
    fn reduce(&mut self, kernel: Kernel, other: &Self) {
        let multiple = self.cells[cell(other.pivot)];
        if multiple != 0 {
            kernel.mul_add(&mut self.cells, multiple, &other.cells);
            add(kernel, &mut self.payload, multiple, &other.payload);
        }
    }

    /// The symbol that the payload is, if it is one: without the zeros behind it.
    fn into_symbol(mut self) -> Option<Vec<u8>> {
        let prefix = self.payload.first_chunk::<LEN_PREFIX_BYTES>()?;
        let end = LEN_PREFIX_BYTES + usize::from(u16::from_be_bytes(*prefix));
        let zeros = self.payload.get(end..)?;
        if zeros.iter().any(|&byte| byte != 0) {
            return None;
        }
        self.payload.truncate(end);
        Some(self.payload)
    }
}

impl SlidingDecoder {
    /// One that remembers `window` numbers, at least 1 and at most [`SLIDING_MAX`],
    /// of symbols of at most `symbol_len` bytes, length prefix included.
    #[must_use]
    pub fn new(window: usize, symbol_len: usize) -> Self {
        Self {
            kernel: Kernel::active(),
            window: window.clamp(1, SLIDING_MAX) as u64,
            symbol_len: symbol_len.min(SYMBOL_LEN_MAX),
            base: 0,
            symbols: VecDeque::new(),
            rows: Vec::new(),
            recovered: VecDeque::new(),
        }
    }

    /// The lowest number that is remembered.
    #[must_use]
    pub const fn base(&self) -> u64 {
        self.base
    }

    /// Buffers held, of symbols and of repairs: never more than the window's width.
    #[must_use]
    pub fn buffers(&self) -> usize {
        self.symbols.iter().flatten().count() + self.rows.len()
    }

    /// Whether symbol `number` is in the window and known.
    #[must_use]
    pub fn is_known(&self, number: u64) -> bool {
        self.known(number).is_some()
    }

    fn known(&self, number: u64) -> Option<&Vec<u8>> {
        let index = usize::try_from(number.checked_sub(self.base)?).ok()?;
        self.symbols.get(index)?.as_ref()
    }

    /// Takes a symbol that arrived as it is. One below the window brings nothing.
    ///
    /// # Errors
    /// [`SlidingError`] if no honest peer sends it.
    pub fn insert_symbol(
        &mut self,
        number: u64,
        content: &[u8],
    ) -> Result<Insertion, SlidingError> {
        self.check_len(LEN_PREFIX_BYTES + content.len())?;
        self.reach(number);
        if number < self.base || self.is_known(number) {
            return Ok(Insertion::Dependent);
        }
        let mut symbol = Vec::with_capacity(LEN_PREFIX_BYTES + content.len());
        // `check_len` leaves no longer ones.
        symbol.extend_from_slice(&(content.len() as u16).to_be_bytes());
        symbol.extend_from_slice(content);
        self.reveal(number, &symbol);
        self.store(number, symbol);
        self.recover()?;
        Ok(Insertion::Innovative)
    }

    /// Takes repair `index` over `count` symbols from `first` on. One that covers
    /// symbols below the window, or known ones alone, brings nothing.
    ///
    /// # Errors
    /// [`SlidingError`] if no honest peer sends it.
    pub fn insert_repair(
        &mut self,
        first: u64,
        count: usize,
        index: u16,
        payload: &[u8],
    ) -> Result<Insertion, SlidingError> {
        if count == 0 || count as u64 > self.window {
            let window = self.window as usize;
            return Err(SlidingError::Count { count, window });
        }
        self.check_len(payload.len())?;
        let mut coefficient = [0; SLIDING_MAX];
        let coefficient = &mut coefficient[..count];
        coefficients(SymbolId(first), Repair::uniform(index), coefficient)?;
        let last = first.saturating_add(count as u64 - 1);
        self.reach(last);
        if first < self.base {
            return Ok(Insertion::Dependent);
        }
        let covered = (first..=last).zip(coefficient.iter());
        if covered.clone().all(|(number, _)| self.is_known(number)) {
            return Ok(Insertion::Dependent);
        }
        let mut row = Row {
            pivot: 0,
            cells: [0; SLIDING_MAX],
            payload: payload.to_vec(),
        };
        for (number, &coefficient) in covered {
            match self.known(number) {
                Some(symbol) => add(self.kernel, &mut row.payload, coefficient, symbol),
                None => row.cells[cell(number)] = coefficient,
            }
        }
        for other in &self.rows {
            row.reduce(self.kernel, other);
        }
        let Some(pivot) = self.unknown_in(&row) else {
            return Ok(Insertion::Dependent);
        };
        self.rows.push(row);
        self.make_pivot(self.rows.len() - 1, pivot);
        self.recover()?;
        Ok(Insertion::Innovative)
    }

    /// The lowest recovered symbol that has not been told by this function, its
    /// number and content. To be asked after each insertion until there is none.
    pub fn next_recovered(&mut self) -> Option<(u64, &[u8])> {
        while let Some(number) = self.recovered.pop_front() {
            if self.is_known(number) {
                let symbol = self.known(number)?;
                let len = usize::from(u16::from_be_bytes([symbol[0], symbol[1]]));
                return Some((number, &symbol[LEN_PREFIX_BYTES..LEN_PREFIX_BYTES + len]));
            }
        }
        None
    }

    /// Forgets all symbols below `number`: what is unknown of them stays so.
    pub fn forget_below(&mut self, number: u64) {
        if number <= self.base {
            return;
        }
        if number - self.base >= self.window {
            self.symbols = VecDeque::new();
            self.rows = Vec::new();
        }
        while self.base < number && !(self.symbols.is_empty() && self.rows.is_empty()) {
            if self.symbols.pop_front().flatten().is_none() {
                self.give_up(self.base);
            }
            self.base += 1;
        }
        self.base = number;
        self.recovered.retain(|&recovered| recovered >= number);
    }

    fn check_len(&self, len: usize) -> Result<(), SlidingError> {
        let len_max = self.symbol_len;
        match len <= len_max {
            true => Ok(()),
            false => Err(SlidingError::TooLong { len, len_max }),
        }
    }

    /// Moves the window on so that `number` lies in it or below.
    fn reach(&mut self, number: u64) {
        self.forget_below((number.saturating_add(1)).saturating_sub(self.window));
    }

    fn store(&mut self, number: u64, symbol: Vec<u8>) {
        let index = (number - self.base) as usize;
        if self.symbols.len() <= index {
            self.symbols.resize_with(index + 1, || None);
        }
        self.symbols[index] = Some(symbol);
    }

    /// The lowest number that a row mentions.
    fn unknown_in(&self, row: &Row) -> Option<u64> {
        let mut window = self.base..self.base.saturating_add(self.window);
        window.find(|&number| row.cells[cell(number)] != 0)
    }

    /// Makes `pivot`, which it mentions, the pivot of row `at`: 1 there, and 0 in all
    /// other rows.
    fn make_pivot(&mut self, at: usize, pivot: u64) {
        let (before, rest) = self.rows.split_at_mut(at);
        let (row, after) = rest.split_first_mut().expect("the row is there");
        let inverse = inv(row.cells[cell(pivot)]).expect("a row mentions its pivot");
        self.kernel.mul(&mut row.cells, inverse);
        self.kernel.mul(&mut row.payload, inverse);
        row.pivot = pivot;
        for other in before.iter_mut().chain(after) {
            other.reduce(self.kernel, row);
        }
    }

    /// Symbol `number` has become known by other means: no row mentions it any more.
    fn reveal(&mut self, number: u64, symbol: &[u8]) {
        let mut orphan = None;
        for (at, row) in self.rows.iter_mut().enumerate() {
            let coefficient = core::mem::take(&mut row.cells[cell(number)]);
            if coefficient != 0 {
                add(self.kernel, &mut row.payload, coefficient, symbol);
            }
            if row.pivot == number {
                orphan = Some(at);
            }
        }
        let Some(at) = orphan else {
            return;
        };
        match self.unknown_in(&self.rows[at]) {
            Some(pivot) => self.make_pivot(at, pivot),
            None => drop(self.rows.swap_remove(at)),
        }
    }

    /// Symbol `number` will never be known. It costs at most one row: what the
    /// others say is put so that they do not need it.
    fn give_up(&mut self, number: u64) {
        let Some(at) = self
            .rows
            .iter()
            .position(|row| row.cells[cell(number)] != 0)
        else {
            return;
        };
        self.make_pivot(at, number);
        self.rows.swap_remove(at);
    }

    /// Turns rows that mention only their pivots into symbols.
    fn recover(&mut self) -> Result<(), SlidingError> {
        let mut bad = None;
        let mut at = 0;
        while at < self.rows.len() {
            if self.rows[at].cells.iter().filter(|&&c| c != 0).count() > 1 {
                at += 1;
                continue;
            }
            let row = self.rows.swap_remove(at);
            let number = row.pivot;
            let Some(symbol) = row.into_symbol() else {
                bad = Some(number);
                continue;
            };
            self.store(number, symbol);
            self.recovered.push_back(number);
        }
        self.recovered.make_contiguous().sort_unstable();
        match bad {
            Some(number) => Err(SlidingError::BadSymbol { number }),
            None => Ok(()),
        }
    }
}
