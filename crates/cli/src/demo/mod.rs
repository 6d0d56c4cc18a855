//! `ctcp demo`: the whole system on this machine, in one process, over real
//! sockets and an emulated path.

mod content;
mod report;
mod web;

use std::io::IsTerminal;
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
use indicatif::{ProgressBar, ProgressStyle};
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
use content::Content;
use report::Report;

/// The path of [CC14] Fig. 2, with losses in both directions.
fn defaults() -> Defaults {
    Defaults {
        rate: Some(Rate::mbit(25)),
        rtt: millis(25),
        loss: LossRate::clamped(0.05),
    }
}

/// How often a line of progress is printed where there is no terminal.
const PLAIN_PROGRESS: Duration = Duration::from_secs(2);

/// How long the connection may take to come up.
const CONNECT_PATIENCE: Duration = Duration::from_secs(15);

/// Arguments of `ctcp demo`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Without options: 20 MB over 25 Mbit/s, round trip 25 ms, 5 % loss in \
    both directions before the rate limit, a queue of one bandwidth-delay product."
)]
pub(crate) struct DemoArgs {
    /// How much to download
    #[arg(long, value_name = "BYTES", default_value = "20MB", env = "CTCP_SIZE",
          value_parser = values::bytes)]
    size: u64,
    /// Names the losses and the bytes; printed with the result
    #[arg(long, value_name = "N", default_value_t = 1, env = "CTCP_SEED")]
    seed: u64,
    /// Print the result as one JSON line
    #[arg(long, env = "CTCP_JSON")]
    json: bool,
    #[command(flatten)]
    transport: TransportArgs,
    #[command(flatten)]
    link: LinkOptions,
}

/// Builds it all up, downloads, and tells what happened.
pub(crate) async fn run(args: DemoArgs) -> Result<(), Failure> {
    if args.size == 0 {
        return Err(Failure::usage(
            "--size 0 downloads nothing: give at least one byte",
        ));
    }
    let path = args.link.path(defaults());
    let setup = Setup::start(&args, &path).await?;
    if !args.json {
        report::introduction(&path, args.size);
    }
    let connected = setup.connect().await?;
    let started = Instant::now();
    let (bytes, sha256) = download(&args, &setup).await?;
    let report = Report {
        seed: args.seed,
        bytes,
        span: started.elapsed(),
        connected,
        is_whole: bytes == args.size && sha256 == Content::new(args.seed, args.size).sha256(),
        sha256,
        near: setup.near()?.stats(),
        far: setup.far()?.stats(),
        relay: setup.relay.counters().map_err(Failure::failed)?,
    };
    if args.json {
        print_line(&report.json(&path).to_string());
    } else {
        report.print(&path);
    }
    if report.is_whole {
        Ok(())
    } else {
        Err(Failure::failed(format!(
            "the download is damaged: {bytes} bytes with SHA-256 {}; this is a bug, please report \
             it with seed {}",
            report.sha256, report.seed
        )))
    }
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

async fn download(args: &DemoArgs, setup: &Setup) -> Result<(u64, String), Failure> {
    let bar = (!args.json && std::io::stderr().is_terminal()).then(|| progress_bar(args.size));
    let started = Instant::now();
    let mut told = started;
    let progress = |bytes: u64| match &bar {
        Some(bar) => bar.set_position(bytes),
        None if args.json || told.elapsed() < PLAIN_PROGRESS => {}
        None => {
            told = Instant::now();
            let rate = Rate::from_bytes_in(bytes, started.elapsed());
            let percent = bytes * 100 / args.size;
            eprintln!("{percent:>3} %  {rate}");
        }
    };
    let result = web::download(setup.socks, setup.web, progress).await;
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    result.map_err(|error| Failure::failed(format!("the download failed: {error}")))
}

fn progress_bar(bytes: u64) -> ProgressBar {
    let style = ProgressStyle::with_template(
        "  {bar:44.green/dim} {percent:>3} %  {mbit} Mbit/s  {eta} left",
    )
    .expect("the template is well formed")
    .with_key(
        "mbit",
        |state: &indicatif::ProgressState, out: &mut dyn std::fmt::Write| {
            let rate = Rate::from_bytes_in(state.pos(), state.elapsed());
            let _ = write!(out, "{:.1}", rate.as_mbit());
        },
    )
    .progress_chars("━━─");
    ProgressBar::new(bytes).with_style(style)
}
