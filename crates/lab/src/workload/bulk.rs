//! As much as goes, for a time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::record::FlowOutcome;
use crate::venue::RunError;
use crate::workload::dial::DialError;
use crate::workload::fetch::{Body, FetchError, get};
use crate::workload::meter::Meter;
use crate::workload::{Sample, Stage};

/// Pause before a connection that could not be had is tried again.
const AGAIN: Duration = Duration::from_millis(100);

/// From one look at the round trip to the next.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// Reads for `warmup`, then counts for `duration`, or until the deadline.
pub(crate) fn run(
    stage: &Stage<'_>,
    warmup: Duration,
    duration: Duration,
) -> Result<FlowOutcome, RunError> {
    let meter = Meter::start();
    let counts_from = meter.began() + warmup;
    let counts_to = counts_from + duration;
    let reads_to = stage.deadline.within(warmup + duration);
    let is_broken = AtomicBool::new(false);
    let counted = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let ended = read(stage, &meter, &reads_to);
            is_broken.store(ended.is_err(), Ordering::Relaxed);
            ended
        });
        let count = || -> Result<_, RunError> {
            let mut whole = reads_to.sleep_until(counts_from)?;
            let from = Sample::take(stage);
            let from_bytes = meter.bytes();
            let mut looks = RoundTrips::default();
            // Slices, so that a connection that broke ends the wait.
            let mut next = from.at;
            while next < counts_to && !is_broken.load(Ordering::Relaxed) {
                next = (next + Duration::from_millis(100)).min(counts_to);
                whole &= stage.deadline.sleep_until(next)?;
                if !whole {
                    break;
                }
                looks.look(stage, next);
            }
            let delivered = meter.bytes() - from_bytes;
            Ok((from, Sample::take(stage), delivered, whole, looks.mean_ms()))
        };
        let counted = count();
        let read = reader.join().expect("the reader does not panic");
        read.and(counted)
    });
    let (from, to, delivered_bytes, whole, srtt_ms) = counted?;
    Ok(FlowOutcome {
        delivered_bytes,
        counted_s: (to.at - from.at).as_secs_f64(),
        is_censored: !whole,
        wire_bytes: Some(to.wire_bytes - from.wire_bytes),
        useless_share: to.useless_share_since(&from),
        srtt_ms,
        series_bytes: meter.series(),
        ..FlowOutcome::default()
    })
}

/// The sender's smoothed round trips, a look a second.
#[derive(Debug, Default)]
struct RoundTrips {
    last: Option<Instant>,
    sum_s: f64,
    count: u32,
}

impl RoundTrips {
    fn look(&mut self, stage: &Stage<'_>, now: Instant) {
        if self.last.is_some_and(|last| now < last + BETWEEN_LOOKS) {
            return;
        }
        self.last = Some(now);
        if let Some(srtt_s) = stage.transport.srtt_s() {
            self.sum_s += srtt_s;
            self.count += 1;
        }
    }

    fn mean_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_s * 1e3 / f64::from(self.count))
    }
}

/// Reads without end, until the deadline. A connection that cannot be had in time
/// delivers nothing, and that is a result; one that breaks is an error.
fn read(stage: &Stage<'_>, meter: &Meter, deadline: &super::Deadline) -> Result<(), RunError> {
    loop {
        let body = Body::Endless;
        let refused = match get(stage, "endless", body, deadline, |len| meter.add(len)) {
            Ok(_) | Err(FetchError::Dial(DialError::Late)) => return Ok(()),
            Err(FetchError::Dial(DialError::Broken(error))) if meter.bytes() == 0 => error,
            Err(error) => return Err(error.into_run_error(&stage.flow.name)),
        };
        let again = Instant::now() + AGAIN;
        if !deadline.sleep_until(again)? {
            return Err(RunError::failed(&stage.flow.name, refused));
        }
    }
}
