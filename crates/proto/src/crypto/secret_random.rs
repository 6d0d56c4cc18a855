//! The generator behind every secret and every number that must not be guessed.
//!
//! Algorithm: ChaCha20 with fast key erasure. Each request runs the cipher from
//! the present key; the first 32 bytes become the next key, the rest is handed
//! out. Who learns the state later cannot compute what was handed out before,
//! and the same seed always gives the same sequence.

use core::fmt;

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use zeroize::{Zeroize, Zeroizing};

/// A cryptographically strong generator, deterministic by its seed.
///
/// The driver seeds it once from the system; tests seed it with a number.
pub struct SecretRandom {
    key: Zeroizing<[u8; 32]>,
}

impl SecretRandom {
    /// The generator that these 32 bytes name. They are as secret as all that
    /// is drawn from it.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self {
            key: Zeroizing::new(seed),
        }
    }

    /// The generator of a seeded test or simulation. **Guessable**: a key made
    /// from it protects nothing.
    pub fn from_test_seed(seed: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_be_bytes());
        Self::from_seed(bytes)
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        let mut cipher = ChaCha20Rng::from_seed(*self.key);
        cipher.fill_bytes(self.key.as_mut());
        cipher.fill_bytes(bytes);
    }

    /// The next `N` bytes: a connection id, a path challenge, an invite token.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    /// A generator of its own, so that parts do not disturb one another.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        let mut seed = self.array();
        let fork = Self::from_seed(seed);
        seed.zeroize();
        fork
    }
}

impl fmt::Debug for SecretRandom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretRandom(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        let mut one = SecretRandom::from_test_seed(7);
        let mut two = SecretRandom::from_test_seed(7);
        assert_eq!(one.array::<48>(), two.array::<48>());
        assert_eq!(one.fork().array::<16>(), two.fork().array::<16>());
        assert_ne!(
            one.array::<16>(),
            SecretRandom::from_test_seed(8).array::<16>()
        );
    }

    #[test]
    fn two_draws_differ_and_a_fork_differs_from_its_parent() {
        let mut random = SecretRandom::from_test_seed(1);
        assert_ne!(random.array::<16>(), random.array::<16>());
        let mut fork = random.fork();
        assert_ne!(random.array::<16>(), fork.array::<16>());
    }

    #[test]
    fn debug_output_hides_the_key() {
        let random = SecretRandom::from_seed([0xAB; 32]);
        assert_eq!(format!("{random:?}"), "SecretRandom(..)");
    }
}
