//! Erasure blocks under TCP: TCP-cd of [FEC], and blocks of a fixed (n, k).
//!
//! Parity has places of its own among the segments. Any k segments of a block
//! are the block (an ideal MDS code, as [FEC] assumes): then the receiver counts
//! the others as arrived. The sender leaves a block alone until three segments
//! after its end have arrived, and then sends again no more than are missing to
//! k. Block sizes follow `tcp-flavours.md` §13: a block is a window.
//!
//! Departure: [FEC] does not say how the sender learns the loss that the code
//! hides; here the receiver reports how many segments came.

use core::cmp::Ordering;
use std::collections::VecDeque;

use ctcp_congestion::{WindowLoss, window_block};
use ctcp_units::Instant;

use super::receiver::TcpReceiver;
use super::scoreboard::{DUP_THRESH, Losses, Scoreboard};
use super::{Ack, Segment};

/// Longest block, segments.
const BLOCK_MAX: u64 = 4096;

/// How segments are coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Coding {
    /// Not at all.
    #[default]
    None,
    /// Blocks of a window whose parity follows mean and deviation of loss
    /// ([FEC]: TCP-cd).
    Adaptive,
    /// Blocks of n segments, k of them data; 1 ≤ k ≤ n ≤ 4096.
    Fixed {
        /// Segments.
        n: u64,
        /// Data among them.
        k: u64,
    },
}

/// The block a segment belongs to; `n` 0: none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct BlockTag {
    pub(crate) start: u64,
    pub(crate) n: u16,
    pub(crate) k: u16,
    /// Application bytes of the last data segment, once it is known.
    pub(crate) tail_len: u32,
}

impl BlockTag {
    fn end(&self) -> u64 {
        self.start + u64::from(self.n)
    }
}

/// What the sender puts into the next new segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Data,
    Parity,
}

/// The sender's side.
#[derive(Debug)]
pub(crate) struct Coder {
    coding: Coding,
    /// Blocks sent in full and not settled, the oldest first.
    sent: VecDeque<BlockTag>,
    /// The block being sent.
    current: Option<BlockTag>,
    loss: WindowLoss,
    /// Segments received and due when the present round began, and its end.
    round: (u64, u64, u64),
    /// The same at the last ACK.
    last: (u64, u64),
}

/// What an ACK says of segments that came and did not, whatever the code made
/// of them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Arrivals {
    pub(crate) received: u64,
    pub(crate) lost: u64,
}

impl Coder {
    pub(crate) fn new(coding: Coding) -> Self {
        Self {
            coding,
            sent: VecDeque::new(),
            current: None,
            loss: WindowLoss::default(),
            round: (0, 0, 0),
            last: (0, 0),
        }
    }

    pub(crate) fn is_coding(&self) -> bool {
        self.coding != Coding::None
    }

    /// Share of segments lost, μ.
    pub(crate) fn mean_loss(&self) -> f64 {
        self.loss.mean()
    }

    /// Whether a block has begun and is not complete.
    pub(crate) fn is_in_block(&self) -> bool {
        self.current.is_some()
    }

    /// Takes in the receiver's counts; `next` is the next segment to be sent.
    pub(crate) fn on_ack(&mut self, ack: &Ack, next: u64) -> Arrivals {
        let (received, due) = self.last;
        if ack.due <= due {
            return Arrivals::default();
        }
        self.last = (ack.received, ack.due);
        let arrivals = Arrivals {
            received: ack.received - received,
            lost: (ack.due - due).saturating_sub(ack.received - received),
        };
        let (round_received, round_due, round_end) = self.round;
        if ack.cumulative >= round_end {
            let share = 1.0 - (ack.received - round_received) as f64 / (ack.due - round_due) as f64;
            self.loss.on_window(share.clamp(0.0, 1.0));
            self.round = (ack.received, ack.due, next);
        }
        arrivals
    }

