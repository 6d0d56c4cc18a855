//! Two endpoints with several paths between them, in virtual time.
//!
//! Each path is a network of its own: two links, and a NAT whose port can change.
//! The client has an address in each. As `support::World`, but for many
//! paths and one connection.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file uses its own part"
)]

use std::collections::BTreeMap;
use std::net::SocketAddr;

use ctcp_link::{Link, LinkConfig, Packet};
use ctcp_proto::stream::Read;
use ctcp_proto::{
    Connection, Event, OpenPathError, PathEvent, PathOptions, PublicKey, Transmit, TransportConfig,
};
use ctcp_units::{Duration, Instant, PathId, Random, StreamId};

use crate::support::{Datagram, End, HEADERS_LEN, SERVER, Trace, Which, pair, pattern, to_link};

/// One network between client and server.
pub struct Network {
    up: Link<Datagram>,
    down: Link<Datagram>,
    /// The port that the NAT gives the client there.
    pub nat_port: u16,
    /// Nothing passes.
    pub is_dead: bool,
    /// Bytes of IP packets that the server sent there.
    pub wire_bytes_down: u64,
    /// Bytes of IP packets that the client sent there.
    pub wire_bytes_up: u64,
}

pub struct Multi {
    pub now: Instant,
    pub client: End,
    pub server: End,
    pub networks: Vec<Network>,
    /// The network that each of the client's paths uses.
    pub routes: BTreeMap<PathId, usize>,
    pub server_key: PublicKey,
    pub random: Random,
    pub trace: Trace,
    /// Steps since time went on.
    steps_here: u32,
}

pub fn client_address(network: usize, port: u16) -> SocketAddr {
    SocketAddr::from(([10, 1, network as u8, 1], port))
}

pub fn server_address() -> SocketAddr {
    SERVER.parse().unwrap()
}

impl Multi {
    /// Networks by their links up and down.
    pub fn new(
        seed: u64,
        networks: &[(LinkConfig, LinkConfig)],
        client: TransportConfig,
        server: TransportConfig,
    ) -> Self {
        let mut random = Random::from_seed(seed);
        let (client, server, server_key) = pair(&mut random, client, server);
        let now = Instant::from_nanos(1_000_000_000);
        let networks = networks
            .iter()
            .map(|(up, down)| Network {
                up: Link::new(up.clone(), random.next_u64(), now).unwrap(),
                down: Link::new(down.clone(), random.next_u64(), now).unwrap(),
                nat_port: 1000,
                is_dead: false,
                wire_bytes_down: 0,
                wire_bytes_up: 0,
            })
            .collect();
        Self {
            now,
            client,
            server,
            networks,
            routes: BTreeMap::new(),
            server_key,
            random,
            trace: Trace::default(),
            steps_here: 0,
        }
    }

    pub fn set_links(&mut self, network: usize, up: LinkConfig, down: LinkConfig) {
        let now = self.now;
        let network = &mut self.networks[network];
        network.up.reconfigure(now, up).unwrap();
        network.down.reconfigure(now, down).unwrap();
    }

    /// Connects over the first network; panics if that takes 10 s.
    pub fn connect(&mut self) {
        let key = self.server_key;
        self.client.connect(self.now, server_address(), key);
        self.routes.insert(PathId(0), 0);
        self.drain();
        let is_connected = self.run_until(Duration::from_secs(20), |world| {
            world.client.saw(|event| *event == Event::Connected)
        });
        assert!(is_connected, "no connection");
        let (now, local) = (self.now, client_address(0, 1000));
        let client = self.connection(Which::Client).unwrap();
        client.set_path_local(now, PathId(0), local, false).unwrap();
    }

    /// Opens a path over a network.
    pub fn open_path(&mut self, network: usize, options: &PathOptions) -> PathId {
        self.try_open_path(network, options).unwrap()
    }

