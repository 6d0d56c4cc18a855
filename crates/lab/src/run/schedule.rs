//! Which point runs next, and how many at the same time.

use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// More threads than this are never needed.
const JOBS_MAX: usize = 64;

/// How often a waiting job looks whether it should give up.
const LOOK: Duration = Duration::from_millis(100);

/// Hands out points in order, as many at a time as fit.
#[derive(Debug)]
pub(crate) struct Schedule {
    loads: Vec<f64>,
    capacity: f64,
    jobs: usize,
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct State {
    next: usize,
    running: u32,
    load: f64,
    /// For each running point, the most that ran at once during it.
    most: Vec<u32>,
    is_running: Vec<bool>,
}

/// The right to run one point; given back when dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    schedule: &'a Schedule,
    index: usize,
}

fn cores() -> f64 {
    thread::available_parallelism().map_or(1.0, |count| count.get() as f64)
}

impl Schedule {
    /// `jobs` at a time, or as many as this share of the processors takes by their
    /// loads.
    pub(crate) fn new(loads: Vec<f64>, jobs: Option<usize>, capacity_share: f64) -> Self {
        let count = loads.len();
        let capacity = match jobs {
            // Whoever says how many has said it.
            Some(_) => f64::INFINITY,
            None => cores() * capacity_share,
        };
        Self {
            capacity,
            jobs: jobs
                .unwrap_or(JOBS_MAX)
                .clamp(1, JOBS_MAX)
                .min(count.max(1)),
            loads,
            state: Mutex::new(State {
                most: vec![0; count],
                is_running: vec![false; count],
                ..State::default()
            }),
            news: Condvar::new(),
        }
    }

    /// Threads that it can keep busy.
    pub(crate) fn jobs(&self) -> usize {
        self.jobs
    }

    /// Waits until the next point fits; none if there is none, or `gives_up`.
    pub(crate) fn next(&self, gives_up: impl Fn() -> bool) -> Option<Turn<'_>> {
        let mut state = self.state.lock().expect("no holder panics");
        loop {
            let index = state.next;
            let load = *self.loads.get(index)?;
            if gives_up() {
                return None;
            }
            // Alone, anything fits.
            if state.running == 0 || state.load + load <= self.capacity {
                state.next += 1;
                state.running += 1;
                state.load += load;
                state.is_running[index] = true;
                state.note_most();
                return Some(Turn {
                    schedule: self,
                    index,
                });
            }
            state = self
                .news
                .wait_timeout(state, LOOK)
                .expect("no holder panics")
                .0;
        }
    }
}

impl State {
    fn note_most(&mut self) {
        let running = self.running;
        for (most, _) in self
            .most
            .iter_mut()
            .zip(&self.is_running)
            .filter(|(_, is_running)| **is_running)
        {
            *most = (*most).max(running);
        }
    }
}

impl Turn<'_> {
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// The most points that have run at once since this one began.
    pub(crate) fn most_at_once(&self) -> u32 {
        self.schedule.state.lock().expect("no holder panics").most[self.index]
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.schedule.state.lock().expect("no holder panics");
        state.running -= 1;
        state.load -= self.schedule.loads[self.index];
        state.is_running[self.index] = false;
        drop(state);
        self.schedule.news.notify_all();
    }
}

/// How long points of these durations and loads take, run as [`Schedule`] does.
pub(crate) fn span(
    points: impl Iterator<Item = (Duration, f64)>,
    jobs: Option<usize>,
    capacity_share: f64,
) -> Duration {
    let (capacity, most) = match jobs {
        Some(jobs) => (f64::INFINITY, jobs.clamp(1, JOBS_MAX)),
        None => (cores() * capacity_share, JOBS_MAX),
    };
    let mut now = Duration::ZERO;
    // When each running point ends, and its load.
    let mut running: Vec<(Duration, f64)> = Vec::new();
    for (duration, load) in points {
        loop {
            let used: f64 = running.iter().map(|(_, load)| load).sum();
            let fits = running.len() < most && used + load <= capacity;
            if running.is_empty() || fits {
                break;
            }
            let first = (0..running.len())
                .min_by_key(|&index| running[index].0)
                .expect("one runs");
            now = now.max(running.swap_remove(first).0);
        }
        running.push((now + duration, load));
    }
    running
        .into_iter()
        .map(|(end, _)| end)
        .fold(now, Duration::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn points_go_in_order_and_only_as_many_as_fit() {
        let half = cores() / 4.0;
        let schedule = Schedule::new(vec![half; 3], None, 0.5);
        let never = || false;
        let first = schedule.next(never).expect("fits");
        let second = schedule.next(never).expect("fits");
        assert_eq!((first.index(), second.index()), (0, 1));
        assert!(schedule.next(|| true).is_none());
        drop(first);
        let third = schedule.next(never).expect("fits now");
        assert_eq!(third.index(), 2);
        assert_eq!((second.most_at_once(), third.most_at_once()), (2, 2));
        drop((second, third));
        assert!(schedule.next(never).is_none());
    }

    #[test]
    fn a_point_that_is_too_heavy_runs_alone() {
        let schedule = Schedule::new(vec![1e9, 0.1], None, 0.5);
        let alone = schedule.next(|| false).expect("alone");
        let waited = std::cell::Cell::new(0);
        let next = schedule.next(|| {
            waited.set(waited.get() + 1);
            waited.get() > 1
        });
        assert!(next.is_none());
        drop(alone);
    }

    #[test]
    fn the_span_is_what_jobs_make_of_it() {
        let points = || (0..6).map(|_| (SECOND, 0.1));
        assert_eq!(span(points(), Some(1), 0.5), 6 * SECOND);
        assert_eq!(span(points(), Some(2), 0.5), 3 * SECOND);
        assert_eq!(span(points(), Some(60), 0.5), SECOND);
        assert_eq!(span(std::iter::empty(), None, 0.5), Duration::ZERO);
    }
}
