//! A window made of an increase rule and a backoff rule.
//!
//! Algorithm: `transport.md` §10 and §11.2 (slow start and silence of [MP12]
//! Algorithm 2; loss events of [CC14] §III). Tokens are packets.
//!
//! ```text
//! slow start, per acknowledged packet:   tokens += 1, until tokens > ss_threshold
//! avoidance, per acknowledged packet:    tokens += increase(tokens)
//! loss event, at most one a round trip:  tokens ← max(min_tokens, β·tokens)
//! silence:                               ss_threshold ← tokens/2, tokens ← init_tokens
//! ```
//!
//! Departures:
//! - A loss event is judged by the *newest* packet lost, not by the first one
//!   missing: an outage longer than a round trip straddles the last backoff and
//!   must not pass unanswered. With one ACK a packet the two differ only there.
//! - Silence that lasts lowers `ss_threshold` once and not at every probe, as
//!   RFC 5681 §3.1 demands: else one outage leaves a threshold of a few packets.
//! - Acknowledged packets that were sent while the application was the limit
//!   earn no growth (the idea of RFC 7661): they tell nothing about a window
//!   that was not used.
//! - If every loss of a backoff turns out spurious, the backoff is undone.

use ctcp_units::{Instant, PacketNumber};

use crate::backoff::Backoff;
use crate::controller::{Controller, ControllerState};
use crate::event::{
    AckEvent, EcnEvent, LossEvent, PathChangeEvent, SilenceEvent, SpuriousLossEvent,
};
use crate::increase::{BackoffEvent, Increase};
use crate::params::Params;

/// A controller from an increase rule `I` and a backoff rule `B`.
#[derive(Debug, Clone)]
pub struct Aimd<I, B> {
    name: &'static str,
    params: Params,
    increase: I,
    backoff: B,
    tokens: f64,
    ss_threshold: f64,
    in_slow_start: bool,
    /// Packets from this one on were sent after the last backoff.
    recover: PacketNumber,
    /// Packets before this one were sent before the last silence or change of
    /// path and earn no growth.
    stale_before: PacketNumber,
    /// Nothing was acknowledged since the last silence.
    is_silent: bool,
    undo: Option<Undo>,
    last_backoff: Option<f64>,
    backoff_count: u64,
}

/// What to return to if the losses behind the last backoff were none.
#[derive(Debug, Clone, Copy)]
struct Undo {
    tokens: f64,
    ss_threshold: f64,
    in_slow_start: bool,
    /// The oldest packet whose loss belongs to this backoff.
    first_lost: PacketNumber,
    /// Losses of this backoff not known to be spurious.
    losses_standing: u64,
}

impl<I: Increase, B: Backoff> Aimd<I, B> {
    /// A window at its initial value. `name` is what the registry calls it.
    pub fn new(name: &'static str, params: &Params, increase: I, backoff: B) -> Self {
        let params = params.clamped();
        Self {
            name,
            params,
            increase,
            backoff,
            tokens: params.init_tokens,
            ss_threshold: params.init_ss_threshold,
            in_slow_start: true,
            recover: PacketNumber(0),
            stale_before: PacketNumber(0),
            is_silent: false,
            undo: None,
            last_backoff: None,
            backoff_count: 0,
        }
    }

    fn grow(&mut self, ack: &AckEvent) {
        let mut packets = ack.acked_packets;
        if self.in_slow_start {
            packets -= self.grow_in_slow_start(packets, self.increase.slow_start(ack));
        }
        if packets > 0 {
            self.tokens += self.increase.avoidance(self.tokens, packets, ack);
        }
        self.tokens = self.tokens.min(self.params.max_tokens);
    }

    /// Grows by `step` a packet, for at most `packets`; answers how many of
    /// them it took to pass the threshold.
    fn grow_in_slow_start(&mut self, packets: u64, step: f64) -> u64 {
        let steps_below = ((self.ss_threshold - self.tokens) / step).max(0.0).floor();
        // A float cast saturates: an infinite threshold leaves all to slow start.
        let taken = packets.min((steps_below as u64).saturating_add(1));
        self.tokens += step * taken as f64;
        if self.tokens > self.ss_threshold {
            self.in_slow_start = false;
        }
        taken
    }

