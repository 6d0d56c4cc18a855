//! `bbr`: BBR version 1, which models the path instead of counting losses.
//!
//! `tcp-flavours.md` §10, after Cardwell et al. 2016 and its Linux module.
//!
//! ```text
//! bw      = largest delivery rate of the last 10 round trips
//! rtprop  = smallest round trip of the last 10 s
//! rate    = 0.99·pacing_gain·bw          tokens = cwnd_gain·bw·rtprop + 3
//! startup: gains 2/ln 2, until bw grew by less than a quarter in 3 round trips
//! drain:   pacing 1/2.89, until the flight is bw·rtprop
//! probe:   pacing 1.25, 0.75, then six times 1, a rtprop each; cwnd gain 2
//! probe RTT: 4 tokens for 200 ms whenever rtprop is 10 s old
//! ```
//!
//! Loss is ignored, so it helps on lossy paths: it keeps its rate up to about
//! 1 − 1/1.25 = 20 % loss, where probing at 1.25 times the rate no longer brings
//! more through. It takes most of a shared bottleneck from loss-based flows and
//! keeps up to a bandwidth-delay product queued.
//!
//! Left out of Linux's version: packet conservation in the first round of a
//! recovery, and the long-term rate for policers. The phase in which probing
//! begins is drawn from the time, as there is no randomness in here. CE marks are
//! ignored, as version 1 does.

use ctcp_units::{Duration, Instant, PacketNumber, millis, seconds};

use crate::controller::{Controller, ControllerState};
use crate::event::{
    AckEvent, DeliverySample, EcnEvent, LossEvent, PathChangeEvent, SentEvent, SilenceEvent,
};
use crate::params::Params;

/// 2/ln 2: the smallest gain that doubles the delivery rate each round trip.
const HIGH_GAIN: f64 = 2.885_390_081_777_927;
/// The cycle of pacing gains while probing.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
const PROBE_CWND_GAIN: f64 = 2.0;
/// Paced a little below the estimate, so that a queue does not build up from
/// its error.
const PACING_MARGIN: f64 = 0.99;
/// Round trips of the bandwidth filter.
const BANDWIDTH_ROUNDS: usize = 10;
/// How long a smallest round trip is believed.
const RTPROP_AGE_MAX: Duration = seconds(10);
const PROBE_RTT_SPAN: Duration = millis(200);
/// Tokens in probe RTT, and the least at any time.
const TOKENS_LOW: f64 = 4.0;
/// Tokens above gain·bw·rtprop, for ACKs that cover several packets.
const TOKENS_SLACK: f64 = 3.0;
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBandwidth,
    ProbeRtt,
}

/// The controller `bbr`.
#[derive(Debug, Clone)]
pub struct Bbr {
    params: Params,
    mode: Mode,
    tokens: f64,
    /// Tokens to return to after probe RTT.
    tokens_before: f64,
    bandwidth: BandwidthFilter,
    rtprop: Option<Duration>,
    rtprop_at: Instant,
    /// When probe RTT may end; `None`: the flight has not fallen yet.
    probe_rtt_end: Option<Instant>,
    /// A round began since the flight fell.
    probe_rtt_round: bool,
    /// A round ends when this many were delivered at the sending of its packet.
    round_end: u64,
    /// Largest bandwidth seen in startup, and rounds since it last grew.
    full_bandwidth: f64,
    full_rounds: u32,
    is_full: bool,
    phase: usize,
    phase_start: Instant,
    has_loss_in_phase: bool,
    /// Packets sent after a pause of the application are on their way.
    is_restarting: bool,
    stale_before: PacketNumber,
    silence_count: u64,
}

/// The controller `bbr`.
pub fn bbr(params: &Params) -> Bbr {
    let params = params.clamped();
    Bbr {
        params,
        mode: Mode::Startup,
        tokens: params.init_tokens,
        tokens_before: 0.0,
        bandwidth: BandwidthFilter::default(),
        rtprop: None,
        rtprop_at: Instant::EPOCH,
        probe_rtt_end: None,
        probe_rtt_round: false,
        round_end: 0,
        full_bandwidth: 0.0,
        full_rounds: 0,
        is_full: false,
        phase: 0,
        phase_start: Instant::EPOCH,
        has_loss_in_phase: false,
        is_restarting: false,
        stale_before: PacketNumber(0),
        silence_count: 0,
    }
}

/// Largest delivery rate of the last rounds, one place a round.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct BandwidthFilter {
    rounds: [f64; BANDWIDTH_ROUNDS],
    current: usize,
    /// Of all rounds; asked for several times an ACK.
    largest: f64,
}

