//! Keeps a client's tunnel up: connects, connects again when the connection is
//! lost, and replaces one that has fallen silent.
//!
//! A server that was restarted knows nothing of the connection and stays silent.
//! So when packets have gone unanswered for [`SUSPECT_AFTER`], a new handshake is
//! tried beside the old connection. If it succeeds, new streams take the new
//! connection; the old one is left to its streams for as long as it is heard, and
//! closed when it has been silent for [`GIVE_UP_AFTER`]. A path that was merely
//! interrupted thus loses no stream.

use std::sync::Arc;
use std::time::Duration;

use ctcp::Connection;
use ctcp_observe::Observer;
use ctcp_proxy::tunnel::{OpenError, Tunnel};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, interval, sleep, timeout};
use tracing::{debug, info};

use crate::dial::{DialError, Dialer, FAREWELL, Session};
use crate::failure::Failure;
use crate::output::notice;
use crate::paths::Labels;
use crate::tunnel::{CtcpStream, open};

/// Packets unanswered for so long make a connection suspect.
const SUSPECT_AFTER: Duration = Duration::from_secs(5);

/// A connection that was replaced is closed after so long a silence.
const GIVE_UP_AFTER: Duration = Duration::from_secs(10);

/// How often a connection is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Pauses between attempts to connect.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(15);

#[derive(Debug, Clone)]
enum Status {
    /// Being set up.
    Down,
    Up(Session),
    Refused,
}

/// A tunnel that comes back by itself. Clones mean the same.
#[derive(Debug, Clone)]
pub(crate) struct Uplink {
    status: watch::Receiver<Status>,
    /// A stream is wanted: the next attempt need not wait for its pause.
    wanted: Arc<Notify>,
}

impl Uplink {
    /// Closes the connection, if there is one, and sees to it that the server
    /// learns of it.
    pub(crate) async fn close(&self) {
        let current = self.status.borrow().clone();
        if let Status::Up(session) = current {
            session.close("the client stops", FAREWELL).await;
        }
    }

    /// The connection there is now, and what its paths are called.
    pub(crate) fn paths(&self) -> Option<(Connection, Labels)> {
        match &*self.status.borrow() {
            Status::Up(session) => Some((session.connection.clone(), session.labels.clone())),
            _ => None,
        }
    }

    /// The connection there is now.
    pub(crate) fn connection(&self) -> Option<Connection> {
        match &*self.status.borrow() {
            Status::Up(session) => Some(session.connection.clone()),
            _ => None,
        }
    }
}

impl Tunnel for Uplink {
    type Stream = CtcpStream;

    async fn open(&self) -> Result<CtcpStream, OpenError> {
        let mut status = self.status.clone();
        loop {
            let current = status.borrow_and_update().clone();
            match current {
                Status::Up(session) => match open(&session.connection).await {
                    // The supervisor is about to notice; wait for the next.
                    Err(OpenError::Closed { .. }) => {}
                    result => return result,
                },
                Status::Refused => return Err(OpenError::Refused),
                Status::Down => self.wanted.notify_one(),
            }
            if status.changed().await.is_err() {
                return Err(OpenError::NoAnswer);
            }
        }
    }
}

/// The other end of an [`Uplink`].
#[derive(Debug)]
pub(crate) struct Supervisor {
    dialer: Dialer,
    status: watch::Sender<Status>,
    wanted: Arc<Notify>,
    observer: Option<Observer>,
}

/// An uplink, and the supervisor that has to run for it.
pub(crate) fn uplink(dialer: Dialer) -> (Uplink, Supervisor) {
    let (sender, receiver) = watch::channel(Status::Down);
    let wanted = Arc::new(Notify::new());
    let uplink = Uplink {
        status: receiver,
        wanted: wanted.clone(),
    };
    let supervisor = Supervisor {
        dialer,
        status: sender,
        wanted,
        observer: None,
    };
    (uplink, supervisor)
}

