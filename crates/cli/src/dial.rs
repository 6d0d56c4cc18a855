//! From a server's name to a connection.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use ctcp::{
    ClientConfig, ConnectError, Connection, Endpoint, Identity, PathId, Refusal, StartError,
    TransportConfig,
};
use ctcp_proxy::target::{Host, Target};
use tokio::net::lookup_host;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::failure::{Exit, Failure};
use crate::output::notice;
use crate::paths::{Keeper, Labels, PathSpec, Want, Wish, is_forbidden, look, warn_of_routes};
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
    /// What its paths are called.
    pub(crate) labels: Labels,
}

/// How long closing may take to tell the peer.
pub(crate) const FAREWELL: Duration = Duration::from_secs(1);

impl Session {
    /// Closes the connection and sees to it that the server learns of it, which would
    /// keep it until it times out otherwise.
    pub(crate) async fn close(&self, reason: &str, patience: Duration) {
        self.connection.close(0, reason);
        self.endpoint.drain(patience).await;
    }
}

/// Whom to connect to, as whom.
#[derive(Debug, Clone)]
pub(crate) struct Dialer {
    pub(crate) server: Server,
    pub(crate) identity: Identity,
    pub(crate) transport: TransportConfig,
    /// The paths to use; none: as the routes say.
    pub(crate) paths: Vec<PathSpec>,
    /// The token of an invite, until it has been taken.
    pub(crate) invite: Option<Vec<u8>>,
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DialError {
    /// Nobody answered at any address.
    NoAnswer(String),
    /// The server's name leads to no address.
    NoAddress(String),
    /// The server does not serve this client.
    Refused(Refusal),
    /// The server cannot now, or could not tell this hello from a copy.
    Later(String),
    /// This machine cannot even ask.
    Local(String),
}

impl Dialer {
    /// Connects; if there are several ways (addresses of the server's name, paths),
    /// by the first that answers. The other paths are opened later, by a task that
    /// lives as long as the connection.
    pub(crate) async fn dial(&self) -> Result<Session, DialError> {
        if self.paths.is_empty() {
            let addresses = resolve(&self.server.address).await?;
            let ways = addresses.into_iter().map(|address| (address, None));
            return self.race(ways.collect()).await.map(|(session, _)| session);
        }
        let wishes = self.wishes().await?;
        let mut plan = look(&wishes);
        if plan.wants.is_empty() {
            let problems: Vec<_> = plan.problems.into_values().collect();
            return Err(DialError::Local(problems.join("\n")));
        }
        plan.wants
            .sort_by_key(|want| (want.options.is_backup, want.options.cost));
        let ways = plan.wants.into_iter().map(|want| (want.remote, Some(want)));
        let (mut session, want) = self.race(ways.collect()).await?;
        if let Some(want) = want {
            let keeper = Keeper::new(session.connection.clone(), wishes, want);
            session.labels = keeper.labels();
            tokio::spawn(keeper.run());
        }
        Ok(session)
    }

    /// The paths with the addresses that they may lead to. One whose server does
    /// not resolve is left out.
    async fn wishes(&self) -> Result<Vec<Wish>, DialError> {
        let mut usual = None;
        let mut wishes = Vec::new();
        for spec in &self.paths {
            let remotes = match &spec.server {
                Some(server) => match resolve(server).await {
                    Ok(remotes) => remotes,
                    Err(error) => {
                        notice(format_args!("path {spec}: {}", error.text()));
                        continue;
                    }
                },
                None => match &usual {
                    Some(known) => Vec::clone(known),
                    None => usual.insert(resolve(&self.server.address).await?).clone(),
                },
            };
            wishes.push(Wish {
                spec: spec.clone(),
                remotes,
            });
        }
        Ok(wishes)
    }

