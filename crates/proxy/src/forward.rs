//! The near side: accepts applications, learns their target, opens a stream
//! through the tunnel and relays.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::{debug, info};

use crate::accept;
use crate::gate::{ReplyGate, take_reply};
use crate::redirect::original_target;
use crate::request::{Failure, REPLY_LEN_MAX, Reply, Request};
use crate::shutdown::Shutdown;
use crate::socks::reply::{Dialect, ReplyCode, reply};
use crate::socks::{Command, Credentials, NegotiateError, SocksError, SocksRequest, negotiate};
use crate::splice::{Early, Meter, RelayError, Side, broken, relay_tcp};
use crate::stats::{FailReason, Stats};
use crate::target::Target;
use crate::tunnel::{OpenError, Tunnel, TunnelStream, reset_code};
use crate::udp;

/// What a forward proxy asks of applications, and its limits.
#[derive(Debug, Clone)]
pub struct ForwardConfig {
    /// Required of SOCKS applications, if set.
    pub credentials: Option<Credentials>,
    /// Connections at once over all listeners; further ones wait in the kernel.
    pub connections_max: usize,
    /// Associations for UDP at once, of those connections; further ones are refused.
    pub associations_max: usize,
    /// How long an application may take to name its target.
    pub handshake_timeout: Duration,
    /// How long the tunnel may take to open a stream before the application is
    /// told that there is no answer.
    pub open_timeout: Duration,
    /// How long the far side may take to answer a request. Longer than a reverse
    /// proxy takes to give up, so that its reason arrives.
    pub reply_timeout: Duration,
}

impl Default for ForwardConfig {
    fn default() -> Self {
        Self {
            credentials: None,
            connections_max: 4096,
            associations_max: 256,
            handshake_timeout: Duration::from_secs(10),
            open_timeout: Duration::from_secs(5),
            reply_timeout: Duration::from_secs(15),
        }
    }
}

/// How a listener's applications name their target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// By SOCKS4, 4a or 5, or by HTTP CONNECT.
    Socks,
    /// Not at all: every connection leads there. Data is forwarded at once; if
    /// the target cannot be reached, the application sees a reset.
    Fixed(Target),
    /// Not at all: a rule of nftables redirected the connection, and the kernel knows
    /// where it was going. Otherwise as [`Entry::Fixed`].
    Redirect,
}

/// Serves applications through a tunnel. Clones share limits and counters, so one
/// proxy serves several listeners.
#[derive(Debug)]
pub struct ForwardProxy<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Clone for ForwardProxy<T> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
        }
    }
}

#[derive(Debug)]
struct Shared<T> {
    tunnel: T,
    config: ForwardConfig,
    permits: Arc<Semaphore>,
    associations: Arc<Semaphore>,
    stats: Arc<Stats>,
    /// Applications have no names.
    nobody: Arc<str>,
}

/// Why a target could not be reached through the tunnel.
#[derive(Debug, Error)]
pub enum ReachError {
    /// The tunnel gave no stream.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The far side answered that it failed.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The stream broke, or carried no reply.
    #[error("the tunnel's stream failed before the reply: {0}")]
    Stream(io::Error),
}

impl ReachError {
    /// The code that tells a SOCKS application.
    pub fn reply_code(&self) -> ReplyCode {
        match self {
            Self::Open(error) => error.into(),
            Self::Failed(failure) => failure.status.into(),
            Self::Stream(_) => ReplyCode::General,
        }
    }

    /// The reason under which it is counted.
    pub fn reason(&self) -> FailReason {
        match self {
            Self::Open(error) => error.into(),
            Self::Failed(failure) => failure.status.into(),
            Self::Stream(error) => stream_reason(error),
        }
    }
}

/// A stream on which a request was answered with success.
#[derive(Debug)]
pub struct Reached<S> {
    /// The stream, at the target's first byte but for `early_data`.
    pub stream: S,
    /// The far side's address towards the target.
    pub bound: SocketAddr,
    /// What the target said first, already read.
    pub early_data: Vec<u8>,
}

