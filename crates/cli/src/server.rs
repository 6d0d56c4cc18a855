//! `ctcp server`: the reverse proxy, the far side.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use ctcp::{Connection, Endpoint, Identity, ServerConfig};
use ctcp_proxy::egress::{EgressPolicy, EgressRule};
use ctcp_proxy::limits::{Limits, parse_rate};
use ctcp_proxy::reverse::{ReverseConfig, ReverseProxy};
use ctcp_proxy::shutdown::{Shutdown, shutdown};
use ctcp_proxy::target::{Host, Target};
use ctcp_units::Rate;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tracing::info;

use crate::config::ConfigArgs;
use crate::dial::FAREWELL;
use crate::failure::Failure;
use crate::gatekeeper::{Gatekeeper, GatekeeperConfig};
use crate::keys;
use crate::observe::{ObserveArgs, Observing, ProxySource};
use crate::output::{self, ReadyArgs, notice};
use crate::signals::StopSignals;
use crate::state::{State, StateArgs};
use crate::transport::TransportArgs;
use crate::tunnel::Incoming;
use crate::values;

/// Arguments of `ctcp server`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerArgs {
    /// UDP address to listen on; port 0 lets the system choose
    #[arg(long, value_name = "ADDR:PORT", env = "CTCP_LISTEN",
          default_value_t = SocketAddr::from(([0, 0, 0, 0], 4500)))]
    listen: SocketAddr,
    /// The server's private key, made by `ctcp keygen` [default: server.key in
    /// the state folder, made at the first start]
    #[arg(long, value_name = "FILE", env = "CTCP_KEY")]
    key: Option<PathBuf>,
    /// A client that may connect, or a file of them, a line each: public key, name,
    /// limits (`KEY anna rate=20mbit streams=100`); may be repeated. SIGHUP reads the
    /// files again
    #[arg(
        long,
        value_name = "PUBKEY|FILE",
        env = "CTCP_ALLOW",
        value_delimiter = ','
    )]
    allow: Vec<String>,
    /// Print a single-use invite, good for 24 hours, for a client of this name
    #[arg(long, value_name = "NAME", env = "CTCP_INVITE", requires = "public")]
    invite: Option<String>,
    /// The host name or address by which clients reach this server; it goes into
    /// the invite
    #[arg(long, value_name = "HOST[:PORT]", env = "CTCP_PUBLIC")]
    public: Option<String>,
    /// Targets allowed although they are loopback, link-local or private; may be
    /// repeated
    #[arg(
        long,
        value_name = "CIDR|HOST:PORT",
        env = "CTCP_EGRESS_ALLOW",
        value_delimiter = ','
    )]
    egress_allow: Vec<EgressRule>,
    /// Targets denied; beats --egress-allow; may be repeated
    #[arg(
        long,
        value_name = "CIDR|HOST:PORT",
        env = "CTCP_EGRESS_DENY",
        value_delimiter = ','
    )]
    egress_deny: Vec<EgressRule>,
    /// What each client may relay each way, such as 20mbit, unless the allow-list
    /// says otherwise behind its name: rate=50mbit
    #[arg(long, value_name = "RATE", env = "CTCP_CLIENT_RATE", value_parser = parse_rate)]
    client_rate: Option<Rate>,
    /// Streams (connections to targets) that each client may have at once, unless
    /// the allow-list says otherwise: streams=100
    #[arg(long, value_name = "N", env = "CTCP_CLIENT_STREAMS")]
    client_streams: Option<u32>,
    /// Refuse clients' speed tests
    #[arg(long, env = "CTCP_NO_SPEEDTEST")]
    no_speedtest: bool,
    #[command(flatten)]
    state: StateArgs,
    #[command(flatten)]
    transport: TransportArgs,
    /// How long connections may go on after SIGTERM
    #[arg(long, value_name = "TIME", default_value = "10s", env = "CTCP_DRAIN",
          value_parser = values::duration)]
    drain: Duration,
    /// Print results as JSON lines
    #[arg(long, env = "CTCP_JSON")]
    json: bool,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    observe: ObserveArgs,
    #[command(flatten)]
    ready: ReadyArgs,
}

impl ServerArgs {
    /// What a client may take of which the lists say nothing.
    const fn limits(&self) -> Limits {
        Limits {
            rate: self.client_rate,
            streams: self.client_streams,
        }
    }
}

