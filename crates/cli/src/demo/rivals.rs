//! Plain TCP, racing on paths of its own that are emulated like CTCP's: same
//! rate, delay, queue and losses, at the same time.
//!
//! Each rival has two network namespaces, an emulated path between them, and the
//! kernel's own TCP at both ends. Nothing of it outlives the process.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, io};

use ctcp_emu::{Network, NetworkConfig, TcpTuning};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::bars::Progress;
use super::content::Content;
use super::web;
use crate::link_options::PathSpec;

/// What TCP races with: what most machines use, and the best known against loss.
const CONGESTION_CONTROLS: [&str; 2] = ["cubic", "bbr"];

/// The link towards the client: data flow from the right namespace to the left one.
const DOWN: usize = 1;

/// The congestion controls that this kernel has at hand.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// TCP with one congestion control, ready to start.
#[derive(Debug)]
pub(crate) struct Rival {
    pub(crate) name: String,
    pub(crate) progress: Progress,
    network: Arc<Network>,
}

/// How far a rival came.
#[derive(Debug, Clone)]
pub(crate) struct Standings {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// Bytes that entered the link towards the client, IP headers included.
    pub(crate) wire_bytes: u64,
    /// Until it was done, or until the race was over.
    pub(crate) span: Duration,
    pub(crate) outcome: Outcome,
}

/// How a rival's run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Everything arrived.
    Finished,
    /// It was still running.
    Cut,
    /// It broke off, for this reason.
    Failed(String),
}

/// Everybody who races, each with a path like `path`; or the reason why nobody
/// does.
pub(crate) fn line_up(path: &PathSpec, seed: u64) -> Result<Vec<Rival>, String> {
    let available = fs::read_to_string(AVAILABLE).unwrap_or_default();
    let mut rivals = Vec::new();
    for congestion in CONGESTION_CONTROLS {
        if available.split_whitespace().any(|name| name == congestion) {
            rivals.push(Rival::new(congestion, path, seed)?);
        }
    }
    if rivals.is_empty() {
        return Err(format!(
            "this kernel has none of {} loaded: see `modprobe tcp_cubic`",
            CONGESTION_CONTROLS.join(", ")
        ));
    }
    Ok(rivals)
}

impl Rival {
    fn new(congestion: &str, path: &PathSpec, seed: u64) -> Result<Self, String> {
        let (up, down) = path.links()?;
        let mut config = NetworkConfig::single(up, down);
        config.seed = seed;
        let network = Network::start(config).map_err(|error| error.to_string())?;
        let tuning = TcpTuning {
            congestion: Some(congestion.to_owned()),
            ..TcpTuning::default()
        };
        network
            .tune_tcp(0, &tuning)
            .map_err(|error| error.to_string())?;
        Ok(Self {
            name: congestion.to_uppercase(),
            progress: Progress::default(),
            network: Arc::new(network),
        })
    }

    /// Downloads the first `size` bytes of `content`, which have the hash
    /// `expected`, from the namespace at one end to that at the other.
    pub(crate) fn start(self, content: Content, size: u64, expected: String) -> Running {
        let started = Instant::now();
        let (name, progress) = (self.name.clone(), self.progress.clone());
        let network = self.network.clone();
        let task = tokio::spawn(async move {
            let outcome = self.download(content, size, expected).await;
            (outcome, started.elapsed())
        });
        Running {
            name,
            progress,
            network,
            started,
            task,
        }
    }

    async fn download(self, content: Content, size: u64, expected: String) -> Outcome {
        let network = self.network;
        let connected = tokio::task::spawn_blocking(move || connect(&network)).await;
        let (server, tcp, target) = match connected.map_err(io::Error::other).flatten() {
            Ok(ends) => ends,
            Err(error) => return Outcome::Failed(error.to_string()),
        };
        let result = tokio::select! {
            () = web::serve(server, content, size) => Err(io::Error::other("the server ended")),
            result = web::download(tcp, target, &self.progress) => result,
        };
        match result {
            Ok((bytes, sha256)) if bytes == size && sha256 == expected => Outcome::Finished,
            Ok(_) => Outcome::Failed("what arrived is not what was sent".to_owned()),
            Err(error) => Outcome::Failed(error.to_string()),
        }
    }
}

/// A web server's listener in the right namespace and a connection to it from the
/// left one.
fn connect(network: &Network) -> io::Result<(TcpListener, TcpStream, SocketAddr)> {
    let path = &network.paths()[0];
    let server_ip: IpAddr = path.right.address;
    let inside = |end: &str| {
        let namespace = network.namespace(end);
        namespace.ok_or_else(|| io::Error::other(format!("there is no namespace {end}")))
    };
    let listener = inside(&path.right.namespace)?
        .run(|| std::net::TcpListener::bind((server_ip, 0)))
        .map_err(io::Error::other)??;
    let target = listener.local_addr()?;
    let stream = inside(&path.left.namespace)?
        .run(|| std::net::TcpStream::connect(target))
        .map_err(io::Error::other)??;
    listener.set_nonblocking(true)?;
    stream.set_nonblocking(true)?;
    Ok((
        TcpListener::from_std(listener)?,
        TcpStream::from_std(stream)?,
        target,
    ))
}

/// A rival that runs.
#[derive(Debug)]
pub(crate) struct Running {
    name: String,
    pub(crate) progress: Progress,
    network: Arc<Network>,
    started: Instant,
    task: JoinHandle<(Outcome, Duration)>,
}

impl Running {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Waits until it is done.
    pub(crate) async fn finish(mut self) -> Standings {
        let (outcome, span) = match (&mut self.task).await {
            Ok(ended) => ended,
            Err(error) => (Outcome::Failed(error.to_string()), self.started.elapsed()),
        };
        self.standings(outcome, span)
    }

    /// How far it is now; it runs no further.
    pub(crate) async fn cut(self) -> Standings {
        if self.task.is_finished() {
            return self.finish().await;
        }
        self.task.abort();
        let span = self.started.elapsed();
        self.standings(Outcome::Cut, span)
    }

    fn standings(self, outcome: Outcome, span: Duration) -> Standings {
        let counters = self.network.router().counters().unwrap_or_default();
        Standings {
            name: self.name,
            bytes: self.progress.bytes(),
            wire_bytes: counters
                .links
                .get(DOWN)
                .map_or(0, |link| link.offered_bytes),
            span,
            outcome,
        }
    }
}
