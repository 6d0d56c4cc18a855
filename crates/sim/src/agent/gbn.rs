//! Go-back-N TCP as [MODEL] §IV assumes it.
//!
//! The receiver keeps nothing that is out of order and answers every packet. The
//! window grows by 1/W an ACK, without slow start, up to a maximum; the fourth
//! ACK of the same number halves it, silence for T_o sets it to 1 and doubles
//! T_o, up to 64 times. Either way the sender goes back to the first packet
//! missing. Packets and their ACKs carry the number of the attempt, so that
//! duplicates of an attempt given up are not counted.

use ctcp_units::{Duration, Instant, seconds};

use super::{Agent, AgentStats, Arrival, Integral, Outbox};
use crate::agent::request::Request;
use crate::agent::tcp::{Ack, Segment};
use crate::app::AppState;
use crate::engine::{Payload, RouteId};

/// ACKs beside the first of the same number that halve the window.
const DUPLICATES: u32 = 3;
/// Doublings of the timeout: 64·T_o.
const DOUBLINGS_MAX: u32 = 6;

/// Settings of the go-back-N TCP.
#[derive(Debug, Clone, PartialEq)]
pub struct GoBackNConfig {
    /// W_max, packets.
    pub window_max: f64,
    /// W at the start.
    pub initial_window: f64,
    /// T_o: 3.75 round trips in [MODEL].
    pub timeout: Duration,
    /// Idle time after every halving and every timeout; [MODEL] §VII compares
    /// with two round trips.
    pub idle: Duration,
    /// Length of a packet; all of it counts as data.
    pub packet_bytes: u32,
    /// Length of an ACK.
    pub ack_bytes: u32,
}

impl Default for GoBackNConfig {
    /// [MODEL] §VII: W_max 90, T_o 3 s, packets of 8000 bits.
    fn default() -> Self {
        Self {
            window_max: 90.0,
            initial_window: 1.0,
            timeout: seconds(3),
            idle: Duration::ZERO,
            packet_bytes: 1000,
            ack_bytes: 40,
        }
    }
}

/// The end that has the data.
#[derive(Debug)]
pub(crate) struct GoBackNServer {
    config: GoBackNConfig,
    route: RouteId,
    window: f64,
    una: u64,
    next: u64,
    /// One more than the highest packet ever sent.
    highest: u64,
    attempt: u32,
    duplicates: u32,
    doublings: u32,
    timeout_at: Option<Instant>,
    idle_until: Instant,
    active_at: Instant,
    available: u64,
    /// When the packet whose round trip is measured was sent.
    timed: Option<(u64, Instant)>,
    srtt: Option<Duration>,
    integral: Integral,
    stats: AgentStats,
}

impl GoBackNServer {
    pub(crate) fn new(config: &GoBackNConfig, route: RouteId) -> Self {
        Self {
            config: config.clone(),
            route,
            window: config.initial_window,
            una: 0,
            next: 0,
            highest: 0,
            attempt: 0,
            duplicates: 0,
            doublings: 0,
            timeout_at: None,
            idle_until: Instant::EPOCH,
            active_at: Instant::EPOCH,
            available: 0,
            timed: None,
            srtt: None,
            integral: Integral::default(),
            stats: AgentStats::default(),
        }
    }

    fn timeout(&self) -> Duration {
        self.config.timeout * (1 << self.doublings)
    }

    /// Packets that the client asked for.
    fn packets(&self) -> u64 {
        self.available.div_ceil(u64::from(self.config.packet_bytes))
    }

    fn handle_ack(&mut self, now: Instant, ack: &Ack) {
        if ack.cumulative > self.una {
            self.una = ack.cumulative.min(self.highest);
            self.next = self.next.max(self.una);
            self.window = (self.window + 1.0 / self.window).min(self.config.window_max);
            self.duplicates = 0;
            self.doublings = 0;
            self.active_at = now;
            self.timeout_at = Some(now + self.timeout());
            self.measure(now);
        } else if ack.connection == self.attempt && self.next > self.una {
            self.duplicates += 1;
            if self.duplicates == DUPLICATES {
                self.window = (self.window / 2.0).max(1.0);
                self.stats.backoffs += 1;
                self.go_back(now);
            }
        }
    }

    fn measure(&mut self, now: Instant) {
        if let Some((packet, sent_at)) = self.timed
            && self.una > packet
        {
            let sample = now - sent_at;
            let srtt = self.srtt.map_or(sample, |srtt| (srtt * 7 + sample) / 8);
            self.srtt = Some(srtt);
            self.timed = None;
        }
        if let Some(srtt) = self.srtt {
            self.stats.srtt_samples += 1;
            self.stats.srtt_sum_nanos += srtt.as_nanos();
        }
    }

