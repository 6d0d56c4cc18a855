//! What the sender says.

use std::io::Read;

use super::{CHUNK_LEN_MAX, Entry, Hash, Malformed, ReadError, entry, read};

/// Why contents do not come, or not to their end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GiveUp {
    /// The file changed while it was sent.
    Changed,
    /// The file cannot be read any more.
    Unreadable,
}

/// A frame of the sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// An entry of the list.
    Entry(Entry),
    /// Contents of the next file that was wanted follow, from `offset` on.
    Content {
        /// What was asked for, or 0.
        offset: u64,
    },
    /// So many bytes of contents follow this frame.
    Chunk {
        /// 1 to [`CHUNK_LEN_MAX`].
        len: u32,
    },
    /// The contents are through.
    End {
        /// Of the whole file.
        hash: Hash,
    },
    /// The next file that was wanted, or the rest of it, does not come.
    GiveUp(GiveUp),
    /// Nothing follows.
    Done,
    /// The sender gives up altogether.
    Failed(String),
}

const CONTENT: u8 = 5;
const CHUNK: u8 = 6;
const END: u8 = 7;
const GIVE_UP: u8 = 8;
const DONE: u8 = 9;
const FAILED: u8 = 10;

impl Frame {
    /// Reads the next frame; of a chunk only its head.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read(from: &mut impl Read) -> Result<Self, ReadError> {
        match read::byte(from)? {
            kind @ (entry::FOLDER | entry::FILE | entry::LINK | entry::LEAVE) => {
                Ok(Self::Entry(Entry::read(kind, from)?))
            }
            CONTENT => Ok(Self::Content {
                offset: read::u64(from)?,
            }),
            CHUNK => {
                let len = read::u32(from)?;
                if len == 0 || len > CHUNK_LEN_MAX as u32 {
                    return Err(Malformed::Chunk(len).into());
                }
                Ok(Self::Chunk { len })
            }
            END => Ok(Self::End {
                hash: read::hash(from)?,
            }),
            GIVE_UP => match read::byte(from)? {
                1 => Ok(Self::GiveUp(GiveUp::Changed)),
                2 => Ok(Self::GiveUp(GiveUp::Unreadable)),
                other => Err(Malformed::Reason(other).into()),
            },
            DONE => Ok(Self::Done),
            FAILED => Ok(Self::Failed(read::text(from)?)),
            kind => Err(Malformed::Kind(kind).into()),
        }
    }

    /// Appends the frame; of a chunk only its head.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Entry(entry) => entry.write(out),
            Self::Content { offset } => {
                out.push(CONTENT);
                out.extend(offset.to_be_bytes());
            }
            Self::Chunk { len } => {
                out.push(CHUNK);
                out.extend(len.to_be_bytes());
            }
            Self::End { hash } => {
                out.push(END);
                out.extend(hash);
            }
            Self::GiveUp(reason) => out.extend([
                GIVE_UP,
                match reason {
                    GiveUp::Changed => 1,
                    GiveUp::Unreadable => 2,
                },
            ]),
            Self::Done => out.push(DONE),
            Self::Failed(text) => {
                out.push(FAILED);
                read::put_text(out, text);
            }
        }
    }
}

/// Room in front of a chunk's bytes for its head.
const CHUNK_HEAD_LEN: usize = 5;

/// Makes a chunk of the `len` bytes that `fill` puts into a buffer, so that head
/// and bytes are one piece of memory. `fill` gets [`CHUNK_LEN_MAX`] bytes of room,
/// or `most` if that is less; nothing is appended if it puts none.
///
/// # Errors
/// What `fill` says.
pub fn write_chunk<E>(
    out: &mut Vec<u8>,
    most: u64,
    fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
) -> Result<usize, E> {
    let start = out.len();
    let room = usize::try_from(most).map_or(CHUNK_LEN_MAX, |most| most.min(CHUNK_LEN_MAX));
    out.resize(start + CHUNK_HEAD_LEN + room, 0);
    let result = fill(&mut out[start + CHUNK_HEAD_LEN..]);
    match result {
        Ok(len) if len > 0 => {
            out[start] = CHUNK;
            out[start + 1..start + CHUNK_HEAD_LEN].copy_from_slice(&(len as u32).to_be_bytes());
            out.truncate(start + CHUNK_HEAD_LEN + len);
        }
        _ => out.truncate(start),
    }
    result
}
