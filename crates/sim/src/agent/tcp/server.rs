//! The end that has the data.

use ctcp_congestion::{Controller, Params, UnknownController, controller_by_name};
use ctcp_link::Ecn;
use ctcp_units::{Instant, Random};

use super::constant::RateController;
use super::{TcpConfig, TcpSender};
use crate::agent::{Agent, AgentStats, Arrival, Outbox, TCP_BARE_LEN};
use crate::engine::{Payload, RouteId};

/// Answers requests over one connection at a time.
#[derive(Debug)]
pub(crate) struct TcpServer {
    config: TcpConfig,
    route: RouteId,
    random: Random,
    connection: u32,
    sender: TcpSender,
    /// When the answer to a handshake left, until the client is heard.
    answered_at: Option<Instant>,
    answers: u32,
    /// Counts of the connections before.
    past: AgentStats,
}

/// The controller of a configuration, at its start.
pub(crate) fn controller(config: &TcpConfig) -> Result<Box<dyn Controller>, UnknownController> {
    if let Some(rate) = &config.constant_rate {
        let packet_bytes = config.payload_bytes + config.header_bytes;
        return Ok(Box::new(RateController::new(rate, packet_bytes)));
    }
    let params = Params {
        init_tokens: config.initial_window,
        ..config.params
    };
    controller_by_name(&config.congestion, &params)
}

impl TcpServer {
    /// A server that sends its data on `route`.
    ///
    /// # Errors
    /// There is no such controller.
    pub(crate) fn new(
        config: &TcpConfig,
        route: RouteId,
        random: Random,
    ) -> Result<Self, UnknownController> {
        let mut sender = TcpSender::new(Instant::EPOCH, config, controller(config)?, 0);
        if config.constant_rate.is_some() {
            sender.set_jitter(random.clone());
        }
        Ok(Self {
            sender,
            config: config.clone(),
            route,
            random,
            connection: 0,
            answered_at: None,
            answers: 0,
            past: AgentStats::default(),
        })
    }

    fn begin(&mut self, now: Instant, connection: u32) {
        let stats = self.sender.stats(now);
        self.past = sum(&self.past, &stats);
        let controller = controller(&self.config).expect("the name was checked at the start");
        self.sender = TcpSender::new(now, &self.config, controller, connection);
        if self.config.constant_rate.is_some() {
            self.sender
                .set_jitter(self.random.fork(u64::from(connection)));
        }
        self.connection = connection;
        self.answers = 0;
    }

    fn flush(&mut self, now: Instant, out: &mut Outbox) {
        let ecn = match self.config.is_ecn_enabled {
            true => Ecn::Ect0,
            false => Ecn::NotEct,
        };
        while let Some(segment) = self.sender.poll_segment(now) {
            let content = match segment.is_parity() {
                true => self.config.payload_bytes,
                false => segment.len,
            };
            let len = content + self.config.header_bytes;
            out.send_ecn(self.route, len, ecn, Payload::Segment(segment));
        }
    }
}

impl Agent for TcpServer {
    fn handle_packet(&mut self, now: Instant, arrival: Arrival, out: &mut Outbox) {
        match arrival.payload {
            Payload::Syn(connection) if connection >= self.connection => {
                if connection > self.connection {
                    self.begin(now, connection);
                }
                self.answers += 1;
                self.answered_at = Some(now);
                out.send(self.route, TCP_BARE_LEN + 20, Payload::SynAck(connection));
            }
            Payload::Ack(ack) if ack.connection == self.connection => {
                if let Some(at) = self.answered_at.take()
                    && self.answers == 1
                {
                    self.sender.on_handshake_sample(now, now - at);
                }
                self.sender.set_available(ack.requested);
                if !ack.is_request {
                    self.sender.handle_ack(now, &ack);
                }
            }
            _ => {}
        }
        self.flush(now, out);
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        self.sender.handle_timeout(now);
        self.flush(now, out);
    }

    fn deadline(&self) -> Option<Instant> {
        self.sender.deadline()
    }

    fn stats(&self, now: Instant) -> AgentStats {
        sum(&self.past, &self.sender.stats(now))
    }
}

/// Counts of `past` connections and those of the present one.
fn sum(past: &AgentStats, present: &AgentStats) -> AgentStats {
    AgentStats {
        data_packets: past.data_packets + present.data_packets,
        coded_packets: past.coded_packets + present.coded_packets,
        retransmissions: past.retransmissions + present.retransmissions,
        timeouts: past.timeouts + present.timeouts,
        time_in_timeout: past.time_in_timeout + present.time_in_timeout,
        backoffs: past.backoffs + present.backoffs,
        srtt_samples: past.srtt_samples + present.srtt_samples,
        srtt_sum_nanos: past.srtt_sum_nanos + present.srtt_sum_nanos,
        window_integral: past.window_integral + present.window_integral,
        ..*present
    }
}
