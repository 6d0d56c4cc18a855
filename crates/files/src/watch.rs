//! Who looks on while files move.

use crate::name::Shown;

/// Why something was not sent, or did not arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOut {
    /// A device, a socket, a named pipe.
    Special,
    /// A symbolic link that leads out of what is sent.
    LinkOutside,
    /// Deeper than [`crate::DEPTH_MAX`] folders.
    TooDeep,
    /// It could not be read.
    Unreadable,
    /// It changed while it was sent.
    Changed,
    /// Its hash was wrong on arrival.
    Damaged,
    /// Another file of this name is there, and is to stay.
    Kept,
}

impl LeftOut {
    /// Whether the transfer cannot be called complete without it.
    pub const fn is_failure(self) -> bool {
        match self {
            Self::Special | Self::LinkOutside | Self::Kept => false,
            Self::TooDeep | Self::Unreadable | Self::Changed | Self::Damaged => true,
        }
    }

    /// The reason in words, with a remedy where there is one.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Special => "left out: neither a file nor a folder nor a link",
            Self::LinkOutside => "left out: a link that leads out of the folder",
            Self::TooDeep => "left out: too many folders deep",
            Self::Unreadable => "left out: it cannot be read",
            Self::Changed => "changed while it was sent: run it again to send it",
            Self::Damaged => "arrived damaged and was thrown away: run it again to send it",
            Self::Kept => "left as it is: another file of this name was here",
        }
    }
}

/// Told by [`crate::send`] and [`crate::receive`] how far they are. Calls come
/// from the thread of the transfer and should be quick.
pub trait Watch: Send + Sync {
    /// What there is to move, as far as the sender could count it.
    fn totals(&self, _files: u64, _bytes: u64) {}
    /// Contents of this file follow.
    fn file(&self, _path: Shown<'_>) {}
    /// So many bytes of contents more were written to, or read from, the stream.
    fn moved(&self, _bytes: u64) {}
    /// So many bytes need not move: they are there already.
    fn present(&self, _bytes: u64) {}
    /// This will not be there, or not be new.
    fn left_out(&self, _path: Shown<'_>, _why: LeftOut) {}
}

/// Looks away.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quiet;

impl Watch for Quiet {}

/// What a transfer did, the same on both sides but for what only one can know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Files whose contents moved and arrived whole.
    pub files: u64,
    /// Bytes of contents that moved.
    pub bytes: u64,
    /// Files that were there already.
    pub present_files: u64,
    /// Bytes that need not move: of those files, and of beginnings taken up.
    pub present_bytes: u64,
    /// Files that should be there and are not: see [`LeftOut::is_failure`].
    pub failed: u64,
}
