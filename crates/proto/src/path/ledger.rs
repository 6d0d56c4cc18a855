//! The packets sent on one path and what became of them.
//!
//! Every packet has a slot from sending until it is resolved: acknowledged, or
//! declared lost by the rule of RFC 9002 §6.1 (a reordering allowance in packets
//! and in time). A packet declared lost keeps its slot a while longer, so that an
//! acknowledgement that comes after all is recognised: the allowance then grows,
//! in packets and in time, because the path reorders. Work per packet is O(1); an
//! ACK costs its at most 64 ranges besides.
//!
//! Tokens ([CC14] §II) are counted here: `in_flight` is what was sent in exchange
//! for a token and is not resolved.

use std::collections::VecDeque;

use ctcp_units::{Duration, Instant, PacketNumber};

use super::process::LossRuns;
use super::ranges::RangeSet;
use crate::wire::RangesView;

/// Reordering allowance in packets to begin with (RFC 9002 §6.1.1).
const REORDER_PACKETS: u64 = 3;
/// More than this is left to the allowance in time.
const REORDER_PACKETS_MAX: u64 = 1 << 16;
/// From here on slots of lost packets are let go at once, and what a silent path
/// has in flight is given up again and again: 1 Gbit/s over 700 ms.
const SLOTS_CROWDED: usize = 1 << 16;

/// What a packet carried, as far as its loss or arrival matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cargo {
    /// Nothing that asks for an acknowledgement.
    AckOnly,
    /// A symbol or a combination of the block with this serial number.
    Symbol {
        /// Serial number of the block at the sender.
        block: u64,
    },
    /// Control frames, kept by the connection under the packet's number.
    Control,
    /// A probe of this UDP payload length.
    MtuProbe(u16),
    /// A datagram of the application, which is not sent again.
    Datagram,
    /// A repair of such datagrams, which is not sent again either.
    DatagramRepair,
}

impl Cargo {
    /// It paid a token.
    pub(crate) const fn holds_token(self) -> bool {
        matches!(
            self,
            Self::Symbol { .. } | Self::Datagram | Self::DatagramRepair
        )
    }

    const fn is_ack_eliciting(self) -> bool {
        !matches!(self, Self::AckOnly)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Open,
    Acked,
    Lost,
}

/// What the path was like when a packet left.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SendState {
    /// The application, not the tokens, was the limit.
    pub(crate) is_app_limited: bool,
    /// It was sent with ECT(0).
    pub(crate) is_marked: bool,
    /// Packets that stood as lost.
    pub(crate) lost_before: u64,
}

/// One packet sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SentPacket {
    pub(crate) sent_at: Instant,
    /// UDP payload length, bytes.
    pub(crate) len: u16,
    pub(crate) cargo: Cargo,
    /// The application, not the tokens, was the limit.
    pub(crate) app_limited: bool,
    /// Packets delivered on the path when this one left.
    pub(crate) delivered_before: u64,
    /// When the last of those was acknowledged.
    pub(crate) delivered_at: Instant,
    /// Packets that held a token before it.
    pub(crate) in_flight_before: u64,
    /// It was sent with ECT(0).
    pub(crate) is_marked: bool,
    /// Packets that stood as lost when it left.
    pub(crate) lost_before: u64,
    fate: Fate,
    /// It no longer counts towards its block's expected arrivals.
    is_aged: bool,
}

/// A packet whose fate has just become known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Resolved {
    pub(crate) number: PacketNumber,
    pub(crate) packet: SentPacket,
    pub(crate) was_aged: bool,
    /// It had been declared lost before it was acknowledged.
    pub(crate) was_lost: bool,
}

/// What one ACK said.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct AckOutcome {
    /// Packets newly acknowledged that asked for it.
    pub(crate) acked: u32,
    /// Of these, packets that had been declared lost.
    pub(crate) spurious: u32,
    /// Newest packet newly acknowledged, if it is the newest ever.
    pub(crate) newest: Option<(PacketNumber, SentPacket)>,
}

