//! The sender's side: the newest symbols, and combinations of them.

use std::collections::VecDeque;

use ctcp_gf256::Kernel;
use ctcp_units::SymbolId;

use super::SLIDING_MAX;
use crate::generator::{NoRepair, Repair, coefficients};

/// Holds the newest symbols, at most [`SLIDING_MAX`], and makes repairs of them.
///
/// ```
/// use ctcp_rlnc::{SlidingDecoder, SlidingEncoder};
///
/// let mut encoder = SlidingEncoder::new(8);
/// encoder.push(b"arrives");
/// encoder.push(b"is lost");
/// let mut payload = Vec::new();
/// encoder.encode(0, 1, &mut payload)?;
///
/// let mut decoder = SlidingDecoder::new(64, 1400);
/// decoder.insert_symbol(0, b"arrives")?;
/// decoder.insert_repair(0, 2, 1, &payload)?;
/// assert_eq!(decoder.next_recovered(), Some((1, b"is lost".as_slice())));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SlidingEncoder {
    kernel: Kernel,
    window: usize,
    /// Number of the symbol that is pushed next.
    next: u64,
    /// `len ‖ content` each, the newest last.
    symbols: VecDeque<Vec<u8>>,
}

impl SlidingEncoder {
    /// One that holds `window` symbols, at least 1 and at most [`SLIDING_MAX`].
    #[must_use]
    pub fn new(window: usize) -> Self {
        Self {
            kernel: Kernel::active(),
            window: window.clamp(1, SLIDING_MAX),
            next: 0,
            symbols: VecDeque::new(),
        }
    }

    /// Takes the next symbol and returns its number. The oldest makes room for it.
    ///
    /// # Panics
    /// If `content` is longer than 65535 bytes.
    pub fn push(&mut self, content: &[u8]) -> u64 {
        let len = u16::try_from(content.len()).expect("a datagram is not longer");
        let mut symbol = match self.symbols.len() >= self.window {
            true => self.symbols.pop_front().unwrap_or_default(),
            false => Vec::new(),
        };
        symbol.clear();
        symbol.extend_from_slice(&len.to_be_bytes());
        symbol.extend_from_slice(content);
        self.symbols.push_back(symbol);
        self.next += 1;
        self.next - 1
    }

    /// Number of the oldest symbol held; that of the next one if none is.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.next - self.symbols.len() as u64
    }

    /// Number of the next symbol.
    #[must_use]
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Forgets all symbols below `number`, and their memory if none is left.
    pub fn forget_below(&mut self, number: u64) {
        let count = number.saturating_sub(self.first());
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        self.symbols.drain(..count.min(self.symbols.len()));
        if self.symbols.is_empty() {
            self.symbols = VecDeque::new();
        }
    }

    /// The symbols held, newest first: the number of each, and the bytes of the
    /// payload of a repair over all from it on, length prefix included.
    pub fn payload_lens(&self) -> impl Iterator<Item = (u64, usize)> {
        let numbers = (self.first()..self.next).rev();
        let mut longest = 0;
        numbers
            .zip(self.symbols.iter().rev())
            .map(move |(number, symbol)| {
                longest = longest.max(symbol.len());
                (number, longest)
            })
    }

    /// The symbols from number `first` on.
    pub(super) fn from(&self, first: u64) -> impl Iterator<Item = &Vec<u8>> {
        let skipped = first.saturating_sub(self.first());
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        self.symbols.iter().skip(skipped)
    }

    /// Appends the payload of repair `index` over all symbols from `first` on,
    /// which must be held.
    ///
    /// # Errors
    /// [`NoRepair`] if all coefficients are zero, which also those of no symbols
    /// are: take the next index.
    pub fn encode(&self, first: u64, index: u16, out: &mut Vec<u8>) -> Result<(), NoRepair> {
        let mut row = [0; SLIDING_MAX];
        let count = self.from(first).count();
        let row = &mut row[..count];
        coefficients(SymbolId(first), Repair::uniform(index), row)?;
        let start = out.len();
        let longest = self.from(first).map(Vec::len).max();
        out.resize(start + longest.unwrap_or(0), 0);
        for (coefficient, symbol) in row.iter().zip(self.from(first)) {
            let len = symbol.len();
            self.kernel
                .mul_add(&mut out[start..start + len], *coefficient, symbol);
        }
        Ok(())
    }
}
