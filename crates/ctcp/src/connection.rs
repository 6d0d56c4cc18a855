//! A connection as applications hold it.

use std::sync::Arc;

use ctcp_proto::stream::OpenError;
use ctcp_proto::{ConnectionError, ConnectionStats, PublicKey, Trace};

use crate::error::{ConnectError, OpenStreamError};
use crate::shared::ConnectionShared;
use crate::stream::Stream;

/// Ends the connection with its last handle.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) shared: Arc<ConnectionShared>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.close(0, "");
    }
}

/// A connection to one peer, authenticated and encrypted, carrying many
/// [`Stream`]s.
///
/// Clones are cheap and mean the same connection. It closes with code 0 when its
/// last handle is dropped; streams count as handles. What has been written but
/// not delivered by then is lost: see
/// [`SendStream::delivered`](crate::SendStream::delivered).
#[derive(Debug, Clone)]
pub struct Connection {
    owner: Arc<Owner>,
}

impl Connection {
    pub(crate) fn new(shared: Arc<ConnectionShared>) -> Self {
        Self {
            owner: Arc::new(Owner { shared }),
        }
    }

    pub(crate) fn shared(&self) -> &Arc<ConnectionShared> {
        &self.owner.shared
    }

    /// Opens a stream; waits while as many are open as the peer allows.
    ///
    /// The peer learns of it with the first byte, end or reset.
    ///
    /// # Errors
    /// The connection has ended, or has used up its ids.
    pub async fn open_stream(&self) -> Result<Stream, OpenStreamError> {
        loop {
            let credit = self.shared().credit.notified();
            if let Some(opened) = self.try_open()? {
                return Ok(opened);
            }
            credit.await;
        }
    }

    /// Opens a stream if the peer allows one more.
    fn try_open(&self) -> Result<Option<Stream>, OpenStreamError> {
        let mut state = self.shared().lock();
        if let Some(error) = &state.error {
            return Err(error.clone().into());
        }
        match state.proto.open_stream() {
            Ok(id) => Ok(Some(Stream::new(&self.owner, &mut state, id))),
            Err(OpenError::TooMany) => Ok(None),
            Err(OpenError::Exhausted) => Err(OpenStreamError::Exhausted),
        }
    }

    /// Waits for the next stream that the peer opens.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn accept_stream(&self) -> Result<Stream, ConnectionError> {
        loop {
            let incoming = self.shared().incoming.notified();
            {
                let mut state = self.shared().lock();
                if let Some(id) = state.proto.accept_stream() {
                    let stream = Stream::new(&self.owner, &mut state, id);
                    drop(state);
                    // Taking it may have made room for another.
                    self.shared().wake_driver();
                    return Ok(stream);
                }
                if let Some(error) = &state.error {
                    return Err(error.clone());
                }
            }
            incoming.await;
        }
    }

    /// Closes at once and tells the peer `code` and `reason` (cut to 128
    /// bytes). What was not delivered is lost; streams fail on both sides.
    pub fn close(&self, code: u32, reason: &str) {
        self.shared().close(code, reason);
    }

    /// Waits until the connection has ended, and tells why.
    pub async fn closed(&self) -> ConnectionError {
        loop {
            let settled = self.shared().settled.notified();
            if let Some(error) = self.error() {
                return error;
            }
            settled.await;
        }
    }

    /// Why it has ended, if it has.
    pub fn error(&self) -> Option<ConnectionError> {
        self.shared().lock().error.clone()
    }

    /// What the connection has done and measured so far.
    pub fn stats(&self) -> ConnectionStats {
        self.shared().lock().proto.stats()
    }

    /// Tells `trace` of every packet from now on, and nobody else. It is called
    /// with the connection at work: it must not wait, nor use the connection.
    pub fn set_trace(&self, trace: Box<dyn Trace>) {
        self.shared().lock().proto.set_trace(trace);
    }

    /// Who is on the other side.
    pub fn peer_key(&self) -> PublicKey {
        self.shared().peer_key
    }

    /// Waits until the handshake is through.
    pub(crate) async fn connected(&self) -> Result<(), ConnectError> {
        loop {
            let settled = self.shared().settled.notified();
            {
                let state = self.shared().lock();
                if let Some(error) = &state.error {
                    return Err(error.clone().into());
                }
                if state.is_connected {
                    return Ok(());
                }
            }
            settled.await;
        }
    }
}
