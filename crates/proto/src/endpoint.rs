//! Routes datagrams to connections, answers hellos, and drops the rest without a
//! word (architecture 11).
//!
//! Whoever does not know the server's public key gets silence. A client that
//! knows it but may not come in gets one authenticated refusal, no longer than
//! its request. Under load an address has to prove itself by a cookie, for which
//! nothing is remembered.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ctcp_congestion::Remembered;
use ctcp_units::{Duration, Instant, PathId, seconds};

use crate::Transmit;
use crate::config::{TransportConfig, TransportConfigError};
use crate::connection::{Connection, ConnectionHandle, HelloSetup, LocalIds, Start};
use crate::crypto::{
    ClientError, CookieSecret, HandshakeKind, HelloId, HelloRead, IdCipher, Identity, Incoming,
    PublicKey, Refusal, Responder, SecretRandom, TimestampGuard,
};
use crate::memory::{Memories, PathMemory};
use crate::stream::Side;
use crate::wire::{CONNECTION_ID_LEN, ConnectionId, TransportParams};

/// Hellos per second that are worked on without asking for a cookie first.
const HELLOS_UNPROVEN_MAX: u32 = 64;
/// Answered hellos remembered, so that a client that asks again gets the same
/// answer.
const ANSWERS_MAX: usize = 1024;
/// For so long.
const ANSWER_LIFE: Duration = seconds(10);
/// Clients whose last timestamp is remembered.
const TIMESTAMPS_MAX: usize = 65_536;
/// Stateless replies waiting to be sent.
const REPLIES_MAX: usize = 256;
/// Ids whose meaning is kept, so that a busy path need not be deciphered.
const RECENT_IDS: usize = 64;

/// What is decided about a client that proved its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It may come in.
    Allow,
    /// It may not, and is told so.
    Refuse(Refusal),
}

/// Who may come in.
pub trait Authorize: Send {
    /// Decides about `client`, who may show an invite. `wall_nanos` is the wall
    /// clock, nanoseconds since the Unix epoch.
    ///
    /// An invite that is accepted is used up: a copy of the hello is recognised
    /// by its timestamp afterwards, as the client's key is on the list then.
    fn authorize(&mut self, client: &PublicKey, invite: &[u8], wall_nanos: u64) -> Decision;
}

/// What an endpoint is told at its start.
pub struct EndpointConfig {
    /// Its static keys.
    pub identity: Identity,
    /// Whom to let in; `None`: a client, which answers no hello.
    pub authorize: Option<Box<dyn Authorize>>,
    /// Settings of all connections.
    pub transport: TransportConfig,
    /// This machine has instructions for AES.
    pub has_aes: bool,
    /// Connections held at most; one more is refused.
    pub connections_max: usize,
}

/// Datagrams that no connection saw, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EndpointStats {
    /// Shorter than any packet.
    pub too_short: u64,
    /// For a connection id that is not in use.
    pub unknown_id: u64,
    /// Hellos without the server's key, damaged, or of another version.
    pub bad_hello: u64,
    /// Hellos that came again after their connection had begun, or too old.
    pub stale_hello: u64,
    /// Clients that were refused.
    pub refused: u64,
    /// Clients that were asked for a cookie.
    pub cookies: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Replies dropped because too many were waiting.
    pub replies_dropped: u64,
}

/// What became of a datagram.
#[derive(Debug)]
pub enum Verdict {
    /// Dropped and counted.
    Dropped,
    /// For this connection and path: hand it on.
    Route {
        /// The connection.
        handle: ConnectionHandle,
        /// The path.
        path: PathId,
    },
    /// A client came in. It has yet to prove that it is there; the connection
    /// says so by [`Event::Connected`](crate::Event::Connected).
    Accepted {
        /// Its name.
        handle: ConnectionHandle,
        /// The connection.
        connection: Box<Connection>,
    },
    /// Answered without a connection: see [`Endpoint::poll_transmit`].
    Replied,
}

