//! Runs points side by side, keeps each outcome the moment it is there, and goes
//! on where an earlier run was interrupted.

mod estimate;
mod filter;
mod journal;
mod machine;
mod pulse;
mod schedule;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

pub use estimate::{duration, total_duration};
pub use filter::{Filter, FilterError};
pub use journal::{Journal, JournalError, read_results};
pub use machine::provenance;

use crate::point::{self, Point};
use crate::record::{Fidelity, Provenance, Record};
use crate::venue::{Outcome, RunError, Stop, Unable, Venue};
use machine::IdleMeter;
use pulse::Pulse;
use schedule::Schedule;

/// A run whose 99th percentile of the timing error is above this is marked: at
/// 25 Mbit/s a packet takes 0.48 ms, so that one in a hundred came two packets
/// late.
pub const TIMING_ERROR_P99_MAX_US: f64 = 1000.0;

/// A run during which one in a hundred wakings of a thread was later than this is
/// marked: the programs under test had to wait for a processor. Three
/// milliseconds are a time slice of Linux, and shorter than the shortest round
/// trip of the papers.
pub const WAKEUP_DELAY_P99_MAX_US: f64 = 3000.0;

/// How to run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Folder of the results.
    pub out: PathBuf,
    /// Most points at the same time; none: as many as the processors can take.
    pub jobs: Option<usize>,
    /// Also run what there is a result for.
    pub again: bool,
    /// What runs it, for the records.
    pub provenance: Provenance,
}

/// Is told how things go, from several threads.
pub trait Observer: Sync {
    /// A point begins.
    fn on_begin(&self, point: &Point);
    /// A point has ended, well or not.
    fn on_end(&self, record: &Record);
}

/// Where points are run.
#[derive(Clone, Copy, Default)]
pub struct Venues<'a> {
    /// Who runs points of the testbed; none: nobody.
    pub testbed: Option<&'a dyn Venue>,
    /// Who runs points of the simulator; none: nobody.
    pub simulator: Option<&'a dyn Venue>,
}

impl<'a> Venues<'a> {
    /// Who runs this point.
    fn of(&self, point: &Point) -> Option<&'a dyn Venue> {
        match point.venue {
            point::Venue::Testbed => self.testbed,
            point::Venue::Simulator => self.simulator,
        }
    }

    /// Asks every venue about its points, before anything is set up.
    ///
    /// # Errors
    /// [`Unable`] with the first reason not to begin.
    pub fn preflight(&self, points: &[Point]) -> Result<(), Unable> {
        if let Some(point) = points.iter().find(|point| self.of(point).is_none()) {
            return Err(Unable(format!(
                "{}, series `{}`: nothing here runs points of the {:?}; leave it out with --only",
                point.experiment, point.series, point.venue
            )));
        }
        for venue in [point::Venue::Testbed, point::Venue::Simulator] {
            let its: Vec<&Point> = points.iter().filter(|point| point.venue == venue).collect();
            if let Some(venue) = its.first().and_then(|point| self.of(point)) {
                venue.preflight(&its)?;
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for Venues<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Venues")
            .field("testbed", &self.testbed.is_some())
            .field("simulator", &self.simulator.is_some())
            .finish()
    }
}

/// What there is to do.
#[derive(Debug)]
pub struct Plan {
    /// Points to run, in order.
    pub points: Vec<Point>,
    /// Points left out because there is a result of this commit.
    pub skipped: usize,
    journals: BTreeMap<String, Journal>,
}

impl Plan {
    /// Opens the results of these points' experiments and leaves out what is
    /// there already.
    ///
    /// # Errors
    /// [`JournalError`] if results cannot be read or written.
    pub fn new(points: Vec<Point>, options: &RunOptions) -> Result<Self, JournalError> {
        let mut journals: BTreeMap<String, Journal> = BTreeMap::new();
        for point in &points {
            if !journals.contains_key(&point.experiment) {
                let journal = Journal::open(&options.out, &point.experiment)?;
                journals.insert(point.experiment.clone(), journal);
            }
        }
        let all = points.len();
        let points: Vec<Point> = points
            .into_iter()
            .filter(|point| {
                let journal = &journals[&point.experiment];
                options.again || !journal.has(point, &options.provenance.commit)
            })
            .collect();
        Ok(Self {
            skipped: all - points.len(),
            points,
            journals,
        })
    }

    /// How long it will take, roughly, at so many jobs.
    pub fn duration(&self, jobs: Option<usize>) -> Duration {
        estimate::total_duration(&self.points, jobs)
    }
}

/// What came of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Points with an outcome.
    pub done: usize,
    /// Points without one.
    pub failed: usize,
    /// Points whose outcome is marked: the machine was too busy.
    pub busy: usize,
    /// Points cut at their time limit.
    pub censored: usize,
    /// Points not run, or not to the end, because of the interruption.
    pub left: usize,
}

