//! The far side: takes the tunnel's streams, judges what they ask for, connects
//! and relays.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{debug, info};

use crate::client::{Admitted, Client};
use crate::connect::connect_any;
use crate::egress::{EgressPolicy, canonical};
use crate::request::{Failure, Reply, Request, Status};
use crate::resolve::{ADDRESSES_MAX, Resolve, SystemResolver};
use crate::shutdown::{Shutdown, drain, report};
use crate::splice::{Early, Meter, Side, prepare, relay_tcp};
use crate::stats::{FailReason, Stats};
use crate::target::{Host, Target};
use crate::throttle::Throttled;
use crate::tunnel::{TunnelListener, TunnelStream, reset_code};

/// Limits of a reverse proxy.
#[derive(Debug, Clone)]
pub struct ReverseConfig {
    /// Connections served at once, all clients together; further ones get
    /// [`Status::Busy`].
    pub connections_max: usize,
    /// How long a stream may take to state its request.
    pub request_timeout: Duration,
    /// How long a name may take to resolve.
    pub resolve_timeout: Duration,
    /// How long all tries to connect may take together. With the resolving it
    /// stays below the forward proxy's patience, so that the client learns why.
    pub connect_timeout: Duration,
    /// How long one address is waited for before the next is tried beside it;
    /// 250 ms is [RFC8305]'s.
    pub attempt_delay: Duration,
}

impl Default for ReverseConfig {
    fn default() -> Self {
        Self {
            connections_max: 4096,
            request_timeout: Duration::from_secs(10),
            resolve_timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(8),
            attempt_delay: Duration::from_millis(250),
        }
    }
}

/// Serves tunnel streams. Clones share policy, limits and counters, so one proxy
/// serves the connections of many clients.
#[derive(Debug)]
pub struct ReverseProxy<R = SystemResolver> {
    shared: Arc<Shared<R>>,
    /// Whose streams it serves, where that is known.
    client: Arc<Client>,
}

impl<R> Clone for ReverseProxy<R> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            client: self.client.clone(),
        }
    }
}

#[derive(Debug)]
struct Shared<R> {
    policy: RwLock<Arc<EgressPolicy>>,
    config: ReverseConfig,
    resolver: R,
    permits: Arc<Semaphore>,
    stats: Arc<Stats>,
}

/// Why a stream was not relayed to its clean end.
#[derive(Debug)]
enum Failed {
    /// The request was answered with a failure.
    Answered(Failure),
    /// Nothing could be answered.
    Silent(FailReason),
}

impl ReverseProxy<SystemResolver> {
    /// A proxy that resolves names as the system does.
    pub fn new(policy: EgressPolicy, config: ReverseConfig) -> Self {
        Self::with_resolver(policy, config, SystemResolver::default())
    }
}

impl<R: Resolve> ReverseProxy<R> {
    /// A proxy with a resolver of one's own.
    pub fn with_resolver(policy: EgressPolicy, config: ReverseConfig, resolver: R) -> Self {
        let permits = Arc::new(Semaphore::new(config.connections_max));
        Self {
            shared: Arc::new(Shared {
                policy: RwLock::new(Arc::new(policy)),
                config,
                resolver,
                permits,
                stats: Arc::default(),
            }),
            client: Arc::default(),
        }
    }

    /// The same proxy for the streams of one client, which are listed under its
    /// name and held to its limits.
    pub fn of_client(&self, client: Arc<Client>) -> Self {
        Self {
            shared: self.shared.clone(),
            client,
        }
    }

    /// What it counts.
    pub fn stats(&self) -> Arc<Stats> {
        self.shared.stats.clone()
    }

    /// Puts new rules in force for requests from now on; connections stay.
    pub fn set_policy(&self, policy: EgressPolicy) {
        let mut current = self.shared.policy.write().expect("never held in a panic");
        *current = Arc::new(policy);
    }

