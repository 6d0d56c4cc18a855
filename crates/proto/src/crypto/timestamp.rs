//! The timestamps of client hellos: a recorded hello is not taken twice.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use super::identity::PublicKey;

/// A hello whose timestamp is not above the last one of its key: a copy, or the
/// clock of the client was set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("hello is not newer than the last one of this key (timestamp {last})")]
pub struct StaleTimestamp {
    /// The timestamp to exceed, in the client's nanoseconds. Told in
    /// [`super::Refusal::Stale`], it lets a client without a clock go on.
    pub last: u64,
}

/// The last timestamp of each client, for a bounded number of clients.
///
/// Only allowed keys are reported, so the list of allowed keys bounds it as
/// well. If it is full, the entry with the lowest timestamp is forgotten; an
/// unknown client must then exceed that one, so that forgetting opens no door
/// to old hellos.
#[derive(Debug)]
pub struct TimestampGuard {
    last: BTreeMap<PublicKey, u64>,
    /// The same, sorted by timestamp.
    oldest: BTreeSet<(u64, PublicKey)>,
    capacity: usize,
    /// What a client that is not in `last` must exceed.
    floor: Option<u64>,
}

impl TimestampGuard {
    /// A guard for up to `capacity` clients (at least one) that remembers
    /// nothing.
    pub fn new(capacity: usize) -> Self {
        Self {
            last: BTreeMap::new(),
            oldest: BTreeSet::new(),
            capacity: capacity.max(1),
            floor: None,
        }
    }

    /// Takes note of the hello of an allowed client.
    ///
    /// # Errors
    /// If its timestamp is not above the last one; nothing has changed.
    pub fn advance(&mut self, client: &PublicKey, timestamp: u64) -> Result<(), StaleTimestamp> {
        let known = self.last.get(client).copied();
        if let Some(last) = known.or(self.floor)
            && timestamp <= last
        {
            return Err(StaleTimestamp { last });
        }
        if let Some(last) = known {
            self.oldest.remove(&(last, *client));
        }
        self.last.insert(*client, timestamp);
        self.oldest.insert((timestamp, *client));
        if self.last.len() > self.capacity {
            self.forget_oldest();
        }
        Ok(())
    }

    /// How many clients are remembered.
    pub fn len(&self) -> usize {
        self.last.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.last.is_empty()
    }

    fn forget_oldest(&mut self) {
        if let Some((timestamp, client)) = self.oldest.pop_first() {
            self.last.remove(&client);
            self.floor = self.floor.max(Some(timestamp));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> PublicKey {
        PublicKey::from_bytes([number; 32])
    }

    #[test]
    fn a_timestamp_must_rise_for_each_client_by_itself() {
        let mut guard = TimestampGuard::new(10);
        assert_eq!(guard.advance(&key(1), 0), Ok(()));
        assert_eq!(guard.advance(&key(1), 0), Err(StaleTimestamp { last: 0 }));
        assert_eq!(guard.advance(&key(1), 5), Ok(()));
        assert_eq!(guard.advance(&key(1), 4), Err(StaleTimestamp { last: 5 }));
        assert_eq!(guard.advance(&key(2), 3), Ok(()));
        assert_eq!(guard.advance(&key(1), u64::MAX), Ok(()));
    }

    #[test]
    fn a_forgotten_client_still_cannot_be_replayed() {
        let mut guard = TimestampGuard::new(3);
        for number in 1..=4 {
            assert_eq!(guard.advance(&key(number), u64::from(number) * 10), Ok(()));
        }
        assert_eq!(guard.len(), 3);
        assert_eq!(guard.advance(&key(1), 10), Err(StaleTimestamp { last: 10 }));
        assert_eq!(guard.advance(&key(1), 50), Ok(()));
        // That pushed out client 2, whose hello stays refused as well.
        assert_eq!(guard.advance(&key(2), 20), Err(StaleTimestamp { last: 20 }));
        assert_eq!(guard.len(), 3);
    }

    #[test]
    fn a_clock_far_ahead_locks_nobody_else_out() {
        let mut guard = TimestampGuard::new(2);
        assert_eq!(guard.advance(&key(1), u64::MAX), Ok(()));
        for number in 2..50 {
            assert_eq!(guard.advance(&key(number), u64::from(number)), Ok(()));
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut guard = TimestampGuard::new(100);
        for number in 0..10_000u64 {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&number.to_be_bytes());
            guard
                .advance(&PublicKey::from_bytes(bytes), number)
                .unwrap();
            assert!(guard.len() <= 100 && guard.oldest.len() == guard.len());
        }
    }
}
