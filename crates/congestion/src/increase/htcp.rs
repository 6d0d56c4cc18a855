//! Growth that speeds up with the time since the last congestion, as H-TCP.

use ctcp_units::Instant;

use super::clock::Clock;
use super::{BackoffEvent, Increase};
use crate::event::AckEvent;

/// Δ_L: for so many seconds after congestion growth is that of TCP.
const DELTA_L: f64 = 1.0;
/// The round trip to which RTT scaling normalises, in seconds.
const SCALING_RTT: f64 = 0.1;
/// Bounds of the ratio by which RTT scaling divides.
const SCALING_RANGE: (f64, f64) = (0.5, 10.0);

/// α(Δ) packets a round trip, Δ the seconds since the last congestion event
/// (Leith & Shorten 2004; `transport.md` §11.3):
///
/// ```text
/// α(Δ) = 1                                     Δ ≤ 1 s
/// α(Δ) = 1 + 10(Δ − 1) + ((Δ − 1)/2)²          Δ > 1 s
/// ```
///
/// It starts as TCP does and after ten seconds grows by 111 packets a round
/// trip: for long paths that are rarely congested.
///
/// - `is_scaled`: α ← max(1, 2(1 − β)·α) with the β of the last backoff, held
///   in `[0.5, 0.8]`, as H-TCP itself does. [SAT] cannot: its β is 1 on an idle
///   queue and the factor 0 (E-SAT-01).
/// - `beta_hold`: a backoff by this factor or a milder one does not restart Δ. At
///   20 % loss every round trip has a loss event, and Δ would never pass a second
///   (E-SAT-02).
/// - `is_rtt_scaled`: α is divided by 0.1 s/RTTmin, held in `[0.5, 10]`, before
///   the factor 2(1 − β); Linux does so, so that flows of different RTT grow
///   alike in time.
///
/// Δ does not count time in which the window was not used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HTcpIncrease {
    rules: HTcpRules,
    clock: Clock,
    beta: f64,
    before_backoff: Option<(Clock, f64)>,
}

/// The variants of [`HTcpIncrease`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HTcpRules {
    /// Multiply by 2(1 − β).
    pub is_scaled: bool,
    /// Divide by 0.1 s/RTTmin.
    pub is_rtt_scaled: bool,
    /// Backoffs by factors from here to 1 do not restart Δ; above 1: all do.
    pub beta_hold: f64,
}

impl HTcpIncrease {
    /// The rule, its clock not started.
    pub fn new(rules: HTcpRules) -> Self {
        Self {
            rules,
            clock: Clock::default(),
            beta: 0.5,
            before_backoff: None,
        }
    }

    /// α(Δ) in packets a round trip, for Δ in seconds.
    pub fn alpha(delta: f64) -> f64 {
        if delta <= DELTA_L {
            return 1.0;
        }
        let past = delta - DELTA_L;
        1.0 + 10.0 * past + (past / 2.0) * (past / 2.0)
    }

    /// max(1, 2(1 − β)·α) with β held in `[0.5, 0.8]`.
    pub fn scaled(alpha: f64, beta: f64) -> f64 {
        (2.0 * (1.0 - beta.clamp(0.5, 0.8)) * alpha).max(1.0)
    }

    fn packets_per_round(&mut self, ack: &AckEvent) -> f64 {
        let mut alpha = Self::alpha(self.clock.seconds_at(ack));
        if self.rules.is_rtt_scaled {
            let rtt_min = ack.rtt.rtt_min.as_secs_f64().max(1e-6);
            let (low, high) = SCALING_RANGE;
            alpha = (alpha / (SCALING_RTT / rtt_min).clamp(low, high)).max(1.0);
        }
        if self.rules.is_scaled {
            alpha = Self::scaled(alpha, self.beta);
        }
        alpha
    }
}

impl Increase for HTcpIncrease {
    fn avoidance(&mut self, tokens: f64, packets: u64, ack: &AckEvent) -> f64 {
        self.packets_per_round(ack) * packets as f64 / tokens
    }

    /// As TCP; the clock runs from the first ACK on.
    fn slow_start(&mut self, _tokens: f64, ack: &AckEvent) -> f64 {
        self.clock.seconds_at(ack);
        1.0
    }

    fn on_pause(&mut self, ack: &AckEvent) {
        self.clock.on_pause(ack);
    }

    fn on_backoff(&mut self, event: &BackoffEvent) {
        self.before_backoff = Some((self.clock, self.beta));
        if event.factor < self.rules.beta_hold {
            self.beta = event.factor;
            self.clock = Clock::started(event.now);
        }
    }

    fn on_undo(&mut self) {
        if let Some((clock, beta)) = self.before_backoff.take() {
            (self.clock, self.beta) = (clock, beta);
        }
    }

    fn on_restart(&mut self, now: Instant) {
        self.before_backoff = None;
        self.clock = Clock::started(now);
    }
}