impl BandwidthFilter {
    fn begin_round(&mut self) {
        self.current = (self.current + 1) % BANDWIDTH_ROUNDS;
        self.rounds[self.current] = 0.0;
        self.largest = self.rounds.iter().copied().fold(0.0, f64::max);
    }

    fn put(&mut self, rate: f64) {
        let place = &mut self.rounds[self.current];
        *place = place.max(rate);
        self.largest = self.largest.max(rate);
    }

    /// Packets per second; 0 before the first sample.
    const fn largest(&self) -> f64 {
        self.largest
    }
}

impl Bbr {
    /// The bandwidth it believes in, packets per second; 0 before it has a sample.
    pub fn bandwidth(&self) -> f64 {
        self.bandwidth.largest()
    }

    fn pacing_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup => HIGH_GAIN,
            Mode::Drain => 1.0 / HIGH_GAIN,
            Mode::ProbeBandwidth if self.is_restarting => 1.0,
            Mode::ProbeBandwidth => CYCLE[self.phase],
            Mode::ProbeRtt => 1.0,
        }
    }

    fn cwnd_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup | Mode::Drain => HIGH_GAIN,
            Mode::ProbeBandwidth => PROBE_CWND_GAIN,
            Mode::ProbeRtt => 1.0,
        }
    }

    /// `gain` times the bandwidth-delay product in packets, if it is known.
    fn flight(&self, gain: f64) -> Option<f64> {
        let bandwidth = self.bandwidth.largest();
        let rtprop = self.rtprop?.as_secs_f64();
        (bandwidth > 0.0).then_some(gain * bandwidth * rtprop)
    }

    /// Takes in a delivery sample; answers whether a round begins with it.
    fn on_delivery(&mut self, sample: &DeliverySample, delivered: u64) -> bool {
        let is_round_start = sample.delivered_packets_before >= self.round_end;
        if is_round_start {
            self.round_end = delivered;
            self.bandwidth.begin_round();
        }
        // A sample over less than a round trip is compressed ACKs.
        let is_whole = self.rtprop.is_none_or(|rtprop| sample.interval >= rtprop);
        let rate = sample.packets_per_second();
        if is_whole && (!sample.app_limited || rate >= self.bandwidth.largest()) {
            self.bandwidth.put(rate);
        }
        is_round_start
    }

    /// Whether startup has found the bandwidth.
    fn judge_startup(&mut self) {
        let bandwidth = self.bandwidth.largest();
        if bandwidth >= FULL_GROWTH * self.full_bandwidth {
            self.full_bandwidth = bandwidth;
            self.full_rounds = 0;
            return;
        }
        self.full_rounds += 1;
        self.is_full = self.full_rounds >= FULL_ROUNDS;
    }

    /// Drain follows a full startup, probing an empty queue.
    fn advance_mode(&mut self, event: &AckEvent) {
        if self.mode == Mode::Startup && self.is_full {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain
            && self
                .flight(1.0)
                .is_some_and(|flight| event.in_flight as f64 <= flight)
        {
            self.begin_probing(event.now);
        }
    }

    fn begin_probing(&mut self, now: Instant) {
        self.mode = Mode::ProbeBandwidth;
        // Any phase but the one that drains; flows that start together part.
        let draw = (now.as_nanos().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % 7;
        self.phase = if draw == 0 { 0 } else { 1 + draw as usize };
        self.phase_start = now;
        self.has_loss_in_phase = false;
    }

    fn advance_phase(&mut self, event: &AckEvent) {
        let Some(rtprop) = self.rtprop else { return };
        let is_elapsed = event.now - self.phase_start > rtprop;
        let before_ack = (event.in_flight + event.acked_packets) as f64;
        let has_filled = |gain| self.flight(gain).is_some_and(|it| before_ack >= it);
        let gain = CYCLE[self.phase];
        let is_over = if gain > 1.0 {
            is_elapsed && (self.has_loss_in_phase || has_filled(gain))
        } else if gain < 1.0 {
            is_elapsed || !has_filled(1.0)
        } else {
            is_elapsed
        };
        if is_over {
            self.phase = (self.phase + 1) % CYCLE.len();
            self.phase_start = event.now;
            self.has_loss_in_phase = false;
        }
    }

    /// Takes in a round trip; answers whether the estimate had grown too old.
    fn on_rtt(&mut self, now: Instant, sample: Option<Duration>) -> bool {
        let is_expired = self.rtprop.is_some() && now - self.rtprop_at > RTPROP_AGE_MAX;
        if let Some(sample) = sample
            && (is_expired || self.rtprop.is_none_or(|rtprop| sample <= rtprop))
        {
            self.rtprop = Some(sample);
            self.rtprop_at = now;
        }
        is_expired
    }

    fn advance_probe_rtt(&mut self, event: &AckEvent, is_expired: bool, is_round_start: bool) {
        if is_expired && !self.is_restarting && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.tokens_before = self.tokens;
            self.probe_rtt_end = None;
        }
        if self.mode != Mode::ProbeRtt {
            return;
        }
        match self.probe_rtt_end {
            None if event.in_flight as f64 <= TOKENS_LOW => {
                self.probe_rtt_end = Some(event.now + PROBE_RTT_SPAN);
                self.probe_rtt_round = false;
                self.round_end = event.delivered_packets;
            }
            None => {}
            Some(end) => {
                self.probe_rtt_round |= is_round_start;
                if self.probe_rtt_round && event.now >= end {
                    self.rtprop_at = event.now;
                    self.tokens = self.tokens.max(self.tokens_before);
                    if self.is_full {
                        self.begin_probing(event.now);
                    } else {
                        self.mode = Mode::Startup;
                    }
                }
            }
        }
    }

    fn set_tokens(&mut self, event: &AckEvent) {
        let acked = event.acked_packets as f64;
        let target = self
            .flight(self.cwnd_gain())
            .map_or(self.params.init_tokens, |flight| flight + TOKENS_SLACK);
        if self.is_full {
            self.tokens = (self.tokens + acked).min(target);
        } else if self.tokens < target || event.delivered_packets as f64 <= self.params.init_tokens
        {
            self.tokens += acked;
        }
        self.tokens = self.tokens.max(TOKENS_LOW);
        if self.mode == Mode::ProbeRtt {
            self.tokens = TOKENS_LOW;
        }
        self.hold();
    }

    fn hold(&mut self) {
        let low = self.params.min_tokens.min(self.params.after_silence());
        self.tokens = self.tokens.clamp(low, self.params.max_tokens);
    }
}

