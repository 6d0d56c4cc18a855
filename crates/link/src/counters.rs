//! What a link has seen.

use ctcp_units::Duration;

use crate::config::LOSS_STAGES_MAX;

/// Counts of one link since it was made, as of the last moment it was told.
///
/// Packets are conserved: `offered + duplicated` equals
/// [`LinkCounters::lost`] + [`LinkCounters::dropped`] + `delivered` + `inside`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkCounters {
    /// Packets offered to the link.
    pub offered: u64,
    /// Their bytes.
    pub offered_bytes: u64,
    /// Packets that loss processes before the rate limiter took.
    pub lost_before: u64,
    /// Packets that loss processes after the rate limiter took.
    pub lost_after: u64,
    /// The same by the process's place in [`LinkConfig::losses`].
    ///
    /// [`LinkConfig::losses`]: crate::LinkConfig::losses
    pub lost_by_stage: [u64; LOSS_STAGES_MAX],
    /// Packets that found the queue full, or the policer without tokens.
    pub dropped_queue: u64,
    /// Packets longer than the MTU.
    pub dropped_too_long: u64,
    /// Packets that would have been more than the link may hold at once.
    pub dropped_link_full: u64,
    /// Packets delivered, duplicates included.
    pub delivered: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Packets marked CE by this queue.
    pub marked: u64,
    /// Copies that the link made.
    pub duplicated: u64,
    /// Packets, copies included, that are delivered with bits flipped.
    pub corrupted: u64,
    /// Packets delivered after one that was offered later; copies do not count.
    pub reordered: u64,
    /// Packets inside now: waiting, in transmission, or on their way.
    pub inside: u64,
    /// Packets in the queue now, the one in transmission included.
    pub queue_packets: u64,
    /// Their bytes.
    pub queue_bytes: u64,
    /// Most packets that were in the queue at once.
    pub queue_packets_max: u64,
    /// Most bytes that were in the queue at once.
    pub queue_bytes_max: u64,
    /// Packets that have left the rate limiter, those lost behind it included.
    pub departed: u64,
    /// Their bytes: the capacity used.
    pub departed_bytes: u64,
    /// Time that the departed packets waited before their transmission began,
    /// added up. An opportunity of a rate trace takes no time: there the whole
    /// stay counts.
    pub queueing_delay_sum: Duration,
    /// Longest such wait.
    pub queueing_delay_max: Duration,
}

impl LinkCounters {
    /// Packets that loss processes took, before and after the rate limiter.
    pub const fn lost(&self) -> u64 {
        self.lost_before + self.lost_after
    }

    /// Packets dropped for want of room or for their length.
    pub const fn dropped(&self) -> u64 {
        self.dropped_queue + self.dropped_too_long + self.dropped_link_full
    }

    /// Mean wait before transmission; zero before the first departure.
    pub fn queueing_delay_mean(&self) -> Duration {
        let nanos = self
            .queueing_delay_sum
            .as_nanos()
            .checked_div(u128::from(self.departed))
            .unwrap_or(0);
        u64::try_from(nanos).map_or(Duration::MAX, Duration::from_nanos)
    }

    /// Whether every packet is accounted for.
    pub const fn is_conserved(&self) -> bool {
        self.offered + self.duplicated
            == self.lost() + self.dropped() + self.delivered + self.inside
    }
}