impl<T: Tunnel> ForwardProxy<T> {
    /// A proxy through `tunnel`.
    pub fn new(tunnel: T, config: ForwardConfig) -> Self {
        let permits = Arc::new(Semaphore::new(config.connections_max));
        let associations = Arc::new(Semaphore::new(config.associations_max));
        Self {
            shared: Arc::new(Shared {
                tunnel,
                config,
                permits,
                associations,
                stats: Arc::default(),
                nobody: Arc::default(),
            }),
        }
    }

    /// What it counts.
    pub fn stats(&self) -> Arc<Stats> {
        self.shared.stats.clone()
    }

    /// The tunnel that it uses.
    pub fn tunnel(&self) -> &T {
        &self.shared.tunnel
    }

    /// Serves a listener until the shutdown is through. Returns how many
    /// connections the shutdown had to stop.
    pub async fn serve(&self, listener: TcpListener, entry: Entry, shutdown: Shutdown) -> usize {
        let (permits, stats) = (self.shared.permits.clone(), self.stats());
        let handle = |tcp| {
            let (proxy, entry) = (self.clone(), entry.clone());
            async move {
                match entry {
                    Entry::Socks => proxy.handle_socks(tcp).await,
                    Entry::Fixed(target) => proxy.handle_fixed(tcp, target).await,
                    Entry::Redirect => proxy.handle_redirected(tcp).await,
                }
            }
        };
        accept::serve(listener, permits, stats, shutdown, handle).await
    }

    /// Opens a stream to `target` and waits for the far side's answer; `early_data`
    /// travels with the request. For `ctcp connect`, and for SOCKS.
    ///
    /// # Errors
    /// [`ReachError`], at the latest when the configured limits have passed.
    pub async fn reach(
        &self,
        target: &Target,
        early_data: &[u8],
    ) -> Result<Reached<T::Stream>, ReachError> {
        let mut stream = self.request(target, early_data).await?;
        let patience = self.shared.config.reply_timeout;
        let result = match timeout(patience, read_reply(&mut stream)).await {
            Ok(Ok((Reply::Connected(bound), first_data))) => {
                let (bytes_up, _) = self.shared.stats.bytes();
                bytes_up.fetch_add(early_data.len() as u64, Ordering::Relaxed);
                return Ok(Reached {
                    stream,
                    bound,
                    early_data: first_data,
                });
            }
            Ok(Ok((Reply::Failed(failure), _))) => Err(failure.into()),
            Ok(Err(error)) => Err(ReachError::Stream(error)),
            // The stream opened, then the far side fell silent.
            Err(_) => Err(OpenError::NoAnswer.into()),
        };
        stream.reset(reset_code::REFUSED);
        result
    }

    async fn request(&self, target: &Target, early_data: &[u8]) -> Result<T::Stream, ReachError> {
        let request = Request::Connect(target.clone());
        self.send_request(&request, early_data).await
    }

    /// Opens a stream and sends the request with what follows it.
    async fn send_request(
        &self,
        request: &Request,
        early_data: &[u8],
    ) -> Result<T::Stream, ReachError> {
        let patience = self.shared.config.open_timeout;
        let opening = async {
            let mut stream = self.shared.tunnel.open().await?;
            let mut bytes = Vec::new();
            request.write(&mut bytes);
            bytes.extend_from_slice(early_data);
            // In one write, so that both share a packet.
            let written = async {
                stream.write_all(&bytes).await?;
                stream.flush().await
            };
            match written.await {
                Ok(()) => Ok(stream),
                Err(error) => Err(ReachError::Stream(error)),
            }
        };
        let opened = timeout(patience, opening).await;
        opened.unwrap_or(Err(OpenError::NoAnswer.into()))
    }

