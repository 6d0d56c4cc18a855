//! SOCKS and HTTP CONNECT towards the application: parsers without I/O, replies,
//! and the driver that runs a negotiation over a socket.

pub mod auth;
pub mod http;
pub mod parse;
pub mod reply;
pub mod udp;

use std::io;

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

pub use auth::{Credentials, CredentialsError};
pub use parse::{Negotiation, SocksError, Step};
pub use reply::{Dialect, ReplyCode};

use crate::target::Target;

/// What an application wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// A connection by TCP.
    Connect,
    /// An association of UDP.
    Associate,
}

/// What an application asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocksRequest {
    /// In whose words to answer.
    pub dialect: Dialect,
    /// What it wants.
    pub command: Command,
    /// What it wants to reach; of an association, where its datagrams will come from.
    pub target: Target,
    /// What it sent after the request without waiting for the reply.
    pub early_data: Vec<u8>,
}

/// Why a negotiation over a socket gave no request. The refusal, if the
/// dialect has one, was sent.
#[derive(Debug, Error)]
pub enum NegotiateError {
    /// The application does not keep to its dialect, or may not use this proxy.
    #[error(transparent)]
    Socks(#[from] SocksError),
    /// The application closed the connection in the middle.
    #[error("the application left during the negotiation")]
    Left,
    /// The socket failed.
    #[error("the application's connection failed: {0}")]
    Io(#[from] io::Error),
}

/// Negotiates over `socket` until the application names its target. Holds at
/// most one message and one read's worth of bytes. Limiting the time is up to
/// the caller.
///
/// # Errors
/// [`NegotiateError`]; a refusal has been sent by then.
pub async fn negotiate<S>(
    socket: &mut S,
    credentials: Option<&Credentials>,
) -> Result<SocksRequest, NegotiateError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut negotiation = Negotiation::new(credentials);
    let mut chunk = [0; 1024];
    loop {
        match negotiation.step() {
            Step::Read => {
                let len = socket.read(&mut chunk).await?;
                if len == 0 {
                    return Err(NegotiateError::Left);
                }
                negotiation.feed(&chunk[..len]);
            }
            Step::Write(bytes) => socket.write_all(&bytes).await?,
            Step::Connect { dialect, target } => {
                return Ok(SocksRequest {
                    dialect,
                    command: Command::Connect,
                    target,
                    early_data: negotiation.into_early_data(),
                });
            }
            Step::Associate { from } => {
                return Ok(SocksRequest {
                    dialect: Dialect::Socks5,
                    command: Command::Associate,
                    target: from,
                    early_data: Vec::new(),
                });
            }
            Step::Refuse { bytes, error } => {
                socket.write_all(&bytes).await?;
                return Err(error.into());
            }
        }
    }
}
