//! Streams and their halves.

mod receive;
mod send;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use ctcp_proto::DatagramError;
use ctcp_units::StreamId;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub use receive::ReceiveStream;
pub use send::SendStream;

use crate::connection::Owner;
use crate::error::StreamError;
use crate::shared::{Slot, State};

/// A stream: bytes in order, both ways.
///
/// - Shutting down ([`AsyncWrite::poll_shutdown`]) ends this side's sending. It
///   completes as soon as the end is queued behind the data; the peer reads a
///   clean end after the last byte, and the other direction lives on.
/// - A stream dropped before that is reset, and the peer reads
///   [`io::ErrorKind::ConnectionReset`], never a clean end. What was not read by
///   then is given up. Dropping a stream that has ended cleanly in both
///   directions does nothing.
/// - If the connection ends, reading (after what had arrived) and writing fail
///   with [`StreamError::Lost`]; see there for the kinds of error.
///
/// Writing puts bytes into the stream's send buffer and waits while that is
/// full. Flushing does nothing: all that was written is sent.
#[derive(Debug)]
pub struct Stream {
    send: SendStream,
    receive: ReceiveStream,
}

impl Stream {
    /// The handle of stream `id`, which has none yet.
    pub(crate) fn new(owner: &Arc<Owner>, state: &mut State, id: StreamId) -> Self {
        let slot = Slot {
            halves: 2,
            ..Slot::default()
        };
        state.slots.insert(id, slot);
        Self {
            send: SendStream::new(owner.clone(), id),
            receive: ReceiveStream::new(owner.clone(), id),
        }
    }

    /// Its id in the connection.
    pub fn id(&self) -> StreamId {
        self.send.id()
    }

    /// Abandons both directions with `code`: the peer reads a reset, and is told
    /// to send no more.
    ///
    /// A direction that has ended already is left alone.
    pub fn reset(&mut self, code: u32) {
        self.send.reset(code);
        self.receive.stop(code);
    }

    /// Ends this side's sending, if that was not done before, and waits until
    /// the peer's side of the transport has everything.
    ///
    /// # Errors
    /// See [`SendStream::delivered`].
    pub async fn delivered(&mut self) -> Result<(), StreamError> {
        self.send.delivered().await
    }

    /// Ready when nobody is left to write for or to read from: the peer reset
    /// the stream or, before its end was written here, stopped it, or the
    /// connection has ended. Also while nothing is read or written.
    pub fn poll_broken(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let mut state = self.send.owner().shared.lock();
        let error = state.error.clone();
        let Some(slot) = state.slots.get_mut(&self.send.id()) else {
            return Poll::Pending;
        };
        let broken = if let Some(code) = slot.reset {
            StreamError::Reset(code)
        } else if let Some(code) = slot.stopped.filter(|_| self.send.is_open()) {
            StreamError::Stopped(code)
        } else if let Some(error) = error {
            StreamError::Lost(error)
        } else {
            remember(&mut slot.watcher, cx);
            return Poll::Pending;
        };
        Poll::Ready(broken.into())
    }

    /// Sends a datagram beside the stream: it overtakes what the stream carries, comes
    /// once or not at all, and is not sent again; where a path loses packets, repairs go
    /// with it.
    ///
    /// # Errors
    /// [`DatagramError`].
    pub fn send_datagram(&self, data: &[u8]) -> Result<(), DatagramError> {
        let shared = &self.send.owner().shared;
        {
            let mut state = shared.lock();
            let now = state.advance(shared.clock.now());
            state.proto.send_datagram(now, self.id(), data)?;
        }
        shared.wake_driver();
        Ok(())
    }

    /// Ready with the next datagram that came beside the stream. They are kept from
    /// the first call on, a bounded number of them. That the stream has ended, it does
    /// not tell.
    pub fn poll_datagram(&self, cx: &mut Context<'_>) -> Poll<Vec<u8>> {
        let mut state = self.send.owner().shared.lock();
        let Some(slot) = state.slots.get_mut(&self.id()) else {
            return Poll::Pending;
        };
        match slot.datagrams.get_or_insert_default().pop_front() {
            Some(datagram) => Poll::Ready(datagram),
            None => {
                remember(&mut slot.datagram_reader, cx);
                Poll::Pending
            }
        }
    }

    /// The two halves, to be held by different tasks.
    pub fn into_split(self) -> (ReceiveStream, SendStream) {
        (self.receive, self.send)
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.receive).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.send).poll_write(cx, data)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.send).poll_shutdown(cx)
    }
}

/// Has the task of `cx` woken from `place`.
fn remember(place: &mut Option<Waker>, cx: &Context<'_>) {
    match place {
        Some(waker) => waker.clone_from(cx.waker()),
        None => *place = Some(cx.waker().clone()),
    }
}

/// One half is gone; with the second one the slot goes.
fn release(state: &mut State, id: StreamId) {
    if let Some(slot) = state.slots.get_mut(&id) {
        slot.halves -= 1;
        if slot.halves == 0 {
            state.slots.remove(&id);
        }
    }
}
