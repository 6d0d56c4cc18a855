//! The real transport: the very endpoints that run over UDP, handshake included.
//!
//! The client opens a stream for each request and writes how many bytes it
//! wants; the server answers with as many on that stream and ends it. Keys come
//! from the flow's seed, so a run repeats byte for byte. A flow over several paths
//! has an address at either end of each; the client opens those beside the first
//! when the connection is open.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ctcp_congestion::Params;
use ctcp_link::Ecn;
use ctcp_proto::crypto::SecretRandom;
use ctcp_proto::stream::{Read, WriteError};
use ctcp_proto::{
    Authorize, Connection, ConnectionHandle, Coupling, Decision, Endpoint, EndpointConfig,
    Identity, MtuMode, PathOptions, PublicKey, Redundancy, TransportConfig, TransportConfigError,
    Verdict,
};
use ctcp_units::{Duration, Instant, Random, StreamId, millis, seconds};

use super::{Agent, AgentStats, Arrival, Integral, Outbox};
use crate::app::AppState;
use crate::engine::{Datagram, Payload, RouteId};

/// IPv4 and UDP headers, bytes.
const HEADERS_LEN: u32 = 28;
/// A request: how many bytes, and what a short HTTP GET has beside it.
const REQUEST_LEN: usize = 150;
/// A handshake that found no answer is begun anew after this.
const RETRY: Duration = seconds(1);
/// Between two looks at window and round trip.
const MEASURE_INTERVAL: Duration = millis(10);
/// The wall clock at the start of the simulation; the handshake wants one.
const WALL_EPOCH_NANOS: u64 = 1_700_000_000_000_000_000;

/// Settings of the transport in a simulation.
#[derive(Debug, Clone)]
pub struct CtcpConfig {
    /// Name of the congestion controller.
    pub congestion: String,
    /// Its parameters.
    pub params: Params,
    /// How many coded packets are sent ahead of feedback.
    pub redundancy: Redundancy,
    /// What paths behind the same bottleneck take together.
    pub coupling: Coupling,
    /// Symbols per full block, 1 to 255.
    pub block_symbols: u8,
    /// Blocks in memory at most, as a sender.
    pub blocks_max: u64,
    /// UDP payload of full packets, bytes; `None`: probed.
    pub mtu_bytes: Option<u16>,
    /// Packets are marked ECT(0).
    pub is_ecn_enabled: bool,
}

impl Default for CtcpConfig {
    /// The transport's defaults, with full packets of 1500 bytes from the start.
    fn default() -> Self {
        let transport = TransportConfig::default();
        Self {
            congestion: transport.congestion,
            params: transport.congestion_params,
            redundancy: transport.redundancy,
            coupling: transport.coupling,
            block_symbols: transport.block_symbols,
            blocks_max: transport.blocks_max,
            mtu_bytes: Some(1472),
            is_ecn_enabled: transport.is_ecn_enabled,
        }
    }
}

impl CtcpConfig {
    /// The same with another controller.
    #[must_use]
    pub fn congestion(mut self, name: &str) -> Self {
        self.congestion = name.to_owned();
        self
    }

    fn transport(&self) -> TransportConfig {
        let base = TransportConfig::default();
        TransportConfig {
            congestion: self.congestion.clone(),
            congestion_params: self.params,
            redundancy: self.redundancy,
            coupling: self.coupling,
            block_symbols: self.block_symbols,
            blocks_max: self.blocks_max,
            mtu: match self.mtu_bytes {
                Some(bytes) => MtuMode::Fixed(bytes),
                None => base.mtu,
            },
            is_ecn_enabled: self.is_ecn_enabled,
            // A simulated outage may be longer than anyone's patience.
            idle_timeout: seconds(86_400),
            ..base
        }
    }
}

/// Lets in the one client of the flow.
struct AllowOne(PublicKey);

impl Authorize for AllowOne {
    fn authorize(&mut self, client: &PublicKey, _invite: &[u8], _wall_nanos: u64) -> Decision {
        match *client == self.0 {
            true => Decision::Allow,
            false => Decision::Refuse(ctcp_proto::crypto::Refusal::NotAllowed),
        }
    }
}

/// What both ends have in common.
struct End {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    /// Of each path the way out and the way in; at least one.
    ways: Vec<Way>,
    /// Reused for every datagram made.
    scratch: Vec<u8>,
    is_server: bool,
}

