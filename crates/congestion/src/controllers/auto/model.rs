//! What `auto` knows of the path: its rate, its delay, and whose fault losses are.

use ctcp_units::{Duration, Instant, PacketNumber};

use super::constants::{
    BANDWIDTH_ROUNDS, BURST_FADE, BURST_GAIN, CONGESTION_SIGMAS, DELIVERED_ROUNDS, FALLEN_SHARE,
    FALLS_UNANSWERED, FULL_FADE, FULL_SHARE, LOSS_COUNT_MIN, LOSS_COUNT_WANTED, LOSS_MAX,
    LOSS_MEMORY, LOSS_MEMORY_DRAIN, LOSS_SIGMAS, LOSS_UNEXPLAINED, LOSS_UNSEEN, NOISE_GAIN,
    NOISE_MAX, NOISE_REVERSALS, NOISY_ROUNDS, NOISY_SHARE, NOISY_UNTIL, START_LOSSES,
};
use crate::event::{AckEvent, LossEvent};

/// What one round showed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RoundReport {
    /// Packets per second delivered, less one packet; none if it cannot be told.
    pub(super) rate: Option<f64>,
    /// The same with every packet; none then too.
    pub(super) rate_of_all: Option<f64>,
    /// Packets delivered.
    pub(super) delivered: u64,
    /// Part of it was sent while the application was the limit.
    pub(super) is_app_limited: bool,
    /// Least and largest round trip; none without a sample.
    pub(super) rtt: Option<(Duration, Duration)>,
}

/// Cuts the ACKs into rounds and measures each.
///
/// The rate of a round is what was delivered over the longer of the time in
/// which the ACKs came and the time in which their packets were sent: neither
/// compressed ACKs nor a delay that shrinks pretend a rate.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Rounds {
    end: PacketNumber,
    start: Option<RoundStart>,
    is_app_limited: bool,
    rtt: Option<(Duration, Duration)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct RoundStart {
    at: Instant,
    sent_at: Instant,
    delivered: u64,
}

impl Rounds {
    /// Takes in an ACK; answers what the round that ends with it showed.
    pub(super) fn on_ack(&mut self, ack: &AckEvent) -> Option<RoundReport> {
        self.is_app_limited |= ack.app_limited;
        if let Some(sample) = ack.rtt_sample {
            let (least, largest) = self.rtt.unwrap_or((sample, sample));
            self.rtt = Some((least.min(sample), largest.max(sample)));
        }
        if ack.newest_acked < self.end {
            return None;
        }
        // When the newest packet came, but for the way back: ACKs may be late.
        let came_at = ack
            .rtt_sample
            .map_or(ack.now, |sample| (ack.sent_at + sample).min(ack.now));
        let report = self.start.map(|start| {
            let interval = came_at
                .saturating_since(start.at)
                .max(ack.sent_at.saturating_since(start.sent_at));
            let delivered = ack.delivered_packets.saturating_sub(start.delivered);
            RoundReport {
                // Less one packet, as ACKs come for two: the largest of some
                // rounds would be one too many.
                rate: (!interval.is_zero() && delivered > 1)
                    .then(|| (delivered - 1) as f64 / interval.as_secs_f64()),
                rate_of_all: (!interval.is_zero() && delivered > 1)
                    .then(|| delivered as f64 / interval.as_secs_f64()),
                delivered,
                is_app_limited: self.is_app_limited,
                rtt: self.rtt,
            }
        });
        *self = Self {
            end: ack.largest_sent.next(),
            start: Some(RoundStart {
                at: came_at,
                sent_at: ack.sent_at,
                delivered: ack.delivered_packets,
            }),
            is_app_limited: false,
            rtt: None,
        };
        report
    }

    /// Packets sent before `end` say nothing about what comes.
    pub(super) fn restart(&mut self, end: PacketNumber) {
        *self = Self {
            end,
            ..Self::default()
        };
    }
}

/// The rate at which ACKs come while round trips show a queue: that of the link,
/// whatever was sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct QueueRate {
    /// First ACK of the span: when, and packets delivered by then.
    start: Option<(Instant, u64)>,
    /// The same of the last one that showed a queue.
    last: (Instant, u64),
}

impl Default for QueueRate {
    fn default() -> Self {
        Self {
            start: None,
            last: (Instant::EPOCH, 0),
        }
    }
}

