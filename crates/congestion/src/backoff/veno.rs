//! ⅘ for a loss that looks like chance, ½ for one with a queue behind it.

use super::Backoff;
use crate::backlog::backlog;
use crate::event::{EcnEvent, LossEvent};

/// Factor for a random loss.
const RANDOM: f64 = 0.8;
/// Factor for congestion.
const CONGESTION: f64 = 0.5;

/// Veno's backoff (Fu & Liew 2003; `tcp-flavours.md` §7): with
/// N = tokens·(RTT − RTTmin)/RTT packets queued, `tokens ← ⅘·tokens` if
/// N < `backlog_max`, else halved. A mark is never chance: halved.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VenoBackoff {
    backlog_max: f64,
}

impl VenoBackoff {
    /// The rule with the paper's β_N as `backlog_max`, packets.
    pub const fn new(backlog_max: f64) -> Self {
        Self { backlog_max }
    }
}

impl Backoff for VenoBackoff {
    fn on_loss(&mut self, tokens: f64, event: &LossEvent) -> f64 {
        if backlog(tokens, event.rtt.rtt_min, event.rtt.latest) < self.backlog_max {
            RANDOM
        } else {
            CONGESTION
        }
    }

    fn on_ecn(&mut self, _tokens: f64, _event: &EcnEvent) -> f64 {
        CONGESTION
    }
}
