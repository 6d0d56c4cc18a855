//! Loss rate of one path, and the count that keeps lost ACKs out of it.
//!
//! [`LossEstimator`] is [MP12] Algorithm 1 (`transport.md` §9). Each packet is
//! one datum z, 1 if it was lost and 0 if it arrived, and each estimate is the
//! filter x ← (1−μ)·x + μ·z. [`LossLedger`] decides what the data are.
//!
//! Departures from Algorithm 1:
//! - A gap is a loss only after the path's reordering allowance, and a packet
//!   acknowledged after that takes its loss back.
//! - A lost ACK is not a lost packet (E-MP12-27): the receiver's cumulative count
//!   says how many arrived, whatever became of the ACKs that named them.
//! - One ACK may speak of many packets; see [`LossEstimator::on_packets`].

use ctcp_congestion::LossEstimate;
use ctcp_units::LossRate;

/// μ of `transport.md` §17: the short memory, fifty packets.
pub(crate) const MU: f64 = 0.02;
/// ν of `transport.md` §17: the long memory, five hundred packets.
pub(crate) const NU: f64 = 0.002;

/// Standard deviations of the short memory that count as noise: one in eighty
/// estimates at a steady rate lies further off.
const NOISE_MAX: f64 = 2.5;

/// Smoothed shares of packets lost: a short and a long memory, and the mean
/// distance between them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LossEstimator {
    mu: Gain,
    nu: Gain,
    start: LossEstimate,
    p: f64,
    p_long: f64,
    p_dev: f64,
}

impl LossEstimator {
    /// An estimator with gains `mu` and `nu`, both in `(0, 1)` and
    /// `nu ≤ mu`, that starts from `start`.
    ///
    /// # Panics
    /// If the gains are not as said.
    pub(crate) fn new(mu: f64, nu: f64, start: LossEstimate) -> Self {
        assert!(
            0.0 < nu && nu <= mu && mu < 1.0,
            "gains must obey 0 < nu ≤ mu < 1"
        );
        Self {
            mu: Gain::new(mu),
            nu: Gain::new(nu),
            start,
            p: start.p.share(),
            p_long: start.p_long.share(),
            p_dev: start.p_dev,
        }
    }

    /// Takes in that `acked` packets arrived and `lost` did not.
    ///
    /// For one acknowledged packet this is the printed rule, the success first
    /// and the losses after it (E-MP12-03):
    ///
    /// ```text
    /// p ← p·(1−μ)^(lost+1) + 1 − (1−μ)^lost
    /// ```
    ///
    /// For n acknowledged packets the rule is applied n times with lost/n each,
    /// summed up in closed form. All successes and then all losses would do for
    /// small n, but read just after the losses it overrates them: by a tenth
    /// for n = 10. Spread evenly the mean is the loss rate for any n, which is
    /// what the printed order was kept for.
    pub(crate) fn on_packets(&mut self, acked: u64, lost: u64) {
        let (n, losses) = (acked as f64, lost as f64);
        self.p = self.mu.filtered(self.p, n, losses);
        self.p_long = self.nu.filtered(self.p_long, n, losses);
        let kept = self.nu.kept(n);
        self.p_dev = kept * self.p_dev + (1.0 - kept) * (self.p - self.p_long).abs();
    }

    /// Takes back `count` losses reported before: these packets have arrived.
    ///
    /// The filter is linear, so a loss fed k data ago still weighs μ(1−μ)^k;
    /// here k is taken for 0. What is too much now the later data make good: in
    /// the long run a loss fed and taken back leaves the mean as it was.
    pub(crate) fn take_back(&mut self, count: u64) {
        let count = count as f64;
        self.p = (self.p - (1.0 - self.mu.kept(count))).max(0.0);
        self.p_long = (self.p_long - (1.0 - self.nu.kept(count))).max(0.0);
    }

    /// Takes in what the ledger made of an ACK.
    pub(crate) fn on_tally(&mut self, tally: &LossTally) {
        if tally.acked > 0 || tally.lost > 0 {
            self.on_packets(tally.acked, tally.lost);
        }
        if tally.taken_back > 0 {
            self.take_back(tally.taken_back);
        }
    }

    /// Back to the start values: the path leads over a new address, or the
    /// papers' timeout struck ([MP12] §III-A).
    pub(crate) fn reset(&mut self) {
        self.p = self.start.p.share();
        self.p_long = self.start.p_long.share();
        self.p_dev = self.start.p_dev;
    }

    /// The estimates.
    pub(crate) fn estimate(&self) -> LossEstimate {
        LossEstimate {
            p: LossRate::clamped(self.p),
            p_long: LossRate::clamped(self.p_long),
            p_dev: self.p_dev,
        }
    }

