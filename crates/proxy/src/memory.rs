//! A tunnel inside one process, for tests and for programs that embed the
//! proxies: pairs of pipes that keep the contract of [`TunnelStream`], resets
//! included.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex};
use tokio::sync::mpsc;

use crate::tunnel::{OpenError, Tunnel, TunnelListener, TunnelStream, reset_code};

/// A tunnel and the listener at its far end. At most `backlog` streams wait to
/// be accepted; each direction of a stream buffers `buffer_len` bytes.
pub fn tunnel(backlog: usize, buffer_len: usize) -> (MemoryTunnel, MemoryListener) {
    let (sender, receiver) = mpsc::channel(backlog);
    let state = Arc::new(AtomicU8::new(UP));
    (
        MemoryTunnel {
            sender,
            state,
            buffer_len,
        },
        MemoryListener(receiver),
    )
}

/// Two ends of one stream.
pub fn stream_pair(buffer_len: usize) -> (MemoryStream, MemoryStream) {
    let (left, right) = duplex(buffer_len);
    let shared = Arc::new(Mutex::new(Shared::default()));
    let end = |pipe, side| MemoryStream {
        pipe: Some(pipe),
        shared: shared.clone(),
        side,
        shut_down: false,
    };
    (end(left, 0), end(right, 1))
}

/// Longest datagram beside a stream, and how many wait.
const DATAGRAM_LEN_MAX: usize = 1400;
const DATAGRAMS_MAX: usize = 64;

const UP: u8 = 0;
const SILENT: u8 = 1;
const REFUSED: u8 = 2;

/// The opening end.
#[derive(Debug)]
pub struct MemoryTunnel {
    sender: mpsc::Sender<MemoryStream>,
    state: Arc<AtomicU8>,
    buffer_len: usize,
}

impl MemoryTunnel {
    /// From now on opening a stream never completes, as without an answer.
    pub fn fall_silent(&self) {
        self.state.store(SILENT, Ordering::SeqCst);
    }

    /// From now on opening a stream is refused.
    pub fn refuse(&self) {
        self.state.store(REFUSED, Ordering::SeqCst);
    }
}

impl Tunnel for MemoryTunnel {
    type Stream = MemoryStream;

    async fn open(&self) -> Result<MemoryStream, OpenError> {
        match self.state.load(Ordering::SeqCst) {
            SILENT => return std::future::pending().await,
            REFUSED => return Err(OpenError::Refused),
            _ => {}
        }
        let (near, far) = stream_pair(self.buffer_len);
        match self.sender.send(far).await {
            Ok(()) => Ok(near),
            Err(_) => Err(OpenError::Closed {
                reason: "the listener was dropped".to_owned(),
            }),
        }
    }
}

/// The accepting end.
#[derive(Debug)]
pub struct MemoryListener(mpsc::Receiver<MemoryStream>);

impl TunnelListener for MemoryListener {
    type Stream = MemoryStream;

    async fn accept(&mut self) -> Option<MemoryStream> {
        self.0.recv().await
    }
}

/// One end of a stream in memory.
#[derive(Debug)]
pub struct MemoryStream {
    /// `None` once reset from this side.
    pipe: Option<DuplexStream>,
    shared: Arc<Mutex<Shared>>,
    side: usize,
    shut_down: bool,
}

#[derive(Debug, Default)]
struct Shared {
    /// The code of the reset, whoever sent it.
    code: Option<u32>,
    watchers: [Option<Waker>; 2],
    /// Datagrams for each side.
    datagrams: [VecDeque<Vec<u8>>; 2],
    readers: [Option<Waker>; 2],
}

impl MemoryStream {
    /// The code with which either end reset the stream.
    pub fn reset_code(&self) -> Option<u32> {
        self.lock().code
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.shared.lock().expect("no panic while it is held")
    }

    fn check(&self) -> io::Result<()> {
        match self.lock().code {
            Some(code) => Err(reset_error(code)),
            None => Ok(()),
        }
    }
}

fn reset_error(code: u32) -> io::Error {
    io::Error::new(
        io::ErrorKind::ConnectionReset,
        format!("stream reset with code {code}"),
    )
}

impl TunnelStream for MemoryStream {
    fn reset(&mut self, code: u32) {
        let watcher = {
            let mut shared = self.lock();
            shared.code.get_or_insert(code);
            shared.watchers[1 - self.side].take()
        };
        // Dropping the pipe wakes the peer's reads and writes.
        self.pipe = None;
        if let Some(watcher) = watcher {
            watcher.wake();
        }
    }

    fn poll_broken(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let side = self.side;
        let mut shared = self.lock();
        if let Some(code) = shared.code {
            return Poll::Ready(reset_error(code));
        }
        shared.watchers[side] = Some(cx.waker().clone());
        Poll::Pending
    }

    fn send_datagram(&mut self, data: &[u8]) -> io::Result<()> {
        self.check()?;
        if data.len() > DATAGRAM_LEN_MAX {
            return Err(io::Error::other("a datagram longer than any packet"));
        }
        let other = 1 - self.side;
        let reader = {
            let mut shared = self.lock();
            if shared.datagrams[other].len() < DATAGRAMS_MAX {
                shared.datagrams[other].push_back(data.to_vec());
            }
            shared.readers[other].take()
        };
        if let Some(reader) = reader {
            reader.wake();
        }
        Ok(())
    }

    fn poll_datagram(&mut self, cx: &mut Context<'_>) -> Poll<Vec<u8>> {
        let side = self.side;
        let mut shared = self.lock();
        if let Some(datagram) = shared.datagrams[side].pop_front() {
            return Poll::Ready(datagram);
        }
        shared.readers[side] = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for MemoryStream {
    fn drop(&mut self) {
        if !self.shut_down {
            self.reset(reset_code::CANCELLED);
        }
    }
}

impl AsyncRead for MemoryStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let Some(pipe) = self.pipe.as_mut() else {
            return Poll::Ready(self.check());
        };
        let polled = Pin::new(pipe).poll_read(cx, buf);
        if let Poll::Ready(Ok(())) = polled
            && buf.filled().len() == before
        {
            // An end of the pipe is clean only if nobody reset the stream.
            self.check()?;
        }
        polled
    }
}

impl AsyncWrite for MemoryStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        match self.pipe.as_mut() {
            Some(pipe) => Pin::new(pipe).poll_write(cx, bytes),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.check())
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        self.shut_down = true;
        match self.pipe.as_mut() {
            Some(pipe) => Pin::new(pipe).poll_shutdown(cx),
            None => Poll::Ready(Ok(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn a_dropped_stream_is_reset_and_a_shut_down_one_is_not() {
        let (mut near, mut far) = stream_pair(64);
        near.write_all(b"whole").await.expect("room");
        near.shutdown().await.expect("open");
        drop(near);
        let mut read = Vec::new();
        far.read_to_end(&mut read).await.expect("a clean end");
        assert_eq!(read, b"whole");

        let (near, mut far) = stream_pair(64);
        drop(near);
        let error = far.read_to_end(&mut read).await.expect_err("a reset");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }

    #[tokio::test]
    async fn a_reset_wakes_a_waiting_reader_and_carries_its_code() {
        let (mut near, mut far) = stream_pair(64);
        let reader = tokio::spawn(async move {
            let error = far.read_u8().await.expect_err("a reset");
            (error.kind(), far.reset_code())
        });
        tokio::task::yield_now().await;
        near.reset(7);
        let seen = reader.await.expect("no panic");
        assert_eq!(seen, (io::ErrorKind::ConnectionReset, Some(7)));
    }
}
