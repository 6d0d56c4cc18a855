//! The sending half of a stream.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use ctcp_proto::stream::WriteError;
use ctcp_units::StreamId;
use tokio::io::AsyncWrite;
use tokio::task::coop;

use super::{release, remember};
use crate::connection::Owner;
use crate::error::StreamError;
use crate::shared::State;

/// The sending half of a [`Stream`](super::Stream).
///
/// Dropped before it was shut down, it resets its direction of the stream.
#[derive(Debug)]
pub struct SendStream {
    owner: Arc<Owner>,
    id: StreamId,
    progress: Progress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Open,
    /// The end is queued behind the data.
    Finished,
    Reset,
}

impl SendStream {
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

    pub(super) fn is_open(&self) -> bool {
        self.progress == Progress::Open
    }

    pub(super) const fn owner(&self) -> &Arc<Owner> {
        &self.owner
    }

    /// Gives up sending with `code`: the peer reads a reset. Without effect once
    /// the end was written.
    pub fn reset(&mut self, code: u32) {
        if !self.is_open() {
            return;
        }
        self.progress = Progress::Reset;
        self.owner.shared.lock().proto.reset(self.id, code);
        self.owner.shared.wake_driver();
    }

    /// Ends this direction, if that was not done before, and waits until the
    /// peer's side of the transport has everything. That the application there
    /// has read it, only the application can tell.
    ///
    /// # Errors
    /// [`StreamError::Stopped`]: the peer did not want all of it.
    /// [`StreamError::Lost`]: the connection ended, and what the peer got by
    /// then is not known. [`StreamError::Closed`]: it was reset here.
    pub async fn delivered(&mut self) -> Result<(), StreamError> {
        self.finish()?;
        poll_fn(|cx| {
            let mut state = self.owner.shared.lock();
            let error = state.error.clone();
            let slot = state
                .slots
                .get_mut(&self.id)
                .expect("a half that lives has its slot");
            Poll::Ready(if slot.is_delivered {
                Ok(())
            } else if let Some(code) = slot.stopped {
                Err(StreamError::Stopped(code))
            } else if let Some(error) = error {
                Err(StreamError::Lost(error))
            } else {
                remember(&mut slot.finisher, cx);
                return Poll::Pending;
            })
        })
        .await
    }

    /// Queues the end behind what was written.
    fn finish(&mut self) -> Result<(), StreamError> {
        match self.progress {
            Progress::Open => {}
            Progress::Finished => return Ok(()),
            Progress::Reset => return Err(StreamError::Closed),
        }
        let result = {
            let mut state = self.owner.shared.lock();
            if let Some(error) = &state.error {
                return Err(StreamError::Lost(error.clone()));
            }
            let result = state.proto.finish(self.id);
            result.map_err(|error| closed_by(error, &state, self.id))
        };
        if result.is_ok() {
            self.progress = Progress::Finished;
            self.owner.shared.wake_driver();
        } else {
            self.progress = Progress::Reset;
        }
        result
    }

    /// Writes what fits, or has the task woken when something does.
    fn poll_write_once(
        &self,
        state: &mut State,
        cx: &Context<'_>,
        data: &[u8],
    ) -> Poll<Result<usize, StreamError>> {
        if !self.is_open() {
            return Poll::Ready(Err(StreamError::Closed));
        }
        if let Some(error) = &state.error {
            return Poll::Ready(Err(StreamError::Lost(error.clone())));
        }
        match state.proto.write(self.id, data) {
            Ok(count) => Poll::Ready(Ok(count)),
            Err(WriteError::Blocked) => {
                if let Some(slot) = state.slots.get_mut(&self.id) {
                    remember(&mut slot.writer, cx);
                }
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(closed_by(error, state, self.id))),
        }
    }
}

/// What closed a sending half that was open: the peer. Of a stream that is
/// through and forgotten the slot still knows it.
fn closed_by(error: WriteError, state: &State, id: StreamId) -> StreamError {
    let known = state.slots.get(&id).and_then(|slot| slot.stopped);
    match error {
        WriteError::Stopped(code) => StreamError::Stopped(code),
        _ => known.map_or(StreamError::Closed, StreamError::Stopped),
    }
}

impl AsyncWrite for SendStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let coop = ready!(coop::poll_proceed(cx));
        let shared = &self.owner.shared;
        let result = ready!(self.poll_write_once(&mut shared.lock(), cx, data));
        coop.made_progress();
        if result.is_ok() {
            shared.wake_driver();
        }
        Poll::Ready(result.map_err(Into::into))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let coop = ready!(coop::poll_proceed(cx));
        let shared = &self.owner.shared;
        let mut written = 0;
        {
            let mut state = shared.lock();
            for slice in slices.iter().filter(|slice| !slice.is_empty()) {
                match self.poll_write_once(&mut state, cx, slice) {
                    Poll::Ready(Ok(count)) => {
                        written += count;
                        if count < slice.len() {
                            break;
                        }
                    }
                    // What was written counts first; the rest shows next time.
                    _ if written > 0 => break,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                    Poll::Pending => return Poll::Pending,
                }
            }
        }
        coop.made_progress();
        shared.wake_driver();
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends this direction after what was written. A second time does nothing.
    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.finish().map_err(Into::into))
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        self.reset(0);
        release(&mut self.owner.shared.lock(), self.id);
    }
}
