//! Buffers of one symbol or payload each, kept for reuse.

use crate::LEN_PREFIX_BYTES;

/// Symbols start where a cache line does, so that a vector load touches one
/// line and not two.
const ALIGN: usize = 64;

/// Room for one symbol or coded payload, what is in it, and zeros behind that.
///
/// The zeros are there so that symbols of different lengths can be combined
/// over one length, which kernels do several times faster than source by
/// source; filling them in costs next to nothing.
///
/// Slots go from the pool to the symbols or payloads and back for every packet,
/// so what moves is one pointer.
#[derive(Debug)]
pub(crate) struct Slot(Box<Buffer>);

#[derive(Debug)]
struct Buffer {
    bytes: Box<[u8]>,
    start: usize,
    len: usize,
}

impl Slot {
    fn with_room(room: usize) -> Self {
        let bytes = vec![0; room + ALIGN - 1].into_boxed_slice();
        // Only speed hangs on the alignment, so any answer will do.
        let start = bytes.as_ptr().align_offset(ALIGN).min(ALIGN - 1);
        Self(Box::new(Buffer {
            bytes,
            start,
            len: 0,
        }))
    }

    /// The most it can hold.
    fn room(&self) -> usize {
        self.0.bytes.len() - (ALIGN - 1)
    }

    /// Bytes that it holds.
    pub(crate) fn len(&self) -> usize {
        self.0.len
    }

    /// The first `len` bytes: what it holds, zeros behind, or less than it holds.
    pub(crate) fn padded(&self, len: usize) -> &[u8] {
        &self.0.bytes[self.0.start..][..len]
    }

    /// The content of the symbol that it holds, without the length in front.
    pub(crate) fn content(&self) -> &[u8] {
        &self.padded(self.len())[LEN_PREFIX_BYTES..]
    }

    /// Its first `len` bytes, to be filled; they hold what was there before.
    pub(crate) fn bytes_mut(&mut self, len: usize) -> &mut [u8] {
        let room = self.room();
        let Buffer {
            bytes,
            start,
            len: len_held,
        } = &mut *self.0;
        let bytes = &mut bytes[*start..][..room];
        if len < room {
            bytes[len..].fill(0);
        }
        *len_held = len;
        &mut bytes[..len]
    }

    /// Holds `payload`.
    pub(crate) fn put_payload(&mut self, payload: &[u8]) {
        self.bytes_mut(payload.len()).copy_from_slice(payload);
    }

    /// Holds a symbol of `content`, which is at most 65 535 bytes.
    pub(crate) fn put_symbol(&mut self, content: &[u8]) {
        let symbol = self.bytes_mut(LEN_PREFIX_BYTES + content.len());
        let (prefix, room) = symbol.split_at_mut(LEN_PREFIX_BYTES);
        prefix.copy_from_slice(&len_prefix(content.len()));
        room.copy_from_slice(content);
    }

    /// Holds the symbol whose `content_len` bytes of content, at most 65 535,
    /// are in place already: writes its length, clears what is behind.
    pub(crate) fn finish_symbol(&mut self, content_len: usize) {
        let symbol = self.bytes_mut(LEN_PREFIX_BYTES + content_len);
        symbol[..LEN_PREFIX_BYTES].copy_from_slice(&len_prefix(content_len));
    }
}

fn len_prefix(content_len: usize) -> [u8; LEN_PREFIX_BYTES] {
    let len = u16::try_from(content_len).expect("symbols are at most SYMBOL_LEN_MAX");
    len.to_be_bytes()
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