impl QueueRate {
    /// Takes in an ACK; answers the rate of a span that is complete, or of a queue that
    /// has passed before, if it showed by at least `packets_min` packets.
    pub(super) fn on_ack(
        &mut self,
        ack: &AckEvent,
        queued_above: Duration,
        span: Duration,
        packets_min: u64,
    ) -> Option<f64> {
        let sample = ack.rtt_sample?;
        if sample <= queued_above {
            let (at, delivered) = self.start.take()?;
            let packets = self.last.1.saturating_sub(delivered);
            let passed = self.last.0.saturating_since(at);
            // Less two, as ACKs come for two: the largest of short spans would be too
            // much.
            return (packets >= packets_min && !passed.is_zero())
                .then(|| packets.saturating_sub(2) as f64 / passed.as_secs_f64());
        }
        self.last = (ack.now, ack.delivered_packets);
        let (at, delivered) = *self.start.get_or_insert(self.last);
        let passed = ack.now.saturating_since(at);
        if passed < span {
            return None;
        }
        self.start = Some(self.last);
        Some(ack.delivered_packets.saturating_sub(delivered) as f64 / passed.as_secs_f64())
    }
}

/// What arrived in all over the last rounds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Delivered {
    /// Ends of rounds, and packets delivered by then.
    ends: [Option<(Instant, u64)>; DELIVERED_ROUNDS + 1],
    /// Place of the oldest.
    oldest: usize,
}

impl Delivered {
    /// A round is over.
    pub(super) fn put(&mut self, now: Instant, packets: u64) {
        self.ends[self.oldest] = Some((now, packets));
        self.oldest = (self.oldest + 1) % self.ends.len();
    }

    /// Packets a second; 0 until two rounds are over.
    pub(super) fn rate(&self) -> f64 {
        let newest = self.ends[(self.oldest + self.ends.len() - 1) % self.ends.len()];
        let oldest = self.ends[self.oldest].or_else(|| self.ends.iter().copied().flatten().next());
        let (Some((from, before)), Some((until, by_then))) = (oldest, newest) else {
            return 0.0;
        };
        let passed = until.saturating_since(from).as_secs_f64();
        match passed > 0.0 {
            true => by_then.saturating_sub(before) as f64 / passed,
            false => 0.0,
        }
    }
}

/// Largest delivery rate of the last rounds, one place a round.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Bandwidth {
    rounds: [f64; BANDWIDTH_ROUNDS],
    current: usize,
    largest: f64,
}

impl Bandwidth {
    /// Takes in the rate of a round.
    pub(super) fn put(&mut self, rate: f64) {
        self.current = (self.current + 1) % BANDWIDTH_ROUNDS;
        self.rounds[self.current] = rate;
        self.largest = self.rounds.iter().copied().fold(0.0, f64::max);
    }

    /// The last rate was at least this.
    pub(super) fn raise(&mut self, rate: f64) {
        self.rounds[self.current] = self.rounds[self.current].max(rate);
        self.largest = self.largest.max(rate);
    }

    /// Forgets all rounds and begins anew with this rate.
    pub(super) fn reset(&mut self, rate: f64) {
        *self = Self::default();
        self.put(rate);
    }

    /// Packets per second; 0 before the first sample.
    pub(super) const fn largest(&self) -> f64 {
        self.largest
    }
}

/// How much round trips vary although no queue does: within a round that holds no
/// queue of ours, and to and fro from round to round. A queue between flows goes up
/// for many rounds before it goes down; Wi-Fi and cellular schedulers do not.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Noise {
    spread: Option<f64>,
    last_least: Option<Duration>,
    /// Change of the least round trip in the last round, seconds.
    last_change: f64,
    /// Mean of the smaller of two changes where they go opposite ways.
    reversal: f64,
    /// Share of rounds in which that is far.
    reversed_share: f64,
    /// Delay tells nothing.
    is_drowning: bool,
    /// Largest round trip, fading, seconds.
    largest: f64,
}

impl Noise {
    /// A round is over, whatever was sent in it.
    pub(super) fn on_round(&mut self, least: Duration, largest: Duration, base: f64) {
        let largest = largest.as_secs_f64();
        self.largest = (self.largest - NOISE_GAIN * (self.largest - largest)).max(largest);
        if let Some(last) = self.last_least.replace(least) {
            let change = least.as_secs_f64() - last.as_secs_f64();
            let is_reversed = change * self.last_change < 0.0;
            let reversal = match is_reversed {
                true => change.abs().min(self.last_change.abs()),
                false => 0.0,
            };
            self.last_change = change;
            self.reversal += NOISE_GAIN * (reversal - self.reversal);
            let is_far = f64::from(u8::from(reversal > NOISY_SHARE * base));
            self.reversed_share += NOISE_GAIN * (is_far - self.reversed_share);
            let share = if self.is_drowning { NOISY_UNTIL } else { 1.0 };
            self.is_drowning = self.reversal > share * NOISY_SHARE * base
                && self.reversed_share > share * NOISY_ROUNDS;
        }
    }

