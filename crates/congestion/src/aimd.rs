//! A window made of an increase rule and a backoff rule.
//!
//! Algorithm: `transport.md` §10 and §11.2 (slow start and silence of [MP12]
//! Algorithm 2; loss events of [CC14] §III). Tokens are packets.
//!
//! ```text
//! slow start, per acknowledged packet:   tokens += 1 (or the rule's step), until tokens > ss_threshold
//! avoidance, per acknowledged packet:    tokens += increase(tokens)
//! loss event, at most one a round trip:  tokens ← max(min_tokens, β·tokens)
//! silence:                               ss_threshold ← tokens/2 (or the rule's), tokens ← silence_tokens
//! ```
//!
//! Departures:
//! - A loss event is judged by the *newest* packet lost, not by the first one
//!   missing: an outage longer than a round trip straddles the last backoff and
//!   must not pass unanswered. With one ACK a packet the two differ only there.
//! - Silence that lasts lowers `ss_threshold` once and not at every probe, as
//!   RFC 5681 §3.1 demands: else one outage leaves a threshold of a few packets.
//! - Where TCP says FlightSize, the window stands: as windows that are not used
//!   do not grow, the two differ by what an application leaves idle (Linux does
//!   the same).
//! - Acknowledged packets that were sent while the application was the limit
//!   earn no growth (the idea of RFC 7661): they tell nothing about a window
//!   that was not used.
//! - If every loss of a backoff turns out spurious, the backoff is undone.
//! - Behind a bottleneck that several paths of a connection share, avoidance grows
//!   by [RFC6356]'s part of the step. It is exact for linear growth; where growth
//!   is a function of time (CUBIC, H-TCP) it only slows it down.

use ctcp_units::{Instant, PacketNumber};

use crate::backoff::Backoff;
use crate::controller::{Controller, ControllerState};
use crate::event::{
    AckEvent, CouplingEvent, EcnEvent, LossEvent, PathChangeEvent, SilenceEvent, SpuriousLossEvent,
};
use crate::hystart::{HyStart, Verdict};
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
    hystart: Option<HyStart>,
    /// The window is no longer the initial one, or was scaled by the first
    /// round-trip time.
    is_scaled: bool,
    /// Packets from this one on were sent after the last backoff.
    recover: PacketNumber,
    /// Packets before this one were sent before the last silence or change of
    /// path and earn no growth.
    stale_before: PacketNumber,
    /// Nothing was acknowledged since the last silence.
    is_silent: bool,
    undo: Option<Undo>,
    /// Factor of the growth beside paths behind the same bottleneck, 1 without.
    growth: f64,
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
            hystart: params.hystart.then(HyStart::default),
            is_scaled: false,
            recover: PacketNumber(0),
            stale_before: PacketNumber(0),
            is_silent: false,
            undo: None,
            growth: 1.0,
            last_backoff: None,
            backoff_count: 0,
        }
    }

    fn grow(&mut self, ack: &AckEvent) {
        if !self.is_scaled && ack.rtt_sample.is_some() {
            self.is_scaled = true;
            self.tokens *= self.increase.initial_factor(ack);
        }
        let mut packets = ack.acked_packets;
        if self.in_slow_start {
            packets -= self.grow_in_slow_start(ack).min(packets);
        }
        if packets > 0 && !self.in_slow_start {
            let counted = self.params.ack_counting.in_avoidance(packets);
            let step = self.increase.avoidance(self.tokens, counted, ack);
            // Steps back are an answer to delay and stay whole.
            self.tokens += if step > 0.0 { self.growth * step } else { step };
        }
        self.tokens = self.tokens.clamp(self.tokens_min(), self.params.max_tokens);
    }

    /// Grows by the rule's step a packet; answers how many packets it took to
    /// pass the threshold, or all.
    fn grow_in_slow_start(&mut self, ack: &AckEvent) -> u64 {
        let slow_down = match self.hystart.as_mut().map(|hystart| hystart.on_ack(ack)) {
            None | Some(Verdict::Grow) => 1.0,
            Some(Verdict::GrowSlowly(divisor)) => divisor,
            Some(Verdict::Exit) => {
                self.exit_slow_start(self.tokens);
                return 0;
            }
        };
        let counted = self.params.ack_counting.in_slow_start(ack.acked_packets);
        let step = self.increase.slow_start(self.tokens, ack) / slow_down;
        let mut taken = counted;
        if step > 0.0 {
            let steps_below = ((self.ss_threshold - self.tokens) / step).max(0.0).floor();
            // A float cast saturates: an infinite threshold leaves all to slow start.
            taken = counted.min((steps_below as u64).saturating_add(1));
            // A step of many packets (Hybla) must not leap over the threshold.
            let ceiling = self.tokens.max(self.ss_threshold) + step.min(1.0);
            self.tokens = (self.tokens + step * taken as f64).min(ceiling);
        }
        self.tokens = self.tokens.min(self.params.max_tokens);
        if self.tokens > self.ss_threshold {
            self.in_slow_start = false;
        } else if let Some(window) = self.increase.slow_start_exit(self.tokens, ack) {
            self.exit_slow_start(window.clamp(self.tokens_min(), self.params.max_tokens));
        }
        if self.in_slow_start || taken == counted {
            return ack.acked_packets;
        }
        taken
    }

    fn restart_hystart(&mut self) {
        self.hystart = self.params.hystart.then(HyStart::default);
    }

    fn exit_slow_start(&mut self, window: f64) {
        self.tokens = window;
        self.ss_threshold = window;
        self.in_slow_start = false;
    }

    /// What growth by a negative step never goes below: after silence the
    /// window may start below the minimum of backoffs.
    fn tokens_min(&self) -> f64 {
        self.params.min_tokens.min(self.params.after_silence())
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
        self.is_scaled = true;
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
        if event.app_limited || event.in_recovery {
            self.increase.on_pause(event);
        } else {
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
            let threshold = self.backoff.silence_threshold(self.tokens, event);
            self.ss_threshold = threshold.max(self.params.min_tokens);
        }
        self.is_silent = true;
        self.is_scaled = true;
        self.tokens = self.params.after_silence();
        self.restart_hystart();
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
            self.increase.on_undo();
        }
    }

    fn on_coupling(&mut self, event: &CouplingEvent) {
        self.growth = event.growth.clamp(0.0, 1.0);
    }

    fn on_path_change(&mut self, event: &PathChangeEvent) {
        self.growth = 1.0;
        self.tokens = self.params.init_tokens;
        self.ss_threshold = self.params.init_ss_threshold;
        self.in_slow_start = true;
        self.is_silent = false;
        self.is_scaled = false;
        self.restart_hystart();
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
