//! Both proxies around a tunnel in memory, and targets to reach through them.
#![allow(dead_code, reason = "each test file uses its own part of this module")]

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ctcp_proxy::client::Client;
use ctcp_proxy::egress::{EgressPolicy, EgressRule};
use ctcp_proxy::forward::{Entry, ForwardConfig, ForwardProxy};
use ctcp_proxy::memory::{self, MemoryTunnel};
use ctcp_proxy::resolve::Resolve;
use ctcp_proxy::reverse::{ReverseConfig, ReverseProxy};
use ctcp_proxy::shutdown::{Shutdown, ShutdownTrigger, shutdown};
use ctcp_proxy::target::{HostName, Target};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Longer than anything here takes; a test that waits for it has failed.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// A resolver that knows the names of a test.
#[derive(Debug, Default)]
pub(crate) struct Table(pub(crate) BTreeMap<String, Vec<IpAddr>>);

impl Resolve for Table {
    async fn resolve(&self, name: &HostName) -> io::Result<Vec<IpAddr>> {
        if name.as_str() == "slow.test" {
            return std::future::pending().await;
        }
        let found = self.0.get(&name.normalized());
        found
            .cloned()
            .ok_or_else(|| io::Error::other("no such name"))
    }
}

/// How a rig departs from the usual.
pub(crate) struct Plan {
    pub(crate) forward: ForwardConfig,
    pub(crate) reverse: ReverseConfig,
    pub(crate) allow: Vec<&'static str>,
    pub(crate) deny: Vec<&'static str>,
    pub(crate) entry: Entry,
    /// Of the only client.
    pub(crate) limits: &'static str,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            forward: ForwardConfig::default(),
            reverse: ReverseConfig::default(),
            allow: vec!["127.0.0.0/8", "::1"],
            deny: vec![],
            entry: Entry::Socks,
            limits: "",
        }
    }
}

/// Forward proxy, tunnel in memory, reverse proxy.
pub(crate) struct Rig {
    /// Where applications connect.
    pub(crate) address: SocketAddr,
    pub(crate) forward: ForwardProxy<MemoryTunnel>,
    pub(crate) reverse: ReverseProxy<Table>,
    pub(crate) client: Arc<Client>,
    pub(crate) trigger: ShutdownTrigger,
    pub(crate) forward_task: JoinHandle<usize>,
    pub(crate) reverse_task: JoinHandle<usize>,
}

pub(crate) async fn rig(plan: Plan) -> Rig {
    let rules = |texts: &[&str]| -> Vec<EgressRule> {
        texts.iter().map(|text| text.parse().expect(text)).collect()
    };
    let policy = EgressPolicy::new(rules(&plan.allow), rules(&plan.deny));
    let names = [
        ("web.test", vec!["127.0.0.1"]),
        ("twice.test", vec!["::1", "127.0.0.1"]),
        ("private.test", vec!["10.0.0.1"]),
        ("mixed.test", vec!["10.0.0.1", "127.0.0.1"]),
    ];
    let table = names.map(|(name, ips)| {
        let ips = ips.iter().map(|ip| ip.parse().expect("literal")).collect();
        (name.to_owned(), ips)
    });
    let client = Arc::new(Client::named("anna"));
    client.set_limits(plan.limits.parse().expect("limits"));
    let reverse = ReverseProxy::with_resolver(policy, plan.reverse, Table(table.into()));
    let reverse = reverse.of_client(client.clone());
    let (tunnel, listener) = memory::tunnel(1024, 64 << 10);
    let forward = ForwardProxy::new(tunnel, plan.forward);
    let (trigger, token) = shutdown();
    let reverse_task = {
        let (reverse, token) = (reverse.clone(), token.clone());
        tokio::spawn(async move { reverse.serve(listener, token).await })
    };
    let socket = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = socket.local_addr().expect("bound");
    let forward_task = spawn_serve(&forward, socket, plan.entry, token);
    Rig {
        address,
        forward,
        reverse,
        client,
        trigger,
        forward_task,
        reverse_task,
    }
}

fn spawn_serve(
    forward: &ForwardProxy<MemoryTunnel>,
    socket: TcpListener,
    entry: Entry,
    token: Shutdown,
) -> JoinHandle<usize> {
    let forward = forward.clone();
    tokio::spawn(async move { forward.serve(socket, entry, token).await })
}