    /// Serves the streams of one tunnel connection until it ends or the shutdown
    /// is through. Returns how many streams the shutdown had to stop.
    pub async fn serve<L: TunnelListener>(&self, mut listener: L, mut shutdown: Shutdown) -> usize {
        let mut tasks = JoinSet::new();
        loop {
            tokio::select! {
                () = shutdown.started() => break,
                Some(ended) = tasks.join_next(), if !tasks.is_empty() => report(ended),
                stream = listener.accept() => match stream {
                    Some(stream) => {
                        let proxy = self.clone();
                        tasks.spawn(async move { proxy.handle(stream).await });
                    }
                    None => break,
                }
            }
        }
        // The listener may be what keeps the connection going.
        let stopped = drain(&mut tasks, &mut shutdown).await;
        drop(listener);
        for _ in 0..stopped {
            self.shared.stats.fail(FailReason::Cancelled);
        }
        stopped
    }

    /// Serves one stream to its end.
    pub async fn handle<S: TunnelStream>(&self, mut stream: S) {
        let shared = &self.shared;
        let _active = shared.stats.begin();
        let opened = match self.permit() {
            Ok(permits) => self.open(&mut stream).await.map(|open| (open, permits)),
            Err(failure) => {
                shared.stats.limit_reached();
                Err(Failed::Answered(failure))
            }
        };
        match opened {
            Ok(((target, tcp, early), _permits)) => {
                self.relay(target, tcp, stream, early).await;
            }
            Err(Failed::Answered(failure)) => {
                shared.stats.fail(failure.status.into());
                let mut bytes = Vec::new();
                Reply::Failed(failure).write(&mut bytes);
                let answer = async {
                    stream.write_all(&bytes).await?;
                    stream.shutdown().await
                };
                let answered = timeout(shared.config.request_timeout, answer).await;
                if !matches!(answered, Ok(Ok(()))) {
                    stream.reset(reset_code::REFUSED);
                }
            }
            Err(Failed::Silent(reason)) => {
                shared.stats.fail(reason);
                stream.reset(reset_code::PROTOCOL);
            }
        }
    }

    /// A place among the streams of all clients, and of this one.
    fn permit(&self) -> Result<(OwnedSemaphorePermit, Admitted), Failure> {
        let admitted = self.client.admit().map_err(|limit| {
            info!(client = %self.client.name(), limit, "refused a stream above the client's limit");
            let reason = format!("this client may have {limit} at once");
            Failure::new(Status::Busy, reason)
        })?;
        match self.shared.permits.clone().try_acquire_owned() {
            Ok(permit) => Ok((permit, admitted)),
            Err(_) => Err(Failure::new(Status::Busy, "")),
        }
    }

    /// Reads the request and connects to what it asks for.
    async fn open<S: TunnelStream>(
        &self,
        stream: &mut S,
    ) -> Result<(Target, TcpStream, Vec<u8>), Failed> {
        let reading = read_request(stream);
        let (request, early) = timeout(self.shared.config.request_timeout, reading)
            .await
            .unwrap_or(Err(Failed::Silent(FailReason::BadRequest)))?;
        let Request::Connect(target) = request;
        // A client that gave up needs no connection.
        let connected = tokio::select! {
            connected = self.connect(&target) => connected,
            error = poll_fn(|cx| stream.poll_broken(cx)) => {
                debug!(%target, %error, "the client left before the target answered");
                return Err(Failed::Silent(FailReason::StreamReset));
            }
        };
        match connected {
            Ok(tcp) => Ok((target, tcp, early)),
            Err(failure) => {
                info!(%target, %failure, "target not connected");
                Err(Failed::Answered(failure))
            }
        }
    }

