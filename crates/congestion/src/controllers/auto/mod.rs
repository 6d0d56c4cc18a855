//! `auto`, the default: the rate of the path whatever it loses, a short queue,
//! and a CUBIC neighbour's share left to it.
//!
//! `docs/control.md` explains it in full. In short:
//!
//! ```text
//! bw       largest delivery rate of the last 10 rounds        (nothing beyond the link's rate comes out of it)
//! base     smallest round trip of the last 10 s
//! p        share lost that sending less would not save: loss of what is sent while draining
//! model    rate = gain·bw/(1 − p),  window = 1.25·bw/(1 − p)·base + usual delay + bursts + slack
//! cycle    probe 1.125 (1.5, 2 while there is room) · judge 1 · drain 0.75 until the flight is
//!          bw·base/(1 − p) · settle 2 · cruise 3
//! a queue that is still there after the drain is not ours: bw ← delivered·max(base/RTT, 0.7), drain again
//! floor    while others are there: the window CUBIC would have with the same losses
//! ```
//!
//! The factor is [CC14]'s β = RTTmin/RTT, taken of the delay that a drain leaves
//! instead of at a loss. Losses move the floor and the share p; those beyond what
//! chance explains, with a queue, cut the rate. Packets repaired by coding count as
//! lost (RFC 9265).

mod constants;
mod floor;
mod model;
mod plan;
mod resume;
mod start;
#[cfg(test)]
mod tests;

use ctcp_units::{Duration, Instant, PacketNumber};

use crate::controller::{Controller, ControllerState};
use crate::event::{
    AckEvent, CouplingEvent, EcnEvent, LossEvent, PartnerLossEvent, PathChangeEvent, RttSummary,
    SilenceEvent,
};
use crate::params::{Params, Remembered};
use constants::{
    BIAS_FADE, CLEAN_LOSS, CONGESTION_SIGMAS, CONGESTION_SIGMAS_CLEAN, CRUISE_CUT, CRUISE_ROUNDS,
    CRUISE_ROUNDS_MAX, CUT_MIN, DRAIN_FOURTH_LOSS, DRAIN_GAIN, DRAIN_LONG_LOSS, DRAIN_ROUNDS_MAX,
    EMPTY_DIVISOR, FLOOR_BETA, FLOOR_PACING_GAIN, FREE_GROWTH, FREE_GROWTHS, FUTILE_CUTS, LOW_RISE,
    MARK_FACTOR, PROBE_FOUND, PROBE_GAINS, SETTLE_ROUNDS, SILENCE_FACTOR, TEST_ROUNDS,
};
use floor::Floor;
use model::{
    Bandwidth, Burst, ChanceLoss, Delivered, Falls, Noise, QueueRate, RoundReport, Rounds,
    StartLoss, losses_explained,
};
use resume::Resume;

/// What it is doing.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// Looking for the rate, doubling.
    Start,
    /// Sending less until the queue should be gone.
    Drain { gain: f64, rounds: u32 },
    /// Waiting to see whether it is.
    Settle { rounds: u32 },
    /// Sending at the estimate.
    Cruise { rounds: u32 },
    /// Sending more.
    Probe { step: usize },
    /// Waiting to see what came of it; the rate before.
    Judge { step: usize, before: f64 },
}

