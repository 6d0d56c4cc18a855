//! How losses come on one path: how often, how long in a row, and how much the
//! share varies from one round trip to the next.
//!
//! [`LossRuns`] hears the fates of packets in the order in which they were sent
//! and tells whether a loss makes the next one likelier. With p the share of
//! packets lost and r the share of losses that follow a loss, the correlation of
//! neighbours is ρ = (r − p)/(1 − p): the simple Gilbert model, in which losses
//! come in runs of 1/(1 − r) packets on average and the number of losses among n
//! packets varies by n·p·(1 − p)·(1 + ρ)/(1 − ρ).
//!
//! [`RoundLosses`] is [FEC]'s: μ and σ of the share lost, a round trip at a time.

use ctcp_congestion::WindowLoss;
use ctcp_units::{LossRate, PacketNumber};

/// Losses remembered: the estimate forgets half when it has seen so many.
const LOSSES_MAX: f64 = 400.0;
/// Independence is believed in as if so many losses had shown it.
const LOSSES_BELIEVED: f64 = 8.0;
/// A correlation above this counts as this: runs of a hundred packets.
const CORRELATION_MAX: f64 = 0.99;

/// Packets of a probe timeout, and more of them for each packet of the mean run of
/// losses from a length on, up to a most.
const PROBES: u32 = 2;
const PROBES_RUN: f64 = 3.0;
const PROBES_MAX: f64 = 64.0;
const RUN_MIN: f64 = 2.0;

/// A run without loss that is less likely than this, at the estimated rate, shows
/// that what was lost before says nothing any more: a queue that overflowed once.
const CEASED: f64 = 0.01;

/// What redundancy is planned with.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct LossProcess {
    /// p: share of packets lost.
    pub(crate) rate: LossRate,
    /// So many packets have arrived since the last loss that there is none any more.
    pub(crate) has_ceased: bool,
    /// ρ: correlation of the fates of neighbouring packets, 0 to 0.99.
    pub(crate) correlation: f64,
    /// μ of [FEC]: mean share lost in a round trip, 0 to 0.9.
    pub(crate) round_mean: f64,
    /// σ of [FEC]: its deviation from round trip to round trip.
    pub(crate) round_deviation: f64,
}

impl LossProcess {
    /// Packets that a probe timeout sends, with a window of `tokens` packets.
    ///
    /// Two, as one may be lost as easily as what it probes for ([RFC9002] §6.2.4).
    /// Where packets are lost in runs of 1/(1 − ρ), and these pass with the packets
    /// and not with time, two would hardly ever outlast one, least of all on both
    /// ways: so three for each of a run more, since one ACK comes for two, but no
    /// more than a quarter of the window, nor than 64.
    pub(crate) fn probes(&self, tokens: f64) -> u32 {
        let run = 1.0 / (1.0 - self.correlation);
        let more = match run >= RUN_MIN {
            true => (PROBES_RUN * run).min(tokens / 4.0).min(PROBES_MAX),
            false => 0.0,
        };
        PROBES + more as u32
    }

    /// Losses at this rate, one independent of the other.
    #[cfg(test)]
    pub(crate) fn independent(share: f64) -> Self {
        Self {
            rate: LossRate::clamped(share),
            round_mean: share,
            ..Self::default()
        }
    }
}

/// Counts losses that follow losses, and packets since the last.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LossRuns {
    was_lost: bool,
    /// Packets that arrived since the last loss.
    since_loss: u32,
    /// Packets sent right after one that was lost.
    after_loss: f64,
    /// Of these, lost themselves.
    lost_again: f64,
}

impl LossRuns {
    /// The fate of the next packet, in the order of sending.
    pub(crate) fn on_fate(&mut self, is_lost: bool) {
        if self.was_lost {
            self.after_loss += 1.0;
            self.lost_again += f64::from(u8::from(is_lost));
            if self.after_loss >= LOSSES_MAX {
                self.after_loss /= 2.0;
                self.lost_again /= 2.0;
            }
        }
        self.was_lost = is_lost;
        self.since_loss = if is_lost {
            0
        } else {
            self.since_loss.saturating_add(1)
        };
    }

    /// Whether a share `rate` of packets can hardly have been lost of late.
    pub(crate) fn has_ceased(&self, rate: LossRate) -> bool {
        (1.0 - rate.share()).powf(self.since_loss.into()) < CEASED
    }