    /// Everything from the first packet missing is sent again.
    fn go_back(&mut self, now: Instant) {
        self.attempt = self.attempt.wrapping_add(1);
        self.duplicates = 0;
        self.next = self.una;
        self.timed = None;
        self.idle_until = now + self.config.idle;
        self.timeout_at = Some(self.idle_until + self.timeout());
    }

    fn has_more(&self) -> bool {
        self.next < self.packets() && self.next < self.una + self.window.max(1.0) as u64
    }

    fn flush(&mut self, now: Instant, out: &mut Outbox) {
        while now >= self.idle_until && self.has_more() {
            let sequence = self.next;
            self.next += 1;
            self.stats.data_packets += 1;
            if sequence < self.highest {
                self.stats.retransmissions += 1;
            } else {
                self.highest = sequence + 1;
                // Karn: only what is sent once is timed.
                self.timed.get_or_insert((sequence, now));
            }
            self.active_at = now;
            let full = u64::from(self.config.packet_bytes);
            let len = (self.available - sequence * full).min(full) as u32;
            let segment = Segment {
                connection: self.attempt,
                len,
                sequence,
                ..Segment::default()
            };
            out.send(
                self.route,
                self.config.packet_bytes,
                Payload::Segment(segment),
            );
            if self.timeout_at.is_none() {
                self.timeout_at = Some(now + self.timeout());
            }
        }
        if self.next == self.una && !self.has_more() {
            self.timeout_at = None;
        }
        self.integral.set(now, self.window);
    }
}

impl Agent for GoBackNServer {
    fn handle_packet(&mut self, now: Instant, arrival: Arrival, out: &mut Outbox) {
        if let Payload::Ack(ack) = arrival.payload {
            self.available = self.available.max(ack.requested);
            if !ack.is_request {
                self.handle_ack(now, &ack);
            }
            self.flush(now, out);
        }
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        if self.timeout_at.is_some_and(|at| at <= now) {
            self.stats.timeouts += 1;
            self.stats.backoffs += 1;
            self.stats.time_in_timeout += now - self.active_at;
            self.window = 1.0;
            self.doublings = (self.doublings + 1).min(DOUBLINGS_MAX);
            self.go_back(now);
        }
        self.flush(now, out);
    }

    fn deadline(&self) -> Option<Instant> {
        let idle = self.has_more().then_some(self.idle_until);
        [self.timeout_at, idle].into_iter().flatten().min()
    }

    fn stats(&self, now: Instant) -> AgentStats {
        AgentStats {
            window_integral: self.integral.at(now),
            window: self.window,
            in_flight: self.next - self.una,
            srtt: self.srtt,
            ..self.stats
        }
    }
}

/// The end that asks and takes what is in order.
#[derive(Debug)]
pub(crate) struct GoBackNClient {
    ack_bytes: u32,
    route: RouteId,
    app: AppState,
    next: u64,
    useless: u64,
    request: Request,
}

impl GoBackNClient {
    pub(crate) fn new(config: &GoBackNConfig, route: RouteId, app: AppState) -> Self {
        Self {
            ack_bytes: config.ack_bytes,
            route,
            app,
            next: 0,
            useless: 0,
            request: Request::default(),
        }
    }

    fn answer(&mut self, attempt: u32, is_request: bool, out: &mut Outbox) {
        let ack = Ack {
            connection: attempt,
            cumulative: self.next,
            is_request,
            requested: self.app.requested(),
            ..Ack::default()
        };
        out.send(self.route, self.ack_bytes, Payload::Ack(ack));
    }
}

impl Agent for GoBackNClient {
    fn handle_packet(&mut self, now: Instant, arrival: Arrival, out: &mut Outbox) {
        let Payload::Segment(segment) = arrival.payload else {
            return;
        };
        self.request.answered();
        if segment.sequence == self.next {
            self.next += 1;
            self.app.on_bytes(now, u64::from(segment.len));
        } else {
            self.useless += 1;
        }
        self.answer(segment.connection, false, out);
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        if self.app.handle_timeout(now) {
            self.request.begin(now);
        }
        if self.request.is_due(now) {
            self.answer(0, true, out);
            self.request.said(now);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        [self.app.deadline(), self.request.deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    fn stats(&self, _now: Instant) -> AgentStats {
        AgentStats {
            bytes_in_order: self.app.received(),
            useless_packets: self.useless,
            ..AgentStats::default()
        }
    }

    fn app(&self) -> Option<&AppState> {
        Some(&self.app)
    }
}
