//! Explicit congestion notification on one path: may packets be marked ECT(0),
//! and how many came back marked?
//!
//! Algorithm: [RFC9000] §13.4.2 and appendix A.4, on the counts of our ACKs. The
//! first packets carry ECT(0); if their ACKs report counts that agree, all later
//! ones do. A path that drops, clears or forges the marks loses them for good,
//! until its address changes.
//!
//! Departure: totals are compared, not each ACK with the one before; see
//! [`EcnValidator`].
//!
//! Counts only grow. An ACK whose counts are older than those known was
//! reordered; it proves nothing, for or against.

use ctcp_units::PacketNumber;

/// Packets marked before the first report is awaited; [RFC9000] appendix A.4.
pub(crate) const TEST_PACKETS: u64 = 10;

/// The counts of an ACK: packets of the path ever received with each mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct EcnCounts {
    /// Received with ECT(0).
    pub(crate) ect0: u64,
    /// Received with ECT(1).
    pub(crate) ect1: u64,
    /// Received with CE: a router met congestion.
    pub(crate) ce: u64,
}

/// What one ACK says about marked packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EcnAck {
    /// Packets sent with ECT(0) that the ACK newly acknowledges.
    pub(crate) newly_acked_ect: u64,
    /// Whether the ACK acknowledges a packet newer than any before. Only such
    /// an ACK can fail the path.
    pub(crate) advances_largest: bool,
    /// Its counts, if it carries any.
    pub(crate) counts: Option<EcnCounts>,
}

/// How far the path is trusted with marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EcnState {
    /// The first packets are sent marked.
    Testing,
    /// They have left; no verdict yet, packets go unmarked.
    Unknown,
    /// Marks arrive: packets are marked.
    Capable,
    /// They do not, for the given reason: packets go unmarked.
    Failed(EcnFailure),
}

/// Why a path is not trusted with marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EcnFailure {
    /// Not wanted here, or the system cannot mark.
    Disabled,
    /// Every marked test packet was lost.
    AllLost,
    /// ACKs of marked packets carry no counts.
    NoCounts,
    /// Marks were cleared on the way: fewer are counted than were acknowledged.
    Cleared,
    /// Marks are counted that were never sent.
    Forged,
    /// Every test packet came back CE: a stuck bit, not congestion. To answer
    /// it would hold the window at its least for ever.
    AllMarked,
}

/// Validates one path and counts its congestion marks.
///
/// Where [RFC9000] compares each ACK with the one before, this compares totals:
/// packets sent, acknowledged and counted. An ACK of ours may name an arrival
/// that an earlier one only counted, and must not be taken for a cleared mark.
#[derive(Debug, Clone)]
pub(crate) struct EcnValidator {
    state: EcnState,
    /// Packets sent with ECT(0), at least as many as were counted.
    sent: u64,
    /// Of these acknowledged, at most as many as were counted if the path is
    /// honest.
    acked: u64,
    counts: EcnCounts,
    /// The counts when this address was new.
    counts_before: EcnCounts,
    test: Test,
}

/// The marked packets sent to this address while it is being tested.
#[derive(Debug, Clone, Copy, Default)]
struct Test {
    /// The first of them.
    first: Option<PacketNumber>,
    sent: u64,
    acked: u64,
    lost: u64,
}

impl EcnValidator {
    /// A path to be tested, or one on which nothing shall be marked.
    pub(crate) fn new(is_enabled: bool) -> Self {
        Self {
            state: if is_enabled {
                EcnState::Testing
            } else {
                EcnState::Failed(EcnFailure::Disabled)
            },
            sent: 0,
            acked: 0,
            counts: EcnCounts::default(),
            counts_before: EcnCounts::default(),
            test: Test::default(),
        }
    }

    /// Whether the next packet is to be sent with ECT(0).
    pub(crate) fn marks_packets(&self) -> bool {
        matches!(self.state, EcnState::Testing | EcnState::Capable)
    }

    /// How far the path is trusted.
    pub(crate) const fn state(&self) -> EcnState {
        self.state
    }

    /// The packet `number` was sent with ECT(0).
    pub(crate) fn on_sent_marked(&mut self, number: PacketNumber) {
        self.sent = self.sent.saturating_add(1);
        if self.state == EcnState::Testing {
            self.test.first.get_or_insert(number);
            self.test.sent += 1;
            if self.test.sent >= TEST_PACKETS {
                self.state = EcnState::Unknown;
            }
        }
    }

    /// The packet `number`, sent with ECT(0), was declared lost. What the same
    /// datagram acknowledges is to be reported before.
    pub(crate) fn on_lost_marked(&mut self, number: PacketNumber) {
        let belongs_to_test = self.test.first.is_some_and(|first| number >= first);
        if self.state != EcnState::Unknown || !belongs_to_test {
            return;
        }
        self.test.lost += 1;
        if self.test.acked == 0 && self.test.lost >= TEST_PACKETS {
            self.fail(EcnFailure::AllLost);
        }
    }

