//! How the two ends find each other.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use clap::Args;
use ctcp::{Endpoint, PublicKey, ServerConfig};
use ctcp_proxy::limits::Limits;
use ctcp_proxy::target::{Host, Target};

use crate::client::{ServerArgs, read_invite};
use crate::config::ConfigArgs;
use crate::dial::{Dialer, Session};
use crate::failure::Failure;
use crate::gatekeeper::{Gatekeeper, GatekeeperConfig};
use crate::keys;
use crate::output::{self, ReadyArgs, notice};
use crate::server::public_address;
use crate::state::{Server, State};
use crate::values;

/// Where a receiver listens if nothing else is said.
pub(super) const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 4501);

/// Arguments about the other end.
#[derive(Debug, Clone, Args)]
pub(crate) struct MeetArgs {
    /// Wait for the other side on this UDP address; `ctcp receive` does so on
    /// 0.0.0.0:4501 unless told whom to connect to
    #[arg(
        long,
        value_name = "ADDR:PORT",
        env = "CTCP_LISTEN",
        conflicts_with = "server"
    )]
    pub(super) listen: Option<SocketAddr>,
    /// The host name or address by which the other side reaches this one; it goes
    /// into the invite [default: the address of this machine]
    #[arg(long, value_name = "HOST[:PORT]", env = "CTCP_PUBLIC")]
    public: Option<String>,
    /// When listening: who may connect, a public key or a file of them; may be
    /// repeated
    #[arg(
        long,
        value_name = "PUBKEY|FILE",
        env = "CTCP_ALLOW",
        value_delimiter = ','
    )]
    allow: Vec<String>,
    /// When listening: print an invite for one more machine, of this name
    /// [default: only if nobody may connect yet]
    #[arg(long, value_name = "NAME", env = "CTCP_INVITE")]
    invite: Option<String>,
    /// How long to try again after the connection was lost
    #[arg(long, value_name = "TIME", default_value = "10min", env = "CTCP_PATIENCE",
          value_parser = values::duration)]
    pub(super) patience: Duration,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    pub(super) server: ServerArgs,
    /// Print results as JSON lines
    #[arg(long, env = "CTCP_JSON")]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) ready: ReadyArgs,
}

/// Which end this is.
#[derive(Debug, Clone)]
pub(super) enum Meeting {
    /// The other side connects to this address.
    Listen(SocketAddr),
    /// We connect, as `-`, a file or `paired` says.
    Invite(String),
    /// We connect to whom the flags name, or to whom we are paired with.
    Known,
}

impl MeetArgs {
    /// What is remembered about file transfers: not what proxies remember, so
    /// that nobody gets one right by having the other.
    fn state(&self) -> Result<State, Failure> {
        let state = self.server.state.locate()?.files();
        state.create()?;
        Ok(state)
    }

    /// Listens, and prints an invite if that is asked for or needed.
    pub(super) fn listen_at(
        &self,
        address: SocketAddr,
        is_json_on_stderr: bool,
    ) -> Result<Endpoint, Failure> {
        let is_scripted = self.server.key.is_some() && !self.allow.is_empty();
        let state = match is_scripted && self.invite.is_none() {
            true => None,
            false => Some(self.state()?),
        };
        let identity = match (&self.server.key, &state) {
            (Some(path), _) => keys::load(path)?,
            (None, Some(state)) => keys::load_or_create(&state.server_key())?.0,
            (None, None) => unreachable!("without a key there is a state"),
        };
        let gatekeeper = Gatekeeper::open(GatekeeperConfig {
            arguments: self.allow.clone(),
            enrolled: state.as_ref().map(State::allow),
            invites: state.as_ref().map(State::invites),
            limits: Limits::default(),
        })?;
        let mut config = ServerConfig::new(identity.clone(), gatekeeper.clone());
        config.transport = self.server.transport.config()?;
        let endpoint = Endpoint::server(address, config).map_err(|error| {
            Failure::usage(format!("{error}; choose another with --listen ADDR:PORT"))
        })?;
        let bound = endpoint.local_addr();
        let say = |name: &str, value: &dyn std::fmt::Display, note: &str| {
            if is_json_on_stderr {
                notice(format_args!("{name:<10}{value}    {note}"));
            } else {
                output::result(self.json, name, value, note);
            }
        };
        if self.invite.is_some() || gatekeeper.is_closed_to_all() {
            let name = self.invite.as_deref().unwrap_or("files");
            let (public, note) = self.public_or_guess(bound)?;
            let invite = gatekeeper.invite(name, public, &identity)?;
            say("invite", &invite, &format!("single use, valid 24 h{note}"));
        }
        say("listening", &bound, &gatekeeper.summary());
        Ok(endpoint)
    }

