//! Growth along a cubic curve towards the window of the last loss.

use ctcp_units::Instant;

use super::clock::Clock;
use super::{BackoffEvent, Increase};
use crate::event::AckEvent;

/// C: how steep the curve is, packets per second³ ([RFC9438] §5).
const C: f64 = 0.4;
/// The target of one round trip is at most so many windows.
const TARGET_MAX: f64 = 1.5;

/// CUBIC's curve and its Reno-friendly floor ([RFC9438] §4.2–§4.7), t the seconds
/// since the epoch began, that is the first growth after the last reduction:
///
/// ```text
/// W(t) = C(t − K)³ + W_max        K = ∛((W_max − cwnd_epoch)/C)
/// per acknowledged packet:        tokens += (W(t + RTT) − tokens)/tokens,  target in [tokens, 1.5·tokens]
/// W_est += α/tokens               from cwnd_epoch on; α = 1 once W_est has reached the window of the loss
/// W(t) < W_est:                   tokens = W_est
/// fast convergence:               a loss below the last W_max sets W_max = tokens·(1 + β)/2
/// ```
///
/// Growth does not depend on the RTT where the curve rules. For fast paths with
/// rare loss; at random loss p it holds about 1.054·(RTT/p)^¾ packets ([RFC9438]
/// §5.1), Reno's √(1.5/p) where that is more.
///
/// - `alpha`: slope of W_est, 3(1 − β)/(1 + β) for CUBIC.
/// - `beta_hold`: a backoff by this factor or a milder one does not restart the
///   epoch. RTTmin/RTT is 1 on an idle queue; restarted at each of its loss
///   events the curve would stay on its plateau (as E-SAT-02).
///
/// t does not count time in which the window was not used ([RFC9438] §5.8).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CubicIncrease {
    rules: CubicRules,
    memory: Memory,
    before_backoff: Option<Memory>,
}

/// The variants of [`CubicIncrease`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CubicRules {
    /// Packets a round trip by which W_est grows until it has reached the window
    /// of the last loss.
    pub alpha: f64,
    /// Backoffs by factors from here to 1 leave the epoch running; above 1: none.
    pub beta_hold: f64,
    /// Give up room when a loss comes below the last W_max.
    pub fast_convergence: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Memory {
    /// W_max and the window at the last reduction, if there was one.
    reduction: Option<Reduction>,
    epoch: Option<Epoch>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Reduction {
    window_max: f64,
    window_before: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Epoch {
    clock: Clock,
    window_max: f64,
    k: f64,
    window_est: f64,
    window_before: f64,
}

impl CubicIncrease {
    /// The rule before its first epoch.
    pub fn new(rules: CubicRules) -> Self {
        Self {
            rules,
            memory: Memory::default(),
            before_backoff: None,
        }
    }

    /// α of W_est that is fair to Reno: 3(1 − β)/(1 + β), packets a round trip.
    pub fn alpha_cubic(beta: f64) -> f64 {
        3.0 * (1.0 - beta) / (1.0 + beta)
    }

    /// K: seconds the curve takes from `window_epoch` to `window_max`; 0 if it is
    /// there.
    pub fn k(window_max: f64, window_epoch: f64) -> f64 {
        ((window_max - window_epoch).max(0.0) / C).cbrt()
    }

    /// W(t) in packets, t and `k` in seconds.
    pub fn window(t: f64, k: f64, window_max: f64) -> f64 {
        let from_plateau = t - k;
        C * from_plateau * from_plateau * from_plateau + window_max
    }

    /// Without a reduction before it (slow start ended by itself, or after a
    /// timeout) the curve begins on its plateau ([RFC9438] §4.8, §4.10).
    fn begin_epoch(&self, tokens: f64) -> Epoch {
        let (window_max, window_before) = self
            .memory
            .reduction
            .map_or((tokens, tokens), |it| (it.window_max, it.window_before));
        let window_max = window_max.max(tokens);
        Epoch {
            clock: Clock::default(),
            window_max,
            k: Self::k(window_max, tokens),
            window_est: tokens,
            window_before,
        }
    }
}

impl Increase for CubicIncrease {
    fn avoidance(&mut self, tokens: f64, packets: u64, ack: &AckEvent) -> f64 {
        let mut epoch = match self.memory.epoch {
            Some(epoch) => epoch,
            None => self.begin_epoch(tokens),
        };
        let t = epoch.clock.seconds_at(ack);
        let share = packets as f64 / tokens;
        let slope = if epoch.window_est < epoch.window_before {
            self.rules.alpha
        } else {
            1.0
        };
        epoch.window_est += slope * share;
        self.memory.epoch = Some(epoch);
        if Self::window(t, epoch.k, epoch.window_max) < epoch.window_est {
            return (epoch.window_est - tokens).max(0.0);
        }
        let next = t + ack.rtt.srtt.as_secs_f64();
        let target = Self::window(next, epoch.k, epoch.window_max);
        (target.clamp(tokens, TARGET_MAX * tokens) - tokens) * share.min(1.0)
    }

    fn on_pause(&mut self, ack: &AckEvent) {
        if let Some(epoch) = &mut self.memory.epoch {
            epoch.clock.on_pause(ack);
        }
    }

    fn on_backoff(&mut self, event: &BackoffEvent) {
        self.before_backoff = Some(self.memory);
        if event.factor >= self.rules.beta_hold {
            return;
        }
        let tokens = event.tokens_before;
        let is_below_last = self
            .memory
            .reduction
            .is_some_and(|last| tokens < last.window_max);
        let window_max = if self.rules.fast_convergence && is_below_last {
            tokens * (1.0 + event.factor) / 2.0
        } else {
            tokens
        };
        self.memory = Memory {
            reduction: Some(Reduction {
                window_max,
                window_before: tokens,
            }),
            epoch: None,
        };
    }

    fn on_undo(&mut self) {
        if let Some(memory) = self.before_backoff.take() {
            self.memory = memory;
        }
    }

    fn on_restart(&mut self, _now: Instant) {
        self.before_backoff = None;
        self.memory = Memory::default();
    }
}
