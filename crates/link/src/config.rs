//! How a link is: rate, queue, losses, delay.

use ctcp_units::{Duration, LossRate, Rate};
use thiserror::Error;

use crate::delay::Jitter;
use crate::limiter::RateLimit;
use crate::loss::{LossModel, Outage};

/// Most loss processes that one link can have in series.
pub const LOSS_STAGES_MAX: usize = 8;

/// Packets that a link holds at most unless told otherwise: two seconds of full
/// packets at 1.5 Gbit/s, so that a mistake cannot eat the machine's memory.
pub const INSIDE_PACKETS_MAX: usize = 1 << 18;

/// Smallest queue that [`QueueSize::bdp`] gives: one full Ethernet packet in
/// transmission and one waiting, without which the line would fall idle.
const QUEUE_BYTES_MIN: u64 = 2 * 1500;

/// Default queue: that of a Linux network interface.
const QUEUE_PACKETS_DEFAULT: u64 = 1000;

/// A length of the queue, the packet in transmission included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueSize {
    /// So many bytes.
    Bytes(u64),
    /// So many packets, of any length.
    Packets(u64),
}

impl QueueSize {
    /// `count` bandwidth-delay products of `rate` and the round trip `rtt`, and
    /// at least one packet of 1500 bytes.
    pub fn bdp(count: f64, rate: Rate, rtt: Duration) -> Self {
        let bytes = rate.bytes_in(rtt) as f64 * count;
        Self::Bytes((bytes.round() as u64).max(QUEUE_BYTES_MIN))
    }

    /// Whether a queue of this content is longer than this.
    pub(crate) const fn is_exceeded_by(self, packets: u64, bytes: u64) -> bool {
        match self {
            Self::Bytes(limit) => bytes > limit,
            Self::Packets(limit) => packets > limit,
        }
    }
}

/// Step marking: what the queue does with packets above a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EcnMarking {
    /// A packet with which the queue is longer than this is marked CE if it is
    /// ECN-capable.
    pub threshold: QueueSize,
    /// One that is not ECN-capable is dropped there (else it may fill the queue).
    pub drops_not_capable: bool,
}

/// Where a loss process stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// Before queue and rate limiter: lost packets use no capacity (dummynet).
    Before,
    /// After the rate limiter: lost packets have used it (loss at the receiver).
    After,
}

/// One loss process of a link.
#[derive(Debug, Clone, PartialEq)]
pub struct LossStage {
    /// Before or after the rate limiter.
    pub position: Position,
    /// What is lost.
    pub model: LossModel,
}

/// A change of the propagation delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelayChange {
    /// When, from when the configuration took effect.
    pub at: Duration,
    /// The delay from then on.
    pub delay: Duration,
}

/// Some packets are held back, so that later ones overtake them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reordering {
    /// Share of the packets held back, 0 to 1.
    pub share: f64,
    /// For how long beyond the delay of the others.
    pub extra: Duration,
}

/// One direction of a link.
///
/// The times of schedules and traces count from when the configuration took
/// effect. The fields may be set directly or by the methods of the same names;
/// [`LinkConfig::validate`] is run by whoever takes the configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkConfig {
    /// Rate limiter. Default of [`LinkConfig::unlimited`]: none.
    pub rate: RateLimit,
    /// Most that the queue of the limiter holds. Default: 1000 packets.
    pub queue: QueueSize,
    /// ECN marking by the queue. Default: none.
    pub ecn: Option<EcnMarking>,
    /// Longer packets are dropped, as on a path with a smaller MTU. Headers
    /// count; default: no limit.
    pub mtu_bytes: Option<u32>,
    /// Loss processes, in series in this order on either side of the limiter.
    pub losses: Vec<LossStage>,
    /// Propagation delay.
    pub delay: Duration,
    /// Later changes of it, in order of time. Default: none.
    pub delay_changes: Vec<DelayChange>,
    /// What is added to the delay of each packet. Default: nothing.
    pub jitter: Jitter,
    /// Jitter and changes of the delay never let a packet overtake another: one
    /// that would arrive early arrives right behind its predecessor. Default: yes.
    pub keeps_order: bool,
    /// Packets held back. Default: none.
    pub reordering: Option<Reordering>,
    /// Share of packets of which a copy follows, 0 to 1. The copy is made after
    /// the rate limiter and uses no capacity; it is held back or corrupted on
    /// its own. Default: 0.
    pub duplication_share: f64,
    /// Share of packets that arrive with bits flipped, 0 to 1. Default: 0.
    pub corruption_share: f64,
    /// Most packets inside the link at once, queue and delay together; more are
    /// dropped. Default: [`INSIDE_PACKETS_MAX`].
    pub inside_packets_max: usize,
}

impl LinkConfig {
    /// A link of this rate and propagation delay, with a queue of 1000 packets,
    /// that loses nothing else.
    pub fn new(rate: Rate, delay: Duration) -> Self {
        Self {
            rate: RateLimit::Fixed(rate),
            ..Self::unlimited(delay)
        }
    }

