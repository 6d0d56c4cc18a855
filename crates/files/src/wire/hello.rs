//! How each side begins.

use std::io::Read;

use super::{Malformed, ReadError, VERSION, read};

const MAGIC: &[u8; 8] = b"CTCPfile";

/// Longest hello, bytes.
pub const HELLO_LEN_MAX: usize = 8 + 3 + 16;

const COMPARE: u8 = 1;
const PIPE: u8 = 2;

/// A sender's announcement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Greeting {
    /// Contents are to be compared even of files whose size and time agree.
    pub is_compare: bool,
    /// One file comes, whose length is not known before its end.
    pub is_pipe: bool,
    /// Files that will be listed, as far as known. Only for display.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The first words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hello {
    /// Of a sender.
    Sender(Greeting),
    /// Of a receiver.
    Receiver,
}

impl Hello {
    /// Reads a hello.
    ///
    /// # Errors
    /// [`ReadError`]; after [`ReadError::Version`] nothing is understood.
    pub fn read(from: &mut impl Read) -> Result<Self, ReadError> {
        if read::array(from)? != *MAGIC {
            return Err(Malformed::Magic.into());
        }
        let version = read::byte(from)?;
        if version != VERSION {
            return Err(ReadError::Version(version));
        }
        let role = read::byte(from)?;
        // Flags not known here are for those who know them.
        let flags = read::byte(from)?;
        match role {
            b'S' => Ok(Self::Sender(Greeting {
                is_compare: flags & COMPARE != 0,
                is_pipe: flags & PIPE != 0,
                files: read::u64(from)?,
                bytes: read::u64(from)?,
            })),
            b'R' => Ok(Self::Receiver),
            role => Err(Malformed::Role(role).into()),
        }
    }

    /// Appends the hello.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend(MAGIC);
        out.push(VERSION);
        match self {
            Self::Sender(greeting) => {
                let flags =
                    (u8::from(greeting.is_compare) * COMPARE) | (u8::from(greeting.is_pipe) * PIPE);
                out.extend([b'S', flags]);
                out.extend(greeting.files.to_be_bytes());
                out.extend(greeting.bytes.to_be_bytes());
            }
            Self::Receiver => out.extend([b'R', 0]),
        }
    }
}