    /// How the other side reaches us, and a note if it was guessed.
    fn public_or_guess(&self, bound: SocketAddr) -> Result<(Target, &'static str), Failure> {
        if let Some(text) = &self.public {
            return Ok((public_address(text, bound.port())?, ""));
        }
        let (ip, note) = if bound.ip().is_unspecified() {
            let note = "; --public HOST if this address cannot be reached from there";
            (route_address().unwrap_or(bound.ip()), note)
        } else {
            (bound.ip(), "")
        };
        if ip.is_unspecified() {
            return Err(Failure::usage(
                "this machine's address is not known: say how the other side reaches it, \
                 --public HOST",
            ));
        }
        let host = Host::Ip(ip);
        let port = bound.port();
        Ok((Target { host, port }, note))
    }

    /// Whom to connect to; with an invite, connected already.
    pub(super) async fn reach(
        &self,
        invite: Option<&str>,
    ) -> Result<(Dialer, Option<Session>), Failure> {
        match invite {
            None if self.server.names_server() => self.known(),
            None | Some("paired") => self.known(),
            Some(source) => self.pair(source).await,
        }
    }

    fn known(&self) -> Result<(Dialer, Option<Session>), Failure> {
        if let (Some(address), Some(key), Some(path)) = (
            &self.server.server,
            self.server.server_key,
            &self.server.key,
        ) {
            let address = address.clone();
            let dialer = self
                .server
                .with(Server { address, key }, keys::load(path)?)?;
            return Ok((dialer, None));
        }
        let state = self.state()?;
        let server = match (&self.server.server, self.server.server_key) {
            (Some(address), Some(key)) => Server {
                address: address.clone(),
                key,
            },
            _ => state.load_server()?.ok_or_else(|| {
                Failure::usage(
                    "the other machine is not known yet: run `ctcp receive` there, and give the \
                     invite that it prints to `ctcp send PATH --to -` here (or the reverse, with \
                     `ctcp send --listen` and `ctcp receive --from -`)",
                )
            })?,
        };
        let key = self.server.key.clone();
        let key = key.unwrap_or_else(|| state.client_key());
        Ok((self.server.with(server, keys::load(&key)?)?, None))
    }

    /// Makes a key if there is none, has it enrolled, and remembers.
    async fn pair(&self, source: &str) -> Result<(Dialer, Option<Session>), Failure> {
        let invite = read_invite(source)?;
        let state = self.state()?;
        let key = self.server.key.clone();
        let (identity, _) = keys::load_or_create(&key.unwrap_or_else(|| state.client_key()))?;
        let server = Server {
            address: invite.server.clone(),
            key: PublicKey::from_bytes(invite.server_key),
        };
        let mut dialer = self.server.with(server, identity)?;
        dialer.invite = Some(invite.token.as_bytes().to_vec());
        let session = dialer.session().await?;
        dialer.invite = None;
        state.save_server(&dialer.server)?;
        let address = &dialer.server.address;
        notice(format_args!(
            "paired with {address}; from now on no invite is needed"
        ));
        Ok((dialer, Some(session)))
    }
}

/// This machine's address on the way to the internet. Nothing is sent: connecting
/// a UDP socket only asks for the route. The target is of a documentation network.
fn route_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}