    /// A link that only delays.
    pub fn unlimited(delay: Duration) -> Self {
        Self {
            rate: RateLimit::Unlimited,
            queue: QueueSize::Packets(QUEUE_PACKETS_DEFAULT),
            ecn: None,
            mtu_bytes: None,
            losses: Vec::new(),
            delay,
            delay_changes: Vec::new(),
            jitter: Jitter::None,
            keeps_order: true,
            reordering: None,
            duplication_share: 0.0,
            corruption_share: 0.0,
            inside_packets_max: INSIDE_PACKETS_MAX,
        }
    }

    /// Sets the rate limiter.
    #[must_use]
    pub fn rate(self, rate: RateLimit) -> Self {
        Self { rate, ..self }
    }

    /// Sets the length of the queue.
    #[must_use]
    pub fn queue(self, queue: QueueSize) -> Self {
        Self { queue, ..self }
    }

    /// Sets the queue to `count` bandwidth-delay products of the link's mean rate
    /// and `rtt`; without a rate there is no queue to set.
    #[must_use]
    pub fn queue_bdp(self, count: f64, rtt: Duration) -> Self {
        match self.rate.mean() {
            Some(rate) => self.queue(QueueSize::bdp(count, rate, rtt)),
            None => self,
        }
    }

    /// Marks ECN-capable packets above `threshold`.
    #[must_use]
    pub fn ecn_threshold(self, threshold: QueueSize) -> Self {
        Self {
            ecn: Some(EcnMarking {
                threshold,
                drops_not_capable: false,
            }),
            ..self
        }
    }

    /// Drops packets longer than `mtu_bytes`.
    #[must_use]
    pub fn mtu(self, mtu_bytes: u32) -> Self {
        Self {
            mtu_bytes: Some(mtu_bytes),
            ..self
        }
    }

    /// Adds a loss process before the rate limiter.
    #[must_use]
    pub fn loss(self, model: LossModel) -> Self {
        self.loss_at(Position::Before, model)
    }

    /// Adds a loss process after the rate limiter.
    #[must_use]
    pub fn loss_after(self, model: LossModel) -> Self {
        self.loss_at(Position::After, model)
    }

    /// Adds a loss process at a place.
    #[must_use]
    pub fn loss_at(mut self, position: Position, model: LossModel) -> Self {
        self.losses.push(LossStage { position, model });
        self
    }

    /// Adds a change of the propagation delay; changes go in order of time.
    #[must_use]
    pub fn delay_change(mut self, at: Duration, delay: Duration) -> Self {
        self.delay_changes.push(DelayChange { at, delay });
        self
    }

    /// Sets the jitter; packets keep their order.
    #[must_use]
    pub fn jitter(self, jitter: Jitter) -> Self {
        Self { jitter, ..self }
    }

    /// Lets jitter and delay changes reorder packets.
    #[must_use]
    pub fn lets_overtake(self) -> Self {
        Self {
            keeps_order: false,
            ..self
        }
    }

    /// Holds the share `share` of the packets back by `extra`.
    #[must_use]
    pub fn reordering(self, share: f64, extra: Duration) -> Self {
        Self {
            reordering: Some(Reordering { share, extra }),
            ..self
        }
    }

    /// Duplicates the share `share` of the packets.
    #[must_use]
    pub fn duplication(self, share: f64) -> Self {
        Self {
            duplication_share: share,
            ..self
        }
    }

    /// Corrupts the share `share` of the packets.
    #[must_use]
    pub fn corruption(self, share: f64) -> Self {
        Self {
            corruption_share: share,
            ..self
        }
    }

    /// Refuses values that make no sense, by name.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_shares()?;
        if self.losses.len() > LOSS_STAGES_MAX {
            return Err(ConfigError::TooManyLosses {
                count: self.losses.len(),
            });
        }
        for stage in &self.losses {
            stage.model.validate()?;
        }
        if matches!(self.queue, QueueSize::Bytes(0) | QueueSize::Packets(0)) {
            return Err(ConfigError::QueueEmpty);
        }
        if self.mtu_bytes == Some(0) {
            return Err(ConfigError::MtuZero);
        }
        if self.inside_packets_max == 0 {
            return Err(ConfigError::InsideZero);
        }
        if matches!(self.rate, RateLimit::Policer { burst_bytes: 0, .. }) {
            return Err(ConfigError::PolicerBurstZero);
        }
        self.jitter.validate()?;
        for (index, pair) in self.delay_changes.windows(2).enumerate() {
            if pair[1].at < pair[0].at {
                return Err(ConfigError::DelayChangesUnordered { index: index + 1 });
            }
        }
        Ok(())
    }

    fn validate_shares(&self) -> Result<(), ConfigError> {
        let held_back = self.reordering.map_or(0.0, |reordering| reordering.share);
        for (name, value) in [
            ("reordering share", held_back),
            ("duplication share", self.duplication_share),
            ("corruption share", self.corruption_share),
        ] {
            if !(0.0..=1.0).contains(&value) {
                return Err(ConfigError::ShareOutOfRange { name, value });
            }
        }
        Ok(())
    }
}

