//! The receiving half of a stream.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use ctcp_proto::stream::{Read, ReadError};
use ctcp_units::StreamId;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::task::coop;

use super::{release, remember};
use crate::connection::Owner;
use crate::error::StreamError;

/// The receiving half of a [`Stream`](super::Stream).
///
/// Dropped before the end (or a reset) was read, it tells the peer to send no
/// more.
#[derive(Debug)]
pub struct ReceiveStream {
    owner: Arc<Owner>,
    id: StreamId,
    progress: Progress,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Progress {
    Open,
    /// The clean end was read.
    Ended,
    /// It failed; reading again says the same.
    Failed(StreamError),
}

impl ReceiveStream {
    pub(super) const fn new(owner: Arc<Owner>, id: StreamId) -> Self {
        Self {
            owner,
            id,
            progress: Progress::Open,
        }
    }

    /// Its id in the connection.
    pub const fn id(&self) -> StreamId {
        self.id
    }

    /// Gives up reading with `code`: the peer is told to send no more. Without
    /// effect once the end or a reset was read.
    pub fn stop(&mut self, code: u32) {
        if self.progress != Progress::Open {
            return;
        }
        self.progress = Progress::Failed(StreamError::Closed);
        self.owner.shared.lock().proto.stop(self.id, code);
        self.owner.shared.wake_driver();
    }

    fn poll_read_once(
        &self,
        cx: &Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<Read, StreamError>> {
        let mut state = self.owner.shared.lock();
        let result = state.proto.read(self.id, buf.initialize_unfilled());
        let error = match result {
            Ok(read) => return Poll::Ready(Ok(read)),
            Err(ReadError::Reset(code)) => StreamError::Reset(code),
            // What arrived before the connection ended was read first.
            Err(error) => match &state.error {
                Some(lost) => StreamError::Lost(lost.clone()),
                None if error == ReadError::Blocked => {
                    if let Some(slot) = state.slots.get_mut(&self.id) {
                        remember(&mut slot.reader, cx);
                    }
                    return Poll::Pending;
                }
                None => StreamError::Closed,
            },
        };
        Poll::Ready(Err(error))
    }
}

impl AsyncRead for ReceiveStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &self.progress {
            Progress::Open => {}
            Progress::Ended => return Poll::Ready(Ok(())),
            Progress::Failed(error) => return Poll::Ready(Err(error.clone().into())),
        }
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let coop = ready!(coop::poll_proceed(cx));
        let result = ready!(self.poll_read_once(cx, buf));
        coop.made_progress();
        match result {
            Ok(Read::Bytes(count)) => buf.advance(count),
            Ok(Read::End) => self.progress = Progress::Ended,
            Err(error) => {
                self.progress = Progress::Failed(error.clone());
                return Poll::Ready(Err(error.into()));
            }
        }
        // The peer may get credit.
        self.owner.shared.wake_driver();
        Poll::Ready(Ok(()))
    }
}

impl Drop for ReceiveStream {
    fn drop(&mut self) {
        self.stop(0);
        release(&mut self.owner.shared.lock(), self.id);
    }
}