    /// The same where it may be refused.
    pub fn try_open_path(
        &mut self,
        network: usize,
        options: &PathOptions,
    ) -> Result<PathId, OpenPathError> {
        let now = self.now;
        let local = client_address(network, 1000);
        let client = self.connection(Which::Client).expect("it is open");
        let path = client.open_path(now, local, server_address(), options)?;
        self.routes.insert(path, network);
        self.drain();
        Ok(path)
    }

    pub fn close_path(&mut self, path: PathId) -> bool {
        let now = self.now;
        let client = self.connection(Which::Client).unwrap();
        let is_closed = client.close_path(now, path).is_ok();
        self.drain();
        is_closed
    }

    pub fn end(&mut self, which: Which) -> &mut End {
        match which {
            Which::Client => &mut self.client,
            Which::Server => &mut self.server,
        }
    }

    pub fn connection(&mut self, which: Which) -> Option<&mut Connection> {
        self.end(which).connection()
    }

    pub fn saw_path(&mut self, which: Which, event: PathEvent) -> bool {
        self.end(which).saw(|seen| *seen == Event::Path(event))
    }

    pub fn drain(&mut self) {
        self.drain_end(Which::Client);
        self.drain_end(Which::Server);
    }

    fn drain_end(&mut self, which: Which) {
        let now = self.now;
        for (transmit, bytes) in self.end(which).poll(now) {
            for segment in bytes.chunks(transmit.segment_len) {
                self.trace.add(now, segment);
                self.send(which, &transmit, segment);
            }
        }
    }

    fn send(&mut self, which: Which, transmit: &Transmit, bytes: &[u8]) {
        let wire_len = bytes.len() as u32 + HEADERS_LEN;
        let (index, from) = match which {
            Which::Client => {
                let Some(index) = self.routes.get(&transmit.path).copied() else {
                    return;
                };
                (index, client_address(index, self.networks[index].nat_port))
            }
            Which::Server => match transmit.remote.ip() {
                std::net::IpAddr::V4(ip) => (usize::from(ip.octets()[2]), server_address()),
                std::net::IpAddr::V6(_) => unreachable!("addresses are IPv4 here"),
            },
        };
        let now = self.now;
        let network = &mut self.networks[index];
        if network.is_dead {
            return;
        }
        let datagram = Datagram {
            from,
            to: transmit.remote,
            bytes: bytes.to_vec(),
        };
        let link = match which {
            Which::Client => {
                network.wire_bytes_up += u64::from(wire_len);
                &mut network.up
            }
            Which::Server => {
                network.wire_bytes_down += u64::from(wire_len);
                &mut network.down
            }
        };
        link.send(
            now,
            Packet::new(wire_len, datagram).ecn(to_link(transmit.ecn)),
        );
    }

    fn next_time(&self) -> Option<Instant> {
        let timers = self.client.timers().chain(self.server.timers());
        let links = self.networks.iter();
        let links = links.flat_map(|network| [network.up.next_event(), network.down.next_event()]);
        timers.chain(links.flatten()).min()
    }

    /// Who wants to be woken when, for people.
    fn deadlines(&self) -> Vec<Option<Instant>> {
        let ends = [&self.client, &self.server].into_iter();
        let timers = ends.flat_map(|end| end.connections.values().map(Connection::poll_timeout));
        let links = self.networks.iter();
        let links = links.flat_map(|network| [network.up.next_event(), network.down.next_event()]);
        timers.chain(links).collect()
    }

    /// Goes to the next moment at which something happens, `limit` at the latest;
    /// false if that is reached.
    pub fn step(&mut self, limit: Instant) -> bool {
        let next = self.next_time().unwrap_or(limit).min(limit).max(self.now);
        self.steps_here = if next > self.now {
            0
        } else {
            self.steps_here + 1
        };
        assert!(
            self.steps_here < 10_000,
            "time stands still at {next}: {:?}",
            self.deadlines()
        );
        self.now = next;
        for index in 0..self.networks.len() {
            while let Some(delivered) = self.networks[index].up.poll_delivery(next) {
                self.deliver(Which::Server, index, delivered);
            }
            while let Some(delivered) = self.networks[index].down.poll_delivery(next) {
                self.deliver(Which::Client, index, delivered);
            }
        }
        for which in [Which::Client, Which::Server] {
            for round in 0.. {
                self.end(which).wake(next);
                self.drain_end(which);
                if self.end(which).timers().all(|at| at > next) {
                    break;
                }
                assert!(round < 5, "{which:?}: a deadline that has passed stays");
            }
        }
        next < limit
    }

