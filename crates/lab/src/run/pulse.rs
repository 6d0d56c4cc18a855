//! Whether threads of this process get a processor when they should.
//!
//! A thread wakes every few milliseconds and notes how late. It has the priority
//! of the programs under test, so what it waits for they wait for, too; the
//! emulator's own timing error says nothing of them where it goes ahead.

use std::array;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// From one waking to the next.
const PERIOD: Duration = Duration::from_millis(2);

/// Classes of lateness: four to each doubling, from 1 µs to about an hour.
const CLASSES: usize = 128;

/// How late the wakings were so far.
#[derive(Debug)]
pub(crate) struct Pulse {
    counts: [AtomicU64; CLASSES],
    is_over: AtomicBool,
}

/// The counts at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Reading([u64; CLASSES]);

impl Pulse {
    pub(crate) fn new() -> Self {
        Self {
            counts: array::from_fn(|_| AtomicU64::new(0)),
            is_over: AtomicBool::new(false),
        }
    }

    /// Wakes and notes until [`Pulse::end`].
    pub(crate) fn beat(&self) {
        let mut due = Instant::now() + PERIOD;
        while !self.is_over.load(Ordering::Relaxed) {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let now = Instant::now();
            self.note(now.saturating_duration_since(due));
            // Missed beats are one lateness, not many.
            due = now + PERIOD;
        }
    }

    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    fn note(&self, late: Duration) {
        self.counts[class(late)].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Reading {
        Reading(array::from_fn(|class| {
            self.counts[class].load(Ordering::Relaxed)
        }))
    }
}

impl Reading {
    /// The 99th percentile of lateness since an earlier reading, to a fifth of
    /// its value, microseconds; 0 without a beat.
    pub(crate) fn p99_us_since(&self, earlier: &Self) -> f64 {
        let counts: Vec<u64> = self
            .0
            .iter()
            .zip(&earlier.0)
            .map(|(now, then)| now - then)
            .collect();
        let rank = (counts.iter().sum::<u64>() * 99).div_ceil(100);
        let mut passed = 0;
        for (class, count) in counts.iter().enumerate() {
            passed += count;
            if passed >= rank && rank > 0 {
                return 2f64.powf((class as f64 + 1.0) / 4.0);
            }
        }
        0.0
    }
}

/// The class that a lateness falls into: its upper end is 2^((class + 1) / 4) µs.
fn class(late: Duration) -> usize {
    let micros = late.as_secs_f64() * 1e6;
    ((4.0 * micros.max(1.0).log2()) as usize).min(CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_percentile_is_that_of_the_time_between_two_readings() {
        let pulse = Pulse::new();
        let start = pulse.read();
        assert_eq!(pulse.read().p99_us_since(&start), 0.0);
        (0..1000).for_each(|_| pulse.note(Duration::from_micros(100)));
        let calm = pulse.read();
        let p99 = calm.p99_us_since(&start);
        assert!((100.0..125.0).contains(&p99), "{p99} µs");
        (0..99).for_each(|_| pulse.note(Duration::from_micros(100)));
        (0..9).for_each(|_| pulse.note(Duration::from_millis(8)));
        let p99 = pulse.read().p99_us_since(&calm);
        assert!((8000.0..10_000.0).contains(&p99), "{p99} µs");
    }

    #[test]
    fn a_pulse_beats_until_it_ends() {
        let pulse = Pulse::new();
        let start = pulse.read();
        std::thread::scope(|scope| {
            scope.spawn(|| pulse.beat());
            std::thread::sleep(10 * PERIOD);
            pulse.end();
        });
        assert!(pulse.read().p99_us_since(&start) > 0.0);
    }
}