    /// What the new segment `sequence` is to be; `None`: there is nothing to
    /// send. `window` counts segments that are to arrive.
    pub(crate) fn next(&mut self, sequence: u64, window: f64, has_data: bool) -> Option<Next> {
        let tag = match &mut self.current {
            Some(tag) => tag,
            None if !has_data => return None,
            None => self
                .current
                .insert(begin(self.coding, &self.loss, sequence, window)),
        };
        let index = sequence - tag.start;
        if index < u64::from(tag.k) {
            if has_data {
                return Some(Next::Data);
            }
            // The data ends within the block: as much parity for what there is.
            let parity = (index * u64::from(tag.n - tag.k)).div_ceil(u64::from(tag.k));
            tag.k = index as u16;
            tag.n = (index + parity) as u16;
        }
        if index < u64::from(tag.n) {
            return Some(Next::Parity);
        }
        self.complete();
        None
    }

    /// The tag of the new segment `sequence` of `len` application bytes.
    pub(crate) fn tag(&mut self, sequence: u64, what: Next, len: u32) -> BlockTag {
        let Some(tag) = &mut self.current else {
            return BlockTag::default();
        };
        if what == Next::Data {
            tag.tail_len = len;
        }
        let copy = *tag;
        if sequence + 1 == copy.end() {
            self.complete();
        }
        copy
    }

    fn complete(&mut self) {
        if let Some(tag) = self.current.take()
            && tag.n > 0
        {
            self.sent.push_back(tag);
        }
    }

    /// Whether the block of `sequence` cannot have been judged yet: its last
    /// segment, or one of the three that show it, has not been sent before
    /// `next`.
    pub(crate) fn is_unfinished(&self, sequence: u64, next: u64) -> bool {
        let all = self.sent.iter().chain(&self.current);
        all.rev()
            .find(|tag| tag.start <= sequence)
            .is_some_and(|tag| sequence < tag.end() && next < tag.end() + DUP_THRESH as u64)
    }

    /// The tag of a segment sent again.
    pub(crate) fn tag_of(&self, sequence: u64) -> BlockTag {
        let all = self.sent.iter().chain(&self.current);
        all.copied()
            .find(|tag| (tag.start..tag.end()).contains(&sequence))
            .unwrap_or_default()
    }

    /// Application bytes of a segment sent again lie in its first
    /// transmission; blocks all of whose segments arrived are forgotten here,
    /// and what is missing to the k of the others is marked lost.
    pub(crate) fn find_losses(&mut self, board: &mut Scoreboard) -> Losses {
        let mut losses = Losses::default();
        while self
            .sent
            .front()
            .is_some_and(|tag| tag.end() <= board.una())
        {
            self.sent.pop_front();
        }
        let edge = board.sacked_top(DUP_THRESH);
        for tag in &self.sent {
            if tag.end() > edge {
                break;
            }
            if board.is_judged(tag.end()) {
                continue;
            }
            let from = tag.start.max(board.una());
            let arrived = (from - tag.start)
                + (from..tag.end())
                    .filter(|&one| board.get(one).is_some_and(|one| one.is_sacked))
                    .count() as u64;
            let mut missing = u64::from(tag.k).saturating_sub(arrived);
            for sequence in from..tag.end() {
                if missing > 0 && board.get(sequence).is_some_and(|one| !one.is_sacked) {
                    board.mark_lost(sequence, &mut losses);
                    missing -= 1;
                } else {
                    board.abandon(sequence);
                }
            }
            board.judge_to(tag.end());
        }
        losses
    }
}

fn begin(coding: Coding, loss: &WindowLoss, sequence: u64, window: f64) -> BlockTag {
    let (n, k) = match coding {
        Coding::Fixed { n, k } => (n, k),
        Coding::None | Coding::Adaptive => {
            let block = window_block(window, loss.mean(), loss.deviation());
            (block.packets, block.needed)
        }
    };
    let n = n.clamp(1, BLOCK_MAX);
    BlockTag {
        start: sequence,
        n: n as u16,
        k: k.clamp(1, n) as u16,
        tail_len: 0,
    }
}

