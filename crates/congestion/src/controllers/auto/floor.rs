//! The window that a CUBIC flow would have in our place.
//!
//! It hears of the losses that such a flow would hear of, and grows as such a flow
//! would. Taken as the least window, it is what keeps others that fill the queue
//! until it overflows from taking everything, and gives no more than CUBIC takes
//! from CUBIC.
//!
//! Where several paths of a connection share their bottleneck, it is one flow in the
//! place of all: each path takes its share of that flow's window, hears the others'
//! losses as its own, and grows as if the share were the whole.

use ctcp_units::{Instant, PacketNumber};

use super::constants::FLOOR_BETA;
use crate::event::{AckEvent, LossEvent, PartnerLossEvent};
use crate::increase::{BackoffEvent, CubicIncrease, CubicRules, Increase};

#[derive(Debug, Clone)]
pub(super) struct Floor {
    /// Of the flow, in whose window this path has a share.
    window: f64,
    /// In `(0, 1]`.
    share: f64,
    increase: CubicIncrease,
    /// Losses, in packets of the imitated flow, not yet answered.
    losses: f64,
    recover: PacketNumber,
    newest_acked: PacketNumber,
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
            share: 1.0,
            increase: CubicIncrease::new(rules),
            losses: 0.0,
            recover: PacketNumber(0),
            newest_acked: PacketNumber(0),
        }
    }

    /// The same of a flow that this path has a share of.
    pub(super) fn with_share(window: f64, share: f64) -> Self {
        Self {
            window: window / share,
            share,
            ..Self::new(window)
        }
    }

    /// Packets, of this path.
    pub(super) const fn window(&self) -> f64 {
        self.window * self.share
    }

    pub(super) const fn share(&self) -> f64 {
        self.share
    }

    /// The path has this share of the flow, in `(0, 1]`.
    pub(super) fn set_share(&mut self, share: f64) {
        self.share = share.clamp(0.01, 1.0);
    }

    /// Grows by what of the acknowledged packets such a flow would have sent.
    pub(super) fn on_ack(&mut self, ack: &AckEvent, tokens: f64) {
        self.newest_acked = self.newest_acked.max(ack.newest_acked);
        if ack.app_limited || ack.in_recovery {
            self.increase.on_pause(ack);
            return;
        }
        // The other paths' packets of the flow grow it on their own account there.
        let packets = ack.acked_packets as f64 * self.packets_share(tokens) / self.share;
        let grown = self.increase.avoidance(self.window, 1, ack);
        self.window += grown * packets;
    }

    /// Answers a loss as CUBIC does, if such a flow would have seen it. Returns
    /// whether it did.
    pub(super) fn on_loss(&mut self, event: &LossEvent, tokens: f64, low: f64) -> bool {
        if event.last_lost < self.recover {
            return false;
        }
        self.lose(event.lost_packets, tokens) && self.answer(event.now, low, event.largest_sent)
    }

    /// The same for losses of another path of the flow.
    pub(super) fn on_partner_loss(
        &mut self,
        event: &PartnerLossEvent,
        tokens: f64,
        low: f64,
    ) -> bool {
        // What both lost in one round trip is one event.
        self.newest_acked >= self.recover
            && self.lose(event.lost_packets, tokens)
            && self.answer(event.now, low, event.largest_sent)
    }

    /// Counts losses; whether the flow would have seen one.
    fn lose(&mut self, packets: u64, tokens: f64) -> bool {
        self.losses += packets as f64 * self.packets_share(tokens);
        self.losses >= 1.0
    }

    fn answer(&mut self, now: Instant, low: f64, largest_sent: PacketNumber) -> bool {
        self.back_off(now, FLOOR_BETA, low, largest_sent);
        true
    }

    /// How many of this path's packets are the flow's.
    fn packets_share(&self, tokens: f64) -> f64 {
        (self.window() / tokens).min(1.0)
    }

    pub(super) fn back_off(
        &mut self,
        now: Instant,
        factor: f64,
        low: f64,
        largest_sent: PacketNumber,
    ) {
        let tokens_before = self.window;
        self.window = (self.window * factor).max(low / self.share);
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
        // Of the flow, not of this path: what the others have they raise it by there.
        self.window = self.window.max(window);
    }

    /// The queue is ours alone: at most so much is needed.
    pub(super) fn limit(&mut self, now: Instant, window: f64, low: f64) {
        if self.window() > window {
            let recover = self.recover;
            let losses = self.losses;
            self.back_off(now, window / self.window(), low, PacketNumber(0));
            self.recover = recover;
            self.losses = losses;
        }
    }

    /// Starts again at this window.
    pub(super) fn restart(&mut self, now: Instant, window: f64, largest_sent: PacketNumber) {
        self.window = window / self.share;
        self.losses = 0.0;
        self.recover = largest_sent.next();
        self.increase.on_restart(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_flow_hears_the_others_losses_once_a_round_trip() {
        let mut floor = Floor::new(40.0);
        floor.set_share(0.5);
        assert_eq!(floor.window(), 20.0);
        let loss = PartnerLossEvent {
            now: Instant::EPOCH,
            lost_packets: 3,
            largest_sent: PacketNumber(30),
        };
        assert!(floor.on_partner_loss(&loss, 20.0, 2.0));
        assert!((floor.window() - 14.0).abs() < 1e-9);
        assert!(!floor.on_partner_loss(&loss, 14.0, 2.0), "the same event");
        floor.newest_acked = PacketNumber(31);
        assert!(floor.on_partner_loss(&loss, 14.0, 2.0));
    }

    #[test]
    fn a_share_is_raised_to_its_part_and_limited_to_what_the_path_needs() {
        let mut floor = Floor::new(4.0);
        floor.set_share(0.25);
        floor.raise(40.0);
        assert_eq!(floor.window(), 10.0);
        floor.limit(Instant::EPOCH, 5.0, 2.0);
        assert!((floor.window() - 5.0).abs() < 1e-9);
        floor.restart(Instant::EPOCH, 8.0, PacketNumber(9));
        assert_eq!(floor.window(), 8.0);
        floor.set_share(1.0);
        assert_eq!(floor.window(), 32.0, "alone it is the flow");
        let reborn = Floor::with_share(8.0, 0.25);
        assert_eq!((reborn.window(), reborn.share()), (8.0, 0.25));
    }
}
