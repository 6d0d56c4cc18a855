//! The relay between a local connection and a tunnel stream.
//!
//! Each direction copies through a buffer of its own and ends by itself: the end
//! of reading on one side becomes the end of writing on the other. Anything else
//! than two clean ends tears down both sides as a reset, so that no receiver takes
//! a part for the whole: a TCP connection that this module relays is set to be
//! reset when it is closed (`SO_LINGER` 0) and becomes an ordinary one again only
//! after both directions have ended. A task that is stopped or panics therefore
//! resets too.
//!
//! There is no idle limit. Dead TCP peers are found by keep-alive, a dead tunnel
//! by the tunnel.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use crate::stats::Stats;
use crate::streams::Listed;
use crate::tunnel::{TunnelStream, reset_code};

/// Longest buffer of one direction. 64 KiB keeps system calls rare at gigabits.
const BUFFER_LEN_MAX: usize = 64 << 10;

/// First buffer of one direction: most connections never move more at a time.
const BUFFER_LEN_MIN: usize = 8 << 10;

/// Buffers one direction may move before other tasks get their turn.
const TURNS_MAX: u32 = 16;

/// Which side of a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The application or the target.
    Local,
    /// The tunnel's stream.
    Tunnel,
}

/// A relay that did not come to two clean ends.
#[derive(Debug, Error)]
#[error("the {} failed: {error}", match side { Side::Local => "local connection", Side::Tunnel => "tunnel's stream" })]
pub struct RelayError {
    /// Who failed first.
    pub side: Side,
    /// How.
    pub error: io::Error,
}

/// Bytes that were read before the relay began; it moves them first.
#[derive(Debug, Default)]
pub struct Early {
    /// From the local side, for the tunnel.
    pub to_tunnel: Vec<u8>,
    /// From the tunnel, for the local side.
    pub to_local: Vec<u8>,
}

/// Where moved bytes are counted.
#[derive(Debug, Clone, Copy)]
pub struct Meter<'a> {
    /// From the local side to the tunnel.
    to_tunnel: Counter<'a>,
    /// From the tunnel to the local side.
    to_local: Counter<'a>,
}

/// Counts bytes for the proxy, and for one connection if that is listed.
#[derive(Debug, Clone, Copy)]
struct Counter<'a> {
    total: &'a AtomicU64,
    one: Option<&'a AtomicU64>,
}

impl<'a> Counter<'a> {
    const fn new(total: &'a AtomicU64) -> Self {
        Self { total, one: None }
    }

    fn add(self, len: usize) {
        self.total.fetch_add(len as u64, Ordering::Relaxed);
        if let Some(one) = self.one {
            one.fetch_add(len as u64, Ordering::Relaxed);
        }
    }
}

impl<'a> Meter<'a> {
    /// For a forward proxy: the local side is the application.
    pub fn near(stats: &'a Stats) -> Self {
        let (to_tunnel, to_local) = stats.bytes();
        Self {
            to_tunnel: Counter::new(to_tunnel),
            to_local: Counter::new(to_local),
        }
    }

    /// Bytes that came from the local side.
    pub(crate) fn add_to_tunnel(&self, len: usize) {
        self.to_tunnel.add(len);
    }

    /// Bytes that went to the local side.
    pub(crate) fn add_to_local(&self, len: usize) {
        self.to_local.add(len);
    }

    /// The same, counted for one connection, too.
    pub(crate) fn near_listed(stats: &'a Stats, listed: &'a Listed) -> Self {
        let mut meter = Self::near(stats);
        meter.to_tunnel.one = Some(&listed.record().bytes_up);
        meter.to_local.one = Some(&listed.record().bytes_down);
        meter
    }

    /// For a reverse proxy: the local side is the target.
    pub fn far(stats: &'a Stats) -> Self {
        let (to_local, to_tunnel) = stats.bytes();
        Self {
            to_tunnel: Counter::new(to_tunnel),
            to_local: Counter::new(to_local),
        }
    }

