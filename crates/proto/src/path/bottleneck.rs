//! Which paths of a connection share their bottleneck, told by their queues.
//!
//! Packets of two paths that wait in one queue wait equally long at equal times. So
//! round trips are averaged over ticks of 100 ms, by the moment in the middle of
//! each (where the queue was met, whichever end of the path it is at), what changes
//! slowly is taken out, and each pair of paths is asked for the concordance of the
//! rest over the last twenty seconds,
//!
//! ```text
//! ρ_c = 2·cov(a, b) / (var a + var b)
//! ```
//!
//! which is 1 only if both go up and down together *and by as much*: queues of
//! different links that happen to swing together rarely do. Paths of a pair that
//! agree, and those that agree with either, are a group.
//!
//! Each sample costs O(1); each tick O(paths²), 28 pairs at most, ten times a
//! second. A queue that nobody fills shows nothing, and there is nothing to share
//! either: what was found stands then.

use ctcp_units::{Duration, Instant, millis};

use crate::block::PATHS_MAX;

const TICK: Duration = millis(100);
/// Ticks held open at most.
const TICKS_OPEN: usize = 16;
/// A tick is judged when it is so many ticks old: a sample belongs to a moment half
/// a round trip ago, 750 ms at most.
const TICKS_LATE: u64 = 8;
/// Gain of the mean that is taken out, a tick: what takes longer than some seconds.
const SLOW_GAIN: f64 = 1.0 / 32.0;
/// Gain of means and variances, a tick: twenty seconds.
const MOMENT_GAIN: f64 = 1.0 / 200.0;
/// Ticks at the beginning of a path that are not judged: two that start together
/// fill their queues together.
const TICKS_START: u32 = 30;
/// Ticks that a pair must have in common before it is judged.
const TICKS_MIN: u32 = 50;
/// From this concordance on a pair counts as one that shares. Independent queues
/// that swing within a second have a deviation of 0.2 here.
const SHARED: f64 = 0.8;
/// Below this it counts as one that does not.
const APART: f64 = 0.5;
/// Least variance, seconds², from which anything is told: half a millisecond of
/// deviation is the resolution of clocks and timers.
const VARIANCE_MIN: f64 = 0.000_5 * 0.000_5;
/// A path without samples for so many ticks takes no share.
const TICKS_IDLE: u64 = 20;

/// Which slots are in it.
pub(crate) type Group = [bool; PATHS_MAX];

const PAIRS: usize = PATHS_MAX * (PATHS_MAX - 1) / 2;

/// Round trips of one path.
#[derive(Debug, Clone, Copy, Default)]
struct Signal {
    /// Sum in seconds and count of the samples of each open tick.
    open: [(f64, u32); TICKS_OPEN],
    slow: Option<f64>,
    /// Ticks that had samples.
    count: u32,
    /// What is left of the tick that is judged.
    rest: Option<f64>,
    /// The last tick that had samples.
    last: Option<u64>,
}

impl Signal {
    fn close(&mut self, tick: u64) {
        let (sum, count) = core::mem::take(&mut self.open[place(tick)]);
        self.rest = (count > 0).then(|| {
            let level = sum / f64::from(count);
            let slow = self.slow.get_or_insert(level);
            *slow += SLOW_GAIN * (level - *slow);
            self.last = Some(tick);
            self.count = self.count.saturating_add(1);
            level - *slow
        });
        self.rest = self.rest.filter(|_| self.count > TICKS_START);
    }
}

fn place(tick: u64) -> usize {
    (tick % TICKS_OPEN as u64) as usize
}

/// Two paths.
#[derive(Debug, Clone, Copy, Default)]
struct Pair {
    count: u32,
    means: (f64, f64),
    variances: (f64, f64),
    covariance: f64,
    is_shared: bool,
}

impl Pair {
    fn put(&mut self, first: f64, second: f64) {
        self.count = self.count.saturating_add(1);
        let gain = MOMENT_GAIN.max(1.0 / f64::from(self.count));
        let (a, b) = (first - self.means.0, second - self.means.1);
        self.means.0 += gain * a;
        self.means.1 += gain * b;
        let keep = 1.0 - gain;
        self.variances.0 = keep * (self.variances.0 + gain * a * a);
        self.variances.1 = keep * (self.variances.1 + gain * b * b);
        self.covariance = keep * (self.covariance + gain * a * b);
        let is_told = self.variances.0.min(self.variances.1) >= VARIANCE_MIN;
        if self.count >= TICKS_MIN && is_told {
            let concordance = self.concordance();
            self.is_shared = concordance >= SHARED || (self.is_shared && concordance >= APART);
        }
    }

    fn concordance(&self) -> f64 {
        2.0 * self.covariance / (self.variances.0 + self.variances.1).max(f64::MIN_POSITIVE)
    }
}