/// A target that runs `serve` for each connection.
pub(crate) async fn target_on<F, H>(listen: &str, serve: F) -> SocketAddr
where
    F: Fn(TcpStream) -> H + Send + 'static,
    H: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind(listen).await.expect(listen);
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            tokio::spawn(serve(tcp));
        }
    });
    address
}

/// A target that returns what it gets, and ends when its peer has.
pub(crate) async fn echo_on(listen: &str) -> SocketAddr {
    target_on(listen, |mut tcp| async move {
        let (mut reader, mut writer) = tcp.split();
        let _ = tokio::io::copy(&mut reader, &mut writer).await;
        let _ = writer.shutdown().await;
    })
    .await
}

pub(crate) async fn echo() -> SocketAddr {
    echo_on("127.0.0.1:0").await
}

/// A port that refuses: it was free a moment ago.
pub(crate) async fn refusing_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    listener.local_addr().expect("bound").port()
}

/// The request of SOCKS5 for a target: `atyp | address | port`.
pub(crate) fn socks5_request(target: &Target) -> Vec<u8> {
    use ctcp_proxy::target::Host;
    let mut bytes = vec![5, 1, 0];
    match &target.host {
        Host::Ip(IpAddr::V4(ip)) => {
            bytes.push(1);
            bytes.extend(ip.octets());
        }
        Host::Ip(IpAddr::V6(ip)) => {
            bytes.push(4);
            bytes.extend(ip.octets());
        }
        Host::Name(name) => {
            bytes.extend([3, name.as_str().len() as u8]);
            bytes.extend(name.as_str().as_bytes());
        }
    }
    bytes.extend(target.port.to_be_bytes());
    bytes
}

/// Connects through SOCKS5 without password; the connection, or the reply code.
pub(crate) async fn socks5(proxy: SocketAddr, target: &str) -> Result<TcpStream, u8> {
    let target: Target = target.parse().expect("a target");
    let mut tcp = TcpStream::connect(proxy).await.expect("proxy listens");
    tcp.write_all(&[5, 1, 0]).await.expect("open");
    let mut method = [0; 2];
    tcp.read_exact(&mut method).await.expect("a method");
    assert_eq!(method, [5, 0]);
    tcp.write_all(&socks5_request(&target)).await.expect("open");
    let code = socks5_reply(&mut tcp).await;
    if code == 0 { Ok(tcp) } else { Err(code) }
}

/// Reads a SOCKS5 reply and returns its code.
pub(crate) async fn socks5_reply(tcp: &mut TcpStream) -> u8 {
    let mut head = [0; 4];
    tcp.read_exact(&mut head).await.expect("a reply");
    let len = if head[3] == 4 { 18 } else { 6 };
    let mut rest = vec![0; len];
    tcp.read_exact(&mut rest).await.expect("a bound address");
    assert_eq!((head[0], head[2]), (5, 0));
    head[1]
}

/// Sends, ends, and returns all that comes back.
pub(crate) async fn exchange(tcp: &mut TcpStream, bytes: &[u8]) -> Vec<u8> {
    tcp.write_all(bytes).await.expect("open");
    tcp.shutdown().await.expect("open");
    let mut back = Vec::new();
    let read = tokio::time::timeout(SOON, tcp.read_to_end(&mut back)).await;
    read.expect("the answer hangs").expect("a clean end");
    back
}

/// Closes with a reset instead of an end.
pub(crate) fn reset(tcp: TcpStream) {
    SockRef::from(&tcp)
        .set_linger(Some(Duration::ZERO))
        .expect("open");
    drop(tcp);
}

/// The connection ends with a reset, whatever came before.
pub(crate) async fn assert_reset(tcp: &mut TcpStream) {
    let mut rest = Vec::new();
    let read = tokio::time::timeout(SOON, tcp.read_to_end(&mut rest)).await;
    let error = read.expect("the reset hangs").expect_err("a clean end");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

/// Waits until a counter or the like has come to what is expected.
pub(crate) async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(SOON, waiting).await;
    assert!(waited.is_ok(), "never: {what}");
}

/// The seed of randomized tests: `CTCP_SEED`, else a fixed one.
pub(crate) fn seed() -> u64 {
    let seed = std::env::var("CTCP_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1);
    println!("CTCP_SEED={seed}");
    seed
}

/// Shares what a target saw with the test.
pub(crate) type Seen<T> = Arc<std::sync::Mutex<Option<T>>>;
