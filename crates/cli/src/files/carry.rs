//! Carries work through connections that come and go.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ctcp::{Connection, ConnectionError, Endpoint, StreamError};
use ctcp_files::{Summary, TransferError};
use tokio::time::{Instant, interval, sleep};

use super::meet::{MeetArgs, Meeting};
use super::work::Work;
use crate::dial::{DialError, Dialer, FAREWELL, Session};
use crate::failure::Failure;
use crate::output::notice;
use crate::signals::StopSignals;
use crate::supervisor::Hearing;

/// A connection that answers nothing for so long is replaced.
const SILENCE: Duration = Duration::from_secs(10);

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Pauses between attempts to connect.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Why an end that is interrupted closes its connection.
const INTERRUPTED: &str = "interrupted";

/// The endpoint in use, to be told when all ends.
#[derive(Default)]
struct Current(Mutex<Option<Endpoint>>);

impl Current {
    fn set(&self, endpoint: &Endpoint) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(endpoint.clone());
    }

    fn get(&self) -> Option<Endpoint> {
        let current = self.0.lock();
        current.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Does `work` to its end, over as many connections as it takes.
pub(super) async fn carry(
    args: MeetArgs,
    meeting: Meeting,
    work: Work,
    is_forever: bool,
) -> Result<(), Failure> {
    let mut stop = StopSignals::new()?;
    let progress = work.progress.clone();
    let current = Current::default();
    let working = async {
        match meeting {
            Meeting::Listen(address) => {
                let endpoint = args.listen_at(address, work.owns_stdout())?;
                current.set(&endpoint);
                let _ready = args.ready.announce()?;
                listen(&args, &endpoint, &work, is_forever).await
            }
            Meeting::Invite(source) => connect(&args, Some(&source), &work, &current).await,
            Meeting::Known => connect(&args, None, &work, &current).await,
        }
    };
    // While the connection is still there: once it is dropped, it has no more to say.
    let stopping = async {
        stop.next().await;
        if let Some(endpoint) = current.get() {
            endpoint.close_all(0, INTERRUPTED);
        }
    };
    let result = tokio::select! {
        result = working => result,
        () = stopping => {
            progress.clear();
            if let Some(endpoint) = current.get() {
                endpoint.drain(FAREWELL).await;
            }
            match is_forever && progress.bytes_moved() == 0 {
                true => Ok(()),
                false if work.can_resume() => Err(Failure::failed(
                    "interrupted; run the same command again, it goes on where it was",
                )),
                false => Err(Failure::failed("interrupted")),
            }
        }
    };
    progress.clear();
    result
}

/// Serves who connects.
async fn listen(
    args: &MeetArgs,
    endpoint: &Endpoint,
    work: &Work,
    is_forever: bool,
) -> Result<(), Failure> {
    let mut next = None;
    loop {
        let connection = match next.take() {
            Some(connection) => connection,
            None => accept(endpoint).await?,
        };
        let (result, successor) = serve(endpoint, &connection, work).await;
        next = successor;
        let is_over = match result {
            Ok(summary) => {
                let verdict = finish(args, work, &summary);
                match verdict {
                    Err(failure) if is_forever => notice(failure.message),
                    verdict if !is_forever => {
                        close(&connection, endpoint).await;
                        return verdict;
                    }
                    _ => {}
                }
                true
            }
            Err(error) if error.is_lost() && work.can_resume() => {
                if next.is_none() {
                    work.progress.say(format_args!(
                        "{}; waiting for the other side to come back",
                        cause(&error)
                    ));
                }
                false
            }
            Err(error) if is_forever => {
                work.progress.say(&error);
                true
            }
            Err(error) => {
                close(&connection, endpoint).await;
                return Err(Failure::failed(cause(&error)));
            }
        };
        if is_over {
            connection.close(0, "done");
        }
    }
}

async fn accept(endpoint: &Endpoint) -> Result<Connection, Failure> {
    let accepted = endpoint.accept().await;
    accepted.ok_or_else(|| Failure::failed("the socket is gone"))
}

/// Serves one connection. If the same machine connects again meanwhile, it lost
/// the first: that one ends, and the second is handed back.
async fn serve(
    endpoint: &Endpoint,
    connection: &Connection,
    work: &Work,
) -> (Result<Summary, TransferError>, Option<Connection>) {
    let mut running = std::pin::pin!(work.run(connection, false));
    let mut successor = None;
    loop {
        tokio::select! {
            result = &mut running => return (result, successor),
            Some(other) = endpoint.accept() => {
                if other.peer_key() == connection.peer_key() {
                    connection.close(0, "replaced");
                    successor = Some(other);
                } else {
                    other.close(1, "another transfer is under way");
                }
            }
        }
    }
}

/// Connects, and connects again when that is lost.
async fn connect(
    args: &MeetArgs,
    invite: Option<&str>,
    work: &Work,
    current: &Current,
) -> Result<(), Failure> {
    let (dialer, mut session) = args.reach(invite).await?;
    let mut lost_at: Option<Instant> = None;
    loop {
        let Session {
            connection,
            endpoint,
            ..
        } = match session.take() {
            Some(session) => session,
            None => dial(&dialer, lost_at, args.patience).await?,
        };
        current.set(&endpoint);
        let moved_before = work.progress.bytes_moved();
        let result = tokio::select! {
            result = work.run(&connection, true) => result,
            () = silence(&connection), if work.can_resume() => {
                let error = std::io::Error::new(
                    std::io::ErrorKind::TimedOut,
                    format!("nothing was heard for {SILENCE:?}"),
                );
                Err(TransferError::Lost(error))
            }
        };
        close(&connection, &endpoint).await;
        match result {
            Ok(summary) => return finish(args, work, &summary),
            Err(error) if error.is_lost() && work.can_resume() => {
                let has_moved = work.progress.bytes_moved() > moved_before;
                if has_moved || lost_at.is_none() {
                    let cause = cause(&error);
                    work.progress.say(format_args!("{cause}; connecting again"));
                    lost_at = Some(Instant::now());
                } else if lost_at.is_some_and(|at| at.elapsed() >= args.patience) {
                    return Err(Failure::failed(cause(&error)));
                } else {
                    sleep(PAUSE_MIN).await;
                }
            }
            Err(error) => return Err(Failure::failed(cause(&error))),
        }
    }
}

/// Why a transfer did not end, in a user's words.
fn cause(error: &TransferError) -> String {
    let of_stream = match error {
        TransferError::Lost(error) => StreamError::of(error),
        _ => None,
    };
    match of_stream {
        Some(StreamError::Lost(ConnectionError::PeerClosed { reason, .. }))
            if reason == INTERRUPTED =>
        {
            "the other side was interrupted".to_owned()
        }
        _ => error.to_string(),
    }
}

/// Connects. The first time once; after a loss for as long as patience lasts.
async fn dial(
    dialer: &Dialer,
    lost_at: Option<Instant>,
    patience: Duration,
) -> Result<Session, Failure> {
    let mut pause = PAUSE_MIN;
    loop {
        match (dialer.dial().await, lost_at) {
            (Ok(session), _) => return Ok(session),
            (Err(error @ DialError::Refused(_)), _) => return Err(dialer.failure(&error)),
            (Err(_), Some(at)) if at.elapsed() + pause < patience => {}
            (Err(error), _) => return Err(dialer.failure(&error)),
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Returns when nothing that was sent has been answered for too long.
async fn silence(connection: &Connection) {
    let mut hearing = Hearing::new(connection);
    let mut ticks = interval(LOOK);
    loop {
        ticks.tick().await;
        if hearing.unanswered(connection) >= SILENCE {
            return;
        }
    }
}

async fn close(connection: &Connection, endpoint: &Endpoint) {
    connection.close(0, "done");
    endpoint.drain(FAREWELL).await;
}

/// Says what was done; what should be there and is not makes it a failure.
fn finish(args: &MeetArgs, work: &Work, summary: &Summary) -> Result<(), Failure> {
    let verb = if work.is_sending() {
        "sent"
    } else {
        "received"
    };
    work.progress
        .report(verb, summary, args.json, work.owns_stdout());
    match summary.failed {
        0 => Ok(()),
        1 => Err(Failure::failed("1 file is missing there: see above")),
        count => Err(Failure::failed(format!(
            "{count} files are missing there: see above"
        ))),
    }
}
