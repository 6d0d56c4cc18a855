//! The end that has the data: TCP above, combinations below.

use ctcp_congestion::UnknownController;
use ctcp_units::{Instant, Random};

use super::encoder::Encoder;
use super::{NcConfig, Numerator};
use crate::agent::tcp::{TcpSender, controller};
use crate::agent::{Agent, AgentStats, Arrival, Outbox};
use crate::engine::{Payload, RouteId};

/// Sends combinations of what TCP has in flight.
#[derive(Debug)]
pub(crate) struct NcServer {
    packet_bytes: u32,
    route: RouteId,
    sender: TcpSender,
    encoder: Encoder,
    numerator: Numerator,
    combinations: u64,
    packets: u64,
}

impl NcServer {
    /// A server that sends on `route`.
    ///
    /// # Errors
    /// There is no such controller.
    pub(crate) fn new(
        config: &NcConfig,
        route: RouteId,
        random: Random,
    ) -> Result<Self, UnknownController> {
        let tcp = config.tcp();
        Ok(Self {
            packet_bytes: config.packet_bytes,
            route,
            sender: TcpSender::new(Instant::EPOCH, &tcp, controller(&tcp)?, 0),
            encoder: Encoder::new(random),
            numerator: Numerator::new(config.redundancy),
            combinations: 0,
            packets: 0,
        })
    }

    fn flush(&mut self, now: Instant, out: &mut Outbox) {
        while let Some(segment) = self.sender.poll_segment(now) {
            self.packets += 1;
            self.encoder.push(segment.sequence, segment.len);
            for _ in 0..self.numerator.next() {
                if let Some(combination) = self.encoder.combine() {
                    self.combinations += 1;
                    let payload = Payload::Combination(combination);
                    out.send(self.route, self.packet_bytes, payload);
                }
            }
        }
    }
}

impl Agent for NcServer {
    fn handle_packet(&mut self, now: Instant, arrival: Arrival, out: &mut Outbox) {
        if let Payload::Ack(ack) = arrival.payload {
            self.sender.set_available(ack.requested);
            if !ack.is_request {
                self.encoder.acknowledge(ack.cumulative);
                self.sender.handle_ack(now, &ack);
            }
            self.flush(now, out);
        }
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        self.sender.handle_timeout(now);
        self.flush(now, out);
    }

    fn deadline(&self) -> Option<Instant> {
        self.sender.deadline()
    }

    fn stats(&self, now: Instant) -> AgentStats {
        AgentStats {
            data_packets: self.combinations,
            coded_packets: self.combinations,
            ..self.sender.stats(now)
        }
    }
}