    /// The same, counted for one connection, too.
    pub(crate) fn far_listed(stats: &'a Stats, listed: &'a Listed) -> Self {
        let mut meter = Self::far(stats);
        meter.to_local.one = Some(&listed.record().bytes_up);
        meter.to_tunnel.one = Some(&listed.record().bytes_down);
        meter
    }
}

/// Sets a TCP connection up for relaying: no delay for small writes, keep-alive,
/// and a reset if it is closed before the relay is through.
///
/// # Errors
/// What the kernel says; then the connection is dead already.
pub fn prepare(tcp: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(tcp);
    socket.set_tcp_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(60))
        .with_interval(Duration::from_secs(20));
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_linger(Some(Duration::ZERO))
}

/// Relays between a TCP connection and a stream until both directions have ended.
/// `gone_code` is the reset code that tells the peer that the TCP side failed.
///
/// # Errors
/// [`RelayError`] after both sides were reset.
pub async fn relay_tcp<S: TunnelStream>(
    tcp: TcpStream,
    mut stream: S,
    early: Early,
    gone_code: u32,
    meter: Meter<'_>,
) -> Result<(), RelayError> {
    let local_error = |error| RelayError {
        side: Side::Local,
        error,
    };
    let relayed = match prepare(&tcp) {
        Ok(()) => {
            let (reader, writer) = (TcpRef(&tcp), TcpRef(&tcp));
            relay(reader, writer, broken(&tcp), &mut stream, early, meter).await
        }
        Err(error) => Err(local_error(error)),
    };
    match relayed {
        Ok(()) => SockRef::from(&tcp).set_linger(None).map_err(local_error),
        Err(failed) => {
            stream.reset(match failed.side {
                Side::Local => gone_code,
                Side::Tunnel => reset_code::CANCELLED,
            });
            Err(failed)
        }
    }
}

/// Relays between a reader and a writer (standard input and output, say) and a
/// stream until both directions have ended. `local_broken` completes if the local
/// side fails while nothing is read or written; it is asked only once reading
/// has ended.
///
/// # Errors
/// [`RelayError`]; the stream is then not yet reset, and the caller closes the
/// local side in whatever way shows that something is missing.
pub async fn relay<R, W, S>(
    mut reader: R,
    mut writer: W,
    local_broken: impl Future<Output = io::Error>,
    stream: &mut S,
    early: Early,
    meter: Meter<'_>,
) -> Result<(), RelayError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
    S: TunnelStream,
{
    let mut up = Pump::new(early.to_tunnel);
    let mut down = Pump::new(early.to_local);
    let mut local_broken = pin!(local_broken);
    let fail = |side, error| Poll::Ready(Err(RelayError { side, error }));
    poll_fn(move |cx| {
        if let Poll::Ready(Err((end, error))) = up.poll(cx, &mut reader, stream, meter.to_tunnel) {
            return fail(end.side(Side::Local, Side::Tunnel), error);
        }
        if let Poll::Ready(Err((end, error))) = down.poll(cx, stream, &mut writer, meter.to_local) {
            return fail(end.side(Side::Tunnel, Side::Local), error);
        }
        if up.finished && down.finished {
            return Poll::Ready(Ok(()));
        }
        // Who no longer reads from a side learns of its death only by asking.
        if up.read_ended
            && !down.finished
            && let Poll::Ready(error) = local_broken.as_mut().poll(cx)
        {
            return fail(Side::Local, error);
        }
        if down.read_ended
            && !up.finished
            && let Poll::Ready(error) = stream.poll_broken(cx)
        {
            return fail(Side::Tunnel, error);
        }
        Poll::Pending
    })
    .await
}

/// Which end of a pump failed.
#[derive(Debug, Clone, Copy)]
enum End {
    Source,
    Sink,
}

impl End {
    fn side(self, source: Side, sink: Side) -> Side {
        match self {
            Self::Source => source,
            Self::Sink => sink,
        }
    }
}

/// One direction: bytes `start..end` of the buffer are read but not yet written.
#[derive(Debug)]
struct Pump {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// A read filled the buffer: the next may be larger.
    was_full: bool,
    unflushed: bool,
    read_ended: bool,
    finished: bool,
}