    /// Tries all ways, one a little later than the other.
    async fn race(
        &self,
        ways: Vec<(SocketAddr, Option<Want>)>,
    ) -> Result<(Session, Option<Want>), DialError> {
        let mut attempts = JoinSet::new();
        for (index, (remote, want)) in ways.into_iter().enumerate() {
            let dialer = self.clone();
            attempts.spawn(async move {
                sleep(ATTEMPT_DELAY * index as u32).await;
                let session = dialer.dial_address(remote, want.as_ref()).await?;
                Ok::<_, DialError>((session, want))
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
                Ok(Err(error @ (DialError::NoAnswer(_) | DialError::NoAddress(_)))) => {
                    worst = Some(error);
                }
                Ok(Err(error)) => {
                    worst.get_or_insert(error);
                }
                Err(error) => return Err(DialError::Local(error.to_string())),
            }
        }
        Err(worst.expect("a name has at least one address"))
    }

    async fn dial_address(
        &self,
        remote: SocketAddr,
        want: Option<&Want>,
    ) -> Result<Session, DialError> {
        let endpoint = self.endpoint(remote, want)?;
        let mut hellos = 0;
        loop {
            let invite = self.invite.as_deref();
            let error = match endpoint.connect(remote, self.server.key, invite).await {
                Ok(connection) => {
                    if let Some(want) = want {
                        let options = &want.options;
                        // It was there a moment ago.
                        let _ = connection.set_path_use(PathId(0), options.is_backup, options.cost);
                    }
                    return Ok(Session {
                        connection,
                        endpoint,
                        labels: Labels::default(),
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

    /// An endpoint for one connection: bound to the interface of its first path, or
    /// to the address alone where the system does not allow that.
    fn endpoint(&self, remote: SocketAddr, want: Option<&Want>) -> Result<Endpoint, DialError> {
        let unspecified: IpAddr = match remote {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let mut config = ClientConfig::new(self.identity.clone());
        config.transport = self.transport.clone();
        let mut local = SocketAddr::new(unspecified, 0);
        if let Some(want) = want {
            local.set_ip(want.local);
            config.interface = want.interface.as_ref().map(|(_, name)| name.clone());
            if let Some(name) = &want.options.congestion {
                config.transport.congestion.clone_from(name);
            }
        }
        let endpoint = match Endpoint::client(local, config.clone()) {
            Err(StartError::Bind { error, .. })
                if config.interface.is_some() && is_forbidden(&error) =>
            {
                if let Some(want) = want {
                    warn_of_routes(&want.label);
                }
                config.interface = None;
                Endpoint::client(local, config)
            }
            result => result,
        };
        endpoint.map_err(|error| DialError::Local(error.to_string()))
    }

    /// Dials once.
    ///
    /// # Errors
    /// [`Dialer::failure`].
    pub(crate) async fn session(&self) -> Result<Session, Failure> {
        self.dial().await.map_err(|error| self.failure(&error))
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
            DialError::NoAddress(what) => Failure::new(
                Exit::NoAnswer,
                format_args!(
                    "{what}\n  the server's name may be misspelt, or this machine may be offline"
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

impl DialError {
    fn text(&self) -> String {
        match self {
            Self::NoAnswer(text)
            | Self::NoAddress(text)
            | Self::Later(text)
            | Self::Local(text) => text.clone(),
            Self::Refused(refusal) => refusal.to_string(),
        }
    }
}

/// The addresses of a server, a few at most.
async fn resolve(server: &Target) -> Result<Vec<SocketAddr>, DialError> {
    let name = match &server.host {
        Host::Ip(ip) => return Ok(vec![SocketAddr::new(*ip, server.port)]),
        Host::Name(name) => name.as_str(),
    };
    let found: Vec<_> = match lookup_host((name, server.port)).await {
        Ok(found) => found.take(ADDRESSES_MAX).collect(),
        Err(error) => {
            return Err(DialError::NoAddress(format!(
                "the name {name} does not resolve: {error}"
            )));
        }
    };
    if found.is_empty() {
        return Err(DialError::NoAddress(format!(
            "the name {name} has no address"
        )));
    }
    Ok(found)
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
