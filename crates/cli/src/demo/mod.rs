//! `ctcp demo`: the whole system on this machine, in one process, over real
//! sockets and an emulated path; beside it, where the machine allows, plain TCP on
//! paths of the same kind.

mod bars;
mod content;
mod report;
mod rivals;
mod web;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use clap::Args;
use ctcp::{Authorize, Connection, Decision, Endpoint, Identity, PublicKey, Refusal, ServerConfig};
use ctcp_emu::{Relay, RelayConfig, RelayHandle};
use ctcp_proxy::egress::{EgressPolicy, EgressRule};
use ctcp_proxy::forward::{Entry, ForwardConfig, ForwardProxy};
use ctcp_proxy::reverse::{ReverseConfig, ReverseProxy};
use ctcp_proxy::shutdown::Shutdown;
use ctcp_units::{LossRate, Rate, millis};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::dial::Dialer;
use crate::failure::{Exit, Failure};
use crate::keys;
use crate::link_options::{Defaults, LinkOptions, PathSpec};
use crate::output::print_line;
use crate::state::Server;
use crate::supervisor::{Uplink, uplink};
use crate::transport::TransportArgs;
use crate::tunnel::Incoming;
use crate::values;
use bars::{Progress, Runners};
use content::Content;
use report::Report;
use rivals::{Rival, Running, Standings};

/// The path of [CC14] Fig. 2, with losses in both directions.
fn defaults() -> Defaults {
    Defaults {
        rate: Some(Rate::mbit(25)),
        rtt: millis(25),
        loss: LossRate::clamped(0.05),
    }
}

/// How long the connection may take to come up.
const CONNECT_PATIENCE: Duration = Duration::from_secs(15);

/// Arguments of `ctcp demo`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Without options: 20 MB over 25 Mbit/s, round trip 25 ms, 5 % loss in \
    both directions before the rate limit, a queue of one bandwidth-delay product. Beside CTCP \
    plain TCP runs, each flavour on a path of its own with the same losses, rate and delay, \
    until CTCP is done."
)]
pub(crate) struct DemoArgs {
    /// How much to download
    #[arg(long, value_name = "BYTES", default_value = "20MB", env = "CTCP_SIZE",
          value_parser = values::bytes)]
    size: u64,
    /// Names the losses and the bytes; printed with the result
    #[arg(long, value_name = "N", default_value_t = 1, env = "CTCP_SEED")]
    seed: u64,
    /// Run without plain TCP beside
    #[arg(long, conflicts_with = "to_the_end", env = "CTCP_ALONE")]
    alone: bool,
    /// Let plain TCP run to the end, however long it takes
    #[arg(long, env = "CTCP_TO_THE_END")]
    to_the_end: bool,
    /// Print the result as one JSON line
    #[arg(long, env = "CTCP_JSON")]
    json: bool,
    #[command(flatten)]
    transport: TransportArgs,
    #[command(flatten)]
    link: LinkOptions,
}

/// Gets the privileges that plain TCP needs for its paths, or says why it cannot
/// run; to be called before any thread is started.
pub(crate) fn prepare(args: &DemoArgs) -> Result<(), String> {
    if args.alone {
        return Err("asked for by --alone".to_owned());
    }
    let entered = ctcp_emu::enter_user_namespace();
    entered.map(drop).map_err(|error| error.to_string())
}

/// Builds it all up, downloads, and tells what happened. `privileges`: whether
/// there may be network namespaces, or why not.
pub(crate) async fn run(args: DemoArgs, privileges: Result<(), String>) -> Result<(), Failure> {
    if args.size == 0 {
        return Err(Failure::usage(
            "--size 0 downloads nothing: give at least one byte",
        ));
    }
    let path = args.link.path(defaults());
    let setup = Setup::start(&args, &path).await?;
    let rivals = privileges.and_then(|()| rivals::line_up(&path, args.seed));
    if !args.json {
        report::introduction(&path, args.size, &rivals);
    }
    let connected = setup.connect().await?;
    let content = Content::new(args.seed, args.size);
    let expected = content.clone().sha256();
    let rivals = rivals.map(|rivals| {
        let start = |rival: Rival| rival.start(content.clone(), args.size, expected.clone());
        rivals.into_iter().map(start).collect()
    });
    let race = race(&args, &setup, rivals).await?;
    let report = Report {
        seed: args.seed,
        bytes: race.bytes,
        span: race.span,
        connected,
        is_whole: race.bytes == args.size && race.sha256 == expected,
        sha256: race.sha256,
        near: setup.near()?.stats(),
        far: setup.far()?.stats(),
        relay: setup.relay.counters().map_err(Failure::failed)?,
        rivals: race.rivals,
    };
    if args.json {
        print_line(&report.json(&path).to_string());
    } else {
        report.print(&path);
    }
    if report.is_whole {
        Ok(())
    } else {
        let Report {
            bytes,
            sha256,
            seed,
            ..
        } = report;
        Err(Failure::failed(format!(
            "the download is damaged: {bytes} bytes with SHA-256 {sha256}; this is a bug, please \
             report it with seed {seed}"
        )))
    }
}

/// What came of the race.
struct Race {
    bytes: u64,
    sha256: String,
    /// From CTCP's request to its last byte.
    span: Duration,
    /// How far plain TCP was by then; or why it did not run.
    rivals: Result<Vec<Standings>, String>,
}

