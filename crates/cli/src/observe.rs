//! What `ctcp server` and `ctcp client` show of themselves: `--metrics`, `--qlog`
//! and the control socket that `ctcp status` and `ctcp top` ask.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use ctcp::{Endpoint, EndpointStats};
use ctcp_observe::access::{Access, TOKEN_LEN_MIN};
use ctcp_observe::control::{self, ControlFile};
use ctcp_observe::{ClientView, Observer, ProxyView, QlogFolder, Source, StreamView, http};
use ctcp_proxy::client::{ClientSnapshot, Clients};
use ctcp_proxy::stats::{FailReason, Stats};
use ctcp_units::Rate;
use tokio::net::{TcpListener, UnixListener};
use tracing::debug;

use crate::failure::Failure;
use crate::keys;
use crate::output;

/// What is shown, and to whom.
#[derive(Debug, Clone, Args)]
pub(crate) struct ObserveArgs {
    /// Serve a live page at / and Prometheus metrics at /metrics
    #[arg(
        long,
        help_heading = "Observing",
        value_name = "ADDR:PORT",
        env = "CTCP_METRICS"
    )]
    metrics: Option<SocketAddr>,
    /// Ask whoever looks for the token in this file: the password in a browser,
    /// the bearer token of Prometheus. Needed unless --metrics is on loopback
    #[arg(
        long,
        help_heading = "Observing",
        value_name = "FILE",
        env = "CTCP_METRICS_TOKEN",
        requires = "metrics"
    )]
    metrics_token: Option<PathBuf>,
    /// A name by which --metrics is reached, beside addresses and localhost; may
    /// be repeated
    #[arg(
        long,
        help_heading = "Observing",
        value_name = "NAME",
        env = "CTCP_METRICS_HOST",
        value_delimiter = ','
    )]
    metrics_host: Vec<String>,
    /// Write a qlog trace of each connection into this folder
    #[arg(
        long,
        help_heading = "Observing",
        value_name = "DIR",
        env = "CTCP_QLOG"
    )]
    qlog: Option<PathBuf>,
    #[command(flatten)]
    control: ControlArgs,
}

/// Where the control sockets are.
#[derive(Debug, Clone, Args)]
pub(crate) struct ControlArgs {
    /// Folder of the control sockets, by which `ctcp status` and `ctcp top` find
    /// what runs [default: $XDG_RUNTIME_DIR/ctcp, or ctcp-UID where temporary
    /// files are]
    #[arg(
        long,
        help_heading = "Observing",
        value_name = "DIR",
        env = "CTCP_CONTROL"
    )]
    pub(crate) control: Option<PathBuf>,
}

impl ControlArgs {
    /// The folder; it may not exist.
    pub(crate) fn folder(&self) -> PathBuf {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        if let Some(folder) = &self.control {
            return folder.clone();
        }
        // What systemd makes for a service with RuntimeDirectory=.
        if let Some(folder) = variable("RUNTIME_DIRECTORY") {
            return folder.into();
        }
        if let Some(folder) = variable("XDG_RUNTIME_DIR") {
            return Path::new(&folder).join("ctcp");
        }
        let user = rustix::process::geteuid().as_raw();
        std::env::temp_dir().join(format!("ctcp-{user}"))
    }
}

/// What a proxy shows.
pub(crate) struct ProxySource {
    pub(crate) stats: Arc<Stats>,
    /// Whom it serves, of a server.
    pub(crate) clients: Option<Arc<Clients>>,
    /// The socket of all connections, of a server.
    pub(crate) endpoint: Option<Endpoint>,
}

impl ProxySource {
    fn clients(&self) -> Vec<ClientView> {
        let Some(clients) = &self.clients else {
            return Vec::new();
        };
        let clients = clients.snapshot(ProxyView::CLIENTS_MAX);
        let view = |client: ClientSnapshot| ClientView {
            name: client.name.to_string(),
            streams: client.streams,
            streams_max: client.limits.streams,
            streams_refused: client.streams_refused,
            rate_max: client.limits.rate.map(Rate::as_bits_per_second),
            bytes_up: client.bytes_up,
            bytes_down: client.bytes_down,
        };
        clients.into_iter().map(view).collect()
    }
}

impl Source for ProxySource {
    fn proxy(&self) -> ProxyView {
        let stats = self.stats.snapshot();
        let failed = FailReason::ALL.into_iter().filter_map(|reason| {
            let count = stats.failed(reason);
            (count > 0).then(|| (reason.label().to_owned(), count))
        });
        ProxyView {
            accepted: stats.accepted,
            active: stats.active,
            bytes_up: stats.bytes_up,
            bytes_down: stats.bytes_down,
            failed: failed.collect(),
            clients: self.clients(),
        }
    }

