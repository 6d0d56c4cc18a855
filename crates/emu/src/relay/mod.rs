//! A UDP relay behind an emulated path.
//!
//! ```text
//!  client ─▶ listening port ─▶ up link ─▶ a port per client ─▶ target
//!  client ◀─ listening port ◀─ down link ◀─ a port per client ◀─ target
//! ```
//!
//! All clients share the two links. Each has a port of its own towards the
//! target, as behind a NAT, so that the target can tell them apart. The links
//! charge for the UDP payload and the headers of UDP and IP; ECN bits go
//! through, with the marks of the links' queues.
//!
//! The relay runs in a thread of its own and is driven by a [`RelayHandle`].

mod clients;
mod forward;
mod socket;
mod worker;

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::JoinHandle;

use ctcp_link::{ConfigError, LinkConfig, LinkCounters};
use ctcp_units::{Duration, seconds};
use thiserror::Error;

use crate::poller::Waker;
use crate::timing::TimingError;
use worker::{Command, Worker};

/// Default limit on clients at once. Each needs a file descriptor, of which a
/// process usually has 1024.
pub const CLIENTS_MAX: usize = 512;

/// How long a client may be silent by default: what RFC 4787 asks of NATs.
pub const IDLE_TIMEOUT: Duration = seconds(120);

/// What a relay is to do.
#[derive(Debug, Clone)]
pub struct RelayConfig {
    /// Where clients send to; port 0 lets the system pick one.
    pub listen: SocketAddr,
    /// Whom they reach.
    pub target: SocketAddr,
    /// The link from the clients to the target.
    pub up: LinkConfig,
    /// The link back.
    pub down: LinkConfig,
    /// Names the random choices of both links.
    pub seed: u64,
    /// Most clients at once; one more replaces the one silent for longest.
    pub clients_max: usize,
    /// A client silent for this long is forgotten.
    pub idle_timeout: Duration,
}

impl RelayConfig {
    /// A relay with seed 0 and the default limits.
    pub fn new(listen: SocketAddr, target: SocketAddr, up: LinkConfig, down: LinkConfig) -> Self {
        Self {
            listen,
            target,
            up,
            down,
            seed: 0,
            clients_max: CLIENTS_MAX,
            idle_timeout: IDLE_TIMEOUT,
        }
    }

    /// Sets the seed.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }
}