/// The controller `auto`.
#[derive(Debug, Clone)]
pub struct Auto {
    params: Params,
    phase: Phase,
    rounds: Rounds,
    bandwidth: Bandwidth,
    delivered: Delivered,
    noise: Noise,
    falls: Falls,
    chance: ChanceLoss,
    floor: Floor,
    /// Smallest round trip of the last seconds.
    base: Option<Duration>,
    /// Smallest round trip for long, rising slowly, and when it last rose: a queue
    /// that others keep full for more than the base's window must not become chance.
    low: Option<(Duration, Instant)>,
    srtt: Duration,
    burst: Burst,
    /// Seconds of round trip above the base that giving way did not shorten.
    bias: f64,
    /// Cuts since a drain last succeeded.
    cuts_in_row: u32,
    /// Rounds to cruise before the next probe.
    cruise_rounds: u32,
    rate_before_cuts: f64,
    drain_count: u32,
    /// Round trip and rate of the last cut, and how often more arrived at the next
    /// one without a longer round trip.
    at_cut: Option<(Duration, f64)>,
    free_growths: u32,
    /// Others fill the queue.
    is_contested: bool,
    /// Packets of this round that arrived, and that were lost.
    acked_in_round: u64,
    lost_in_round: u64,
    /// Losses of a packet before this were answered.
    loss_recover: PacketNumber,
    /// Successive samples of the start above the margin, and when the first came.
    queued_samples: u32,
    queued_since: Instant,
    /// Nothing came back since the last silence.
    is_silent: bool,
    /// The floor gives way in this drain.
    is_test: bool,
    /// Rounds since the floor last gave way.
    rounds_since_test: u32,
    /// The window of the start.
    start_window: f64,
    /// What an earlier connection knew of the path.
    resume: Resume,
    /// Packets before this belong to a jump that was taken back.
    retreated_before: PacketNumber,
    flat_rounds: u32,
    best_rate: f64,
    start_loss: StartLoss,
    /// Packets before this, of the start, count as no arrivals, as they do as no losses.
    counted_from: PacketNumber,
    /// Measures the queue that the start left; none after its drain.
    queue_rate: Option<QueueRate>,
    stale_before: PacketNumber,
    mark_recover: PacketNumber,
    last_cut: Option<f64>,
    cut_count: u64,
}

/// The controller `auto`.
pub fn auto(params: &Params) -> Auto {
    let params = params.clamped();
    Auto {
        params,
        phase: Phase::Start,
        rounds: Rounds::default(),
        bandwidth: Bandwidth::default(),
        delivered: Delivered::default(),
        noise: Noise::default(),
        falls: Falls::default(),
        chance: ChanceLoss::default(),
        floor: Floor::new(params.init_tokens),
        base: None,
        low: None,
        srtt: Duration::ZERO,
        burst: Burst::default(),
        bias: 0.0,
        cuts_in_row: 0,
        cruise_rounds: CRUISE_ROUNDS,
        rate_before_cuts: 0.0,
        drain_count: 0,
        at_cut: None,
        free_growths: 0,
        is_contested: false,
        acked_in_round: 0,
        lost_in_round: 0,
        loss_recover: PacketNumber(0),
        queued_samples: 0,
        queued_since: Instant::EPOCH,
        is_silent: false,
        is_test: false,
        rounds_since_test: 0,
        start_window: params.init_tokens,
        resume: Resume::new(params.resume),
        retreated_before: PacketNumber(0),
        flat_rounds: 0,
        best_rate: 0.0,
        start_loss: StartLoss::default(),
        counted_from: PacketNumber(0),
        queue_rate: None,
        stale_before: PacketNumber(0),
        mark_recover: PacketNumber(0),
        last_cut: None,
        cut_count: 0,
    }
}

impl Auto {
    fn watch_low(&mut self, now: Instant, least: Duration) {
        self.low = Some(match self.low {
            None => (least, now),
            Some((low, at)) => {
                let risen = low + low.mul_f64(LOW_RISE * now.saturating_since(at).as_secs_f64());
                (risen.min(least), now)
            }
        });
    }

    fn on_rtt(&mut self, rtt: &RttSummary) {
        let risen = rtt
            .rtt_min_windowed
            .saturating_sub(self.base.unwrap_or(rtt.rtt_min_windowed));
        self.bias = (self.bias - risen.as_secs_f64()).max(0.0);
        self.base = Some(rtt.rtt_min_windowed);
        self.srtt = rtt.srtt;
    }

    fn begin_drain(&mut self, gain: f64, next: PacketNumber) {
        if self.rounds_since_test >= TEST_ROUNDS || !self.is_contested {
            self.is_test = true;
        }
        if self.is_test {
            self.rounds_since_test = 0;
        }
        self.phase = Phase::Drain { gain, rounds: 0 };
        self.drain_count = self.drain_count.wrapping_add(1);
        self.chance.begin_drain(next);
    }

