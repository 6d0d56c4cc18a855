//! Bytes that a seed names: what the demo's web server serves.

use ctcp_units::Random;
use sha2::{Digest, Sha256};

/// Bytes made at once.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;

/// A sequence of bytes that looks random and is made as it is read.
#[derive(Debug, Clone)]
pub(crate) struct Content {
    random: Random,
    left: u64,
}

impl Content {
    /// The first `len` bytes that `seed` names.
    pub(crate) fn new(seed: u64, len: u64) -> Self {
        Self {
            random: Random::from_seed(seed),
            left: len,
        }
    }

    /// Fills `chunk` with what comes next; empty at the end.
    pub(crate) fn next_chunk(&mut self, chunk: &mut Vec<u8>) {
        chunk.clear();
        let len = self.left.min(CHUNK_BYTES as u64);
        while (chunk.len() as u64) < len {
            chunk.extend(self.random.next_u64().to_le_bytes());
        }
        chunk.truncate(len as usize);
        self.left -= len;
    }

    /// The hash of all that is left, in hexadecimal.
    pub(crate) fn sha256(mut self) -> String {
        let mut hasher = Sha256::new();
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        while self.left > 0 {
            self.next_chunk(&mut chunk);
            hasher.update(&chunk);
        }
        hex(&hasher.finalize())
    }
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_names_the_same_bytes() {
        let len = 2 * CHUNK_BYTES as u64 + 5;
        assert_eq!(Content::new(1, len).sha256(), Content::new(1, len).sha256());
        assert_ne!(Content::new(1, len).sha256(), Content::new(2, len).sha256());
        let mut content = Content::new(1, len);
        let mut chunk = Vec::new();
        let mut lens = Vec::new();
        for _ in 0..4 {
            content.next_chunk(&mut chunk);
            lens.push(chunk.len());
        }
        assert_eq!(lens, [CHUNK_BYTES, CHUNK_BYTES, 5, 0]);
    }
}
