//! The thread of a relay: receive, pass through the links, send, sleep.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use ctcp_link::LinkConfig;
use ctcp_units::{Duration, Instant, Random};

use super::clients::{ClientId, Clients, open_upstream};
use super::forward::{Batch, SendCounts, send_due};
use super::socket::{Receiver, Route, UdpPort};
use super::{RelayConfig, RelayCounters, RelayError};
use crate::buffer::Pool;
use crate::clock::{self, StampConverter};
use crate::line::{Carried, Line};
use crate::poller::{Poller, Waker};
use crate::priority;
use crate::timing::Histogram;

/// Batches received from one port before what is due is sent.
const BATCHES_PER_ROUND: usize = 4;

/// Between two searches for silent clients.
const SWEEP: Duration = Duration::from_secs(1);

/// Token of the listening port; clients have those below.
const LISTEN: u64 = 1 << 32;

/// UDP header and IP header, without options.
const HEADER_BYTES_V4: usize = 8 + 20;
const HEADER_BYTES_V6: usize = 8 + 40;

/// What the handle asks for, and where the answer goes.
pub(super) enum Command {
    Counters(mpsc::Sender<RelayCounters>),
    Reconfigure(Box<(LinkConfig, LinkConfig)>, mpsc::Sender<()>),
    Rebind(mpsc::Sender<io::Result<usize>>),
    Stop,
}

/// What a relay consists of before its thread runs; all of it can be sent there.
pub(super) struct Worker {
    config: RelayConfig,
    local_addr: SocketAddr,
    listen: UdpPort,
    poller: Poller,
}

impl Worker {
    pub(super) fn new(config: RelayConfig) -> Result<Self, RelayError> {
        config.up.validate().map_err(RelayError::Up)?;
        config.down.validate().map_err(RelayError::Down)?;
        if config.clients_max == 0 {
            return Err(RelayError::NoClients);
        }
        let target_error = |source| RelayError::Target {
            addr: config.target,
            source,
        };
        if config.target.port() == 0 || config.target.ip().is_unspecified() {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "not an address to send to");
            return Err(target_error(source));
        }
        open_upstream(config.target).map_err(target_error)?;
        let listen_error = |source| RelayError::Listen {
            addr: config.listen,
            source,
        };
        let listen = UdpPort::open(config.listen, None).map_err(listen_error)?;
        let local_addr = listen.local_addr().map_err(listen_error)?;
        if local_addr == config.target {
            return Err(RelayError::Loop { addr: local_addr });
        }
        let poller = Poller::new().map_err(RelayError::Resources)?;
        poller
            .add(listen.as_socket(), LISTEN)
            .map_err(RelayError::Resources)?;
        Ok(Self {
            config,
            local_addr,
            listen,
            poller,
        })
    }

    pub(super) fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    pub(super) fn waker(&self) -> Waker {
        self.poller.waker()
    }

    /// Runs in a thread of its own, which ends with the last counters.
    pub(super) fn spawn(
        self,
        inbox: mpsc::Receiver<Command>,
    ) -> io::Result<JoinHandle<RelayCounters>> {
        thread::Builder::new()
            .name("ctcp-relay".to_owned())
            .spawn(move || {
                priority::ask_to_be_nimble();
                let mut running = Running::new(self);
                if let Err(error) = running.run(&inbox) {
                    tracing::error!(%error, "the relay ends");
                }
                running.counters()
            })
    }
}

/// A relay at work.
struct Running {
    /// Whether our address has to be said with each answer: only if there are
    /// several.
    names_source: bool,
    listen: UdpPort,
    poller: Poller,
    clients: Clients,
    clients_refused: u64,
    receive_errors: u64,
    /// Bytes of headers that the links charge for beside the payload.
    header_bytes: usize,
    up: Line<ClientId>,
    down: Line<ClientId>,
    pool: Pool,
    receiver: Receiver,
    batch: Batch,
    timing: Histogram,
    sent: SendCounts,
}

impl Running {
    fn new(worker: Worker) -> Self {
        let Worker {
            config,
            listen,
            poller,
            ..
        } = worker;
        let now = clock::now();
        let mut random = Random::from_seed(config.seed);
        let header_bytes = match config.target {
            SocketAddr::V4(_) => HEADER_BYTES_V4,
            SocketAddr::V6(_) => HEADER_BYTES_V6,
        };
        let mut direction = |config| {
            Line::new(config, random.next_u64(), now).expect("both configurations were validated")
        };
        Self {
            names_source: config.listen.ip().is_unspecified(),
            listen,
            poller,
            clients: Clients::new(config.target, config.clients_max, config.idle_timeout),
            clients_refused: 0,
            receive_errors: 0,
            header_bytes,
            up: direction(config.up),
            down: direction(config.down),
            pool: Pool::default(),
            receiver: Receiver::new(),
            batch: Batch::default(),
            timing: Histogram::new(),
            sent: SendCounts::default(),
        }
    }