    fn is_drain_long(&self) -> bool {
        let loss = self.chance_loss();
        self.chance.wants_drain(self.burst.dispersion())
            || loss >= DRAIN_LONG_LOSS
            || (loss >= DRAIN_FOURTH_LOSS && self.drain_count.is_multiple_of(4))
    }

    fn end_drain(&mut self, next: PacketNumber) {
        self.chance.end_drain(next);
        self.queue_rate = None;
        self.phase = Phase::Settle { rounds: 0 };
        self.rounds.restart(next);
    }

    fn on_round(&mut self, ack: &AckEvent, report: &RoundReport) {
        let lost = core::mem::take(&mut self.lost_in_round);
        self.acked_in_round = 0;
        self.delivered.put(ack.now, ack.delivered_packets);
        if let Some((least, largest)) = report.rtt {
            let base = self.base_seconds();
            self.noise.on_round(least, largest, base);
        }
        self.watch_falls(ack, report);
        self.burst.fade();
        if let Some(rate) = report.rate
            && (!report.is_app_limited || rate > self.bandwidth.largest())
        {
            self.bandwidth.put(rate);
        }
        let standing = report
            .rtt
            .map(|(least, _)| least)
            .filter(|least| *least > self.base.unwrap_or(Duration::ZERO) + self.margin())
            .filter(|_| !self.is_noisy());
        let next = ack.largest_sent.next();
        self.rounds_since_test = self.rounds_since_test.saturating_add(1);
        match self.phase {
            Phase::Start => self.judge_start(ack, report, lost, standing.is_some()),
            Phase::Drain { gain, rounds } => {
                self.phase = Phase::Drain {
                    gain,
                    rounds: rounds + 1,
                };
                if rounds + 1 >= DRAIN_ROUNDS_MAX {
                    self.end_drain(next);
                }
            }
            Phase::Settle { rounds } if rounds + 1 < SETTLE_ROUNDS => {
                self.phase = Phase::Settle { rounds: rounds + 1 };
            }
            Phase::Settle { .. } => {
                self.learn_noise(report);
                self.is_test = false;
                if let Some(rtt) = standing {
                    self.cut(ack, report, rtt);
                } else {
                    self.cuts_in_row = 0;
                    self.bias *= BIAS_FADE;
                    self.phase = Phase::Cruise { rounds: 0 };
                    let empty =
                        self.base.unwrap_or(Duration::ZERO) + self.bare_margin() / EMPTY_DIVISOR;
                    if self.is_noisy() || report.rtt.is_some_and(|(least, _)| least <= empty) {
                        let flight = self.flight();
                        self.floor.limit(ack.now, flight, self.params.min_tokens);
                        self.is_contested = false;
                    }
                }
            }
            Phase::Cruise { rounds } => {
                self.learn_noise(report);
                if standing.is_some() {
                    let rate = self.bandwidth.largest();
                    self.bandwidth.reset(rate * CRUISE_CUT);
                    self.begin_drain(DRAIN_GAIN, next);
                } else if rounds + 1 >= self.cruise_rounds {
                    self.phase = Phase::Probe { step: 0 };
                } else {
                    self.phase = Phase::Cruise { rounds: rounds + 1 };
                }
            }
            Phase::Probe { step } => {
                let before = self.bandwidth.largest();
                self.phase = Phase::Judge { step, before };
            }
            Phase::Judge { step, before } => {
                let asked = self.probe_gain(step) - 1.0;
                let found = report.rate_of_all.unwrap_or(0.0) / before.max(1e-9) - 1.0;
                let limit = self.base.unwrap_or(Duration::ZERO) + self.margin();
                let is_free = report.rtt.is_some_and(|(_, largest)| largest <= limit);
                if found >= PROBE_FOUND * asked && standing.is_none() {
                    // Without a trace of a queue it leaps; else, or where none shows, it
                    // goes on.
                    self.cruise_rounds = CRUISE_ROUNDS;
                    let step = match is_free && !self.is_noisy() {
                        true => step + 1,
                        false => 0,
                    };
                    self.phase = Phase::Probe {
                        step: step.min(PROBE_GAINS.len() - 1),
                    };
                } else {
                    self.begin_drain(DRAIN_GAIN, next);
                }
            }
        }
    }

