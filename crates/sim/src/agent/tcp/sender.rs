//! The sending half: when which segment leaves.
//!
//! Phases: *open*; *recovery* after a loss found by SACK or duplicate ACKs, until
//! everything sent before it is acknowledged; *loss* after a timeout, the same.
//! The window is the controller's; it hears of one loss per recovery and of one
//! congestion echo per round trip, and its window does not grow in recovery.
//!
//! Departures from [RFC6675]: losses among what was sent during a recovery begin
//! another one when it ends, as [RFC5681] §4.3 wants two windows with losses to
//! reduce twice. Under a block code the timer starts again with every segment of a
//! block that is still being sent.

use ctcp_congestion::{
    AckEvent, Controller, DeliverySample, EcnEvent, LossEstimate, LossEvent, SentEvent,
    SilenceEvent, scaled_window,
};
use ctcp_units::{Duration, Instant, LossRate, PacketNumber, Random};

use super::config::{Recovery, TcpConfig};
use super::fec::{Coder, Next};
use super::rack::Rack;
use super::scoreboard::{Losses, News, RateMark, Scoreboard, Sent};
use super::{Ack, RttEstimator, Segment};
use crate::agent::{AgentStats, Integral};

/// Duplicate ACKs that begin a recovery without SACK.
const DUP_ACKS: u64 = 3;
/// Window that stands for "no limit", in segments.
const WINDOW_MAX: u64 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    Recovery,
    Loss,
}

/// One connection's sender.
#[derive(Debug)]
pub(crate) struct TcpSender {
    connection: u32,
    recovery: Recovery,
    has_limited_transmit: bool,
    is_ecn_enabled: bool,
    is_paced: bool,
    /// Draws for the gaps of a constant source: two of exactly the same rate
    /// would keep the same places in a queue for ever, and one lose everything.
    jitter: Option<Random>,
    payload_bytes: u32,
    receive_window: u64,
    controller: Box<dyn Controller>,
    rtt: RttEstimator,
    board: Scoreboard,
    rack: Rack,
    coder: Coder,
    scales_window: bool,
    /// The controller counts losses itself: it hears of each, not of each
    /// recovery.
    tells_every_loss: bool,
    phase: Phase,
    /// The phase ends when everything before this is acknowledged.
    recover: u64,
    /// The first retransmission of a recovery leaves whatever the window says.
    is_resend_forced: bool,
    /// Rule (4) of `NextSeg` was used in this recovery.
    is_rescued: bool,
    /// Duplicate ACKs that stand for segments that arrived, without SACK.
    anonymous: u64,
    next_number: u64,
    /// Bytes the client asked for, and those given to segments.
    available: u64,
    segmented: u64,
    rto_at: Option<Instant>,
    next_send_at: Instant,
    /// When a segment was last sent or acknowledged.
    active_at: Instant,
    /// No further reduction for congestion echoes of segments before this.
    reduced_to: u64,
    has_reduced: bool,
    delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    lost: u64,
    loss: LossMeter,
    window: Integral,
    stats: AgentStats,
}

impl TcpSender {
    /// A sender that has nothing to send yet.
    pub(crate) fn new(
        now: Instant,
        config: &TcpConfig,
        controller: Box<dyn Controller>,
        connection: u32,
    ) -> Self {
        let mut window = Integral::default();
        window.set(now, controller.tokens());
        Self {
            connection,
            recovery: config.recovery,
            has_limited_transmit: config.has_limited_transmit,
            is_ecn_enabled: config.is_ecn_enabled,
            is_paced: config.paces(),
            jitter: None,
            payload_bytes: config.payload_bytes,
            receive_window: config.receive_window.unwrap_or(WINDOW_MAX),
            controller,
            rtt: RttEstimator::new(config.rto_min, config.rto_max),
            board: Scoreboard::default(),
            rack: Rack::new(config.recovery == Recovery::Rack),
            coder: Coder::new(config.coding),
            scales_window: config.scales_window,
            tells_every_loss: config.congestion == "tcp-cd",
            phase: Phase::Open,
            recover: 0,
            is_resend_forced: false,
            is_rescued: false,
            anonymous: 0,
            next_number: 0,
            available: 0,
            segmented: 0,
            rto_at: None,
            next_send_at: now,
            active_at: now,
            reduced_to: 0,
            has_reduced: false,
            delivered: 0,
            delivered_at: now,
            first_sent_at: now,
            lost: 0,
            loss: LossMeter::default(),
            window,
            stats: AgentStats::default(),
        }
    }

    /// Varies the gaps between paced segments by up to a fifth.
    pub(crate) fn set_jitter(&mut self, random: Random) {
        self.jitter = Some(random);
    }

