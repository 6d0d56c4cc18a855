//! The seeded generator behind every random choice that is not a secret.
//!
//! Algorithm: xoshiro256++ (Blackman, Vigna 2019), its state filled from the
//! seed by SplitMix64 as its authors recommend. Written out here because traces
//! that must repeat byte for byte may not hang on the version of a library.

/// A small, fast, repeatable generator. **Not for secrets.**
///
/// ```
/// use ctcp_units::Random;
/// let mut a = Random::from_seed(7);
/// let mut b = Random::from_seed(7);
/// assert_eq!(a.next_u64(), b.next_u64());
/// ```
#[derive(Debug, Clone)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The generator that `seed` names.
    pub fn from_seed(seed: u64) -> Self {
        let mut splitmix = seed;
        let state = core::array::from_fn(|_| {
            splitmix = splitmix.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = splitmix;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        });
        Self { state }
    }

    /// A generator of its own for a part that `label` names, so that parts do
    /// not disturb one another's sequences.
    #[must_use]
    pub fn fork(&mut self, label: u64) -> Self {
        Self::from_seed(self.next_u64() ^ label.rotate_left(32))
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in `[0, 1)`, 53 bits of it random.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True with probability `share`.
    pub fn chance(&mut self, share: f64) -> bool {
        self.unit() < share
    }

    /// Uniform in `0..bound`; the bias is below 2^-64 · `bound`.
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "an empty range has no element to draw");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Exponentially distributed with the given mean, by inversion.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference C code of xoshiro256++ seeded through splitmix64 with 0.
    #[test]
    fn the_sequence_of_seed_0_is_pinned() {
        let mut random = Random::from_seed(0);
        assert_eq!(random.next_u64(), 0x53175d61490b23df);
        assert_eq!(random.next_u64(), 0x61da6f3dc380d507);
    }

    #[test]
    fn the_mean_of_the_unit_is_a_half() {
        let mut random = Random::from_seed(1);
        let mean = (0..100_000).map(|_| random.unit()).sum::<f64>() / 1e5;
        assert!((mean - 0.5).abs() < 0.005, "{mean}");
    }

    #[test]
    fn forks_differ_and_repeat() {
        let mut one = Random::from_seed(3);
        let mut two = Random::from_seed(3);
        assert_eq!(one.fork(1).next_u64(), two.fork(1).next_u64());
        assert_ne!(one.fork(1).next_u64(), one.fork(2).next_u64());
    }

    #[test]
    fn every_value_below_a_bound_is_drawn() {
        let mut random = Random::from_seed(5);
        let mut seen = [false; 7];
        for _ in 0..1000 {
            seen[random.below(7) as usize] = true;
        }
        assert_eq!(seen, [true; 7]);
    }
}