    /// Gives way with the floor if only others do.
    fn watch_falls(&mut self, ack: &AckEvent, report: &RoundReport) {
        let Some((_, largest)) = report.rtt else {
            return;
        };
        if !self.is_floored() {
            // A test empties the queue by itself.
            self.falls.answer();
        } else if self.falls.on_round(largest, self.base.unwrap_or(largest)) {
            self.falls.answer();
            let low = self.params.min_tokens;
            self.floor
                .back_off(ack.now, FLOOR_BETA, low, ack.largest_sent);
        }
    }

    fn learn_noise(&mut self, report: &RoundReport) {
        if let Some((least, largest)) = report.rtt {
            self.noise.put(least, largest);
        }
    }

    /// Whether losses come from a queue that overflows.
    fn is_congestion(&self, event: &LossEvent) -> bool {
        let limit = self.low() + self.margin().min(self.clear_margin());
        if event.rtt.latest <= limit {
            return false;
        }
        let p = self.chance_loss();
        let count = self
            .flight()
            .max((self.acked_in_round + self.lost_in_round) as f64);
        let sigmas = match p < CLEAN_LOSS {
            true => CONGESTION_SIGMAS_CLEAN,
            false => CONGESTION_SIGMAS,
        };
        let explained = losses_explained(count, p, self.burst.dispersion(), sigmas);
        self.lost_in_round as f64 > explained
    }

    /// A queue grows with what is sent into it: where more arrives and the round
    /// trip stands, it is the path that has become longer. Whether it has. Of a path
    /// that shares its bottleneck nothing is known: what arrives more on it may be what
    /// another one gave up.
    fn has_path_grown(&mut self, rtt: Duration, delivered: f64) -> bool {
        if self.floor.share() < 1.0 {
            self.at_cut = None;
            self.free_growths = 0;
            return false;
        }
        let packet = Duration::from_secs_f64((1.0 / delivered.max(1.0)).min(1.0));
        let is_free = self.at_cut.is_some_and(|(last_rtt, last_rate)| {
            rtt <= last_rtt + packet && delivered >= FREE_GROWTH * last_rate
        });
        self.free_growths = if is_free { self.free_growths + 1 } else { 0 };
        self.at_cut = Some((rtt, delivered));
        if self.free_growths < FREE_GROWTHS {
            return false;
        }
        self.free_growths = 0;
        self.bias = self.bias.max(rtt.as_secs_f64() - self.base_seconds());
        true
    }

    /// Somebody else's queue: gives way by [CC14]'s β and drains again.
    fn cut(&mut self, ack: &AckEvent, report: &RoundReport, rtt: Duration) {
        let beta = (self.base_seconds() / rtt.as_secs_f64().max(1e-9)).clamp(CUT_MIN, 1.0);
        let delivered = report
            .rate
            .unwrap_or(f64::INFINITY)
            .min(self.bandwidth.largest());
        if self.has_path_grown(rtt, delivered) {
            self.is_contested = false;
            self.phase = Phase::Probe { step: 1 };
            return;
        }
        if !self.is_contested && self.chance_loss() < CLEAN_LOSS {
            // A flow that had competed from the start would have so much.
            self.floor.raise(self.flight());
        }
        self.bandwidth.reset(delivered * beta);
        self.is_contested = true;
        self.last_cut = Some(beta);
        self.cut_count += 1;
        self.cuts_in_row += 1;
        if self.cuts_in_row == 1 {
            self.rate_before_cuts = delivered;
        }
        if self.cuts_in_row >= FUTILE_CUTS && !self.is_floored() {
            self.bias = self.bias.max(rtt.as_secs_f64() - self.base_seconds());
            self.bandwidth.reset(self.rate_before_cuts);
            self.cuts_in_row = 0;
        }
        self.begin_drain(DRAIN_GAIN, ack.largest_sent.next());
    }
}

