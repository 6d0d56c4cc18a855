//! A stream whose request may still be unanswered.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::request::{ParseError, REPLY_LEN_MAX, Reply};
use crate::tunnel::TunnelStream;

/// Lets writing go on while the reply is awaited; reading takes the reply first.
/// A failed request, a malformed reply and one that does not come in time are
/// errors of reading.
pub(crate) struct ReplyGate<S> {
    stream: S,
    /// `None` once the reply was a success.
    awaited: Option<Pin<Box<Sleep>>>,
    /// The part of the reply that came; later, what came behind it.
    bytes: Vec<u8>,
}

impl<S> ReplyGate<S> {
    pub(crate) fn new(stream: S, reply_timeout: Duration) -> Self {
        Self {
            stream,
            awaited: Some(Box::pin(sleep(reply_timeout))),
            bytes: Vec::new(),
        }
    }
}

/// Takes the reply from the front of `bytes`, if it is whole.
pub(crate) fn take_reply(bytes: &mut Vec<u8>) -> io::Result<Option<Reply>> {
    let parsed = Reply::parse(bytes).map_err(malformed)?;
    Ok(parsed.map(|(reply, len)| {
        bytes.drain(..len);
        reply
    }))
}

fn malformed(error: ParseError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl<S: TunnelStream> ReplyGate<S> {
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(patience) = self.awaited.as_mut() {
            match take_reply(&mut self.bytes)? {
                Some(Reply::Connected(_)) => {
                    self.awaited = None;
                    break;
                }
                Some(Reply::Failed(failure)) => {
                    let kind = io::ErrorKind::ConnectionRefused;
                    return Poll::Ready(Err(io::Error::new(kind, failure)));
                }
                None => {}
            }
            let mut chunk = [0; REPLY_LEN_MAX];
            let mut buf = ReadBuf::new(&mut chunk);
            if Pin::new(&mut self.stream)
                .poll_read(cx, &mut buf)?
                .is_pending()
            {
                ready!(patience.as_mut().poll(cx));
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            if buf.filled().is_empty() {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            self.bytes.extend_from_slice(buf.filled());
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: TunnelStream> AsyncRead for ReplyGate<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_reply(cx))?;
        if !self.bytes.is_empty() {
            let len = self.bytes.len().min(buf.remaining());
            buf.put_slice(&self.bytes[..len]);
            self.bytes.drain(..len);
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: TunnelStream> AsyncWrite for ReplyGate<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<S: TunnelStream> TunnelStream for ReplyGate<S> {
    fn reset(&mut self, code: u32) {
        self.stream.reset(code);
    }

    fn poll_broken(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        self.stream.poll_broken(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::stream_pair;
    use crate::request::{Failure, Status};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const SOON: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn writing_does_not_wait_and_reading_skips_the_reply() {
        let (near, mut far) = stream_pair(1024);
        let mut gate = ReplyGate::new(near, SOON);
        gate.write_all(b"early").await.expect("open");
        far.read_exact(&mut [0; 5]).await.expect("written");
        let mut reply = Vec::new();
        Reply::Connected("192.0.2.1:80".parse().expect("literal")).write(&mut reply);
        reply.extend(b"banner");
        for byte in reply {
            far.write_u8(byte).await.expect("open");
        }
        far.shutdown().await.expect("open");
        let mut read = String::new();
        gate.read_to_string(&mut read).await.expect("clean end");
        assert_eq!(read, "banner");
    }

    #[tokio::test]
    async fn a_failed_request_is_an_error_that_says_why() {
        let (near, mut far) = stream_pair(1024);
        let mut reply = Vec::new();
        Reply::Failed(Failure::new(Status::NotAllowed, "")).write(&mut reply);
        far.write_all(&reply).await.expect("open");
        let error = ReplyGate::new(near, SOON).read_u8().await.expect_err("no");
        let failure = error.get_ref().and_then(|e| e.downcast_ref::<Failure>());
        assert_eq!(failure.map(|f| f.status), Some(Status::NotAllowed));
    }

    #[tokio::test]
    async fn a_reply_that_does_not_come_ends_the_wait() {
        let (near, _far) = stream_pair(1024);
        let mut gate = ReplyGate::new(near, Duration::from_millis(20));
        let error = gate.read_u8().await.expect_err("silent");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn an_end_instead_of_a_reply_is_no_clean_end() {
        let (near, mut far) = stream_pair(1024);
        far.write_all(&[0, 1]).await.expect("open");
        far.shutdown().await.expect("open");
        let error = ReplyGate::new(near, SOON).read_u8().await.expect_err("cut");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
