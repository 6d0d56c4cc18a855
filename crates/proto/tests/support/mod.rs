//! Two endpoints and the network between them in virtual time.
//!
//! Everything comes from one seed: the network, the endpoints' secrets, the
//! choices of the test. The same seed gives the same trace, byte for byte.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file uses its own part"
)]

use std::collections::BTreeMap;
use std::net::SocketAddr;

use ctcp_link::{Link, LinkConfig, Packet};
use ctcp_proto::crypto::SecretRandom;
use ctcp_proto::{
    Authorize, Connection, ConnectionHandle, Decision, Ecn, Endpoint, EndpointConfig, Event,
    Identity, PublicKey, TransportConfig, Verdict,
};
use ctcp_units::{Duration, Instant, Random};

/// IPv4 and UDP headers, bytes.
pub const HEADERS_LEN: u32 = 28;

pub const CLIENT: &str = "10.0.0.1:1000";
pub const SERVER: &str = "10.0.0.2:4500";

/// Lets in whoever is on the list.
pub struct AllowOnly(pub Vec<PublicKey>);

impl Authorize for AllowOnly {
    fn authorize(&mut self, client: &PublicKey, _invite: &[u8], _wall_nanos: u64) -> Decision {
        if self.0.contains(client) {
            Decision::Allow
        } else {
            Decision::Refuse(ctcp_proto::crypto::Refusal::NotAllowed)
        }
    }
}

/// A datagram on its way.
#[derive(Debug, Clone)]
struct Datagram {
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
}

/// One end: its endpoint and its connections.
pub struct End {
    pub address: SocketAddr,
    pub endpoint: Endpoint,
    pub connections: BTreeMap<ConnectionHandle, Connection>,
    pub events: Vec<(ConnectionHandle, Event)>,
}

/// What one end looks like to the other half of the world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    Client,
    Server,
}

pub struct World {
    pub now: Instant,
    pub client: End,
    pub server: End,
    up: Link<Datagram>,
    down: Link<Datagram>,
    pub random: Random,
    pub server_key: PublicKey,
    /// A running hash over every datagram and its time.
    pub trace: u64,
    pub datagrams: u64,
    pub wire_bytes_down: u64,
    pub wire_bytes_up: u64,
    /// UDP payload sent from and to each address.
    pub bytes_from_to: BTreeMap<(SocketAddr, SocketAddr), u64>,
}

/// A transport for tests: short waits, no keep-alive unless asked for.
pub fn transport() -> TransportConfig {
    TransportConfig::default()
}

impl World {
    pub fn new(seed: u64, up: LinkConfig, down: LinkConfig) -> Self {
        Self::with_transport(seed, up, down, transport(), transport())
    }