impl Controller for Auto {
    fn on_ack(&mut self, event: &AckEvent) {
        self.on_rtt(&event.rtt);
        self.watch_low(event.now, event.rtt.rtt_min_windowed);
        if event.newest_acked < self.stale_before {
            return;
        }
        self.is_silent = false;
        if self.phase != Phase::Start && event.newest_acked >= self.counted_from {
            self.chance
                .on_acked(event.newest_acked, event.acked_packets);
        }
        self.acked_in_round += event.acked_packets;
        let tokens = self.tokens();
        if self.phase == Phase::Start {
            if !event.app_limited {
                let step = match self.start_window < self.quick_tokens() {
                    true => 3.0,
                    false => 1.0,
                };
                self.start_window += step * event.acked_packets as f64;
            }
            let base = event.rtt.rtt_min_windowed;
            if let Some(window) = self.resume.on_ack(event, base, self.start_window) {
                self.start_window = window;
            }
        } else {
            self.floor.on_ack(event, tokens);
        }
        if let Some(report) = self.rounds.on_ack(event) {
            self.on_round(event, &report);
        }
        if self.phase == Phase::Start && self.sees_queue(event) {
            match self.resume.retreat(self.start_window) {
                Some(window) => self.retreat(event, window),
                None => self.end_start(event),
            }
        }
        self.watch_queue(event);
        if let Phase::Drain { rounds, .. } = self.phase {
            let target = self.flight() + self.wire_rate() * self.usual();
            let is_drained = event.in_flight as f64 <= target;
            let is_long_enough = rounds > 0 || !self.is_drain_long();
            if (is_drained && is_long_enough) || (rounds > 0 && self.is_noisy()) {
                self.end_drain(event.largest_sent.next());
            }
        }
        self.start_window = self.hold(self.start_window);
    }

    fn on_loss(&mut self, event: &LossEvent) {
        if self.phase == Phase::Start {
            self.lost_in_round += event.lost_packets;
            if let Some(window) = self.resume.on_loss(event) {
                self.start_window = window;
            }
            return;
        }
        if event.first_lost >= self.loss_recover {
            let is_clear = self.is_clear(event.rtt.latest);
            self.chance.on_lost(event, is_clear);
        }
        if event.first_lost >= self.loss_recover {
            self.burst.on_lost(event);
        }
        let tokens = self.tokens();
        if self.floor.on_loss(event, tokens, self.params.min_tokens) {
            self.falls.answer();
        }
        if event.last_lost < self.loss_recover {
            return;
        }
        // What was sent before the last answer has been answered.
        let since = event.last_lost.0 + 1 - self.loss_recover.0;
        self.lost_in_round += event.lost_packets.min(since);
        if !self.is_congestion(event) {
            return;
        }
        self.loss_recover = event.largest_sent.next();
        self.lost_in_round = 0;
        if let Phase::Probe { .. } | Phase::Judge { .. } = self.phase
            && self.chance_loss() < CLEAN_LOSS
            && !self.is_noisy()
        {
            self.cruise_rounds = (2 * self.cruise_rounds).min(CRUISE_ROUNDS_MAX);
        }
        if !self.is_floored() {
            let latest = event.rtt.latest.as_secs_f64().max(1e-9);
            let beta = (self.base_seconds() / latest).clamp(CUT_MIN, 1.0);
            let rate = self.bandwidth.largest();
            let least = match self.is_noisy() {
                // Of noise the largest rate takes the best; what came over some rounds
                // is the link's.
                true => self.delivered.rate().min(rate),
                false => 0.0,
            };
            self.bandwidth.reset((rate * beta).max(least));
            self.last_cut = Some(beta);
            self.cut_count += 1;
            self.begin_drain(DRAIN_GAIN, event.largest_sent.next());
        }
    }

    fn on_ecn(&mut self, event: &EcnEvent) {
        if event.newest_acked < self.mark_recover {
            return;
        }
        self.mark_recover = event.largest_sent.next();
        self.last_cut = Some(MARK_FACTOR);
        self.cut_count += 1;
        if self.phase == Phase::Start {
            let flight = self.flight().max(self.params.min_tokens);
            self.floor.restart(event.now, flight, event.largest_sent);
            self.is_test = true;
        }
        self.floor.back_off(
            event.now,
            MARK_FACTOR,
            self.params.min_tokens,
            event.largest_sent,
        );
        let rate = self.bandwidth.largest();
        if rate > 0.0 {
            self.bandwidth.reset(rate * MARK_FACTOR);
            self.begin_drain(DRAIN_GAIN, event.largest_sent.next());
        } else {
            self.start_window = self.hold(self.start_window * MARK_FACTOR);
        }
    }