    /// Takes in the least and largest round trip of a round without a queue of
    /// ours.
    pub(super) fn put(&mut self, least: Duration, largest: Duration) {
        let spread = (largest - least).as_secs_f64();
        match &mut self.spread {
            None => self.spread = Some(spread),
            Some(mean) => *mean += NOISE_GAIN * (spread - *mean),
        }
    }

    /// Whether round trips go to and fro so far, and so often, that delay tells
    /// nothing. A link that slows down makes them swing far, but once.
    pub(super) const fn drowns_delay(&self) -> bool {
        self.is_drowning
    }

    /// By how much the largest round trips exceed `base`, seconds, but no more than
    /// it allows: [`NOISE_MAX`].
    pub(super) fn highest(&self, base: f64) -> f64 {
        (self.largest - base).clamp(0.0, NOISE_MAX * base)
    }

    /// Seconds that a round's least round trip may exceed the base without a queue.
    pub(super) fn seconds(&self) -> f64 {
        (NOISE_REVERSALS * self.reversal).max(self.spread.unwrap_or(0.0))
    }
}

/// Tells when a queue that was full has fallen although we did nothing: others have
/// lost packets and given way.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Falls {
    /// Highest excess of a round's largest round trip over the base, seconds; fades.
    highest: f64,
    is_full: bool,
    unanswered: u32,
}

impl Falls {
    /// A round is over. Whether it is our turn to give way.
    pub(super) fn on_round(&mut self, largest: Duration, base: Duration) -> bool {
        let excess = largest.saturating_sub(base).as_secs_f64();
        self.highest = (self.highest * FULL_FADE).max(excess);
        if excess >= FULL_SHARE * self.highest {
            self.is_full = true;
        } else if self.is_full && excess < FALLEN_SHARE * self.highest {
            self.is_full = false;
            self.unanswered += 1;
        }
        self.unanswered >= FALLS_UNANSWERED
    }

    /// We have given way.
    pub(super) fn answer(&mut self) {
        self.is_full = false;
        self.unanswered = 0;
    }
}

/// Runs of packets lost in a row: the longest, fading, and their mean.
///
/// A queue that overflows thins what is sent too fast, and policers do; a path that
/// is gone for a moment takes runs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Burst {
    longest: f64,
    mean: f64,
    /// The run that is not over yet: its first packet, and the one after its last.
    run: Option<(u64, u64)>,
}

impl Burst {
    /// Takes in losses.
    pub(super) fn on_lost(&mut self, event: &LossEvent) {
        let (first, end) = (event.first_lost.0, event.last_lost.0 + 1);
        if end.saturating_sub(first) != event.lost_packets {
            return;
        }
        let first = match self.run {
            Some((start, until)) if until == first => start,
            Some((start, until)) => {
                let packets = until.saturating_sub(start) as f64;
                self.mean = self.mean.max(1.0);
                self.mean += BURST_GAIN * (packets - self.mean);
                first
            }
            None => first,
        };
        self.run = Some((first, end));
        self.longest = self.longest.max((end - first) as f64);
    }

    /// A round has passed.
    pub(super) fn fade(&mut self) {
        self.longest *= BURST_FADE;
    }

    /// Packets that may be lost in a row, of which one is nothing special.
    pub(super) fn packets(&self) -> f64 {
        (self.longest - 1.0).max(0.0)
    }

    /// By how much the variance of a count of losses exceeds that of single ones:
    /// runs of geometric length with mean B make it 2·B − 1.
    pub(super) fn dispersion(&self) -> f64 {
        2.0 * self.mean.max(1.0) - 1.0
    }
}

/// Losses that chance may take of `count` packets, of which it takes the share `p`
/// in the mean, up to so many standard deviations: m + σ·√(m·D) + D·(σ² − 1)/6, the
/// last term for the skew that rare losses have.
pub(super) fn losses_explained(count: f64, p: f64, dispersion: f64, sigmas: f64) -> f64 {
    let mean = count * p;
    let deviation = (mean * (1.0 - p) * dispersion).sqrt();
    mean + sigmas * deviation + dispersion * (sigmas * sigmas - 1.0) / 6.0
}

/// Packets sent and, of these, lost; old ones fade.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Tally {
    sent: f64,
    lost: f64,
}

impl Tally {
    fn add(&mut self, sent: f64, lost: f64, memory: f64) {
        self.sent += sent;
        self.lost += lost;
        if self.sent > memory {
            self.sent /= 2.0;
            self.lost /= 2.0;
        }
    }

    fn share(&self) -> f64 {
        (self.lost / self.sent.max(1.0)).clamp(0.0, 1.0)
    }
}

/// The share of packets lost that sending less would not save.
///
/// Loss of what was sent while draining, a quarter slower than the path's rate,
/// is chance. What the mean has beyond it, and beyond its error, is our own doing:
/// a policer, or a queue that overflows.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct ChanceLoss {
    all: Tally,
    draining: Tally,
    /// Packets sent in the present and the last drain: from, until.
    drains: [(PacketNumber, PacketNumber); 2],
    is_draining: bool,
}

