//! An endpoint as applications hold it.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use ctcp_proto::{ConnectionHandle, EndpointConfig, PublicKey, Remembered};
use ctcp_units::Duration;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::clock::{Clock, wall_nanos};
use crate::config::{ClientConfig, ServerConfig};
use crate::connection::Connection;
use crate::driver::Driver;
use crate::error::{ConnectError, StartError};
use crate::shared::{ConnectionShared, Inbox, lock};
use crate::socket::{Socket, SocketConfig, SocketCounters, SocketStats, canonical, reaches};
use crate::sockets::SocketMaker;

/// What endpoint handles and the driver share.
#[derive(Debug)]
pub(crate) struct EndpointShared {
    pub(crate) clock: Clock,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) routing: Mutex<Routing>,
    pub(crate) maker: Arc<SocketMaker>,
    pub(crate) connections_max: usize,
    /// Connections that wait to be accepted; at most `connections_max`.
    pub(crate) arrived: Mutex<VecDeque<Connection>>,
    /// A connection waits to be accepted, or the driver has stopped.
    pub(crate) arrival: Notify,
    /// A connection has gone, or the driver has stopped.
    pub(crate) departure: Notify,
}

impl EndpointShared {
    /// Those that have not gone yet, oldest first.
    pub(crate) fn all_connections(&self) -> Vec<Arc<ConnectionShared>> {
        let routing = lock(&self.routing);
        routing.connections.values().cloned().collect()
    }
}

/// Which datagram belongs to which connection.
pub(crate) struct Routing {
    pub(crate) proto: ctcp_proto::Endpoint,
    pub(crate) connections: BTreeMap<ConnectionHandle, Arc<ConnectionShared>>,
    pub(crate) local: SocketAddr,
    pub(crate) is_stopped: bool,
}

impl std::fmt::Debug for Routing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Routing")
            .field("connections", &self.connections.len())
            .field("local", &self.local)
            .field("is_stopped", &self.is_stopped)
            .finish_non_exhaustive()
    }
}

/// What an endpoint has done.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EndpointStats {
    /// Of its socket.
    pub socket: SocketStats,
    /// Of datagrams that belonged to no connection, among others.
    pub proto: ctcp_proto::EndpointStats,
    /// Connections that have not gone yet.
    pub connections: usize,
}

/// Stops the driver with the last handle.
#[derive(Debug)]
struct Owner(Arc<EndpointShared>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.inbox.put(|wishes| wishes.stop = true);
    }
}

/// A UDP socket, those of further paths, and the connections that use them.
///
/// A task of the tokio runtime it was made in does all the work. Clones are cheap
/// and mean the same endpoint. When the last one is dropped, its connections are
/// closed with code 0, the peers are told, and the task ends.
///
/// A server that sends back what it gets, and its client:
///
/// ```
#[doc = include_str!("../examples/echo.rs")]
/// ```
#[derive(Debug, Clone)]
pub struct Endpoint {
    owner: Arc<Owner>,
}

impl Endpoint {
    /// An endpoint bound to `local` that opens connections. Port 0 takes any.
    ///
    /// # Errors
    /// [`StartError`]: the address cannot be had, or a setting is out of range.
    pub fn client(local: SocketAddr, config: ClientConfig) -> Result<Self, StartError> {
        let core = EndpointConfig {
            identity: config.identity,
            authorize: None,
            transport: config.transport,
            has_aes: has_aes(),
            connections_max: config.connections_max,
        };
        Self::start(local, config.interface.as_deref(), core, config.socket)
    }

    /// An endpoint bound to `local` that accepts connections.
    ///
    /// # Errors
    /// As [`Endpoint::client`].
    pub fn server(local: SocketAddr, config: ServerConfig) -> Result<Self, StartError> {
        let core = EndpointConfig {
            identity: config.identity,
            authorize: Some(config.authorize),
            transport: config.transport,
            has_aes: has_aes(),
            connections_max: config.connections_max,
        };
        Self::start(local, None, core, config.socket)
    }