/// The bottlenecks behind a connection's paths, which it knows by their slots.
#[derive(Debug, Clone)]
pub(crate) struct Bottlenecks {
    signals: [Signal; PATHS_MAX],
    pairs: [Pair; PAIRS],
    /// The first tick that is not judged yet.
    next: u64,
    groups: [Group; PATHS_MAX],
}

impl Default for Bottlenecks {
    fn default() -> Self {
        Self {
            signals: [Signal::default(); PATHS_MAX],
            pairs: [Pair::default(); PAIRS],
            next: 0,
            groups: [[false; PATHS_MAX]; PATHS_MAX],
        }
    }
}

/// Where the pair of these two different slots stands.
fn pair(one: usize, other: usize) -> usize {
    let (low, high) = (one.min(other), one.max(other));
    high * (high - 1) / 2 + low
}

fn tick_at(at: Instant) -> u64 {
    at.as_nanos() / TICK.as_nanos() as u64
}

impl Bottlenecks {
    /// A round trip of the path in `slot` was measured at `now`. Returns whether
    /// anything may have changed: once a tick.
    pub(crate) fn on_sample(&mut self, now: Instant, slot: usize, rtt: Duration) -> bool {
        let is_news = self.judge(now);
        let tick = tick_at(now.saturating_sub(rtt / 2)).max(self.next);
        let (sum, count) = &mut self.signals[slot].open[place(tick)];
        *sum += rtt.as_secs_f64();
        *count += 1;
        is_news
    }

    /// Judges the ticks that are old enough.
    fn judge(&mut self, now: Instant) -> bool {
        let end = tick_at(now).saturating_sub(TICKS_LATE - 1);
        if end <= self.next {
            return false;
        }
        // After a pause only the open ticks hold anything.
        let open_end = self.next.saturating_add(TICKS_OPEN as u64);
        for tick in self.next..end.min(open_end) {
            for signal in &mut self.signals {
                signal.close(tick);
            }
            for high in 1..PATHS_MAX {
                for low in 0..high {
                    let rests = (self.signals[low].rest, self.signals[high].rest);
                    if let (Some(first), Some(second)) = rests {
                        self.pairs[pair(low, high)].put(first, second);
                    }
                }
            }
        }
        self.next = end;
        self.regroup();
        true
    }

    /// The slots behind the bottleneck of `slot` that had samples of late; none if
    /// that is none or itself alone.
    pub(crate) const fn group(&self, slot: usize) -> Group {
        self.groups[slot]
    }

    fn regroup(&mut self) {
        for slot in 0..PATHS_MAX {
            let group = self.found(slot);
            let is_alone = group.iter().filter(|is_in| **is_in).count() < 2;
            self.groups[slot] = if is_alone || !self.is_heard(slot) {
                [false; PATHS_MAX]
            } else {
                group
            };
        }
    }

    fn found(&self, slot: usize) -> Group {
        let mut group = [false; PATHS_MAX];
        group[slot] = true;
        // Each turn adds one at least, or is the last.
        for _ in 0..PATHS_MAX {
            let before = group;
            for (other, is_in) in group.iter_mut().enumerate() {
                *is_in |= self.is_heard(other)
                    && (0..PATHS_MAX).any(|at| {
                        at != other && before[at] && self.pairs[pair(at, other)].is_shared
                    });
            }
            if group == before {
                break;
            }
        }
        group
    }

    fn is_heard(&self, slot: usize) -> bool {
        self.signals[slot]
            .last
            .is_some_and(|last| last.saturating_add(TICKS_IDLE) >= self.next)
    }

    /// The path in `slot` is gone, or leads elsewhere now.
    pub(crate) fn forget(&mut self, slot: usize) {
        self.signals[slot] = Signal::default();
        for other in (0..PATHS_MAX).filter(|other| *other != slot) {
            self.pairs[pair(slot, other)] = Pair::default();
        }
        self.regroup();
    }
}