impl Controller for Bbr {
    fn on_sent(&mut self, event: &SentEvent) {
        if event.app_limited && event.in_flight <= 1 {
            self.is_restarting = true;
        }
    }

    fn on_ack(&mut self, event: &AckEvent) {
        if event.newest_acked < self.stale_before {
            return;
        }
        let mut is_round_start = false;
        if let Some(sample) = &event.delivery {
            is_round_start = self.on_delivery(sample, event.delivered_packets);
            if is_round_start && !self.is_full && !sample.app_limited {
                self.judge_startup();
            }
        }
        let is_expired = self.on_rtt(event.now, event.rtt_sample);
        self.advance_mode(event);
        if self.mode == Mode::ProbeBandwidth {
            self.advance_phase(event);
        }
        self.advance_probe_rtt(event, is_expired, is_round_start);
        self.is_restarting = false;
        self.set_tokens(event);
    }

    fn on_loss(&mut self, _event: &LossEvent) {
        self.has_loss_in_phase = true;
    }

    fn on_ecn(&mut self, _event: &EcnEvent) {}

    /// The window collapses; the model stays, and leads back to it with the
    /// first ACKs.
    fn on_silence(&mut self, event: &SilenceEvent) {
        self.stale_before = event.largest_sent.next();
        self.tokens = self.params.after_silence();
        self.full_bandwidth = 0.0;
        self.full_rounds = 0;
        self.silence_count += 1;
        self.hold();
    }

    fn on_path_change(&mut self, event: &PathChangeEvent) {
        *self = Self {
            stale_before: event.largest_sent.next(),
            round_end: self.round_end,
            silence_count: self.silence_count,
            ..bbr(&self.params)
        };
    }

    fn tokens(&self) -> f64 {
        self.tokens
    }

    /// Before the first sample the initial window is spread over what is known
    /// of the round trip; startup never falls below that rate.
    fn pacing_rate(&self, srtt: Option<Duration>) -> Option<f64> {
        let modelled = PACING_MARGIN * self.pacing_gain() * self.bandwidth.largest();
        if self.is_full && modelled > 0.0 {
            return Some(modelled);
        }
        let srtt = srtt.filter(|srtt| !srtt.is_zero())?.as_secs_f64();
        Some(modelled.max(HIGH_GAIN * self.params.init_tokens / srtt))
    }

    fn in_slow_start(&self) -> bool {
        self.mode == Mode::Startup
    }

    fn name(&self) -> &'static str {
        "bbr"
    }

    /// Its backoffs are the silences.
    fn state(&self) -> ControllerState {
        ControllerState {
            tokens: self.tokens,
            ss_threshold: None,
            phase: match self.mode {
                Mode::Startup => "startup",
                Mode::Drain => "drain",
                Mode::ProbeBandwidth => "probe_bw",
                Mode::ProbeRtt => "probe_rtt",
            },
            last_backoff: None,
            backoff_count: self.silence_count,
        }
    }
}
