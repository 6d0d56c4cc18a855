//! Growth as fast in time as that of a flow with a short round trip.

use ctcp_units::{Duration, Instant};

use super::{BackoffEvent, Increase};
use crate::event::{AckEvent, RttSummary};
use crate::params::HyblaParams;

/// Largest exponent of a step in slow start. Linux has the same: at 500 ms ρ is
/// 20 and one ACK would add a million packets.
const EXPONENT_MAX: f64 = 16.0;

/// Hybla's growth (Caini & Firrincieli 2004; `tcp-flavours.md` §5), with
/// ρ = max(1, RTTmin/RTT_0) and RTT_0 that of the flow it equals:
///
/// ```text
/// at the start:                             tokens ← ρ·init_tokens
/// slow start, per acknowledged packet:      tokens += 2^ρ − 1
/// avoidance, per acknowledged packet:       tokens += ρ²/tokens
/// ```
///
/// The rate then grows in time as that of a flow whose round trip is RTT_0. The
/// first slow start ends at ρ·`ss_threshold` packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HyblaIncrease {
    params: HyblaParams,
    /// No loss and no silence yet: the initial threshold holds.
    is_initial: bool,
}

impl HyblaIncrease {
    /// The rule at the start of a path.
    pub const fn new(params: HyblaParams) -> Self {
        Self {
            params,
            is_initial: true,
        }
    }

    /// ρ = max(1, RTTmin/RTT_0).
    pub fn rho(rtt_min: Duration, rtt0: Duration) -> f64 {
        (rtt_min.as_secs_f64() / rtt0.as_secs_f64().max(1e-9)).max(1.0)
    }

    /// 2^ρ − 1: what one acknowledged packet adds in slow start.
    pub fn slow_start_step(rho: f64) -> f64 {
        rho.exp2() - 1.0
    }

    /// ρ²/tokens: what one acknowledged packet adds in avoidance.
    pub fn avoidance_step(rho: f64, tokens: f64) -> f64 {
        rho * rho / tokens
    }

    fn rho_of(&self, rtt: &RttSummary) -> f64 {
        Self::rho(rtt.rtt_min, self.params.rtt0)
    }
}

impl Increase for HyblaIncrease {
    fn avoidance(&mut self, tokens: f64, packets: u64, ack: &AckEvent) -> f64 {
        Self::avoidance_step(self.rho_of(&ack.rtt), tokens) * packets as f64
    }

    fn slow_start(&mut self, _tokens: f64, ack: &AckEvent) -> f64 {
        Self::slow_start_step(self.rho_of(&ack.rtt).min(EXPONENT_MAX))
    }

    fn slow_start_exit(&mut self, tokens: f64, ack: &AckEvent) -> Option<f64> {
        let threshold = self.params.ss_threshold * self.rho_of(&ack.rtt);
        (self.is_initial && tokens > threshold).then_some(threshold)
    }

    fn initial_factor(&mut self, ack: &AckEvent) -> f64 {
        self.rho_of(&ack.rtt)
    }

    fn on_backoff(&mut self, _event: &BackoffEvent) {
        self.is_initial = false;
    }

    fn on_restart(&mut self, _now: Instant) {
        self.is_initial = false;
    }
}