/// Why a relay does not run, or does not do what it was asked.
#[derive(Debug, Error)]
pub enum RelayError {
    /// The listening port cannot be had.
    #[error(
        "cannot listen on UDP {addr}: {source}; pick a free port (0 lets the system choose) \
         and an address of this machine"
    )]
    Listen {
        /// The address asked for.
        addr: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// Nothing can be sent to the target from this machine.
    #[error("cannot send to UDP {addr}: {source}; the target needs an address, a port and a route")]
    Target {
        /// The address asked for.
        addr: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The target is the relay itself: its datagrams would circle.
    #[error("the relay on UDP {addr} cannot be its own target")]
    Loop {
        /// The address asked for.
        addr: SocketAddr,
    },
    /// The link towards the target cannot be as configured.
    #[error("link up: {0}")]
    Up(#[source] ConfigError),
    /// The link towards the clients cannot be as configured.
    #[error("link down: {0}")]
    Down(#[source] ConfigError),
    /// A relay without clients relays nothing.
    #[error("clients_max is 0: a relay needs room for at least one client")]
    NoClients,
    /// The system refuses a thread or a file descriptor.
    #[error("the relay cannot start: {0}; see `ulimit -n` and `ulimit -u`")]
    Resources(#[source] io::Error),
    /// New ports towards the target cannot be had.
    #[error("no new port towards the target: {0}; see `ulimit -n`")]
    Rebind(#[source] io::Error),
    /// The relay has ended by a failure of the system, which was logged.
    #[error("the relay has ended")]
    Ended,
}

/// What a relay has seen since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RelayCounters {
    /// The link from the clients to the target.
    pub up: LinkCounters,
    /// The link back.
    pub down: LinkCounters,
    /// How late datagrams left, both directions together.
    pub timing: TimingError,
    /// Clients now.
    pub clients: u64,
    /// Clients ever.
    pub clients_seen: u64,
    /// Clients replaced by new ones at the limit.
    pub clients_evicted: u64,
    /// Clients forgotten because they were silent.
    pub clients_expired: u64,
    /// Datagrams dropped because no port could be opened for their sender.
    pub clients_refused: u64,
    /// Times that the target's machine said that nobody listens there.
    pub target_refused: u64,
    /// Datagrams that the system would not send: too long, no route, no buffer.
    pub send_errors: u64,
    /// Receives that failed for another reason than nobody listening.
    pub receive_errors: u64,
    /// Datagrams whose client was gone when they arrived.
    pub strayed: u64,
}

/// The UDP relay; [`Relay::spawn`] starts one.
#[derive(Debug)]
pub struct Relay;

impl Relay {
    /// Starts a relay in a thread of its own.
    ///
    /// # Errors
    /// A [`RelayError`] if an address, a port or a link cannot be as configured;
    /// then nothing was started. A target that does not answer is no error.
    pub fn spawn(config: RelayConfig) -> Result<RelayHandle, RelayError> {
        let worker = Worker::new(config)?;
        let local_addr = worker.local_addr();
        let waker = worker.waker();
        let (commands, inbox) = mpsc::channel();
        let thread = worker.spawn(inbox).map_err(RelayError::Resources)?;
        Ok(RelayHandle {
            local_addr,
            waker,
            commands,
            thread: Some(thread),
        })
    }
}

/// A running relay. Dropping it stops the relay.
#[derive(Debug)]
pub struct RelayHandle {
    local_addr: SocketAddr,
    waker: Waker,
    commands: mpsc::Sender<Command>,
    thread: Option<JoinHandle<RelayCounters>>,
}

impl RelayHandle {
    /// Where clients send to.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// What the relay has seen up to now.
    ///
    /// # Errors
    /// [`RelayError::Ended`].
    pub fn counters(&self) -> Result<RelayCounters, RelayError> {
        self.ask(Command::Counters)
    }

    /// Goes over to other links, from now on; see `Link::reconfigure` for what
    /// stays. When this returns they are in effect.
    ///
    /// # Errors
    /// A configuration that is refused, by name; then nothing changes.
    pub fn reconfigure(&self, up: LinkConfig, down: LinkConfig) -> Result<(), RelayError> {
        up.validate().map_err(RelayError::Up)?;
        down.validate().map_err(RelayError::Down)?;
        self.ask(|reply| Command::Reconfigure(Box::new((up, down)), reply))
    }

    /// Gives every client a new port towards the target, as a NAT does that lost
    /// its state: for the target, the address of each client changes. What was
    /// on its way to the old ports is lost. Returns how many clients there were.
    ///
    /// # Errors
    /// [`RelayError::Rebind`]; the clients served until then keep new ports.
    pub fn rebind(&self) -> Result<usize, RelayError> {
        self.ask(Command::Rebind)?.map_err(RelayError::Rebind)
    }

    /// Stops the relay; what is inside the links is lost. Returns the last
    /// counters.
    ///
    /// # Errors
    /// [`RelayError::Ended`] if it had ended by itself.
    pub fn stop(mut self) -> Result<RelayCounters, RelayError> {
        self.join().ok_or(RelayError::Ended)
    }

    fn ask<R>(&self, command: impl FnOnce(mpsc::Sender<R>) -> Command) -> Result<R, RelayError> {
        let (reply, answer) = mpsc::channel();
        self.commands
            .send(command(reply))
            .map_err(|_| RelayError::Ended)?;
        self.waker.wake();
        answer.recv().map_err(|_| RelayError::Ended)
    }

    fn join(&mut self) -> Option<RelayCounters> {
        let thread = self.thread.take()?;
        let asked = self.commands.send(Command::Stop).is_ok();
        self.waker.wake();
        thread.join().ok().filter(|_| asked)
    }
}

impl Drop for RelayHandle {
    fn drop(&mut self) {
        self.join();
    }
}
