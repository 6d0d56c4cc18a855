//! Buffers of one symbol or payload each, kept for reuse.

use crate::LEN_PREFIX_BYTES;

/// Symbols start where a cache line does, so that a vector load touches one
/// line and not two.
const ALIGN: usize = 64;

/// Room for one symbol or coded payload, and what is in it.
#[derive(Debug)]
pub(crate) struct Slot {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Slot {
    fn with_room(room: usize) -> Self {
        let bytes = vec![0; room + ALIGN - 1];
        // Only speed hangs on the alignment, so any answer will do.
        let start = bytes.as_ptr().align_offset(ALIGN).min(ALIGN - 1);
        Self {
            bytes,
            start,
            len: 0,
        }
    }

    /// The most it can hold.
    fn room(&self) -> usize {
        self.bytes.len() - (ALIGN - 1)
    }

    /// What it holds.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..][..self.len]
    }

    /// The content, without the length in front.
    pub(crate) fn content(&self) -> &[u8] {
        &self.bytes()[LEN_PREFIX_BYTES..]
    }

    /// Its first `len` bytes, to be filled; they hold what was there before.
    pub(crate) fn bytes_mut(&mut self, len: usize) -> &mut [u8] {
        self.len = len;
        &mut self.bytes[self.start..][..len]
    }

    /// Drops all but the first `len` bytes.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Holds `payload`.
    pub(crate) fn put_payload(&mut self, payload: &[u8]) {
        self.bytes_mut(payload.len()).copy_from_slice(payload);
    }

    /// Holds a symbol of `content`, which is at most 65 535 bytes.
    pub(crate) fn put_symbol(&mut self, content: &[u8]) {
        let symbol = self.bytes_mut(LEN_PREFIX_BYTES + content.len());
        symbol[LEN_PREFIX_BYTES..].copy_from_slice(content);
        self.put_len_prefix();
    }

    /// Writes the length of the content, which is in place already.
    pub(crate) fn put_len_prefix(&mut self) {
        let content_len = self.len - LEN_PREFIX_BYTES;
        let prefix = u16::try_from(content_len).expect("symbols are at most SYMBOL_LEN_MAX");
        self.bytes_mut(self.len)[..LEN_PREFIX_BYTES].copy_from_slice(&prefix.to_be_bytes());
    }
}

/// Slots not in use.
#[derive(Debug)]
pub(crate) struct Pool {
    free: Vec<Slot>,
    symbol_len: usize,
}

impl Pool {
    pub(crate) const fn new(symbol_len: usize) -> Self {
        Self {
            free: Vec::new(),
            symbol_len,
        }
    }

    /// The room of each slot that [`Pool::take`] gives, at least.
    pub(crate) const fn symbol_len(&self) -> usize {
        self.symbol_len
    }

    /// From now on slots of `symbol_len`; those too small are let go.
    pub(crate) fn set_symbol_len(&mut self, symbol_len: usize) {
        self.symbol_len = symbol_len;
        self.free.retain(|slot| slot.room() >= symbol_len);
    }

    /// A slot of arbitrary bytes; allocates only if none is free.
    pub(crate) fn take(&mut self) -> Slot {
        self.free
            .pop()
            .unwrap_or_else(|| Slot::with_room(self.symbol_len))
    }

    pub(crate) fn give(&mut self, slot: Slot) {
        if slot.room() >= self.symbol_len {
            self.free.push(slot);
        }
    }

    #[cfg(test)]
    pub(crate) fn free_count(&self) -> usize {
        self.free.len()
    }
}
