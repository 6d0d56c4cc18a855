//! `tcp-cd`: the control of [FEC]'s coded TCP, deaf to loss, obedient to marks.
//!
//! `tcp-flavours.md` §13. Inside is Reno's window W, halved by a congestion mark
//! and not by a loss; outside it is scaled so that W packets arrive:
//!
//! ```text
//! tokens = W/(1 − μ)
//! once a round trip, x the share of its packets lost:
//!   σ² ← ¾σ² + ¼(x − μ)²        μ ← ⅞μ + ⅛x
//! block of a window:  n = ⌊W/(1 − μ)⌋ packets, any k = max(1, ⌊(1 − μ − σ)n⌋) of which suffice
//! ```
//!
//! The gains are a choice, as [FEC] prints none. Helps on lossy paths whose
//! bottleneck **marks**: without ECN only silence and `max_tokens` bound it, and
//! it will drive a drop-tail queue into loss and keep it there.
//!
//! TCP-la of [FEC] has the same window without the code.

use ctcp_units::Duration;

use crate::aimd::Aimd;
use crate::backoff::Fixed;
use crate::controller::{Controller, ControllerState};
use crate::event::{
    AckEvent, EcnEvent, LossEvent, PathChangeEvent, SilenceEvent, SpuriousLossEvent,
};
use crate::increase::Linear;
use crate::pacing::window_pacing_rate;
use crate::params::Params;
use crate::round::Round;

/// Gain of the mean.
const MEAN_GAIN: f64 = 0.125;
/// Gain of the variance.
const VARIANCE_GAIN: f64 = 0.25;
/// μ is held below this before 1 − μ divides (`transport.md` §17, `p_max`).
const MEAN_MAX: f64 = 0.9;

/// Mean and variance of the share of packets lost in a window, both starting
/// from 0.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct WindowLoss {
    mean: f64,
    variance: f64,
}

impl WindowLoss {
    /// Takes in the share of one window's packets lost, 0 to 1.
    pub fn on_window(&mut self, share: f64) {
        let off = share - self.mean;
        self.variance += VARIANCE_GAIN * (off * off - self.variance);
        self.mean += MEAN_GAIN * off;
    }

    /// μ, 0 to 0.9.
    pub fn mean(&self) -> f64 {
        self.mean.min(MEAN_MAX)
    }

    /// σ, at least 0.
    pub fn deviation(&self) -> f64 {
        self.variance.max(0.0).sqrt()
    }
}

/// The erasure block of one window: any `needed` of `packets` suffice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowBlock {
    /// n: packets of the block, at least 1.
    pub packets: u64,
    /// k: source packets in it, 1 to n.
    pub needed: u64,
}

/// W/(1 − μ): the window that lets `window` packets arrive; `mean` is held
/// within `[0, 0.9]`.
pub fn scaled_window(window: f64, mean: f64) -> f64 {
    window / (1.0 - mean.clamp(0.0, MEAN_MAX))
}

/// The block of a window of `window` packets at mean loss μ and deviation σ.
pub fn window_block(window: f64, mean: f64, deviation: f64) -> WindowBlock {
    let packets = (scaled_window(window, mean) + 1e-9).floor().max(1.0);
    let needed = ((1.0 - mean - deviation) * packets + 1e-9).floor();
    WindowBlock {
        packets: packets as u64,
        needed: needed.clamp(1.0, packets) as u64,
    }
}

/// The controller `tcp-cd`.
#[derive(Debug, Clone)]
pub struct TcpCd {
    window: Aimd<Linear, Fixed>,
    loss: WindowLoss,
    round: Round,
    acked_packets: u64,
    lost_packets: u64,
    max_tokens: f64,
}

/// The controller `tcp-cd`.
pub fn tcp_cd(params: &Params) -> TcpCd {
    let params = params.clamped();
    let (linear, half) = (Linear::new(params.alpha), Fixed::new(params.beta));
    // A mark ends slow start whatever the parameters say of losses.
    let inner = Params {
        ss_exit_on_loss: true,
        ..params
    };
    TcpCd {
        window: Aimd::new("tcp-cd", &inner, linear, half),
        loss: WindowLoss::default(),
        round: Round::START,
        acked_packets: 0,
        lost_packets: 0,
        max_tokens: params.max_tokens,
    }
}

impl TcpCd {
    /// Mean and deviation of loss so far.
    pub const fn loss(&self) -> &WindowLoss {
        &self.loss
    }

    /// The block its present window calls for.
    pub fn block(&self) -> WindowBlock {
        window_block(
            self.window.tokens(),
            self.loss.mean(),
            self.loss.deviation(),
        )
    }

    fn forget_losses(&mut self) {
        (self.acked_packets, self.lost_packets) = (0, 0);
    }
}

impl Controller for TcpCd {
    fn on_ack(&mut self, event: &AckEvent) {
        if self.round.begins_with(event) {
            let total = self.acked_packets + self.lost_packets;
            if total > 0 {
                self.loss.on_window(self.lost_packets as f64 / total as f64);
            }
            self.forget_losses();
        }
        self.acked_packets = self.acked_packets.saturating_add(event.acked_packets);
        self.window.on_ack(event);
    }

    fn on_loss(&mut self, event: &LossEvent) {
        self.lost_packets = self.lost_packets.saturating_add(event.lost_packets);
    }

    fn on_ecn(&mut self, event: &EcnEvent) {
        self.window.on_ecn(event);
    }

    fn on_silence(&mut self, event: &SilenceEvent) {
        self.forget_losses();
        self.window.on_silence(event);
    }

    fn on_spurious_loss(&mut self, _event: &SpuriousLossEvent) {
        self.lost_packets = self.lost_packets.saturating_sub(1);
    }

    fn on_path_change(&mut self, event: &PathChangeEvent) {
        self.forget_losses();
        self.loss = WindowLoss::default();
        self.window.on_path_change(event);
    }

    fn tokens(&self) -> f64 {
        scaled_window(self.window.tokens(), self.loss.mean()).min(self.max_tokens)
    }

    fn pacing_rate(&self, srtt: Option<Duration>) -> Option<f64> {
        window_pacing_rate(self.tokens(), self.in_slow_start(), srtt)
    }

    fn in_slow_start(&self) -> bool {
        self.window.in_slow_start()
    }

    fn name(&self) -> &'static str {
        self.window.name()
    }

    /// `ss_threshold` is that of the window inside.
    fn state(&self) -> ControllerState {
        ControllerState {
            tokens: self.tokens(),
            ..self.window.state()
        }
    }
}