#[derive(Debug)]
pub(crate) struct Ledger {
    /// Number of the first slot.
    first: u64,
    slots: VecDeque<SentPacket>,
    /// Numbers acknowledged, from `first` on.
    acked: RangeSet,
    largest_acked: Option<u64>,
    /// All below are resolved.
    frontier: u64,
    /// All below are aged.
    aged_below: u64,
    in_flight: u64,
    eliciting_open: u64,
    last_eliciting_at: Option<Instant>,
    reorder_packets: u64,
    /// Age at which the latest of the packets taken for lost arrived, and an
    /// eighth.
    reorder_span: Duration,
    runs: LossRuns,
    delivered: u64,
    delivered_at: Instant,
}

impl Ledger {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            first: 0,
            slots: VecDeque::new(),
            acked: RangeSet::default(),
            largest_acked: None,
            frontier: 0,
            aged_below: 0,
            in_flight: 0,
            eliciting_open: 0,
            last_eliciting_at: None,
            reorder_packets: REORDER_PACKETS,
            reorder_span: Duration::ZERO,
            runs: LossRuns::default(),
            delivered: 0,
            delivered_at: now,
        }
    }

    /// Packets that hold a token.
    pub(crate) const fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Unresolved packets that asked for an acknowledgement.
    pub(crate) const fn eliciting_open(&self) -> u64 {
        self.eliciting_open
    }

    /// Whether losses come in runs.
    pub(crate) const fn runs(&self) -> &LossRuns {
        &self.runs
    }

    /// When the last packet that asks for an acknowledgement left.
    pub(crate) const fn last_eliciting_at(&self) -> Option<Instant> {
        self.last_eliciting_at
    }

    /// Packets acknowledged so far.
    pub(crate) const fn delivered(&self) -> u64 {
        self.delivered
    }

    pub(crate) fn next_number(&self) -> PacketNumber {
        PacketNumber(self.first + self.slots.len() as u64)
    }

    /// Lowest number whose fate matters: the floor announced to the receiver.
    pub(crate) const fn frontier(&self) -> u64 {
        self.frontier
    }

    /// Slots pile up behind packets that nobody acknowledges.
    pub(crate) fn is_crowded(&self) -> bool {
        self.slots.len() > SLOTS_CROWDED
    }

    #[cfg(test)]
    pub(crate) fn slots_held(&self) -> usize {
        self.slots.len()
    }

    fn slot(&mut self, number: u64) -> Option<&mut SentPacket> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.slots.get_mut(index)
    }

    /// Takes the next number for a packet.
    pub(crate) fn on_sent(
        &mut self,
        now: Instant,
        len: u16,
        cargo: Cargo,
        state: SendState,
    ) -> PacketNumber {
        let number = self.next_number();
        self.slots.push_back(SentPacket {
            sent_at: now,
            len,
            cargo,
            app_limited: state.is_app_limited,
            delivered_before: self.delivered,
            delivered_at: self.delivered_at,
            in_flight_before: self.in_flight,
            is_marked: state.is_marked,
            lost_before: state.lost_before,
            fate: Fate::Open,
            is_aged: false,
        });
        if cargo.is_ack_eliciting() {
            self.eliciting_open += 1;
            self.last_eliciting_at = Some(now);
        }
        self.in_flight += u64::from(cargo.holds_token());
        self.trim(now, Duration::ZERO);
        number
    }

    /// Takes in an ACK; `on_acked` hears of each packet newly acknowledged.
    ///
    /// Returns `None` if it acknowledges what was never sent: the peer breaks
    /// the protocol.
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        ranges: RangesView<'_>,
        mut on_acked: impl FnMut(&Resolved),
    ) -> Option<AckOutcome> {
        if ranges.largest() >= self.next_number().0 {
            return None;
        }
        let mut outcome = AckOutcome::default();
        let is_newest = self.largest_acked.is_none_or(|old| ranges.largest() > old);
        let mut acked = core::mem::take(&mut self.acked);
        for range in ranges.iter() {
            if *range.end() < self.first {
                break;
            }
            acked.insert((*range.start()).max(self.first)..=*range.end(), |new| {
                for number in new {
                    self.resolve_acked(now, number, &mut outcome, &mut on_acked);
                }
            });
        }
        self.acked = acked;
        if outcome.acked > 0 {
            self.delivered += u64::from(outcome.acked);
            self.delivered_at = now;
        }
        if is_newest {
            self.largest_acked = Some(ranges.largest());
            let number = ranges.largest();
            outcome.newest = self
                .slot(number)
                .filter(|slot| slot.cargo.is_ack_eliciting())
                .map(|slot| (PacketNumber(number), *slot));
        }
        Some(outcome)
    }

    fn resolve_acked(
        &mut self,
        now: Instant,
        number: u64,
        outcome: &mut AckOutcome,
        on_acked: &mut impl FnMut(&Resolved),
    ) {
        let largest = self.largest_acked.unwrap_or(0);
        let Some(slot) = self.slot(number) else {
            return;
        };
        let before = slot.fate;
        slot.fate = Fate::Acked;
        let packet = *slot;
        if before == Fate::Acked || !packet.cargo.is_ack_eliciting() {
            return;
        }
        outcome.acked += 1;
        if before == Fate::Lost {
            outcome.spurious += 1;
            let distance = largest.saturating_sub(number) + 1;
            self.reorder_packets = self.reorder_packets.max(distance.min(REORDER_PACKETS_MAX));
            let age = now - packet.sent_at;
            self.reorder_span = self.reorder_span.max(age + age / 8);
        } else {
            self.eliciting_open -= 1;
            self.in_flight -= u64::from(packet.cargo.holds_token());
        }
        on_acked(&Resolved {
            number: PacketNumber(number),
            packet,
            was_aged: packet.is_aged || before == Fate::Lost,
            was_lost: before == Fate::Lost,
        });
    }

    /// Declares lost what the allowance no longer excuses; `on_lost` hears of
    /// each packet that asked for an acknowledgement.
    ///
    /// `span` is the allowance in time to begin with, 9/8 of the round trip.
    pub(crate) fn detect_losses(
        &mut self,
        now: Instant,
        span: Duration,
        mut on_lost: impl FnMut(&Resolved),
    ) {
        let Some(largest) = self.largest_acked else {
            return self.trim(now, span);
        };
        let span = self.allowance(span);
        let allowance = self.reorder_packets;
        while self.frontier < largest {
            let number = self.frontier;
            let slot = self.slot(number).expect("the frontier has a slot");
            let (fate, is_eliciting) = (slot.fate, slot.cargo.is_ack_eliciting());
            if fate == Fate::Open && is_eliciting {
                let is_lost = number + allowance <= largest || slot.sent_at + span <= now;
                if !is_lost {
                    break;
                }
                self.lose(number, &mut on_lost);
            }
            if is_eliciting {
                self.runs.on_fate(fate == Fate::Open);
            }
            self.frontier += 1;
        }
        self.trim(now, span);
    }

    /// The path leads elsewhere: what it showed of reordering and losses is void.
    pub(crate) fn forget_path(&mut self) {
        self.runs = LossRuns::default();
        self.reorder_packets = REORDER_PACKETS;
        self.reorder_span = Duration::ZERO;
    }

    /// The allowance in time: `span`, or what the path has shown to need, at most
    /// twice that (as RACK, RFC 8985 §6.2, widens its window).
    fn allowance(&self, span: Duration) -> Duration {
        self.reorder_span.clamp(span, span * 2)
    }

    /// Declares everything unresolved lost: the path has been silent for long.
    pub(crate) fn lose_all(&mut self, mut on_lost: impl FnMut(&Resolved)) {
        for number in self.frontier..self.next_number().0 {
            let slot = self
                .slot(number)
                .expect("numbers from the frontier have slots");
            if slot.fate == Fate::Open && slot.cargo.is_ack_eliciting() {
                self.lose(number, &mut on_lost);
            }
        }
        self.frontier = self.next_number().0;
    }

    fn lose(&mut self, number: u64, on_lost: &mut impl FnMut(&Resolved)) {
        let slot = self.slot(number).expect("a packet being lost has a slot");
        slot.fate = Fate::Lost;
        let was_aged = core::mem::replace(&mut slot.is_aged, true);
        let packet = *slot;
        self.eliciting_open -= 1;
        self.in_flight -= u64::from(packet.cargo.holds_token());
        on_lost(&Resolved {
            number: PacketNumber(number),
            packet,
            was_aged,
            was_lost: false,
        });
    }

    /// When the oldest packet below the largest acknowledged one is out of time.
    pub(crate) fn loss_deadline(&self, span: Duration) -> Option<Instant> {
        let largest = self.largest_acked?;
        if self.frontier >= largest {
            return None;
        }
        let index = usize::try_from(self.frontier - self.first).ok()?;
        Some(self.slots.get(index)?.sent_at + self.allowance(span))
    }

    /// Packets sent before `limit` and still open no longer count towards their
    /// blocks (the age test of [MP12] §III-E); `on_aged` hears of each.
    pub(crate) fn age(&mut self, limit: Instant, mut on_aged: impl FnMut(&SentPacket)) {
        self.aged_below = self.aged_below.max(self.first);
        while let Some(slot) = self.slot(self.aged_below) {
            if slot.sent_at >= limit {
                break;
            }
            if slot.fate == Fate::Open && !core::mem::replace(&mut slot.is_aged, true) {
                let packet = *slot;
                on_aged(&packet);
            }
            self.aged_below += 1;
        }
    }

    /// Lets go of resolved slots, lost ones only after two allowances more.
    fn trim(&mut self, now: Instant, span: Duration) {
        while let Some(slot) = self.slots.front() {
            let is_done = match slot.fate {
                Fate::Open => !slot.cargo.is_ack_eliciting(),
                Fate::Acked => true,
                Fate::Lost => {
                    slot.sent_at + 3 * span < now && !span.is_zero()
                        || self.slots.len() > SLOTS_CROWDED
                }
            };
            if !is_done {
                break;
            }
            self.slots.pop_front();
            self.first += 1;
        }
        self.frontier = self.frontier.max(self.first);
        self.acked.remove_below(self.first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{ECN_NONE, Frame, FrameIter};
    use core::ops::RangeInclusive;
    use ctcp_units::{PathId, millis};

    const SPAN: Duration = millis(100);

    struct Bench {
        ledger: Ledger,
        now: Instant,
        lost: Vec<u64>,
        acked: Vec<u64>,
    }

    impl Bench {
        fn with_sent(count: u64) -> Self {
            let now = Instant::EPOCH;
            let mut ledger = Ledger::new(now);
            for _ in 0..count {
                ledger.on_sent(now, 1472, Cargo::Symbol { block: 0 }, SendState::default());
            }
            Self {
                ledger,
                now,
                lost: Vec::new(),
                acked: Vec::new(),
            }
        }

        fn ack(&mut self, ranges: &[RangeInclusive<u64>]) -> Option<AckOutcome> {
            let mut bytes = Vec::new();
            Frame::write_ack(
                &mut bytes,
                PathId(0),
                Duration::ZERO,
                0,
                ECN_NONE,
                ranges,
                1000,
            );
            let Some(Ok(Frame::Ack(ack))) = FrameIter::new(&bytes).next() else {
                panic!("an ACK");
            };
            let acked = &mut self.acked;
            let outcome = self
                .ledger
                .on_ack(self.now, ack.ranges, |r| acked.push(r.number.0));
            self.detect();
            outcome
        }

        fn detect(&mut self) {
            let lost = &mut self.lost;
            self.ledger
                .detect_losses(self.now, SPAN, |r| lost.push(r.number.0));
        }
    }

    #[test]
    fn a_gap_is_a_loss_only_three_packets_later() {
        let mut bench = Bench::with_sent(10);
        bench.ack(&[1..=2]);
        assert!(bench.lost.is_empty());
        bench.ack(&[1..=3]);
        assert_eq!(bench.lost, [0]);
        assert_eq!(bench.acked, [1, 2, 3]);
        assert_eq!(bench.ledger.in_flight(), 6);
    }

    #[test]
    fn a_gap_is_a_loss_when_its_time_is_up() {
        let mut bench = Bench::with_sent(3);
        bench.ack(&[1..=1]);
        assert_eq!(bench.ledger.loss_deadline(SPAN), Some(bench.now + SPAN));
        bench.now += SPAN;
        bench.detect();
        assert_eq!(bench.lost, [0]);
        assert_eq!(bench.ledger.in_flight(), 1, "packet 2 may still come");
    }

    #[test]
    fn an_ack_after_all_widens_the_allowance() {
        let mut bench = Bench::with_sent(40);
        bench.ack(&[1..=9]);
        assert_eq!(bench.lost, [0]);
        let outcome = bench.ack(&[0..=9]).unwrap();
        assert_eq!((outcome.acked, outcome.spurious), (1, 1));
        bench.ack(&[11..=19, 0..=9]);
        assert_eq!(bench.lost, [0], "ten packets are allowed now");
        bench.ack(&[11..=20, 0..=9]);
        assert_eq!(bench.lost, [0, 10]);
    }

    #[test]
    fn repeated_and_reordered_acks_change_nothing() {
        let mut bench = Bench::with_sent(20);
        bench.ack(&[5..=9, 0..=2]);
        let (acked, lost) = (bench.acked.clone(), bench.lost.clone());
        bench.ack(&[0..=2]);
        bench.ack(&[5..=9, 0..=2]);
        assert_eq!((bench.acked, bench.lost), (acked, lost));
        assert_eq!(bench.ledger.in_flight(), 10);
    }

    #[test]
    fn an_ack_of_the_future_is_refused() {
        let mut bench = Bench::with_sent(2);
        assert!(bench.ack(&[0..=2]).is_none());
    }

    #[test]
    fn old_packets_age_once_and_still_count_as_tokens() {
        let mut bench = Bench::with_sent(3);
        let mut aged = 0;
        bench.ledger.age(bench.now + millis(1), |_| aged += 1);
        bench.ledger.age(bench.now + millis(2), |_| aged += 1);
        assert_eq!(aged, 3);
        assert_eq!(bench.ledger.in_flight(), 3);
    }

    #[test]
    fn after_long_silence_all_tokens_return() {
        let mut bench = Bench::with_sent(5);
        let mut lost = 0;
        bench.ledger.lose_all(|_| lost += 1);
        assert_eq!((lost, bench.ledger.in_flight()), (5, 0));
        assert_eq!(bench.ack(&[0..=4]).unwrap().spurious, 5);
    }

    /// Held back by half a round trip each time, a packet is given the time after
    /// the first.
    #[test]
    fn the_allowance_in_time_grows_with_what_comes_late() {
        let mut bench = Bench::with_sent(20);
        bench.ack(&[1..=2]);
        bench.now += SPAN;
        bench.detect();
        assert_eq!(bench.lost, [0]);
        bench.now += SPAN / 2;
        assert_eq!(bench.ack(&[0..=2]).unwrap().spurious, 1);
        let sent_at = bench.now;
        for _ in 0..3 {
            let state = SendState::default();
            bench
                .ledger
                .on_sent(sent_at, 1472, Cargo::Symbol { block: 0 }, state);
        }
        bench.ack(&[21..=22, 0..=19]);
        bench.now = sent_at + SPAN + SPAN / 2;
        bench.detect();
        assert_eq!(bench.lost, [0]);
        // Twice the usual time is the most.
        bench.now = sent_at + SPAN * 2;
        bench.detect();
        assert_eq!(bench.lost, [0, 20]);
    }

    #[test]
    fn packets_that_ask_for_nothing_leave_no_trace() {
        let mut ledger = Ledger::new(Instant::EPOCH);
        for _ in 0..1000 {
            ledger.on_sent(Instant::EPOCH, 50, Cargo::AckOnly, SendState::default());
        }
        assert_eq!(ledger.slots.len(), 0);
        assert_eq!(ledger.next_number(), PacketNumber(1000));
    }
}
