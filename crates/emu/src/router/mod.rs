//! A router whose links lose, delay and limit, between namespaces.
//!
//! ```text
//!            ┌ path ────────────────────────────────────┐
//!  namespace │ attachment ─▶ link ─▶ link ─▶ attachment │ namespace
//!     left   │ attachment ◀─ link ◀──────── attachment  │  right
//!            └──────────────────────────────────────────┘
//! ```
//!
//! A path leads from one attachment to another through a chain of links in each
//! direction. Several paths may go through one link: a shared bottleneck. The
//! links charge for whole IP packets; what a queue marks leaves with ECN's CE.
//! The router changes nothing else: it counts down no hops and sends no ICMP.
//!
//! One thread moves all packets, at the highest priority it may have.

mod worker;

use std::io;
use std::sync::mpsc;
use std::thread::JoinHandle;

use ctcp_link::{ConfigError, LinkConfig, LinkCounters};
use ctcp_units::{Duration, Instant};
use thiserror::Error;

use crate::attachment::Attachment;
use crate::poller::Waker;
use crate::timing::TimingError;
use worker::{Command, Worker};

/// Most links that one direction of a path goes through.
pub const CHAIN_LINKS_MAX: usize = 16;

/// Two attachments and the links between them.
#[derive(Debug)]
pub struct RouterPath {
    /// One end.
    pub left: Attachment,
    /// The other one.
    pub right: Attachment,
    /// Indices of the links from left to right, in order.
    pub forward: Vec<usize>,
    /// Indices of the links from right to left, in order.
    pub backward: Vec<usize>,
}

/// What a router consists of.
#[derive(Debug)]
pub struct RouterConfig {
    /// The links, each of one direction.
    pub links: Vec<LinkConfig>,
    /// The paths.
    pub paths: Vec<RouterPath>,
    /// Names the random choices of all links.
    pub seed: u64,
}

/// Why a router does not run, or does not do what it was asked.
#[derive(Debug, Error)]
pub enum RouterError {
    /// A link cannot be as configured.
    #[error("link {index}: {source}")]
    Link {
        /// Counted from 0.
        index: usize,
        /// What is wrong with it.
        source: ConfigError,
    },
    /// There is no such link.
    #[error("there is no link {index}: there are {count}, counted from 0")]
    NoSuchLink {
        /// What was asked for.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// There is no such path.
    #[error("there is no path {index}: there are {count}, counted from 0")]
    NoSuchPath {
        /// What was asked for.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// A path needs links, and not too many.
    #[error("path {index} goes through {count} links: 1 to {CHAIN_LINKS_MAX} are possible")]
    Chain {
        /// Which path.
        index: usize,
        /// How many links one direction of it has.
        count: usize,
    },
    /// Packets of one kind of attachment do not fit into the other.
    #[error("path {index} has attachments of two kinds")]
    Attachments {
        /// Which path.
        index: usize,
    },
    /// The system refuses a thread or a file descriptor.
    #[error("the router cannot start: {0}; see `ulimit -n` and `ulimit -u`")]
    Resources(#[source] io::Error),
    /// The router has ended by a failure of the system, which was logged.
    #[error("the router has ended")]
    Ended,
}

/// What went over one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathCounters {
    /// Packets taken in at the left end.
    pub from_left: u64,
    /// Packets taken in at the right end.
    pub from_right: u64,
    /// Packets put out at the left end.
    pub to_left: u64,
    /// Packets put out at the right end.
    pub to_right: u64,
    /// Packets dropped because the path was down.
    pub dropped_down: u64,
    /// Packets that the system would not take at the far end.
    pub write_errors: u64,
    /// Reads that failed.
    pub read_errors: u64,
}

/// What a router has seen since it started.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RouterCounters {
    /// The links, by index.
    pub links: Vec<LinkCounters>,
    /// The paths, by index.
    pub paths: Vec<PathCounters>,
    /// How late packets left, compared with the plan of their links.
    pub timing: TimingError,
    /// For how long the router has been running.
    pub age: Duration,
    /// Time that its thread has spent on a processor; `busy / age` near 1 means
    /// that it cannot follow.
    pub busy: Duration,
}

/// What the queues hold at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSample {
    /// When, since the router started.
    pub at: Duration,
    /// Packets in the queue of each link, by index.
    pub queue_packets: Vec<u64>,
    /// Their bytes.
    pub queue_bytes: Vec<u64>,
}

/// The router; [`Router::spawn`] starts one.
#[derive(Debug)]
pub struct Router;