impl ChanceLoss {
    /// What was lost while the start doubled, far below the path's rate, is chance.
    pub(super) fn learn_start(&mut self, start: &StartLoss) {
        self.all = start.doubling;
        self.draining = start.doubling;
    }

    /// Packets from `next` on are sent while draining.
    pub(super) fn begin_drain(&mut self, next: PacketNumber) {
        if !self.is_draining {
            self.is_draining = true;
            self.drains = [(next, PacketNumber(u64::MAX)), self.drains[0]];
        }
    }

    /// Packets from `next` on are not.
    pub(super) fn end_drain(&mut self, next: PacketNumber) {
        if self.is_draining {
            self.is_draining = false;
            self.drains[0].1 = next;
        }
    }

    /// The drain in which the packet was sent.
    fn drain_of(&self, number: PacketNumber) -> Option<usize> {
        self.drains
            .iter()
            .position(|(from, until)| *from <= number && number < *until)
    }

    /// Packets arrived; `newest` is the newest of them.
    pub(super) fn on_acked(&mut self, newest: PacketNumber, packets: u64) {
        self.all.add(packets as f64, 0.0, LOSS_MEMORY);
        if self.drain_of(newest).is_some() {
            self.draining.add(packets as f64, 0.0, LOSS_MEMORY_DRAIN);
        }
    }

    /// Packets were lost. Without `is_clear` a queue may be full of others' packets:
    /// what a drain loses then is not chance.
    pub(super) fn on_lost(&mut self, event: &LossEvent, is_clear: bool) {
        let lost = event.lost_packets as f64;
        self.all.add(lost, lost, LOSS_MEMORY);
        // Of losses on both sides of a border only the outermost are certain.
        let (first, last) = (event.first_lost, event.last_lost);
        let drained = match self.drain_of(last) {
            Some(drain) if self.drain_of(first) == Some(drain) => lost,
            of_last => {
                f64::from(u8::from(of_last.is_some()))
                    + f64::from(u8::from(self.drain_of(first).is_some()))
            }
        };
        if drained > 0.0 {
            let lost = if is_clear { drained } else { 0.0 };
            self.draining.add(drained, lost, LOSS_MEMORY_DRAIN);
        }
    }

    /// Whether a drain that lasts would tell something: there is loss, and the
    /// drains do not explain it.
    pub(super) fn wants_drain(&self, dispersion: f64) -> bool {
        self.draining.sent < LOSS_COUNT_WANTED && self.all.lost > 0.0
            || self.all.share() > self.most(dispersion) + LOSS_UNEXPLAINED
    }

    /// What the drains' loss can be at most.
    fn most(&self, dispersion: f64) -> f64 {
        let (low, count) = (self.draining.share(), self.draining.sent.max(1.0));
        let deviation = (low * (1.0 - low) * dispersion / count).sqrt();
        let unseen = (LOSS_SIGMAS * dispersion / count).min(LOSS_UNSEEN);
        low + LOSS_SIGMAS * deviation + unseen
    }

    /// The share: the mean as far as the drains bear it out. If they lost less, the
    /// loss depends on what is sent, and less of it is chance than even they
    /// lost: the difference is taken off once more, so that a flow that overloads
    /// the path by itself sends less from drain to drain. 0 until there was a
    /// drain.
    pub(super) fn share(&self, dispersion: f64) -> f64 {
        if self.draining.sent < LOSS_COUNT_MIN {
            return 0.0;
        }
        let (all, most) = (self.all.share(), self.most(dispersion));
        let share = match all > most {
            true => (self.draining.share() - (all - most)).max(0.0),
            false => all,
        };
        share.min(LOSS_MAX)
    }
}

/// Loss in the start: chance as long as rounds double, a reason to end it if it
/// rises when they no longer do.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct StartLoss {
    doubling: Tally,
    /// The last round: it may have doubled and overflowed a queue at once, so that
    /// it counts only when the next has doubled too.
    last: Tally,
}

impl StartLoss {
    /// Takes in a round; answers whether its loss is more than chance.
    pub(super) fn on_round(&mut self, delivered: u64, lost: u64, has_doubled: bool) -> bool {
        let (sent, lost) = ((delivered + lost) as f64, lost as f64);
        if has_doubled {
            self.doubling
                .add(self.last.sent, self.last.lost, LOSS_MEMORY);
            self.last = Tally { sent, lost };
            return false;
        }
        let p = self.doubling.share();
        lost > p * sent + CONGESTION_SIGMAS * (p * (1.0 - p) * sent).sqrt() + START_LOSSES
    }
}
