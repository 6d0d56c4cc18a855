//! What `auto` sends, and takes for a queue, by what it knows: rates, margins and
//! windows, all without a change of state.

use ctcp_units::Duration;

use super::constants::{
    CLEAN_LOSS, CLEAR_PACKETS, CRUISE_GAIN, FLOOR_SHARE, PROBE_GAIN_NOISY, PROBE_GAINS,
    PROBE_PACKETS, STANDING_MIN, STANDING_PACKETS, STANDING_SHARE, STANDING_SIGMAS, START_GAIN,
    WINDOW_BURSTS, WINDOW_GAIN, WINDOW_GAIN_MAX, WINDOW_SLACK,
};
use super::{Auto, Phase};

impl Auto {
    /// Packets per second it believes it can have.
    pub fn bandwidth(&self) -> f64 {
        self.bandwidth.largest()
    }

    pub(super) fn base_seconds(&self) -> f64 {
        self.base.unwrap_or(Duration::ZERO).as_secs_f64()
    }

    /// Share lost that sending less would not save.
    pub(super) fn chance_loss(&self) -> f64 {
        self.chance.share(self.burst.dispersion())
    }

    /// Packets a second on the wire for bw to arrive.
    pub(super) fn wire_rate(&self) -> f64 {
        self.bandwidth.largest() / (1.0 - self.chance_loss())
    }

    /// Packets in flight that fill the path without a queue.
    pub(super) fn flight(&self) -> f64 {
        self.wire_rate() * self.base_seconds()
    }

    pub(super) fn gain(&self) -> f64 {
        match self.phase {
            Phase::Start => START_GAIN,
            Phase::Drain { gain, .. } => gain,
            Phase::Settle { .. } | Phase::Cruise { .. } | Phase::Judge { .. } => {
                match self.chance_loss() < CLEAN_LOSS {
                    true => CRUISE_GAIN,
                    false => 1.0,
                }
            }
            Phase::Probe { step } => self.probe_gain(step),
        }
    }

    /// Delay tells nothing here.
    pub(super) fn is_noisy(&self) -> bool {
        self.noise.drowns_delay()
    }

    pub(super) fn probe_gain(&self, step: usize) -> f64 {
        let gain = match self.is_noisy() {
            true => PROBE_GAIN_NOISY,
            false => PROBE_GAINS[step],
        };
        gain.max(1.0 + PROBE_PACKETS / self.flight().max(1.0))
    }

    /// Excess over the base from which on a round's least round trip means a
    /// queue.
    pub(super) fn bare_margin(&self) -> Duration {
        let base = self.base.unwrap_or(Duration::ZERO);
        let bandwidth = self.bandwidth.largest();
        let p = self.chance_loss();
        let variance = self.flight() * p * (1.0 - p) * self.burst.dispersion();
        let wander = STANDING_SIGMAS * variance.sqrt();
        let packets = match bandwidth > 0.0 {
            true => Duration::from_secs_f64(((STANDING_PACKETS + wander) / bandwidth).min(1.0)),
            false => Duration::ZERO,
        };
        (base / STANDING_SHARE).max(STANDING_MIN).max(packets)
    }

    /// The same with what is usual without a queue.
    pub(super) fn margin(&self) -> Duration {
        self.bare_margin() + Duration::from_secs_f64(self.usual())
    }

    /// Seconds of round trip above the base that are no queue.
    pub(super) fn usual(&self) -> f64 {
        self.noise.seconds().max(self.bias)
    }

    /// The smallest round trip for long.
    pub(super) fn low(&self) -> Duration {
        let base = self.base.unwrap_or(Duration::ZERO);
        self.low.map_or(base, |(low, _)| low.min(base))
    }

    /// Excess over the smallest of long that an empty queue may show.
    pub(super) fn clear_margin(&self) -> Duration {
        let packets = (CLEAR_PACKETS / self.bandwidth.largest().max(1.0)).min(1.0);
        Duration::from_secs_f64(packets + self.usual()).max(STANDING_MIN)
    }

    /// Whether this round trip leaves no room for a queue that may be full of others'
    /// packets: what is lost then is not overflow.
    pub(super) fn is_clear(&self, rtt: Duration) -> bool {
        rtt <= self.low() + self.clear_margin() || self.is_noisy()
    }

    /// The floor gives way, to see whether the queue is ours.
    pub(super) fn is_yielding(&self) -> bool {
        self.is_test && matches!(self.phase, Phase::Drain { .. } | Phase::Settle { .. })
    }

    /// The floor decides, not the model.
    pub(super) fn is_floored(&self) -> bool {
        if self.phase == Phase::Start || self.srtt.is_zero() || self.is_yielding() {
            return false;
        }
        self.is_contested && self.floor.window() >= FLOOR_SHARE * self.flight()
    }

    pub(super) fn window(&self) -> f64 {
        if self.phase == Phase::Start {
            return self.start_window;
        }
        if self.is_floored() {
            return self.floor.window();
        }
        if self.is_test && matches!(self.phase, Phase::Drain { .. }) {
            return self.flight() + self.wire_rate() * self.usual();
        }
        let rate = self.wire_rate();
        let base = self.base_seconds();
        // Where delay tells nothing the window must not tell it either.
        let usual = match self.is_noisy() {
            true => self.usual().max(self.noise.highest(base)),
            false => self.usual(),
        };
        let bursts = (WINDOW_BURSTS * self.burst.packets()).min(WINDOW_GAIN_MAX * rate * base);
        let window = self.gain().max(1.0) * rate * (WINDOW_GAIN * base + 2.0 * usual);
        let window = window + bursts + WINDOW_SLACK;
        match self.is_yielding() {
            true => window,
            false => window.max(self.floor.window()),
        }
    }

    pub(super) fn hold(&self, window: f64) -> f64 {
        let low = self.params.min_tokens.min(self.params.after_silence());
        match window.is_finite() {
            true => window.clamp(low, self.params.max_tokens),
            false => self.params.max_tokens,
        }
    }
}