    fn start(
        local: SocketAddr,
        interface: Option<&str>,
        core: EndpointConfig,
        socket_config: SocketConfig,
    ) -> Result<Self, StartError> {
        let system = |error: io::Error| StartError::System(error);
        let runtime = Handle::try_current().map_err(|error| system(io::Error::other(error)))?;
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| system(io::Error::other(error)))?;
        let counters = Arc::new(SocketCounters::default());
        let socket = Socket::bind(local, interface, &socket_config, counters.clone())
            .map_err(|error| StartError::Bind { local, error })?;
        let connections_max = core.connections_max;
        let shared = Arc::new(EndpointShared {
            clock: Clock::start(),
            inbox: Arc::new(Inbox::default()),
            routing: Mutex::new(Routing {
                proto: ctcp_proto::Endpoint::new(core, seed)?,
                connections: BTreeMap::new(),
                local: socket.local_addr(),
                is_stopped: false,
            }),
            maker: Arc::new(SocketMaker::new(runtime, socket_config, counters)),
            connections_max,
            arrived: Mutex::new(VecDeque::new()),
            arrival: Notify::new(),
            departure: Notify::new(),
        });
        let driver = Driver::new(shared.clone(), socket).map_err(system)?;
        shared.maker.runtime.spawn(driver);
        Ok(Self {
            owner: Arc::new(Owner(shared)),
        })
    }

    fn shared(&self) -> &Arc<EndpointShared> {
        &self.owner.0
    }

    /// Opens a connection to the server at `remote` that has `server_key`;
    /// `invite` gets a client in that is not on the server's list yet.
    ///
    /// Returns when both sides have proven their keys. Dropped before that, it
    /// gives the attempt up.
    ///
    /// # Errors
    /// [`ConnectError`]; how long to wait for an answer is part of the transport
    /// configuration.
    pub async fn connect(
        &self,
        remote: SocketAddr,
        server_key: PublicKey,
        invite: Option<&[u8]>,
    ) -> Result<Connection, ConnectError> {
        let remote = canonical(remote);
        let connection = self.begin(remote, server_key, invite)?;
        connection.connected().await?;
        connection.name_first_path(self.local_addr());
        Ok(connection)
    }

    fn begin(
        &self,
        remote: SocketAddr,
        server_key: PublicKey,
        invite: Option<&[u8]>,
    ) -> Result<Connection, ConnectError> {
        let shared = self.shared();
        let connection = {
            let mut routing = lock(&shared.routing);
            if routing.is_stopped {
                return Err(ConnectError::EndpointStopped);
            }
            let local = routing.local;
            if !reaches(local, remote) {
                return Err(ConnectError::AddressFamily { remote, local });
            }
            if routing.connections.len() >= shared.connections_max {
                let max = shared.connections_max;
                return Err(ConnectError::TooManyConnections { max });
            }
            let (handle, connection) = routing.proto.connect(
                shared.clock.now(),
                wall_nanos(),
                remote,
                server_key,
                invite.unwrap_or_default(),
            )?;
            let links = (shared.inbox.clone(), shared.maker.clone());
            let connection = ConnectionShared::new(handle, connection, false, shared.clock, links);
            routing.connections.insert(handle, connection.clone());
            connection
        };
        connection.wake_driver();
        Ok(Connection::new(connection))
    }

    /// Waits for the next client that has proven its key and may come in. `None`
    /// when the endpoint has stopped.
    pub async fn accept(&self) -> Option<Connection> {
        let shared = self.shared();
        loop {
            let arrival = shared.arrival.notified();
            if let Some(connection) = lock(&shared.arrived).pop_front() {
                return Some(connection);
            }
            if lock(&shared.routing).is_stopped {
                return None;
            }
            arrival.await;
        }
    }

    /// The address it is bound to.
    pub fn local_addr(&self) -> SocketAddr {
        lock(&self.shared().routing).local
    }

    /// Goes on from another local address: the network changed. Connections
    /// live on where the peer can be reached from there. Paths with a socket of
    /// their own are not touched.
    ///
    /// # Errors
    /// [`StartError::Bind`]; nothing has changed then.
    pub fn rebind(&self, local: SocketAddr) -> Result<(), StartError> {
        let shared = self.shared();
        let socket = {
            let maker = &shared.maker;
            let _runtime = maker.runtime.enter();
            Socket::bind(local, None, &maker.config, maker.counters.clone())
                .map_err(|error| StartError::Bind { local, error })?
        };
        lock(&shared.routing).local = socket.local_addr();
        shared.inbox.put(|wishes| wishes.socket = Some(socket));
        Ok(())
    }

    /// Closes all present connections with `code` and `reason`, as
    /// [`Connection::close`]; the endpoint itself goes on.
    pub fn close_all(&self, code: u32, reason: &str) {
        for connection in self.shared().all_connections() {
            connection.close(code, reason);
        }
    }

    /// Waits until all connections have gone: ended, and the peers told. Closes
    /// none itself. Answers how many are left after `patience`.
    pub async fn drain(&self, patience: Duration) -> usize {
        let shared = self.shared();
        let all_gone = async {
            loop {
                let departure = shared.departure.notified();
                if lock(&shared.routing).connections.is_empty() {
                    return;
                }
                departure.await;
            }
        };
        match tokio::time::timeout(patience, all_gone).await {
            Ok(()) => 0,
            Err(_) => lock(&shared.routing).connections.len(),
        }
    }

    /// What an ended connection has left of the path to the server or client `peer`
    /// at `address`: the next one there starts from it. `None` where nothing is known,
    /// or nothing for the last ten minutes.
    pub fn remembered(&self, peer: &PublicKey, address: IpAddr) -> Option<Remembered> {
        let shared = self.shared();
        let now = shared.clock.now();
        lock(&shared.routing).proto.remembered(now, peer, address)
    }

    /// What it has done so far.
    pub fn stats(&self) -> EndpointStats {
        let routing = lock(&self.shared().routing);
        EndpointStats {
            socket: self.shared().maker.counters.read(),
            proto: routing.proto.stats(),
            connections: routing.connections.len(),
        }
    }
}

/// Whether AES is faster here than ChaCha20.
fn has_aes() -> bool {
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    {
        std::arch::is_x86_feature_detected!("aes")
            && std::arch::is_x86_feature_detected!("pclmulqdq")
    }
    #[cfg(target_arch = "aarch64")]
    {
        std::arch::is_aarch64_feature_detected!("aes")
    }
    #[cfg(not(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64")))]
    {
        false
    }
}
