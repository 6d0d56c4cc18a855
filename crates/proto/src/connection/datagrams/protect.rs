//! Repairs of datagrams: how many, and of which.
//!
//! Ours; the papers know no datagrams. On a path that loses packets datagrams are
//! numbered, and repairs cover the newest of them, those of the last
//! [`HORIZON`]. With k of these, the share of repairs is what the end of a transfer
//! of k symbols would be sent with (`block/redundancy.rs`): as many as leave a
//! chance of 2 % that fewer than k packets arrive, divided by k. So a lone query is
//! sent as good as twice, and where many go in a row a few repairs do for all.
//!
//! ```text
//! credit ← credit + share(k, p, ρ)      with each datagram
//! credit > 0: a repair goes             credit ← credit − 1
//! ```
//!
//! The newest datagrams of a pause are in no repair yet: one more goes after
//! [`PAUSE`], on credit.
//!
//! Bounds. Repairs have no more bytes than the datagrams that they cover had: that
//! is the cap. They go only while no datagram waits: who sends more than the paths
//! carry is better served by the room. Where nothing is lost there is neither a
//! repair nor a number.

use std::collections::VecDeque;

use ctcp_rlnc::SlidingEncoder;
use ctcp_units::{Duration, Instant, millis};

use crate::Redundancy;
use crate::path::LossProcess;
use crate::wire::{CONTROL_OVERHEAD, Frame, SYMBOL_LEN_PREFIX, varint_len};

/// Datagrams that a repair covers, at most.
const SPAN: usize = 32;
/// A peer that remembers fewer than this is sent no repairs: of what a repair covers
/// some would be forgotten when it came after later datagrams.
const PEER_WINDOW_MIN: u64 = 2 * SPAN as u64;
/// A datagram is repaired no later than this after it was sent: a conversation has
/// gone on by then.
const HORIZON: Duration = millis(200);
/// So long after the last datagram a pause has begun: longer than the 20 ms between
/// packets of a voice.
const PAUSE: Duration = millis(25);
/// Repairs that may be owed, after datagrams that came at once.
const CREDIT_MAX: f64 = 8.0;
/// Repairs that a pause may take in advance.
const DEBT_MAX: f64 = 1.0;
/// Bytes of datagrams that repairs may make up for later.
const BYTES_MAX: usize = 1 << 16;

/// A packet with a repair is longer than its payload by this and the first number.
const REPAIR_OVERHEAD: usize = CONTROL_OVERHEAD + 1 + 1 + 2;
/// The longest that a number is.
const NUMBER_LEN_MAX: usize = 8;

/// The newest datagrams sent and what is owed to them.
#[derive(Debug)]
pub(super) struct Protection {
    /// When the newest datagrams were sent, numbered or not: within [`HORIZON`], at
    /// most [`SPAN`].
    sent: VecDeque<Instant>,
    /// The numbered ones, and when each was sent.
    encoder: SlidingEncoder,
    numbered: VecDeque<Instant>,
    /// Index of the next repair.
    index: u16,
    /// Repairs owed; below zero, sent in advance.
    credit: f64,
    /// Bytes that repairs may have.
    bytes: usize,
    /// The newest numbered datagram is in a repair.
    is_covered: bool,
    /// A pause has begun and its repair has not been sent.
    is_pause: bool,
}

/// What a repair covers.
#[derive(Debug)]
pub(super) struct RepairPlan {
    first: u64,
    count: u8,
}

/// Whether a datagram to which `share` repairs are due gets a number, if the peer
/// remembers `peer_window` numbers. Peers from before there were numbers say nothing,
/// which is 0.
pub(super) fn is_numbered(share: f64, peer_window: u64) -> bool {
    share > 0.0 && peer_window >= PEER_WINDOW_MIN
}

impl Default for Protection {
    fn default() -> Self {
        Self {
            sent: VecDeque::new(),
            encoder: SlidingEncoder::new(SPAN),
            numbered: VecDeque::new(),
            index: 0,
            credit: 0.0,
            bytes: 0,
            is_covered: true,
            is_pause: false,
        }
    }
}

impl Protection {
    /// A datagram leaves by a path that loses as `process` says; returns the repairs
    /// that are worth sending for it, 0 if it needs no number.
    pub(super) fn share(&mut self, now: Instant, rule: Redundancy, process: LossProcess) -> f64 {
        while self.sent.front().is_some_and(|at| *at + HORIZON < now) {
            self.sent.pop_front();
        }
        if self.sent.len() >= SPAN {
            self.sent.pop_front();
        }
        self.sent.push_back(now);
        let count = self.sent.len() as u8;
        f64::from(rule.for_datagrams(count, process)) / f64::from(count)
    }