/// Runs until a signal ends it.
pub(crate) async fn run(args: ServerArgs) -> Result<(), Failure> {
    let stop = StopSignals::new()?;
    let (identity, key_note, state) = identity(&args)?;
    let gatekeeper = Gatekeeper::open(GatekeeperConfig {
        arguments: args.allow.clone(),
        enrolled: state.as_ref().map(State::allow),
        invites: state.as_ref().map(State::invites),
        limits: args.limits(),
    })?;
    if gatekeeper.is_closed_to_all() && args.invite.is_none() {
        return Err(Failure::usage(
            "nobody may connect: allow clients with --allow PUBKEY, or invite one with \
             --invite NAME --public HOST",
        ));
    }
    let mut config = ServerConfig::new(identity.clone(), gatekeeper.clone());
    config.transport = args.transport.config()?;
    let prepared = args.observe.prepare("server").await?;
    let endpoint = Endpoint::server(args.listen, config).map_err(|error| {
        Failure::usage(format_args!(
            "{error}; give another address with --listen ADDR:PORT, or end who has this one"
        ))
    })?;
    let listening = endpoint.local_addr();
    output::result(args.json, "identity", identity.public(), &key_note);
    if let Some(name) = &args.invite {
        let public = args.public.as_deref().expect("clap requires it");
        let address = public_address(public, listening.port())?;
        let invite = gatekeeper.invite(name, address, &identity)?;
        let note = format!("single use, valid 24 h, for {name}");
        output::result(args.json, "invite", invite, &note);
    }
    output::result(args.json, "listening", listening, &gatekeeper.summary());

    let policy = EgressPolicy::new(args.egress_allow, args.egress_deny);
    let limits = ReverseConfig {
        speedtests: !args.no_speedtest,
        ..ReverseConfig::default()
    };
    let proxy = ReverseProxy::new(policy, limits);
    let source = ProxySource {
        stats: proxy.stats(),
        clients: Some(gatekeeper.clients()),
        endpoint: Some(endpoint.clone()),
    };
    let observing = prepared.start("server", &listening.to_string(), source, args.json)?;
    let (trigger, token) = shutdown();
    let _ready = args.ready.announce()?;
    tokio::spawn(stop.drive(trigger, args.drain));
    let has_file = args.config.config.is_some();
    reload_on_hangup(gatekeeper.clone(), proxy.clone(), has_file)?;
    serve(&endpoint, &proxy, &gatekeeper, &observing, token).await;
    endpoint.drain(FAREWELL).await;
    Ok(())
}

/// The identity, where it came from, and the folder of the state if it is used:
/// who says key and list explicitly gets nothing from there.
fn identity(args: &ServerArgs) -> Result<(Identity, String, Option<State>), Failure> {
    let needs_state = args.key.is_none() || args.invite.is_some() || args.state.state.is_some();
    let state = if needs_state {
        let state = args.state.locate()?;
        state.create()?;
        Some(state)
    } else {
        None
    };
    if let Some(path) = &args.key {
        let note = format!("({})", path.display());
        return Ok((keys::load(path)?, note, state));
    }
    let path = state.as_ref().expect("no key was given").server_key();
    let (identity, is_new) = keys::load_or_create(&path)?;
    let created = if is_new { " created, mode 0600" } else { "" };
    Ok((identity, format!("({}{created})", path.display()), state))
}

/// `HOST` or `HOST:PORT` as clients shall see it.
pub(crate) fn public_address(text: &str, port: u16) -> Result<Target, Failure> {
    let bad = |error: String| Failure::usage(format!("--public {text}: {error}"));
    if let Ok(target) = text.parse() {
        return Ok(target);
    }
    let host = Host::from_name(text.as_bytes()).map_err(|error| bad(error.to_string()))?;
    Ok(Target { host, port })
}

/// Serves clients until the shutdown is through.
pub(crate) async fn serve(
    endpoint: &Endpoint,
    proxy: &ReverseProxy,
    gatekeeper: &Gatekeeper,
    observing: &Observing,
    mut token: Shutdown,
) {
    let mut clients = JoinSet::new();
    loop {
        let connection = tokio::select! {
            () = token.started() => break,
            Some(_) = clients.join_next(), if !clients.is_empty() => continue,
            accepted = endpoint.accept() => match accepted {
                Some(connection) => connection,
                None => break,
            },
        };
        let client = gatekeeper.client(&connection.peer_key());
        let (proxy, token) = (proxy.of_client(client.clone()), token.clone());
        let shown = observing.observer.show(&client.name(), &connection);
        clients.spawn(async move {
            serve_client(connection, client.name(), proxy, token).await;
            drop(shown);
        });
    }
    while clients.join_next().await.is_some() {}
}

async fn serve_client(
    connection: Connection,
    name: Arc<str>,
    proxy: ReverseProxy,
    token: Shutdown,
) {
    info!(client = %name, key = %connection.peer_key(), "client connected");
    let incoming = Incoming(connection.clone());
    let stopping = token.clone();
    proxy.serve(incoming, token).await;
    if stopping.is_started() {
        connection.close(0, "the server stops");
    }
    info!(client = %name, ended = ?connection.error(), "client gone");
}

/// Reads the allow-lists and, from a configuration file, limits and egress rules
/// again at SIGHUP. Connections stay.
fn reload_on_hangup(
    gatekeeper: Gatekeeper,
    proxy: ReverseProxy,
    has_file: bool,
) -> Result<(), Failure> {
    let mut hangup = signal(SignalKind::hangup())
        .map_err(|error| Failure::failed(format!("cannot listen to signals: {error}")))?;
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            let reloaded = match has_file {
                true => reload_file(&gatekeeper, &proxy),
                false => gatekeeper.reload(None),
            };
            match reloaded {
                Ok(()) => notice(format_args!(
                    "allow-lists read again: {}",
                    gatekeeper.summary()
                )),
                Err(failure) => notice(format_args!(
                    "{}; lists and rules stay as they were",
                    failure.message
                )),
            }
        }
    });
    Ok(())
}

/// Takes who may come in and where they may go from the configuration file as it
/// is now; nothing changes if there is anything wrong with it.
fn reload_file(gatekeeper: &Gatekeeper, proxy: &ReverseProxy) -> Result<(), Failure> {
    let args = crate::parse_server_again()?;
    let limits = args.limits();
    gatekeeper.reload(Some((args.allow, limits)))?;
    proxy.set_policy(EgressPolicy::new(args.egress_allow, args.egress_deny));
    Ok(())
}