impl Pump {
    fn new(early: Vec<u8>) -> Self {
        let end = early.len();
        let mut buffer = early;
        buffer.resize(end.max(BUFFER_LEN_MIN), 0);
        Self {
            buffer,
            start: 0,
            end,
            was_full: false,
            unflushed: false,
            read_ended: false,
            finished: false,
        }
    }

    /// Moves what can be moved. `Ready(Ok)` once the source has ended and the
    /// sink is shut down.
    fn poll<R, W>(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut R,
        sink: &mut W,
        moved: Counter<'_>,
    ) -> Poll<Result<(), (End, io::Error)>>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        if self.finished {
            return Poll::Ready(Ok(()));
        }
        for _ in 0..TURNS_MAX {
            if self.start == self.end {
                if self.read_ended {
                    ready!(Pin::new(sink).poll_shutdown(cx)).map_err(|e| (End::Sink, e))?;
                    self.finished = true;
                    self.buffer = Vec::new();
                    return Poll::Ready(Ok(()));
                }
                self.make_room();
                if self.poll_fill(cx, source)?.is_pending() {
                    if self.unflushed {
                        ready!(Pin::new(sink).poll_flush(cx)).map_err(|e| (End::Sink, e))?;
                        self.unflushed = false;
                    }
                    return Poll::Pending;
                }
                continue;
            }
            let bytes = &self.buffer[self.start..self.end];
            match Pin::new(&mut *sink).poll_write(cx, bytes) {
                Poll::Ready(Ok(0)) => {
                    return Poll::Ready(Err((End::Sink, io::ErrorKind::WriteZero.into())));
                }
                Poll::Ready(Ok(len)) => {
                    self.start += len;
                    self.unflushed = true;
                    moved.add(len);
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err((End::Sink, error))),
                Poll::Pending => {
                    // Read on meanwhile; it also shows a source that died.
                    while !self.read_ended
                        && self.end < self.buffer.len()
                        && self.poll_fill(cx, source)?.is_ready()
                    {}
                    return Poll::Pending;
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Empties the drained buffer, a larger one if reads keep filling it.
    fn make_room(&mut self) {
        self.start = 0;
        self.end = 0;
        if self.was_full && self.buffer.len() < BUFFER_LEN_MAX {
            let len = (self.buffer.len() * 4).min(BUFFER_LEN_MAX);
            // Nothing is worth copying into the new one.
            self.buffer = vec![0; len];
        }
        self.was_full = false;
    }

    /// Reads once into the free rest of the buffer, which is not empty.
    fn poll_fill<R: AsyncRead + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut R,
    ) -> Result<Poll<()>, (End, io::Error)> {
        let mut free = ReadBuf::new(&mut self.buffer[self.end..]);
        match Pin::new(source).poll_read(cx, &mut free) {
            Poll::Pending => return Ok(Poll::Pending),
            Poll::Ready(Err(error)) => return Err((End::Source, error)),
            Poll::Ready(Ok(())) => {}
        }
        let len = free.filled().len();
        self.read_ended = len == 0;
        self.end += len;
        self.was_full |= self.end == self.buffer.len();
        Ok(Poll::Ready(()))
    }
}

/// Reads and writes a TCP connection that others watch meanwhile.
struct TcpRef<'a>(&'a TcpStream);

impl AsyncRead for TcpRef<'_> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            match self.0.try_read(buf.initialize_unfilled()) {
                Ok(len) => {
                    buf.advance(len);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for TcpRef<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match self.0.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(self.0).shutdown(std::net::Shutdown::Write))
    }
}

/// Waits until the TCP connection is reset.
pub(crate) async fn broken(tcp: &TcpStream) -> io::Error {
    loop {
        if let Err(error) = tcp.ready(Interest::ERROR).await {
            return error;
        }
        match SockRef::from(tcp).take_error() {
            Ok(Some(error)) | Err(error) => return error,
            // A false alarm: clear it and wait for the next.
            Ok(None) => {
                let _ = tcp.try_io(Interest::ERROR, || {
                    Err::<(), _>(io::ErrorKind::WouldBlock.into())
                });
            }
        }
    }
}

#[cfg(test)]
#[path = "splice_tests.rs"]
mod tests;
