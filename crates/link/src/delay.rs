//! The way behind the rate limiter: propagation, jitter, packets held back.
//!
//! Packets that arrive in the order they left wait in a plain queue; only those
//! that are overtaken need a heap.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use ctcp_units::{Duration, Instant, Random};

use crate::config::{ConfigError, DelayChange, LinkConfig};

/// What is added to the propagation delay of each packet; never negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Jitter {
    /// Nothing.
    #[default]
    None,
    /// Uniform between 0 and `max`, drawn for each packet.
    Uniform {
        /// The most.
        max: Duration,
    },
    /// Normal, drawn for each packet; draws below 0 count as 0.
    Normal {
        /// Mean.
        mean: Duration,
        /// Standard deviation.
        deviation: Duration,
    },
    /// A line from one random value to the next: uniform between 0 and `max`,
    /// redrawn every `interval`, linear between. It does not depend on the
    /// traffic, and reorders nothing while `max` ≤ `interval`.
    Noise {
        /// The most.
        max: Duration,
        /// From one value to the next.
        interval: Duration,
    },
}

impl Jitter {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::Noise { interval, .. } if nanos(*interval) == 0 => {
                Err(ConfigError::JitterInterval {
                    interval: *interval,
                })
            }
            _ => Ok(()),
        }
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

fn scaled(span: Duration, factor: f64) -> Duration {
    Duration::from_nanos((nanos(span) as f64 * factor) as u64)
}

/// A packet on its way.
#[derive(Debug)]
pub(crate) struct Flying<T> {
    pub(crate) due: Instant,
    /// Place among all packets that set out, copies included: ties go by it.
    order: u64,
    pub(crate) content: T,
}

impl<T> Flying<T> {
    fn key(&self) -> (Instant, u64) {
        (self.due, self.order)
    }
}

/// Wrapper that puts the packet due first on top of the heap.
#[derive(Debug)]
struct Overtaken<T>(Flying<T>);

impl<T> PartialEq for Overtaken<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0.key() == other.0.key()
    }
}

impl<T> Eq for Overtaken<T> {}

impl<T> PartialOrd for Overtaken<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Overtaken<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.0.key().cmp(&self.0.key())
    }
}

/// The packets behind the rate limiter.
#[derive(Debug)]
pub(crate) struct DelayLine<T> {
    path: Path,
    in_order: VecDeque<Flying<T>>,
    overtaken: BinaryHeap<Overtaken<T>>,
    /// Latest arrival of a packet that was not held back.
    latest_due: Instant,
    next_order: u64,
}

/// How long the way is.
#[derive(Debug)]
struct Path {
    base: Duration,
    changes: Vec<DelayChange>,
    changes_past: usize,
    /// Shortest that the delay can still become.
    shortest: Duration,
    jitter: Jitter,
    keeps_order: bool,
    /// Times of changes and noise count from here.
    origin: Instant,
    random: Random,
    noise: Noise,
}

/// The two noise values around the present.
#[derive(Debug, Default)]
struct Noise {
    seed: u64,
    /// Interval that `from` and `to` belong to, plus one; 0 is none.
    interval_plus_one: u64,
    from: f64,
    to: f64,
}

impl Noise {
    /// Value number `index`, in `[0, 1)`: drawn for itself, so that silence on
    /// the link does not shift the later ones.
    fn value(&self, index: u64) -> f64 {
        Random::from_seed(
            self.seed
                .wrapping_add(index.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
        )
        .unit()
    }

    /// The line's height, in `[0, 1)`, `elapsed` ns after its start.
    fn at(&mut self, elapsed: u64, interval: u64) -> f64 {
        let index = elapsed / interval;
        if self.interval_plus_one != index + 1 {
            self.interval_plus_one = index + 1;
            self.from = self.value(index);
            self.to = self.value(index + 1);
        }
        let share = (elapsed % interval) as f64 / interval as f64;
        self.from + (self.to - self.from) * share
    }
}

impl Path {
    fn new(config: &LinkConfig, mut random: Random, origin: Instant) -> Self {
        let seed = random.next_u64();
        let shortest = config
            .delay_changes
            .iter()
            .map(|change| change.delay)
            .fold(config.delay, Duration::min);
        Self {
            base: config.delay,
            changes: config.delay_changes.clone(),
            changes_past: 0,
            shortest,
            jitter: config.jitter,
            keeps_order: config.keeps_order,
            origin,
            random,
            noise: Noise {
                seed,
                ..Noise::default()
            },
        }
    }

