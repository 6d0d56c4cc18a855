//! What the receiver says.

use std::io::Read;

use super::{Hash, Malformed, ReadError, read};

/// An answer of the receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The file is there.
    Skip,
    /// The file is wanted.
    Want {
        /// Bytes that are there of it.
        offset: u64,
        /// Their hash.
        hash: Hash,
    },
    /// All is there and on the disk.
    Complete {
        /// Files whose contents came and are whole.
        files: u64,
        /// Bytes that came.
        bytes: u64,
        /// Files that should be there and are not.
        failed: u64,
    },
    /// The receiver gives up.
    Failed(String),
}

const SKIP: u8 = 1;
const WANT: u8 = 2;
const COMPLETE: u8 = 3;
const FAILED: u8 = 4;

impl Answer {
    /// Reads the next answer.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read(from: &mut impl Read) -> Result<Self, ReadError> {
        match read::byte(from)? {
            SKIP => Ok(Self::Skip),
            WANT => Ok(Self::Want {
                offset: read::u64(from)?,
                hash: read::hash(from)?,
            }),
            COMPLETE => Ok(Self::Complete {
                files: read::u64(from)?,
                bytes: read::u64(from)?,
                failed: read::u64(from)?,
            }),
            FAILED => Ok(Self::Failed(read::text(from)?)),
            kind => Err(Malformed::Kind(kind).into()),
        }
    }

    /// Appends the answer.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Skip => out.push(SKIP),
            Self::Want { offset, hash } => {
                out.push(WANT);
                out.extend(offset.to_be_bytes());
                out.extend(hash);
            }
            Self::Complete {
                files,
                bytes,
                failed,
            } => {
                out.push(COMPLETE);
                for count in [files, bytes, failed] {
                    out.extend(count.to_be_bytes());
                }
            }
            Self::Failed(text) => {
                out.push(FAILED);
                read::put_text(out, text);
            }
        }
    }
}
