//! What the proxies need of a tunnel, and nothing more.
//!
//! The forward proxy opens streams through a [`Tunnel`]; the reverse proxy
//! accepts them from a [`TunnelListener`]. CTCP connections implement both, and
//! so does [`crate::memory`] for tests.

use std::future::Future;
use std::io;
use std::task::{Context, Poll};

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};

/// A bidirectional byte stream through the tunnel.
///
/// The contract that keeps a broken transfer from looking whole:
///
/// - `poll_shutdown` ends this side's writing cleanly; the peer reads the end
///   of the stream after the last byte. The other direction lives on.
/// - Dropping the stream before `poll_shutdown` completed resets it. After a
///   shutdown, dropping gives up reading and does not disturb what was written.
/// - Reading from a stream that the peer reset, or whose connection ended,
///   gives [`io::ErrorKind::ConnectionReset`], never the end of the stream.
pub trait TunnelStream: AsyncRead + AsyncWrite + Send + Unpin + 'static {
    /// Abandons both directions; the peer sees a reset with this code (one of
    /// [`reset_code`]), never a clean end.
    fn reset(&mut self, code: u32);

    /// Ready when the peer reset the stream or the connection ended, even while
    /// nothing is read or written. Lets a relay whose reading has ended learn
    /// that there is nobody to write for. The default never tells.
    fn poll_broken(&mut self, _cx: &mut Context<'_>) -> Poll<io::Error> {
        Poll::Pending
    }

    /// Sends a datagram beside the stream; it comes once or not at all. The default
    /// cannot.
    ///
    /// # Errors
    /// It is too long, the tunnel carries none, or it has broken.
    fn send_datagram(&mut self, _data: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Ready with the next datagram that came beside the stream; a bounded number waits
    /// from the first call on. The default never has one.
    fn poll_datagram(&mut self, _cx: &mut Context<'_>) -> Poll<Vec<u8>> {
        Poll::Pending
    }
}

/// Reset codes that the two proxies use on the wire.
pub mod reset_code {
    /// The task that served the stream ended early: a drain's deadline, a panic.
    pub const CANCELLED: u32 = 0;
    /// The application at the forward proxy disappeared.
    pub const APPLICATION_GONE: u32 = 1;
    /// The target at the reverse proxy disappeared.
    pub const TARGET_GONE: u32 = 2;
    /// The peer did not keep to the request protocol, or not in time.
    pub const PROTOCOL: u32 = 3;
    /// The answer to the request was a refusal; nothing is left to say.
    pub const REFUSED: u32 = 4;
}

/// Opens streams to the far side.
pub trait Tunnel: Send + Sync + 'static {
    /// The streams it opens.
    type Stream: TunnelStream;

    /// Opens a stream. May wait for a connection that is being set up; the
    /// caller sets the limit on its patience.
    fn open(&self) -> impl Future<Output = Result<Self::Stream, OpenError>> + Send;
}

/// Yields the streams that the far side opens.
pub trait TunnelListener: Send + 'static {
    /// The streams it yields.
    type Stream: TunnelStream;

    /// The next stream; `None` once the connection has ended. Must be safe to
    /// cancel: a dropped call loses no stream.
    fn accept(&mut self) -> impl Future<Output = Option<Self::Stream>> + Send;
}

/// Why no stream could be opened.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OpenError {
    /// The server has not answered, now or at all. Being silent to strangers,
    /// it looks the same for each of the causes named.
    #[error(
        "no answer from the server: check its address, a firewall that drops UDP, and --server-key"
    )]
    NoAnswer,
    /// The server knows this client's key and does not serve it.
    #[error("refused by the server: this client's key is not on its list; add it with --allow")]
    Refused,
    /// The connection ended, with the reason given.
    #[error("the connection to the server is closed: {reason}")]
    Closed {
        /// What ended it, in words.
        reason: String,
    },
    /// As many streams are open as the server allows.
    #[error("too many streams are open; the server allows no more")]
    TooManyStreams,
}
