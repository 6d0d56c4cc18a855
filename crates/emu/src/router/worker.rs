//! The thread of a router: take in, pass through the links, put out, sleep.

use std::io;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use ctcp_link::{LinkConfig, LinkCounters};
use ctcp_units::{Duration, Instant, Random};

use super::{
    CHAIN_LINKS_MAX, PathCounters, QueueSample, RouterConfig, RouterCounters, RouterError,
    RouterPath,
};
use crate::attachment::Attachment;
use crate::buffer::Pool;
use crate::clock;
use crate::line::{Carried, Line};
use crate::packet;
use crate::poller::{Poller, Waker};
use crate::priority;
use crate::timing::Histogram;

/// Packets taken in from one attachment before the others have their turn.
const PACKETS_PER_ROUND: usize = 64;

/// Longest packet there can be, its link's header included.
const PACKET_BYTES: usize = 65_536 + 64;

/// What the handle asks for, and where the answer goes.
pub(super) enum Command {
    Counters(mpsc::Sender<RouterCounters>),
    Reconfigure(usize, Box<LinkConfig>, mpsc::Sender<()>),
    SetUp {
        index: usize,
        is_up: bool,
        reply: mpsc::Sender<()>,
    },
    Sample {
        interval: Duration,
        samples: mpsc::Sender<QueueSample>,
        reply: mpsc::Sender<()>,
    },
    Stop,
}

/// What a router consists of before its thread runs.
pub(super) struct Worker {
    config: RouterConfig,
    poller: Poller,
    started: Instant,
}

impl Worker {
    pub(super) fn new(config: RouterConfig) -> Result<Self, RouterError> {
        for (index, link) in config.links.iter().enumerate() {
            link.validate()
                .map_err(|source| RouterError::Link { index, source })?;
        }
        let poller = Poller::new().map_err(RouterError::Resources)?;
        for (index, path) in config.paths.iter().enumerate() {
            check_path(index, path, config.links.len())?;
            for (side, end) in [&path.left, &path.right].into_iter().enumerate() {
                poller
                    .add(end, (index * 2 + side) as u64)
                    .map_err(RouterError::Resources)?;
            }
        }
        Ok(Self {
            config,
            poller,
            started: clock::now(),
        })
    }

    pub(super) fn waker(&self) -> Waker {
        self.poller.waker()
    }

    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// Runs in a thread of its own, which ends with the last counters.
    pub(super) fn spawn(
        self,
        inbox: mpsc::Receiver<Command>,
    ) -> io::Result<JoinHandle<RouterCounters>> {
        thread::Builder::new()
            .name("ctcp-router".to_owned())
            .spawn(move || {
                priority::ask_to_be_first();
                let mut running = Running::new(self);
                if let Err(error) = running.run(&inbox) {
                    tracing::error!(%error, "the router ends");
                }
                running.counters()
            })
    }
}

fn check_path(index: usize, path: &RouterPath, link_count: usize) -> Result<(), RouterError> {
    for chain in [&path.forward, &path.backward] {
        if chain.is_empty() || chain.len() > CHAIN_LINKS_MAX {
            let count = chain.len();
            return Err(RouterError::Chain { index, count });
        }
        if let Some(&index) = chain.iter().find(|&&link| link >= link_count) {
            let count = link_count;
            return Err(RouterError::NoSuchLink { index, count });
        }
    }
    match path.left.kind() == path.right.kind() {
        true => Ok(()),
        false => Err(RouterError::Attachments { index }),
    }
}

/// Where a packet is on its way.
#[derive(Debug, Clone, Copy)]
struct Hop {
    path: u32,
    is_forward: bool,
    /// Place in the chain of links.
    place: u8,
}

/// A path at work.
struct Path {
    config: RouterPath,
    is_up: bool,
    counters: PathCounters,
}

impl Path {
    fn chain(&self, is_forward: bool) -> &[usize] {
        match is_forward {
            true => &self.config.forward,
            false => &self.config.backward,
        }
    }

