//! What sits at the ends of routes: the transports under study.
//!
//! Each flow has an agent at either end. Data flows from the *server* to the
//! *client*, which asks for it; the client knows the application. An agent is
//! driven like the transport itself: one input, then its packets are taken from
//! the outbox and its deadline is asked for.

pub(crate) mod ctcp;
pub(crate) mod gbn;
pub(crate) mod nc;
mod request;
pub(crate) mod tcp;
pub(crate) mod udp;

use ctcp_link::Ecn;
use ctcp_units::{Duration, Instant};

use crate::app::AppState;
use crate::engine::{Payload, RouteId};

/// Length of a TCP packet without data or options: IPv4 and TCP headers.
pub(crate) const TCP_BARE_LEN: u32 = 40;

/// A packet that has come to the end of its route.
#[derive(Debug)]
pub(crate) struct Arrival {
    /// The way that it came.
    pub(crate) route: RouteId,
    pub(crate) len_bytes: u32,
    /// A router met congestion.
    pub(crate) is_marked: bool,
    pub(crate) payload: Payload,
}

/// A packet to be sent.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) route: RouteId,
    pub(crate) len_bytes: u32,
    pub(crate) ecn: Ecn,
    pub(crate) payload: Payload,
}

/// Where an agent puts what it sends.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pub(crate) packets: Vec<Outgoing>,
}

impl Outbox {
    /// Sends a packet that is not ECN-capable.
    pub(crate) fn send(&mut self, route: RouteId, len_bytes: u32, payload: Payload) {
        self.send_ecn(route, len_bytes, Ecn::NotEct, payload);
    }

    pub(crate) fn send_ecn(&mut self, route: RouteId, len_bytes: u32, ecn: Ecn, payload: Payload) {
        self.packets.push(Outgoing {
            route,
            len_bytes,
            ecn,
            payload,
        });
    }
}

/// One end of a flow.
pub(crate) trait Agent: Send {
    /// A packet has arrived.
    fn handle_packet(&mut self, now: Instant, arrival: Arrival, out: &mut Outbox);

    /// The deadline, or a later moment, has come.
    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox);

    /// When to be called if nothing arrives before.
    fn deadline(&self) -> Option<Instant>;

    /// Counts as of `now`; an agent leaves those it does not know at zero.
    fn stats(&self, now: Instant) -> AgentStats;

    /// The application of a client.
    fn app(&self) -> Option<&AppState> {
        None
    }
}

/// What an agent counts since its start.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct AgentStats {
    /// Application bytes delivered in order (client).
    pub(crate) bytes_in_order: u64,
    /// Data packets sent, all kinds (server).
    pub(crate) data_packets: u64,
    /// Of these, sent again.
    pub(crate) retransmissions: u64,
    /// Of these, linear combinations or parity.
    pub(crate) coded_packets: u64,
    /// Data packets that arrived and brought nothing new (client).
    pub(crate) useless_packets: u64,
    /// Source packets that decoding brought (client).
    pub(crate) recovered_packets: u64,
    /// Retransmission timeouts; probe timeouts of the real transport.
    pub(crate) timeouts: u64,
    /// Time spent silent before them.
    pub(crate) time_in_timeout: Duration,
    /// Reductions of the window.
    pub(crate) backoffs: u64,
    /// Samples of the smoothed round trip, one per ACK, and their sum.
    pub(crate) srtt_samples: u64,
    pub(crate) srtt_sum_nanos: u128,
    /// The window over time, in packets × seconds.
    pub(crate) window_integral: f64,
    /// The window now, in packets.
    pub(crate) window: f64,
    /// Packets in flight now.
    pub(crate) in_flight: u64,
    /// The smoothed round trip now.
    pub(crate) srtt: Option<Duration>,
}

/// The integral of a value over time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Integral {
    sum: f64,
    value: f64,
    since: Instant,
}

impl Integral {
    /// From `now` on the value is `value`.
    pub(crate) fn set(&mut self, now: Instant, value: f64) {
        self.sum = self.at(now);
        self.value = value;
        self.since = now;
    }

    /// Value × seconds up to `now`.
    pub(crate) fn at(&self, now: Instant) -> f64 {
        self.sum + self.value * (now - self.since).as_secs_f64()
    }
}
