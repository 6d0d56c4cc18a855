//! A router that re-codes.

use std::collections::VecDeque;

use ctcp_gf256::Kernel;
use ctcp_units::{Instant, Random};

use super::{Combination, Numerator, ROW_LEN, SPAN};
use crate::agent::{Agent, AgentStats, Arrival, Outbox};
use crate::engine::{Datagram, Payload, RouteId};

/// Combinations kept to be combined anew.
const KEPT_MAX: usize = 64;

/// Sends R combinations of those it holds for each that arrives.
#[derive(Debug)]
pub(crate) struct NcRelay {
    packet_bytes: u32,
    route: RouteId,
    kept: VecDeque<Combination>,
    numerator: Numerator,
    random: Random,
    scratch: Vec<u8>,
    sent: u64,
}

impl NcRelay {
    pub(crate) fn new(packet_bytes: u32, redundancy: f64, route: RouteId, random: Random) -> Self {
        Self {
            packet_bytes,
            route,
            kept: VecDeque::new(),
            numerator: Numerator::new(redundancy),
            random,
            scratch: Vec::new(),
            sent: 0,
        }
    }

    /// Forgets what is of no use: all of it was seen, or it lies too far back to
    /// stand in one row with the newest.
    fn forget(&mut self, newest: &Combination) {
        let far = newest.to.saturating_sub(SPAN as u64 - 1);
        self.kept
            .retain(|one| one.to > newest.from && one.from >= far);
        if self.kept.len() >= KEPT_MAX {
            self.kept.pop_front();
        }
    }

    fn combine(&mut self) -> Option<Combination> {
        let first = self.kept.front()?;
        let (mut from, mut to, mut bytes) = (first.from, first.to, first.bytes);
        self.scratch.clear();
        self.scratch.resize(ROW_LEN, 0);
        for one in &self.kept {
            let coefficient = 1 + self.random.below(255) as u8;
            Kernel::active().mul_add(&mut self.scratch, coefficient, one.row.bytes());
            (from, to) = (from.min(one.from), to.max(one.to));
            bytes = bytes.max(one.bytes);
        }
        Some(Combination {
            from,
            to,
            bytes,
            row: Datagram::take(&mut self.scratch),
        })
    }
}

impl Agent for NcRelay {
    fn handle_packet(&mut self, _now: Instant, arrival: Arrival, out: &mut Outbox) {
        let Payload::Combination(combination) = arrival.payload else {
            return;
        };
        self.forget(&combination);
        self.kept.push_back(combination);
        for _ in 0..self.numerator.next() {
            if let Some(combination) = self.combine() {
                self.sent += 1;
                let payload = Payload::Combination(combination);
                out.send(self.route, self.packet_bytes, payload);
            }
        }
    }

    fn handle_timeout(&mut self, _now: Instant, _out: &mut Outbox) {}

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn stats(&self, _now: Instant) -> AgentStats {
        AgentStats {
            coded_packets: self.sent,
            ..AgentStats::default()
        }
    }
}
