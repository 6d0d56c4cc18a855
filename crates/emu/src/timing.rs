//! How far from the plan: a histogram of times with bounded relative error.

use ctcp_units::{Duration, Instant};

/// Each power of two is divided into so many classes: a relative error of 1/32.
const CLASSES_PER_OCTAVE: usize = 32;
const OCTAVES: usize = 60;

/// How late packets were sent, compared with the plan of the link.
///
/// The quantiles are exact to 3 %; they are the upper ends of classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimingError {
    /// Packets measured.
    pub count: u64,
    /// Half of the packets were late by no more than this.
    pub p50: Duration,
    /// 99 of 100 were.
    pub p99: Duration,
    /// The latest.
    pub max: Duration,
    /// Packets later than [`LATE`].
    pub late: u64,
}

/// A packet later than this is counted as late: a tenth of the shortest delays
/// that people emulate.
pub const LATE: Duration = Duration::from_millis(1);

/// Durations, counted by logarithmic classes.
#[derive(Debug)]
pub(crate) struct Histogram {
    counts: Box<[u64]>,
    count: u64,
    late: u64,
    max_nanos: u64,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self {
            counts: vec![0; CLASSES_PER_OCTAVE * OCTAVES].into(),
            count: 0,
            late: 0,
            max_nanos: 0,
        }
    }

    pub(crate) fn record(&mut self, planned: Instant, actual: Instant) {
        let nanos = actual.as_nanos().saturating_sub(planned.as_nanos());
        self.counts[class(nanos)] += 1;
        self.count += 1;
        self.late += u64::from(u128::from(nanos) > LATE.as_nanos());
        self.max_nanos = self.max_nanos.max(nanos);
    }

    pub(crate) fn summary(&self) -> TimingError {
        TimingError {
            count: self.count,
            p50: self.quantile(50),
            p99: self.quantile(99),
            max: Duration::from_nanos(self.max_nanos),
            late: self.late,
        }
    }

    fn quantile(&self, percent: u64) -> Duration {
        let rank = (self.count * percent).div_ceil(100).max(1);
        let mut passed = 0;
        for (class, count) in self.counts.iter().enumerate() {
            passed += count;
            if passed >= rank {
                return Duration::from_nanos(upper_end(class).min(self.max_nanos));
            }
        }
        Duration::from_nanos(self.max_nanos)
    }
}

/// Classes 0 to 31 hold their own number of nanoseconds; then each octave has 32.
fn class(nanos: u64) -> usize {
    if nanos < CLASSES_PER_OCTAVE as u64 {
        return nanos as usize;
    }
    let octave = nanos.ilog2() as usize - 5;
    let within = (nanos >> octave) as usize - CLASSES_PER_OCTAVE;
    ((octave + 1) * CLASSES_PER_OCTAVE + within).min(CLASSES_PER_OCTAVE * OCTAVES - 1)
}

fn upper_end(class: usize) -> u64 {
    if class < CLASSES_PER_OCTAVE {
        return class as u64;
    }
    let octave = class / CLASSES_PER_OCTAVE - 1;
    let within = (class % CLASSES_PER_OCTAVE + CLASSES_PER_OCTAVE) as u64;
    ((within + 1) << octave) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_ends_within_a_thirty_second_of_what_it_holds() {
        for nanos in (0..5000).chain((0..40).map(|shift| (1 << shift) + 12_345)) {
            let end = upper_end(class(nanos));
            assert!(end >= nanos, "{nanos}: {end}");
            assert!(end - nanos <= nanos / 32, "{nanos}: {end}");
        }
        assert!(class(u64::MAX) < CLASSES_PER_OCTAVE * OCTAVES);
    }

    #[test]
    fn quantiles_of_one_to_a_thousand_microseconds() {
        let mut histogram = Histogram::new();
        assert_eq!(histogram.summary(), TimingError::default());
        for micros in 1..=1000 {
            assert_eq!(histogram.summary().late, 0);
            histogram.record(Instant::EPOCH, Instant::from_nanos(micros * 1000));
        }
        let summary = histogram.summary();
        assert_eq!(summary.count, 1000);
        assert_eq!(summary.max, Duration::from_millis(1));
        let near = |found: Duration, micros: f64| (found.as_secs_f64() * 1e6 / micros - 1.0).abs();
        assert!(near(summary.p50, 500.0) < 0.04, "{summary:?}");
        assert!(near(summary.p99, 990.0) < 0.04, "{summary:?}");
        histogram.record(
            Instant::EPOCH,
            Instant::EPOCH + LATE + Duration::from_nanos(1),
        );
        assert_eq!(histogram.summary().late, 1);
    }

    #[test]
    fn a_packet_sent_before_its_time_is_not_late() {
        let mut histogram = Histogram::new();
        histogram.record(Instant::from_nanos(9), Instant::from_nanos(3));
        assert_eq!(histogram.summary().max, Duration::ZERO);
    }
}
