//! The sender's side: the symbols of one generation, and combinations of them.

use ctcp_gf256::{DESTINATIONS_MAX, Kernel, Term};
use ctcp_units::SymbolId;
use thiserror::Error;

use crate::generator::{NoRepair, Repair, coefficients};
use crate::slot::{Pool, Slot};
use crate::sum::sum_into;
use crate::{COUNT_MAX, LEN_PREFIX_BYTES, SYMBOL_LEN_MAX};

/// The coefficients of one coded packet.
type Coefficients = [u8; COUNT_MAX as usize];

/// Holds the source symbols of one generation and makes coded packets of them.
///
/// An encoder is reused for generation after generation by [`Encoder::reset`]
/// and allocates only while a generation is larger than all before it.
///
/// ```
/// use ctcp_rlnc::{Encoder, Repair};
/// use ctcp_units::SymbolId;
///
/// let mut encoder = Encoder::new(SymbolId(0), 1400);
/// encoder.push(b"one")?;
/// encoder.push(b"three")?;
/// let mut payload = [0; 1400];
/// let len = encoder.encode(Repair::uniform(0), encoder.count(), &mut payload)?;
/// assert_eq!(len, 2 + "three".len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Encoder {
    first: SymbolId,
    kernel: Kernel,
    pool: Pool,
    symbols: Vec<Slot>,
    /// The longest of the symbols up to each, `len ‖ content`, in bytes.
    longest: Vec<usize>,
}

/// Why a symbol was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PushError {
    /// The generation holds 255 symbols. Remedy: open the next one.
    #[error("the generation is full: it holds {COUNT_MAX} symbols")]
    Full,
    /// The content does not fit a symbol. Remedy: cut it.
    #[error("content of {len} bytes does not fit a symbol of {symbol_len} bytes with its length")]
    TooLong {
        /// Bytes of content.
        len: usize,
        /// Bytes of a symbol, length prefix included.
        symbol_len: usize,
    },
}

/// Why no coded packet was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum EncodeError {
    /// The name stands for no coded packet; its variants tell the remedy.
    #[error(transparent)]
    NoRepair(#[from] NoRepair),
    /// More symbols are to be covered than are present.
    #[error("{count} symbols are to be covered and {present} are present")]
    NotPresent {
        /// Symbols to be covered.
        count: u8,
        /// Symbols present.
        present: u8,
    },
    /// The buffer is too short for the payload. Remedy: give one of
    /// [`Encoder::payload_len`] bytes.
    #[error("the payload has {needed} bytes and the buffer {present}")]
    BufferTooShort {
        /// Bytes of the payload.
        needed: usize,
        /// Bytes of the buffer.
        present: usize,
    },
}

impl Encoder {
    /// An empty generation that starts at `first`, of symbols of at most
    /// `symbol_len` bytes, length prefix included.
    #[must_use]
    pub fn new(first: SymbolId, symbol_len: usize) -> Self {
        Self {
            first,
            kernel: Kernel::active(),
            pool: Pool::new(symbol_len.min(SYMBOL_LEN_MAX)),
            symbols: Vec::new(),
            longest: Vec::new(),
        }
    }

    /// The same, computing with a certain kernel.
    #[must_use]
    pub fn with_kernel(mut self, kernel: Kernel) -> Self {
        self.kernel = kernel;
        self
    }

