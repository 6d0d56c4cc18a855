//! The end that asks: decodes, delivers in order, acknowledges what is seen.

use ctcp_units::{Duration, Instant, seconds};

use super::NcConfig;
use super::decoder::{Decoder, Heard};
use crate::agent::request::Request;
use crate::agent::tcp::Ack;
use crate::agent::{Agent, AgentStats, Arrival, Outbox};
use crate::app::AppState;
use crate::engine::{Payload, RouteId};

/// After so long without an answer every combination gets one.
const SILENCE: Duration = seconds(1);

/// Receives combinations.
#[derive(Debug)]
pub(crate) struct NcClient {
    packet_bytes: u32,
    ack_bytes: u32,
    route: RouteId,
    app: AppState,
    decoder: Decoder,
    /// Application bytes up to the last packet heard of.
    bytes_known: u64,
    delivered: u64,
    useless: u64,
    /// Useless combinations since the last useful one, and when the last was
    /// answered.
    repeats: u32,
    answered_at: Instant,
    request: Request,
}

impl NcClient {
    pub(crate) fn new(config: &NcConfig, route: RouteId, app: AppState) -> Self {
        Self {
            packet_bytes: config.packet_bytes,
            ack_bytes: config.ack_bytes,
            route,
            app,
            decoder: Decoder::default(),
            bytes_known: 0,
            delivered: 0,
            useless: 0,
            repeats: 0,
            answered_at: Instant::EPOCH,
            request: Request::default(),
        }
    }

    /// Whether an answer to what was just heard would only be a third duplicate,
    /// which TCP takes for a loss. Relays make combinations that are useless now
    /// and then several times in a row. After a silence everything is answered:
    /// the ACKs before may have been lost.
    fn is_repeated(&mut self, now: Instant, heard: Heard) -> bool {
        match heard {
            Heard::Innovative => self.repeats = 0,
            Heard::Useless => self.repeats += 1,
        }
        let is_repeated = self.repeats > 2 && now - self.answered_at < SILENCE;
        if !is_repeated {
            self.answered_at = now;
        }
        is_repeated
    }

    fn answer(&mut self, is_request: bool, out: &mut Outbox) {
        let ack = Ack {
            cumulative: self.decoder.unseen(),
            is_request,
            requested: self.app.requested(),
            ..Ack::default()
        };
        out.send(self.route, self.ack_bytes, Payload::Ack(ack));
    }
}

impl Agent for NcClient {
    fn handle_packet(&mut self, now: Instant, arrival: Arrival, out: &mut Outbox) {
        let Payload::Combination(combination) = arrival.payload else {
            return;
        };
        self.request.answered();
        let before = self.decoder.undelivered();
        let heard = self.decoder.push(&combination);
        if heard == Heard::Useless {
            self.useless += 1;
        }
        let says_nothing = self.is_repeated(now, heard);
        self.bytes_known = self.bytes_known.max(combination.bytes);
        let fresh = self.decoder.undelivered() - before;
        if fresh > 0 {
            // All packets are full but the last, whose end the combination
            // knows.
            let full = self.decoder.undelivered() * u64::from(self.packet_bytes);
            let bytes = full.min(self.bytes_known);
            self.app.on_bytes(now, bytes - self.delivered);
            self.delivered = bytes;
        }
        if !says_nothing {
            self.answer(false, out);
        }
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        if self.app.handle_timeout(now) {
            self.request.begin(now);
        }
        if self.request.is_due(now) {
            self.answer(true, out);
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
