//! What the applications of a flow do on the testbed: programs and our own
//! source and sink, all over a [`Carrier`].

mod bulk;
mod content;
mod deadline;
mod dial;
mod fetch;
mod film;
mod meter;
mod paced;
mod program;
mod video;
mod web;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) use content::Content;
pub(crate) use deadline::{Deadline, LOOK};
pub(crate) use dial::{Carrier, DialError, dial, wait_for_listener};
pub(crate) use film::Film;
pub(crate) use program::{IPERF_PORT, RSYNC_PORT, find_program, package_of, programs_of};
pub(crate) use web::{Site, WebServer};

use crate::point::{Flow, Workload};
use crate::record::FlowOutcome;
use crate::testbed::{Bed, Received, Transport};
use crate::venue::RunError;

/// Port of the first flow's web server; the others follow.
const WEB_PORT: u16 = 8000;

/// Port of the web server of a flow.
pub(crate) fn web_port(flow: usize) -> u16 {
    WEB_PORT + flow as u16
}

/// What a flow runs with.
#[derive(Debug)]
pub(crate) struct Stage<'a> {
    pub(crate) bed: &'a Bed,
    pub(crate) flow: &'a Flow,
    /// Which flow of the point, from 0.
    pub(crate) index: usize,
    pub(crate) transport: Transport,
    pub(crate) content: Arc<Content>,
    pub(crate) film: Option<&'a Film>,
    /// For the files of programs; the flow's own.
    pub(crate) folder: &'a Path,
    pub(crate) deadline: Deadline,
}

impl Stage<'_> {
    /// The flow's web server.
    pub(crate) fn web(&self) -> SocketAddr {
        SocketAddr::from((self.bed.server_address(0, self.index), web_port(self.index)))
    }

    pub(crate) fn carrier(&self) -> Carrier {
        self.transport.carrier()
    }
}

/// Carries the flow's workload out, from its start on.
///
/// # Errors
/// [`RunError`] if something breaks; being slow is none.
pub(crate) fn run(stage: &mut Stage<'_>) -> Result<FlowOutcome, RunError> {
    let mut outcome = match stage.flow.workload {
        Workload::Bulk {
            warmup_s,
            duration_s,
            offered_mbit,
        } => bulk::run(stage, seconds(warmup_s), seconds(duration_s), offered_mbit),
        Workload::Fetch {
            bytes,
            count,
            program,
            cold,
        } => fetch::run(
            stage,
            &fetch::Order {
                bytes,
                count,
                program,
                cold,
            },
        ),
        Workload::Video {
            duration_s,
            rate_mbit,
            buffer_s,
            program,
        } => video::run(
            stage,
            &video::Showing {
                duration_s,
                rate_mbit,
                buffer_s,
                program,
            },
        ),
    }?;
    stage.transport.check_alive()?;
    outcome.name.clone_from(&stage.flow.name);
    outcome.goodput_mbit = if outcome.counted_s > 0.0 {
        outcome.delivered_bytes as f64 * 8e-6 / outcome.counted_s
    } else {
        0.0
    };
    outcome.series_interval_s = meter::INTERVAL.as_secs_f64();
    Ok(outcome)
}

/// A recipe's time; its checks keep it in range.
pub(crate) fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value).unwrap_or(Duration::MAX)
}

/// A moment of the counted time: when, and what the senders had put on the wire.
#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Instant,
    wire_bytes: u64,
    /// What the client of CTCP had received.
    received: Option<Received>,
}

impl Sample {
    fn take(stage: &Stage<'_>) -> Self {
        Self {
            at: Instant::now(),
            wire_bytes: stage.bed.offered_bytes_down(),
            received: stage.transport.received(),
        }
    }

    /// Share of CTCP's packets received since `before` that brought nothing.
    fn useless_share_since(&self, before: &Self) -> Option<f64> {
        self.received?.useless_share_since(&before.received?)
    }
}