/// [RFC6356] §3 for one path of a group, as a factor of linear growth: with windows
/// w in packets and round trips in seconds, a = w_total·max(w/rtt²)/(Σ w/rtt)², and
/// growth min(a·w/w_total, 1) a round trip.
pub(crate) fn linked_growth(own: f64, group: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (mut steepest, mut rates) = (0.0_f64, 0.0_f64);
    for (window, rtt) in group {
        let rtt = rtt.max(1e-6);
        steepest = steepest.max(window / (rtt * rtt));
        rates += window / rtt;
    }
    if rates <= 0.0 {
        return 1.0;
    }
    (own * steepest / (rates * rates)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctcp_units::Random;

    /// A queue that fills in a time drawn for each sawtooth and then halves, in
    /// seconds, sampled every 10 ms.
    struct Sawtooth {
        random: Random,
        level: f64,
        step: f64,
    }

    impl Sawtooth {
        fn new(seed: u64) -> Self {
            let mut random = Random::from_seed(seed);
            let level = 0.1 * random.unit();
            Self {
                random,
                level,
                step: 0.000_2,
            }
        }

        fn next(&mut self) -> Duration {
            self.level += self.step;
            if self.level > 0.1 {
                self.level /= 2.0;
                self.step = 0.05 / (100.0 + 500.0 * self.random.unit());
            }
            Duration::from_secs_f64(self.level)
        }
    }

    /// Two paths of these round trips for so long; whether they come out as a group.
    fn judged(seed: u64, rtts: [Duration; 2], is_one: bool, noise: f64) -> bool {
        let mut random = Random::from_seed(seed ^ 0x5EED);
        let mut found = Bottlenecks::default();
        let mut queues = [Sawtooth::new(seed), Sawtooth::new(seed + 1000)];
        let mut past: Vec<[Duration; 2]> = Vec::new();
        for step in 0..6000u64 {
            let (first, second) = (queues[0].next(), queues[1].next());
            past.push([first, if is_one { first } else { second }]);
            for (slot, rtt) in rtts.into_iter().enumerate() {
                // The queue stands in the middle of the path.
                let back = (rtt / 2).as_millis() as usize / 10;
                let Some(met) = past.len().checked_sub(1 + back) else {
                    continue;
                };
                let jitter = Duration::from_secs_f64(noise * random.unit());
                let now = Instant::from_nanos((step + 100) * 10_000_000);
                found.on_sample(now, slot, rtt + past[met][slot] + jitter);
            }
        }
        let group = found.group(0);
        assert_eq!(group[1], found.group(1)[0], "both see the same");
        group[1]
    }

    #[test]
    fn paths_through_one_queue_are_found_to_be_a_group() {
        for seed in 0..20 {
            for rtts in [[50, 50], [20, 100], [30, 300]] {
                let rtts = rtts.map(millis);
                assert!(judged(seed, rtts, true, 0.005), "seed {seed}, {rtts:?}");
            }
        }
    }

    #[test]
    fn paths_through_queues_of_their_own_are_not() {
        for seed in 0..50 {
            let rtts = [millis(50), millis(50)];
            assert!(!judged(seed, rtts, false, 0.005), "seed {seed}");
        }
    }

    #[test]
    fn queues_that_swing_together_by_different_amounts_are_two() {
        let mut found = Bottlenecks::default();
        let mut queue = Sawtooth::new(3);
        for step in 0..6000u64 {
            let level = queue.next();
            let now = Instant::from_nanos((step + 100) * 10_000_000);
            found.on_sample(now, 0, millis(50) + level);
            found.on_sample(now, 1, millis(50) + level / 4);
        }
        assert!(!found.group(0)[1]);
    }

    #[test]
    fn a_path_that_falls_idle_or_is_gone_leaves_its_group() {
        let mut found = Bottlenecks::default();
        let mut queue = Sawtooth::new(4);
        let mut sample = |found: &mut Bottlenecks, step: u64, slots: &[usize]| {
            let level = queue.next();
            let now = Instant::from_nanos((step + 100) * 10_000_000);
            for &slot in slots {
                found.on_sample(now, slot, millis(50) + level);
            }
        };
        for step in 0..3000 {
            sample(&mut found, step, &[0, 3, 7]);
        }
        let all = found.group(3);
        assert!(all[0] && all[3] && all[7] && !all[1]);
        for step in 3000..3500 {
            sample(&mut found, step, &[0, 3]);
        }
        assert!(found.group(3)[0] && !found.group(3)[7]);
        found.forget(0);
        assert!(!found.group(3)[0] && !found.group(0)[3]);
        // Hours without a sample cost nothing and break nothing.
        assert!(found.on_sample(Instant::from_nanos(u64::MAX / 4), 3, millis(50)));
    }

    #[test]
    fn equal_paths_grow_together_as_one_would_in_their_place() {
        let twins = [(20.0, 0.1), (20.0, 0.1)];
        assert!((linked_growth(20.0, twins.into_iter()) - 0.25).abs() < 1e-9);
        let alone = [(20.0, 0.1)];
        assert!((linked_growth(20.0, alone.into_iter()) - 1.0).abs() < 1e-9);
        // Against [RFC6356] §3: a = 70·(50/0.01²)/(50/0.01 + 20/0.1)², times 50/70.
        let unequal = [(50.0, 0.01), (20.0, 0.1)];
        let expected = 500_000.0 / (5200.0 * 5200.0) * 50.0;
        assert!((linked_growth(50.0, unequal.into_iter()) - expected).abs() < 1e-9);
        assert_eq!(linked_growth(1.0, [].into_iter()), 1.0);
    }
}
