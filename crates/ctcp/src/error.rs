//! Why things fail, one enum an operation.

use std::io;
use std::net::SocketAddr;

use ctcp_proto::TransportConfigError;
use ctcp_proto::crypto::{ClientError, Refusal};
pub use ctcp_proto::{ClosePathError, ConnectionError};
use thiserror::Error;

/// Why an endpoint did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// A setting of the transport is out of its range.
    #[error(transparent)]
    Config(#[from] TransportConfigError),
    /// The local address cannot be had: in use, not of this machine, or a port
    /// that takes privileges.
    #[error("cannot listen on UDP {local}: {error}")]
    Bind {
        /// The address.
        local: SocketAddr,
        /// What the system says.
        #[source]
        error: io::Error,
    },
    /// There is no tokio runtime with I/O here, or the system has no randomness
    /// or no timer left.
    #[error("cannot start an endpoint: {0}")]
    System(#[source] io::Error),
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConnectError {
    /// Nobody answered. A server stays silent to who does not know its key.
    #[error(
        "no answer from {remote}: the address may be wrong, UDP may be blocked by a firewall, \
         or the server may have another key than the one given"
    )]
    NoAnswer {
        /// Whom we asked.
        remote: SocketAddr,
    },
    /// The server proved that it is the server, and does not want us.
    #[error("{0}")]
    Refused(Refusal),
    /// The server's key or the invite cannot be used.
    #[error(transparent)]
    Unusable(#[from] ClientError),
    /// The socket speaks IPv4 and the server's address is IPv6, or the reverse.
    #[error("{remote} cannot be reached from {local}: bind to an address of the same kind")]
    AddressFamily {
        /// Whom we were to ask.
        remote: SocketAddr,
        /// What the endpoint is bound to.
        local: SocketAddr,
    },
    /// The endpoint has as many connections as it may have.
    #[error("the endpoint has {max} connections already: close one, or raise connections_max")]
    TooManyConnections {
        /// The limit.
        max: usize,
    },
    /// The endpoint was dropped, or its runtime is gone.
    #[error("the endpoint has stopped")]
    EndpointStopped,
    /// It ended while it was set up, in another way.
    #[error("the connection ended while it was set up: {0}")]
    Ended(#[source] ConnectionError),
}

impl From<ConnectionError> for ConnectError {
    fn from(error: ConnectionError) -> Self {
        match error {
            ConnectionError::NoAnswer { remote } => Self::NoAnswer { remote },
            ConnectionError::Refused(refusal) => Self::Refused(refusal),
            other => Self::Ended(other),
        }
    }
}

/// Why a path was not opened.
#[derive(Debug, Error)]
pub enum OpenPathError {
    /// The local address cannot be had, or there is no such interface.
    #[error("cannot send from {local}{interface}: {error}")]
    Bind {
        /// The address.
        local: SocketAddr,
        /// The interface, if one was named, as the end of the phrase.
        interface: String,
        /// What the system says.
        #[source]
        error: io::Error,
    },
    /// One address is IPv4 and the other IPv6.
    #[error("{remote} cannot be reached from {local}: bind to an address of the same kind")]
    AddressFamily {
        /// Where it was to lead.
        remote: SocketAddr,
        /// Where it was to begin.
        local: SocketAddr,
    },
    /// The connection refuses.
    #[error(transparent)]
    Refused(#[from] ctcp_proto::OpenPathError),
}

/// Why no stream was opened.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OpenStreamError {
    /// The connection has ended.
    #[error("the connection has ended: {0}")]
    Lost(#[from] ConnectionError),
    /// All ids were used.
    #[error("the connection has used up its stream ids: open a new connection")]
    Exhausted,
}

/// Why a stream gave or took no bytes.
///
/// Reading and writing report it inside an [`io::Error`], from which
/// [`StreamError::of`] gets it back.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StreamError {
    /// The peer gave up sending; the rest will not come.
    /// [`io::ErrorKind::ConnectionReset`].
    #[error("the peer reset the stream with code {0}")]
    Reset(u32),
    /// The peer wants no more of what we write. [`io::ErrorKind::BrokenPipe`].
    #[error("the peer stopped the stream with code {0}")]
    Stopped(u32),
    /// This half was finished, reset or stopped here, before.
    /// [`io::ErrorKind::NotConnected`].
    #[error("this half of the stream was closed before")]
    Closed,
    /// The connection has ended. [`io::ErrorKind::TimedOut`] if the peer fell
    /// silent, else [`io::ErrorKind::ConnectionAborted`].
    #[error("the connection has ended: {0}")]
    Lost(#[source] ConnectionError),
}

impl StreamError {
    /// What a stream of ours put into `error`.
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }

    fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Reset(_) => io::ErrorKind::ConnectionReset,
            Self::Stopped(_) => io::ErrorKind::BrokenPipe,
            Self::Closed => io::ErrorKind::NotConnected,
            Self::Lost(ConnectionError::IdleTimeout(_)) => io::ErrorKind::TimedOut,
            Self::Lost(_) => io::ErrorKind::ConnectionAborted,
        }
    }
}

impl From<StreamError> for io::Error {
    fn from(error: StreamError) -> Self {
        Self::new(error.kind(), error)
    }
}

#[cfg(test)]
mod tests {
    use ctcp_units::seconds;

    use super::*;

    #[test]
    fn a_stream_error_comes_back_out_of_an_io_error() {
        let error = io::Error::from(StreamError::Reset(7));
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        assert_eq!(StreamError::of(&error), Some(&StreamError::Reset(7)));
        assert_eq!(StreamError::of(&io::ErrorKind::NotFound.into()), None);
    }

    #[test]
    fn a_lost_connection_is_neither_a_reset_nor_an_end() {
        let kind = |error| io::Error::from(StreamError::Lost(error)).kind();
        assert_eq!(
            kind(ConnectionError::IdleTimeout(seconds(9))),
            io::ErrorKind::TimedOut
        );
        assert_eq!(
            kind(ConnectionError::LocallyClosed),
            io::ErrorKind::ConnectionAborted
        );
    }
}