impl Router {
    /// Starts a router in a thread of its own.
    ///
    /// # Errors
    /// A [`RouterError`] that names what is impossible; then nothing was started.
    pub fn spawn(config: RouterConfig) -> Result<RouterHandle, RouterError> {
        let (link_count, path_count) = (config.links.len(), config.paths.len());
        let worker = Worker::new(config)?;
        let (waker, started) = (worker.waker(), worker.started());
        let (commands, inbox) = mpsc::channel();
        let thread = worker.spawn(inbox).map_err(RouterError::Resources)?;
        Ok(RouterHandle {
            link_count,
            path_count,
            started,
            waker,
            commands,
            thread: Some(thread),
        })
    }
}

/// A running router. Dropping it stops the router, and its devices vanish.
#[derive(Debug)]
pub struct RouterHandle {
    link_count: usize,
    path_count: usize,
    started: Instant,
    waker: Waker,
    commands: mpsc::Sender<Command>,
    thread: Option<JoinHandle<RouterCounters>>,
}

impl RouterHandle {
    /// Links there are.
    pub fn link_count(&self) -> usize {
        self.link_count
    }

    /// Paths there are.
    pub fn path_count(&self) -> usize {
        self.path_count
    }

    /// For how long it has been running.
    pub fn age(&self) -> Duration {
        crate::clock::now() - self.started
    }

    /// What the router has seen up to now.
    ///
    /// # Errors
    /// [`RouterError::Ended`].
    pub fn counters(&self) -> Result<RouterCounters, RouterError> {
        self.ask(Command::Counters)
    }

    /// Makes link `index` another one, from now on; see `Link::reconfigure` for
    /// what stays. When this returns it is in effect.
    ///
    /// # Errors
    /// [`RouterError::NoSuchLink`], or [`RouterError::Link`] with the value that
    /// is refused; then nothing changes.
    pub fn reconfigure(&self, index: usize, config: LinkConfig) -> Result<(), RouterError> {
        self.check_link(index)?;
        config
            .validate()
            .map_err(|source| RouterError::Link { index, source })?;
        self.ask(|reply| Command::Reconfigure(index, Box::new(config), reply))
    }

    /// Takes path `index` down, or up again. While it is down it drops what comes
    /// in and what would come out; neither end is told.
    ///
    /// # Errors
    /// [`RouterError::NoSuchPath`].
    pub fn set_path_up(&self, index: usize, is_up: bool) -> Result<(), RouterError> {
        let count = self.path_count;
        if index >= count {
            return Err(RouterError::NoSuchPath { index, count });
        }
        self.ask(|reply| Command::SetUp {
            index,
            is_up,
            reply,
        })
    }

    /// Samples the queues every `interval` from now on, until the receiver is
    /// dropped or somebody else asks. An interval below a millisecond is one.
    ///
    /// # Errors
    /// [`RouterError::Ended`].
    pub fn sample_queues(
        &self,
        interval: Duration,
    ) -> Result<mpsc::Receiver<QueueSample>, RouterError> {
        let (samples, receiver) = mpsc::channel();
        self.ask(|reply| Command::Sample {
            interval: interval.max(Duration::from_millis(1)),
            samples,
            reply,
        })?;
        Ok(receiver)
    }

    /// Stops the router; what is inside the links is lost. Returns the last
    /// counters.
    ///
    /// # Errors
    /// [`RouterError::Ended`] if it had ended by itself.
    pub fn stop(mut self) -> Result<RouterCounters, RouterError> {
        self.join().ok_or(RouterError::Ended)
    }

    fn check_link(&self, index: usize) -> Result<(), RouterError> {
        let count = self.link_count;
        match index < count {
            true => Ok(()),
            false => Err(RouterError::NoSuchLink { index, count }),
        }
    }

    fn ask<R>(&self, command: impl FnOnce(mpsc::Sender<R>) -> Command) -> Result<R, RouterError> {
        let (reply, answer) = mpsc::channel();
        self.commands
            .send(command(reply))
            .map_err(|_| RouterError::Ended)?;
        self.waker.wake();
        answer.recv().map_err(|_| RouterError::Ended)
    }

    fn join(&mut self) -> Option<RouterCounters> {
        let thread = self.thread.take()?;
        let asked = self.commands.send(Command::Stop).is_ok();
        self.waker.wake();
        thread.join().ok().filter(|_| asked)
    }
}

impl Drop for RouterHandle {
    fn drop(&mut self) {
        self.join();
    }
}
