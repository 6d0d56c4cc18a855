//! `ctcp client`: the forward proxy, the near side.

use std::fs;
use std::io::{IsTerminal, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use ctcp::{Identity, PublicKey};
use ctcp_proxy::forward::{Entry, ForwardConfig, ForwardProxy};
use ctcp_proxy::invite::Invite;
use ctcp_proxy::port_forward::PortForward;
use ctcp_proxy::shutdown::{Shutdown, shutdown};
use ctcp_proxy::socks::Credentials;
use ctcp_proxy::target::Target;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::config::ConfigArgs;
use crate::dial::{Dialer, Session};
use crate::failure::Failure;
use crate::keys;
use crate::observe::{ObserveArgs, ProxySource};
use crate::output::{self, ReadyArgs, notice};
use crate::paths::{self, PathArgs};
use crate::signals::StopSignals;
use crate::state::{Server, State, StateArgs};
use crate::supervisor::{Uplink, uplink};
use crate::transport::TransportArgs;
use crate::values;

/// An invite is one line; what is longer is another file.
const INVITE_LEN_MAX: u64 = 4096;

/// Where redirected connections are taken unless said otherwise: both families, all
/// interfaces.
pub(crate) const DEFAULT_REDIRECT: SocketAddr =
    SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 1081);

/// Which server, and who we are there.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerArgs {
    /// The server's address [default: the server this client is paired with]
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "CTCP_SERVER",
        requires = "server_key"
    )]
    pub(crate) server: Option<Target>,
    /// The server's public key, which it prints at its start
    #[arg(
        long,
        value_name = "PUBKEY",
        env = "CTCP_SERVER_KEY",
        requires = "server"
    )]
    pub(crate) server_key: Option<PublicKey>,
    /// This client's private key, made by `ctcp keygen` [default: client.key in
    /// the state folder]
    #[arg(long, value_name = "FILE", env = "CTCP_KEY")]
    pub(crate) key: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) state: StateArgs,
    #[command(flatten)]
    paths: PathArgs,
    #[command(flatten)]
    pub(crate) transport: TransportArgs,
}

/// Arguments of `ctcp client`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ClientArgs {
    /// Pair with a server first: `-` reads the invite from stdin, FILE from a file
    #[arg(value_name = "INVITE", conflicts_with_all = ["server", "server_key"])]
    invite: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
    /// Where applications reach the proxy, by SOCKS or HTTP CONNECT; port 0 lets the
    /// system choose
    #[arg(long, value_name = "ADDR:PORT", env = "CTCP_SOCKS",
          default_value_t = SocketAddr::from(([127, 0, 0, 1], 1080)))]
    socks: SocketAddr,
    /// Ask SOCKS applications for the name and password that this file holds as
    /// NAME:PASSWORD
    #[arg(long, value_name = "FILE", env = "CTCP_SOCKS_AUTH")]
    socks_auth: Option<PathBuf>,
    /// A local port that leads to one target, such as 8080=example.com:80; may be
    /// repeated
    #[arg(
        long,
        value_name = "LISTEN=HOST:PORT",
        env = "CTCP_FORWARD",
        value_delimiter = ','
    )]
    forward: Vec<PortForward>,
    /// Where TCP connections are redirected to by nftables, so that a whole network
    /// can sit behind this client; `ctcp redirect-rules` prints the rules. Linux only
    #[arg(long, value_name = "ADDR:PORT", env = "CTCP_REDIRECT")]
    redirect: Option<SocketAddr>,
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
    /// The server and identity of the flags, or those remembered.
    pub(crate) fn dialer(&self) -> Result<Dialer, Failure> {
        let state = self.state.locate();
        let server = match (&self.server, self.server_key) {
            (Some(address), Some(key)) => Server {
                address: address.clone(),
                key,
            },
            _ => state.clone()?.load_server()?.ok_or_else(|| {
                Failure::usage(
                    "no server is known: pair with one (`ctcp client -` reads its invite from \
                     stdin), or give --server HOST:PORT, --server-key PUBKEY and --key FILE",
                )
            })?,
        };
        let identity = match &self.key {
            Some(path) => keys::load(path)?,
            None => keys::load(&state?.client_key())?,
        };
        self.with(server, identity)
    }

    /// Whether the flags name a server.
    pub(crate) const fn names_server(&self) -> bool {
        self.server.is_some()
    }

    pub(crate) fn with(&self, server: Server, identity: Identity) -> Result<Dialer, Failure> {
        Ok(Dialer {
            server,
            identity,
            transport: self.transport.config()?,
            paths: self.paths.path.clone(),
            invite: None,
        })
    }

    /// Makes a key if there is none, enrols it with the invite, and remembers.
    async fn pair(&self, invite: Invite) -> Result<(Dialer, Session), Failure> {
        let state = self.state.locate()?;
        state.create()?;
        let key_path = self.key.clone().unwrap_or_else(|| state.client_key());
        let (identity, is_new) = keys::load_or_create(&key_path)?;
        if is_new {
            notice(format_args!(
                "key file {} created, mode 0600",
                key_path.display()
            ));
        }
        let server = Server {
            address: invite.server.clone(),
            key: PublicKey::from_bytes(invite.server_key),
        };
        let mut dialer = self.with(server, identity)?;
        dialer.invite = Some(invite.token.as_bytes().to_vec());
        let session = dialer.session().await?;
        dialer.invite = None;
        self.remember(&state, &dialer.server)?;
        Ok((dialer, session))
    }

    fn remember(&self, state: &State, server: &Server) -> Result<(), Failure> {
        state.save_server(server)?;
        let address = &server.address;
        let from_now_on = match &self.key {
            None => "`ctcp client` alone".to_owned(),
            Some(path) => format!("`ctcp client --key {}`", path.display()),
        };
        notice(format_args!(
            "paired with {address}; from now on {from_now_on} is enough"
        ));
        Ok(())
    }
}