    /// Forgets all symbols and starts the generation at `first`. Memory is kept
    /// for it.
    pub fn reset(&mut self, first: SymbolId, symbol_len: usize) {
        self.first = first;
        self.pool.set_symbol_len(symbol_len.min(SYMBOL_LEN_MAX));
        for slot in self.symbols.drain(..) {
            self.pool.give(slot);
        }
        self.longest.clear();
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

    /// Most bytes of content that a symbol takes.
    #[must_use]
    pub const fn content_len_max(&self) -> usize {
        self.symbol_len().saturating_sub(LEN_PREFIX_BYTES)
    }

    /// Symbols present.
    #[must_use]
    pub fn count(&self) -> u8 {
        u8::try_from(self.symbols.len()).expect("push stops at COUNT_MAX")
    }

    /// Whether no symbol is present.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }

    /// Whether the generation has `count_limit` symbols, or all it can have.
    #[must_use]
    pub fn is_full(&self, count_limit: u8) -> bool {
        self.count() >= count_limit
    }

    /// Adds a symbol and tells its index. Empty content is allowed.
    ///
    /// # Errors
    /// [`PushError`] if the generation is full or the content too long.
    pub fn push(&mut self, content: &[u8]) -> Result<u8, PushError> {
        self.check_room(content.len())?;
        let mut slot = self.pool.take();
        slot.put_symbol(content);
        Ok(self.append(slot))
    }

    /// Adds a symbol whose content `fill` writes in place, and tells its index.
    ///
    /// `fill` gets [`Encoder::content_len_max`] bytes, with anything in them,
    /// and answers how many from the front it filled.
    ///
    /// # Errors
    /// [`PushError`] if the generation is full, or no symbol fits at all, or
    /// `fill` answers more than it was given.
    pub fn push_with(&mut self, fill: impl FnOnce(&mut [u8]) -> usize) -> Result<u8, PushError> {
        self.check_room(0)?;
        let mut slot = self.pool.take();
        let len = fill(&mut slot.bytes_mut(self.pool.symbol_len())[LEN_PREFIX_BYTES..]);
        if let Err(error) = self.check_room(len) {
            self.pool.give(slot);
            return Err(error);
        }
        slot.finish_symbol(len);
        Ok(self.append(slot))
    }

    fn check_room(&self, content_len: usize) -> Result<(), PushError> {
        if self.is_full(COUNT_MAX) {
            return Err(PushError::Full);
        }
        let symbol_len = self.symbol_len();
        if content_len.saturating_add(LEN_PREFIX_BYTES) > symbol_len {
            return Err(PushError::TooLong {
                len: content_len,
                symbol_len,
            });
        }
        Ok(())
    }

    fn append(&mut self, slot: Slot) -> u8 {
        let index = self.count();
        let longest_before = self.longest.last().copied().unwrap_or(0);
        self.longest.push(longest_before.max(slot.len()));
        self.symbols.push(slot);
        index
    }

    /// The content of symbol `index`, which is what a systematic packet carries.
    #[must_use]
    pub fn content(&self, index: u8) -> Option<&[u8]> {
        self.symbols.get(usize::from(index)).map(Slot::content)
    }

    /// Bytes of a coded payload over the first `count` symbols; 0 if there are
    /// not so many.
    #[must_use]
    pub fn payload_len(&self, count: u8) -> usize {
        let last = usize::from(count).checked_sub(1);
        last.and_then(|last| self.longest.get(last))
            .copied()
            .unwrap_or(0)
    }

    /// Writes the payload of `repair` over the first `count` symbols to the
    /// front of `out` and tells its length, which is
    /// [`Encoder::payload_len`]`(count)`.
    ///
    /// # Errors
    /// [`EncodeError`]; nothing is written then.
    pub fn encode(&self, repair: Repair, count: u8, out: &mut [u8]) -> Result<usize, EncodeError> {
        self.check_present(count)?;
        let mut row: Coefficients = [0; COUNT_MAX as usize];
        coefficients(self.first, repair, &mut row[..usize::from(count)])?;
        let needed = self.payload_len(count);
        let present = out.len();
        let Some(payload) = out.get_mut(..needed) else {
            return Err(EncodeError::BufferTooShort { needed, present });
        };
        self.combine::<1>(&[row], count, payload);
        Ok(needed)
    }

    /// Writes the payloads of all `repairs` over the first `count` symbols to
    /// `out`, one behind the other, and tells the length of each, which is
    /// [`Encoder::payload_len`]`(count)`. Whatever `out` held is replaced.
    ///
    /// Up to four repairs share one pass over the symbols, which is faster than
    /// one pass for each.
    ///
    /// # Errors
    /// [`EncodeError`] if one of them cannot be made; `out` is empty then.
    pub fn encode_many(
        &self,
        repairs: &[Repair],
        count: u8,
        out: &mut Vec<u8>,
    ) -> Result<usize, EncodeError> {
        out.clear();
        self.check_present(count)?;
        let payload_len = self.payload_len(count);
        let mut rows: [Coefficients; DESTINATIONS_MAX] = [[0; _]; _];
        for group in repairs.chunks(DESTINATIONS_MAX) {
            for (row, &repair) in rows.iter_mut().zip(group) {
                let row = &mut row[..usize::from(count)];
                if let Err(error) = coefficients(self.first, repair, row) {
                    out.clear();
                    return Err(error.into());
                }
            }
            let done_len = out.len();
            out.resize(done_len + group.len() * payload_len, 0);
            let payloads = &mut out[done_len..];
            match group.len() {
                1 => self.combine::<1>(&rows, count, payloads),
                2 => self.combine::<2>(&rows, count, payloads),
                3 => self.combine::<3>(&rows, count, payloads),
                _ => self.combine::<4>(&rows, count, payloads),
            }
        }
        Ok(payload_len)
    }

    fn check_present(&self, count: u8) -> Result<(), EncodeError> {
        let present = self.count();
        if count > present {
            return Err(EncodeError::NotPresent { count, present });
        }
        Ok(())
    }

    /// Fills `payloads`, which is R payloads one behind the other: payload r
    /// is Σ `rows[r][j]` · symbol j over the first `count` symbols.
    fn combine<const R: usize>(&self, rows: &[Coefficients], count: u8, payloads: &mut [u8]) {
        let len = payloads.len() / R;
        let mut parts = payloads.chunks_exact_mut(len);
        let payloads = core::array::from_fn::<_, R, _>(|_| {
            parts.next().expect("the buffer is R payloads long")
        });
        let symbols = self.symbols[..usize::from(count)].iter().enumerate();
        let terms = symbols.map(|(j, symbol)| Term {
            coefficients: core::array::from_fn::<_, R, _>(|r| rows[r][j]),
            bytes: symbol.padded(len),
        });
        sum_into(self.kernel, payloads, terms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoder(contents: &[&[u8]]) -> Encoder {
        let mut encoder = Encoder::new(SymbolId(64), 40);
        for content in contents {
            encoder.push(content).expect("it fits");
        }
        encoder
    }

    #[test]
    fn the_plain_sum_of_symbols_carries_their_lengths() {
        let encoder = encoder(&[b"ab", b"", b"xyz"]);
        let mut out = [0xff; 40];
        assert_eq!(encoder.encode(Repair::cauchy(0), 3, &mut out), Ok(5));
        assert_eq!(out[..5], [0, 2 ^ 3, b'a' ^ b'x', b'b' ^ b'y', b'z']);
        assert_eq!(out[5], 0xff, "what lies behind is left alone");
    }

    #[test]
    fn a_payload_is_as_long_as_the_longest_symbol_covered() {
        let encoder = encoder(&[b"ab", b"", b"xyz"]);
        assert_eq!(
            [0, 1, 2, 3, 4].map(|n| encoder.payload_len(n)),
            [0, 4, 4, 5, 0]
        );
    }

    #[test]
    fn several_repairs_in_one_pass_are_the_same_as_one_by_one() {
        let mut encoder = Encoder::new(SymbolId(5), 300);
        for index in 0..70u8 {
            encoder
                .push(&vec![index; usize::from(index) * 3])
                .expect("it fits");
        }
        let repairs: Vec<_> = (0..11).map(Repair::uniform).collect();
        let mut together = Vec::new();
        for count in [1, 2, 31, 32, 33, 70] {
            for repair_count in 0..=repairs.len() {
                let repairs = &repairs[..repair_count];
                let len = encoder
                    .encode_many(repairs, count, &mut together)
                    .expect("repairs");
                assert_eq!(together.len(), repair_count * len);
                for (&repair, payload) in repairs.iter().zip(together.chunks(len)) {
                    let mut alone = [0; 300];
                    assert_eq!(encoder.encode(repair, count, &mut alone), Ok(len));
                    assert_eq!(payload, &alone[..len], "{repair:?} over {count}");
                }
            }
        }
    }

    #[test]
    fn all_or_none_of_several_repairs_are_made() {
        let encoder = encoder(&[b"one", b"two"]);
        let mut out = vec![1, 2, 3];
        let repairs = [Repair::cauchy(0), Repair::cauchy(254)];
        assert_eq!(
            encoder.encode_many(&repairs, 2, &mut out),
            Err(EncodeError::NoRepair(NoRepair::OutOfRange {
                index: 254,
                count: 2
            }))
        );
        assert!(out.is_empty());
    }

    #[test]
    fn what_cannot_be_encoded_is_refused() {
        let encoder = encoder(&[b"abc"]);
        let mut out = [0; 40];
        assert_eq!(
            encoder.encode(Repair::uniform(0), 2, &mut out),
            Err(EncodeError::NotPresent {
                count: 2,
                present: 1
            })
        );
        assert_eq!(
            encoder.encode(Repair::uniform(0), 0, &mut out),
            Err(EncodeError::NoRepair(NoRepair::AllZero {
                index: 0,
                count: 0
            }))
        );
        assert_eq!(
            encoder.encode(Repair::cauchy(0), 1, &mut out[..4]),
            Err(EncodeError::BufferTooShort {
                needed: 5,
                present: 4
            })
        );
    }

    #[test]
    fn a_symbol_fits_up_to_its_last_byte() {
        let mut encoder = encoder(&[]);
        assert_eq!(encoder.push(&[1; 38]), Ok(0));
        let too_long = PushError::TooLong {
            len: 39,
            symbol_len: 40,
        };
        assert_eq!(encoder.push(&[1; 39]), Err(too_long));
        assert_eq!(encoder.push_with(|_| 39), Err(too_long));
        assert_eq!(encoder.push_with(|room| room.len()), Ok(1));
        assert_eq!(encoder.content(1).map(<[u8]>::len), Some(38));
        assert_eq!(encoder.content(2), None);
    }

    #[test]
    fn symbols_too_short_for_a_length_take_nothing() {
        for symbol_len in 0..2 {
            let mut encoder = Encoder::new(SymbolId(0), symbol_len);
            let refused = Err(PushError::TooLong { len: 0, symbol_len });
            assert_eq!(encoder.push(&[]), refused);
            assert_eq!(encoder.push_with(|_| 0), refused);
        }
    }

    #[test]
    fn content_written_in_place_is_the_same_as_content_pushed() {
        let mut encoder = encoder(&[b"ab"]);
        let index = encoder.push_with(|room| {
            room[..2].copy_from_slice(b"ab");
            2
        });
        assert_eq!(index, Ok(1));
        let mut out = [9; 40];
        assert_eq!(encoder.encode(Repair::cauchy(0), 2, &mut out), Ok(4));
        assert_eq!(out[..4], [0; 4], "equal symbols cancel out");
    }

    #[test]
    fn a_generation_ends_at_255_symbols() {
        let mut encoder = encoder(&[]);
        for index in 0..255 {
            assert!(!encoder.is_full(COUNT_MAX));
            assert_eq!(encoder.push(&[index]), Ok(index));
        }
        assert!(encoder.is_full(COUNT_MAX));
        assert_eq!(encoder.push(&[]), Err(PushError::Full));
        assert_eq!(encoder.push_with(|_| 0), Err(PushError::Full));
    }

    #[test]
    fn a_generation_of_the_same_size_takes_no_new_memory() {
        let mut encoder = encoder(&[b"a", b"b", b"c"]);
        encoder.reset(SymbolId(100), 40);
        assert!(encoder.is_empty());
        assert_eq!(encoder.pool.free_count(), 3);
        for content in [b"d", b"e", b"f"] {
            encoder.push(content).expect("it fits");
        }
        assert_eq!(encoder.pool.free_count(), 0);
        assert_eq!(encoder.first(), SymbolId(100));
    }
}
