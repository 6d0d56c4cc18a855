//! Objects of one size, one after the other, timed each.

use std::io::{self, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::point::Program;
use crate::record::FlowOutcome;
use crate::venue::RunError;
use crate::workload::dial::{Carrier, DialError, ReadError, dial, read_some};
use crate::workload::meter::Meter;
use crate::workload::{Deadline, Sample, Stage, program};

/// Longest head of an answer that is read.
const HEAD_LEN_MAX: usize = 16 << 10;
const READ_LEN: usize = 256 << 10;

/// What is to be fetched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    pub(crate) bytes: u64,
    pub(crate) count: u32,
    pub(crate) program: Program,
    pub(crate) cold: bool,
}

/// How one object came.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fetched {
    /// Whole, after this long.
    Whole(Duration),
    /// Cut at the deadline.
    Cut,
}

/// Fetches them all, or those that the deadline allows.
pub(crate) fn run(stage: &mut Stage<'_>, order: &Order) -> Result<FlowOutcome, RunError> {
    let meter = Meter::start();
    let mut outcome = FlowOutcome::default();
    let from = Sample::take(stage);
    let mut wire_bytes = 0;
    for index in 0..order.count {
        if order.cold && index > 0 {
            stage.transport.restart(stage.bed, &stage.deadline)?;
        }
        let before = Sample::take(stage);
        let (fetched, connected) = fetch_one(stage, order, &meter)?;
        let after = Sample::take(stage);
        wire_bytes += after.wire_bytes - before.wire_bytes;
        match fetched {
            Fetched::Whole(time) => {
                outcome.completion_s.push(time.as_secs_f64());
                outcome
                    .connect_s
                    .extend(connected.map(|time| time.as_secs_f64()));
                outcome.counted_s += time.as_secs_f64();
            }
            Fetched::Cut => {
                outcome.is_censored = true;
                outcome.counted_s += (after.at - before.at).as_secs_f64();
                break;
            }
        }
    }
    outcome.delivered_bytes = meter.bytes();
    outcome.wire_bytes = Some(wire_bytes);
    outcome.useless_share = Sample::take(stage).useless_share_since(&from);
    outcome.series_bytes = meter.series();
    tracing::debug!(flow = %stage.flow.name, took = ?from.at.elapsed(), "fetched");
    Ok(outcome)
}

/// One object, and how long it took until it could be asked for, if that is known.
fn fetch_one(
    stage: &Stage<'_>,
    order: &Order,
    meter: &Meter,
) -> Result<(Fetched, Option<Duration>), RunError> {
    let name = format!("bytes/{}", order.bytes);
    if order.program != Program::Own {
        return program::fetch(stage, order.program, order.bytes, meter).map(|one| (one, None));
    }
    let began = Instant::now();
    let mut connected = None;
    let got = connect(stage, &stage.deadline).and_then(|stream| {
        connected = Some(began.elapsed());
        let body = Body::Known(order.bytes);
        ask(stage, stream, &name, body, &stage.deadline, |bytes| {
            meter.add(bytes.len());
            Ok(())
        })
    });
    match got {
        Ok(Got::Whole) => Ok((Fetched::Whole(began.elapsed()), connected)),
        Ok(Got::Cut) | Err(FetchError::Dial(DialError::Late)) => Ok((Fetched::Cut, connected)),
        Err(error) => Err(error.into_run_error(&stage.flow.name)),
    }
}

/// What is expected of an answer's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    /// So many bytes of the content.
    Known(u64),
    /// The content until the deadline.
    Endless,
    /// So many bytes of something else.
    Other(u64),
}

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Got {
    Whole,
    Cut,
}

/// Why there is no answer, or no right one.
#[derive(Debug)]
pub(crate) enum FetchError {
    Dial(DialError),
    Broken { at: u64, error: io::Error },
    Wrong { at: u64 },
    Short { at: u64 },
    Ended(RunError),
}

impl FetchError {
    pub(crate) fn into_run_error(self, flow: &str) -> RunError {
        match self {
            Self::Dial(error) => error.into_run_error(&format!("flow `{flow}` cannot connect")),
            Self::Ended(error) => error,
            Self::Broken { at, error } => {
                RunError::Failed(format!("flow `{flow}` broke after {at} bytes: {error}"))
            }
            Self::Wrong { at } => RunError::Failed(format!(
                "flow `{flow}` delivered wrong bytes within those after byte {at}"
            )),
            Self::Short { at } => {
                RunError::Failed(format!("flow `{flow}` ended early, after {at} bytes"))
            }
        }
    }
}