/// Both directions of a path, as one end sees them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    pub(crate) outward: RouteId,
    pub(crate) inward: RouteId,
}

impl Way {
    fn reversed(self) -> Self {
        Self {
            outward: self.inward,
            inward: self.outward,
        }
    }
}

/// The address of an end on a path. `Scenario::check` keeps paths few.
fn address(is_server: bool, path: usize) -> SocketAddr {
    let host = if is_server { 2 } else { 1 };
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, path as u8, host)), 4500)
}

fn wall_nanos(now: Instant) -> u64 {
    WALL_EPOCH_NANOS + now.as_nanos()
}

impl End {
    fn handle_packet(&mut self, now: Instant, mut arrival: Arrival) {
        let path = self.ways.iter().position(|way| way.inward == arrival.route);
        let (Payload::Datagram(datagram), Some(path)) = (&mut arrival.payload, path) else {
            return;
        };
        let peer = address(!self.is_server, path);
        let verdict = self
            .endpoint
            .handle_datagram(now, wall_nanos(now), peer, datagram.bytes());
        match verdict {
            Verdict::Dropped | Verdict::Replied => {}
            Verdict::Accepted { handle, connection } => {
                // A hello said anew replaces the connection begun by the last.
                if let Some((old, _)) = self.connection.replace((handle, *connection)) {
                    self.endpoint.forget(old);
                }
            }
            Verdict::Route { handle, path } => {
                let ecn = match arrival.is_marked {
                    true => Some(ctcp_proto::Ecn::Ce),
                    false => None,
                };
                if let Some((own, connection)) = &mut self.connection
                    && *own == handle
                {
                    connection.handle_datagram(now, path, peer, ecn, datagram.bytes_mut());
                }
            }
        }
    }

    fn transmit(&mut self, now: Instant, out: &mut Outbox) {
        while let Some(transmit) = self.endpoint.poll_transmit(&mut self.scratch) {
            let route = route_to(&self.ways, self.is_server, transmit.remote);
            send(route, transmit.ecn, &mut self.scratch, out);
        }
        let Some((handle, connection)) = &mut self.connection else {
            return;
        };
        while let Some(transmit) = connection.poll_transmit(now, &mut self.scratch, 1) {
            let route = route_to(&self.ways, self.is_server, transmit.remote);
            send(route, transmit.ecn, &mut self.scratch, out);
        }
        while connection.poll_event().is_some() {}
        if connection.is_drained() {
            self.endpoint.forget(*handle);
            self.connection = None;
        }
    }

    fn open(&mut self) -> Option<&mut Connection> {
        self.connection.as_mut().map(|(_, connection)| connection)
    }

    fn timeout(&self) -> Option<Instant> {
        let (_, connection) = self.connection.as_ref()?;
        connection.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some(connection) = self.open()
            && connection.poll_timeout().is_some_and(|at| at <= now)
        {
            connection.handle_timeout(now);
        }
    }
}

/// The way to an address of the other end.
fn route_to(ways: &[Way], is_server: bool, remote: SocketAddr) -> RouteId {
    let path = (0..ways.len()).find(|&path| address(!is_server, path) == remote);
    ways[path.unwrap_or(0)].outward
}

fn send(route: RouteId, ecn: Option<ctcp_proto::Ecn>, bytes: &mut Vec<u8>, out: &mut Outbox) {
    let ecn = match ecn {
        None => Ecn::NotEct,
        Some(ctcp_proto::Ecn::Ect0) => Ecn::Ect0,
        Some(ctcp_proto::Ecn::Ect1) => Ecn::Ect1,
        Some(ctcp_proto::Ecn::Ce) => Ecn::Ce,
    };
    let len = bytes.len() as u32 + HEADERS_LEN;
    out.send_ecn(route, len, ecn, Payload::Datagram(Datagram::take(bytes)));
}

