//! Bytes delivered to an application, over time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Length of the intervals of a series.
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);

/// Longest series kept: an hour.
const INTERVALS_MAX: usize = 36_000;

/// Counts bytes as they arrive; others may look at it meanwhile.
#[derive(Debug)]
pub(crate) struct Meter {
    began: Instant,
    bytes: AtomicU64,
    series: Mutex<Vec<u64>>,
    silence: Mutex<Silence>,
}

/// The longest time without a byte.
#[derive(Debug, Clone, Copy)]
struct Silence {
    since: Instant,
    longest: Duration,
}

impl Silence {
    fn until(&self, now: Instant) -> Duration {
        self.longest.max(now.saturating_duration_since(self.since))
    }
}

impl Meter {
    pub(crate) fn start() -> Self {
        let began = Instant::now();
        Self {
            began,
            bytes: AtomicU64::new(0),
            series: Mutex::default(),
            silence: Mutex::new(Silence {
                since: began,
                longest: Duration::ZERO,
            }),
        }
    }

    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    pub(crate) fn add(&self, len: usize) {
        self.bytes.fetch_add(len as u64, Ordering::Relaxed);
        let now = Instant::now();
        {
            let mut silence = self.silence.lock().expect("no holder panics");
            *silence = Silence {
                since: now,
                longest: silence.until(now),
            };
        }
        let since_began = now.saturating_duration_since(self.began);
        let index = (since_began.as_nanos() / INTERVAL.as_nanos()) as usize;
        let mut series = self.series.lock().expect("no holder panics");
        if index < INTERVALS_MAX {
            if series.len() <= index {
                series.resize(index + 1, 0);
            }
            series[index] += len as u64;
        }
    }

    /// Bytes so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Forgets how long nothing came so far.
    pub(crate) fn begin_silence(&self) {
        *self.silence.lock().expect("no holder panics") = Silence {
            since: Instant::now(),
            longest: Duration::ZERO,
        };
    }

    /// The longest time without a byte since then.
    pub(crate) fn silence(&self) -> Duration {
        let silence = self.silence.lock().expect("no holder panics");
        silence.until(Instant::now())
    }

    /// Bytes by interval.
    pub(crate) fn series(&self) -> Vec<u64> {
        self.series.lock().expect("no holder panics").clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_adds_up_to_the_bytes() {
        let meter = Meter::start();
        meter.add(5);
        std::thread::sleep(INTERVAL);
        meter.add(7);
        assert_eq!(meter.bytes(), 12);
        assert_eq!(meter.series().iter().sum::<u64>(), 12);
        assert!(meter.series().len() >= 2);
    }

    #[test]
    fn the_longest_silence_is_kept_and_the_last_one_counts() {
        let meter = Meter::start();
        std::thread::sleep(INTERVAL);
        meter.add(1);
        assert!(meter.silence() >= INTERVAL);
        let start = Instant::now();
        meter.begin_silence();
        std::thread::sleep(INTERVAL / 2);
        assert!(meter.silence() >= INTERVAL / 2);
        let silence = meter.silence();
        assert!(silence <= start.elapsed());
    }
}