    /// Where packets of this direction come out.
    fn exit(&self, is_forward: bool) -> &Attachment {
        match is_forward {
            true => &self.config.right,
            false => &self.config.left,
        }
    }

    fn header_bytes(&self) -> usize {
        self.config.left.header_bytes()
    }
}

/// Who wants to see the queues.
struct Sampling {
    interval: Duration,
    next: Instant,
    samples: mpsc::Sender<QueueSample>,
}

/// A router at work.
struct Running {
    poller: Poller,
    paths: Vec<Path>,
    lines: Vec<Line<Hop>>,
    pool: Pool,
    space: Box<[u8]>,
    timing: Histogram,
    sampling: Option<Sampling>,
    started: Instant,
}

impl Running {
    fn new(worker: Worker) -> Self {
        let Worker {
            config,
            poller,
            started,
        } = worker;
        let mut random = Random::from_seed(config.seed);
        let mut line = |config| {
            Line::new(config, random.next_u64(), started)
                .expect("all configurations were validated")
        };
        let path = |config| Path {
            config,
            is_up: true,
            counters: PathCounters::default(),
        };
        Self {
            poller,
            paths: config.paths.into_iter().map(path).collect(),
            lines: config.links.into_iter().map(&mut line).collect(),
            pool: Pool::default(),
            space: vec![0; PACKET_BYTES].into(),
            timing: Histogram::new(),
            sampling: None,
            started,
        }
    }

    fn run(&mut self, inbox: &mpsc::Receiver<Command>) -> io::Result<()> {
        let mut ready = Vec::new();
        loop {
            let due = self.next_due().map(|(at, _)| at);
            let sample = self.sampling.as_ref().map(|sampling| sampling.next);
            let until = match (due, sample) {
                (Some(due), Some(sample)) => Some(due.min(sample)),
                (due, sample) => due.or(sample),
            };
            let is_called = self.poller.wait(until, &mut ready)?;
            // What was due before the arrivals goes ahead of them.
            self.forward_due();
            for &token in &ready {
                self.take_in(token as usize);
            }
            self.forward_due();
            self.sample();
            if is_called && !self.obey(inbox) {
                return Ok(());
            }
        }
    }

    /// The link at which something happens next, and when.
    fn next_due(&self) -> Option<(Instant, usize)> {
        let events = self.lines.iter().enumerate();
        events
            .filter_map(|(index, line)| Some((line.link().next_event()?, index)))
            .min()
    }

    /// Takes in what one attachment has.
    fn take_in(&mut self, token: usize) {
        let Self {
            paths,
            lines,
            pool,
            space,
            ..
        } = self;
        let (index, is_forward) = (token / 2, token.is_multiple_of(2));
        let Some(path) = paths.get_mut(index) else {
            return;
        };
        let entrance = match is_forward {
            true => &path.config.left,
            false => &path.config.right,
        };
        let header_bytes = path.header_bytes();
        let line = &mut lines[path.chain(is_forward)[0]];
        let key = Hop {
            path: index as u32,
            is_forward,
            place: 0,
        };
        for _ in 0..PACKETS_PER_ROUND {
            let bytes = match entrance.read(space) {
                Ok(Some(bytes)) => bytes,
                Ok(None) => return,
                Err(error) => {
                    tracing::debug!(path = index, %error, "nothing read");
                    path.counters.read_errors += 1;
                    return;
                }
            };
            let Some(ecn) = bytes.get(header_bytes..).and_then(packet::ecn) else {
                continue;
            };
            match is_forward {
                true => path.counters.from_left += 1,
                false => path.counters.from_right += 1,
            }
            if !path.is_up {
                path.counters.dropped_down += 1;
                continue;
            }
            let len_bytes = (bytes.len() - header_bytes) as u32;
            let bytes = pool.copy(bytes);
            line.offer(clock::now(), len_bytes, ecn, Carried { key, bytes });
        }
    }