/// Runs until a signal ends it, or the server refuses it.
pub(crate) async fn run(args: ClientArgs) -> Result<(), Failure> {
    let stop = StopSignals::new()?;
    let config = ForwardConfig {
        credentials: args.socks_auth.as_deref().map(credentials).transpose()?,
        ..ForwardConfig::default()
    };
    // Ports first: a mistake there should not cost an invite.
    let listeners = listen(&args, config.credentials.is_some()).await?;
    let prepared = args.observe.prepare("client").await?;
    let (dialer, session) = match &args.invite {
        Some(source) => {
            let (dialer, session) = args.server.pair(read_invite(source)?).await?;
            (dialer, Some(session))
        }
        None => (args.server.dialer()?, None),
    };
    for (listener, entry) in &listeners {
        let bound = listener.local_addr().map_err(Failure::failed)?;
        match entry {
            Entry::Socks => output::result(args.json, "socks5", bound, ""),
            Entry::Fixed(target) => {
                output::result(args.json, "forward", format_args!("{bound}={target}"), "");
            }
            Entry::Redirect => output::result(args.json, "redirect", bound, ""),
        }
    }
    let server = dialer.server.address.to_string();
    let (uplink, supervisor) = uplink(dialer);
    let shown = uplink.clone();
    tokio::spawn(paths::show(args.json, move || shown.paths()));
    let proxy = ForwardProxy::new(uplink, config);
    let source = ProxySource {
        stats: proxy.stats(),
        clients: None,
        endpoint: None,
    };
    let observing = prepared.start("client", &server, source, args.json)?;
    let supervisor = supervisor.shown_by(observing.observer.clone());
    let (trigger, token) = shutdown();
    let mut serving = serve(&proxy, listeners, &token);
    let _ready = args.ready.announce()?;
    tokio::spawn(stop.drive(trigger, args.drain));
    tokio::select! {
        failure = supervisor.run(session) => Err(failure),
        () = async { while serving.join_next().await.is_some() {} } => {
            proxy.tunnel().close().await;
            Ok(())
        }
    }
}

fn serve(
    proxy: &ForwardProxy<Uplink>,
    listeners: Vec<(TcpListener, Entry)>,
    token: &Shutdown,
) -> JoinSet<usize> {
    let mut serving = JoinSet::new();
    for (listener, entry) in listeners {
        let (proxy, token) = (proxy.clone(), token.clone());
        serving.spawn(async move { proxy.serve(listener, entry, token).await });
    }
    serving
}

async fn listen(
    args: &ClientArgs,
    has_password: bool,
) -> Result<Vec<(TcpListener, Entry)>, Failure> {
    if !args.socks.ip().is_loopback() && !has_password {
        notice(format_args!(
            "warning: the SOCKS proxy on {} has no password, and others can reach it; \
             listen on 127.0.0.1, or give --socks-auth FILE",
            args.socks
        ));
    }
    let mut listeners = vec![(bind(args.socks, "--socks").await?, Entry::Socks)];
    for forward in &args.forward {
        let listener = bind(forward.listen, "--forward").await?;
        listeners.push((listener, Entry::Fixed(forward.target.clone())));
    }
    if let Some(address) = args.redirect {
        if !cfg!(target_os = "linux") {
            return Err(Failure::usage(
                "--redirect needs the connection tracking of Linux; use --socks here",
            ));
        }
        listeners.push((bind(address, "--redirect").await?, Entry::Redirect));
    }
    Ok(listeners)
}

async fn bind(address: SocketAddr, option: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        Failure::usage(format_args!(
            "cannot listen on {address}: {error}; give another address with {option} \
             ({any} takes any free port)"
        ))
    })
}

/// Reads the invite from stdin or a file. It is a secret, so it is not taken
/// from the command line, where everybody on the machine can read it.
pub(crate) fn read_invite(source: &str) -> Result<Invite, Failure> {
    if source.starts_with("ctcp://") {
        return Err(Failure::usage(
            "an invite on the command line can be read by everybody on this machine: run \
             `ctcp client -` and paste it, or put it into a file",
        ));
    }
    let mut text = String::new();
    let read = if source == "-" {
        if std::io::stdin().is_terminal() {
            notice("paste the invite, then Enter:");
            std::io::stdin().read_line(&mut text)
        } else {
            std::io::stdin()
                .take(INVITE_LEN_MAX)
                .read_to_string(&mut text)
        }
    } else {
        fs::File::open(source).and_then(|file| file.take(INVITE_LEN_MAX).read_to_string(&mut text))
    };
    read.map_err(|error| Failure::usage(format!("cannot read the invite from {source}: {error}")))?;
    let line = text
        .split_whitespace()
        .find(|word| word.starts_with("ctcp://"));
    line.unwrap_or(text.trim()).parse().map_err(Failure::usage)
}

fn credentials(path: &Path) -> Result<Credentials, Failure> {
    let shown = path.display();
    let text = keys::read_private(path)?;
    Credentials::parse(text.trim_end_matches(['\r', '\n']))
        .map_err(|error| Failure::usage(format!("{shown}: {error}")))
}