    /// A first silence halves the model: a burst may have taken a flight and
    /// all probes. A second one without an answer between starts anew.
    fn on_silence(&mut self, event: &SilenceEvent) {
        let next = event.largest_sent.next();
        let window = self.params.after_silence();
        let keeps_model = !self.is_silent
            && self.params.silence_tokens.is_none()
            && self.phase != Phase::Start
            && self.flight() > 2.0 * window;
        self.chance.end_drain(next);
        if keeps_model {
            self.bandwidth
                .reset(self.bandwidth.largest() * SILENCE_FACTOR);
            self.floor
                .restart(event.now, self.flight(), event.largest_sent);
            self.phase = Phase::Cruise { rounds: 0 };
        } else {
            let share = self.floor.share();
            *self = Self {
                start_window: window,
                resume: Resume::default(),
                floor: Floor::with_share(window, share),
                base: self.base,
                srtt: self.srtt,
                cut_count: self.cut_count,
                ..auto(&self.params)
            };
        }
        self.is_silent = true;
        self.is_test = false;
        self.cut_count += 1;
        self.last_cut = Some(SILENCE_FACTOR);
        self.stale_before = next;
        self.mark_recover = next;
        self.loss_recover = next;
        self.rounds.restart(next);
    }

    fn on_coupling(&mut self, event: &CouplingEvent) {
        self.floor.set_share(event.share);
    }

    fn on_partner_loss(&mut self, event: &PartnerLossEvent) {
        let tokens = self.tokens();
        let low = self.params.min_tokens;
        if self.phase != Phase::Start && self.floor.on_partner_loss(event, tokens, low) {
            self.falls.answer();
        }
    }

    fn on_path_change(&mut self, event: &PathChangeEvent) {
        let next = event.largest_sent.next();
        *self = Self {
            resume: Resume::default(),
            stale_before: next,
            mark_recover: next,
            cut_count: self.cut_count,
            ..auto(&self.params)
        };
        self.rounds.restart(next);
    }

    fn tokens(&self) -> f64 {
        self.hold(self.window())
    }

    fn pacing_rate(&self, srtt: Option<Duration>) -> Option<f64> {
        let srtt = srtt.filter(|srtt| !srtt.is_zero())?.as_secs_f64();
        let rate = match self.phase {
            Phase::Start => self.start_rate(srtt),
            _ if self.is_floored() => FLOOR_PACING_GAIN * self.floor.window() / srtt,
            _ if self.is_yielding() => self.gain() * self.wire_rate(),
            _ => (self.gain() * self.wire_rate()).max(self.floor.window() / srtt),
        };
        Some(rate.clamp(1e-3, 1e12))
    }

    fn in_slow_start(&self) -> bool {
        self.phase == Phase::Start
    }

    fn learnt(&self) -> Option<Remembered> {
        let rate = self.bandwidth.largest();
        let rtt = self.base.filter(|base| !base.is_zero())?;
        (self.phase != Phase::Start && rate > 0.0).then_some(Remembered {
            packets_per_second: rate,
            rtt,
        })
    }

    fn name(&self) -> &'static str {
        "auto"
    }

    fn state(&self) -> ControllerState {
        ControllerState {
            tokens: self.tokens(),
            ss_threshold: None,
            phase: match self.phase {
                Phase::Start if self.resume.is_jumped() => "resume",
                Phase::Start => "start",
                _ if self.is_floored() => "floor",
                Phase::Drain { .. } => "drain",
                Phase::Settle { .. } => "settle",
                Phase::Cruise { .. } => "cruise",
                Phase::Probe { .. } => "probe",
                Phase::Judge { .. } => "judge",
            },
            last_backoff: self.last_cut,
            backoff_count: self.cut_count,
        }
    }
}