impl Supervisor {
    /// Shows each connection to whoever looks.
    pub(crate) fn shown_by(mut self, observer: Observer) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Runs until the server refuses this client; `first` is a connection that
    /// exists already.
    pub(crate) async fn run(self, first: Option<Session>) -> Failure {
        let mut current = first;
        loop {
            let session = match current.take() {
                Some(session) => session,
                None => match self.connect().await {
                    Ok(session) => session,
                    Err(error) => {
                        self.status.send_replace(Status::Refused);
                        return self.dialer.failure(&error);
                    }
                },
            };
            let name = self.dialer.server.address.to_string();
            let observer = self.observer.as_ref();
            let _shown = observer.map(|observer| observer.show(&name, &session.connection));
            self.status.send_replace(Status::Up(session.clone()));
            current = self.watch(session).await;
            if current.is_none() {
                self.status.send_replace(Status::Down);
            }
        }
    }

    /// Tries until it succeeds or is refused.
    async fn connect(&self) -> Result<Session, DialError> {
        let mut pause = PAUSE_MIN;
        let mut is_told = false;
        loop {
            match self.dialer.dial().await {
                Ok(session) => {
                    let server = &self.dialer.server.address;
                    notice(format_args!("connected to {server}"));
                    return Ok(session);
                }
                Err(error @ DialError::Refused(_)) => return Err(error),
                Err(error) => {
                    let failure = self.dialer.failure(&error);
                    if is_told {
                        info!(failure.message, "still trying");
                    } else {
                        notice(format_args!("{}\n  trying again", failure.message));
                        is_told = true;
                    }
                }
            }
            // Someone who waits for a stream need not wait for the pause, too;
            // but attempts are never closer than the shortest one.
            sleep(PAUSE_MIN).await;
            let _ = timeout(pause - PAUSE_MIN, self.wanted.notified()).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Returns when the connection has ended, or its successor when it has one.
    async fn watch(&self, session: Session) -> Option<Session> {
        let connection = &session.connection;
        let mut hearing = Hearing::new(connection);
        let mut ticks = interval(LOOK);
        loop {
            tokio::select! {
                error = connection.closed() => {
                    notice(format_args!("the connection ended: {error}"));
                    return None;
                }
                _ = ticks.tick() => {}
            }
            if hearing.unanswered(connection) < SUSPECT_AFTER {
                continue;
            }
            debug!("the connection is silent; trying a new one beside it");
            tokio::select! {
                error = connection.closed() => {
                    notice(format_args!("the connection ended: {error}"));
                    return None;
                }
                dialed = self.dialer.dial() => match dialed {
                    Ok(successor) if hearing.unanswered(connection) < SUSPECT_AFTER => {
                        debug!("the old connection is heard again");
                        successor.connection.close(0, "not needed");
                    }
                    Ok(successor) => {
                        notice("the connection had fallen silent; a new one is up");
                        tokio::spawn(retire(session, hearing));
                        return Some(successor);
                    }
                    Err(error) => debug!(?error, "no new connection either"),
                }
            }
        }
    }
}

/// Lets a replaced connection serve its streams for as long as it is heard.
async fn retire(session: Session, mut hearing: Hearing) {
    let connection = &session.connection;
    let mut ticks = interval(LOOK);
    loop {
        tokio::select! {
            _ = connection.closed() => return,
            _ = ticks.tick() => {}
        }
        let is_silent = hearing.unanswered(connection) >= GIVE_UP_AFTER;
        if is_silent || connection.stats().streams == 0 {
            break;
        }
    }
    session.close("replaced", FAREWELL).await;
}

/// Notices whether what is sent is answered.
#[derive(Debug)]
pub(crate) struct Hearing {
    sent: u64,
    received: u64,
    /// Since when something sent has brought no answer of any kind.
    unanswered_since: Option<Instant>,
}

impl Hearing {
    pub(crate) fn new(connection: &Connection) -> Self {
        let (sent, received) = counts(connection);
        Self {
            sent,
            received,
            unanswered_since: None,
        }
    }

    /// For how long nothing has come although something was sent.
    pub(crate) fn unanswered(&mut self, connection: &Connection) -> Duration {
        let (sent, received) = counts(connection);
        if received != self.received {
            (self.sent, self.received) = (sent, received);
            self.unanswered_since = None;
        } else if sent != self.sent {
            self.sent = sent;
            self.unanswered_since.get_or_insert_with(Instant::now);
        }
        self.unanswered_since
            .map_or(Duration::ZERO, |at| at.elapsed())
    }
}

fn counts(connection: &Connection) -> (u64, u64) {
    let stats = connection.stats();
    (stats.sent.bytes, stats.received.bytes)
}
