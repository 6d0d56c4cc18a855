//! Where points are run: one trait, so that the runner knows neither namespaces
//! nor virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thiserror::Error;

use crate::point::Point;
use crate::record::{DirectionOutcome, FlowOutcome, PathOutcome};

/// Something that can run points.
pub trait Venue: Sync {
    /// Says in one line, with the remedy, why one of these points cannot be run
    /// here. It sets nothing up.
    ///
    /// # Errors
    /// The line.
    fn preflight(&self, points: &[&Point]) -> Result<(), Unable>;

    /// Share of one core that a point takes while it runs, for the decision how
    /// many run at the same time. A rough figure will do.
    fn load(&self, point: &Point) -> f64;

    /// Share of the machine's processors that its points may take together.
    fn capacity_share(&self) -> f64;

    /// Runs one point.
    ///
    /// # Errors
    /// [`RunError`]; whatever was set up is gone by then.
    fn run(&self, point: &Point, stop: &Stop) -> Result<Outcome, RunError>;
}

/// What a venue found out about one point.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// One per flow, in the point's order.
    pub flows: Vec<FlowOutcome>,
    /// One per path, in the point's order.
    pub paths: Vec<PathOutcome>,
    /// How late the emulator was; none in virtual time.
    pub timing: Option<Timing>,
}

/// What a link has seen, for a record.
pub(crate) fn direction(link: &ctcp_link::LinkCounters) -> DirectionOutcome {
    DirectionOutcome {
        offered: link.offered,
        offered_bytes: link.offered_bytes,
        lost: link.lost(),
        dropped_queue: link.dropped_queue,
        delivered: link.delivered,
        queueing_delay_mean_us: link.queueing_delay_mean().as_micros() as u64,
    }
}

/// How much later packets left the emulator than the model says.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Timing {
    /// Median, microseconds.
    pub p50_us: f64,
    /// 99th percentile, microseconds.
    pub p99_us: f64,
}

/// Why points cannot be run on this machine: one line that names the remedy.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Unable(pub String);

/// Why a point has no outcome.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RunError {
    /// [`Stop`] was set while it ran.
    #[error("interrupted")]
    Interrupted,
    /// Something broke; in one line.
    #[error("{0}")]
    Failed(String),
}

impl RunError {
    /// What broke, with the cause.
    pub(crate) fn failed(what: impl std::fmt::Display, cause: impl std::fmt::Display) -> Self {
        Self::Failed(format!("{what}: {cause}"))
    }
}

/// Tells everything that runs to end. Clones mean the same.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    flag: Arc<AtomicBool>,
    /// Whoever told this one apart from the rest; ends it, too.
    above: Option<Arc<Stop>>,
}

impl Stop {
    /// From now on, everything ends as soon as it can.
    pub fn set(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// Whether it was said.
    pub fn is_set(&self) -> bool {
        self.flag.load(Ordering::Relaxed) || self.above.as_ref().is_some_and(|stop| stop.is_set())
    }

    /// Another one for a part of the work: it ends with this one, and may end
    /// before.
    #[must_use]
    pub fn part(&self) -> Self {
        Self {
            flag: Arc::default(),
            above: Some(Arc::new(self.clone())),
        }
    }
}
