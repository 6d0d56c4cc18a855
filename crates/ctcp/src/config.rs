//! How an endpoint is set up.

use ctcp_proto::{Authorize, Identity, TransportConfig};

use crate::socket::SocketConfig;

/// Connections of one endpoint, by default: each has its own buffers.
const CONNECTIONS_MAX: usize = 4096;

/// An endpoint that only opens connections.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ClientConfig {
    /// Who we are.
    pub identity: Identity,
    /// How its connections behave.
    pub transport: TransportConfig,
    /// What to ask of the kernel.
    pub socket: SocketConfig,
    /// The network interface that the first path takes, whatever the routes say;
    /// Linux only.
    pub interface: Option<String>,
    /// Connections at once, at most.
    pub connections_max: usize,
}

impl ClientConfig {
    /// The defaults, with this identity.
    pub fn new(identity: Identity) -> Self {
        Self {
            identity,
            transport: TransportConfig::default(),
            socket: SocketConfig::default(),
            interface: None,
            connections_max: CONNECTIONS_MAX,
        }
    }
}

/// An endpoint that accepts connections, and may open some.
#[non_exhaustive]
pub struct ServerConfig {
    /// Who we are. Clients must know the public key.
    pub identity: Identity,
    /// Who may come in.
    pub authorize: Box<dyn Authorize>,
    /// How its connections behave.
    pub transport: TransportConfig,
    /// What to ask of the kernel.
    pub socket: SocketConfig,
    /// Connections at once, at most. Further clients are refused and told why.
    pub connections_max: usize,
}

impl ServerConfig {
    /// The defaults, with this identity and this decision who may come in.
    pub fn new(identity: Identity, authorize: impl Authorize + 'static) -> Self {
        Self {
            identity,
            authorize: Box::new(authorize),
            transport: TransportConfig::default(),
            socket: SocketConfig::default(),
            connections_max: CONNECTIONS_MAX,
        }
    }
}

impl std::fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerConfig")
            .field("identity", &self.identity)
            .field("transport", &self.transport)
            .field("socket", &self.socket)
            .field("connections_max", &self.connections_max)
            .finish_non_exhaustive()
    }
}
