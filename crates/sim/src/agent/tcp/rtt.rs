//! Round-trip time and retransmission timeout.
//!
//! Algorithm: [RFC6298] §2 with α = 1/8, β = 1/4; the timeout doubles at each
//! expiry (§5.5) and the doubling ends with the next sample.

use ctcp_congestion::RttSummary;
use ctcp_units::{Duration, Instant, millis, seconds};

/// Timeout before the first sample ([RFC6298] §2.1).
const RTO_INITIAL: Duration = seconds(1);
/// Half of the window of the windowed minimum.
const MINIMUM_SPAN: Duration = seconds(5);
/// Granularity of the clock, G of [RFC6298] §2.3.
const GRANULARITY: Duration = millis(1);
/// What controllers are told before the first sample.
const GUESS: Duration = millis(333);

/// Estimates of one connection.
#[derive(Debug, Clone)]
pub(crate) struct RttEstimator {
    srtt: Option<Duration>,
    rttvar: Duration,
    latest: Duration,
    minimum: Duration,
    /// Smallest sample of the span before the present one, and of the present.
    windows: [Duration; 2],
    window_since: Instant,
    rto_min: Duration,
    rto_max: Duration,
    doublings: u32,
}

impl RttEstimator {
    pub(crate) fn new(rto_min: Duration, rto_max: Duration) -> Self {
        Self {
            srtt: None,
            rttvar: Duration::ZERO,
            latest: GUESS,
            minimum: Duration::MAX,
            windows: [Duration::MAX; 2],
            window_since: Instant::EPOCH,
            rto_min,
            rto_max,
            doublings: 0,
        }
    }

    /// A sample of a packet that was sent once.
    pub(crate) fn on_sample(&mut self, now: Instant, sample: Duration) {
        // Whole nanoseconds, so that the arithmetic is the same everywhere.
        match self.srtt {
            None => {
                self.srtt = Some(sample);
                self.rttvar = sample / 2;
            }
            Some(srtt) => {
                let deviation = srtt.abs_diff(sample);
                self.rttvar = (self.rttvar * 3 + deviation) / 4;
                self.srtt = Some((srtt * 7 + sample) / 8);
            }
        }
        self.latest = sample;
        self.minimum = self.minimum.min(sample);
        if now - self.window_since >= MINIMUM_SPAN {
            self.windows = [self.windows[1], Duration::MAX];
            self.window_since = now;
        }
        self.windows[1] = self.windows[1].min(sample);
        self.doublings = 0;
    }

    /// The timer expired.
    pub(crate) fn on_timeout(&mut self) {
        self.doublings = (self.doublings + 1).min(16);
    }

    /// An ACK of new data ends the doubling even without a sample, as Linux
    /// does; [RFC6298] §5.7 leaves it open.
    pub(crate) fn on_progress(&mut self) {
        self.doublings = 0;
    }

    pub(crate) fn srtt(&self) -> Option<Duration> {
        self.srtt
    }

    pub(crate) fn minimum(&self) -> Option<Duration> {
        self.srtt.map(|_| self.minimum)
    }

    pub(crate) fn latest(&self) -> Duration {
        self.latest
    }

    /// Time after which a packet without an answer counts as lost.
    pub(crate) fn rto(&self) -> Duration {
        let base = match self.srtt {
            None => RTO_INITIAL.max(self.rto_min),
            Some(srtt) => (srtt + (self.rttvar * 4).max(GRANULARITY)).max(self.rto_min),
        };
        (base * (1 << self.doublings)).min(self.rto_max)
    }

    /// As controllers hear it.
    pub(crate) fn summary(&self) -> RttSummary {
        match self.srtt {
            None => RttSummary {
                latest: GUESS,
                srtt: GUESS,
                rtt_min: GUESS,
                rtt_min_windowed: GUESS,
            },
            Some(srtt) => RttSummary {
                latest: self.latest,
                srtt,
                rtt_min: self.minimum,
                rtt_min_windowed: self.windows[0].min(self.windows[1]),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `rto_rfc6298` of the golden vectors, in milliseconds.
    #[test]
    fn samples_give_the_golden_timeouts() {
        let mut rtt = RttEstimator::new(Duration::ZERO, seconds(60));
        for (sample, srtt, rttvar, rto) in [
            (100.0, 100.0, 50.0, 300.0),
            (120.0, 102.5, 42.5, 272.5),
            (90.0, 100.9375, 35.0, 240.9375),
            (300.0, 125.8203125, 76.015625, 429.8828125),
            (100.0, 122.5927734375, 63.466796875, 376.4599609375),
        ] {
            rtt.on_sample(Instant::EPOCH, Duration::from_secs_f64(sample / 1e3));
            let ms = |span: Duration| span.as_secs_f64() * 1e3;
            for (ours, golden) in [
                (ms(rtt.srtt.unwrap()), srtt),
                (ms(rtt.rttvar), rttvar),
                (ms(rtt.rto()), rto),
            ] {
                assert!((ours - golden).abs() < 1e-4, "{ours} for {golden}");
            }
        }
    }

    #[test]
    fn the_timeout_doubles_up_to_its_limit_and_a_sample_ends_it() {
        let mut rtt = RttEstimator::new(millis(200), seconds(60));
        assert_eq!(rtt.rto(), seconds(1));
        rtt.on_sample(Instant::EPOCH, millis(10));
        assert_eq!(rtt.rto(), millis(200));
        for _ in 0..3 {
            rtt.on_timeout();
        }
        assert_eq!(rtt.rto(), millis(1600));
        for _ in 0..30 {
            rtt.on_timeout();
        }
        assert_eq!(rtt.rto(), seconds(60));
        rtt.on_sample(Instant::EPOCH, millis(10));
        assert_eq!(rtt.rto(), millis(200));
    }
}