    /// How long a packet takes that sets out at `at`.
    fn delay(&mut self, at: Instant) -> Duration {
        let elapsed = at - self.origin;
        while let Some(change) = self.changes.get(self.changes_past) {
            if change.at > elapsed {
                break;
            }
            self.base = change.delay;
            self.changes_past += 1;
        }
        self.base.saturating_add(self.extra(elapsed))
    }

    fn extra(&mut self, elapsed: Duration) -> Duration {
        match self.jitter {
            Jitter::None => Duration::ZERO,
            Jitter::Uniform { max } => scaled(max, self.random.unit()),
            Jitter::Normal { mean, deviation } => {
                // Twelve uniform draws add up to a deviation of 1. Unlike
                // logarithm and cosine that is the same on every machine.
                let standard = (0..12).map(|_| self.random.unit()).sum::<f64>() - 6.0;
                let extra = nanos(mean) as f64 + standard * nanos(deviation) as f64;
                Duration::from_nanos(extra as u64)
            }
            Jitter::Noise { max, interval } => {
                scaled(max, self.noise.at(nanos(elapsed), nanos(interval)))
            }
        }
    }
}

impl<T> DelayLine<T> {
    pub(crate) fn new(config: &LinkConfig, random: Random, origin: Instant) -> Self {
        Self {
            path: Path::new(config, random, origin),
            in_order: VecDeque::new(),
            overtaken: BinaryHeap::new(),
            latest_due: Instant::EPOCH,
            next_order: 0,
        }
    }

    /// Later packets take another way; those under way arrive as planned.
    pub(crate) fn change(&mut self, config: &LinkConfig, random: Random, origin: Instant) {
        self.path = Path::new(config, random, origin);
    }

    /// Packets under way.
    pub(crate) fn len(&self) -> usize {
        self.in_order.len() + self.overtaken.len()
    }

    /// No packet that sets out from now on takes less than this.
    pub(crate) fn shortest(&self) -> Duration {
        self.path.shortest
    }

    /// Sends a packet on its way at `at`, held back by `held_back` beyond the
    /// delay of the others.
    pub(crate) fn set_out(&mut self, at: Instant, held_back: Duration, content: T) {
        let mut due = at + self.path.delay(at);
        if self.path.keeps_order {
            due = due.max(self.latest_due);
        }
        let order = self.next_order;
        self.next_order += 1;
        if held_back.is_zero() {
            self.latest_due = self.latest_due.max(due);
        }
        let is_last = self.in_order.back().is_none_or(|back| back.due <= due);
        let flying = Flying {
            due: due + held_back,
            order,
            content,
        };
        // Held back packets at the end of the queue would push all that overtake
        // them into the heap.
        if is_last && held_back.is_zero() {
            self.in_order.push_back(flying);
        } else {
            self.overtaken.push(Overtaken(flying));
        }
    }

    /// When the next packet arrives.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let first = self.in_order.front().map(|flying| flying.due);
        let held = self.overtaken.peek().map(|overtaken| overtaken.0.due);
        match (first, held) {
            (Some(first), Some(held)) => Some(first.min(held)),
            (first, held) => first.or(held),
        }
    }

