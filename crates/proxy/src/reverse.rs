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
use crate::egress::{EgressPolicy, Refusal, canonical};
use crate::request::{Failure, Reply, Request, Status};
use crate::resolve::{ADDRESSES_MAX, Resolve, SystemResolver};
use crate::shutdown::{Shutdown, drain, report};
use crate::speedtest::{self, Speedtest, TESTS_MAX};
use crate::splice::{Early, Meter, Side, prepare, relay_tcp};
use crate::stats::{FailReason, Stats};
use crate::target::{Host, Target};
use crate::throttle::Throttled;
use crate::tunnel::{TunnelListener, TunnelStream, reset_code};
use crate::udp;

/// Limits of a reverse proxy.
#[derive(Debug, Clone)]
pub struct ReverseConfig {
    /// Connections served at once, all clients together; further ones get
    /// [`Status::Busy`].
    pub connections_max: usize,
    /// Associations for UDP at once, of those connections; further ones get
    /// [`Status::Busy`].
    pub associations_max: usize,
    /// Whether clients may test their speed against this proxy.
    pub speedtests: bool,
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
            associations_max: 1024,
            speedtests: true,
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
    associations: Arc<Semaphore>,
    tests: Arc<Semaphore>,
    stats: Arc<Stats>,
}

/// Counts as a speed test of the server and of the client until it is dropped.
type Testing = (OwnedSemaphorePermit, crate::client::Testing);

/// What a request led to.
enum Opened {
    /// A connection to this target, and what came with the request.
    Connected(Target, TcpStream, Vec<u8>),
    /// A place among the associations for UDP.
    Association(OwnedSemaphorePermit),
    /// A speed test, and how many bytes came with the request.
    Test(Speedtest, usize, Testing),
}

fn refused(refusal: Refusal) -> Failure {
    Failure::new(Status::NotAllowed, refusal.to_string())
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
        let associations = Arc::new(Semaphore::new(config.associations_max));
        Self {
            shared: Arc::new(Shared {
                policy: RwLock::new(Arc::new(policy)),
                config,
                resolver,
                permits,
                associations,
                tests: Arc::new(Semaphore::new(TESTS_MAX)),
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
            Ok((Opened::Connected(target, tcp, early), _permits)) => {
                self.relay(target, tcp, stream, early).await;
            }
            Ok((Opened::Association(_permit), _permits)) => self.associate(stream).await,
            Ok((Opened::Test(test, early, testing), _permits)) => {
                self.test(stream, test, early, testing).await;
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

    /// Reads the request and makes ready what it asks for.
    async fn open<S: TunnelStream>(&self, stream: &mut S) -> Result<Opened, Failed> {
        let reading = read_request(stream);
        let (request, early) = timeout(self.shared.config.request_timeout, reading)
            .await
            .unwrap_or(Err(Failed::Silent(FailReason::BadRequest)))?;
        let target = match request {
            Request::Connect(target) => target,
            Request::Associate => {
                return match self.shared.associations.clone().try_acquire_owned() {
                    Ok(permit) => Ok(Opened::Association(permit)),
                    Err(_) => Err(Failed::Answered(Failure::new(Status::Busy, ""))),
                };
            }
            Request::Speedtest(test) => {
                let testing = self.permit_test().map_err(Failed::Answered)?;
                return Ok(Opened::Test(test, early.len(), testing));
            }
        };
        // A client that gave up needs no connection.
        let connected = tokio::select! {
            connected = self.connect(&target) => connected,
            error = poll_fn(|cx| stream.poll_broken(cx)) => {
                debug!(%target, %error, "the client left before the target answered");
                return Err(Failed::Silent(FailReason::StreamReset));
            }
        };
        match connected {
            Ok(tcp) => Ok(Opened::Connected(target, tcp, early)),
            Err(failure) => {
                info!(%target, %failure, "target not connected");
                Err(Failed::Answered(failure))
            }
        }
    }

    /// A speed test's place, or why there is none.
    fn permit_test(&self) -> Result<Testing, Failure> {
        if !self.shared.config.speedtests {
            let reason = "it allows no speed tests (--no-speedtest)";
            return Err(Failure::new(Status::NotAllowed, reason));
        }
        let busy = |reason| Failure::new(Status::Busy, reason);
        let own = self.client.begin_test();
        let own = own.ok_or_else(|| busy("this client tests already"))?;
        let permit = self.shared.tests.clone().try_acquire_owned();
        let permit = permit.map_err(|_| busy("as many speed tests run as it allows"))?;
        Ok((permit, own))
    }

    /// Whose streams it serves.
    pub(crate) fn client(&self) -> &Arc<Client> {
        &self.client
    }

    fn policy(&self) -> Arc<EgressPolicy> {
        let policy = self.shared.policy.read().expect("never held in a panic");
        policy.clone()
    }

    /// Judges a target that gives its address.
    pub(crate) fn judge_address(
        &self,
        target: &Target,
        address: SocketAddr,
    ) -> Result<(), Failure> {
        let policy = self.policy();
        let verdict = policy.judge_name(target).map_err(refused)?;
        policy.judge_address(address, verdict).map_err(refused)
    }

    /// Judges, resolves, judges what was resolved, connects exactly that.
    async fn connect(&self, target: &Target) -> Result<TcpStream, Failure> {
        let addresses = self.addresses(target).await?;
        let config = &self.shared.config;
        connect_any(&addresses, config.connect_timeout, config.attempt_delay).await
    }

    /// The addresses of a target that may be reached: judges, resolves, judges what was
    /// resolved.
    pub(crate) async fn addresses(&self, target: &Target) -> Result<Vec<SocketAddr>, Failure> {
        let shared = &self.shared;
        let policy = self.policy();
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
        Ok(addresses)
    }

    /// Answers with success and an address that means nothing.
    async fn accept<S: TunnelStream>(&self, stream: &mut S) -> bool {
        let mut reply = Vec::new();
        Reply::Connected(SocketAddr::from(([0, 0, 0, 0], 0))).write(&mut reply);
        let replying = async {
            stream.write_all(&reply).await?;
            stream.flush().await
        };
        let replied = timeout(self.shared.config.request_timeout, replying).await;
        let is_accepted = matches!(replied, Ok(Ok(())));
        if !is_accepted {
            self.shared.stats.fail(FailReason::StreamReset);
        }
        is_accepted
    }

    /// Carries datagrams until the client ends the stream.
    async fn associate<S: TunnelStream>(&self, mut stream: S) {
        // The first may follow the answer at once.
        udp::listen(&mut stream).await;
        if !self.accept(&mut stream).await {
            return;
        }
        let stats = &self.shared.stats;
        let listed = stats.list(&udp::listed_as(), &self.client.name());
        let meter = Meter::far_listed(stats, &listed);
        udp::far::serve(&mut stream, self, meter).await;
        stream.reset(reset_code::TARGET_GONE);
    }

    /// Tests one direction.
    async fn test<S: TunnelStream>(
        &self,
        mut stream: S,
        test: Speedtest,
        early: usize,
        testing: Testing,
    ) {
        if !self.accept(&mut stream).await {
            return;
        }
        let mut stream = Throttled::new(stream, self.client.clone());
        let served = speedtest::serve(&mut stream, test, early, || drop(testing)).await;
        debug!(?test, ?served, "a speed test has ended");
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
