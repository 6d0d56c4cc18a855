//! The interface between a path and its congestion control.

use core::fmt::Debug;

use ctcp_units::Duration;

use crate::event::{
    AckEvent, CouplingEvent, EcnEvent, LossEvent, PartnerLossEvent, PathChangeEvent, SentEvent,
    SilenceEvent, SpuriousLossEvent,
};
use crate::pacing::window_pacing_rate;
use crate::params::Remembered;

/// Decides how many packets one path may have in flight, and how fast they
/// leave.
///
/// A packet may be sent if `in_flight + 1 ≤ ⌊tokens()⌋`. Events come in the
/// order of time; see [`event`](crate::event) for the order within one
/// datagram. No method allocates, except those a controller documents.
pub trait Controller: Send + Debug {
    /// A packet was sent.
    fn on_sent(&mut self, _event: &SentEvent) {}

    /// Packets were acknowledged.
    fn on_ack(&mut self, event: &AckEvent);

    /// Packets were declared lost.
    fn on_loss(&mut self, event: &LossEvent);

    /// Congestion marks were reported.
    fn on_ecn(&mut self, event: &EcnEvent);

    /// Nothing has come back for several probe timeouts.
    fn on_silence(&mut self, event: &SilenceEvent);

    /// A packet declared lost has arrived after all. To ignore it is safe.
    fn on_spurious_loss(&mut self, _event: &SpuriousLossEvent) {}

    /// Other paths of the connection share this one's bottleneck, or no longer do.
    /// To ignore it is to take a flow's share for each path, as [MP12] does.
    fn on_coupling(&mut self, _event: &CouplingEvent) {}

    /// Another path behind the same bottleneck lost packets; only after
    /// [`Controller::on_coupling`] with a share below 1.
    fn on_partner_loss(&mut self, _event: &PartnerLossEvent) {}

    /// The path now leads over a new, validated address: everything learnt is
    /// void, what [`Controller::on_coupling`] said included.
    fn on_path_change(&mut self, event: &PathChangeEvent);

    /// Packets the path may have in flight; finite, at least 1.
    fn tokens(&self) -> f64;

    /// Packets per second to spread the tokens over; `None`: send at once.
    ///
    /// `srtt` is the path's smoothed round-trip time, `None` before the first
    /// sample. The default suits controllers that are windows; one that models
    /// the path answers with its own rate.
    fn pacing_rate(&self, srtt: Option<Duration>) -> Option<f64> {
        window_pacing_rate(self.tokens(), self.in_slow_start(), srtt)
    }

    /// Whether the window still grows by a packet an acknowledged packet.
    fn in_slow_start(&self) -> bool;

    /// What a later connection over the same path may be told of it, in
    /// [`Params::resume`](crate::Params::resume); `None`: nothing yet, or it does not
    /// model the path.
    fn learnt(&self) -> Option<Remembered> {
        None
    }

    /// The name under which the registry knows it.
    fn name(&self) -> &'static str;

    /// Its state, for traces and tables.
    fn state(&self) -> ControllerState;
}

/// A controller's state for traces; field names are trace fields.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ControllerState {
    /// Tokens, in packets.
    pub tokens: f64,
    /// Slow start ends above this many tokens; `None`: nothing limits it yet.
    pub ss_threshold: Option<f64>,
    /// What it is doing: `slow_start`, `avoidance`, or a phase of its own.
    pub phase: &'static str,
    /// The factor of the last backoff, in `(0, 1]`, if there was one.
    pub last_backoff: Option<f64>,
    /// Backoffs so far, those by a factor of 1 included.
    pub backoff_count: u64,
}
