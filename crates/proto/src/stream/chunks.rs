//! Bytes by their offset in a stream, kept in pieces of equal length.
//!
//! A stream's buffer is a row of slots, one for every [`CHUNK_LEN`] bytes from
//! the first byte still wanted; a slot gets its chunk when a byte of it is
//! written and gives it back when the last one has been taken. So a buffer never
//! moves what it holds when it grows, holds nothing when it is empty, and a
//! single byte far ahead costs one chunk. Chunks are shared by all streams of a
//! connection: in steady state nothing is allocated.

use std::collections::VecDeque;

/// Bytes of a chunk: five full symbols, an eighth of a new stream's credit.
pub(super) const CHUNK_LEN: usize = 8192;
/// Chunks kept for reuse: 1 MiB, what a busy connection turns over at once.
const FREE_MAX: usize = 128;
/// Slots an empty buffer keeps; more are freed.
const SLOTS_KEPT: usize = 64;

type Chunk = Box<[u8]>;

/// Where all buffers of a connection take chunks from.
#[derive(Debug, Default)]
pub(super) struct ChunkPool {
    free: Vec<Chunk>,
    in_use: usize,
}

impl ChunkPool {
    /// Bytes of the chunks in buffers and of those kept for reuse.
    pub(super) fn memory_bytes(&self) -> usize {
        (self.in_use + self.free.len()) * CHUNK_LEN
    }

    fn take(&mut self) -> Chunk {
        self.in_use += 1;
        self.free
            .pop()
            .unwrap_or_else(|| vec![0; CHUNK_LEN].into_boxed_slice())
    }

    fn give(&mut self, chunk: Chunk) {
        self.in_use -= 1;
        if self.free.len() < FREE_MAX {
            self.free.push(chunk);
        }
    }
}

/// The bytes of one direction of one stream, from its lowest offset of interest.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    /// Number of the first slot: offset / [`CHUNK_LEN`].
    first: u64,
    slots: VecDeque<Option<Chunk>>,
}

/// Number of the slot of `offset`, and the place inside it.
const fn place(offset: u64) -> (u64, usize) {
    (
        offset / CHUNK_LEN as u64,
        (offset % CHUNK_LEN as u64) as usize,
    )
}

impl Chunks {
    /// Stores `data` at `offset`, which may not lie below what was released.
    pub(super) fn write(&mut self, pool: &mut ChunkPool, offset: u64, mut data: &[u8]) {
        let (number, mut within) = place(offset);
        let mut index = (number - self.first) as usize;
        while !data.is_empty() {
            let (now, later) = data.split_at(data.len().min(CHUNK_LEN - within));
            if index >= self.slots.len() {
                self.slots.resize_with(index + 1, || None);
            }
            let chunk = self.slots[index].get_or_insert_with(|| pool.take());
            chunk[within..within + now.len()].copy_from_slice(now);
            data = later;
            within = 0;
            index += 1;
        }
    }

    /// The `len` bytes from `offset` on, piece by piece. All must have been
    /// written and none released.
    pub(super) fn pieces(&self, offset: u64, len: usize) -> impl Iterator<Item = &[u8]> {
        let (number, mut within) = place(offset);
        let mut index = (number - self.first) as usize;
        let mut left = len;
        core::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            let chunk = self.slots[index]
                .as_deref()
                .expect("only bytes that were written are read");
            let piece = &chunk[within..CHUNK_LEN.min(within + left)];
            left -= piece.len();
            within = 0;
            index += 1;
            Some(piece)
        })
    }

    /// Frees what lies below `offset` altogether.
    pub(super) fn release_below(&mut self, pool: &mut ChunkPool, offset: u64) {
        let (number, _) = place(offset);
        while self.first < number {
            match self.slots.pop_front() {
                Some(slot) => slot.into_iter().for_each(|chunk| pool.give(chunk)),
                None => break,
            }
            self.first += 1;
        }
        self.first = number;
    }

    /// Frees everything; the next byte of interest is the one at `offset`.
    pub(super) fn clear(&mut self, pool: &mut ChunkPool, offset: u64) {
        self.slots
            .drain(..)
            .flatten()
            .for_each(|chunk| pool.give(chunk));
        if self.slots.capacity() > SLOTS_KEPT {
            self.slots = VecDeque::new();
        }
        self.first = place(offset).0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(chunks: &Chunks, offset: u64, len: usize) -> Vec<u8> {
        chunks.pieces(offset, len).flatten().copied().collect()
    }

    #[test]
    fn bytes_come_back_across_chunk_borders() {
        let mut pool = ChunkPool::default();
        let mut chunks = Chunks::default();
        let data: Vec<u8> = (0..3 * CHUNK_LEN).map(|i| (i * 7 / 3) as u8).collect();
        let (front, back) = data.split_at(CHUNK_LEN + 5);
        chunks.write(&mut pool, front.len() as u64, back);
        chunks.write(&mut pool, 0, front);
        assert_eq!(read(&chunks, 0, data.len()), data);
        chunks.release_below(&mut pool, CHUNK_LEN as u64 + 1);
        assert_eq!(
            read(&chunks, CHUNK_LEN as u64 + 1, 2000),
            data[CHUNK_LEN + 1..][..2000]
        );
    }

    #[test]
    fn an_empty_buffer_holds_no_chunk_and_the_pool_is_bounded() {
        let mut pool = ChunkPool::default();
        let mut chunks = Chunks::default();
        let data = vec![1; 300 * CHUNK_LEN];
        chunks.write(&mut pool, 0, &data);
        assert_eq!(pool.in_use, 300);
        chunks.clear(&mut pool, 1 << 60);
        assert_eq!(pool.in_use, 0);
        assert_eq!(pool.memory_bytes(), FREE_MAX * CHUNK_LEN);
        chunks.write(&mut pool, 1 << 60, b"after");
        assert_eq!(read(&chunks, 1 << 60, 5), b"after");
    }

    #[test]
    fn one_byte_far_ahead_costs_one_chunk() {
        let mut pool = ChunkPool::default();
        let mut chunks = Chunks::default();
        chunks.write(&mut pool, 1 << 24, &[1]);
        assert_eq!(pool.in_use, 1);
    }
}