    /// Takes an ACK in; answers how many packets it newly reports as marked CE,
    /// 0 on a path that is not trusted.
    pub(crate) fn on_ack(&mut self, ack: &EcnAck) -> u64 {
        self.acked = self.acked.saturating_add(ack.newly_acked_ect);
        self.test.acked = self.test.acked.saturating_add(ack.newly_acked_ect);
        let is_failed = matches!(self.state, EcnState::Failed(_));
        let Some(counts) = ack.counts else {
            if !is_failed && ack.newly_acked_ect > 0 && ack.advances_largest {
                self.fail(EcnFailure::NoCounts);
            }
            return 0;
        };
        if self.is_older(&counts) {
            return 0;
        }
        let newly_marked = counts.ce - self.counts.ce;
        self.counts = counts;
        if is_failed {
            return 0;
        }
        if ack.advances_largest
            && let Some(failure) = self.contradiction()
        {
            self.fail(failure);
        } else if ack.newly_acked_ect > 0 && self.state != EcnState::Capable {
            self.judge_test();
        }
        match self.state {
            EcnState::Failed(_) => 0,
            _ => newly_marked,
        }
    }

    /// The path leads over a new address: it is tested afresh. The counts go
    /// on, as the packet numbers do; what the old address did to them is
    /// forgiven.
    pub(crate) fn on_path_change(&mut self) {
        if self.state == EcnState::Failed(EcnFailure::Disabled) {
            return;
        }
        let counted = self.counted();
        *self = Self {
            state: EcnState::Testing,
            sent: self.sent.max(counted),
            acked: self.acked.min(counted),
            counts: self.counts,
            counts_before: self.counts,
            test: Test::default(),
        };
    }

    fn fail(&mut self, failure: EcnFailure) {
        self.state = EcnState::Failed(failure);
    }

    fn is_older(&self, counts: &EcnCounts) -> bool {
        counts.ect0 < self.counts.ect0
            || counts.ect1 < self.counts.ect1
            || counts.ce < self.counts.ce
    }

    /// Packets sent with ECT(0) that arrived with a mark.
    fn counted(&self) -> u64 {
        self.counts.ect0.saturating_add(self.counts.ce)
    }

    fn contradiction(&self) -> Option<EcnFailure> {
        if self.counted() < self.acked {
            Some(EcnFailure::Cleared)
        } else if self.counted() > self.sent || self.counts.ect1 > self.counts_before.ect1 {
            Some(EcnFailure::Forged)
        } else {
            None
        }
    }

