//! Blocks: source symbols coded together, at the sender and at the receiver.
//!
//! Code and blocks know nothing of paths (architecture 8) but for one thing: the
//! sender counts, per path slot, the packets that are still expected to arrive.

mod chance;
mod receive;
mod redundancy;
mod send;
#[cfg(test)]
mod tests;
mod waits;

pub use receive::BlockViolation;
pub(crate) use receive::{BlockReceiver, Insertion};
pub use redundancy::Redundancy;
pub(crate) use send::{BlockSender, SendConfig, SymbolSource};

/// Paths that a connection may have at the same time.
pub const PATHS_MAX: usize = 8;