    /// The client has asked for `bytes` in all.
    pub(crate) fn set_available(&mut self, bytes: u64) {
        self.available = self.available.max(bytes);
    }

    /// A round trip measured by the handshake.
    pub(crate) fn on_handshake_sample(&mut self, now: Instant, sample: Duration) {
        self.rtt.on_sample(now, sample);
    }

    /// Transmissions thought to be in the network.
    fn pipe(&self) -> u64 {
        self.board.pipe().saturating_sub(self.anonymous)
    }

    fn window(&self) -> u64 {
        let mut tokens = self.controller.tokens();
        if self.scales_window {
            tokens = scaled_window(tokens, self.coder.mean_loss());
        }
        tokens.max(1.0) as u64
    }

    fn largest_sent(&self) -> PacketNumber {
        PacketNumber(self.next_number.saturating_sub(1))
    }

    /// An acknowledgement has arrived.
    pub(crate) fn handle_ack(&mut self, now: Instant, ack: &Ack) {
        if ack.cumulative > self.board.next() {
            return;
        }
        let blocks = match self.recovery {
            Recovery::NewReno => &[],
            Recovery::Sack | Recovery::Rack => ack.blocks(),
        };
        let mut news = self.board.on_ack(ack.cumulative, blocks);
        self.count_anonymous(ack, &mut news);
        let rtt_sample = news.sample_sent_at.map(|sent_at| now - sent_at);
        if let Some(sample) = rtt_sample {
            self.rtt.on_sample(now, sample);
        }
        if news.advanced > 0 {
            self.rtt.on_progress();
            self.rearm(now);
        }
        if news.delivered > 0 {
            self.active_at = now;
            self.delivered += news.delivered;
            self.delivered_at = now;
        }
        let arrivals = self.coder.on_ack(ack, self.board.next());
        let losses = self.find_losses(now, &news);
        self.lost += losses.count;
        self.loss.on_ack(
            news.delivered,
            losses.count,
            self.board.una(),
            self.board.next(),
        );
        let could_grow = self.phase != Phase::Recovery;
        self.change_phase(now, &losses, news.advanced);
        if self.tells_every_loss && arrivals.lost > 0 {
            self.tell_losses(now, arrivals.lost);
        }
        self.on_congestion_echo(now, ack, &news);
        self.tell_controller(now, &news, rtt_sample, could_grow, arrivals.received);
        if let Some(newest) = &news.newest {
            self.first_sent_at = newest.sent_at;
        }
        self.window.set(now, self.controller.tokens());
        if let Some(srtt) = self.rtt.srtt() {
            self.stats.srtt_samples += 1;
            self.stats.srtt_sum_nanos += srtt.as_nanos();
        }
    }

    /// Without SACK a duplicate ACK says that some segment has arrived.
    fn count_anonymous(&mut self, ack: &Ack, news: &mut News) {
        if self.recovery != Recovery::NewReno {
            return;
        }
        if news.advanced > 0 {
            let hidden = self.anonymous.min(news.advanced - 1);
            news.delivered = news.advanced - hidden;
            // Duplicates count from the last advance, but in a recovery, where
            // they stand for what a partial ACK does not name.
            self.anonymous = match self.phase {
                Phase::Recovery => self.anonymous - hidden,
                Phase::Open | Phase::Loss => 0,
            };
        } else if !ack.is_request && self.board.outstanding() > self.anonymous + 1 {
            self.anonymous += 1;
            news.delivered = 1;
        }
    }

    fn find_losses(&mut self, now: Instant, news: &News) -> Losses {
        match self.recovery {
            _ if self.coder.is_coding() => self.coder.find_losses(&mut self.board),
            Recovery::Sack => self.board.find_losses(),
            Recovery::Rack => {
                let mut losses = self.board.find_losses();
                self.rack.on_news(news, &self.rtt);
                self.rack.find_losses(now, &mut self.board, &mut losses);
                losses
            }
            Recovery::NewReno => {
                let mut losses = Losses::default();
                // The first segment missing: after three duplicates, and again
                // whenever a recovery advances without ending.
                let is_hole = match self.phase {
                    Phase::Open => self.anonymous >= DUP_ACKS,
                    Phase::Recovery => news.advanced > 0 && self.board.una() < self.recover,
                    Phase::Loss => false,
                };
                if is_hole
                    && self
                        .board
                        .get(self.board.una())
                        .is_some_and(|one| !one.is_lost)
                {
                    self.board.mark_lost(self.board.una(), &mut losses);
                }
                losses
            }
        }
    }