/// Why a link cannot be as configured.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum ConfigError {
    /// A probability is not one.
    #[error("{name} is {value}: it must lie between 0 and 1")]
    ShareOutOfRange {
        /// Which one.
        name: &'static str,
        /// What was given.
        value: f64,
    },
    /// Losses of this mean cannot come in bursts so short.
    #[error(
        "bursts of {burst_packets} packets do not give a loss of {mean}: \
         their mean length must be at least {shortest} and finite, the loss below 100 %"
    )]
    BurstTooShort {
        /// What was given.
        burst_packets: f64,
        /// The shortest possible mean length.
        shortest: f64,
        /// The mean loss asked for.
        mean: LossRate,
    },
    /// Every 0th packet was to be lost.
    #[error("every 0th packet is none: count from 1, which loses everything")]
    EveryZeroth,
    /// The period is zero or longer than a century.
    #[error("an interference period of {period:?} is not possible: it must be above 0")]
    InterferencePeriod {
        /// What was given.
        period: Duration,
    },
    /// The pulse does not fit into the period.
    #[error("a pulse of {pulse:?} does not fit into a period of {period:?}")]
    PulseTooLong {
        /// Length of the pulse.
        pulse: Duration,
        /// Length of the period.
        period: Duration,
    },
    /// An outage does not end after it starts.
    #[error("outage {index} ends ({:?}) no later than it starts ({:?})", outage.end, outage.start)]
    OutageEmpty {
        /// Counted from 0.
        index: usize,
        /// What was given.
        outage: Outage,
    },
    /// Outages are out of order or overlap.
    #[error("outage {index} starts before the one ahead of it has ended: put them in order")]
    OutagesOverlap {
        /// Counted from 0.
        index: usize,
    },
    /// Phases of loss without length.
    #[error("phases of loss that take no time: give one of them a length above 0")]
    PhasesEmpty,
    /// More loss processes than [`LOSS_STAGES_MAX`].
    #[error("{count} loss processes: a link takes at most {LOSS_STAGES_MAX}")]
    TooManyLosses {
        /// How many were given.
        count: usize,
    },
    /// The queue could not even hold the packet in transmission.
    #[error("a queue of length 0 passes nothing: the packet in transmission counts, give it one")]
    QueueEmpty,
    /// The MTU is zero.
    #[error("an MTU of 0 bytes passes nothing")]
    MtuZero,
    /// The link may hold no packet.
    #[error("a link that may hold no packet passes nothing: raise inside_packets_max")]
    InsideZero,
    /// The policer's bucket holds nothing.
    #[error("a policer with a burst of 0 bytes passes nothing: give it at least one packet")]
    PolicerBurstZero,
    /// Jitter noise without an interval.
    #[error("jitter noise is redrawn every {interval:?}: that must be above 0")]
    JitterInterval {
        /// What was given.
        interval: Duration,
    },
    /// Delay changes are out of order.
    #[error("delay change {index} comes before the one ahead of it: put them in order of time")]
    DelayChangesUnordered {
        /// Counted from 0.
        index: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctcp_units::{micros, millis};

    fn refused(config: LinkConfig) -> ConfigError {
        config.validate().expect_err("an impossible configuration")
    }

    #[test]
    fn a_bdp_is_rate_times_round_trip_and_at_least_two_packets() {
        assert_eq!(
            QueueSize::bdp(1.0, Rate::mbit(25), millis(25)),
            QueueSize::Bytes(78_125)
        );
        assert_eq!(
            QueueSize::bdp(0.25, Rate::mbit(10), millis(40)),
            QueueSize::Bytes(12_500)
        );
        assert_eq!(
            QueueSize::bdp(0.1, Rate::kbit(64), millis(10)),
            QueueSize::Bytes(3000)
        );
    }

    #[test]
    fn impossible_values_are_refused_by_name() {
        let link = || LinkConfig::new(Rate::mbit(25), millis(12));
        assert_eq!(
            refused(link().duplication(1.5)),
            ConfigError::ShareOutOfRange {
                name: "duplication share",
                value: 1.5
            }
        );
        assert!(matches!(
            refused(link().corruption(f64::NAN)),
            ConfigError::ShareOutOfRange { .. }
        ));
        assert_eq!(refused(link().mtu(0)), ConfigError::MtuZero);
        assert_eq!(
            refused(link().queue(QueueSize::Packets(0))),
            ConfigError::QueueEmpty
        );
        let nine = (0..9).fold(link(), |link, _| link.loss(LossModel::EveryNth(7)));
        assert_eq!(refused(nine), ConfigError::TooManyLosses { count: 9 });
        let backwards = link()
            .delay_change(millis(9), millis(1))
            .delay_change(millis(8), micros(1));
        assert_eq!(
            refused(backwards),
            ConfigError::DelayChangesUnordered { index: 1 }
        );
        assert_eq!(link().validate(), Ok(()));
    }
}
