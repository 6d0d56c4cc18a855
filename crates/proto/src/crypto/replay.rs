//! Which packet numbers of a path have been received.
//!
//! A ring of bits behind the highest number received, as in [RFC6479]: moving on
//! clears whole words, so that every operation takes constant time.

use ctcp_units::PacketNumber;
use thiserror::Error;

/// Words of the ring; a power of two.
const WORDS: usize = 128;

/// How many of the latest packet numbers are remembered: 8128. One word of the
/// ring is the one being filled. At 1 Gbit/s these are 0.1 s, far more than
/// packets of one path are late.
pub const REPLAY_WINDOW: u64 = (WORDS as u64 - 1) * 64;

/// Why a number cannot be that of a new packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ReplayError {
    /// It was received already.
    #[error("packet number received before")]
    Duplicate,
    /// It is so old that nobody remembers.
    #[error("packet number older than the replay window")]
    TooOld,
}

/// The numbers received on one path. Takes 1 KiB.
#[derive(Debug, Clone)]
pub struct ReplayWindow {
    words: [u64; WORDS],
    /// One above the highest number received.
    next: u64,
}

impl Default for ReplayWindow {
    fn default() -> Self {
        Self::new()
    }
}

impl ReplayWindow {
    /// A window that has received nothing.
    pub const fn new() -> Self {
        Self {
            words: [0; WORDS],
            next: 0,
        }
    }

    /// One above the highest number received; 0 at first.
    pub const fn expected(&self) -> PacketNumber {
        PacketNumber(self.next)
    }

    /// Whether a packet of this number may be new.
    ///
    /// # Errors
    /// If it is not, or nobody can tell.
    pub fn check(&self, number: PacketNumber) -> Result<(), ReplayError> {
        let number = number.0;
        if number >= self.next {
            return Ok(());
        }
        if number + REPLAY_WINDOW < self.next {
            return Err(ReplayError::TooOld);
        }
        let (word, bit) = place(number);
        if self.words[word] & bit != 0 {
            return Err(ReplayError::Duplicate);
        }
        Ok(())
    }

    /// Notes that the packet of this number was received **and opened**; a
    /// number that only looks right must not move the window.
    pub fn mark(&mut self, number: PacketNumber) {
        let number = number.0;
        if number + REPLAY_WINDOW < self.next {
            return;
        }
        if number >= self.next {
            self.advance(number);
        }
        let (word, bit) = place(number);
        self.words[word] |= bit;
    }

    /// Clears the words between the one in use and that of `number`.
    fn advance(&mut self, number: u64) {
        // The word of `next - 1` is in use; before the first packet word 0 is,
        // and it is clear.
        let in_use = self.next.saturating_sub(1) / 64;
        let wanted = number / 64;
        let stale = (wanted - in_use).min(WORDS as u64);
        for word in 0..stale {
            self.words[(wanted - word) as usize % WORDS] = 0;
        }
        self.next = number + 1;
    }
}

fn place(number: u64) -> (usize, u64) {
    ((number / 64) as usize % WORDS, 1 << (number % 64))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ctcp_units::Random;

    use super::super::test_support::seed;
    use super::*;

    fn check(window: &ReplayWindow, number: u64) -> Result<(), ReplayError> {
        window.check(PacketNumber(number))
    }

    fn mark(window: &mut ReplayWindow, number: u64) {
        window.mark(PacketNumber(number));
    }

    #[test]
    fn a_number_is_new_once() {
        let mut window = ReplayWindow::new();
        for number in [0, 1, 63, 64, 5, 100_000] {
            assert_eq!(check(&window, number), Ok(()));
            mark(&mut window, number);
            let again = check(&window, number);
            assert_eq!(again, Err(ReplayError::Duplicate));
        }
        assert_eq!(window.expected(), PacketNumber(100_001));
    }

    #[test]
    fn reordered_numbers_within_the_window_are_new() {
        let mut window = ReplayWindow::new();
        mark(&mut window, 20_000);
        let oldest = 20_001 - REPLAY_WINDOW;
        assert_eq!(check(&window, oldest), Ok(()));
        assert_eq!(check(&window, oldest - 1), Err(ReplayError::TooOld));
        mark(&mut window, oldest);
        assert_eq!(check(&window, oldest), Err(ReplayError::Duplicate));
        mark(&mut window, oldest - 1);
        assert_eq!(check(&window, oldest - 1), Err(ReplayError::TooOld));
    }

    #[test]
    fn it_agrees_with_a_set_that_forgets_nothing() {
        let mut random = Random::from_seed(seed());
        for _ in 0..20 {
            let mut window = ReplayWindow::new();
            let mut received = BTreeSet::new();
            let mut highest = 0u64;
            for _ in 0..5000 {
                let number = match random.below(10) {
                    0 => highest + random.below(3 * REPLAY_WINDOW),
                    1..4 => highest.saturating_sub(random.below(2 * REPLAY_WINDOW)),
                    _ => (highest + 70).saturating_sub(random.below(140)),
                };
                let expected = if received.contains(&number) {
                    Err(ReplayError::Duplicate)
                } else {
                    Ok(())
                };
                match check(&window, number) {
                    Err(ReplayError::TooOld) => assert!(number + REPLAY_WINDOW <= highest),
                    found => assert_eq!(found, expected, "number {number}"),
                }
                mark(&mut window, number);
                received.insert(number);
                highest = highest.max(number);
            }
        }
    }

    #[test]
    fn the_end_of_the_numbers_is_reached_without_a_panic() {
        let mut window = ReplayWindow::new();
        mark(&mut window, (1 << 62) - 1);
        assert_eq!(check(&window, 0), Err(ReplayError::TooOld));
        assert_eq!(window.expected(), PacketNumber(1 << 62));
    }
}