    async fn handle_socks(&self, mut tcp: TcpStream) {
        let shared = &self.shared;
        // Replies are small, and the application waits for each.
        let _ = tcp.set_nodelay(true);
        let negotiating = negotiate(&mut tcp, shared.config.credentials.as_ref());
        let request = match timeout(shared.config.handshake_timeout, negotiating).await {
            Ok(Ok(request)) => request,
            Ok(Err(error)) => {
                info!(%error, "SOCKS negotiation failed");
                shared.stats.fail(match error {
                    NegotiateError::Socks(
                        SocksError::WrongPassword | SocksError::NoAcceptableMethod,
                    ) => FailReason::BadPassword,
                    _ => FailReason::BadSocks,
                });
                return close_gently(tcp).await;
            }
            Err(_) => {
                debug!("SOCKS negotiation took too long");
                shared.stats.fail(FailReason::BadSocks);
                return;
            }
        };
        let SocksRequest {
            dialect,
            command,
            target,
            early_data,
        } = request;
        if command == Command::Associate {
            return self.associate(tcp, &target).await;
        }
        let reached = tokio::select! {
            reached = self.reach(&target, &early_data) => reached,
            error = broken(&tcp) => {
                debug!(%target, %error, "the application left before the answer");
                return shared.stats.fail(FailReason::LocalGone);
            }
        };
        let mut reached = match reached {
            Ok(reached) => reached,
            Err(error) => {
                info!(%target, %error, "target not reached");
                shared.stats.fail(error.reason());
                let bytes = reply(dialect, error.reply_code(), None);
                if tcp.write_all(&bytes).await.is_ok() {
                    close_gently(tcp).await;
                }
                return;
            }
        };
        let bytes = reply(dialect, ReplyCode::Ok, Some(reached.bound));
        if tcp.write_all(&bytes).await.is_err() {
            reached.stream.reset(reset_code::APPLICATION_GONE);
            return shared.stats.fail(FailReason::LocalGone);
        }
        let early = Early {
            to_tunnel: Vec::new(),
            to_local: reached.early_data,
        };
        self.relay(&target, tcp, reached.stream, early).await;
    }

    /// Carries an application's datagrams for as long as it keeps `tcp` open.
    async fn associate(&self, mut tcp: TcpStream, from: &Target) {
        let shared = &self.shared;
        let refuse = |code| reply(Dialect::Socks5, code, None);
        let begun = match shared.associations.clone().try_acquire_owned() {
            Ok(permit) => self
                .begin_association(&tcp)
                .await
                .map(|begun| (begun, permit)),
            Err(_) => {
                shared.stats.limit_reached();
                Err((FailReason::AtLimit, ReplyCode::General))
            }
        };
        let ((mut stream, udp, bound), _permit) = match begun {
            Ok(begun) => begun,
            Err((reason, code)) => {
                info!(%reason, "no association for UDP");
                shared.stats.fail(reason);
                if tcp.write_all(&refuse(code)).await.is_ok() {
                    close_gently(tcp).await;
                }
                return;
            }
        };
        let bytes = reply(Dialect::Socks5, ReplyCode::Ok, Some(bound));
        if tcp.write_all(&bytes).await.is_err() {
            stream.reset(reset_code::APPLICATION_GONE);
            return shared.stats.fail(FailReason::LocalGone);
        }
        let listed = shared.stats.list(&udp::listed_as(), &shared.nobody);
        let meter = Meter::near_listed(&shared.stats, &listed);
        let served = udp::near::serve(&mut tcp, &udp, from, &mut stream, meter).await;
        debug!(?served, "the association for UDP has ended");
        stream.reset(reset_code::APPLICATION_GONE);
    }

