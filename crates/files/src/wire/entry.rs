//! Entries of the list.

use std::io::Read;

use super::{Malformed, ReadError, TARGET_LEN_MAX, read};
use crate::name::Name;

/// A moment of a file: since 1970, negative before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Time {
    /// Whole seconds.
    pub seconds: i64,
    /// Nanoseconds after that, below 10⁹.
    pub nanos: u32,
}

/// What a file has beside its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Meta {
    /// Permissions, `rwxrwxrwx`; what goes beyond is not sent.
    pub mode: u16,
    /// When it was changed last.
    pub mtime: Time,
}

/// One entry. See [`crate::Manifest`] for their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A folder; what is in it follows.
    Folder {
        /// Its name.
        name: Name,
        /// For when all is in it.
        meta: Meta,
    },
    /// A file.
    File {
        /// Its name.
        name: Name,
        /// How it shall look.
        meta: Meta,
        /// Bytes; `None` if it ends when it ends.
        size: Option<u64>,
    },
    /// A symbolic link.
    Link {
        /// Its name.
        name: Name,
        /// Its time.
        mtime: Time,
        /// Where it leads, 1 to [`TARGET_LEN_MAX`] bytes.
        target: Box<[u8]>,
    },
    /// The end of the folder that was entered last.
    Leave,
}

pub(super) const FOLDER: u8 = 1;
pub(super) const FILE: u8 = 2;
pub(super) const LINK: u8 = 3;
pub(super) const LEAVE: u8 = 4;

/// The size of a stream.
const UNKNOWN: u64 = u64::MAX;

impl Entry {
    /// Reads what follows `kind`, which is one of an entry.
    pub(super) fn read(kind: u8, from: &mut impl Read) -> Result<Self, ReadError> {
        match kind {
            FOLDER => Ok(Self::Folder {
                meta: meta(from)?,
                name: read::name(from)?,
            }),
            FILE => {
                let meta = meta(from)?;
                let size = read::u64(from)?;
                Ok(Self::File {
                    name: read::name(from)?,
                    meta,
                    size: (size != UNKNOWN).then_some(size),
                })
            }
            LINK => {
                let mtime = time(from)?;
                let name = read::name(from)?;
                let len = usize::from(read::u16(from)?);
                if len == 0 || len > TARGET_LEN_MAX {
                    return Err(Malformed::Target.into());
                }
                let mut target = vec![0; len];
                from.read_exact(&mut target)?;
                if target.contains(&0) {
                    return Err(Malformed::Target.into());
                }
                Ok(Self::Link {
                    name,
                    mtime,
                    target: target.into(),
                })
            }
            LEAVE => Ok(Self::Leave),
            kind => Err(Malformed::Kind(kind).into()),
        }
    }

    /// Appends the entry.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Folder { name, meta } => {
                out.push(FOLDER);
                put_meta(out, meta);
                put_name(out, name);
            }
            Self::File { name, meta, size } => {
                out.push(FILE);
                put_meta(out, meta);
                out.extend(size.unwrap_or(UNKNOWN).to_be_bytes());
                put_name(out, name);
            }
            Self::Link {
                name,
                mtime,
                target,
            } => {
                out.push(LINK);
                put_time(out, mtime);
                put_name(out, name);
                out.extend((target.len() as u16).to_be_bytes());
                out.extend(&target[..]);
            }
            Self::Leave => out.push(LEAVE),
        }
    }
}

fn meta(from: &mut impl Read) -> Result<Meta, ReadError> {
    let mode = read::u16(from)?;
    if mode > 0o777 {
        return Err(Malformed::Mode(mode).into());
    }
    Ok(Meta {
        mode,
        mtime: time(from)?,
    })
}

fn time(from: &mut impl Read) -> Result<Time, ReadError> {
    let seconds = i64::from_be_bytes(read::array(from)?);
    let nanos = read::u32(from)?;
    if nanos >= 1_000_000_000 {
        return Err(Malformed::Nanos(nanos).into());
    }
    Ok(Time { seconds, nanos })
}

fn put_meta(out: &mut Vec<u8>, meta: &Meta) {
    out.extend(meta.mode.to_be_bytes());
    put_time(out, &meta.mtime);
}

fn put_time(out: &mut Vec<u8>, time: &Time) {
    out.extend(time.seconds.to_be_bytes());
    out.extend(time.nanos.to_be_bytes());
}

fn put_name(out: &mut Vec<u8>, name: &Name) {
    out.push(name.as_bytes().len() as u8);
    out.extend(name.as_bytes());
}
