//! Connection ids that name their connection and path to nobody but the endpoint
//! that issued them.
//!
//! An id is (connection, path) enciphered with a key of the endpoint's: four
//! Feistel rounds over two halves of 32 bits, each with AES-128 as its round
//! function, which makes a pseudorandom permutation (Luby and Rackoff). So the
//! endpoint needs no table that grows with the paths of its connections,
//! connections make ids for further paths by themselves, and whoever watches
//! cannot tell that two paths belong together.

use ring::aead::quic::{AES_128, HeaderProtectionKey};

use super::secret_random::SecretRandom;

/// Rounds of the permutation.
const ROUNDS: u8 = 4;
/// Bits of the path's id.
const PATH_BITS: u32 = 24;

/// Makes connection ids and reads them.
pub struct IdCipher {
    key: HeaderProtectionKey,
}

impl core::fmt::Debug for IdCipher {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("IdCipher").finish_non_exhaustive()
    }
}

impl IdCipher {
    /// Paths of a connection that ids can be made for: 0 to this, exclusive.
    pub const PATHS_END: u32 = 1 << PATH_BITS;

    /// A cipher with a key of `random`.
    pub fn generate(random: &mut SecretRandom) -> Self {
        let key: [u8; 16] = random.array();
        Self {
            key: HeaderProtectionKey::new(&AES_128, &key).expect("16 bytes are a key of AES-128"),
        }
    }

    fn round(&self, round: u8, half: u32) -> u32 {
        let mut sample = [0; 16];
        sample[..4].copy_from_slice(&half.to_be_bytes());
        sample[4] = round;
        let mask = self.key.new_mask(&sample);
        let [a, b, c, d, _] = mask.expect("a sample has 16 bytes");
        u32::from_be_bytes([a, b, c, d])
    }

    /// The id of path `path`, below [`IdCipher::PATHS_END`], of the endpoint's
    /// connection number `connection`, below 2^40.
    ///
    /// # Panics
    /// If one of them is out of its range.
    pub fn id(&self, connection: u64, path: u32) -> [u8; 8] {
        assert!(connection < 1 << (64 - PATH_BITS), "fewer connections");
        assert!(path < Self::PATHS_END, "fewer paths");
        let plain = connection << PATH_BITS | u64::from(path);
        let (mut left, mut right) = ((plain >> 32) as u32, plain as u32);
        for round in 0..ROUNDS {
            (left, right) = (right, left ^ self.round(round, right));
        }
        (u64::from(left) << 32 | u64::from(right)).to_be_bytes()
    }

    /// The connection and the path that an id names. Any eight bytes name some:
    /// whether they exist is for the caller to know.
    pub fn read(&self, id: [u8; 8]) -> (u64, u32) {
        let sealed = u64::from_be_bytes(id);
        let (mut left, mut right) = ((sealed >> 32) as u32, sealed as u32);
        for round in (0..ROUNDS).rev() {
            (left, right) = (right ^ self.round(round, left), left);
        }
        let plain = u64::from(left) << 32 | u64::from(right);
        (plain >> PATH_BITS, plain as u32 & (Self::PATHS_END - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctcp_units::Random;
    use std::collections::BTreeSet;

    fn cipher(seed: u8) -> IdCipher {
        IdCipher::generate(&mut SecretRandom::from_seed([seed; 32]))
    }

    #[test]
    fn what_an_id_names_comes_back() {
        let (one, mut random) = (cipher(1), Random::from_seed(7));
        for _ in 0..1000 {
            let connection = random.next_u64() >> PATH_BITS;
            let path = random.next_u64() as u32 % IdCipher::PATHS_END;
            assert_eq!(one.read(one.id(connection, path)), (connection, path));
        }
    }

    #[test]
    fn ids_are_all_different_and_look_unrelated() {
        let one = cipher(2);
        let ids: BTreeSet<_> = (0..40)
            .flat_map(|connection| (0..40).map(move |path| (connection, path)))
            .map(|(connection, path)| one.id(connection, path))
            .collect();
        assert_eq!(ids.len(), 1600);
        // Each bit is set in about half of them.
        for bit in 0..64 {
            let set = ids
                .iter()
                .filter(|id| u64::from_be_bytes(**id) >> bit & 1 == 1);
            assert!((600..1000).contains(&set.count()), "bit {bit}");
        }
    }

    #[test]
    fn another_endpoint_reads_something_else() {
        let id = cipher(3).id(5, 1);
        assert_ne!(cipher(4).read(id), (5, 1));
    }
}