    /// Multiplies the window by `factor` because of packets up to
    /// `largest_sent`.
    fn back_off(&mut self, now: Instant, factor: f64, largest_sent: PacketNumber) {
        debug_assert!(factor > 0.0 && factor <= 1.0, "factor {factor}");
        let tokens_before = self.tokens;
        self.tokens = (factor * self.tokens).max(self.params.min_tokens);
        if self.in_slow_start && self.params.ss_exit_on_loss {
            self.in_slow_start = false;
            self.ss_threshold = self.tokens;
        } else if !self.in_slow_start {
            self.ss_threshold = self.tokens;
        }
        self.recover = largest_sent.next();
        self.last_backoff = Some(factor);
        self.backoff_count += 1;
        self.increase.on_backoff(&BackoffEvent {
            now,
            factor,
            tokens_before,
            tokens_after: self.tokens,
        });
    }
}

impl<I: Increase, B: Backoff> Controller for Aimd<I, B> {
    fn on_ack(&mut self, event: &AckEvent) {
        self.backoff.on_ack(event);
        if event.newest_acked < self.stale_before {
            return;
        }
        self.is_silent = false;
        if !event.app_limited {
            self.grow(event);
        }
    }

    fn on_loss(&mut self, event: &LossEvent) {
        if event.last_lost < self.recover {
            // The same round trip as the last backoff: these losses are part of
            // what must prove spurious before it is undone.
            if let Some(undo) = &mut self.undo {
                undo.losses_standing = undo.losses_standing.saturating_add(event.lost_packets);
                undo.first_lost = undo.first_lost.min(event.first_lost);
            }
            return;
        }
        self.undo = Some(Undo {
            tokens: self.tokens,
            ss_threshold: self.ss_threshold,
            in_slow_start: self.in_slow_start,
            first_lost: event.first_lost,
            losses_standing: event.lost_packets,
        });
        let factor = self.backoff.on_loss(self.tokens, event);
        self.back_off(event.now, factor, event.largest_sent);
    }

    fn on_ecn(&mut self, event: &EcnEvent) {
        // A mark stands whatever happens to the losses beside it.
        self.undo = None;
        if event.newest_acked < self.recover {
            return;
        }
        let factor = self.backoff.on_ecn(self.tokens, event);
        self.back_off(event.now, factor, event.largest_sent);
    }

    fn on_silence(&mut self, event: &SilenceEvent) {
        if !self.is_silent {
            self.ss_threshold = (self.tokens / 2.0).max(self.params.min_tokens);
        }
        self.is_silent = true;
        self.tokens = self.params.init_tokens;
        self.in_slow_start = true;
        self.recover = event.largest_sent.next();
        self.stale_before = event.largest_sent.next();
        self.undo = None;
        self.increase.on_restart(event.now);
    }

    fn on_spurious_loss(&mut self, event: &SpuriousLossEvent) {
        let Some(undo) = &mut self.undo else { return };
        if event.number < undo.first_lost || event.number >= self.recover {
            return;
        }
        undo.losses_standing = undo.losses_standing.saturating_sub(1);
        if undo.losses_standing == 0 {
            self.tokens = self.tokens.max(undo.tokens);
            self.ss_threshold = undo.ss_threshold;
            self.in_slow_start = undo.in_slow_start;
            self.undo = None;
        }
    }

    fn on_path_change(&mut self, event: &PathChangeEvent) {
        self.tokens = self.params.init_tokens;
        self.ss_threshold = self.params.init_ss_threshold;
        self.in_slow_start = true;
        self.is_silent = false;
        self.undo = None;
        self.last_backoff = None;
        self.recover = event.largest_sent.next();
        self.stale_before = event.largest_sent.next();
        self.increase.on_restart(event.now);
        self.backoff.on_path_change();
    }

    fn tokens(&self) -> f64 {
        self.tokens
    }

    fn in_slow_start(&self) -> bool {
        self.in_slow_start
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn state(&self) -> ControllerState {
        ControllerState {
            tokens: self.tokens,
            ss_threshold: self.ss_threshold.is_finite().then_some(self.ss_threshold),
            phase: if self.in_slow_start {
                "slow_start"
            } else {
                "avoidance"
            },
            last_backoff: self.last_backoff,
            backoff_count: self.backoff_count,
        }
    }
}

#[cfg(test)]
mod tests;