    fn change_phase(&mut self, now: Instant, losses: &Losses, advanced: u64) {
        if self.phase != Phase::Open && self.board.una() >= self.recover {
            self.phase = Phase::Open;
            self.anonymous = 0;
        }
        if self.phase == Phase::Open && self.board.lost() > 0 {
            self.enter_recovery(now, losses);
        }
        // A retransmission that a partial ACK calls for leaves at once.
        if self.recovery == Recovery::NewReno && self.phase == Phase::Recovery && advanced > 0 {
            self.is_resend_forced = true;
        }
    }

    fn enter_recovery(&mut self, now: Instant, losses: &Losses) {
        self.phase = Phase::Recovery;
        self.recover = self.board.next();
        self.reduced_to = self.recover;
        self.is_resend_forced = true;
        self.is_rescued = false;
        self.has_reduced = true;
        if self.tells_every_loss {
            return;
        }
        let largest = self.largest_sent();
        // Losses found in the last recovery and not repaired in it begin this
        // one: they were sent after the last reduction.
        let (first, last, last_sent_at) = match losses.count {
            0 => (largest.0, largest.0, self.active_at),
            _ => (losses.first, losses.last, losses.last_sent_at),
        };
        self.controller.on_loss(&LossEvent {
            now,
            lost_packets: losses.count.max(1),
            first_lost: PacketNumber(first),
            last_lost: PacketNumber(last),
            last_lost_sent_at: last_sent_at,
            largest_sent: largest,
            in_flight: self.pipe(),
            rtt: self.rtt.summary(),
            loss: self.loss.estimate(),
        });
    }

    /// Losses as the receiver counts them, repaired by the code or not.
    fn tell_losses(&mut self, now: Instant, count: u64) {
        let largest = self.largest_sent();
        self.controller.on_loss(&LossEvent {
            now,
            lost_packets: count,
            first_lost: largest,
            last_lost: largest,
            last_lost_sent_at: self.active_at,
            largest_sent: largest,
            in_flight: self.pipe(),
            rtt: self.rtt.summary(),
            loss: self.loss.estimate(),
        });
    }

    fn on_congestion_echo(&mut self, now: Instant, ack: &Ack, news: &News) {
        if !self.is_ecn_enabled || !ack.is_congested || ack.cumulative <= self.reduced_to {
            return;
        }
        self.has_reduced = true;
        self.reduced_to = self.board.next();
        if self.phase != Phase::Open {
            return;
        }
        let newest = news.newest.as_ref();
        self.controller.on_ecn(&EcnEvent {
            now,
            ce_packets: 1,
            newest_acked: newest.map_or(self.largest_sent(), |one| PacketNumber(one.number)),
            sent_at: newest.map_or(now, |one| one.sent_at),
            largest_sent: self.largest_sent(),
            in_flight: self.pipe(),
            rtt: self.rtt.summary(),
        });
    }

    fn tell_controller(
        &mut self,
        now: Instant,
        news: &News,
        rtt_sample: Option<Duration>,
        could_grow: bool,
        arrived: u64,
    ) {
        let Some(newest) = &news.newest else { return };
        // The window stands still in recovery, and for duplicate ACKs.
        // What a code repairs is no recovery.
        let stands_still = !self.coder.is_coding()
            && (!could_grow || self.phase == Phase::Recovery || news.advanced == 0);
        self.controller.on_ack(&AckEvent {
            now,
            newest_acked: PacketNumber(newest.number),
            sent_at: newest.sent_at,
            largest_sent: self.largest_sent(),
            acked_packets: match self.coder.is_coding() {
                true => arrived.max(1),
                false => news.delivered.max(1),
            },
            in_flight: self.pipe(),
            // A window beyond the receiver's is not used.
            app_limited: newest.is_app_limited
                || self.controller.tokens() >= self.receive_window as f64,
            in_recovery: stands_still,
            rtt_sample,
            rtt: self.rtt.summary(),
            delivered_packets: self.delivered,
            delivery: self.delivery(now, newest),
            loss: self.loss.estimate(),
        });
    }

    fn delivery(&self, now: Instant, newest: &Sent) -> Option<DeliverySample> {
        let mark = &newest.rate;
        let interval = (newest.sent_at - mark.first_sent_at).max(now - mark.delivered_at);
        (!interval.is_zero()).then(|| DeliverySample {
            delivered_packets: self.delivered - mark.delivered,
            interval,
            delivered_packets_before: mark.delivered,
            lost_packets: self.lost - mark.lost,
            in_flight_at_send: mark.in_flight,
            app_limited: newest.is_app_limited,
        })
    }