    /// ρ, if a share `rate` of packets is lost.
    pub(crate) fn correlation(&self, rate: LossRate) -> f64 {
        let p = rate.share();
        if p >= 1.0 {
            return 0.0;
        }
        let believed = LOSSES_BELIEVED;
        let again = (self.lost_again + believed * p) / (self.after_loss + believed);
        ((again - p) / (1.0 - p)).clamp(0.0, CORRELATION_MAX)
    }
}

/// Shares of packets lost, a round trip at a time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RoundLosses {
    acked: u64,
    lost: u64,
    /// A round ends when a packet from here on is acknowledged.
    end: PacketNumber,
    loss: WindowLoss,
}

impl RoundLosses {
    /// Packets of which it became known that they arrived, or did not.
    pub(crate) fn on_packets(&mut self, acked: u64, lost: u64) {
        self.acked += acked;
        self.lost += lost;
    }

    /// The newest packet was acknowledged; `next` is the next one to be sent.
    pub(crate) fn on_newest(&mut self, newest: PacketNumber, next: PacketNumber) {
        if newest < self.end {
            return;
        }
        let packets = self.acked + self.lost;
        if packets > 0 {
            self.loss.on_window(self.lost as f64 / packets as f64);
        }
        (self.acked, self.lost, self.end) = (0, 0, next);
    }

    /// Mean and deviation of the share.
    pub(crate) fn loss(&self) -> WindowLoss {
        self.loss
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctcp_units::Random;

    #[test]
    fn a_probe_outlasts_a_run_of_losses_within_a_quarter_of_the_window() {
        let runs = |mean: f64| LossProcess {
            correlation: 1.0 - 1.0 / mean,
            ..LossProcess::default()
        };
        assert_eq!(LossProcess::independent(0.2).probes(1e6), 2);
        assert_eq!(runs(1.9).probes(1e6), 2);
        assert_eq!(runs(8.0).probes(1e6), 26);
        assert_eq!(runs(8.0).probes(40.0), 12);
        assert_eq!(runs(100.0).probes(1e6), 66);
    }

    #[test]
    fn independent_losses_show_no_correlation() {
        for seed in 0..20 {
            let mut random = Random::from_seed(seed);
            let mut runs = LossRuns::default();
            for _ in 0..20_000 {
                runs.on_fate(random.chance(0.2));
            }
            let correlation = runs.correlation(LossRate::clamped(0.2));
            assert!(correlation < 0.12, "seed {seed}: {correlation}");
        }
        assert_eq!(LossRuns::default().correlation(LossRate::ZERO), 0.0);
        assert_eq!(LossRuns::default().correlation(LossRate::ONE), 0.0);
    }

    /// Runs of eight packets: a loss is followed by another seven times in eight.
    #[test]
    fn runs_of_losses_show_their_length() {
        for seed in 0..20 {
            let mut random = Random::from_seed(seed);
            let mut runs = LossRuns::default();
            let mut is_bad = false;
            for _ in 0..40_000 {
                is_bad = random.chance(if is_bad { 0.875 } else { 0.125 * 0.05 / 0.95 });
                runs.on_fate(is_bad);
            }
            let correlation = runs.correlation(LossRate::clamped(0.05));
            let run = 1.0 / (1.0 - correlation) / 0.95;
            assert!((5.0..14.0).contains(&run), "seed {seed}: runs of {run}");
        }
    }

    #[test]
    fn losses_have_ceased_when_too_many_packets_arrive_in_a_row() {
        let mut runs = LossRuns::default();
        runs.on_fate(true);
        for _ in 0..458 {
            runs.on_fate(false);
        }
        let one_percent = LossRate::clamped(0.01);
        assert!(!runs.has_ceased(one_percent));
        runs.on_fate(false);
        assert!(runs.has_ceased(one_percent));
        assert!(!runs.has_ceased(LossRate::clamped(0.001)));
        runs.on_fate(true);
        assert!(!runs.has_ceased(one_percent));
    }

    #[test]
    fn a_round_ends_with_the_first_packet_sent_in_the_next() {
        let mut rounds = RoundLosses::default();
        rounds.on_packets(6, 4);
        rounds.on_newest(PacketNumber(0), PacketNumber(20));
        assert!((rounds.loss().mean() - 0.05).abs() < 1e-9);
        rounds.on_packets(0, 10);
        rounds.on_newest(PacketNumber(19), PacketNumber(40));
        assert!((rounds.loss().mean() - 0.05).abs() < 1e-9);
        rounds.on_newest(PacketNumber(20), PacketNumber(40));
        assert!((rounds.loss().mean() - (0.05 + 0.95 / 8.0)).abs() < 1e-9);
        assert!(rounds.loss().deviation() > 0.2);
    }
}
