//! Two endpoints and the network between them in virtual time.
//!
//! Everything comes from one seed: the network, the endpoints' secrets, the
//! choices of the test. The same seed gives the same trace, byte for byte.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file uses its own part"
)]

pub mod ends;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use ctcp_link::{Link, LinkConfig, Packet};
use ctcp_proto::{Connection, ConnectionHandle, Event, PublicKey, TransportConfig};
use ctcp_units::{Duration, Instant, Random};

pub use ends::{Datagram, End, Trace, Which, pair, to_link};

/// IPv4 and UDP headers, bytes.
pub const HEADERS_LEN: u32 = 28;

pub const CLIENT: &str = "10.0.0.1:1000";
pub const SERVER: &str = "10.0.0.2:4500";

pub struct World {
    pub now: Instant,
    pub client: End,
    pub server: End,
    up: Link<Datagram>,
    down: Link<Datagram>,
    pub random: Random,
    pub server_key: PublicKey,
    pub trace: Trace,
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
        let (client, server, server_key) = pair(&mut random, client, server);
        let now = Instant::from_nanos(1_000_000_000);
        Self {
            now,
            client,
            server,
            up: Link::new(up, random.next_u64(), now).unwrap(),
            down: Link::new(down, random.next_u64(), now).unwrap(),
            random,
            server_key,
            trace: Trace::default(),
            wire_bytes_down: 0,
            wire_bytes_up: 0,
            bytes_from_to: BTreeMap::new(),
        }
    }

    /// Begins a connection; the handle is the client's.
    pub fn connect(&mut self) -> ConnectionHandle {
        let (remote, key) = (self.server.address, self.server_key);
        let handle = self.client.connect(self.now, remote, key);
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

    /// The open connection of an end, or else any that it has.
    pub fn connection(&mut self, which: Which) -> Option<&mut Connection> {
        self.end(which).connection()
    }

    /// Polls both ends until nothing is left.
    pub fn drain(&mut self) {
        self.drain_end(Which::Client);
        self.drain_end(Which::Server);
    }

    fn drain_end(&mut self, which: Which) {
        let now = self.now;
        let end = self.end(which);
        let (from, sent) = (end.address, end.poll(now));
        for (transmit, bytes) in sent {
            let (to, ecn) = (transmit.remote, to_link(transmit.ecn));
            for segment in bytes.chunks(transmit.segment_len) {
                self.trace.add(now, segment);
                let wire_len = segment.len() as u32 + HEADERS_LEN;
                *self.bytes_from_to.entry((from, to)).or_default() += segment.len() as u64;
                let bytes = segment.to_vec();
                let datagram = Datagram { from, to, bytes };
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
        let timers = self.client.timers().chain(self.server.timers());
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
            self.end(which).wake(next);
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
        let end = self.end(which);
        if datagram.to != end.address {
            return;
        }
        end.handle(now, delivered.ecn, datagram);
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
        self.end(which).saw(is_it)
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
