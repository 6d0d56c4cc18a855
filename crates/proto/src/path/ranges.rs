//! Sets of packet numbers as ranges: what has arrived, what was acknowledged.
//!
//! Packets come nearly in order, so the last range grows in place: O(1). A
//! late number costs a binary search and at worst a move of the ranges above it;
//! the number of ranges is bounded by whoever owns the set.

use core::ops::RangeInclusive;

/// Disjoint ranges, ascending, none touching the next.
#[derive(Debug, Clone, Default)]
pub(crate) struct RangeSet {
    ranges: Vec<RangeInclusive<u64>>,
}

impl RangeSet {
    /// Ranges, ascending.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &RangeInclusive<u64>> {
        self.ranges.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Place of the first range that ends at or after `number`.
    fn place(&self, number: u64) -> usize {
        match self.ranges.last() {
            Some(last) if *last.end() < number => self.ranges.len(),
            Some(last) if *last.start() <= number => self.ranges.len() - 1,
            _ => self.ranges.partition_point(|range| *range.end() < number),
        }
    }

    #[cfg(test)]
    pub(crate) fn contains(&self, number: u64) -> bool {
        self.ranges
            .get(self.place(number))
            .is_some_and(|range| range.contains(&number))
    }

    /// Adds `range`, calling `on_new` for each part that was not there.
    pub(crate) fn insert(
        &mut self,
        range: RangeInclusive<u64>,
        mut on_new: impl FnMut(RangeInclusive<u64>),
    ) {
        let (start, end) = (*range.start(), *range.end());
        // A range that merely touches is joined, hence the ±1.
        let low = self.place(start.saturating_sub(1));
        let mut high = low;
        let mut next_new = start;
        let (mut joined_start, mut joined_end) = (start, end);
        while let Some(old) = self.ranges.get(high) {
            if *old.start() > end.saturating_add(1) {
                break;
            }
            if *old.start() > next_new {
                on_new(next_new..=(old.start() - 1).min(end));
            }
            next_new = next_new.max(old.end().saturating_add(1));
            joined_start = joined_start.min(*old.start());
            joined_end = joined_end.max(*old.end());
            high += 1;
        }
        if next_new <= end {
            on_new(next_new..=end);
        }
        match high - low {
            0 => self.ranges.insert(low, joined_start..=joined_end),
            count => {
                self.ranges[low] = joined_start..=joined_end;
                if count > 1 {
                    self.ranges.drain(low + 1..high);
                }
            }
        }
    }

    /// Forgets everything below `floor`.
    pub(crate) fn remove_below(&mut self, floor: u64) {
        let gone = self.ranges.partition_point(|range| *range.end() < floor);
        if gone > 0 {
            self.ranges.drain(..gone);
        }
        if let Some(first) = self.ranges.first_mut()
            && *first.start() < floor
        {
            *first = floor..=*first.end();
        }
    }

    /// Forgets the oldest ranges until at most `count` are left.
    pub(crate) fn keep_newest(&mut self, count: usize) {
        if self.ranges.len() > count {
            self.ranges.drain(..self.ranges.len() - count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctcp_units::Random;
    use std::collections::BTreeSet;

    #[test]
    fn it_agrees_with_a_plain_set() {
        for seed in 0..300 {
            let mut random = Random::from_seed(seed);
            let mut set = RangeSet::default();
            let mut plain = BTreeSet::new();
            for _ in 0..80 {
                let start = random.below(100);
                let range = start..=start + random.below(6);
                let mut fresh = Vec::new();
                set.insert(range.clone(), |new| fresh.extend(new));
                let expected: Vec<_> = range.filter(|n| plain.insert(*n)).collect();
                assert_eq!(fresh, expected, "seed {seed}");
                if random.chance(0.05) {
                    let floor = random.below(60);
                    set.remove_below(floor);
                    plain.retain(|n| *n >= floor);
                }
                for n in 0..110 {
                    assert_eq!(set.contains(n), plain.contains(&n), "seed {seed}, {n}");
                }
                let touching = |pair: &[RangeInclusive<u64>]| pair[0].end() + 1 >= *pair[1].start();
                assert!(!set.ranges.windows(2).any(touching), "seed {seed}");
            }
        }
    }
}