    /// The share of packets lost that redundancy is planned with: the long-term
    /// estimate (the option of `transport.md` §5) as long as the short-term one
    /// differs by no more than its own noise, else the short-term one.
    ///
    /// At a steady loss rate q the short memory wavers by σ = √(μ/(2−μ)·q(1−q)),
    /// at 20 % by four points. Planning with it costs as many coded packets too
    /// many in one block as are missing in the next: 1.3 % of what arrives.
    pub(crate) fn planning_rate(&self) -> LossRate {
        let (mu, q) = (1.0 - self.mu.kept(1.0), self.p_long);
        let noise = (mu / (2.0 - mu) * q * (1.0 - q)).max(0.0).sqrt();
        let is_steady = (self.p - q).abs() <= NOISE_MAX * noise;
        LossRate::clamped(if is_steady { q } else { self.p })
    }
}

impl Default for LossEstimator {
    /// Gains [`MU`] and [`NU`], starting from no loss.
    fn default() -> Self {
        Self::new(MU, NU, LossEstimate::default())
    }
}

/// The gain μ of a filter, kept as ln(1−μ).
#[derive(Debug, Clone, Copy, PartialEq)]
struct Gain {
    ln_kept: f64,
}

impl Gain {
    fn new(gain: f64) -> Self {
        Self {
            ln_kept: (-gain).ln_1p(),
        }
    }

    /// (1−μ)^count: what is left of a value after `count` data.
    fn kept(self, count: f64) -> f64 {
        (self.ln_kept * count).exp()
    }

    /// `x` after `acked` times one success and lost/acked losses.
    fn filtered(self, x: f64, acked: f64, lost: f64) -> f64 {
        let kept = self.kept(acked + lost);
        if acked == 0.0 {
            return x * kept + (1.0 - kept);
        }
        // One turn is x ← a·x + b; n turns are aⁿ·x + b·(1−aⁿ)/(1−a).
        let losses_per_turn = lost / acked;
        let a = self.kept(1.0 + losses_per_turn);
        let b = 1.0 - self.kept(losses_per_turn);
        x * kept + b * ((1.0 - kept) / (1.0 - a))
    }
}

/// What one ACK, or one run of the loss timer, revealed about a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct AckTally {
    /// Packets newly acknowledged by ranges, spurious losses included.
    pub(crate) newly_acked: u64,
    /// Those among them that had been declared lost.
    pub(crate) spurious: u64,
    /// Packets newly declared lost.
    pub(crate) newly_lost: u64,
    /// How many different packets the receiver says it has ever received on
    /// this path. `None` where no ACK speaks: the loss timer.
    pub(crate) received_total: Option<u64>,
}

/// What the estimator and the controller are to make of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LossTally {
    /// Packets that arrived and had not been reported either way.
    pub(crate) acked: u64,
    /// Packets lost, as far as can be told. If 0, no loss is to be reported to
    /// the controller.
    pub(crate) lost: u64,
    /// Losses reported before that were none.
    pub(crate) taken_back: u64,
}

/// Compares what the sender declared lost with what the receiver counted.
///
/// With A packets acknowledged by ranges and C received by the receiver's
/// count, C − A packets have arrived whose ACKs were all lost. They sit in gaps
/// and have been, or soon will be, declared lost. So of D losses declared only
/// D − min(C − A, D) are losses; the others are *credited* as arrivals:
///
/// 1. A packet declared lost that is acknowledged later is taken back, unless a
///    credit stood for it: then that credit is spent.
/// 2. Losses declared by this ACK are disproved by the surplus of the count that
///    is not credited yet. They count as arrived and reach nobody as losses.
/// 3. A surplus that finds no loss waits for the next ones: their packets are
///    within the reordering allowance. What still waits after
///    [`SURPLUS_PATIENCE`] acknowledged packets belongs to losses declared
///    before the count was known (by the timer), and takes these back.
/// 4. Packets given up without a verdict, after long silence or a change of
///    address ([`LossLedger::give_up`]), are losses to nobody. A surplus is
///    theirs first, for as long as step 3 waits, so that a silent way back does
///    not excuse losses to come.
///
/// Counts never go back, so a reordered ACK with an older count changes nothing.
/// Which packets a credit stands for is never known, nor needed.
///
/// The count must hold distinct packets: what the replay window rejects is not
/// counted. It is the peer's word; one who lies upwards hides losses, which it
/// could as well by acknowledging what it did not get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LossLedger {
    /// A: packets acknowledged by ranges.
    acked: u64,
    /// C: the largest count heard of.
    received: u64,
    /// D: packets declared lost, less those acknowledged since.
    declared: u64,
    /// Of these, arrived by the count.
    credited: u64,
    /// The least surplus since `patience_from`.
    surplus_least: u64,
    /// `acked` when the wait for that surplus began.
    patience_from: u64,
    /// Packets given up of which nothing was heard since.
    given_up: u64,
    /// `acked` when the last of them was given up.
    given_up_from: u64,
    /// Packets given up that arrived by the count.
    given_up_arrived: u64,
}

