//! The start of `auto`: doubling until a round finds no more room, a queue shows, or
//! loss rises; then what its queue tells.

use ctcp_units::Duration;

use super::Auto;
use super::constants::{
    START_DRAIN_GAIN, START_FLAT_ROUNDS, START_GAIN, START_GROWTH, START_GROWTH_QUEUED, START_LONG,
    START_LONG_GAIN, START_MARGIN_MAX, START_QUEUED_SAMPLES, START_QUEUED_SHARE, START_QUICK_GAIN,
    START_QUICK_RATE, START_QUICK_TOKENS, START_SPAN_MIN, START_SPAN_PACKETS, START_SPAN_SHARE,
};
use super::model::{QueueRate, RoundReport};
use crate::event::AckEvent;

impl Auto {
    pub(super) fn judge_start(
        &mut self,
        ack: &AckEvent,
        report: &RoundReport,
        lost: u64,
        is_queued: bool,
    ) {
        if report.is_app_limited || ack.newest_acked < self.retreated_before {
            return;
        }
        let rate = self.bandwidth.largest();
        let growth = rate / self.best_rate.max(1e-9);
        if growth >= START_GROWTH {
            self.best_rate = rate;
            self.flat_rounds = 0;
        } else {
            self.flat_rounds += 1;
        }
        let has_doubled = growth >= START_GROWTH_QUEUED;
        if has_doubled {
            self.learn_noise(report);
        }
        let is_overloaded = self
            .start_loss
            .on_round(report.delivered, lost, has_doubled);
        let is_over =
            self.flat_rounds >= START_FLAT_ROUNDS || (is_queued && !has_doubled) || is_overloaded;
        if is_over {
            self.end_start(ack);
        }
    }

    /// Whether the start has met a queue, within a round.
    pub(super) fn sees_queue(&mut self, ack: &AckEvent) -> bool {
        let Some(sample) = ack.rtt_sample else {
            return false;
        };
        if ack.newest_acked < self.retreated_before {
            return false;
        }
        let base = self.base.unwrap_or(Duration::ZERO);
        let spread = Duration::from_secs_f64(self.noise.seconds());
        let margin = self.bare_margin().min(START_MARGIN_MAX) + spread;
        if sample <= base + margin {
            self.queued_samples = 0;
            return false;
        }
        if self.queued_samples == 0 {
            self.queued_since = ack.now;
        }
        self.queued_samples += 1;
        let least = match self.is_long_way() {
            true => base / START_QUEUED_SHARE,
            false => Duration::ZERO,
        };
        self.queued_samples >= START_QUEUED_SAMPLES
            && ack.now.saturating_since(self.queued_since) >= least
            && self.bandwidth.largest() > 0.0
    }

    /// A long path, of which nothing is remembered that holds.
    fn is_long_way(&self) -> bool {
        self.base.is_some_and(|base| base >= START_LONG) && !self.resume.has_led()
    }

    /// Below so many tokens the start quadruples.
    pub(super) fn quick_tokens(&self) -> f64 {
        match self.is_long_way() {
            true => START_QUICK_TOKENS.max(START_QUICK_RATE * self.base_seconds()),
            false => START_QUICK_TOKENS,
        }
    }

    /// Packets a second of the start, at this smoothed round trip in seconds.
    pub(super) fn start_rate(&self, srtt: f64) -> f64 {
        let gain = match self.start_window < 2.0 * self.quick_tokens() {
            true => START_QUICK_GAIN,
            false => START_GAIN,
        };
        let least = match self.is_long_way() {
            true => START_LONG_GAIN * self.start_window,
            false => 0.0,
        };
        let least = least.max(START_GAIN * self.params.init_tokens);
        (gain * self.bandwidth.largest())
            .max(least / srtt)
            .max(self.resume.rate())
    }

    /// The path has less than what was remembered: the start goes on as if it had not
    /// jumped, from `window`. What the jump sent says nothing about that.
    pub(super) fn retreat(&mut self, ack: &AckEvent, window: f64) {
        let next = ack.largest_sent.next();
        let rate = window / self.base_seconds().max(1e-3);
        self.start_window = window;
        self.best_rate = rate;
        self.bandwidth.reset(rate);
        self.queued_samples = 0;
        self.flat_rounds = 0;
        self.retreated_before = next;
        self.rounds.restart(next);
    }

    pub(super) fn end_start(&mut self, ack: &AckEvent) {
        self.chance.learn_start(&self.start_loss);
        let flight = self.flight().max(self.params.min_tokens);
        self.floor.restart(ack.now, flight, ack.largest_sent);
        self.is_test = true;
        self.loss_recover = ack.largest_sent.next();
        if self.is_long_way() {
            // A thousand packets without their losses: on a short path half a second.
            self.counted_from = self.loss_recover;
        }
        self.lost_in_round = 0;
        self.queue_rate = Some(QueueRate::default());
        self.begin_drain(START_DRAIN_GAIN, ack.largest_sent.next());
    }

    /// The start's last rounds were sent before the link was busy all the time: what
    /// it delivers shows while its queue drains.
    pub(super) fn watch_queue(&mut self, ack: &AckEvent) {
        let base = self.base.unwrap_or(Duration::ZERO);
        let above = base + self.margin().min(START_MARGIN_MAX);
        let span = (base / START_SPAN_SHARE).max(START_SPAN_MIN);
        let passed = match self.is_long_way() {
            true => START_SPAN_PACKETS,
            false => u64::MAX,
        };
        if let Some(queue_rate) = &mut self.queue_rate
            && let Some(rate) = queue_rate.on_ack(ack, above, span, passed)
        {
            self.bandwidth.raise(rate);
        }
    }
}
