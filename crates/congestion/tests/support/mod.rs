//! A flow over one bottleneck in virtual time: enough network to see a
//! controller act, and no more. The same settings give the same run.
//!
//! Packets leave when tokens (and the pacer) allow, may be lost by chance or by
//! count, then pass a drop-tail queue of fixed rate; the ACK of each comes back
//! `rtt` after it left the queue, in order, so a gap is a loss.

// Each test file uses its own part of this.
#![allow(dead_code)]

pub(crate) mod events;

use std::collections::VecDeque;

use ctcp_congestion::{
    AckEvent, Controller, DeliverySample, EcnEvent, LossEstimate, LossEvent, RttSummary, SentEvent,
    SilenceEvent,
};
use ctcp_units::{Duration, Instant, LossRate, PacketNumber, Random};

/// Nothing came back for so long: silence.
const SILENCE: Duration = Duration::from_secs(1);

/// How packets are lost before the queue.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Loss {
    None,
    /// Each by itself with this probability.
    Random(f64),
    /// Every n-th.
    Every(u64),
}

/// The path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    pub(crate) packets_per_second: f64,
    /// Round trip with an empty queue.
    pub(crate) rtt: Duration,
    /// Packets that may wait, the one in service included.
    pub(crate) queue_packets_max: f64,
    /// Packets that find more than so many waiting are marked.
    pub(crate) mark_above: f64,
    pub(crate) loss: Loss,
    pub(crate) is_paced: bool,
    pub(crate) seed: u64,
}

impl Link {
    /// A lossless path with a queue that never overflows.
    pub(crate) fn new(packets_per_second: f64, rtt: Duration) -> Self {
        Self {
            packets_per_second,
            rtt,
            queue_packets_max: f64::INFINITY,
            mark_above: f64::INFINITY,
            loss: Loss::None,
            is_paced: true,
            seed: 1,
        }
    }

    /// Bandwidth-delay product, packets.
    pub(crate) fn bdp(&self) -> f64 {
        self.packets_per_second * self.rtt.as_secs_f64()
    }
}

/// What a span of time brought.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Report {
    /// Packets that arrived, per second.
    pub(crate) packets_per_second: f64,
    /// Mean tokens over packets sent.
    pub(crate) tokens_mean: f64,
    /// Mean packets queued, as sent packets found them.
    pub(crate) queue_mean: f64,
    pub(crate) queue_max: f64,
    pub(crate) sent: u64,
    pub(crate) delivered: u64,
    pub(crate) overflowed: u64,
}

#[derive(Debug, Clone, Copy)]
struct Packet {
    number: u64,
    sent_at: Instant,
    is_lost: bool,
    is_marked: bool,
    delivered_before: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    in_flight: u64,
    lost_before: u64,
}

/// A flow and its path.
pub(crate) struct Flow {
    pub(crate) controller: Box<dyn Controller>,
    pub(crate) link: Link,
    pub(crate) now: Instant,
    random: Random,
    next: u64,
    in_flight: VecDeque<Packet>,
    /// When the ACKs under way arrive.
    acks: VecDeque<Instant>,
    link_free_at: Instant,
    next_send_at: Instant,
    last_ack_at: Instant,
    delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    lost: u64,
    srtt: Option<Duration>,
    rtt_min: Duration,
    p: f64,
    p_long: f64,
    p_dev: f64,
    report: Report,
    sums: (f64, f64),
}

impl Flow {
    pub(crate) fn new(controller: Box<dyn Controller>, link: Link) -> Self {
        Self {
            controller,
            link,
            now: Instant::EPOCH,
            random: Random::from_seed(link.seed),
            next: 0,
            in_flight: VecDeque::new(),
            acks: VecDeque::new(),
            link_free_at: Instant::EPOCH,
            next_send_at: Instant::EPOCH,
            last_ack_at: Instant::EPOCH,
            delivered: 0,
            delivered_at: Instant::EPOCH,
            first_sent_at: Instant::EPOCH,
            lost: 0,
            srtt: None,
            rtt_min: Duration::MAX,
            p: 0.0,
            p_long: 0.0,
            p_dev: 0.0,
            report: Report::default(),
            sums: (0.0, 0.0),
        }
    }

    /// Runs for `span` and reports it alone.
    pub(crate) fn run(&mut self, span: Duration) -> Report {
        let start = self.now;
        let end = start + span;
        self.report = Report::default();
        self.sums = (0.0, 0.0);
        while self.step(end) {}
        self.now = end;
        let sent = self.report.sent.max(1) as f64;
        Report {
            packets_per_second: self.report.delivered as f64 / span.as_secs_f64(),
            tokens_mean: self.sums.0 / sent,
            queue_mean: self.sums.1 / sent,
            ..self.report
        }
    }

    /// The next thing that happens, unless it is after `end`.
    fn step(&mut self, end: Instant) -> bool {
        let ack = self.acks.front().copied();
        let has_token = (self.in_flight.len() + 1) as f64 <= self.controller.tokens();
        let send = has_token.then(|| self.next_send_at.max(self.now));
        let silence = (!self.in_flight.is_empty() && ack.is_none())
            .then(|| self.last_ack_at.max(self.in_flight[0].sent_at) + SILENCE);
        let Some(next) = [ack, send, silence].into_iter().flatten().min() else {
            return false;
        };
        if next > end {
            return false;
        }
        self.now = next;
        if ack == Some(next) {
            self.receive_ack();
        } else if send == Some(next) {
            self.send();
        } else {
            self.fall_silent();
        }
        true
    }

