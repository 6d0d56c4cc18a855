//! The first packet of the present key phase on each path.
//!
//! Packet numbers are counted per path but keys change for all at once, so
//! "before or after the update" is a question with one answer for each path.

use ctcp_units::{PacketNumber, PathId};

/// Paths remembered. More than a connection has at a time; if ids are used up
/// quickly, the oldest entry makes way.
const PATHS_MAX: usize = 16;

/// The lowest packet number of one key phase, for each path.
#[derive(Default)]
pub(super) struct FirstNumbers {
    entries: [(PathId, PacketNumber); PATHS_MAX],
    len: usize,
    /// Where the next entry goes once all are in use.
    oldest: usize,
}

impl FirstNumbers {
    /// Notes that `number` on `path` belongs to the key phase.
    pub(super) fn note(&mut self, path: PathId, number: PacketNumber) {
        let known = self.entries[..self.len].iter_mut().find(|e| e.0 == path);
        if let Some(entry) = known {
            entry.1 = entry.1.min(number);
        } else if self.len < PATHS_MAX {
            self.entries[self.len] = (path, number);
            self.len += 1;
        } else {
            self.entries[self.oldest] = (path, number);
            self.oldest = (self.oldest + 1) % PATHS_MAX;
        }
    }

    /// The lowest number noted on `path`.
    pub(super) fn of(&self, path: PathId) -> Option<PacketNumber> {
        let entry = self.entries[..self.len].iter().find(|e| e.0 == path)?;
        Some(entry.1)
    }

    /// A new key phase begins.
    pub(super) fn clear(&mut self) {
        self.len = 0;
        self.oldest = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_number_of_each_path_stays() {
        let mut first = FirstNumbers::default();
        first.note(PathId(1), PacketNumber(9));
        first.note(PathId(2), PacketNumber(3));
        first.note(PathId(1), PacketNumber(7));
        first.note(PathId(1), PacketNumber(8));
        assert_eq!(first.of(PathId(1)), Some(PacketNumber(7)));
        assert_eq!(first.of(PathId(2)), Some(PacketNumber(3)));
        assert_eq!(first.of(PathId(3)), None);
        first.clear();
        assert_eq!(first.of(PathId(1)), None);
    }

    #[test]
    fn the_oldest_path_makes_way() {
        let mut first = FirstNumbers::default();
        for path in 0..=PATHS_MAX as u32 {
            first.note(PathId(path), PacketNumber(0));
        }
        assert_eq!(first.of(PathId(0)), None);
        assert!((1..=PATHS_MAX as u32).all(|path| first.of(PathId(path)).is_some()));
    }
}