/// A block of which something came.
#[derive(Debug)]
struct Open {
    tag: BlockTag,
    arrived: u64,
    /// Everything before this was looked at, once the block is decoded.
    filled_to: u64,
}

impl Open {
    fn is_decoded(&self) -> bool {
        self.arrived >= u64::from(self.tag.k)
    }

    /// Application bytes of a segment that did not come.
    fn len(&self, sequence: u64, payload_bytes: u32) -> u32 {
        let index = (sequence - self.tag.start) as u16;
        match (index + 1).cmp(&self.tag.k) {
            Ordering::Equal if self.tag.tail_len > 0 => self.tag.tail_len,
            Ordering::Less | Ordering::Equal => payload_bytes,
            Ordering::Greater => 0,
        }
    }
}

/// The receiver's side.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    /// Blocks that are not in order yet, the oldest first.
    open: VecDeque<Open>,
    received: u64,
    due: u64,
    recovered: u64,
}

impl Blocks {
    /// Counts a segment, new or not.
    pub(crate) fn on_segment(&mut self, segment: &Segment) {
        self.received += 1;
        self.due = self.due.max(segment.number + 1);
    }

    /// A segment arrived that was new; returns the application bytes that came
    /// in order by what its block, or an older one, now is known to contain.
    pub(crate) fn on_new(
        &mut self,
        now: Instant,
        segment: &Segment,
        payload_bytes: u32,
        receiver: &mut TcpReceiver,
    ) -> u64 {
        let tag = segment.block;
        if tag.n == 0 {
            return 0;
        }
        let place = self.open.partition_point(|one| one.tag.start < tag.start);
        if self
            .open
            .get(place)
            .is_none_or(|one| one.tag.start != tag.start)
        {
            let open = Open {
                tag,
                arrived: 0,
                filled_to: tag.start,
            };
            self.open.insert(place, open);
        }
        let open = &mut self.open[place];
        // Later segments know how the block ended.
        if tag.n <= open.tag.n && tag.tail_len > 0 {
            open.tag = tag;
        }
        open.arrived += 1;
        let mut bytes = self.fill(now, place, segment.sequence, payload_bytes, receiver);
        // What is missing of the blocks before this will not come any more.
        for older in 0..place {
            let end = self.open[older].tag.end();
            bytes += self.fill(now, older, end, payload_bytes, receiver);
        }
        let next = receiver.next();
        while self.open.front().is_some_and(|one| one.tag.end() <= next) {
            self.open.pop_front();
        }
        bytes
    }

    /// What did not come of a decoded block, before `to`, counts as arrived.
    /// What lies beyond may not have been sent.
    fn fill(
        &mut self,
        now: Instant,
        place: usize,
        to: u64,
        payload_bytes: u32,
        receiver: &mut TcpReceiver,
    ) -> u64 {
        let open = &mut self.open[place];
        if !open.is_decoded() {
            return 0;
        }
        let mut bytes = 0;
        for sequence in open.filled_to..to {
            let rest = Segment {
                sequence,
                len: open.len(sequence, payload_bytes),
                ..Segment::default()
            };
            if let Some(in_order) = receiver.on_segment(now, &rest, false) {
                bytes += in_order;
                let is_data = sequence - open.tag.start < u64::from(open.tag.k);
                self.recovered += u64::from(is_data);
            }
        }
        open.filled_to = open.filled_to.max(to);
        bytes
    }

    /// Data segments that the code brought.
    pub(crate) fn recovered(&self) -> u64 {
        self.recovered
    }

    /// Adds what the sender wants to know to an acknowledgement.
    pub(crate) fn report(&self, ack: &mut Ack) {
        ack.received = self.received;
        ack.due = self.due;
    }
}