    /// Judges, resolves, judges what was resolved, connects exactly that.
    async fn connect(&self, target: &Target) -> Result<TcpStream, Failure> {
        let shared = &self.shared;
        let policy = shared.policy.read().expect("never held in a panic").clone();
        let refused =
            |refusal: crate::egress::Refusal| Failure::new(Status::NotAllowed, refusal.to_string());
        let verdict = policy.judge_name(target).map_err(refused)?;
        let ips = match &target.host {
            Host::Ip(ip) => vec![*ip],
            Host::Name(name) => {
                let resolving = shared.resolver.resolve(name);
                match timeout(shared.config.resolve_timeout, resolving).await {
                    Ok(Ok(ips)) if !ips.is_empty() => ips,
                    Ok(Ok(_)) => return Err(Failure::new(Status::NameUnknown, "no address")),
                    Ok(Err(error)) => {
                        return Err(Failure::new(Status::NameUnknown, error.to_string()));
                    }
                    Err(_) => {
                        let reason = "no answer from the name servers";
                        return Err(Failure::new(Status::NameUnknown, reason));
                    }
                }
            }
        };
        let mut addresses = Vec::new();
        let mut first_refusal = None;
        for ip in ips.into_iter().take(ADDRESSES_MAX) {
            let address = canonical(SocketAddr::new(ip, target.port));
            match policy.judge_address(address, verdict) {
                Ok(()) if addresses.contains(&address) => {}
                Ok(()) => addresses.push(address),
                Err(refusal) => first_refusal = first_refusal.or(Some(refusal)),
            }
        }
        if addresses.is_empty()
            && let Some(refusal) = first_refusal
        {
            return Err(refused(refusal));
        }
        let config = &shared.config;
        connect_any(&addresses, config.connect_timeout, config.attempt_delay).await
    }

    async fn relay<S: TunnelStream>(
        &self,
        target: Target,
        tcp: TcpStream,
        mut stream: S,
        early: Vec<u8>,
    ) {
        let stats = &self.shared.stats;
        // From here on the target sees a reset unless all went well.
        let Ok(bound) = prepare(&tcp).and_then(|()| tcp.local_addr()) else {
            stats.fail(FailReason::LocalGone);
            stream.reset(reset_code::TARGET_GONE);
            return;
        };
        let mut reply = Vec::new();
        Reply::Connected(canonical(bound)).write(&mut reply);
        // The reply leaves at once, with what the target says first if that is
        // quick; nothing waits for it.
        let early = Early {
            to_local: early,
            to_tunnel: Vec::new(),
        };
        let replying = async {
            stream.write_all(&reply).await?;
            stream.flush().await
        };
        if !matches!(
            timeout(self.shared.config.request_timeout, replying).await,
            Ok(Ok(()))
        ) {
            stats.fail(FailReason::StreamReset);
            return;
        }
        let listed = stats.list(&target, &self.client.name());
        let stream = Throttled::new(stream, self.client.clone());
        let meter = Meter::far_listed(stats, &listed);
        match relay_tcp(tcp, stream, early, reset_code::TARGET_GONE, meter).await {
            Ok(()) => debug!(%target, "relayed to its end"),
            Err(error) => {
                debug!(%target, %error, "relay broken");
                stats.fail(match error.side {
                    Side::Local => FailReason::LocalGone,
                    Side::Tunnel => FailReason::StreamReset,
                });
            }
        }
    }
}

/// Reads the request and what came with it.
async fn read_request<S: TunnelStream>(stream: &mut S) -> Result<(Request, Vec<u8>), Failed> {
    let mut bytes = Vec::with_capacity(2048);
    loop {
        match Request::parse(&bytes) {
            Ok(Some((request, len))) => {
                bytes.drain(..len);
                return Ok((request, bytes));
            }
            Ok(None) => {}
            Err(error) => {
                let failure = Failure::new(error.status(), error.to_string());
                return Err(Failed::Answered(failure));
            }
        }
        // The parser asks for no more than REQUEST_LEN_MAX, so this stays small.
        let mut chunk = [0; 2048];
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return Err(Failed::Silent(FailReason::BadRequest)),
            Ok(len) => bytes.extend_from_slice(&chunk[..len]),
        }
    }
}
