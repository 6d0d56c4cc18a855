//! Which blocks want a packet now: a set of serial numbers with the oldest
//! first, in O(1).
//!
//! Two levels of bits over a ring of [`ReadySet::CAPACITY`] serial numbers; the
//! sender keeps no more blocks than that.

#[derive(Debug, Clone)]
pub(crate) struct ReadySet {
    words: Box<[u64; 64]>,
    /// Bit w: word w is not empty.
    summary: u64,
}

impl ReadySet {
    /// Serial numbers that can be told apart.
    pub(crate) const CAPACITY: u64 = 64 * 64;

    pub(crate) fn new() -> Self {
        Self {
            words: Box::new([0; 64]),
            summary: 0,
        }
    }

    fn place(serial: u64) -> (usize, u64) {
        let index = serial % Self::CAPACITY;
        ((index / 64) as usize, 1 << (index % 64))
    }

    pub(crate) fn set(&mut self, serial: u64, is_ready: bool) {
        let (word, bit) = Self::place(serial);
        if is_ready {
            self.words[word] |= bit;
            self.summary |= 1 << word;
        } else {
            self.words[word] &= !bit;
            if self.words[word] == 0 {
                self.summary &= !(1 << word);
            }
        }
    }

    /// The oldest serial number in the set, none of which is below `first`.
    pub(crate) fn oldest(&self, first: u64) -> Option<u64> {
        let start = first % Self::CAPACITY;
        let (word, offset) = ((start / 64) as u32, start % 64);
        let at_or_above = self.words[word as usize] & (u64::MAX << offset);
        let index = if at_or_above != 0 {
            u64::from(word * 64 + at_or_above.trailing_zeros())
        } else {
            // The words after this one, around the ring, this one's low bits last.
            let rotated = self.summary.rotate_right((word + 1) % 64);
            if rotated == 0 {
                return None;
            }
            let next = (word + 1 + rotated.trailing_zeros()) % 64;
            let mut bits = self.words[next as usize];
            if next == word {
                bits &= !(u64::MAX << offset);
                if bits == 0 {
                    return None;
                }
            }
            u64::from(next * 64 + bits.trailing_zeros())
        };
        Some(first + (index + Self::CAPACITY - start) % Self::CAPACITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctcp_units::Random;
    use std::collections::BTreeSet;

    #[test]
    fn it_agrees_with_an_ordered_set() {
        for seed in 0..50 {
            let mut random = Random::from_seed(seed);
            let mut ready = ReadySet::new();
            let mut plain = BTreeSet::new();
            let mut first = random.below(1 << 20);
            for _ in 0..2000 {
                let serial = first + random.below(ReadySet::CAPACITY);
                let is_ready = random.chance(0.4);
                ready.set(serial, is_ready);
                if is_ready {
                    plain.insert(serial);
                } else {
                    plain.remove(&serial);
                }
                if random.chance(0.1) {
                    let new_first = first + random.below(300);
                    for old in first..new_first {
                        ready.set(old, false);
                        plain.remove(&old);
                    }
                    first = new_first;
                }
                assert_eq!(ready.oldest(first), plain.first().copied(), "seed {seed}");
            }
        }
    }
}
