//! `ctcp connect HOST:PORT`: one connection on stdin and stdout.

use std::io;

use clap::Args;
use ctcp_proxy::forward::{ForwardConfig, ForwardProxy, ReachError};
use ctcp_proxy::target::Target;
use ctcp_proxy::tunnel::{OpenError, Tunnel};
use tokio::io::{AsyncReadExt, AsyncWriteExt, split};

use crate::client::ServerArgs;
use crate::config::ConfigArgs;
use crate::dial::Session;
use crate::failure::Failure;
use crate::tunnel::{CtcpStream, open};

/// Bytes moved at once.
const CHUNK_BYTES: usize = 64 << 10;

/// How long the last bytes may take to reach the server.
const FAREWELL: std::time::Duration = std::time::Duration::from_secs(10);

/// Arguments of `ctcp connect`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ConnectArgs {
    /// What the far side connects to
    #[arg(value_name = "HOST:PORT")]
    target: Target,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    server: ServerArgs,
}

/// A tunnel that is one connection and does not come back.
struct Once(Session);

impl Tunnel for Once {
    type Stream = CtcpStream;

    async fn open(&self) -> Result<CtcpStream, OpenError> {
        open(&self.0.connection).await
    }
}

/// Relays until both directions have ended.
pub(crate) async fn run(args: ConnectArgs) -> Result<(), Failure> {
    let dialer = args.server.dialer()?;
    let session = dialer.session().await?;
    let proxy = ForwardProxy::new(Once(session.clone()), ForwardConfig::default());
    let target = &args.target;
    let reached = proxy
        .reach(target, &[])
        .await
        .map_err(|error| match error {
            ReachError::Open(OpenError::NoAnswer) => Failure::failed(format!(
                "{target}: the server fell silent before it answered"
            )),
            error => Failure::failed(format!("{target}: {error}")),
        })?;
    let result = relay(reached.stream, &reached.early_data).await;
    // Gone without a word, the server would keep the connection until it times
    // out; gone too early, the last bytes would not be there.
    session.close("done", FAREWELL).await;
    result.map_err(|error| Failure::failed(format!("{target}: {error}")))
}

/// Copies both ways; each direction ends by itself.
async fn relay(stream: CtcpStream, early: &[u8]) -> io::Result<()> {
    let (mut from, mut to) = split(stream);
    let upward = async {
        let mut stdin = tokio::io::stdin();
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            match stdin.read(&mut chunk).await? {
                0 => break,
                len => to.write_all(&chunk[..len]).await?,
            }
        }
        to.shutdown().await?;
        io::Result::Ok(to)
    };
    let downward = async {
        let mut stdout = tokio::io::stdout();
        stdout.write_all(early).await?;
        stdout.flush().await?;
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            match from.read(&mut chunk).await? {
                0 => break,
                len => {
                    stdout.write_all(&chunk[..len]).await?;
                    stdout.flush().await?;
                }
            }
        }
        close_stdout()?;
        io::Result::Ok(from)
    };
    match tokio::try_join!(upward, downward) {
        Ok((to, from)) => {
            let mut stream = from.unsplit(to);
            // Bytes not yet delivered would be lost with the connection.
            stream.0.delivered().await.map_err(io::Error::other)
        }
        Err(error) => Err(error),
    }
}

/// Lets the program that reads us see the end while we still listen to it: the
/// descriptor itself is closed by putting another in its place.
fn close_stdout() -> io::Result<()> {
    let nothing = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nothing)?;
    Ok(())
}
