//! Reno's growth, halved while packets wait in the queue.

use super::Increase;
use crate::backlog::backlog;
use crate::event::AckEvent;

/// Veno's growth (Fu & Liew 2003; `tcp-flavours.md` §7): with
/// N = tokens·(RTT − RTTmin)/RTT packets queued,
///
/// ```text
/// N < backlog_max:   tokens += 1/tokens per acknowledged packet
/// else:              the same for every other one
/// ```
///
/// RTT is the last sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VenoIncrease {
    backlog_max: f64,
    /// Packets that did not count yet, 0 or 1.
    odd_packets: u64,
}

impl VenoIncrease {
    /// The rule with the paper's β_N as `backlog_max`, packets.
    pub const fn new(backlog_max: f64) -> Self {
        Self {
            backlog_max,
            odd_packets: 0,
        }
    }
}

impl Increase for VenoIncrease {
    fn avoidance(&mut self, tokens: f64, packets: u64, ack: &AckEvent) -> f64 {
        let mut counted = packets;
        if backlog(tokens, ack.rtt.rtt_min, ack.rtt.latest) >= self.backlog_max {
            let pending = self.odd_packets.saturating_add(packets);
            counted = pending / 2;
            self.odd_packets = pending % 2;
        }
        counted as f64 / tokens
    }
}
