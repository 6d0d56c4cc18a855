//! From a server's name to a connection.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use ctcp::{ClientConfig, ConnectError, Connection, Endpoint, Identity, Refusal, TransportConfig};
use ctcp_proxy::target::Host;
use tokio::net::lookup_host;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::failure::{Exit, Failure};
use crate::state::Server;

/// Addresses of a name that are tried.
const ADDRESSES_MAX: usize = 4;

/// Hellos sent when others of this key, sent at the same time by another process
/// or to another address, keep arriving first.
const HELLOS_MAX: usize = 4;

/// How long one address is waited for before the next is tried beside it
/// ([RFC8305] §5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// A connection with the socket that is its own: if one socket's way through a
/// NAT is blocked, the next connection takes another.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub(crate) connection: Connection,
    pub(crate) endpoint: Endpoint,
}

/// Whom to connect to, as whom.
#[derive(Debug, Clone)]
pub(crate) struct Dialer {
    pub(crate) server: Server,
    pub(crate) identity: Identity,
    pub(crate) transport: TransportConfig,
    /// The token of an invite, until it has been taken.
    pub(crate) invite: Option<Vec<u8>>,
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DialError {
    /// Nobody answered at any address.
    NoAnswer(String),
    /// The server does not serve this client.
    Refused(Refusal),
    /// The server cannot now, or could not tell this hello from a copy.
    Later(String),
    /// This machine cannot even ask.
    Local(String),
}

impl Dialer {
    /// Connects; if the server's name has several addresses, to the first that
    /// answers.
    pub(crate) async fn dial(&self) -> Result<Session, DialError> {
        let addresses = self.resolve().await?;
        let mut attempts = JoinSet::new();
        for (index, &address) in addresses.iter().enumerate() {
            let dialer = self.clone();
            attempts.spawn(async move {
                sleep(ATTEMPT_DELAY * index as u32).await;
                dialer.dial_address(address).await
            });
        }
        let mut worst = None;
        while let Some(ended) = attempts.join_next().await {
            match ended {
                Ok(Ok(session)) => return Ok(session),
                Ok(Err(error @ (DialError::Refused(_) | DialError::Later(_)))) => {
                    return Err(error);
                }
                // That an address is silent says more than that it is no use here.
                Ok(Err(error @ DialError::NoAnswer(_))) => worst = Some(error),
                Ok(Err(error)) => {
                    worst.get_or_insert(error);
                }
                Err(error) => return Err(DialError::Local(error.to_string())),
            }
        }
        Err(worst.expect("a name has at least one address"))
    }

    async fn resolve(&self) -> Result<Vec<SocketAddr>, DialError> {
        let address = &self.server.address;
        let name = match &address.host {
            Host::Ip(ip) => return Ok(vec![SocketAddr::new(*ip, address.port)]),
            Host::Name(name) => name.as_str(),
        };
        let found: Vec<_> = match lookup_host((name, address.port)).await {
            Ok(found) => found.take(ADDRESSES_MAX).collect(),
            Err(error) => {
                return Err(DialError::NoAnswer(format!(
                    "the name {name} does not resolve: {error}"
                )));
            }
        };
        if found.is_empty() {
            return Err(DialError::NoAnswer(format!(
                "the name {name} has no address"
            )));
        }
        Ok(found)
    }

    async fn dial_address(&self, remote: SocketAddr) -> Result<Session, DialError> {
        let unspecified: IpAddr = match remote {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let mut config = ClientConfig::new(self.identity.clone());
        config.transport = self.transport.clone();
        let local = SocketAddr::new(unspecified, 0);
        let endpoint =
            Endpoint::client(local, config).map_err(|error| DialError::Local(error.to_string()))?;
        let mut hellos = 0;
        loop {
            let invite = self.invite.as_deref();
            let error = match endpoint.connect(remote, self.server.key, invite).await {
                Ok(connection) => {
                    return Ok(Session {
                        connection,
                        endpoint,
                    });
                }
                Err(error) => error,
            };
            hellos += 1;
            match error {
                ConnectError::Refused(Refusal::Stale { .. }) if hellos < HELLOS_MAX => {}
                error => return Err(classify(remote, error)),
            }
        }
    }

    /// What to tell the user of an attempt that failed, and how to exit.
    pub(crate) fn failure(&self, error: &DialError) -> Failure {
        let server = &self.server.address;
        let key = self.identity.public();
        match error {
            DialError::NoAnswer(what) => Failure::new(
                Exit::NoAnswer,
                format_args!(
                    "{what}\n  server {server} may be the wrong address, or not running;\n  \
                     a firewall may drop UDP to port {};\n  \
                     --server-key {} may not be that server's (it stays silent then)",
                    server.port, self.server.key
                ),
            ),
            DialError::Refused(Refusal::BadInvite) => Failure::new(
                Exit::Refused,
                format_args!(
                    "{server} does not take this invite: it was used before, or its 24 hours are \
                     over; ask for a new one (`ctcp server --invite NAME`)"
                ),
            ),
            DialError::Refused(_) => Failure::new(
                Exit::Refused,
                format_args!(
                    "{server} refuses this client's key; on the server, add this public key:\n  \
                     ctcp server --allow {key}"
                ),
            ),
            DialError::Later(what) | DialError::Local(what) => Failure::failed(what),
        }
    }
}

fn classify(remote: SocketAddr, error: ConnectError) -> DialError {
    match error {
        ConnectError::Refused(refusal @ (Refusal::Busy | Refusal::Stale { .. })) => {
            DialError::Later(format!("{remote} does not take this connection: {refusal}"))
        }
        ConnectError::Refused(refusal) => DialError::Refused(refusal),
        ConnectError::NoAnswer { remote } => {
            DialError::NoAnswer(format!("no answer from {remote}"))
        }
        ConnectError::Ended(error) => DialError::Later(format!(
            "the connection to {remote} ended while it was set up: {error}"
        )),
        error => DialError::Local(error.to_string()),
    }
}
