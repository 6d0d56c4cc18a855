//! Packet numbers of which only the lowest 24 bits travel.
//!
//! Algorithm: [RFC9000] §A.3 for a fixed length of three bytes.

use ctcp_units::PacketNumber;

/// Bits of a packet number on the wire.
const BITS: u32 = 24;
const WINDOW: u64 = 1 << BITS;

/// Packet numbers stay below 2^62, as in [RFC9000] §12.3.
pub(super) const NUMBER_END: u64 = 1 << 62;

/// The number nearest to the next `expected` one whose lowest 24 bits are
/// `truncated` (higher bits are ignored).
///
/// Right as long as the true number is less than 2^23 above, and not more than
/// 2^23 below, the expected one.
pub fn recover_number(expected: PacketNumber, truncated: u32) -> PacketNumber {
    let expected = expected.0;
    let truncated = u64::from(truncated) & (WINDOW - 1);
    let candidate = expected & !(WINDOW - 1) | truncated;
    let half = WINDOW / 2;
    let number = if candidate + half <= expected && candidate < NUMBER_END - WINDOW {
        candidate + WINDOW
    } else if candidate > expected + half && candidate >= WINDOW {
        candidate - WINDOW
    } else {
        candidate
    };
    PacketNumber(number)
}

/// Whether 24 bits of `number` suffice for a receiver that has got everything
/// up to `acknowledged` for certain, `None` if nothing yet.
///
/// A sender holds back a packet for which this is false: the receiver could
/// take its number for another one.
pub fn fits_truncated(number: PacketNumber, acknowledged: Option<PacketNumber>) -> bool {
    let unproven = match acknowledged {
        Some(acknowledged) => number.0.saturating_sub(acknowledged.0),
        None => number.0 + 1,
    };
    unproven <= WINDOW / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recover(expected: u64, truncated: u32) -> u64 {
        recover_number(PacketNumber(expected), truncated).0
    }

    #[test]
    fn a_number_is_found_on_both_sides_of_the_expected_one() {
        let half = WINDOW / 2;
        for expected in [
            0,
            1,
            half - 1,
            half,
            WINDOW - 1,
            WINDOW,
            5 * WINDOW + 17,
            1 << 40,
        ] {
            let lowest = (expected + 1).saturating_sub(half);
            for number in [
                lowest,
                expected.saturating_sub(1),
                expected,
                expected + 1,
                expected + half,
            ] {
                let truncated = (number % WINDOW) as u32;
                assert_eq!(recover(expected, truncated), number, "expected {expected}");
            }
        }
    }

    #[test]
    fn past_half_the_window_another_number_is_found() {
        let expected = 3 * WINDOW;
        let half = WINDOW / 2;
        assert_eq!(recover(expected, half as u32), expected + half);
        assert_eq!(recover(expected, half as u32 + 1), expected - half + 1);
    }

    #[test]
    fn no_number_is_negative_or_past_the_end() {
        assert_eq!(recover(0, 0xFF_FFFF), 0xFF_FFFF);
        assert_eq!(recover(NUMBER_END - 1, 0xFF_FFFF), NUMBER_END - 1);
        assert!(recover(NUMBER_END - 1, 0) < NUMBER_END);
        assert_eq!(recover(7, 0xFF00_0007), 7);
    }

    #[test]
    fn a_sender_stays_within_what_the_receiver_can_tell_apart() {
        let half = WINDOW / 2;
        let fits = |number, acknowledged| fits_truncated(PacketNumber(number), acknowledged);
        assert!(fits(half - 1, None));
        assert!(!fits(half, None));
        assert!(fits(100 + half, Some(PacketNumber(100))));
        assert!(!fits(101 + half, Some(PacketNumber(100))));
        // The receiver's expectation is at least one past what it acknowledged.
        assert_eq!(recover(101, ((100 + half) % WINDOW) as u32), 100 + half);
    }
}