    fn queued(&self) -> f64 {
        (self.link_free_at - self.now).as_secs_f64() * self.link.packets_per_second
    }

    fn send(&mut self) {
        let number = self.next;
        self.next += 1;
        let queued = self.queued();
        let is_lost = match self.link.loss {
            Loss::None => false,
            Loss::Random(p) => self.random.chance(p),
            Loss::Every(n) => number % n == n - 1,
        };
        let is_overflow = !is_lost && queued + 1.0 > self.link.queue_packets_max;
        if self.in_flight.is_empty() {
            self.first_sent_at = self.now;
            self.delivered_at = self.now;
        }
        let is_lost = is_lost || is_overflow;
        if !is_lost {
            let service = Duration::from_secs_f64(1.0 / self.link.packets_per_second);
            self.link_free_at = self.link_free_at.max(self.now) + service;
            self.acks.push_back(self.link_free_at + self.link.rtt);
        }
        let in_flight = self.in_flight.len() as u64 + 1;
        self.in_flight.push_back(Packet {
            number,
            sent_at: self.now,
            is_lost,
            is_marked: queued > self.link.mark_above,
            delivered_before: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            in_flight,
            lost_before: self.lost,
        });
        self.report.sent += 1;
        self.report.overflowed += u64::from(is_overflow);
        self.report.queue_max = self.report.queue_max.max(queued);
        self.sums.0 += self.controller.tokens();
        self.sums.1 += queued;
        self.controller.on_sent(&SentEvent {
            now: self.now,
            number: PacketNumber(number),
            in_flight,
            app_limited: false,
        });
        if self.link.is_paced
            && let Some(rate) = self.controller.pacing_rate(self.srtt)
        {
            self.next_send_at =
                self.next_send_at.max(self.now) + Duration::from_secs_f64(1.0 / rate);
        }
    }

    fn receive_ack(&mut self) {
        self.acks.pop_front();
        let mut lost = Vec::new();
        let packet = loop {
            let packet = self.in_flight.pop_front().expect("an ACK is of a packet");
            if !packet.is_lost {
                break packet;
            }
            lost.push(packet);
        };
        self.last_ack_at = self.now;
        let sample = self.now - packet.sent_at;
        self.rtt_min = self.rtt_min.min(sample);
        self.srtt = Some(self.srtt.map_or(sample, |srtt| (srtt * 7 + sample) / 8));
        self.estimate_loss(lost.len() as i32);
        let rtt = self.rtt(sample);
        let largest_sent = PacketNumber(self.next - 1);
        let in_flight = self.in_flight.len() as u64;
        let loss = self.loss_estimate();
        self.lost += lost.len() as u64;
        if let (Some(first), Some(last)) = (lost.first(), lost.last()) {
            self.controller.on_loss(&LossEvent {
                now: self.now,
                lost_packets: lost.len() as u64,
                first_lost: PacketNumber(first.number),
                last_lost: PacketNumber(last.number),
                last_lost_sent_at: last.sent_at,
                largest_sent,
                in_flight,
                rtt,
                loss,
            });
        }
        let newest_acked = PacketNumber(packet.number);
        if packet.is_marked {
            self.controller.on_ecn(&EcnEvent {
                now: self.now,
                ce_packets: 1,
                newest_acked,
                sent_at: packet.sent_at,
                largest_sent,
                in_flight,
                rtt,
            });
        }
        self.delivered += 1;
        self.report.delivered += 1;
        let interval = (self.now - packet.delivered_at).max(packet.sent_at - packet.first_sent_at);
        self.controller.on_ack(&AckEvent {
            now: self.now,
            newest_acked,
            sent_at: packet.sent_at,
            largest_sent,
            acked_packets: 1,
            in_flight,
            app_limited: false,
            in_recovery: false,
            rtt_sample: Some(sample),
            rtt,
            delivered_packets: self.delivered,
            delivery: Some(DeliverySample {
                delivered_packets: self.delivered - packet.delivered_before,
                interval,
                delivered_packets_before: packet.delivered_before,
                lost_packets: self.lost - packet.lost_before,
                in_flight_at_send: packet.in_flight,
                app_limited: false,
            }),
            loss,
        });
        self.delivered_at = self.now;
        self.first_sent_at = packet.sent_at;
    }

    fn fall_silent(&mut self) {
        let in_flight = self.in_flight.len() as u64;
        self.lost += in_flight;
        self.in_flight.clear();
        self.last_ack_at = self.now;
        self.controller.on_silence(&SilenceEvent {
            now: self.now,
            largest_sent: PacketNumber(self.next - 1),
            in_flight,
        });
    }

    fn rtt(&self, latest: Duration) -> RttSummary {
        RttSummary {
            latest,
            srtt: self.srtt.unwrap_or(latest),
            rtt_min: self.rtt_min,
            rtt_min_windowed: self.rtt_min,
        }
    }

    /// [MP12] Algorithm 1 with μ = 0.02, ν = 0.002.
    fn estimate_loss(&mut self, losses: i32) {
        let filter =
            |p: f64, gain: f64| p * (1.0 - gain).powi(losses + 1) + 1.0 - (1.0 - gain).powi(losses);
        self.p = filter(self.p, 0.02);
        self.p_long = filter(self.p_long, 0.002);
        self.p_dev = 0.998 * self.p_dev + 0.002 * (self.p - self.p_long).abs();
    }

    fn loss_estimate(&self) -> LossEstimate {
        LossEstimate {
            p: LossRate::clamped(self.p),
            p_long: LossRate::clamped(self.p_long),
            p_dev: self.p_dev,
        }
    }
}
