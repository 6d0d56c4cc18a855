//! What is to be done over a connection, and done again over the next if it
//! breaks.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ctcp::{Connection, ReceiveStream, SendStream};
use ctcp_files::{
    Name, ReceiveOptions, SendOptions, Source, Store, Summary, TransferError, receive,
    receive_pipe, send, send_pipe,
};
use tokio::time::timeout;

use super::bridge::Blocking;
use super::progress::Progress;

/// How long the other side may take to begin.
const BEGIN_PATIENCE: Duration = Duration::from_secs(10);

/// How long the last words may take to reach the other side.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// One end's part of a transfer.
#[derive(Debug, Clone)]
pub(super) enum WorkKind {
    Send {
        source: Source,
        options: SendOptions,
    },
    SendPipe(Name),
    Receive {
        store: Arc<Mutex<Store>>,
        options: ReceiveOptions,
    },
    ReceivePipe,
}

/// The work, and what a person sees of it.
#[derive(Debug, Clone)]
pub(super) struct Work {
    pub(super) kind: WorkKind,
    pub(super) progress: Arc<Progress>,
}

impl Work {
    pub(super) fn new(kind: WorkKind) -> Self {
        Self {
            kind,
            progress: Arc::new(Progress::default()),
        }
    }

    /// Whether it can go on over another connection.
    pub(super) const fn can_resume(&self) -> bool {
        matches!(self.kind, WorkKind::Send { .. } | WorkKind::Receive { .. })
    }

    /// Whether results may not go to stdout, because contents do.
    pub(super) const fn owns_stdout(&self) -> bool {
        matches!(self.kind, WorkKind::ReceivePipe)
    }

    pub(super) const fn is_sending(&self) -> bool {
        matches!(self.kind, WorkKind::Send { .. } | WorkKind::SendPipe(_))
    }

    /// Does it over `connection`: who dialed opens the stream.
    pub(super) async fn run(
        &self,
        connection: &Connection,
        is_dialer: bool,
    ) -> Result<Summary, TransferError> {
        let stream = if is_dialer {
            let opened = connection.open_stream().await;
            opened.map_err(|error| lost(io::Error::other(error)))?
        } else {
            let accepted = timeout(BEGIN_PATIENCE, connection.accept_stream()).await;
            let accepted = accepted.map_err(|_| lost(io::ErrorKind::TimedOut.into()))?;
            accepted.map_err(|error| lost(io::Error::other(error)))?
        };
        let (reader, writer) = stream.into_split();
        let (reader, writer) = (Blocking::new(reader), Blocking::new(writer));
        let work = self.clone();
        let working = tokio::task::spawn_blocking(move || work.block(reader, writer));
        let (result, mut writer) = working.await.expect("a transfer does not panic");
        if !matches!(result, Err(TransferError::Lost(_))) {
            // If they do not arrive, the other side learns of it as of a loss.
            let _ = timeout(LAST_WORDS, writer.delivered()).await;
        }
        result
    }

    fn block(
        self,
        reader: Blocking<ReceiveStream>,
        mut writer: Blocking<SendStream>,
    ) -> (Result<Summary, TransferError>, SendStream) {
        let watch = &*self.progress;
        let result = match self.kind {
            WorkKind::Send { source, options } => {
                send(&source, options, reader, &mut writer, watch)
            }
            WorkKind::SendPipe(name) => send_pipe(&name, io::stdin(), reader, &mut writer, watch),
            WorkKind::Receive { store, options } => {
                let mut store = store.lock().unwrap_or_else(PoisonError::into_inner);
                receive(&mut store, options, reader, &mut writer, watch)
            }
            WorkKind::ReceivePipe => receive_pipe(&mut io::stdout(), reader, &mut writer, watch),
        };
        (result, writer.half)
    }
}

fn lost(error: io::Error) -> TransferError {
    TransferError::Lost(error)
}
