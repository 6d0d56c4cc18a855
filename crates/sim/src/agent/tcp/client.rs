//! The end that asks for the data and acknowledges it.
//!
//! A request travels with every acknowledgement, so that it is repeated while
//! anything moves; while nothing does, it is repeated by a timer.

use ctcp_units::Instant;

use super::fec::Blocks;
use super::{TcpConfig, TcpReceiver};
use crate::agent::request::Request;
use crate::agent::{Agent, AgentStats, Arrival, Outbox, TCP_BARE_LEN};
use crate::app::AppState;
use crate::engine::{Payload, RouteId};

/// Length of a request beyond the headers: a short HTTP GET.
const REQUEST_LEN: u32 = 150;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle,
    Connecting,
    Connected,
}

/// A client of one server.
#[derive(Debug)]
pub(crate) struct TcpClient {
    config: TcpConfig,
    route: RouteId,
    receiver: TcpReceiver,
    blocks: Blocks,
    app: AppState,
    phase: Phase,
    connection: u32,
    /// Bytes asked for on the connections before.
    requested_before: u64,
    request: Request,
    useless: u64,
}

impl TcpClient {
    /// A client that asks on `route`.
    pub(crate) fn new(config: &TcpConfig, route: RouteId, app: AppState) -> Self {
        Self {
            receiver: TcpReceiver::new(config, 0),
            blocks: Blocks::default(),
            config: config.clone(),
            route,
            app,
            phase: Phase::Idle,
            connection: 0,
            requested_before: 0,
            request: Request::default(),
            useless: 0,
        }
    }

    /// A new request: over a new connection if it wants one.
    fn begin_request(&mut self, now: Instant, out: &mut Outbox) {
        if self.app.is_cold() && self.app.requests() > 1 {
            self.requested_before = self.app.received();
            self.connection += 1;
            self.receiver = TcpReceiver::new(&self.config, self.connection);
            self.blocks = Blocks::default();
            self.phase = Phase::Idle;
        }
        self.request.begin(now);
        if self.phase == Phase::Idle {
            self.phase = match self.config.has_handshake {
                true => Phase::Connecting,
                false => Phase::Connected,
            };
        }
        self.ask(now, out);
    }

    /// Says, or says again, what the server has not answered yet.
    fn ask(&mut self, now: Instant, out: &mut Outbox) {
        match self.phase {
            Phase::Idle => return,
            Phase::Connecting => {
                let syn = Payload::Syn(self.connection);
                out.send(self.route, TCP_BARE_LEN + 20, syn);
            }
            Phase::Connected => {
                let mut ack = self.receiver.ack();
                ack.is_request = true;
                ack.requested = self.requested();
                let len = self.config.ack_bytes + REQUEST_LEN;
                out.send(self.route, len, Payload::Ack(ack));
            }
        }
        self.request.said(now);
    }

    /// Bytes asked for on this connection.
    fn requested(&self) -> u64 {
        self.app.requested().saturating_sub(self.requested_before)
    }

    fn acknowledge(&mut self, now: Instant, out: &mut Outbox) {
        if let Some(mut ack) = self.receiver.poll_ack(now) {
            ack.requested = self.requested();
            self.blocks.report(&mut ack);
            let len = self.config.ack_bytes + 8 * u32::from(ack.block_count);
            out.send(self.route, len, Payload::Ack(ack));
        }
    }
}

impl Agent for TcpClient {
    fn handle_packet(&mut self, now: Instant, arrival: Arrival, out: &mut Outbox) {
        match arrival.payload {
            Payload::SynAck(connection)
                if connection == self.connection && self.phase == Phase::Connecting =>
            {
                self.phase = Phase::Connected;
                self.request.begin(now);
                self.ask(now, out);
            }
            Payload::Segment(segment) if segment.connection == self.connection => {
                self.blocks.on_segment(&segment);
                match self.receiver.on_segment(now, &segment, arrival.is_marked) {
                    Some(own) => {
                        let full = self.config.payload_bytes;
                        let coded = self.blocks.on_new(now, &segment, full, &mut self.receiver);
                        let bytes = own + coded;
                        // The server knows what is wanted.
                        self.request.answered();
                        if bytes > 0 {
                            self.app.on_bytes(now, bytes);
                        }
                    }
                    None => self.useless += 1,
                }
                self.acknowledge(now, out);
            }
            _ => {}
        }
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        if self.app.handle_timeout(now) {
            self.begin_request(now, out);
        }
        if self.request.is_due(now) {
            self.ask(now, out);
        }
        self.acknowledge(now, out);
    }

    fn deadline(&self) -> Option<Instant> {
        [
            self.app.deadline(),
            self.request.deadline(),
            self.receiver.deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn stats(&self, _now: Instant) -> AgentStats {
        AgentStats {
            bytes_in_order: self.app.received(),
            useless_packets: self.useless,
            recovered_packets: self.blocks.recovered(),
            ..AgentStats::default()
        }
    }

    fn app(&self) -> Option<&AppState> {
        Some(&self.app)
    }
}