/// All connections of an application's UDP sockets, by connection id.
///
/// The caller holds the connections; the endpoint knows their names.
pub struct Endpoint {
    identity: Arc<Identity>,
    responder: Option<Responder>,
    authorize: Option<Box<dyn Authorize>>,
    transport: Arc<TransportConfig>,
    has_aes: bool,
    connections_max: usize,
    ids: Arc<IdCipher>,
    /// The ids read last, by their lowest bits, and what they name.
    recent: [Option<(ConnectionId, ConnectionHandle, PathId)>; RECENT_IDS],
    connections: BTreeSet<ConnectionHandle>,
    next_handle: u64,
    answers: BTreeMap<HelloId, Vec<u8>>,
    answers_by_age: VecDeque<(Instant, HelloId)>,
    guard: TimestampGuard,
    /// Hellos worked on in the second that began then.
    hellos: (Instant, u32),
    replies: VecDeque<(SocketAddr, Vec<u8>)>,
    memories: Memories,
    random: SecretRandom,
    stats: EndpointStats,
}

impl core::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Endpoint")
            .field("public", self.identity.public())
            .field("connections", &self.connections.len())
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

impl Endpoint {
    /// An endpoint all of whose secrets and choices come from `seed`.
    ///
    /// # Errors
    /// If a setting of the transport is out of range.
    pub fn new(config: EndpointConfig, seed: [u8; 32]) -> Result<Self, TransportConfigError> {
        config.transport.check()?;
        let mut random = SecretRandom::from_seed(seed);
        let ids = Arc::new(IdCipher::generate(&mut random));
        let responder = config.authorize.is_some().then(|| {
            let cookies = CookieSecret::generate(&mut random);
            Responder::new(config.identity.clone(), cookies, config.has_aes)
        });
        Ok(Self {
            identity: Arc::new(config.identity),
            responder,
            authorize: config.authorize,
            transport: Arc::new(config.transport),
            has_aes: config.has_aes,
            connections_max: config.connections_max,
            ids,
            recent: [None; RECENT_IDS],
            connections: BTreeSet::new(),
            next_handle: 0,
            answers: BTreeMap::new(),
            answers_by_age: VecDeque::new(),
            guard: TimestampGuard::new(TIMESTAMPS_MAX),
            hellos: (Instant::EPOCH, 0),
            replies: VecDeque::new(),
            memories: Memories::default(),
            random,
            stats: EndpointStats::default(),
        })
    }

    /// This end's public key.
    pub fn public_key(&self) -> &PublicKey {
        self.identity.public()
    }

    /// Datagrams that no connection saw.
    pub const fn stats(&self) -> EndpointStats {
        self.stats
    }

    /// Connections not forgotten.
    pub fn connection_count(&self) -> usize {
        self.connections.len()
    }

    /// Begins a connection to the server at `remote` that has `server_key`.
    /// `wall_nanos` is the wall clock; `invite` is empty if there is none.
    ///
    /// # Errors
    /// [`ClientError`]: the key is no key, or the invite is too long.
    pub fn connect(
        &mut self,
        now: Instant,
        wall_nanos: u64,
        remote: SocketAddr,
        server_key: PublicKey,
        invite: &[u8],
    ) -> Result<(ConnectionHandle, Connection), ClientError> {
        let local = self.new_ids();
        let setup = HelloSetup {
            identity: self.identity.clone(),
            server: server_key,
            invite,
            has_aes: self.has_aes,
            wall_nanos,
        };
        let random = self.random.fork();
        let transport = self.transport_to(now, &server_key, remote);
        let connection = Connection::client(now, transport, remote, local, &setup, random)?;
        Ok((self.register(), connection))
    }

    /// The ids of the connection that is registered next.
    fn new_ids(&self) -> LocalIds {
        LocalIds {
            cipher: self.ids.clone(),
            connection: self.next_handle,
        }
    }

    fn register(&mut self) -> ConnectionHandle {
        let handle = ConnectionHandle(self.next_handle);
        self.next_handle += 1;
        self.connections.insert(handle);
        handle
    }

