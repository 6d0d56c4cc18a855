//! What the two ends say: layouts, reading, writing. Nothing here has a state.
//!
//! ```text
//! hello     "CTCPfile" | version:u8 = 1 | role:u8 = 'S' | flags:u8 | files:u64 | bytes:u64
//!           "CTCPfile" | version:u8 = 1 | role:u8 = 'R' | flags:u8 = 0
//!
//! sender    1 folder   mode:u16 | time | name
//!           2 file     mode:u16 | time | size:u64 | name      size 2⁶⁴−1: not known
//!           3 link     time | name | len:u16 | target
//!           4 leave                                           the folder entered last
//!           5 content  offset:u64                             of the next file wanted
//!           6 chunk    len:u32 | bytes                        1 to CHUNK_LEN_MAX bytes
//!           7 end      hash:32                                BLAKE3 of the whole file
//!           8 give up  reason:u8                              instead of content, chunk or end
//!           9 done                                            nothing follows
//!          10 failed   len:u16 | text
//!
//! receiver  1 skip                                            one of these two for each
//!           2 want     offset:u64 | hash:32                   file, in order
//!           3 complete files:u64 | bytes:u64 | failed:u64
//!           4 failed   len:u16 | text
//!
//! time      seconds:i64 | nanoseconds:u32                     since 1970
//! name      len:u8 | bytes
//! ```
//!
//! Numbers are big-endian. Flags: 1 = compare contents of files that seem to be
//! there, 2 = the one file is a pipe. A `want` tells how many bytes the receiver
//! has of the file, and their BLAKE3 hash; `content` begins there, or at 0 if the
//! sender's file begins otherwise.

mod answer;
mod entry;
mod frame;
mod hello;
mod read;

use std::io;

use thiserror::Error;

pub use answer::Answer;
pub use entry::{Entry, Meta, Time};
pub use frame::{Frame, GiveUp, write_chunk};
pub use hello::{Greeting, HELLO_LEN_MAX, Hello};

use crate::name::NameError;

/// The version that this code writes and reads.
pub const VERSION: u8 = 1;

/// Most bytes of contents in one frame.
pub const CHUNK_LEN_MAX: usize = 128 << 10;

/// Longest message to the other side, bytes.
pub const TEXT_LEN_MAX: usize = 1024;

/// Longest target of a symbolic link, bytes: the system's limit.
pub const TARGET_LEN_MAX: usize = 4095;

/// A BLAKE3 hash.
pub type Hash = [u8; 32];

/// What makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Malformed {
    /// The other side does not speak this protocol.
    #[error("it does not speak the file protocol: is `ctcp send` or `ctcp receive` running there?")]
    Magic,
    /// A role that is none.
    #[error("role {0}")]
    Role(u8),
    /// A frame or an answer that is none.
    #[error("unknown kind {0}")]
    Kind(u8),
    /// A name that is none.
    #[error("{0}")]
    Name(#[from] NameError),
    /// Permissions beyond `rwxrwxrwx`.
    #[error("permissions {0:o}")]
    Mode(u16),
    /// A second has more.
    #[error("{0} nanoseconds in a second")]
    Nanos(u32),
    /// A link's target that is empty, too long or holds a zero byte.
    #[error("a link whose target is empty, too long or holds a zero byte")]
    Target,
    /// An empty chunk, or one longer than [`CHUNK_LEN_MAX`].
    #[error("a piece of {0} bytes, 1 to {CHUNK_LEN_MAX} are allowed")]
    Chunk(u32),
    /// A text longer than [`TEXT_LEN_MAX`].
    #[error("a message of {0} bytes, {TEXT_LEN_MAX} are allowed")]
    Text(usize),
    /// A reason that is none.
    #[error("unknown reason {0}")]
    Reason(u8),
}

/// Why nothing could be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The stream failed, or ended inside.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// What came makes no sense.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// A version other than [`VERSION`].
    #[error("version {0}")]
    Version(u8),
}
