//! As much as goes, for a time; or what a source of steady rate has to send.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::record::FlowOutcome;
use crate::venue::RunError;
use crate::workload::dial::DialError;
use crate::workload::fetch::{Body, FetchError, Got, get, get_bytes};
use crate::workload::meter::Meter;
use crate::workload::paced::{self, Delays, Portions};
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
    offered_mbit: Option<f64>,
) -> Result<FlowOutcome, RunError> {
    let meter = Meter::start();
    let source = offered_mbit.map(|mbit| Portions::new(&stage.content, paced::portion_len(mbit)));
    let source = source.map(Mutex::new);
    let counts_from = meter.began() + warmup;
    let counts_to = counts_from + duration;
    let reads_to = stage.deadline.within(warmup + duration);
    let is_broken = AtomicBool::new(false);
    let counted = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let ended = read(stage, &meter, source.as_ref(), &reads_to);
            is_broken.store(ended.is_err(), Ordering::Relaxed);
            ended
        });
        let count = || -> Result<_, RunError> {
            let mut whole = reads_to.sleep_until(counts_from)?;
            let from = Sample::take(stage);
            let from_bytes = meter.bytes();
            meter.begin_silence();
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
            let gap = meter.silence();
            let to = Sample::take(stage);
            Ok((from, to, delivered, whole, looks.mean_ms(), gap))
        };
        let counted = count();
        let read = reader.join().expect("the reader does not panic");
        read.and(counted)
    });
    let (from, to, delivered_bytes, whole, srtt_ms, gap) = counted?;
    let delays = source.map(|source| {
        let portions = source.into_inner().expect("no holder panics");
        portions.delays(from.at, to.at)
    });
    let delay_ms = |share| delays.as_ref().and_then(|delays: &Delays| delays.ms(share));
    Ok(FlowOutcome {
        delivered_bytes,
        counted_s: (to.at - from.at).as_secs_f64(),
        is_censored: !whole,
        wire_bytes: Some(to.wire_bytes - from.wire_bytes),
        useless_share: to.useless_share_since(&from),
        srtt_ms,
        gap_ms: Some(gap.as_secs_f64() * 1e3),
        delay_median_ms: delay_ms(0.5),
        delay_p99_ms: delay_ms(0.99),
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
fn read(
    stage: &Stage<'_>,
    meter: &Meter,
    source: Option<&Mutex<Portions>>,
    deadline: &super::Deadline,
) -> Result<(), RunError> {
    loop {
        let refused = match read_once(stage, meter, source, deadline) {
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

fn read_once(
    stage: &Stage<'_>,
    meter: &Meter,
    source: Option<&Mutex<Portions>>,
    deadline: &super::Deadline,
) -> Result<Got, FetchError> {
    let Some(source) = source else {
        let body = Body::Endless;
        return get(stage, "endless", body, deadline, |len| meter.add(len));
    };
    let mut portions = source.lock().expect("no holder panics");
    let name = format!("paced/{}", portions.len());
    let body = Body::Other(u64::MAX);
    get_bytes(stage, &name, body, deadline, |bytes| {
        meter.add(bytes.len());
        portions.take(Instant::now(), bytes).map_err(|offset| {
            let flow = &stage.flow.name;
            RunError::Failed(format!(
                "flow `{flow}` delivered wrong bytes after byte {offset}"
            ))
        })
    })
}