/// The client and the server of a flow; `ways` as the client sees them.
///
/// # Errors
/// A setting of the transport is out of its range.
pub(crate) fn pair(
    config: &CtcpConfig,
    ways: &[Way],
    app: AppState,
    random: &mut Random,
) -> Result<(CtcpClient, CtcpServer), TransportConfigError> {
    let mut seed = || {
        let mut bytes = [0; 32];
        random.fill(&mut bytes);
        bytes
    };
    let client_identity = Identity::generate(&mut SecretRandom::from_seed(seed()));
    let server_identity = Identity::generate(&mut SecretRandom::from_seed(seed()));
    let server_key = *server_identity.public();
    let allow: Box<dyn Authorize> = Box::new(AllowOne(*client_identity.public()));
    let mut end = |is_server: bool, identity, authorize| -> Result<End, TransportConfigError> {
        let endpoint = EndpointConfig {
            identity,
            authorize,
            transport: config.transport(),
            has_aes: true,
            connections_max: 64,
        };
        Ok(End {
            endpoint: Endpoint::new(endpoint, seed())?,
            connection: None,
            ways: match is_server {
                true => ways.iter().map(|way| way.reversed()).collect(),
                false => ways.to_vec(),
            },
            scratch: Vec::new(),
            is_server,
        })
    };
    let client = CtcpClient {
        end: end(false, client_identity, None)?,
        server_key,
        app,
        stream: None,
        retry_at: None,
        has_all_paths: false,
        buffer: vec![0; 1 << 16],
    };
    let server = CtcpServer {
        end: end(true, server_identity, Some(allow))?,
        serving: Vec::new(),
        window: Integral::default(),
        measure_at: Instant::EPOCH,
        stats: AgentStats::default(),
    };
    debug_assert!(server.end.is_server && !client.end.is_server);
    Ok((client, server))
}

/// The end that asks.
pub(crate) struct CtcpClient {
    end: End,
    server_key: PublicKey,
    app: AppState,
    /// The stream of the open request, once there is a connection for it.
    stream: Option<StreamId>,
    retry_at: Option<Instant>,
    /// The paths beside the first are opened.
    has_all_paths: bool,
    buffer: Vec<u8>,
}

impl CtcpClient {
    fn connect(&mut self, now: Instant) {
        self.has_all_paths = false;
        let server = address(true, 0);
        let connected =
            self.end
                .endpoint
                .connect(now, wall_nanos(now), server, self.server_key, &[]);
        self.retry_at = match connected {
            Ok(connection) => {
                self.end.connection = Some(connection);
                None
            }
            Err(_) => Some(now + RETRY),
        };
    }

    /// Lets the application act: ask, and read what came.
    fn act(&mut self, now: Instant) {
        if !self.app.is_waiting() {
            return;
        }
        let Some((_, connection)) = &mut self.end.connection else {
            // The last handshake found no answer.
            if self.retry_at.is_none() {
                self.retry_at = Some(now + RETRY);
            }
            return;
        };
        if !connection.is_open() {
            return;
        }
        if !self.has_all_paths {
            self.has_all_paths = true;
            for path in 1..self.end.ways.len() {
                let (local, remote) = (address(false, path), address(true, path));
                // None is there twice, and no more than there can be.
                let opened = connection.open_path(now, local, remote, &PathOptions::default());
                debug_assert!(opened.is_ok(), "{opened:?}");
            }
        }
        if self.stream.is_none() {
            let missing = self.app.requested().saturating_sub(self.app.received());
            self.stream = request(connection, missing);
        }
        let Some(stream) = self.stream else { return };
        let mut bytes = 0;
        while let Ok(Read::Bytes(count)) = connection.read(stream, &mut self.buffer) {
            bytes += count as u64;
        }
        if bytes > 0 {
            self.app.on_bytes(now, bytes);
            if !self.app.is_waiting() {
                // Reads the end, so that the stream is forgotten.
                let _ = connection.read(stream, &mut self.buffer);
                self.stream = None;
            }
        }
    }
}

/// Opens a stream and asks for `bytes` on it.
fn request(connection: &mut Connection, bytes: u64) -> Option<StreamId> {
    let stream = connection.open_stream().ok()?;
    let mut text = [b' '; REQUEST_LEN];
    text[..8].copy_from_slice(&bytes.to_be_bytes());
    connection.write(stream, &text).ok()?;
    connection.finish(stream).ok()?;
    Some(stream)
}