/// Acknowledged packets for which a surplus waits for losses yet to be declared:
/// a few times the reordering allowance.
pub(crate) const SURPLUS_PATIENCE: u64 = 64;

impl LossLedger {
    /// An empty ledger, for a path on which nothing was sent.
    pub(crate) const fn new() -> Self {
        Self {
            acked: 0,
            received: 0,
            declared: 0,
            credited: 0,
            surplus_least: u64::MAX,
            patience_from: 0,
            given_up: 0,
            given_up_from: 0,
            given_up_arrived: 0,
        }
    }

    /// `packets` in flight are given up, and nothing is said of their fate. An
    /// entry that acknowledges one of them later counts it as spurious.
    pub(crate) fn give_up(&mut self, packets: u64) {
        self.given_up = self.given_up.saturating_add(packets);
        self.given_up_from = self.acked;
    }

    /// Enters what an ACK or the loss timer revealed.
    pub(crate) fn enter(&mut self, entry: &AckTally) -> LossTally {
        debug_assert!(entry.spurious <= entry.newly_acked, "{entry:?}");
        self.acked = self.acked.saturating_add(entry.newly_acked);
        if let Some(count) = entry.received_total {
            self.received = self.received.max(count);
        }

        let (reclaimed, found) = self.settle_given_up(entry.spurious);
        let spurious = entry.spurious - reclaimed.min(entry.spurious);

        let standing_before = self.declared - self.credited;
        self.declared = self.declared.saturating_sub(spurious);
        self.credited = self.credited.min(self.arrived_unnamed()).min(self.declared);
        let standing = self.declared - self.credited;
        let mut tally = LossTally {
            acked: entry.newly_acked.saturating_sub(entry.spurious) + found,
            // The count falls behind the ranges only if a credit was given to
            // the wrong loss: that one stands again.
            lost: standing.saturating_sub(standing_before),
            taken_back: standing_before.saturating_sub(standing),
        };

        let disproved = self.surplus().min(entry.newly_lost);
        self.declared = self.declared.saturating_add(entry.newly_lost);
        self.credited += disproved;
        tally.lost += entry.newly_lost - disproved;
        tally.acked += disproved;
        tally.taken_back += self.settle_old_surplus();
        tally
    }

    /// Losses that stand: declared and disproved by nothing.
    pub(crate) const fn lost_total(&self) -> u64 {
        self.declared - self.credited
    }

    /// Finds given-up packets among late acknowledgements and in the count.
    /// Answers how many of `spurious` they are, and how many have arrived that
    /// were not known to.
    fn settle_given_up(&mut self, spurious: u64) -> (u64, u64) {
        if self.given_up == 0 && self.given_up_arrived == 0 {
            return (0, 0);
        }
        let counted_before = spurious.min(self.given_up_arrived);
        self.given_up_arrived -= counted_before;
        let named = (spurious - counted_before).min(self.given_up);
        self.given_up -= named;
        let counted = self.surplus().min(self.given_up);
        self.given_up -= counted;
        self.given_up_arrived += counted;
        if self.acked - self.given_up_from >= SURPLUS_PATIENCE {
            self.given_up = 0;
        }
        (counted_before + named, named + counted)
    }

    /// C − A: packets that arrived and that no range has named, without those
    /// given up.
    fn arrived_unnamed(&self) -> u64 {
        let unnamed = self.received.saturating_sub(self.acked);
        unnamed.saturating_sub(self.given_up_arrived)
    }

    /// Those of them that no credit stands for.
    fn surplus(&self) -> u64 {
        self.arrived_unnamed().saturating_sub(self.credited)
    }

    /// Credits what has waited long enough to losses declared before.
    fn settle_old_surplus(&mut self) -> u64 {
        self.surplus_least = self.surplus_least.min(self.surplus());
        if self.acked - self.patience_from < SURPLUS_PATIENCE {
            return 0;
        }
        let settled = self.surplus_least.min(self.declared - self.credited);
        self.credited += settled;
        self.patience_from = self.acked;
        self.surplus_least = self.surplus();
        settled
    }
}

#[cfg(test)]
mod tests;