    /// The connection is gone: datagrams for it are dropped from now on.
    pub fn forget(&mut self, handle: ConnectionHandle) {
        self.connections.remove(&handle);
    }

    /// Remembers what a connection has learnt of its path: the next one with the
    /// same peer at the same address is told so. Nothing, if the settings say so.
    pub fn remember(&mut self, now: Instant, memory: &PathMemory) {
        if self.transport.remembers_paths {
            self.memories.remember(now, memory);
        }
    }

    /// What is remembered of the path to this peer at this address.
    pub fn remembered(
        &self,
        now: Instant,
        peer: &PublicKey,
        address: IpAddr,
    ) -> Option<Remembered> {
        self.memories.of(now, peer, address)
    }

    /// The settings of a connection, with what is remembered of the path.
    fn transport_to(
        &self,
        now: Instant,
        peer: &PublicKey,
        remote: SocketAddr,
    ) -> Arc<TransportConfig> {
        match self.remembered(now, peer, remote.ip()) {
            None => self.transport.clone(),
            Some(remembered) => {
                let mut config = TransportConfig::clone(&self.transport);
                config.congestion_params.resume = Some(remembered);
                Arc::new(config)
            }
        }
    }

    /// What an id names, if the connection is there; whether the path is, the
    /// connection knows.
    fn read_id(&mut self, id: ConnectionId) -> Option<(ConnectionHandle, PathId)> {
        let place = usize::from(id.0[7]) % RECENT_IDS;
        let (handle, path) = match self.recent[place] {
            Some((known, handle, path)) if known == id => (handle, path),
            _ => {
                let (number, path) = self.ids.read(id.0);
                (ConnectionHandle(number), PathId(path))
            }
        };
        if !self.connections.contains(&handle) {
            return None;
        }
        self.recent[place] = Some((id, handle, path));
        Some((handle, path))
    }