    /// The first counts that agree settle the test, unless all are CE: then as
    /// many as were sent for it are awaited.
    fn judge_test(&mut self) {
        if self.counts.ect0 > self.counts_before.ect0 {
            self.state = EcnState::Capable;
        } else if self.test.acked.saturating_add(self.test.lost) >= TEST_PACKETS {
            self.fail(EcnFailure::AllMarked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(ect0: u64, ce: u64) -> Option<EcnCounts> {
        Some(EcnCounts { ect0, ect1: 0, ce })
    }

    fn ack(newly_acked_ect: u64, counts: Option<EcnCounts>) -> EcnAck {
        EcnAck {
            newly_acked_ect,
            advances_largest: true,
            counts,
        }
    }

    fn tested() -> EcnValidator {
        let mut ecn = EcnValidator::new(true);
        for number in 0..TEST_PACKETS {
            assert!(ecn.marks_packets());
            ecn.on_sent_marked(PacketNumber(number));
        }
        ecn
    }

    fn capable() -> EcnValidator {
        let mut ecn = tested();
        assert_eq!(ecn.on_ack(&ack(1, counts(1, 0))), 0);
        assert_eq!(ecn.state(), EcnState::Capable);
        ecn
    }

    fn failed(ecn: &EcnValidator, failure: EcnFailure) {
        assert_eq!(ecn.state(), EcnState::Failed(failure));
        assert!(!ecn.marks_packets());
    }

    #[test]
    fn ten_packets_are_marked_and_the_verdict_awaited() {
        let ecn = tested();
        assert_eq!(ecn.state(), EcnState::Unknown);
        assert!(!ecn.marks_packets());
    }

    #[test]
    fn counts_that_agree_make_the_path_capable() {
        assert!(capable().marks_packets());
    }

    #[test]
    fn marks_are_counted_once() {
        let mut ecn = capable();
        assert_eq!(ecn.on_ack(&ack(3, counts(3, 1))), 1);
        assert_eq!(ecn.on_ack(&ack(0, counts(3, 1))), 0);
        assert_eq!(ecn.on_ack(&ack(2, counts(3, 3))), 2);
        assert_eq!(ecn.counts.ce, 3);
    }

    #[test]
    fn a_reordered_ack_neither_fails_the_path_nor_takes_marks_back() {
        let mut ecn = capable();
        assert_eq!(ecn.on_ack(&ack(4, counts(5, 2))), 2);
        let late = EcnAck {
            newly_acked_ect: 2,
            advances_largest: false,
            counts: counts(3, 0),
        };
        assert_eq!(ecn.on_ack(&late), 0);
        assert_eq!(ecn.on_ack(&ack(1, counts(6, 2))), 0);
        assert_eq!(ecn.state(), EcnState::Capable);
    }

    #[test]
    fn a_lost_ack_hides_no_mark() {
        let mut ecn = capable();
        // The ACK that reported (3, 2) was lost.
        assert_eq!(ecn.on_ack(&ack(2, counts(5, 3))), 3);
    }

    #[test]
    fn an_arrival_counted_first_and_named_later_is_no_cleared_mark() {
        let mut ecn = capable();
        // Five arrivals are counted, and only one of them is named.
        ecn.on_ack(&ack(1, counts(6, 0)));
        ecn.on_ack(&ack(5, counts(7, 0)));
        assert_eq!(ecn.state(), EcnState::Capable);
    }

    #[test]
    fn cleared_marks_fail_the_path() {
        let mut ecn = tested();
        ecn.on_ack(&ack(2, counts(1, 0)));
        failed(&ecn, EcnFailure::Cleared);
    }

    #[test]
    fn acks_without_counts_fail_the_path() {
        let mut ecn = tested();
        ecn.on_ack(&ack(1, None));
        failed(&ecn, EcnFailure::NoCounts);
        let mut ecn = capable();
        ecn.on_ack(&ack(0, None));
        assert_eq!(
            ecn.state(),
            EcnState::Capable,
            "no marked packet, no count due"
        );
    }

    #[test]
    fn marks_never_sent_fail_the_path() {
        let mut ecn = capable();
        ecn.on_ack(&ack(1, counts(11, 0)));
        failed(&ecn, EcnFailure::Forged);
        let mut ecn = capable();
        let forged = Some(EcnCounts {
            ect0: 2,
            ect1: 1,
            ce: 0,
        });
        ecn.on_ack(&ack(1, forged));
        failed(&ecn, EcnFailure::Forged);
    }

    #[test]
    fn marked_packets_that_all_vanish_fail_the_path() {
        let mut ecn = tested();
        for number in 1..TEST_PACKETS {
            ecn.on_lost_marked(PacketNumber(number));
        }
        assert_eq!(ecn.state(), EcnState::Unknown);
        ecn.on_lost_marked(PacketNumber(0));
        failed(&ecn, EcnFailure::AllLost);
    }

    #[test]
    fn losses_on_a_capable_path_do_not_fail_it() {
        let mut ecn = capable();
        for number in 10..110 {
            ecn.on_sent_marked(PacketNumber(number));
            ecn.on_lost_marked(PacketNumber(number));
        }
        assert_eq!(ecn.state(), EcnState::Capable);
    }

    #[test]
    fn a_path_that_marks_everything_is_not_believed() {
        let mut ecn = tested();
        let mut reported = 0;
        for packet in 1..=TEST_PACKETS {
            reported += ecn.on_ack(&ack(1, counts(0, packet)));
        }
        failed(&ecn, EcnFailure::AllMarked);
        assert_eq!(reported, TEST_PACKETS - 1, "believed until it is proven");
    }

    #[test]
    fn a_new_address_is_tested_afresh_and_old_counts_stay() {
        let mut ecn = capable();
        ecn.on_ack(&ack(4, counts(5, 0)));
        ecn.on_ack(&ack(1, None));
        failed(&ecn, EcnFailure::NoCounts);
        ecn.on_path_change();
        assert_eq!(ecn.state(), EcnState::Testing);
        // What was on its way to the old address says nothing about the new one.
        for number in 0..TEST_PACKETS {
            ecn.on_lost_marked(PacketNumber(number));
            ecn.on_sent_marked(PacketNumber(TEST_PACKETS + number));
        }
        ecn.on_lost_marked(PacketNumber(9));
        assert_eq!(ecn.on_ack(&ack(1, counts(6, 1))), 1);
        assert_eq!(ecn.state(), EcnState::Capable);
    }

    #[test]
    fn marks_cleared_on_the_way_to_the_old_address_are_forgiven() {
        let mut ecn = tested();
        ecn.on_ack(&ack(8, counts(1, 0)));
        failed(&ecn, EcnFailure::Cleared);
        ecn.on_path_change();
        ecn.on_sent_marked(PacketNumber(10));
        ecn.on_ack(&ack(1, counts(2, 0)));
        assert_eq!(ecn.state(), EcnState::Capable);
    }

    #[test]
    fn a_disabled_path_stays_unmarked() {
        let mut ecn = EcnValidator::new(false);
        ecn.on_path_change();
        assert_eq!(ecn.on_ack(&ack(1, counts(1, 1))), 0);
        failed(&ecn, EcnFailure::Disabled);
    }

    #[test]
    fn counts_of_any_size_are_harmless() {
        let mut ecn = tested();
        let all = Some(EcnCounts {
            ect0: u64::MAX,
            ect1: u64::MAX,
            ce: u64::MAX,
        });
        for advances_largest in [false, true] {
            let mut ack = ack(u64::MAX, all);
            ack.advances_largest = advances_largest;
            ecn.on_ack(&ack);
        }
    }
}
