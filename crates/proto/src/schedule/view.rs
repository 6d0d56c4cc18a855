//! What schedulers see: blocks and paths, read-only.

use ctcp_units::{Duration, LossRate};

/// Loads within this of the need count as equal: (1−0.2)·40 must count as 32.
const TOLERANCE: f64 = 1e-9;
/// Estimates above this share count as this, so that nothing is divided by zero.
const LOSS_MAX: f64 = 0.9;

/// What a scheduler sees of a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockView {
    /// Degrees of freedom the receiver still lacks, as far as is known.
    pub dof_missing: u32,
    /// Packets of the block in flight that are expected to arrive: the sum of
    /// (1 − p) over those younger than 1.5 round trips of their paths.
    pub arrivals_expected: f64,
}

impl BlockView {
    /// Whether what is in flight is expected to fall short ([MP12] Algorithm 3,
    /// E-MP12-08 and -09).
    pub fn falls_short(&self) -> bool {
        self.falls_short_beside(0.0)
    }

    /// The same if `others` more packets will have arrived by then.
    pub fn falls_short_beside(&self, others: f64) -> bool {
        let load = self.arrivals_expected + others;
        self.dof_missing > 0 && load < f64::from(self.dof_missing) - TOLERANCE
    }

    /// Packets that would have to be sent on a path with this share of arrivals
    /// to make up for what is expected to be missing; a real number.
    pub fn packets_wanted(&self, arriving: f64) -> f64 {
        (f64::from(self.dof_missing) - self.arrivals_expected) / arriving
    }
}

/// What a scheduler sees of a path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathView {
    /// Symbols may go out on it: it is validated and alive, and no backup while
    /// others are.
    pub is_usable: bool,
    /// One more packet may be in flight.
    pub has_token: bool,
    /// Time until the path can take a packet: until the pacer lets one go or,
    /// without a token, until the next one may be expected back.
    pub wait: Duration,
    /// Smoothed round trip.
    pub srtt: Duration,
    /// Share of packets lost.
    pub loss_rate: LossRate,
    /// Packets that hold a token.
    pub in_flight: u64,
    /// Tokens in all.
    pub tokens: f64,
    /// What a packet may wait for another path rather than take this one, in
    /// hundredths of a second.
    pub cost: u8,
}

impl PathView {
    /// Share of packets that arrive.
    pub fn arriving(&self) -> f64 {
        1.0 - self.loss_rate.share().min(LOSS_MAX)
    }

    /// Packets per second that arrive when all tokens are in use.
    pub fn packets_per_second(&self) -> f64 {
        self.arriving() * self.tokens / self.srtt.as_secs_f64().max(1e-6)
    }

    /// Seconds from leaving to arrival, on average: half a round trip, and a
    /// whole one more for each time that the packet is lost; and what avoiding
    /// the path is worth.
    pub fn delivery_seconds(&self) -> f64 {
        let arriving = self.arriving();
        let way = self.srtt.as_secs_f64() * (0.5 + (1.0 - arriving) / arriving);
        way + f64::from(self.cost) / 100.0
    }

    /// Seconds until a packet given to the path now arrives.
    pub fn arrival_seconds(&self) -> f64 {
        self.wait.as_secs_f64() + self.delivery_seconds()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use ctcp_units::millis;

    /// A path with room for packets now.
    pub(in crate::schedule) fn path(rtt_ms: u64, tokens: f64, loss: f64) -> PathView {
        PathView {
            is_usable: true,
            has_token: true,
            wait: Duration::ZERO,
            srtt: millis(rtt_ms),
            loss_rate: LossRate::clamped(loss),
            in_flight: 0,
            tokens,
            cost: 0,
        }
    }

    #[test]
    fn forty_packets_at_20_percent_are_enough_for_32() {
        let block = |dof_missing, arrivals_expected| BlockView {
            dof_missing,
            arrivals_expected,
        };
        assert!(!block(32, 0.8 * 40.0).falls_short());
        assert!(block(32, 0.8 * 39.0).falls_short());
        assert!(!block(0, 0.0).falls_short());
    }

    #[test]
    fn losses_delay_arrivals() {
        assert!((path(100, 10.0, 0.0).arrival_seconds() - 0.05).abs() < 1e-9);
        // One packet in five takes a round trip more, one of those another, …
        assert!((path(100, 10.0, 0.2).arrival_seconds() - 0.075).abs() < 1e-9);
        assert!((path(100, 10.0, 0.2).packets_per_second() - 80.0).abs() < 1e-9);
        let dead = path(100, 10.0, 1.0);
        assert!(dead.arrival_seconds().is_finite());
    }
}
