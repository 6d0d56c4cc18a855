//! What goes into a link and what comes out of it.

use ctcp_units::{Instant, Random};

/// The two ECN bits of the IP header ([RFC3168] §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Ecn {
    /// The sender does not understand ECN: bits 00.
    #[default]
    NotEct,
    /// ECN-capable, ECT(1): bits 01.
    Ect1,
    /// ECN-capable, ECT(0): bits 10.
    Ect0,
    /// Congestion was experienced: bits 11.
    Ce,
}

impl Ecn {
    /// The codepoint in the lowest two bits of `bits`.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            0b11 => Self::Ce,
            _ => Self::NotEct,
        }
    }

    /// The two bits as they stand in the IP header.
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotEct => 0b00,
            Self::Ect1 => 0b01,
            Self::Ect0 => 0b10,
            Self::Ce => 0b11,
        }
    }

    /// Whether a queue may mark the packet instead of dropping it.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}

/// A packet as it is offered to a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<T> {
    /// Length that the link charges for, headers included, in bytes.
    pub len_bytes: u32,
    /// The ECN bits that the packet arrives with.
    pub ecn: Ecn,
    /// What the caller wants to have back at the far end.
    pub payload: T,
}

impl<T> Packet<T> {
    /// A packet of `len_bytes` bytes that is not ECN-capable.
    pub const fn new(len_bytes: u32, payload: T) -> Self {
        Self {
            len_bytes,
            ecn: Ecn::NotEct,
            payload,
        }
    }

    /// The same packet with other ECN bits.
    #[must_use]
    pub fn ecn(self, ecn: Ecn) -> Self {
        Self { ecn, ..self }
    }
}

/// What became of a packet at the moment it was offered.
///
/// [`Fate::Accepted`] is not a promise: a loss process after the rate limiter
/// may still take the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is on its way.
    Accepted,
    /// The loss process at this index of [`LinkConfig::losses`] took it.
    ///
    /// [`LinkConfig::losses`]: crate::LinkConfig::losses
    Lost(usize),
    /// The queue had no room for it, or the policer no tokens.
    QueueFull,
    /// It is longer than the link's MTU.
    TooLong,
    /// The link holds as many packets as it may.
    LinkFull,
}

/// A packet at the far end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivered<T> {
    /// Length that the link charged for, in bytes.
    pub len_bytes: u32,
    /// The ECN bits, CE if the queue marked it.
    pub ecn: Ecn,
    /// What was offered.
    pub payload: T,
    /// When it was offered.
    pub sent_at: Instant,
    /// When it arrives: never later than the `now` of the poll that returned it.
    pub due: Instant,
    /// The copy that the link made of a packet, not the packet itself.
    pub is_duplicate: bool,
    /// Bits were flipped on the way; the caller flips them.
    pub corruption: Option<Corruption>,
}

/// The order to flip a few bits of a packet, the same ones for the same order.
///
/// A link does not know the bytes of what it carries; whoever does applies this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Corruption {
    seed: u64,
}

/// Most bits that one corruption flips.
const FLIPS_MAX: u64 = 8;

impl Corruption {
    /// The corruption that `seed` names.
    pub const fn from_seed(seed: u64) -> Self {
        Self { seed }
    }

    /// Flips one to eight bits of `bytes`, at places that may lie anywhere.
    ///
    /// At least one bit changes unless `bytes` is empty.
    pub fn apply(self, bytes: &mut [u8]) {
        let bit_count = bytes.len() as u64 * 8;
        if bit_count == 0 {
            return;
        }
        let mut random = Random::from_seed(self.seed);
        let flip_count = 1 + random.below(FLIPS_MAX.min(bit_count));
        // Steps of less than bit_count / flip_count never come round to a bit
        // flipped before, so no two flips undo each other.
        let stride_max = bit_count / flip_count;
        let mut bit = random.below(bit_count);
        for _ in 0..flip_count {
            bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
            bit = (bit + 1 + random.below(stride_max)) % bit_count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bits_of_every_codepoint_come_back() {
        for bits in 0..4 {
            assert_eq!(Ecn::from_bits(bits).bits(), bits);
            assert_eq!(Ecn::from_bits(bits | 0xfc).bits(), bits);
        }
        assert!(!Ecn::NotEct.is_capable());
        assert!(Ecn::Ce.is_capable());
    }

    #[test]
    fn corruption_changes_one_to_eight_bits_of_any_length() {
        for len in 1..40 {
            for seed in 0..200 {
                let mut bytes = vec![0; len];
                Corruption::from_seed(seed).apply(&mut bytes);
                let flipped: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
                assert!(
                    (1..=8).contains(&flipped),
                    "{flipped} of {len}, seed {seed}"
                );
            }
        }
    }

    #[test]
    fn the_same_corruption_undoes_itself_and_spares_the_empty_packet() {
        let mut bytes = *b"the same bits again";
        Corruption::from_seed(3).apply(&mut bytes);
        assert_ne!(&bytes, b"the same bits again");
        Corruption::from_seed(3).apply(&mut bytes);
        assert_eq!(&bytes, b"the same bits again");
        Corruption::from_seed(3).apply(&mut []);
    }
}