    fn deliver(&mut self, which: Which, network: usize, delivered: ctcp_link::Delivered<Datagram>) {
        let now = self.now;
        let mut datagram = delivered.payload;
        if let Some(corruption) = delivered.corruption {
            corruption.apply(&mut datagram.bytes);
        }
        let network = &self.networks[network];
        let is_for = which == Which::Server || datagram.to.port() == network.nat_port;
        if network.is_dead || !is_for {
            return;
        }
        self.end(which).handle(now, delivered.ecn, datagram);
        self.drain_end(which);
    }

    pub fn run_for(&mut self, span: Duration) {
        let limit = self.now + span;
        while self.step(limit) {}
    }

    /// Runs until `done`, at most `span`; returns whether it came to that.
    pub fn run_until(&mut self, span: Duration, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let limit = self.now + span;
        loop {
            if done(self) {
                return true;
            }
            if !self.step(limit) {
                return done(self);
            }
        }
    }
}

/// A download: the server writes, the client reads and checks every byte.
pub struct Download {
    request: StreamId,
    serving: Option<StreamId>,
    len: u64,
    pub written: u64,
    pub read: u64,
    pub is_done: bool,
    /// Longest time between two moments at which bytes came, and when it ended.
    pub gap: (Duration, Instant),
    last_bytes: Instant,
    buf: Vec<u8>,
}

impl Download {
    /// Asks for `len` bytes; `u64::MAX` never ends.
    pub fn begin(world: &mut Multi, len: u64) -> Self {
        let now = world.now;
        let client = world.connection(Which::Client).unwrap();
        let request = client.open_stream().unwrap();
        assert_eq!(client.write(request, b"get"), Ok(3));
        client.finish(request).unwrap();
        world.drain();
        Self {
            request,
            serving: None,
            len,
            written: 0,
            read: 0,
            is_done: false,
            gap: (Duration::ZERO, now),
            last_bytes: now,
            buf: vec![0; 1 << 16],
        }
    }

    /// Writes and reads what can be; returns whether all has come.
    pub fn pump(&mut self, world: &mut Multi) -> bool {
        self.write(world, u64::MAX);
        self.read(world);
        world.drain();
        self.is_done
    }

    /// Writes up to `most` bytes.
    pub fn write(&mut self, world: &mut Multi, most: u64) {
        let Some(server) = world.connection(Which::Server) else {
            return;
        };
        self.serving = self.serving.or_else(|| server.accept_stream());
        let Some(id) = self.serving else { return };
        while let Ok(Read::Bytes(_)) = server.read(id, &mut self.buf) {}
        let end = self.len.min(self.written.saturating_add(most));
        while self.written < end {
            let chunk: Vec<u8> = (self.written..end.min(self.written + 8192))
                .map(|offset| pattern(7, offset))
                .collect();
            let Ok(count) = server.write(id, &chunk) else {
                break;
            };
            self.written += count as u64;
            if self.written == self.len {
                server.finish(id).unwrap();
            }
        }
    }

    pub fn read(&mut self, world: &mut Multi) {
        let now = world.now;
        let client = world.connection(Which::Client).unwrap();
        loop {
            match client.read(self.request, &mut self.buf) {
                Ok(Read::Bytes(count)) => {
                    for byte in &self.buf[..count] {
                        assert_eq!(*byte, pattern(7, self.read), "byte {}", self.read);
                        self.read += 1;
                    }
                    let gap = now - self.last_bytes;
                    if gap > self.gap.0 {
                        self.gap = (gap, now);
                    }
                    self.last_bytes = now;
                }
                Ok(Read::End) => {
                    self.is_done = true;
                    break;
                }
                Err(_) => break,
            }
        }
    }
}
