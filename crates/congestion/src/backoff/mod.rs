//! How a window shrinks.

mod bandwidth;
mod fixed;
mod htcp;
mod rtt_ratio;
mod veno;

pub use bandwidth::Bandwidth;
pub use fixed::Fixed;
pub use htcp::HTcpBackoff;
pub use rtt_ratio::RttRatio;
pub use veno::VenoBackoff;

use core::fmt::Debug;

use crate::event::{AckEvent, EcnEvent, LossEvent, SilenceEvent};

/// The decrease half of [`Aimd`](crate::Aimd).
///
/// Asked at most once a round trip. A rule that aims at a window (Westwood)
/// answers with that window divided by `tokens`.
pub trait Backoff: Send + Debug {
    /// Packets were acknowledged: rules that measure do it here.
    fn on_ack(&mut self, _event: &AckEvent) {}

    /// β: the factor by which a loss event multiplies a window of `tokens`, in
    /// `(0, 1]`.
    fn on_loss(&mut self, tokens: f64, event: &LossEvent) -> f64;

    /// The factor for congestion marks, in `(0, 1]`.
    fn on_ecn(&mut self, tokens: f64, event: &EcnEvent) -> f64;

    /// Slow start after silence ends at this window; half of `tokens` unless
    /// the rule knows better.
    fn silence_threshold(&mut self, tokens: f64, _event: &SilenceEvent) -> f64 {
        tokens / 2.0
    }

    /// The path now leads over a new address.
    fn on_path_change(&mut self) {}
}