    /// Lets all links do what is due by now, in order of time: what leaves one
    /// link enters the next at the moment it was due.
    fn forward_due(&mut self) {
        let now = clock::now();
        while let Some((at, index)) = self.next_due() {
            if at > now {
                return;
            }
            while let Some(delivered) = self.lines[index].next(at) {
                self.deliver(delivered);
            }
        }
    }

    fn deliver(&mut self, delivered: ctcp_link::Delivered<Carried<Hop>>) {
        let Carried { key, mut bytes } = delivered.payload;
        let path = &mut self.paths[key.path as usize];
        let header_bytes = path.header_bytes();
        let ip = &mut bytes[header_bytes..];
        if let Some(corruption) = delivered.corruption {
            corruption.apply(ip);
        }
        let place = key.place + 1;
        if let Some(&next) = path.chain(key.is_forward).get(usize::from(place)) {
            let key = Hop { place, ..key };
            let carried = Carried { key, bytes };
            self.lines[next].offer(delivered.due, delivered.len_bytes, delivered.ecn, carried);
            return;
        }
        if !path.is_up {
            path.counters.dropped_down += 1;
            return;
        }
        if packet::ecn(ip).is_some_and(|ecn| ecn != delivered.ecn) && delivered.corruption.is_none()
        {
            packet::set_ecn(ip, delivered.ecn);
        }
        self.timing.record(delivered.due, clock::now());
        match path.exit(key.is_forward).write(&bytes) {
            Ok(()) if key.is_forward => path.counters.to_right += 1,
            Ok(()) => path.counters.to_left += 1,
            Err(error) => {
                tracing::debug!(path = key.path, %error, "packet not written");
                path.counters.write_errors += 1;
            }
        }
    }

    fn sample(&mut self) {
        let Some(sampling) = &mut self.sampling else {
            return;
        };
        let now = clock::now();
        if now < sampling.next {
            return;
        }
        sampling.next = now + sampling.interval;
        let mut sample = QueueSample {
            at: now - self.started,
            queue_packets: Vec::with_capacity(self.lines.len()),
            queue_bytes: Vec::with_capacity(self.lines.len()),
        };
        for line in &self.lines {
            let counters = line.link().counters();
            sample.queue_packets.push(counters.queue_packets);
            sample.queue_bytes.push(counters.queue_bytes);
        }
        if sampling.samples.send(sample).is_err() {
            self.sampling = None;
        }
    }

    /// Does what the handle asks for; false to end.
    fn obey(&mut self, inbox: &mpsc::Receiver<Command>) -> bool {
        // Whoever asked may have gone; then nobody misses the answer.
        while let Ok(command) = inbox.try_recv() {
            match command {
                Command::Counters(reply) => {
                    let _ = reply.send(self.counters());
                }
                Command::Reconfigure(index, config, reply) => {
                    self.lines[index]
                        .reconfigure(clock::now(), *config)
                        .expect("the handle validates before it asks");
                    let _ = reply.send(());
                }
                Command::SetUp {
                    index,
                    is_up,
                    reply,
                } => {
                    self.paths[index].is_up = is_up;
                    let _ = reply.send(());
                }
                Command::Sample {
                    interval,
                    samples,
                    reply,
                } => {
                    let next = clock::now() + interval;
                    self.sampling = Some(Sampling {
                        interval,
                        next,
                        samples,
                    });
                    let _ = reply.send(());
                }
                Command::Stop => return false,
            }
        }
        true
    }

    fn counters(&mut self) -> RouterCounters {
        RouterCounters {
            links: self.link_counters(),
            paths: self.paths.iter().map(|path| path.counters).collect(),
            timing: self.timing.summary(),
            age: clock::now() - self.started,
            busy: clock::thread_time(),
        }
    }

    fn link_counters(&mut self) -> Vec<LinkCounters> {
        let lines = self.lines.iter_mut();
        lines.map(|line| line.link().counters()).collect()
    }
}