/// Asks the flow's web server and checks what comes; `take` is told of the bytes
/// of the body as they arrive.
pub(crate) fn get(
    stage: &Stage<'_>,
    name: &str,
    body: Body,
    deadline: &Deadline,
    mut take: impl FnMut(usize),
) -> Result<Got, FetchError> {
    get_bytes(stage, name, body, deadline, |bytes| {
        take(bytes.len());
        Ok(())
    })
}

/// The same, for those who want the bytes.
pub(crate) fn get_bytes(
    stage: &Stage<'_>,
    name: &str,
    body: Body,
    deadline: &Deadline,
    take: impl FnMut(&[u8]) -> Result<(), RunError>,
) -> Result<Got, FetchError> {
    let stream = connect(stage, deadline)?;
    ask(stage, stream, name, body, deadline, take)
}

fn connect(stage: &Stage<'_>, deadline: &Deadline) -> Result<TcpStream, FetchError> {
    let client = stage.bed.client();
    let carrier: Carrier = stage.carrier();
    dial(client, carrier, stage.web(), deadline).map_err(FetchError::Dial)
}

/// Asks over a connection that is there.
fn ask(
    stage: &Stage<'_>,
    mut stream: TcpStream,
    name: &str,
    body: Body,
    deadline: &Deadline,
    mut take: impl FnMut(&[u8]) -> Result<(), RunError>,
) -> Result<Got, FetchError> {
    let request = format!("GET /{name} HTTP/1.1\r\nHost: {}\r\n\r\n", stage.web());
    let broken = |at| move |error| FetchError::Broken { at, error };
    stream.write_all(request.as_bytes()).map_err(broken(0))?;
    let mut buffer = vec![0; READ_LEN];
    let Some((mut start, mut end)) = read_head(&mut stream, &mut buffer, deadline)? else {
        return Ok(Got::Cut);
    };
    let mut at = 0;
    loop {
        let bytes = &buffer[start..end];
        let is_right = match body {
            Body::Known(len) => at + bytes.len() as u64 <= len && stage.content.matches(at, bytes),
            Body::Endless => stage.content.matches(at, bytes),
            Body::Other(len) => at + bytes.len() as u64 <= len,
        };
        if !is_right {
            return Err(FetchError::Wrong { at });
        }
        at += bytes.len() as u64;
        take(bytes).map_err(FetchError::Ended)?;
        if matches!(body, Body::Known(len) | Body::Other(len) if at == len) {
            return Ok(Got::Whole);
        }
        start = 0;
        end = match read_some(&mut stream, &mut buffer, deadline) {
            Ok(Some(0)) => return Err(FetchError::Short { at }),
            Ok(Some(len)) => len,
            Ok(None) => return Ok(Got::Cut),
            Err(ReadError::Broken(error)) => return Err(FetchError::Broken { at, error }),
            Err(ReadError::Ended(error)) => return Err(FetchError::Ended(error)),
        };
    }
}

/// Reads the head of an answer. Where the body's first bytes stand in the buffer;
/// none at the deadline.
fn read_head(
    stream: &mut TcpStream,
    buffer: &mut [u8],
    deadline: &Deadline,
) -> Result<Option<(usize, usize)>, FetchError> {
    let mut filled = 0;
    loop {
        match read_some(stream, &mut buffer[filled..], deadline) {
            Ok(Some(0)) => return Err(FetchError::Short { at: 0 }),
            Ok(Some(len)) => filled += len,
            Ok(None) => return Ok(None),
            Err(ReadError::Broken(error)) => return Err(FetchError::Broken { at: 0, error }),
            Err(ReadError::Ended(error)) => return Err(FetchError::Ended(error)),
        }
        if let Some(end) = buffer[..filled].windows(4).position(|w| w == b"\r\n\r\n") {
            let is_ok = buffer.starts_with(b"HTTP/1.1 200");
            let error = io::Error::other("the web server refuses the request");
            return match is_ok {
                true => Ok(Some((end + 4, filled))),
                false => Err(FetchError::Broken { at: 0, error }),
            };
        }
        if filled > HEAD_LEN_MAX {
            let error = io::Error::other("the answer has no end of its head");
            return Err(FetchError::Broken { at: 0, error });
        }
    }
}