    fn run(&mut self, inbox: &mpsc::Receiver<Command>) -> io::Result<()> {
        let mut ready = Vec::new();
        let mut next_sweep = clock::now() + SWEEP;
        loop {
            let mut until = self.next_event();
            if self.clients.len() > 0 {
                until = Some(until.map_or(next_sweep, |until| until.min(next_sweep)));
            }
            let is_called = self.poller.wait(until, &mut ready)?;
            for &token in &ready {
                if token == LISTEN {
                    self.receive_from_clients();
                } else {
                    self.receive_from_target(token);
                }
            }
            self.send();
            if is_called && !self.obey(inbox) {
                return Ok(());
            }
            let now = clock::now();
            if now >= next_sweep {
                next_sweep = now + SWEEP;
                self.clients.expire(now);
            }
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let up = self.up.link().next_event();
        let down = self.down.link().next_event();
        match (up, down) {
            (Some(up), Some(down)) => Some(up.min(down)),
            (up, down) => up.or(down),
        }
    }

    fn receive_from_clients(&mut self) {
        for _ in 0..BATCHES_PER_ROUND {
            let stamps = StampConverter::read();
            let Self {
                clients,
                up,
                poller,
                clients_refused,
                pool,
                ..
            } = self;
            let (names_source, header_bytes) = (self.names_source, self.header_bytes);
            let received = self.receiver.receive(&self.listen, |datagram| {
                let at = stamps.received_at(datagram.stamp, up.told());
                let ours = datagram.to.filter(|_| names_source);
                match clients.at(datagram.from, ours, stamps.now, poller) {
                    Ok(key) => {
                        let len_bytes = (datagram.bytes.len() + header_bytes) as u32;
                        let bytes = pool.copy(datagram.bytes);
                        up.offer(at, len_bytes, datagram.ecn, Carried { key, bytes });
                    }
                    Err(error) => {
                        tracing::debug!(client = %datagram.from, %error, "client refused");
                        *clients_refused += 1;
                    }
                }
            });
            match received {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    tracing::debug!(%error, "nothing received from the clients");
                    self.receive_errors += 1;
                }
            }
        }
    }

    fn receive_from_target(&mut self, token: u64) {
        // A port may have been closed since it was reported.
        let Some((key, client)) = self.clients.by_token(token) else {
            return;
        };
        let (down, pool, header_bytes) = (&mut self.down, &self.pool, self.header_bytes);
        for _ in 0..BATCHES_PER_ROUND {
            let stamps = StampConverter::read();
            let received = self.receiver.receive(&client.upstream, |datagram| {
                let at = stamps.received_at(datagram.stamp, down.told());
                let len_bytes = (datagram.bytes.len() + header_bytes) as u32;
                let bytes = pool.copy(datagram.bytes);
                down.offer(at, len_bytes, datagram.ecn, Carried { key, bytes });
            });
            match received {
                Ok(true) => {}
                Ok(false) => break,
                // Reports about datagrams sent before; each is read but once.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    self.sent.target_refused += 1;
                }
                Err(error) => {
                    tracing::debug!(%error, "nothing received from the target");
                    self.receive_errors += 1;
                }
            }
        }
    }

    fn send(&mut self) {
        let Self {
            clients,
            listen,
            batch,
            timing,
            sent,
            ..
        } = self;
        send_due(&mut self.up, batch, timing, sent, |id| {
            let client = clients.get(id)?;
            let route = Route {
                to: clients.target(),
                from: None,
            };
            Some((&client.upstream, route))
        });
        send_due(&mut self.down, batch, timing, sent, |id| {
            clients.get(id).map(|client| (&*listen, client.back))
        });
    }

    /// Does what the handle asks for; false to end.
    fn obey(&mut self, inbox: &mpsc::Receiver<Command>) -> bool {
        // Whoever asked may have gone; then nobody misses the answer.
        while let Ok(command) = inbox.try_recv() {
            match command {
                Command::Counters(reply) => {
                    let _ = reply.send(self.counters());
                }
                Command::Reconfigure(configs, reply) => {
                    let (up, down) = *configs;
                    let now = clock::now();
                    for (direction, config) in [(&mut self.up, up), (&mut self.down, down)] {
                        direction
                            .reconfigure(now, config)
                            .expect("the handle validates before it asks");
                    }
                    let _ = reply.send(());
                }
                Command::Rebind(reply) => {
                    let _ = reply.send(self.clients.rebind(&self.poller));
                }
                Command::Stop => return false,
            }
        }
        true
    }

    fn counters(&mut self) -> RelayCounters {
        let now = clock::now();
        self.up.advance(now);
        self.down.advance(now);
        RelayCounters {
            up: self.up.link().counters(),
            down: self.down.link().counters(),
            timing: self.timing.summary(),
            clients: self.clients.len() as u64,
            clients_seen: self.clients.seen,
            clients_evicted: self.clients.evicted,
            clients_expired: self.clients.expired,
            clients_refused: self.clients_refused,
            target_refused: self.sent.target_refused,
            send_errors: self.sent.send_errors,
            receive_errors: self.receive_errors,
            strayed: self.sent.strayed,
        }
    }
}