    fn streams(&self, count: usize) -> (Vec<StreamView>, usize) {
        let (newest, total) = self.stats.streams().newest(count);
        let streams = newest.into_iter().map(|stream| StreamView {
            id: stream.id,
            target: stream.target.to_string(),
            client: stream.client.to_string(),
            age: stream.age.as_secs_f64(),
            bytes_up: stream.bytes_up,
            bytes_down: stream.bytes_down,
        });
        (streams.collect(), total)
    }

    fn endpoint(&self) -> Option<EndpointStats> {
        self.endpoint.as_ref().map(Endpoint::stats)
    }
}

/// Everything that can be refused has been asked for; nothing is shown yet.
#[derive(Debug)]
pub(crate) struct Prepared {
    metrics: Option<(TcpListener, Access)>,
    control: Option<(UnixListener, ControlFile)>,
    qlog: Option<QlogFolder>,
}

/// Shows until it is dropped.
#[derive(Debug)]
pub(crate) struct Observing {
    pub(crate) observer: Observer,
    qlog: Option<QlogFolder>,
    _control: Option<ControlFile>,
}

impl Drop for Observing {
    fn drop(&mut self) {
        if let Some(qlog) = &self.qlog {
            qlog.flush();
        }
    }
}

impl ObserveArgs {
    /// Opens ports, sockets and folders, so that a mistake there ends the command
    /// before it has done anything.
    pub(crate) async fn prepare(&self, role: &str) -> Result<Prepared, Failure> {
        let qlog = self.qlog.as_deref().map(QlogFolder::open);
        Ok(Prepared {
            metrics: self.listen().await?,
            control: self.control_socket(role)?,
            qlog: qlog.transpose().map_err(Failure::usage)?,
        })
    }

    async fn listen(&self) -> Result<Option<(TcpListener, Access)>, Failure> {
        let Some(address) = self.metrics else {
            return Ok(None);
        };
        let token = self.metrics_token.as_deref().map(token).transpose()?;
        if token.is_none() && !address.ip().is_loopback() {
            return Err(Failure::usage(format!(
                "--metrics {address}: others can reach this address, so a token is needed: put \
                 one into a file (`openssl rand -hex 16 > FILE; chmod 600 FILE`) and give \
                 --metrics-token FILE, or listen on 127.0.0.1"
            )));
        }
        let listener = TcpListener::bind(address).await.map_err(|error| {
            Failure::usage(format!(
                "cannot listen on {address}: {error}; give another address with --metrics \
                 (port 0 takes any free one)"
            ))
        })?;
        let access = Access::new(token.as_deref(), &self.metrics_host);
        Ok(Some((listener, access)))
    }

    /// Whoever named the folder learns what is wrong with it; nobody else needs
    /// the socket to run.
    fn control_socket(&self, role: &str) -> Result<Option<(UnixListener, ControlFile)>, Failure> {
        match control::listen(&self.control.folder(), role) {
            Ok(socket) => Ok(Some(socket)),
            Err(error) if self.control.control.is_some() => Err(Failure::usage(format!(
                "{error}; choose another folder with --control DIR"
            ))),
            Err(error) => {
                debug!(%error, "`ctcp status` will not find this process");
                Ok(None)
            }
        }
    }
}

impl Prepared {
    /// Shows `source` and, from now on, the connections that the observer is told
    /// of.
    pub(crate) fn start(
        self,
        role: &str,
        title: &str,
        source: ProxySource,
        is_json: bool,
    ) -> Result<Observing, Failure> {
        let observer = Observer::new(role, title, source, self.qlog.clone());
        if let Some((listener, access)) = self.metrics {
            let bound = listener.local_addr().map_err(Failure::failed)?;
            output::result(is_json, "metrics", format_args!("http://{bound}/"), "");
            tokio::spawn(http::serve_tcp(listener, observer.clone(), access));
        }
        let control = self.control.map(|(listener, file)| {
            tokio::spawn(http::serve_unix(listener, observer.clone()));
            file
        });
        Ok(Observing {
            observer,
            qlog: self.qlog,
            _control: control,
        })
    }
}

/// The token in a file that nobody else can read.
fn token(path: &Path) -> Result<String, Failure> {
    let text = keys::read_private(path)?;
    let token = text.trim();
    if token.len() < TOKEN_LEN_MIN {
        return Err(Failure::usage(format!(
            "{}: a token has {TOKEN_LEN_MIN} characters at least, this one {}; make one with \
             `openssl rand -hex 16`",
            path.display(),
            token.len()
        )));
    }
    Ok(token.to_owned())
}
