//! CTCP as the proxies' tunnel.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use ctcp::{Connection, OpenStreamError, Stream};
use ctcp_proxy::tunnel::{OpenError, TunnelListener, TunnelStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A CTCP stream under the contract of [`TunnelStream`]: a connection that ended
/// reads as a reset, whatever ended it.
#[derive(Debug)]
pub(crate) struct CtcpStream(pub(crate) Stream);

impl TunnelStream for CtcpStream {
    fn reset(&mut self, code: u32) {
        self.0.reset(code);
    }

    fn poll_broken(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        self.0.poll_broken(cx).map(as_reset)
    }

    fn send_datagram(&mut self, data: &[u8]) -> io::Result<()> {
        self.0.send_datagram(data).map_err(io::Error::other)
    }

    fn poll_datagram(&mut self, cx: &mut Context<'_>) -> Poll<Vec<u8>> {
        self.0.poll_datagram(cx)
    }
}

/// The same error, of the kind that the proxies expect.
fn as_reset(error: io::Error) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, error)
}

impl AsyncRead for CtcpStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let result = ready!(Pin::new(&mut self.0).poll_read(cx, buf));
        Poll::Ready(result.map_err(as_reset))
    }
}

impl AsyncWrite for CtcpStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// The streams that the peer of a connection opens.
#[derive(Debug)]
pub(crate) struct Incoming(pub(crate) Connection);

impl TunnelListener for Incoming {
    type Stream = CtcpStream;

    async fn accept(&mut self) -> Option<CtcpStream> {
        self.0.accept_stream().await.ok().map(CtcpStream)
    }
}

/// Opens a stream of a connection.
pub(crate) async fn open(connection: &Connection) -> Result<CtcpStream, OpenError> {
    match connection.open_stream().await {
        Ok(stream) => Ok(CtcpStream(stream)),
        Err(OpenStreamError::Exhausted) => Err(OpenError::TooManyStreams),
        Err(OpenStreamError::Lost(error)) => Err(OpenError::Closed {
            reason: error.to_string(),
        }),
    }
}
