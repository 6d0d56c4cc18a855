//! One qlog a connection: what happened to every packet, for qvis and other
//! tools.
//!
//! Format: qlog 0.3 as JSON text sequences ([RFC7464]), files
//! `SECONDS-ROLE-N.sqlog`. Packets, losses and metrics are told as QUIC's events
//! are; what QUIC has no word for has names that begin with `ctcp`: which symbol
//! or combination a packet carries, and what decoding brought. Packet numbers are
//! a path's own; `group_id` makes qvis show each path by itself.
//!
//! A connection at work never waits for the disk: events go to one thread by a
//! channel of bounded length, and what finds it full is dropped and counted in
//! the file.

mod event;
mod writer;

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use ctcp::Connection;
use thiserror::Error;
use tracing::warn;

use event::QlogTrace;
use writer::Writer;

/// Why there are no traces.
#[derive(Debug, Error)]
#[error("cannot write traces into {}: {error}; choose another folder with --qlog DIR", path.display())]
pub struct QlogFolderError {
    /// The folder.
    pub path: PathBuf,
    /// Why.
    pub error: io::Error,
}

/// A folder of traces. Clones mean the same.
#[derive(Debug, Clone)]
pub struct QlogFolder {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    next: AtomicU64,
    writer: Writer,
}

impl QlogFolder {
    /// Traces into the folder at `path`, which is made if need be.
    ///
    /// # Errors
    /// [`QlogFolderError`]: it cannot be made or written to.
    pub fn open(path: &Path) -> Result<Self, QlogFolderError> {
        let opened = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            // A folder that is there may still refuse.
            .and_then(|()| tempfile_in(path))
            .and_then(|()| Writer::start());
        let writer = opened.map_err(|error| QlogFolderError {
            path: path.to_owned(),
            error,
        })?;
        Ok(Self {
            shared: Arc::new(Shared {
                path: path.to_owned(),
                next: AtomicU64::new(0),
                writer,
            }),
        })
    }

    /// Begins a trace of `connection`; a file that cannot be made is told in the
    /// log, and the connection goes on untraced.
    pub(crate) fn trace(&self, role: &str, name: &str, connection: &Connection) {
        let number = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let path = (self.shared.path).join(format!("{}-{role}-{number}.sqlog", wall.as_secs()));
        let made = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path);
        let file = match made {
            Ok(file) => file,
            Err(error) => {
                warn!(file = %path.display(), %error, "no trace of this connection");
                return;
            }
        };
        let sink = self.shared.writer.add(path, file);
        let peer = connection.peer_key().to_string();
        let trace = QlogTrace::begin(sink, role, name, &peer, wall);
        connection.set_trace(Box::new(trace));
    }

    /// Waits until what was told so far is in the files, but not for long.
    pub fn flush(&self) {
        self.shared.writer.flush();
    }
}

fn tempfile_in(folder: &Path) -> io::Result<()> {
    let path = folder.join(format!(".ctcp-{}", std::process::id()));
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path)?;
    std::fs::remove_file(path)
}