    /// A stream that the far side took for an association, and a socket for the
    /// application.
    async fn begin_association(
        &self,
        tcp: &TcpStream,
    ) -> Result<(T::Stream, UdpSocket, SocketAddr), (FailReason, ReplyCode)> {
        let told = |error: ReachError| (error.reason(), error.reply_code());
        let broken = |_: io::Error| (FailReason::Other, ReplyCode::General);
        let udp = udp::near::bind(tcp).await.map_err(broken)?;
        let bound = udp.local_addr().map_err(broken)?;
        let opened = self.send_request(&Request::Associate, &[]).await;
        let mut stream = opened.map_err(told)?;
        let patience = self.shared.config.reply_timeout;
        let answer = match timeout(patience, read_reply(&mut stream)).await {
            Ok(Ok((Reply::Connected(_), _))) => return Ok((stream, udp, bound)),
            Ok(Ok((Reply::Failed(failure), _))) => failure.into(),
            Ok(Err(error)) => ReachError::Stream(error),
            Err(_) => OpenError::NoAnswer.into(),
        };
        stream.reset(reset_code::REFUSED);
        Err(told(answer))
    }

    async fn handle_redirected(&self, tcp: TcpStream) {
        match original_target(&tcp) {
            Ok(target) => self.handle_fixed(tcp, target).await,
            Err(error) => {
                info!(%error, "a connection leads nowhere");
                self.shared.stats.fail(FailReason::BadRequest);
                let _ = tcp.set_zero_linger();
            }
        }
    }

    async fn handle_fixed(&self, tcp: TcpStream, target: Target) {
        let shared = &self.shared;
        let opened = tokio::select! {
            opened = self.request(&target, &[]) => opened,
            error = broken(&tcp) => {
                debug!(%target, %error, "the application left before the answer");
                return shared.stats.fail(FailReason::LocalGone);
            }
        };
        match opened {
            Ok(stream) => {
                let gate = ReplyGate::new(stream, shared.config.reply_timeout);
                self.relay(&target, tcp, gate, Early::default()).await;
            }
            Err(error) => {
                info!(%target, %error, "target not reached");
                shared.stats.fail(error.reason());
                // There are no words for it on a bare connection but a reset.
                let _ = tcp.set_zero_linger();
            }
        }
    }

    async fn relay<S: TunnelStream>(
        &self,
        target: &Target,
        tcp: TcpStream,
        stream: S,
        early: Early,
    ) {
        let stats = &self.shared.stats;
        let listed = stats.list(target, &self.shared.nobody);
        let meter = Meter::near_listed(stats, &listed);
        match relay_tcp(tcp, stream, early, reset_code::APPLICATION_GONE, meter).await {
            Ok(()) => debug!(%target, "relayed to its end"),
            Err(RelayError { side, error }) => {
                let reason = match side {
                    Side::Local => FailReason::LocalGone,
                    Side::Tunnel => stream_reason(&error),
                };
                info!(%target, %error, %reason, "relay broken");
                stats.fail(reason);
            }
        }
    }
}

/// Why a stream failed: the far side's own words where the error carries them.
fn stream_reason(error: &io::Error) -> FailReason {
    let failure = error.get_ref().and_then(|e| e.downcast_ref::<Failure>());
    match failure {
        Some(failure) => failure.status.into(),
        None => match error.kind() {
            io::ErrorKind::TimedOut => FailReason::NoAnswer,
            io::ErrorKind::InvalidData => FailReason::BadRequest,
            _ => FailReason::StreamReset,
        },
    }
}

/// Reads the reply and what came with it.
pub(crate) async fn read_reply<S: TunnelStream>(stream: &mut S) -> io::Result<(Reply, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut chunk = [0; REPLY_LEN_MAX];
    loop {
        if let Some(reply) = take_reply(&mut bytes)? {
            return Ok((reply, bytes));
        }
        let len = stream.read(&mut chunk).await?;
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&chunk[..len]);
    }
}

/// Closes a connection whose last words should arrive: bytes left unread would
/// make the kernel send a reset that overtakes them.
async fn close_gently(mut tcp: TcpStream) {
    let reading = async {
        let mut chunk = [0; 1024];
        let _ = tcp.shutdown().await;
        for _ in 0..64 {
            if !matches!(tcp.read(&mut chunk).await, Ok(len) if len > 0) {
                return;
            }
        }
    };
    let _ = timeout(Duration::from_secs(1), reading).await;
}
