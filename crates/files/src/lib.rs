//! Files and folders over one stream: what is there, what is missing, what
//! arrived whole.
//!
//! [`send`] and [`receive`] each hold one end of a stream of bytes, given as
//! [`std::io::Read`] and [`std::io::Write`]; they know nothing of what carries
//! it. They block, so they want a thread of their own.
//!
//! The sender announces files and folders in the order of a walk, up to
//! [`WINDOW`] ahead of their contents; the receiver answers each file with what
//! it has of it; the contents follow one another without a pause. Many small
//! files thus cost what one large file costs, and memory does not grow with
//! their number.
//!
//! - A file that is there with the same size and time is not sent again.
//! - Contents are written beside their place, under a name of our own, and come
//!   to their final name by a rename once their BLAKE3 hash is right. What an
//!   interruption left there is taken up again: its hash says whether it is the
//!   beginning of what the sender has.
//! - Whatever the sender says, nothing is written outside the receiving folder:
//!   names are single components, and no symbolic link is followed.
//!
//! The layout of what is said is drawn in [`wire`].

mod error;
mod manifest;
mod name;
mod receive;
mod send;
mod store;
mod walk;
mod watch;
pub mod wire;

pub use error::{SourceError, StoreError, TransferError};
pub use manifest::{DEPTH_MAX, FilePlace, Folder, Manifest, ManifestError, Step};
pub use name::{NAME_LEN_MAX, Name, NameError, Shown};
pub use receive::{ReceiveOptions, WINDOW, receive, receive_pipe};
pub use send::{SendOptions, send, send_pipe};
pub use store::Store;
pub use walk::Source;
pub use watch::{LeftOut, Quiet, Summary, Watch};