    pub fn with_transport(
        seed: u64,
        up: LinkConfig,
        down: LinkConfig,
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
        let allow = AllowOnly(vec![*client_identity.public()]);
        let end = |address: &str, identity, authorize, transport, seed| End {
            address: address.parse().unwrap(),
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
        let client = end(CLIENT, client_identity, None, client, seed32());
        let allow: Box<dyn Authorize> = Box::new(allow);
        let server = end(SERVER, server_identity, Some(allow), server, seed32());
        let now = Instant::from_nanos(1_000_000_000);
        Self {
            now,
            client,
            server,
            up: Link::new(up, random.next_u64(), now).unwrap(),
            down: Link::new(down, random.next_u64(), now).unwrap(),
            random,
            server_key,
            trace: 0,
            datagrams: 0,
            wire_bytes_down: 0,
            wire_bytes_up: 0,
            bytes_from_to: BTreeMap::new(),
        }
    }

    /// Begins a connection; the handle is the client's.
    pub fn connect(&mut self) -> ConnectionHandle {
        let (handle, connection) = self
            .client
            .endpoint
            .connect(
                self.now,
                self.now.as_nanos(),
                self.server.address,
                self.server_key,
                &[],
            )
            .unwrap();
        self.client.connections.insert(handle, connection);
        self.drain();
        handle
    }

    pub fn set_links(&mut self, up: LinkConfig, down: LinkConfig) {
        self.up.reconfigure(self.now, up).unwrap();
        self.down.reconfigure(self.now, down).unwrap();
    }

    pub fn end(&mut self, which: Which) -> &mut End {
        match which {
            Which::Client => &mut self.client,
            Which::Server => &mut self.server,
        }
    }

    /// The connection of an end, if it is there: the open one, as a client that
    /// says hello anew leaves another behind at the server.
    pub fn connection(&mut self, which: Which) -> Option<&mut Connection> {
        let connections = &mut self.end(which).connections;
        let open = connections
            .iter()
            .find(|(_, connection)| connection.is_open());
        let handle = *open.or_else(|| connections.iter().next())?.0;
        connections.get_mut(&handle)
    }

    /// Polls both ends until nothing is left.
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
            while let Some(transmit) = connection.poll_transmit(now, &mut out, 10) {
                assert_eq!(transmit.len, out.len());
                sent.push((transmit, out.clone()));
            }
            while let Some(event) = connection.poll_event() {
                end.events.push((*handle, event));
            }
            if connection.is_drained() {
                gone.push(*handle);
            }
        }
        for handle in gone {
            let connection = end.connections.remove(&handle);
            end.endpoint.forget(handle);
            if let Some(learnt) = connection.and_then(|connection| connection.learnt()) {
                end.endpoint.remember(now, &learnt);
            }
        }
        let from = end.address;
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
                let wire_len = segment.len() as u32 + HEADERS_LEN;
                *self
                    .bytes_from_to
                    .entry((from, transmit.remote))
                    .or_default() += segment.len() as u64;
                let datagram = Datagram {
                    from,
                    to: transmit.remote,
                    bytes: segment.to_vec(),
                };
                let link = match which {
                    Which::Client => {
                        self.wire_bytes_up += u64::from(wire_len);
                        &mut self.up
                    }
                    Which::Server => {
                        self.wire_bytes_down += u64::from(wire_len);
                        &mut self.down
                    }
                };
                link.send(now, Packet::new(wire_len, datagram).ecn(ecn));
            }
        }
    }

    fn next_time(&self) -> Option<Instant> {
        let timers = [&self.client, &self.server].into_iter().flat_map(|end| {
            end.connections
                .values()
                .filter_map(Connection::poll_timeout)
        });
        timers
            .chain(self.up.next_event())
            .chain(self.down.next_event())
            .min()
    }

    /// Goes to the next moment at which something happens, `limit` at the latest;
    /// false if that is reached.
    pub fn step(&mut self, limit: Instant) -> bool {
        let next = self.next_time().unwrap_or(limit).min(limit).max(self.now);
        self.now = next;
        while let Some(delivered) = self.up.poll_delivery(next) {
            self.deliver(Which::Server, delivered);
        }
        while let Some(delivered) = self.down.poll_delivery(next) {
            self.deliver(Which::Client, delivered);
        }
        for which in [Which::Client, Which::Server] {
            for connection in self.end(which).connections.values_mut() {
                if connection.poll_timeout().is_some_and(|at| at <= next) {
                    connection.handle_timeout(next);
                }
            }
            self.drain_end(which);
        }
        next < limit
    }

    fn deliver(&mut self, which: Which, delivered: ctcp_link::Delivered<Datagram>) {
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
        let end = self.end(which);
        if datagram.to != end.address {
            return;
        }
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

    /// Whether this end has seen such an event.
    pub fn saw(&mut self, which: Which, is_it: impl Fn(&Event) -> bool) -> bool {
        self.end(which).events.iter().any(|(_, event)| is_it(event))
    }
}

/// The seed of a randomized test: `CTCP_SEED` or the given one.
pub fn base_seed(default: u64) -> u64 {
    std::env::var("CTCP_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

/// Byte `offset` of the stream that `seed` names: what is written and checked.
pub fn pattern(seed: u64, offset: u64) -> u8 {
    let word = (offset / 8)
        .wrapping_add(seed)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (word ^ (word >> 29)).to_le_bytes()[(offset % 8) as usize]
}
