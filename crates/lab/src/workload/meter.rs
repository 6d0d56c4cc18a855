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
}

impl Meter {
    pub(crate) fn start() -> Self {
        Self {
            began: Instant::now(),
            bytes: AtomicU64::new(0),
            series: Mutex::default(),
        }
    }

    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    pub(crate) fn add(&self, len: usize) {
        self.bytes.fetch_add(len as u64, Ordering::Relaxed);
        let index = (self.began.elapsed().as_nanos() / INTERVAL.as_nanos()) as usize;
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
}
