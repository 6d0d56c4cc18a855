//! A distribution of delays in a fixed number of buckets: O(1) to enter, and
//! nothing to allocate.

use ctcp_units::{Duration, millis};

/// Upper bounds of the buckets, from 1 ms to 10 s; what took longer is counted
/// behind them.
const BOUNDS: [Duration; 13] = [
    millis(1),
    Duration::from_micros(2_500),
    millis(5),
    millis(10),
    millis(25),
    millis(50),
    millis(100),
    millis(250),
    millis(500),
    millis(1_000),
    millis(2_500),
    millis(5_000),
    millis(10_000),
];

/// How often delays of which length occurred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DelayHistogram {
    counts: [u64; BOUNDS.len() + 1],
    sum: Duration,
}

impl DelayHistogram {
    /// Enters one delay.
    pub fn record(&mut self, delay: Duration) {
        let place = BOUNDS.partition_point(|bound| *bound < delay);
        self.counts[place] += 1;
        self.sum = self.sum.saturating_add(delay);
    }

    /// Delays entered.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Sum of all delays entered.
    pub const fn sum(&self) -> Duration {
        self.sum
    }

    /// The buckets, shortest first: upper bound (`None` for the last, which has
    /// none) and the delays up to it that no earlier bucket holds.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<Duration>, u64)> + '_ {
        let bounds = BOUNDS.iter().copied().map(Some).chain([None]);
        bounds.zip(self.counts.iter().copied())
    }

    /// Upper bound of the bucket that holds the share `quantile` in `[0, 1]` of
    /// the delays; the last bound stands for everything beyond. `None` while
    /// there are no delays.
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        let total = self.count();
        let wanted = (quantile.clamp(0.0, 1.0) * total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bound, count) in self.buckets() {
            seen += count;
            if total > 0 && seen >= wanted {
                return Some(bound.unwrap_or(BOUNDS[BOUNDS.len() - 1]));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_belongs_to_the_first_bucket_that_reaches_it() {
        let mut histogram = DelayHistogram::default();
        for delay in [
            millis(0),
            millis(1),
            millis(2),
            millis(10_000),
            millis(60_000),
        ] {
            histogram.record(delay);
        }
        let counts: Vec<u64> = histogram.buckets().map(|(_, count)| count).collect();
        assert_eq!(counts, [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!((histogram.count(), histogram.sum()), (5, millis(70_003)));
    }

    #[test]
    fn quantiles_are_bounds_of_buckets() {
        let mut histogram = DelayHistogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        (0..9).for_each(|_| histogram.record(millis(3)));
        histogram.record(millis(60_000));
        assert_eq!(histogram.quantile(0.5), Some(millis(5)));
        assert_eq!(histogram.quantile(0.9), Some(millis(5)));
        assert_eq!(histogram.quantile(1.0), Some(millis(10_000)));
    }
}