    /// Whether `content` and repairs of it fit a packet of `udp_payload_max` bytes.
    pub(super) const fn fits(content: &[u8], udp_payload_max: usize) -> bool {
        let overhead = REPAIR_OVERHEAD + NUMBER_LEN_MAX + SYMBOL_LEN_PREFIX;
        content.len() + overhead <= udp_payload_max
    }

    /// Takes a datagram, to which `share` repairs are due, and returns its number.
    pub(super) fn push(&mut self, now: Instant, share: f64, content: &[u8]) -> u64 {
        self.forget(now);
        self.credit = (self.credit + share).min(CREDIT_MAX);
        self.bytes = (self.bytes + SYMBOL_LEN_PREFIX + content.len()).min(BYTES_MAX);
        (self.is_covered, self.is_pause) = (false, false);
        if self.numbered.len() >= SPAN {
            self.numbered.pop_front();
        }
        self.numbered.push_back(now);
        self.encoder.push(content)
    }

    /// Forgets what is older than the horizon; credit goes with the last.
    fn forget(&mut self, now: Instant) {
        while self.numbered.front().is_some_and(|at| *at + HORIZON < now) {
            self.numbered.pop_front();
        }
        let next = self.encoder.next();
        self.encoder.forget_below(next - self.numbered.len() as u64);
        if self.numbered.is_empty() {
            self.numbered = VecDeque::new();
            (self.credit, self.is_covered, self.is_pause) = (0.0, true, false);
        }
    }

    /// Datagrams held.
    #[cfg(test)]
    pub(super) fn held(&self) -> u64 {
        debug_assert!(self.sent.len() <= SPAN && self.numbered.len() <= SPAN);
        self.encoder.next() - self.encoder.first()
    }

    /// Whether a repair should go at `now`.
    pub(super) fn wants_repair(&self, now: Instant) -> bool {
        let is_fresh = self.numbered.back().is_some_and(|at| *at + HORIZON >= now);
        let is_owed = self.credit > 1e-9 || self.is_pause && self.credit > -DEBT_MAX;
        is_fresh && is_owed
    }

    /// The repair that fits a packet of `udp_payload_max` bytes, over as many of the
    /// newest datagrams as may be; none if one is not wanted.
    pub(super) fn next_repair(&self, now: Instant, udp_payload_max: usize) -> Option<RepairPlan> {
        if !self.wants_repair(now) {
            return None;
        }
        let is_old = |at: &&Instant| **at + HORIZON < now;
        let skipped = self.numbered.iter().take_while(is_old).count() as u64;
        let oldest = self.encoder.first() + skipped;
        let fits = |&(first, len): &(u64, usize)| {
            len <= self.bytes && REPAIR_OVERHEAD + varint_len(first) + len <= udp_payload_max
        };
        let lens = self.encoder.payload_lens();
        let young = lens.take_while(|(first, _)| *first >= oldest);
        let (first, _) = young.filter(fits).last()?;
        let count = u8::try_from(self.encoder.next() - first).ok()?;
        Some(RepairPlan { first, count })
    }

    /// Appends the frame of `plan`, which [`Self::next_repair`] has just given.
    pub(super) fn write_repair(&mut self, plan: &RepairPlan, out: &mut Vec<u8>) {
        let mut payload = Vec::new();
        let repair = loop {
            let index = self.index;
            self.index = index.wrapping_add(1);
            // One in 256 to the power of the count is all zeros and has no name.
            if self.encoder.encode(plan.first, index, &mut payload).is_ok() {
                break index;
            }
        };
        self.bytes = self.bytes.saturating_sub(payload.len());
        self.credit -= 1.0;
        (self.is_covered, self.is_pause) = (true, false);
        Frame::DatagramRepair {
            first: plan.first,
            count: plan.count,
            repair,
            payload: &payload,
        }
        .write(out);
    }

    /// When a pause begins, or what is held has grown old.
    pub(super) fn due(&self) -> Option<Instant> {
        let newest = *self.numbered.back()?;
        let waits = !self.is_covered && !self.is_pause;
        Some(newest + if waits { PAUSE } else { HORIZON })
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.due().is_none_or(|due| now < due) {
            return;
        }
        let newest = self.numbered.back().copied();
        if newest.is_some_and(|at| at + HORIZON <= now) {
            self.numbered.clear();
            self.forget(now);
        } else {
            self.is_pause = true;
        }
    }
}
