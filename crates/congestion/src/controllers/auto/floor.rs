//! The window that a CUBIC flow would have in our place.
//!
//! It hears of the losses that such a flow would hear of, and grows as such a flow
//! would. Taken as the least window, it is what keeps others that fill the queue
//! until it overflows from taking everything, and gives no more than CUBIC takes
//! from CUBIC.

use ctcp_units::{Instant, PacketNumber};

use super::constants::FLOOR_BETA;
use crate::event::{AckEvent, LossEvent};
use crate::increase::{BackoffEvent, CubicIncrease, CubicRules, Increase};

#[derive(Debug, Clone)]
pub(super) struct Floor {
    window: f64,
    increase: CubicIncrease,
    /// Losses, in packets of the imitated flow, not yet answered.
    losses: f64,
    recover: PacketNumber,
}

impl Floor {
    pub(super) fn new(window: f64) -> Self {
        let rules = CubicRules {
            alpha: CubicIncrease::alpha_cubic(FLOOR_BETA),
            beta_hold: 2.0,
            fast_convergence: true,
        };
        Self {
            window,
            increase: CubicIncrease::new(rules),
            losses: 0.0,
            recover: PacketNumber(0),
        }
    }

    /// Packets.
    pub(super) const fn window(&self) -> f64 {
        self.window
    }

    /// Grows by what of the acknowledged packets such a flow would have sent.
    pub(super) fn on_ack(&mut self, ack: &AckEvent, tokens: f64) {
        if ack.app_limited || ack.in_recovery {
            self.increase.on_pause(ack);
            return;
        }
        let share = (self.window / tokens).min(1.0);
        let packets = ack.acked_packets as f64 * share;
        let grown = self.increase.avoidance(self.window, 1, ack);
        self.window += grown * packets;
    }

    /// Answers a loss as CUBIC does, if such a flow would have seen it. Returns
    /// whether it did.
    pub(super) fn on_loss(&mut self, event: &LossEvent, tokens: f64, low: f64) -> bool {
        if event.last_lost < self.recover {
            return false;
        }
        self.losses += event.lost_packets as f64 * (self.window / tokens).min(1.0);
        if self.losses < 1.0 {
            return false;
        }
        self.back_off(event.now, FLOOR_BETA, low, event.largest_sent);
        true
    }

    pub(super) fn back_off(
        &mut self,
        now: Instant,
        factor: f64,
        low: f64,
        largest_sent: PacketNumber,
    ) {
        let tokens_before = self.window;
        self.window = (self.window * factor).max(low);
        self.losses = 0.0;
        self.recover = largest_sent.next();
        self.increase.on_backoff(&BackoffEvent {
            now,
            factor,
            tokens_before,
            tokens_after: self.window,
        });
    }

    /// At least so much is ours.
    pub(super) fn raise(&mut self, window: f64) {
        self.window = self.window.max(window);
    }

    /// The queue is ours alone: at most so much is needed.
    pub(super) fn limit(&mut self, now: Instant, window: f64, low: f64) {
        if self.window > window {
            let recover = self.recover;
            let losses = self.losses;
            self.back_off(now, window / self.window, low, PacketNumber(0));
            self.recover = recover;
            self.losses = losses;
        }
    }

    /// Starts again at this window.
    pub(super) fn restart(&mut self, now: Instant, window: f64, largest_sent: PacketNumber) {
        self.window = window;
        self.losses = 0.0;
        self.recover = largest_sent.next();
        self.increase.on_restart(now);
    }
}
