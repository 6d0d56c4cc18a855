//! Changes under way: lines on stdin or on a control socket, each answered.
//!
//! The socket has an abstract name: it leaves no file behind. Whoever is another
//! user is not listened to.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener as StdListener, UnixStream as StdStream};
use std::time::Duration;

use clap::Args;
use ctcp_emu::{Network, RouterHandle};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};

use super::counters::network_json;
use crate::failure::{Exit, Failure};
use crate::link_options::{PathSpec, Way};
use crate::output::print_line;

/// Longest line taken from a client.
const LINE_BYTES_MAX: u64 = 4096;

/// How long a client may take to say it.
const PATIENCE: Duration = Duration::from_secs(1);

/// Arguments of `ctcp emulate set`.
#[derive(Debug, Clone, Args)]
pub(crate) struct SetArgs {
    /// Which one: the name that it printed as `control`
    #[arg(long, value_name = "NAME", env = "CTCP_CONTROL")]
    control: String,
    /// What to change
    #[arg(required = true, value_name = "CHANGE")]
    change: Vec<String>,
}

/// The paths as they are now, and the router that follows.
pub(super) struct Paths {
    specs: Vec<PathSpec>,
}

impl Paths {
    pub(super) fn new(specs: Vec<PathSpec>) -> Self {
        Self { specs }
    }

    /// Does what a line says; the answer to print, if there is one.
    ///
    /// # Errors
    /// What was wrong with it; then nothing has changed.
    pub(super) fn obey(&mut self, line: &str, network: &Network) -> Result<String, String> {
        let router = network.router();
        let mut words = line.split_whitespace().peekable();
        let mut targets: Vec<usize> = (0..self.specs.len()).collect();
        if words.next_if_eq(&"path").is_some() {
            targets = vec![self.path_index(words.next().unwrap_or_default())?];
        }
        let words: Vec<&str> = words.collect();
        match words[..] {
            ["counters"] => {
                let counters = network_json(network).map_err(|error| error.to_string())?;
                Ok(counters.to_string())
            }
            ["off" | "on"] => {
                for index in targets {
                    router
                        .set_path_up(index, words[0] == "on")
                        .map_err(|error| error.to_string())?;
                }
                Ok("ok".to_owned())
            }
            ["up", ref rest @ ..] => self.change(&targets, Way::Up, rest, router),
            ["down", ref rest @ ..] => self.change(&targets, Way::Down, rest, router),
            ref rest => self.change(&targets, Way::Both, rest, router),
        }
    }

    fn path_index(&self, text: &str) -> Result<usize, String> {
        let count = self.specs.len();
        match text.parse() {
            Ok(index) if index < count => Ok(index),
            _ => Err(format!(
                "`{text}` is no path: there are {count}, counted from 0"
            )),
        }
    }

    fn change(
        &mut self,
        targets: &[usize],
        way: Way,
        words: &[&str],
        router: &RouterHandle,
    ) -> Result<String, String> {
        if words.is_empty() || !words.len().is_multiple_of(2) {
            return Err(
                "write [path N] [up|down] NAME VALUE …, [path N] off|on, or counters".to_owned(),
            );
        }
        let mut changed = Vec::new();
        for &index in targets {
            let mut spec = self.specs[index].clone();
            for pair in words.chunks(2) {
                spec.set(way, pair[0], pair[1])?;
            }
            let links = spec.links()?;
            changed.push((index, spec, links));
        }
        for (index, spec, (up, down)) in changed {
            self.specs[index] = spec;
            for (link, config) in [(2 * index, up), (2 * index + 1, down)] {
                router
                    .reconfigure(link, config)
                    .map_err(|error| error.to_string())?;
            }
        }
        Ok("ok".to_owned())
    }
}

fn address(name: &str) -> Result<SocketAddr, Failure> {
    SocketAddr::from_abstract_name(name)
        .map_err(|error| Failure::usage(format!("`{name}` is not a name for a socket: {error}")))
}

/// Listens under `name`.
pub(super) fn listen(name: &str) -> Result<UnixListener, Failure> {
    let failed = |error| {
        Failure::usage(format!(
            "cannot listen as {name}: {error}; another one may run under this name"
        ))
    };
    let listener = StdListener::bind_addr(&address(name)?).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    UnixListener::from_std(listener).map_err(failed)
}

/// The line of a client, if it may give orders and says something soon.
pub(super) async fn hear(stream: &mut UnixStream) -> Option<String> {
    let own = rustix::process::geteuid().as_raw();
    if stream.peer_cred().ok()?.uid() != own {
        return None;
    }
    let mut line = String::new();
    let read = async {
        let mut limited = BufReader::new(stream.take(LINE_BYTES_MAX));
        limited.read_line(&mut line).await
    };
    // Whoever says nothing does not keep others waiting.
    tokio::time::timeout(PATIENCE, read).await.ok()?.ok()?;
    Some(line)
}

/// Tells a client how it went: a line that begins with `error: ` if it did not.
pub(super) async fn answer(mut stream: UnixStream, result: Result<String, String>) {
    let text = match result {
        Ok(text) => format!("{text}\n"),
        Err(error) => format!("error: {error}\n"),
    };
    // Whoever asked may have left.
    let _ = stream.write_all(text.as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// Runs `ctcp emulate set`.
pub(super) async fn set(args: SetArgs) -> Result<(), Failure> {
    let name = &args.control;
    let refused = |error| {
        Failure::new(
            Exit::NoAnswer,
            format!(
                "no answer from {name}: {error}; is `ctcp emulate netns` running, and did it print \
                 this name as `control`?"
            ),
        )
    };
    let stream = StdStream::connect_addr(&address(name)?).map_err(refused)?;
    stream.set_nonblocking(true).map_err(refused)?;
    let mut stream = UnixStream::from_std(stream).map_err(refused)?;
    let line = format!("{}\n", args.change.join(" "));
    stream.write_all(line.as_bytes()).await.map_err(refused)?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await.map_err(refused)?;
    match text.trim().strip_prefix("error: ") {
        Some(error) => Err(Failure::usage(error)),
        None if text.is_empty() => Err(refused(std::io::ErrorKind::PermissionDenied.into())),
        None => {
            print_line(text.trim());
            Ok(())
        }
    }
}
