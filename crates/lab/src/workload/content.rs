//! Bytes that show where they belong.
//!
//! A table of random bytes is repeated. Its length is prime, so that data put at
//! the wrong place by any power of two, or any whole packet, does not fit.

use std::time::Instant;

use ctcp_units::Random;

/// Length of the table; prime.
const PERIOD: usize = 65_521;

/// The bytes of one transfer, named by a seed.
#[derive(Debug)]
pub(crate) struct Content {
    table: Box<[u8]>,
    made: Instant,
}

impl Content {
    pub(crate) fn new(seed: u64) -> Self {
        let mut table = vec![0; PERIOD].into_boxed_slice();
        Random::from_seed(seed).fill(&mut table);
        Self {
            table,
            made: Instant::now(),
        }
    }

    /// When it was made, for who counts from there.
    pub(crate) fn made(&self) -> Instant {
        self.made
    }

    /// Some bytes from `offset` on; at least one.
    pub(crate) fn at(&self, offset: u64) -> &[u8] {
        let start = (offset % PERIOD as u64) as usize;
        &self.table[start..]
    }

    /// Whether `bytes` are those from `offset` on.
    pub(crate) fn matches(&self, offset: u64, mut bytes: &[u8]) -> bool {
        let mut offset = offset;
        while !bytes.is_empty() {
            let expected = self.at(offset);
            let len = expected.len().min(bytes.len());
            if bytes[..len] != expected[..len] {
                return false;
            }
            bytes = &bytes[len..];
            offset += len as u64;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(content: &Content, from: u64, len: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while all.len() < len {
            let more = content.at(from + all.len() as u64);
            all.extend_from_slice(&more[..more.len().min(len - all.len())]);
        }
        all
    }

    #[test]
    fn bytes_fit_only_where_they_belong() {
        let content = Content::new(7);
        for from in [0, 1, 65_520, 65_521, 3 * 65_521 - 5] {
            let part = bytes(&content, from, 200_000);
            assert!(content.matches(from, &part));
            assert!(!content.matches(from + 1, &part));
            assert!(!content.matches(from + 65_536, &part));
            assert!(!content.matches(from + 1448, &part));
        }
    }

    #[test]
    fn one_flipped_bit_is_seen() {
        let content = Content::new(8);
        let mut part = bytes(&content, 60_000, 20_000);
        part[19_999] ^= 1;
        assert!(!content.matches(60_000, &part));
        assert!(content.matches(60_000, &part[..19_999]));
    }

    #[test]
    fn seeds_name_different_bytes() {
        let other = bytes(&Content::new(1), 0, 100);
        assert!(!Content::new(2).matches(0, &other));
    }
}