/// Runs what is planned. Every outcome is written before the next point takes its
/// place.
///
/// # Errors
/// [`JournalError`] if a result cannot be written; then nothing goes on.
pub fn run(
    plan: &Plan,
    venues: &Venues<'_>,
    options: &RunOptions,
    stop: &Stop,
    observer: &dyn Observer,
) -> Result<Summary, JournalError> {
    let results = Mutex::new((Summary::default(), None));
    // What keeps time goes first and alone: a simulation takes a whole processor.
    for venue in [point::Venue::Testbed, point::Venue::Simulator] {
        let pulse = Pulse::new();
        let points: Vec<&Point> = plan.points.iter().filter(|p| p.venue == venue).collect();
        let of = |point: &&Point| venues.of(point);
        let loads = points
            .iter()
            .map(|point| of(point).map_or(0.0, |venue| venue.load(point)));
        let capacity_share = points
            .first()
            .and_then(of)
            .map_or(1.0, Venue::capacity_share);
        let schedule = Schedule::new(loads.collect(), options.jobs, capacity_share);
        let work = || {
            while let Some(turn) = schedule.next(|| stop.is_set()) {
                let point = points[turn.index()];
                observer.on_begin(point);
                let record = run_one(point, venues, options, stop, &pulse, || turn.most_at_once());
                let Some(record) = record else {
                    continue;
                };
                let kept = plan.journals[&point.experiment].append(&record);
                let mut results = results.lock().expect("no holder panics");
                match kept {
                    Ok(()) => results.0.count(&record),
                    Err(error) => {
                        results.1.get_or_insert(error);
                        stop.set();
                    }
                }
                drop(results);
                observer.on_end(&record);
            }
        };
        std::thread::scope(|scope| {
            let beating = scope.spawn(|| pulse.beat());
            let working: Vec<_> = (0..schedule.jobs()).map(|_| scope.spawn(work)).collect();
            let ended: Vec<_> = working.into_iter().map(|thread| thread.join()).collect();
            pulse.end();
            drop(beating.join());
            if let Some(panic) = ended.into_iter().find_map(Result::err) {
                std::panic::resume_unwind(panic);
            }
        });
    }
    let (mut summary, error) = results.into_inner().expect("no holder panics");
    summary.left = plan.points.len() - summary.done - summary.failed;
    error.map_or(Ok(summary), Err)
}

impl Summary {
    fn count(&mut self, record: &Record) {
        match &record.error {
            None => self.done += 1,
            Some(_) => self.failed += 1,
        }
        self.busy += usize::from(record.fidelity.is_some_and(|fidelity| fidelity.is_busy));
        self.censored += usize::from(record.flows.iter().any(|flow| flow.is_censored));
    }
}

/// Runs one point; none if it was interrupted.
fn run_one(
    point: &Point,
    venues: &Venues<'_>,
    options: &RunOptions,
    stop: &Stop,
    pulse: &Pulse,
    parallel_runs: impl FnOnce() -> u32,
) -> Option<Record> {
    let started_at = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
    let began = Instant::now();
    let (idle, pulse_before) = (IdleMeter::start(), pulse.read());
    let ran = match venues.of(point) {
        Some(venue) => venue.run(point, stop),
        None => Err(RunError::Failed(format!(
            "nothing here runs points of the {:?}",
            point.venue
        ))),
    };
    let (outcome, error) = match ran {
        Ok(outcome) => (outcome, None),
        Err(RunError::Interrupted) => return None,
        Err(error) => (Outcome::default(), Some(error.to_string())),
    };
    let idle_share = idle.share();
    let wakeup_delay_p99_us = pulse.read().p99_us_since(&pulse_before);
    let fidelity = outcome.timing.map(|timing| Fidelity {
        timing_error_p50_us: timing.p50_us,
        timing_error_p99_us: timing.p99_us,
        idle_share,
        parallel_runs: parallel_runs(),
        wakeup_delay_p99_us,
        is_busy: timing.p99_us > TIMING_ERROR_P99_MAX_US
            || wakeup_delay_p99_us > WAKEUP_DELAY_P99_MAX_US,
    });
    Some(Record {
        point: point.clone(),
        started_at,
        elapsed_s: began.elapsed().as_secs_f64(),
        provenance: options.provenance.clone(),
        fidelity,
        flows: outcome.flows,
        paths: outcome.paths,
        error,
    })
}

#[cfg(test)]
mod tests;