    /// When to be called if no ACK comes before.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let pacing = (self.is_paced && self.wants_to_send()).then_some(self.next_send_at);
        [self.rto_at, self.rack.deadline(), pacing]
            .into_iter()
            .flatten()
            .min()
    }

    /// Acts on what is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.rto_at.is_some_and(|at| at <= now) {
            self.on_timeout(now);
        }
        if self.rack.reordering_due(now) {
            let mut losses = Losses::default();
            self.rack.find_losses(now, &mut self.board, &mut losses);
            self.lost += losses.count;
            self.change_phase(now, &losses, 0);
        }
        if self.rack.probe_due(now) {
            self.is_resend_forced = true;
        }
        self.window.set(now, self.controller.tokens());
    }

    fn on_timeout(&mut self, now: Instant) {
        self.stats.timeouts += 1;
        self.stats.time_in_timeout += now - self.active_at;
        self.controller.on_silence(&SilenceEvent {
            now,
            largest_sent: self.largest_sent(),
            in_flight: self.pipe(),
        });
        self.board.mark_all_lost();
        self.rack.clear();
        self.anonymous = 0;
        self.phase = Phase::Loss;
        self.recover = self.board.next();
        self.reduced_to = self.recover;
        self.is_resend_forced = true;
        self.rtt.on_timeout();
        self.active_at = now;
        self.rto_at = Some(now + self.rtt.rto());
    }

    fn rearm(&mut self, now: Instant) {
        self.rto_at = (self.board.outstanding() > 0).then(|| now + self.rtt.rto());
    }

    fn has_data(&self) -> bool {
        self.segmented < self.available
    }

    /// Whether there may be something that was never sent.
    fn has_new(&self) -> bool {
        self.has_data() || self.coder.is_in_block()
    }

    /// What the next new segment is.
    fn next_new(&mut self) -> Option<Next> {
        if !self.coder.is_coding() {
            return Some(Next::Data);
        }
        let arriving = 1.0 - self.coder.mean_loss();
        let window = self.controller.tokens() * arriving;
        let (sequence, has_data) = (self.board.next(), self.has_data());
        // A block that ended with the data gives way to none.
        self.coder.next(sequence, window, has_data)
    }

    fn fits_receiver(&self) -> bool {
        self.board.outstanding() < self.receive_window
    }

    /// Whether the window lets a segment go.
    fn has_window(&self) -> bool {
        match self.phase {
            Phase::Open if !self.coder.is_coding() => {
                let heard = self.board.sacked() + self.anonymous;
                let extra = match self.has_limited_transmit {
                    true => heard.min(DUP_ACKS - 1),
                    false => 0,
                };
                self.board.outstanding() < self.window() + extra
            }
            _ => self.pipe() < self.window(),
        }
    }

    fn wants_to_send(&self) -> bool {
        (self.is_resend_forced && self.board.to_resend() > 0)
            || (self.has_window()
                && (self.board.to_resend() > 0 || (self.has_new() && self.fits_receiver())))
    }

    /// The next segment that may leave now.
    pub(crate) fn poll_segment(&mut self, now: Instant) -> Option<Segment> {
        if self.is_paced && now < self.next_send_at {
            return None;
        }
        if core::mem::take(&mut self.is_resend_forced)
            && let Some(sequence) = self.forced()
        {
            return Some(self.resend(now, sequence));
        }
        if !self.has_window() {
            return None;
        }
        if self.phase != Phase::Open
            && let Some(sequence) = self.board.next_to_resend()
        {
            return Some(self.resend(now, sequence));
        }
        if self.has_new()
            && self.fits_receiver()
            && let Some(what) = self.next_new()
        {
            return Some(self.send_new(now, what));
        }
        if self.phase == Phase::Recovery && self.recovery != Recovery::NewReno {
            return self.repair_tail(now);
        }
        None
    }

    fn forced(&mut self) -> Option<u64> {
        match self.rack.take_probe() {
            true => self.board.last_unsacked(),
            false => self.board.next_to_resend(),
        }
    }

    /// Rules (3) and (4) of `NextSeg`: nothing else is to be sent.
    fn repair_tail(&mut self, now: Instant) -> Option<Segment> {
        if let Some(sequence) = self.board.next_hole(self.board.una()) {
            return Some(self.resend(now, sequence));
        }
        if self.is_rescued {
            return None;
        }
        self.is_rescued = true;
        let sequence = self.board.last_unsacked()?;
        Some(self.resend(now, sequence))
    }

    fn mark(&mut self, now: Instant) -> RateMark {
        if self.pipe() == 0 {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        RateMark {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            in_flight: self.pipe() + 1,
            lost: self.lost,
        }
    }

    fn send_new(&mut self, now: Instant, what: Next) -> Segment {
        let left = match what {
            Next::Data => self.available - self.segmented,
            Next::Parity => 0,
        };
        let len = left.min(u64::from(self.payload_bytes)) as u32;
        self.stats.coded_packets += u64::from(what == Next::Parity);
        self.segmented += u64::from(len);
        let rate = self.mark(now);
        let sequence = self.board.next();
        // Whether the window is the limit shows by what is left to send.
        let fills_receiver = self.board.outstanding() + 1 >= self.receive_window;
        let is_app_limited = !self.has_data() || fills_receiver;
        self.board
            .push(now, self.next_number, len, is_app_limited, rate);
        self.sent(now, sequence);
        let is_window_reduced = self.is_ecn_enabled && core::mem::take(&mut self.has_reduced);
        Segment {
            connection: self.connection,
            len,
            sequence,
            is_window_reduced,
            number: self.next_number - 1,
            block: self.coder.tag(sequence, what, len),
        }
    }

    fn resend(&mut self, now: Instant, sequence: u64) -> Segment {
        let rate = self.mark(now);
        self.board.resend(now, sequence, self.next_number, rate);
        self.stats.retransmissions += 1;
        if sequence == self.board.una() {
            self.rto_at = Some(now + self.rtt.rto());
        }
        self.sent(now, sequence);
        let len = self.board.get(sequence).map_or(0, |one| one.len);
        Segment {
            connection: self.connection,
            len,
            sequence,
            is_window_reduced: false,
            number: self.next_number - 1,
            block: match self.coder.is_coding() {
                true => self.coder.tag_of(sequence),
                false => super::fec::BlockTag::default(),
            },
        }
    }

    fn sent(&mut self, now: Instant, sequence: u64) {
        self.rack.on_sent(
            now,
            sequence,
            self.next_number,
            &self.rtt,
            self.board.outstanding(),
        );
        self.next_number += 1;
        self.active_at = now;
        self.stats.data_packets += 1;
        // The ACK stands still while a block with a hole is being sent, be it for
        // longer than a timeout: what is missing may come by its parity.
        let is_unfinished = self
            .coder
            .is_unfinished(self.board.una(), self.board.next());
        if self.rto_at.is_none() || is_unfinished {
            self.rto_at = Some(now + self.rtt.rto());
        }
        if self.is_paced
            && let Some(rate) = self.controller.pacing_rate(self.rtt.srtt())
            && rate > 0.0
        {
            let factor = match &mut self.jitter {
                Some(random) => 0.8 + 0.4 * random.unit(),
                None => 1.0,
            };
            let gap = Duration::from_secs_f64((factor / rate).min(10.0));
            self.next_send_at = self.next_send_at.max(now.saturating_sub(gap)) + gap;
        }
        self.controller.on_sent(&SentEvent {
            now,
            number: PacketNumber(self.next_number - 1),
            in_flight: self.pipe(),
            app_limited: !self.has_data() || !self.fits_receiver(),
        });
    }

    /// Counts as of `now`.
    pub(crate) fn stats(&self, now: Instant) -> AgentStats {
        AgentStats {
            backoffs: self.controller.state().backoff_count,
            window_integral: self.window.at(now),
            window: self.controller.tokens(),
            in_flight: self.pipe(),
            srtt: self.rtt.srtt(),
            ..self.stats
        }
    }
}

/// Share of segments lost, by rounds of a window: short and long mean, and the
/// mean deviation between them.
#[derive(Debug, Default)]
struct LossMeter {
    delivered: u64,
    lost: u64,
    round_ends: u64,
    p: f64,
    p_long: f64,
    p_dev: f64,
}

impl LossMeter {
    fn on_ack(&mut self, delivered: u64, lost: u64, una: u64, next: u64) {
        self.delivered += delivered;
        self.lost += lost;
        if una < self.round_ends || self.delivered == 0 {
            return;
        }
        let share = self.lost as f64 / (self.lost + self.delivered) as f64;
        self.p += (share.min(1.0) - self.p) / 8.0;
        self.p_long += (share.min(1.0) - self.p_long) / 64.0;
        self.p_dev += ((self.p - self.p_long).abs() - self.p_dev) / 8.0;
        self.delivered = 0;
        self.lost = 0;
        self.round_ends = next;
    }

    fn estimate(&self) -> LossEstimate {
        LossEstimate {
            p: LossRate::clamped(self.p),
            p_long: LossRate::clamped(self.p_long),
            p_dev: self.p_dev,
        }
    }
}
