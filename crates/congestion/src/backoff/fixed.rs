//! A fixed factor, as TCP Reno does.

use super::Backoff;
use crate::event::{EcnEvent, LossEvent, SilenceEvent};

/// `tokens ← β·tokens` with a fixed β, ½ for TCP Reno (RFC 5681 §3.1); marks
/// count as losses (RFC 3168 §6.1.2).
///
/// It takes every loss for congestion: at random loss p its window stays near
/// √(1.5/p), whatever the link carries. The control in friendliness tests
/// ([CC14] §IV).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fixed {
    beta: f64,
    silence_beta: f64,
}

impl Fixed {
    /// A backoff by `beta`.
    pub const fn new(beta: f64) -> Self {
        Self {
            beta,
            silence_beta: 0.5,
        }
    }

    /// The same, with `beta` for the threshold after silence instead of ½.
    #[must_use]
    pub const fn with_silence(self, beta: f64) -> Self {
        Self {
            silence_beta: beta,
            ..self
        }
    }
}

impl Backoff for Fixed {
    fn on_loss(&mut self, _tokens: f64, _event: &LossEvent) -> f64 {
        self.beta
    }

    fn on_ecn(&mut self, _tokens: f64, _event: &EcnEvent) -> f64 {
        self.beta
    }

    fn silence_threshold(&mut self, tokens: f64, _event: &SilenceEvent) -> f64 {
        self.silence_beta * tokens
    }
}