    /// The next packet that has arrived by `now`, in order of arrival.
    pub(crate) fn arrived(&mut self, now: Instant) -> Option<Flying<T>> {
        let first = self.in_order.front().map(Flying::key);
        let held = self.overtaken.peek().map(|overtaken| overtaken.0.key());
        let held_is_next = match (first, held) {
            (None, None) => return None,
            (Some(first), Some(held)) => held < first,
            (first, _) => first.is_none(),
        };
        if held_is_next {
            self.overtaken
                .peek()
                .filter(|overtaken| overtaken.0.due <= now)?;
            self.overtaken.pop().map(|overtaken| overtaken.0)
        } else {
            self.in_order.pop_front_if(|flying| flying.due <= now)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctcp_units::millis;

    fn line(config: &LinkConfig) -> DelayLine<u32> {
        DelayLine::new(config, Random::from_seed(1), Instant::EPOCH)
    }

    fn at(span: Duration) -> Instant {
        Instant::EPOCH + span
    }

    /// What arrives, and after how many whole ms from the epoch.
    fn drain(line: &mut DelayLine<u32>) -> Vec<(u32, u128)> {
        std::iter::from_fn(|| line.arrived(Instant::FAR_FUTURE))
            .map(|flying| (flying.content, (flying.due - Instant::EPOCH).as_millis()))
            .collect()
    }

    #[test]
    fn a_held_back_packet_is_overtaken_and_the_others_are_not_late() {
        let mut line = line(&LinkConfig::unlimited(millis(10)));
        line.set_out(at(millis(0)), Duration::ZERO, 0);
        line.set_out(at(millis(1)), millis(5), 1);
        line.set_out(at(millis(2)), Duration::ZERO, 2);
        line.set_out(at(millis(6)), Duration::ZERO, 3);
        assert_eq!(line.len(), 4);
        assert_eq!(line.next_due(), Some(at(millis(10))));
        // A tie goes to the one that set out first.
        assert_eq!(drain(&mut line), [(0, 10), (2, 12), (1, 16), (3, 16)]);
    }

    #[test]
    fn a_shorter_way_lets_packets_overtake_only_if_allowed() {
        let shrinking = LinkConfig::unlimited(millis(70)).delay_change(millis(100), millis(40));
        for (config, expected) in [
            (shrinking.clone(), [(0, 169), (1, 169), (2, 179)]),
            (shrinking.lets_overtake(), [(1, 140), (0, 169), (2, 179)]),
        ] {
            let mut line = line(&config);
            assert_eq!(line.shortest(), millis(40));
            for (content, sent) in [(0, 99), (1, 100), (2, 139)] {
                line.set_out(at(millis(sent)), Duration::ZERO, content);
            }
            assert_eq!(drain(&mut line), expected);
        }
    }

    #[test]
    fn nothing_arrives_early() {
        let mut line = line(&LinkConfig::unlimited(millis(10)));
        line.set_out(at(millis(0)), Duration::ZERO, 0);
        assert!(
            line.arrived(at(millis(10)).saturating_sub(Duration::from_nanos(1)))
                .is_none()
        );
        assert!(line.arrived(at(millis(10))).is_some());
        assert!(line.arrived(at(millis(99))).is_none());
    }

    #[test]
    fn noise_is_linear_between_redraws_and_does_not_hang_on_traffic() {
        let jitter = Jitter::Noise {
            max: millis(30),
            interval: millis(50),
        };
        let config = LinkConfig::unlimited(Duration::ZERO).jitter(jitter);
        let extra_at = |path: &mut Path, ms: u64| path.delay(at(millis(ms))).as_nanos() as i64;
        let mut every_ms = Path::new(&config, Random::from_seed(1), Instant::EPOCH);
        let extras: Vec<i64> = (0..1000).map(|ms| extra_at(&mut every_ms, ms)).collect();
        for start in (0..1000).step_by(50) {
            let slope = extras[start + 1] - extras[start];
            for ms in start..start + 49 {
                assert!(
                    (extras[ms + 1] - extras[ms] - slope).abs() <= 2,
                    "at {ms} ms"
                );
            }
        }
        assert!(extras.iter().all(|&extra| (0..30_000_000).contains(&extra)));
        let mut rarely = Path::new(&config, Random::from_seed(1), Instant::EPOCH);
        assert_eq!(extra_at(&mut rarely, 777), extras[777]);
    }

    #[test]
    fn normal_jitter_has_its_mean_and_deviation_and_is_never_negative() {
        let jitter = Jitter::Normal {
            mean: millis(20),
            deviation: millis(4),
        };
        let config = LinkConfig::unlimited(millis(1)).jitter(jitter);
        let mut path = Path::new(&config, Random::from_seed(5), Instant::EPOCH);
        let extras: Vec<f64> = (0..50_000)
            .map(|_| path.delay(Instant::EPOCH).as_secs_f64() * 1e3 - 1.0)
            .collect();
        let mean = extras.iter().sum::<f64>() / 50_000.0;
        let variance = extras.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 50_000.0;
        assert!((mean - 20.0).abs() < 0.1, "{mean}");
        assert!((variance.sqrt() - 4.0).abs() < 0.1, "{}", variance.sqrt());
    }
}
