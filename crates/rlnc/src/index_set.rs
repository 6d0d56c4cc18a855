//! A set of symbol indices.

/// Indices 0 to 255, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct IndexSet {
    words: [u64; 4],
}

impl IndexSet {
    pub(crate) fn insert(&mut self, index: u8) {
        self.words[usize::from(index) / 64] |= 1 << (index % 64);
    }

    pub(crate) fn remove(&mut self, index: u8) {
        self.words[usize::from(index) / 64] &= !(1 << (index % 64));
    }

    pub(crate) const fn contains(&self, index: u8) -> bool {
        self.words[index as usize / 64] >> (index % 64) & 1 == 1
    }

    pub(crate) fn count(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// The smallest member.
    pub(crate) fn first(&self) -> Option<u8> {
        self.iter().next()
    }

    /// The members in ascending order.
    pub(crate) const fn iter(&self) -> Indices {
        Indices { left: *self }
    }

    /// All indices below `count`, which is at most 256.
    pub(crate) fn below(count: usize) -> Self {
        let words = core::array::from_fn(|position| match count.saturating_sub(64 * position) {
            bits @ 0..64 => (1 << bits) - 1,
            _ => u64::MAX,
        });
        Self { words }
    }

    /// The members that are not in `other`.
    #[must_use]
    pub(crate) fn without(&self, other: &Self) -> Self {
        let words = core::array::from_fn(|at| self.words[at] & !other.words[at]);
        Self { words }
    }

    /// The members that are also in `other`.
    #[must_use]
    pub(crate) fn and(&self, other: &Self) -> Self {
        let words = core::array::from_fn(|at| self.words[at] & other.words[at]);
        Self { words }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words == [0; 4]
    }
}

/// The members of a set in ascending order.
#[derive(Debug, Clone)]
pub(crate) struct Indices {
    left: IndexSet,
}

impl Iterator for Indices {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        for (start, word) in [0, 64, 128, 192].into_iter().zip(&mut self.left.words) {
            if *word != 0 {
                let bit = word.trailing_zeros() as u8;
                *word &= *word - 1;
                return Some(start + bit);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_back_in_order() {
        let mut set = IndexSet::default();
        for index in [200, 0, 63, 64, 254] {
            set.insert(index);
        }
        set.remove(63);
        let members: Vec<_> = set.iter().collect();
        assert_eq!(members, [0, 64, 200, 254]);
        assert_eq!(set.count(), 4);
        assert!(set.contains(64) && !set.contains(63));
        assert_eq!(set.first(), Some(0));
    }

    #[test]
    fn all_below_a_count_are_that_many() {
        for count in 0..=256 {
            let set = IndexSet::below(count);
            assert_eq!(set.count(), count);
            assert!(set.iter().map(usize::from).eq(0..count));
            assert!(set.without(&set).is_empty());
        }
    }
}
