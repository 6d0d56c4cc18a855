//! What a chain of links should do to probes.

use ctcp_link::{Jitter, LinkConfig, LossModel, Position, RateLimit};
use ctcp_units::{Duration, Rate};

/// Bytes of a small probe, headers included.
pub(super) const PROBE_BYTES: u64 = 100;

/// A small probe may use this share of the rate, so that it meets no queue.
const PROBE_SHARE: f64 = 0.1;

/// Small probes a second at most.
const PROBES_MAX: f64 = 2000.0;

/// How long the rate is measured.
const RATE_SPAN: Duration = Duration::from_secs(2);
const RATE_SPAN_MAX: Duration = Duration::from_secs(20);

/// What to expect of one direction of a path.
#[derive(Debug, Clone)]
pub(super) struct Expectation {
    /// Median delay of a small packet on an idle link: between these.
    pub(super) delay_min: Duration,
    pub(super) delay_max: Duration,
    /// Why the delay cannot be known, if so.
    pub(super) delay_unknown: Option<&'static str>,
    /// Share of packets that do not arrive, or why it cannot be known.
    pub(super) loss_share: Result<f64, &'static str>,
    /// Mean length of a burst of losses, at least 1: the variance is larger by it.
    pub(super) loss_burst: f64,
    pub(super) loss_before: f64,
    pub(super) loss_after: f64,
    pub(super) duplicate_share: f64,
    pub(super) corrupts: bool,
    /// The slowest link; none if none is limited.
    pub(super) rate: Option<Rate>,
    pub(super) rate_unknown: Option<&'static str>,
    pub(super) rate_span: Duration,
}

impl Expectation {
    pub(super) fn of(links: &[&LinkConfig]) -> Self {
        let mut expected = Self {
            delay_min: Duration::ZERO,
            delay_max: Duration::ZERO,
            delay_unknown: None,
            loss_share: Ok(0.0),
            loss_burst: 1.0,
            loss_before: 0.0,
            loss_after: 0.0,
            duplicate_share: 0.0,
            corrupts: false,
            rate: None,
            rate_unknown: None,
            rate_span: RATE_SPAN,
        };
        for link in links {
            expected.add_delay(link);
            expected.add_loss(link);
            expected.add_rate(link);
        }
        if links.len() > 1 && expected.loss_before + expected.loss_after > 0.0 {
            // What one link loses the next does not see: it depends on the order.
            expected.rate_unknown = Some("several links, and losses between them");
        }
        expected
    }

    /// Small probes a second.
    pub(super) fn probe_rate(&self) -> f64 {
        let most = self.rate.map_or(f64::INFINITY, |rate| {
            rate.as_bits_per_second() as f64 * PROBE_SHARE / (PROBE_BYTES as f64 * 8.0)
        });
        most.min(PROBES_MAX)
    }

    fn add_delay(&mut self, link: &LinkConfig) {
        let on_the_wire = match &link.rate {
            RateLimit::Fixed(rate) => rate.time_for_bytes(PROBE_BYTES),
            RateLimit::Trace(trace) => {
                // The next opportunity may be a period away.
                self.delay_max += trace.period().min(Duration::from_secs(1));
                Duration::ZERO
            }
            RateLimit::Unlimited | RateLimit::Policer { .. } => Duration::ZERO,
        };
        let (least, most) = match link.jitter {
            Jitter::None => (Duration::ZERO, Duration::ZERO),
            Jitter::Uniform { max } | Jitter::Noise { max, .. } => (Duration::ZERO, max),
            Jitter::Normal { mean, deviation } => {
                (mean.saturating_sub(deviation), mean + deviation)
            }
        };
        self.delay_min += link.delay + on_the_wire + least;
        self.delay_max += link.delay + on_the_wire + most;
        if !link.delay_changes.is_empty() {
            self.delay_unknown = Some("the delay changes");
        }
        if let Some(reordering) = link.reordering
            && reordering.share >= 0.4
        {
            self.delay_unknown = Some("too many packets are held back");
        }
    }