    /// Tells whom a datagram is for, and answers it if it is a hello.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        wall_nanos: u64,
        from: SocketAddr,
        datagram: &[u8],
    ) -> Verdict {
        let Some((first, rest)) = datagram.split_first() else {
            self.stats.too_short += 1;
            return Verdict::Dropped;
        };
        let is_hello =
            first & 0x80 != 0 && HandshakeKind::of(datagram) == Some(HandshakeKind::ClientHello);
        if is_hello {
            return self.handle_hello(now, wall_nanos, from, datagram);
        }
        let Some(id) = rest.first_chunk::<CONNECTION_ID_LEN>() else {
            self.stats.too_short += 1;
            return Verdict::Dropped;
        };
        match self.read_id(ConnectionId(*id)) {
            Some((handle, path)) => Verdict::Route { handle, path },
            None => {
                self.stats.unknown_id += 1;
                Verdict::Dropped
            }
        }
    }

    fn handle_hello(
        &mut self,
        now: Instant,
        wall_nanos: u64,
        from: SocketAddr,
        datagram: &[u8],
    ) -> Verdict {
        self.forget_old_answers(now);
        let is_under_load = self.is_under_load(now);
        let Some(responder) = &self.responder else {
            self.stats.bad_hello += 1;
            return Verdict::Dropped;
        };
        let Ok(hello_id) = responder.identify(datagram) else {
            self.stats.bad_hello += 1;
            return Verdict::Dropped;
        };
        if let Some(answer) = self.answers.get(&hello_id) {
            let answer = answer.clone();
            return self.reply(from, answer);
        }
        let source = address_bytes(from);
        let read = responder.read(datagram, &source, is_under_load, now, &mut self.random);
        match read {
            Err(_) => {
                self.stats.bad_hello += 1;
                Verdict::Dropped
            }
            Ok(Incoming::Cookie(packet)) => {
                self.stats.cookies += 1;
                self.reply(from, packet)
            }
            Ok(Incoming::Hello(hello)) => {
                self.hellos.1 += 1;
                self.decide(now, wall_nanos, from, *hello)
            }
        }
    }

    /// More hellos in this second than are worked on without proof.
    fn is_under_load(&mut self, now: Instant) -> bool {
        if now - self.hellos.0 >= seconds(1) {
            self.hellos = (now, 0);
        }
        self.hellos.1 >= HELLOS_UNPROVEN_MAX
    }

    fn decide(
        &mut self,
        now: Instant,
        wall_nanos: u64,
        from: SocketAddr,
        hello: HelloRead,
    ) -> Verdict {
        let Some(authorize) = &mut self.authorize else {
            return Verdict::Dropped;
        };
        let decision = authorize.authorize(&hello.client, &hello.invite, wall_nanos);
        if let Decision::Refuse(refusal) = decision {
            return self.refuse(from, hello, refusal);
        }
        if self.connections.len() >= self.connections_max {
            return self.refuse(from, hello, Refusal::Busy);
        }
        if let Err(stale) = self.guard.advance(&hello.client, hello.timestamp) {
            self.stats.stale_hello += 1;
            return self.refuse(from, hello, Refusal::Stale { last: stale.last });
        }
        let Ok(params) = TransportParams::parse(&hello.params) else {
            self.stats.bad_hello += 1;
            return Verdict::Dropped;
        };
        self.accept(now, from, hello, params)
    }

    fn refuse(&mut self, from: SocketAddr, hello: HelloRead, refusal: Refusal) -> Verdict {
        self.stats.refused += 1;
        let packet = hello.refuse(refusal);
        self.reply(from, packet)
    }

    fn accept(
        &mut self,
        now: Instant,
        from: SocketAddr,
        hello: HelloRead,
        params: TransportParams,
    ) -> Verdict {
        let local = self.new_ids();
        let local_id = local.id(PathId(0));
        let start = Start {
            side: Side::Server,
            remote: from,
            remote_id: Some(ConnectionId(hello.client_id)),
            peer_key: hello.client,
            local,
        };
        let hello_id = hello.id;
        let mut ours = Vec::new();
        self.transport.params().write(&mut ours);
        let accepted = hello
            .accept(local_id.0, &ours)
            .expect("seven limits fit an answer");
        self.remember_answer(now, hello_id, accepted.packet.clone());
        let random = self.random.fork();
        let connection = Connection::server(
            now,
            self.transport_to(now, &start.peer_key, from),
            &start,
            accepted.keys,
            params,
            random,
        );
        self.stats.accepted += 1;
        self.reply(from, accepted.packet);
        Verdict::Accepted {
            handle: self.register(),
            connection: Box::new(connection),
        }
    }

    fn remember_answer(&mut self, now: Instant, id: HelloId, answer: Vec<u8>) {
        if self.answers.len() >= ANSWERS_MAX
            && let Some((_, oldest)) = self.answers_by_age.pop_front()
        {
            self.answers.remove(&oldest);
        }
        self.answers.insert(id, answer);
        self.answers_by_age.push_back((now, id));
    }

    fn forget_old_answers(&mut self, now: Instant) {
        while let Some((at, id)) = self.answers_by_age.front() {
            if now - *at < ANSWER_LIFE {
                break;
            }
            self.answers.remove(id);
            self.answers_by_age.pop_front();
        }
    }

    fn reply(&mut self, to: SocketAddr, packet: Vec<u8>) -> Verdict {
        if self.replies.len() >= REPLIES_MAX {
            self.stats.replies_dropped += 1;
            return Verdict::Dropped;
        }
        self.replies.push_back((to, packet));
        Verdict::Replied
    }

    /// The next answer that belongs to no connection; `out` is cleared and
    /// filled.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<Transmit> {
        out.clear();
        let (remote, packet) = self.replies.pop_front()?;
        out.extend_from_slice(&packet);
        Some(Transmit {
            path: PathId(0),
            remote,
            ecn: None,
            segment_len: packet.len(),
            len: packet.len(),
        })
    }
}

/// An address as bytes, for the cookie.
fn address_bytes(address: SocketAddr) -> [u8; 18] {
    let mut bytes = [0; 18];
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    bytes[..16].copy_from_slice(&ip.octets());
    bytes[16..].copy_from_slice(&address.port().to_be_bytes());
    bytes
}
