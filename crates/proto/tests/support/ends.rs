//! The two ends of a world: an endpoint, its connections and what they said, each a
//! machine without a clock or a network of its own.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use ctcp_proto::crypto::{Refusal, SecretRandom};
use ctcp_proto::{
    Authorize, Connection, ConnectionHandle, Decision, Ecn, Endpoint, EndpointConfig, Event,
    Identity, PublicKey, Transmit, TransportConfig, Verdict,
};
use ctcp_units::{Instant, Random};

use super::{CLIENT, SERVER};

/// One end.
pub struct End {
    pub address: SocketAddr,
    pub endpoint: Endpoint,
    pub connections: BTreeMap<ConnectionHandle, Connection>,
    pub events: Vec<(ConnectionHandle, Event)>,
}

/// Which of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    Client,
    Server,
}

/// Lets in whoever is on the list.
pub struct AllowOnly(pub Vec<PublicKey>);

impl Authorize for AllowOnly {
    fn authorize(&mut self, client: &PublicKey, _invite: &[u8], _wall_nanos: u64) -> Decision {
        if self.0.contains(client) {
            Decision::Allow
        } else {
            Decision::Refuse(Refusal::NotAllowed)
        }
    }
}

/// A datagram on its way.
#[derive(Debug, Clone)]
pub struct Datagram {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub bytes: Vec<u8>,
}

/// A running hash over every datagram and its time: worlds of one seed have the same.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Trace {
    pub hash: u64,
    pub datagrams: u64,
}

impl Trace {
    pub fn add(&mut self, now: Instant, datagram: &[u8]) {
        self.hash = self.hash.rotate_left(5) ^ now.as_nanos() ^ datagram.len() as u64;
        let start = datagram.len().saturating_sub(8);
        for byte in &datagram[start..] {
            self.hash = self.hash.wrapping_mul(0x100_0000_01b3) ^ u64::from(*byte);
        }
        self.datagrams += 1;
    }
}

/// A client, a server that lets it in, and the server's key.
pub fn pair(
    random: &mut Random,
    client: TransportConfig,
    server: TransportConfig,
) -> (End, End, PublicKey) {
    let mut seed32 = || {
        let mut bytes = [0; 32];
        random.fill(&mut bytes);
        bytes
    };
    let client_identity = Identity::generate(&mut SecretRandom::from_seed(seed32()));
    let server_identity = Identity::generate(&mut SecretRandom::from_seed(seed32()));
    let server_key = *server_identity.public();
    let allow: Box<dyn Authorize> = Box::new(AllowOnly(vec![*client_identity.public()]));
    let mut end = |address: &str, identity, authorize, transport| {
        let config = EndpointConfig {
            identity,
            authorize,
            transport,
            has_aes: true,
            connections_max: 100,
        };
        End {
            address: address.parse().unwrap(),
            endpoint: Endpoint::new(config, seed32()).unwrap(),
            connections: BTreeMap::new(),
            events: Vec::new(),
        }
    };
    let client = end(CLIENT, client_identity, None, client);
    let server = end(SERVER, server_identity, Some(allow), server);
    (client, server, server_key)
}

impl End {
    /// Begins a connection to the server at `remote`.
    pub fn connect(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        key: PublicKey,
    ) -> ConnectionHandle {
        let connecting = self.endpoint.connect(now, now.as_nanos(), remote, key, &[]);
        let (handle, connection) = connecting.unwrap();
        self.connections.insert(handle, connection);
        handle
    }

    /// The connection, if it is there: the open one, as a client that says hello anew
    /// leaves another behind at the server.
    pub fn connection(&mut self) -> Option<&mut Connection> {
        let connections = &mut self.connections;
        let open = connections
            .iter()
            .find(|(_, connection)| connection.is_open());
        let handle = *open.or_else(|| connections.iter().next())?.0;
        connections.get_mut(&handle)
    }

    /// When a connection wants to be woken.
    pub fn timers(&self) -> impl Iterator<Item = Instant> {
        let connections = self.connections.values();
        connections.filter_map(Connection::poll_timeout)
    }

    /// Wakes every connection that wants to be.
    pub fn wake(&mut self, now: Instant) {
        let is_due =
            |connection: &Connection| connection.poll_timeout().is_some_and(|at| at <= now);
        for connection in self.connections.values_mut().filter(|c| is_due(c)) {
            connection.handle_timeout(now);
        }
    }

    /// All that wants to be sent. Events are kept; what has ended is let go.
    pub fn poll(&mut self, now: Instant) -> Vec<(Transmit, Vec<u8>)> {
        let (mut out, mut sent, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(transmit) = self.endpoint.poll_transmit(&mut out) {
            sent.push((transmit, out.clone()));
        }
        for (handle, connection) in &mut self.connections {
            let mut rounds = 0;
            while let Some(transmit) = connection.poll_transmit(now, &mut out, 10) {
                assert_eq!(transmit.len, out.len());
                sent.push((transmit, out.clone()));
                rounds += 1;
                assert!(rounds < 100_000, "there is always something more to send");
            }
            while let Some(event) = connection.poll_event() {
                self.events.push((*handle, event));
            }
            if connection.is_drained() {
                gone.push(*handle);
            }
        }
        for handle in gone {
            let connection = self.connections.remove(&handle);
            self.endpoint.forget(handle);
            if let Some(learnt) = connection.and_then(|connection| connection.learnt()) {
                self.endpoint.remember(now, &learnt);
            }
        }
        sent
    }

    /// Takes a datagram that has arrived with this mark.
    pub fn handle(&mut self, now: Instant, ecn: ctcp_link::Ecn, mut datagram: Datagram) {
        let (from, bytes) = (datagram.from, &mut datagram.bytes);
        match self
            .endpoint
            .handle_datagram(now, now.as_nanos(), from, bytes)
        {
            Verdict::Dropped | Verdict::Replied => {}
            Verdict::Accepted { handle, connection } => {
                self.connections.insert(handle, *connection);
            }
            Verdict::Route { handle, path } => {
                if let Some(connection) = self.connections.get_mut(&handle) {
                    connection.handle_datagram(now, path, from, from_link(ecn), bytes);
                }
            }
        }
    }

    /// Whether such an event has been seen.
    pub fn saw(&self, is_it: impl Fn(&Event) -> bool) -> bool {
        self.events.iter().any(|(_, event)| is_it(event))
    }
}

/// A mark as the link has it.
pub fn to_link(ecn: Option<Ecn>) -> ctcp_link::Ecn {
    match ecn {
        None => ctcp_link::Ecn::NotEct,
        Some(Ecn::Ect0) => ctcp_link::Ecn::Ect0,
        Some(Ecn::Ect1) => ctcp_link::Ecn::Ect1,
        Some(Ecn::Ce) => ctcp_link::Ecn::Ce,
    }
}

fn from_link(ecn: ctcp_link::Ecn) -> Option<Ecn> {
    match ecn {
        ctcp_link::Ecn::NotEct => None,
        ctcp_link::Ecn::Ect0 => Some(Ecn::Ect0),
        ctcp_link::Ecn::Ect1 => Some(Ecn::Ect1),
        ctcp_link::Ecn::Ce => Some(Ecn::Ce),
    }
}