    fn add_loss(&mut self, link: &LinkConfig) {
        for stage in &link.losses {
            // Where the mean is known but time decides, a short look may see
            // anything.
            let is_steady = matches!(
                stage.model,
                LossModel::Bernoulli(_) | LossModel::GilbertElliott(_) | LossModel::EveryNth(_)
            );
            let Some(mean) = stage.model.mean().filter(|_| is_steady) else {
                self.loss_share = Err("the losses depend on the time");
                self.rate_unknown = Some("the losses depend on the time");
                continue;
            };
            let mean = mean.share();
            if let LossModel::GilbertElliott(model) = &stage.model {
                let burst = mean_burst(model);
                self.loss_burst = self.loss_burst.max(2.0 * burst);
            }
            self.lose(mean);
            let side = match stage.position {
                Position::Before => &mut self.loss_before,
                Position::After => &mut self.loss_after,
            };
            *side = 1.0 - (1.0 - *side) * (1.0 - mean);
        }
        // The receiver's checksum takes what is corrupted.
        self.corrupts |= link.corruption_share > 0.0;
        self.lose(link.corruption_share);
        self.loss_after = 1.0 - (1.0 - self.loss_after) * (1.0 - link.corruption_share);
        self.duplicate_share = 1.0 - (1.0 - self.duplicate_share) * (1.0 - link.duplication_share);
        if link.duplication_share > 0.0 {
            self.rate_unknown = Some("duplicates arrive beyond the rate");
            if let Ok(share) = &mut self.loss_share
                && *share > 0.0
            {
                self.loss_share = Err("a copy may arrive in place of what was lost");
            }
        }
        if self.loss_before > 0.6 {
            self.rate_unknown = Some("too much is lost ahead of the limiter");
        }
    }

    fn lose(&mut self, mean: f64) {
        if let Ok(share) = &mut self.loss_share {
            *share = 1.0 - (1.0 - *share) * (1.0 - mean);
        }
    }

    fn add_rate(&mut self, link: &LinkConfig) {
        let Some(rate) = link.rate.mean() else {
            return;
        };
        match &link.rate {
            RateLimit::Policer { .. } => {
                self.rate_unknown = Some("a policer's rate depends on its burst");
            }
            RateLimit::Trace(trace) => {
                let period = trace.period();
                // Whole periods, or the mean is not the trace's.
                let count = RATE_SPAN.as_secs_f64() / period.as_secs_f64();
                self.rate_span = period.mul_f64(count.ceil().max(1.0));
                if self.rate_span > RATE_SPAN_MAX {
                    self.rate_unknown = Some("the trace is too long to wait for its end");
                }
            }
            RateLimit::Unlimited | RateLimit::Fixed(_) => {}
        }
        if link.mtu_bytes.is_some_and(|mtu_bytes| mtu_bytes < 1500) {
            self.rate_unknown = Some("full packets do not fit the MTU");
        }
        self.rate = Some(self.rate.map_or(rate, |slowest| slowest.min(rate)));
    }
}

/// Mean length of a bad period, in packets.
fn mean_burst(model: &ctcp_link::GilbertElliott) -> f64 {
    1.0 / model.bad_to_good.max(1e-6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctcp_link::Outage;
    use ctcp_units::{LossRate, millis};

    fn bernoulli(share: f64) -> LossModel {
        LossModel::Bernoulli(LossRate::clamped(share))
    }

    #[test]
    fn delays_add_up_and_the_slowest_rate_counts() {
        let one = LinkConfig::new(Rate::mbit(8), millis(10));
        let other = LinkConfig::new(Rate::mbit(80), millis(5));
        let expected = Expectation::of(&[&one, &other]);
        // 100 bytes take 100 µs and 10 µs.
        assert_eq!(expected.delay_min, Duration::from_micros(15_110));
        assert_eq!(expected.delay_max, expected.delay_min);
        assert_eq!(expected.rate, Some(Rate::mbit(8)));
    }

    #[test]
    fn losses_in_series_are_not_added() {
        let link = LinkConfig::new(Rate::mbit(8), millis(1))
            .loss(bernoulli(0.5))
            .loss_after(bernoulli(0.5));
        let expected = Expectation::of(&[&link]);
        assert_eq!(expected.loss_share, Ok(0.75));
        assert_eq!((expected.loss_before, expected.loss_after), (0.5, 0.5));
    }

    #[test]
    fn what_depends_on_the_time_is_not_compared() {
        let outage = Outage {
            start: millis(1),
            end: millis(2),
        };
        let link = LinkConfig::unlimited(millis(1)).loss(LossModel::Outages(vec![outage]));
        assert!(Expectation::of(&[&link]).loss_share.is_err());
        let moving = LinkConfig::unlimited(millis(1)).delay_change(millis(1), millis(2));
        assert!(Expectation::of(&[&moving]).delay_unknown.is_some());
    }
}