impl Agent for CtcpClient {
    fn handle_packet(&mut self, now: Instant, arrival: Arrival, out: &mut Outbox) {
        self.end.handle_packet(now, arrival);
        self.act(now);
        self.end.transmit(now, out);
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        self.end.handle_timeout(now);
        self.app.handle_timeout(now);
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
        }
        if self.end.connection.is_none() && self.app.is_waiting() && self.retry_at.is_none() {
            self.connect(now);
        }
        self.act(now);
        self.end.transmit(now, out);
    }

    fn deadline(&self) -> Option<Instant> {
        [self.app.deadline(), self.retry_at, self.end.timeout()]
            .into_iter()
            .flatten()
            .min()
    }

    fn stats(&self, _now: Instant) -> AgentStats {
        let mut stats = AgentStats {
            bytes_in_order: self.app.received(),
            ..AgentStats::default()
        };
        if let Some((_, connection)) = &self.end.connection {
            let counts = connection.stats();
            stats.useless_packets = counts.useless;
            stats.recovered_packets = counts.symbols_recovered;
        }
        stats
    }

    fn app(&self) -> Option<&AppState> {
        Some(&self.app)
    }
}

/// A stream being answered.
#[derive(Debug)]
struct Serving {
    stream: StreamId,
    /// The request as far as it was read.
    asked: Vec<u8>,
    /// Bytes left to write, once the request is there.
    left: Option<u64>,
}

/// The end that answers.
pub(crate) struct CtcpServer {
    end: End,
    serving: Vec<Serving>,
    window: Integral,
    measure_at: Instant,
    stats: AgentStats,
}

/// What a server writes: the content does not matter to the code.
static CONTENT: [u8; 1 << 14] = [0x5a; 1 << 14];

impl CtcpServer {
    fn act(&mut self) {
        let Some((_, connection)) = &mut self.end.connection else {
            return;
        };
        while let Some(stream) = connection.accept_stream() {
            self.serving.push(Serving {
                stream,
                asked: Vec::new(),
                left: None,
            });
        }
        self.serving.retain_mut(|one| serve(connection, one));
    }

    /// Looks at window and round trip now and then: a look costs more than a
    /// packet.
    fn measure(&mut self, now: Instant) {
        if now < self.measure_at {
            return;
        }
        self.measure_at = now + MEASURE_INTERVAL;
        let Some((_, connection)) = &self.end.connection else {
            return;
        };
        let stats = connection.stats();
        let tokens = stats.paths.iter().map(|path| path.controller.tokens);
        self.window.set(now, tokens.sum());
        for srtt in stats.paths.iter().filter_map(|path| path.srtt) {
            self.stats.srtt_samples += 1;
            self.stats.srtt_sum_nanos += srtt.as_nanos();
        }
    }
}

/// Goes on with one stream; returns whether there is more to do.
fn serve(connection: &mut Connection, one: &mut Serving) -> bool {
    if one.left.is_none() {
        let mut buffer = [0; REQUEST_LEN];
        while let Ok(Read::Bytes(count)) = connection.read(one.stream, &mut buffer) {
            one.asked.extend_from_slice(&buffer[..count]);
        }
        if one.asked.len() < REQUEST_LEN {
            return true;
        }
        one.left = one
            .asked
            .first_chunk()
            .map(|head| u64::from_be_bytes(*head));
    }
    let left = one.left.get_or_insert(0);
    while *left > 0 {
        let len = (CONTENT.len() as u64).min(*left) as usize;
        match connection.write(one.stream, &CONTENT[..len]) {
            Ok(count) => *left -= count as u64,
            Err(WriteError::Blocked) => return true,
            Err(_) => return false,
        }
    }
    let _ = connection.finish(one.stream);
    false
}

impl Agent for CtcpServer {
    fn handle_packet(&mut self, now: Instant, arrival: Arrival, out: &mut Outbox) {
        self.end.handle_packet(now, arrival);
        self.act();
        self.end.transmit(now, out);
        self.measure(now);
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        self.end.handle_timeout(now);
        self.act();
        self.end.transmit(now, out);
        self.measure(now);
    }

    fn deadline(&self) -> Option<Instant> {
        self.end.timeout()
    }

    fn stats(&self, now: Instant) -> AgentStats {
        let mut stats = AgentStats {
            window_integral: self.window.at(now),
            ..self.stats
        };
        if let Some((_, connection)) = &self.end.connection {
            let counts = connection.stats();
            stats.data_packets = counts.sent.systematic + counts.sent.coded;
            stats.coded_packets = counts.sent.coded;
            stats.timeouts = counts.probe_timeouts;
            for path in &counts.paths {
                stats.backoffs += path.controller.backoff_count;
                stats.window += path.controller.tokens;
                stats.in_flight += path.in_flight;
                stats.srtt = stats.srtt.or(path.srtt);
            }
        }
        stats
    }
}
