//! Controllers of sources that are no TCP: a constant rate, and the same with a
//! rudimentary AIMD ([FEC] Fig. 1).
//!
//! The window is wide open; pacing is the control. With AIMD the rate grows by
//! a packet per round trip in each round trip, up to the nominal rate, and halves
//! for a loss, at most once a round trip.

use ctcp_congestion::{
    AckEvent, Controller, ControllerState, EcnEvent, LossEvent, PathChangeEvent, SilenceEvent,
};
use ctcp_units::{Duration, Instant, Rate};

/// Wide open, in packets.
const WINDOW: f64 = 1e6;

/// A source of constant rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConstantRate {
    /// What leaves, headers and parity counted; not zero.
    pub rate: Rate,
    /// Whether it slows down for losses.
    pub has_aimd: bool,
}

#[derive(Debug)]
pub(crate) struct RateController {
    /// Packets per second.
    nominal: f64,
    current: f64,
    has_aimd: bool,
    reduced_at: Option<Instant>,
    backoffs: u64,
}

impl RateController {
    pub(crate) fn new(rate: &ConstantRate, packet_bytes: u32) -> Self {
        let bits = rate.rate.as_bits_per_second().max(1) as f64;
        let nominal = bits / (8.0 * f64::from(packet_bytes.max(1)));
        Self {
            nominal,
            current: nominal,
            has_aimd: rate.has_aimd,
            reduced_at: None,
            backoffs: 0,
        }
    }

    fn reduce(&mut self, now: Instant, srtt: Duration) {
        if !self.has_aimd || self.reduced_at.is_some_and(|at| now - at < srtt) {
            return;
        }
        self.reduced_at = Some(now);
        self.backoffs += 1;
        // A packet a second keeps it alive.
        self.current = (self.current / 2.0).max(1.0);
    }
}

impl Controller for RateController {
    fn on_ack(&mut self, event: &AckEvent) {
        if !self.has_aimd {
            return;
        }
        // 1/RTT packets per second per round trip, spread over its ACKs.
        let rtt = event.rtt.srtt.as_secs_f64().max(1e-6);
        let per_round = (self.current * rtt).max(1.0);
        let growth = event.acked_packets as f64 / (rtt * per_round);
        self.current = (self.current + growth).min(self.nominal);
    }

    fn on_loss(&mut self, event: &LossEvent) {
        self.reduce(event.now, event.rtt.srtt);
    }

    fn on_ecn(&mut self, event: &EcnEvent) {
        self.reduce(event.now, event.rtt.srtt);
    }

    fn on_silence(&mut self, event: &SilenceEvent) {
        self.reduce(event.now, Duration::ZERO);
    }

    fn on_path_change(&mut self, _event: &PathChangeEvent) {
        self.current = self.nominal;
    }

    fn tokens(&self) -> f64 {
        WINDOW
    }

    fn pacing_rate(&self, _srtt: Option<Duration>) -> Option<f64> {
        Some(self.current)
    }

    fn in_slow_start(&self) -> bool {
        false
    }

    fn name(&self) -> &'static str {
        "constant"
    }

    fn state(&self) -> ControllerState {
        ControllerState {
            tokens: WINDOW,
            phase: "constant",
            backoff_count: self.backoffs,
            ..ControllerState::default()
        }
    }
}