/// Downloads by CTCP while the rivals run.
async fn race(
    args: &DemoArgs,
    setup: &Setup,
    rivals: Result<Vec<Running>, String>,
) -> Result<Race, Failure> {
    let progress = Progress::default();
    let mut runners: Runners = vec![("CTCP".to_owned(), progress.clone())];
    for rival in rivals.iter().flatten() {
        runners.push((rival.name().to_owned(), rival.progress.clone()));
    }
    let watched = async {
        match args.json {
            true => std::future::pending().await,
            false => bars::show(&runners, args.size).await,
        }
    };
    let run = async {
        let started = Instant::now();
        let tcp = web::connect_by_socks(setup.socks, setup.web).await?;
        let (bytes, sha256) = web::download(tcp, setup.web, &progress).await?;
        let span = started.elapsed();
        let rivals = match rivals {
            Ok(rivals) => Ok(standings(rivals, args.to_the_end).await),
            Err(reason) => Err(reason),
        };
        Ok::<_, std::io::Error>(Race {
            bytes,
            sha256,
            span,
            rivals,
        })
    };
    tokio::select! {
        race = run => race.map_err(|error| Failure::failed(format!("the download failed: {error}"))),
        never = watched => match never {},
    }
}

async fn standings(rivals: Vec<Running>, is_to_the_end: bool) -> Vec<Standings> {
    let mut standings = Vec::new();
    for rival in rivals {
        standings.push(match is_to_the_end {
            true => rival.finish().await,
            false => rival.cut().await,
        });
    }
    standings
}

/// Everything that runs for the demo; it ends with the process.
struct Setup {
    web: SocketAddr,
    socks: SocketAddr,
    relay: RelayHandle,
    proxy: ForwardProxy<Uplink>,
    far: watch::Receiver<Option<Connection>>,
}

impl Setup {
    async fn start(args: &DemoArgs, path: &PathSpec) -> Result<Self, Failure> {
        let (up, down) = path.links().map_err(Failure::usage)?;
        let transport = args.transport.config()?;

        let web_listener = listen().await?;
        let web = web_listener.local_addr().map_err(Failure::failed)?;
        let content = Content::new(args.seed, args.size);
        tokio::spawn(web::serve(web_listener, content, args.size));

        let (server, client) = (keys::generate()?, keys::generate()?);
        let mut config = ServerConfig::new(server.clone(), Only(*client.public()));
        config.transport = transport.clone();
        let endpoint = Endpoint::server(loopback(), config).map_err(Failure::failed)?;
        let behind = endpoint.local_addr();
        let far = serve_far_side(endpoint, web)?;

        let config = RelayConfig::new(loopback(), behind, up, down).seed(args.seed);
        let relay = Relay::spawn(config).map_err(Failure::failed)?;

        let (uplink, supervisor) = uplink(dialer(relay.local_addr(), &server, client, transport));
        tokio::spawn(supervisor.run(None));
        let proxy = ForwardProxy::new(uplink, ForwardConfig::default());
        let socks_listener = listen().await?;
        let socks = socks_listener.local_addr().map_err(Failure::failed)?;
        let serving = proxy.clone();
        tokio::spawn(async move {
            serving
                .serve(socks_listener, Entry::Socks, Shutdown::never())
                .await
        });
        Ok(Self {
            web,
            socks,
            relay,
            proxy,
            far,
        })
    }

    /// Waits until the tunnel is up; returns how long that took.
    async fn connect(&self) -> Result<Duration, Failure> {
        let started = Instant::now();
        let mut far = self.far.clone();
        let up = async {
            while self.proxy.tunnel().connection().is_none() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let _ = far.wait_for(Option::is_some).await;
        };
        match timeout(CONNECT_PATIENCE, up).await {
            Ok(()) => Ok(started.elapsed()),
            Err(_) => Err(Failure::new(
                Exit::NoAnswer,
                format!(
                    "no connection within {CONNECT_PATIENCE:?}: the emulated path loses too much"
                ),
            )),
        }
    }

    fn near(&self) -> Result<Connection, Failure> {
        let connection = self.proxy.tunnel().connection();
        connection.ok_or_else(|| Failure::failed("the connection was lost"))
    }

    fn far(&self) -> Result<Connection, Failure> {
        let connection = self.far.borrow().clone();
        connection.ok_or_else(|| Failure::failed("the connection was lost"))
    }
}

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

async fn listen() -> Result<TcpListener, Failure> {
    TcpListener::bind(loopback())
        .await
        .map_err(|error| Failure::failed(format!("cannot listen on loopback: {error}")))
}

fn dialer(
    remote: SocketAddr,
    server: &Identity,
    identity: Identity,
    transport: ctcp::TransportConfig,
) -> Dialer {
    Dialer {
        server: Server {
            address: remote.into(),
            key: *server.public(),
        },
        identity,
        transport,
        paths: Vec::new(),
        invite: None,
    }
}

/// The reverse proxy, which may connect to the web server and nothing else here.
fn serve_far_side(
    endpoint: Endpoint,
    web: SocketAddr,
) -> Result<watch::Receiver<Option<Connection>>, Failure> {
    let rule: EgressRule = web.to_string().parse().map_err(Failure::failed)?;
    let policy = EgressPolicy::new(vec![rule], Vec::new());
    let proxy = ReverseProxy::new(policy, ReverseConfig::default());
    let (sender, receiver) = watch::channel(None);
    tokio::spawn(async move {
        while let Some(connection) = endpoint.accept().await {
            sender.send_replace(Some(connection.clone()));
            let proxy = proxy.clone();
            tokio::spawn(async move { proxy.serve(Incoming(connection), Shutdown::never()).await });
        }
    });
    Ok(receiver)
}

/// Lets one client in.
struct Only(PublicKey);

impl Authorize for Only {
    fn authorize(&mut self, client: &PublicKey, _invite: &[u8], _wall_nanos: u64) -> Decision {
        if *client == self.0 {
            Decision::Allow
        } else {
            Decision::Refuse(Refusal::NotAllowed)
        }
    }
}
