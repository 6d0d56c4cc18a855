//! Why a transfer, or its start, fails.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::manifest::ManifestError;
use crate::wire::Malformed;

/// Why something cannot be sent at all.
#[derive(Debug, Error)]
pub enum SourceError {
    /// There is nothing at this path, or it cannot be looked at.
    #[error("cannot send {}: {error}", path.display())]
    Unreadable {
        /// As it was given.
        path: PathBuf,
        /// What the system says.
        #[source]
        error: io::Error,
    },
    /// Neither a file nor a folder.
    #[error("cannot send {}: it is neither a file nor a folder; a stream can be sent as `-`", path.display())]
    Special {
        /// As it was given.
        path: PathBuf,
    },
    /// The path has no last component, such as `/` or `..`.
    #[error("cannot tell a name for {}: end it with `/` to send what is in it", path.display())]
    Nameless {
        /// As it was given.
        path: PathBuf,
    },
    /// Two of the paths would have the same name at the receiver.
    #[error(
        "two of the things to send are called {name}: send them one after the other, into different folders"
    )]
    Twice {
        /// The name, ready to print.
        name: String,
    },
}

/// Why a folder cannot be received into.
#[derive(Debug, Error)]
#[error("cannot receive into {}: {error}; name a folder that can be written", path.display())]
pub struct StoreError {
    /// As it was given.
    pub path: PathBuf,
    /// What the system says.
    #[source]
    pub error: io::Error,
}

/// Why a transfer ended before it was through.
#[derive(Debug, Error)]
pub enum TransferError {
    /// The stream broke. Nothing is wrong with the files: over another stream
    /// the transfer goes on where it was.
    #[error("the connection was lost: {0}")]
    Lost(#[source] io::Error),
    /// The other side gave up, and says why.
    #[error("the other side gave up: {0}")]
    Peer(String),
    /// The other side says what makes no sense.
    #[error("the other side breaks the protocol: {0}")]
    Malformed(#[from] Malformed),
    /// The other side lists files that cannot be.
    #[error("the other side sends an impossible list: {0}")]
    Manifest(#[from] ManifestError),
    /// It answers or sends what was not its turn.
    #[error("the other side breaks the protocol: {0}")]
    OutOfTurn(&'static str),
    /// Both sides send, or both receive.
    #[error(
        "the other side {0}, too: run `ctcp send` here and `ctcp receive` there, or the reverse"
    )]
    SameRole(&'static str),
    /// The other side is newer or older.
    #[error(
        "the other side speaks version {0} of the file protocol, this one 1: use the same ctcp on both"
    )]
    Version(u8),
    /// Something at this path cannot be written or read here.
    #[error("{path}: {error}{remedy}")]
    Local {
        /// Where, relative to the folder, ready to print.
        path: String,
        /// What the system says.
        #[source]
        error: io::Error,
        /// What to do, as the end of the sentence; may be empty.
        remedy: &'static str,
    },
    /// What is already here is in the way.
    #[error("{path} {what}")]
    InTheWay {
        /// Where, ready to print.
        path: String,
        /// What it is, and what to do.
        what: &'static str,
    },
    /// The disk has no room for the next file.
    #[error(
        "{path} needs {needed} bytes more and the disk has {free}: make room and run it again, it goes on where it was"
    )]
    Full {
        /// The file, ready to print.
        path: String,
        /// Bytes that are missing of it.
        needed: u64,
        /// Bytes that the file system has.
        free: u64,
    },
    /// Several files come, and standard output takes one.
    #[error(
        "standard output takes one file, and a folder or several files come: receive into a folder"
    )]
    NotOneFile,
    /// A stream of bytes did not arrive as it was sent.
    #[error("what arrived is not what was sent: throw it away and send it again")]
    Damaged,
}

impl TransferError {
    /// Whether another stream may carry the rest.
    pub const fn is_lost(&self) -> bool {
        matches!(self, Self::Lost(_))
    }

    /// An error of the system at `path`, with a remedy where there is one.
    pub(crate) fn local(path: impl ToString, error: io::Error) -> Self {
        let remedy = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "; make room and run it again, it goes on where it was"
            }
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                "; choose a folder that can be written"
            }
            _ => "",
        };
        Self::Local {
            path: path.to_string(),
            error,
            remedy,
        }
    }
}
