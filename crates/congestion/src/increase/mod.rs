//! How a window grows.

mod linear;

pub use linear::Linear;

use core::fmt::Debug;

use ctcp_units::Instant;

use crate::event::AckEvent;

/// A window was multiplied by a factor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BackoffEvent {
    /// When.
    pub now: Instant,
    /// The factor, in `(0, 1]`. A factor of 1 is a loss event that left the
    /// window alone; H-TCP's clock must not restart at one (E-SAT-02).
    pub factor: f64,
    /// Tokens before, in packets.
    pub tokens_before: f64,
    /// Tokens after, in packets.
    pub tokens_after: f64,
}

/// The increase half of [`Aimd`](crate::Aimd).
pub trait Increase: Send + Debug {
    /// Tokens that `packets` acknowledged packets add in congestion avoidance
    /// to a window of `tokens`; finite, not negative.
    ///
    /// `packets` may be smaller than `ack.acked_packets`: the first of them may
    /// have been spent on the end of slow start.
    fn avoidance(&mut self, tokens: f64, packets: u64, ack: &AckEvent) -> f64;

    /// Tokens that one acknowledged packet adds in slow start; above 0.
    fn slow_start(&self, _ack: &AckEvent) -> f64 {
        1.0
    }

    /// The window was multiplied by a factor.
    fn on_backoff(&mut self, _event: &BackoffEvent) {}

    /// The window starts again from its initial value at `now`, after silence
    /// or on a new path.
    fn on_restart(&mut self, _now: Instant) {}
}
