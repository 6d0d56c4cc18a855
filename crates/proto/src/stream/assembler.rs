//! Puts the pieces of one stream back in order.
//!
//! What has arrived is one range from the first unread byte on, and *islands*
//! beyond the first gap. Bytes go straight to their place in [`Chunks`]; only
//! borders are kept beside them. Data that arrives in order, or that goes on
//! where the last island ends, touches one border and allocates nothing.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included};

use super::chunks::{ChunkPool, Chunks};

/// Bytes received and not yet read, with gaps.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    chunks: Chunks,
    /// Offset of the first unread byte.
    read: u64,
    /// Everything from `read` to here has arrived.
    ready: u64,
    /// Start and end of what arrived beyond; none empty, none touching.
    islands: BTreeMap<u64, u64>,
    island_bytes: u64,
}

impl Assembler {
    /// Offset of the first unread byte.
    pub(super) const fn read_offset(&self) -> u64 {
        self.read
    }

    /// Bytes that can be read now.
    pub(super) const fn readable(&self) -> u64 {
        self.ready - self.read
    }

    /// Bytes held, readable or not.
    pub(super) const fn held(&self) -> u64 {
        self.readable() + self.island_bytes
    }

    /// Ranges beyond the first gap.
    pub(super) fn island_count(&self) -> usize {
        self.islands.len()
    }

    /// Takes `data`, the bytes from `offset` on; what is known is left out. The
    /// caller has checked offset and credit.
    pub(super) fn insert(&mut self, pool: &mut ChunkPool, offset: u64, data: &[u8]) {
        let end = offset + data.len() as u64;
        let start = offset.max(self.ready);
        if end <= start {
            return;
        }
        let fresh = &data[(start - offset) as usize..];
        if start == self.ready {
            self.chunks.write(pool, start, fresh);
            self.ready = end;
            self.absorb();
        } else if self.note_island(start, end) {
            self.chunks.write(pool, start, fresh);
        }
    }

    /// Moves `ready` over the islands it has reached.
    fn absorb(&mut self) {
        while let Some(island) = self.islands.first_entry()
            && *island.key() <= self.ready
        {
            let (start, end) = island.remove_entry();
            self.island_bytes -= end - start;
            self.ready = self.ready.max(end);
        }
    }

    /// Adds a range beyond the first gap; false if all of it was known.
    fn note_island(&mut self, start: u64, end: u64) -> bool {
        let before = self
            .islands
            .range(..=start)
            .next_back()
            .map(|(start, end)| (*start, *end))
            .filter(|(_, before_end)| *before_end >= start);
        if before.is_some_and(|(_, before_end)| before_end >= end) {
            return false;
        }
        let (from, known) = before.map_or((start, 0), |(s, e)| (s, e - s));
        let mut to = end;
        while let Some((&s, &e)) = self.islands.range((Excluded(from), Included(to))).next() {
            self.islands.remove(&s);
            self.island_bytes -= e - s;
            to = to.max(e);
        }
        self.islands.insert(from, to);
        self.island_bytes += to - from - known;
        true
    }

    /// Copies what is readable to `out`; returns how many bytes.
    pub(super) fn read(&mut self, pool: &mut ChunkPool, out: &mut [u8]) -> usize {
        let len = self.readable().min(out.len() as u64) as usize;
        let mut rest = &mut out[..len];
        for piece in self.chunks.pieces(self.read, len) {
            let (now, later) = rest.split_at_mut(piece.len());
            now.copy_from_slice(piece);
            rest = later;
        }
        self.read += len as u64;
        if self.held() == 0 {
            self.chunks.clear(pool, self.read);
        } else {
            self.chunks.release_below(pool, self.read);
        }
        len
    }

    /// Forgets what is held; the first unread byte is now the one at `offset`.
    pub(super) fn discard_to(&mut self, pool: &mut ChunkPool, offset: u64) {
        self.islands.clear();
        self.island_bytes = 0;
        self.read = offset;
        self.ready = offset;
        self.chunks.clear(pool, offset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctcp_units::Random;

    fn byte_at(offset: u64) -> u8 {
        (offset ^ offset >> 7) as u8
    }

    fn bytes(start: u64, end: u64) -> Vec<u8> {
        (start..end).map(byte_at).collect()
    }

    #[test]
    fn a_filled_gap_makes_what_lies_behind_it_readable() {
        let mut pool = ChunkPool::default();
        let mut assembler = Assembler::default();
        assembler.insert(&mut pool, 10, &bytes(10, 20));
        assembler.insert(&mut pool, 20, &bytes(20, 30));
        assert_eq!((assembler.readable(), assembler.island_count()), (0, 1));
        assembler.insert(&mut pool, 0, &bytes(0, 12));
        assert_eq!((assembler.readable(), assembler.island_count()), (30, 0));
        let mut out = [0; 40];
        assert_eq!(assembler.read(&mut pool, &mut out), 30);
        assert_eq!(out[..30], bytes(0, 30));
        assert_eq!(assembler.held(), 0);
    }

    #[test]
    fn every_order_and_overlap_gives_the_same_bytes() {
        let seed = super::super::tests::seed();
        let mut random = Random::from_seed(seed);
        for _ in 0..40 {
            let len = 1 + random.below(20_000);
            let mut pool = ChunkPool::default();
            let mut assembler = Assembler::default();
            let mut arrived = vec![false; len as usize];
            let mut read = Vec::new();
            while read.len() < len as usize {
                let start = random.below(len);
                let end = len.min(start + 1 + random.below(3000));
                assembler.insert(&mut pool, start, &bytes(start, end));
                arrived[start as usize..end as usize].fill(true);
                let held = arrived[read.len()..].iter().filter(|known| **known).count();
                assert_eq!(assembler.held(), held as u64, "seed {seed}");
                let mut out = vec![0; random.below(5000) as usize];
                let n = assembler.read(&mut pool, &mut out);
                read.extend_from_slice(&out[..n]);
            }
            assert_eq!(read, bytes(0, len), "seed {seed}");
            assert_eq!(assembler.held(), 0);
        }
    }
}
