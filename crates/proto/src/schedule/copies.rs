//! `redundant`: symbols that went out on one path and are to go out on the others
//! as well, as far as their tokens go.

use std::collections::VecDeque;

use crate::block::PATHS_MAX;

/// Symbols that wait on one path at most; the oldest makes way.
const WAITING_MAX: usize = 256;

/// A symbol by its block's serial number and its place there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Copied {
    pub(crate) block: u64,
    pub(crate) place: u8,
}

/// What waits on each path, by slot, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    waiting: [VecDeque<Copied>; PATHS_MAX],
}

impl Copies {
    /// A symbol went out on another path than that of `slot`.
    pub(crate) fn push(&mut self, slot: usize, copied: Copied) {
        let waiting = &mut self.waiting[slot];
        if waiting.len() >= WAITING_MAX {
            waiting.pop_front();
        }
        waiting.push_back(copied);
    }

    /// The next one for the path of `slot`.
    pub(crate) fn front(&self, slot: usize) -> Option<Copied> {
        self.waiting[slot].front().copied()
    }

    /// Lets go of the first ones as long as they are of no use any more.
    pub(crate) fn skip(&mut self, slot: usize, is_useless: impl Fn(Copied) -> bool) {
        while self.front(slot).is_some_and(&is_useless) {
            self.waiting[slot].pop_front();
        }
    }

    /// The next one has been sent.
    pub(crate) fn pop(&mut self, slot: usize) {
        self.waiting[slot].pop_front();
    }

    /// The path is gone.
    pub(crate) fn clear(&mut self, slot: usize) {
        self.waiting[slot].clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_makes_way_and_what_is_known_is_skipped() {
        let mut copies = Copies::default();
        for place in 0..=255 {
            for block in [1, 2] {
                copies.push(3, Copied { block, place });
            }
        }
        let first = Copied {
            block: 1,
            place: 128,
        };
        assert_eq!(copies.front(3), Some(first));
        assert_eq!(copies.front(2), None);
        copies.skip(3, |copied| copied.block == 1);
        copies.pop(3);
        copies.skip(3, |copied| copied.place < 200);
        let next = Copied {
            block: 1,
            place: 200,
        };
        assert_eq!(copies.front(3), Some(next));
        copies.clear(3);
        assert_eq!(copies.front(3), None);
    }
}
