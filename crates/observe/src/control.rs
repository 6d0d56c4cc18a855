//! The control socket: a Unix socket that only its owner may open, where `ctcp
//! status` and `ctcp top` ask.
//!
//! Each process has its own, `ROLE-PID.sock` in a folder of mode 0700. It speaks
//! the HTTP of [`crate::http`].

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

use crate::snapshot::Snapshot;

/// How long a process may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest answer taken: many times what a snapshot needs.
const ANSWER_LEN_MAX: u64 = 8 << 20;

/// Why there is no control socket, or no answer from it.
#[derive(Debug, Error)]
pub enum ControlError {
    /// The folder cannot be made, or the socket not in it.
    #[error("no control socket at {}: {error}", path.display())]
    Listen {
        /// Where.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Nobody answers there (any more).
    #[error("no answer from {}: {error}", path.display())]
    NoAnswer {
        /// Where.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// What answers is no process of this version.
    #[error("{} does not speak this version's language: {reason}", path.display())]
    Foreign {
        /// Where.
        path: PathBuf,
        /// What is wrong with the answer.
        reason: String,
    },
}

/// A socket's file; it goes with this.
#[derive(Debug)]
pub struct ControlFile(PathBuf);

impl Drop for ControlFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Opens this process's socket in `folder`, which is made if need be.
///
/// # Errors
/// [`ControlError::Listen`].
pub fn listen(folder: &Path, role: &str) -> Result<(UnixListener, ControlFile), ControlError> {
    let path = folder.join(format!("{role}-{}.sock", std::process::id()));
    let failed = |error| ControlError::Listen {
        path: path.clone(),
        error,
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(failed)?;
    // A process of this number that was killed may have left one.
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path).map_err(failed)?;
    let file = ControlFile(path.clone());
    fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(failed)?;
    let owner = fs::symlink_metadata(&path).map_err(failed)?.uid();
    check_folder(folder, owner).map_err(failed)?;
    Ok((listener, file))
}

/// Where others may write, they could put a socket of theirs in place of ours.
fn check_folder(folder: &Path, owner: u32) -> io::Result<()> {
    let metadata = fs::symlink_metadata(folder)?;
    if metadata.is_dir() && metadata.uid() == owner && metadata.mode() & 0o022 == 0 {
        return Ok(());
    }
    Err(io::Error::other(
        "the folder is another user's, or others may write into it",
    ))
}

/// The sockets in `folder`, by name. A folder that is not there has none.
pub fn sockets(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut sockets: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|end| end == "sock"))
        .collect();
    sockets.sort();
    sockets
}

/// Asks the process behind a socket for a snapshot.
///
/// # Errors
/// [`ControlError`]: nobody answers, or nobody of this version.
pub async fn ask(path: &Path) -> Result<Snapshot, ControlError> {
    let no_answer = |error| ControlError::NoAnswer {
        path: path.to_owned(),
        error,
    };
    let foreign = |reason: &str| ControlError::Foreign {
        path: path.to_owned(),
        reason: reason.to_owned(),
    };
    let asking = async {
        let mut stream = UnixStream::connect(path).await?;
        // HTTP/1.0: the answer comes in one piece and ends with the connection.
        stream
            .write_all(b"GET /api/status HTTP/1.0\r\n\r\n")
            .await?;
        let mut answer = Vec::new();
        stream.take(ANSWER_LEN_MAX).read_to_end(&mut answer).await?;
        io::Result::Ok(answer)
    };
    let answer = match timeout(PATIENCE, asking).await {
        Ok(answer) => answer.map_err(no_answer)?,
        Err(_) => return Err(no_answer(io::ErrorKind::TimedOut.into())),
    };
    let text = String::from_utf8(answer).map_err(|_| foreign("it is no text"))?;
    match text.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.0 200") => {
            serde_json::from_str(body).map_err(|error| foreign(&error.to_string()))
        }
        _ => Err(foreign("it refuses")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_is_the_owners_alone_and_goes_with_its_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().join("run");
        assert_eq!(sockets(&folder), Vec::<PathBuf>::new());
        let (_listener, file) = listen(&folder, "client").expect("a socket");
        let [path] = sockets(&folder).try_into().expect("one");
        let mode = |path: &Path| fs::metadata(path).expect("there").mode() & 0o777;
        assert_eq!((mode(&folder), mode(&path)), (0o700, 0o600));
        drop(file);
        assert!(sockets(&folder).is_empty());
    }

    #[tokio::test]
    async fn a_folder_that_others_write_into_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("ours");
        let refused = listen(folder.path(), "server").expect_err("open to all");
        assert!(matches!(refused, ControlError::Listen { .. }));
        assert!(sockets(folder.path()).is_empty(), "nothing is left there");
    }

    #[tokio::test]
    async fn a_socket_of_the_dead_gives_no_answer() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("client-1.sock");
        drop(UnixListener::bind(&path).expect("a socket"));
        let error = ask(&path).await.expect_err("nobody there");
        assert!(matches!(error, ControlError::NoAnswer { .. }), "{error}");
    }
}
