//! What the rest of CTCP shares: time, rates, shares of loss, identifiers and
//! the seeded generator.
//!
//! Nothing here reads a clock or the system's randomness. An [`Instant`] counts
//! nanoseconds from an epoch that the caller picks, so that a simulator, a test
//! and a UDP driver can run the same code.

mod id;
mod instant;
mod loss_rate;
mod random;
mod rate;

pub use id::{PacketNumber, PathId, StreamId, SymbolId};
pub use instant::{Instant, micros, millis, seconds};
pub use loss_rate::LossRate;
pub use random::Random;
pub use rate::{ParseRateError, Rate};

pub use core::time::Duration;
