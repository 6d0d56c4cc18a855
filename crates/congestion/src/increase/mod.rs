//! How a window grows.

mod clock;
mod compound;
mod cubic;
mod htcp;
mod hybla;
mod linear;
mod vegas;
mod veno;

pub use compound::CompoundIncrease;
pub use cubic::{CubicIncrease, CubicRules};
pub use htcp::{HTcpIncrease, HTcpRules};
pub use hybla::HyblaIncrease;
pub use linear::Linear;
pub use vegas::VegasIncrease;
pub use veno::VenoIncrease;

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
///
/// Only packets that may earn growth are shown to [`slow_start`] and
/// [`avoidance`]; ACKs that may not come as [`on_pause`], so that a rule that
/// depends on time can stop its clock.
///
/// [`slow_start`]: Increase::slow_start
/// [`avoidance`]: Increase::avoidance
/// [`on_pause`]: Increase::on_pause
pub trait Increase: Send + Debug {
    /// Tokens that `packets` acknowledged packets add in congestion avoidance
    /// to a window of `tokens`; finite. Negative where a rule watches the delay
    /// (Vegas, Compound): the window keeps to its bounds all the same.
    ///
    /// `packets` may be smaller than `ack.acked_packets`: the first of them may
    /// have been spent on the end of slow start.
    fn avoidance(&mut self, tokens: f64, packets: u64, ack: &AckEvent) -> f64;

    /// Tokens that one acknowledged packet adds in slow start; finite, at
    /// least 0.
    fn slow_start(&mut self, _tokens: f64, _ack: &AckEvent) -> f64 {
        1.0
    }

    /// Whether slow start is over for a reason of the rule's own, and at which
    /// window; asked after each growth in slow start.
    fn slow_start_exit(&mut self, _tokens: f64, _ack: &AckEvent) -> Option<f64> {
        None
    }

    /// The factor for the initial window, asked once, when the path's first
    /// round-trip time is known; finite, at least 1.
    fn initial_factor(&mut self, _ack: &AckEvent) -> f64 {
        1.0
    }

    /// Packets were acknowledged that earn no growth: the application was the
    /// limit, or losses are being repaired.
    fn on_pause(&mut self, _ack: &AckEvent) {}

    /// The window was multiplied by a factor.
    fn on_backoff(&mut self, _event: &BackoffEvent) {}

    /// The last backoff was for losses that were none, and is undone.
    fn on_undo(&mut self) {}

    /// The window starts again from its initial value at `now`, after silence
    /// or on a new path.
    fn on_restart(&mut self, _now: Instant) {}
}
