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
use ctcp_proto::crypto::SecretRandom;
use ctcp_proto::stream::Read;
use ctcp_proto::{
    Authorize, Connection, ConnectionHandle, Ecn, Endpoint, EndpointConfig, Event, Identity,
    OpenPathError, PathEvent, PathOptions, PublicKey, TransportConfig, Verdict,
};
use ctcp_units::{Duration, Instant, PathId, Random, StreamId};

use crate::support::{AllowOnly, HEADERS_LEN, SERVER, Which, pattern};

/// A datagram on its way.
#[derive(Debug, Clone)]
struct Datagram {
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
}

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

pub struct End {
    pub endpoint: Endpoint,
    pub connections: BTreeMap<ConnectionHandle, Connection>,
    pub events: Vec<Event>,
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
    pub trace: u64,
    pub datagrams: u64,
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
        let mut seed32 = || {
            let mut bytes = [0; 32];
            random.fill(&mut bytes);
            bytes
        };
        let client_identity = Identity::generate(&mut SecretRandom::from_seed(seed32()));
        let server_identity = Identity::generate(&mut SecretRandom::from_seed(seed32()));
        let server_key = *server_identity.public();
        let allow: Box<dyn Authorize> = Box::new(AllowOnly(vec![*client_identity.public()]));
        let end = |identity, authorize, transport, seed| End {
            endpoint: Endpoint::new(
                EndpointConfig {
                    identity,
                    authorize,
                    transport,
                    has_aes: true,
                    connections_max: 100,
                },
                seed,
            )
            .unwrap(),
            connections: BTreeMap::new(),
            events: Vec::new(),
        };
        let client = end(client_identity, None, client, seed32());
        let server = end(server_identity, Some(allow), server, seed32());
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
            trace: 0,
            datagrams: 0,
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
        let wall = self.now.as_nanos();
        let connecting =
            self.client
                .endpoint
                .connect(self.now, wall, server_address(), self.server_key, &[]);
        let (handle, connection) = connecting.unwrap();
        self.client.connections.insert(handle, connection);
        self.routes.insert(PathId(0), 0);
        self.drain();
        let is_connected = self.run_until(Duration::from_secs(20), |world| {
            world.client.events.contains(&Event::Connected)
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
        let connections = &mut self.end(which).connections;
        let open = connections
            .iter()
            .find(|(_, connection)| connection.is_open());
        let handle = *open.or_else(|| connections.iter().next())?.0;
        connections.get_mut(&handle)
    }

    pub fn saw_path(&mut self, which: Which, event: PathEvent) -> bool {
        self.end(which).events.contains(&Event::Path(event))
    }

    pub fn drain(&mut self) {
        self.drain_end(Which::Client);
        self.drain_end(Which::Server);
    }

    fn drain_end(&mut self, which: Which) {
        let mut out = Vec::new();
        let now = self.now;
        let mut sent = Vec::new();
        let end = self.end(which);
        while let Some(transmit) = end.endpoint.poll_transmit(&mut out) {
            sent.push((transmit, out.clone()));
        }
        let mut gone = Vec::new();
        for (handle, connection) in &mut end.connections {
            let mut rounds = 0;
            while let Some(transmit) = connection.poll_transmit(now, &mut out, 10) {
                assert_eq!(transmit.len, out.len());
                sent.push((transmit, out.clone()));
                rounds += 1;
                assert!(rounds < 100_000, "there is always something more to send");
            }
            while let Some(event) = connection.poll_event() {
                end.events.push(event);
            }
            if connection.is_drained() {
                gone.push(*handle);
            }
        }
        for handle in gone {
            end.connections.remove(&handle);
            end.endpoint.forget(handle);
        }
        for (transmit, bytes) in sent {
            let ecn = match transmit.ecn {
                None => ctcp_link::Ecn::NotEct,
                Some(Ecn::Ect0) => ctcp_link::Ecn::Ect0,
                Some(Ecn::Ect1) => ctcp_link::Ecn::Ect1,
                Some(Ecn::Ce) => ctcp_link::Ecn::Ce,
            };
            for segment in bytes.chunks(transmit.segment_len) {
                self.trace = self.trace.rotate_left(5) ^ now.as_nanos() ^ segment.len() as u64;
                let start = segment.len().saturating_sub(8);
                for byte in &segment[start..] {
                    self.trace = self.trace.wrapping_mul(0x100_0000_01b3) ^ u64::from(*byte);
                }
                self.datagrams += 1;
                self.send(which, transmit.path, transmit.remote, segment, ecn);
            }
        }
    }

    fn send(
        &mut self,
        which: Which,
        path: PathId,
        remote: SocketAddr,
        bytes: &[u8],
        ecn: ctcp_link::Ecn,
    ) {
        let wire_len = bytes.len() as u32 + HEADERS_LEN;
        let (index, from) = match which {
            Which::Client => {
                let Some(index) = self.routes.get(&path).copied() else {
                    return;
                };
                (index, client_address(index, self.networks[index].nat_port))
            }
            Which::Server => match remote.ip() {
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
            to: remote,
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
        link.send(now, Packet::new(wire_len, datagram).ecn(ecn));
    }

    fn next_time(&self) -> Option<Instant> {
        let timers = [&self.client, &self.server].into_iter().flat_map(|end| {
            let connections = end.connections.values();
            connections.filter_map(Connection::poll_timeout)
        });
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
            let is_due =
                |connection: &Connection| connection.poll_timeout().is_some_and(|at| at <= next);
            for round in 0.. {
                let end = self.end(which);
                for connection in end.connections.values_mut().filter(|c| is_due(c)) {
                    connection.handle_timeout(next);
                }
                self.drain_end(which);
                if !self.end(which).connections.values().any(is_due) {
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
        let ecn = match delivered.ecn {
            ctcp_link::Ecn::NotEct => None,
            ctcp_link::Ecn::Ect0 => Some(Ecn::Ect0),
            ctcp_link::Ecn::Ect1 => Some(Ecn::Ect1),
            ctcp_link::Ecn::Ce => Some(Ecn::Ce),
        };
        let network = &self.networks[network];
        let is_for = which == Which::Server || datagram.to.port() == network.nat_port;
        if network.is_dead || !is_for {
            return;
        }
        let end = self.end(which);
        let verdict =
            end.endpoint
                .handle_datagram(now, now.as_nanos(), datagram.from, &datagram.bytes);
        match verdict {
            Verdict::Dropped | Verdict::Replied => {}
            Verdict::Accepted { handle, connection } => {
                end.connections.insert(handle, *connection);
            }
            Verdict::Route { handle, path } => {
                if let Some(connection) = end.connections.get_mut(&handle) {
                    connection.handle_datagram(now, path, datagram.from, ecn, &mut datagram.bytes);
                }
            }
        }
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
