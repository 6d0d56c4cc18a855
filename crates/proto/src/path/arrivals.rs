//! The packets that arrived on one path, and the ACKs that report them
//! (architecture 12).
//!
//! An ACK goes out for every second packet that asks for one, at once if the
//! sender wishes so, else within [`ACK_DELAY_MAX`]. It reports every range that
//! saw an arrival since the sixteenth ACK before it, newest first: each arrival
//! is in at least three successive ACKs even when losses cut the path into more
//! ranges than one ACK holds, because an ACK is due as soon as so many new
//! ranges have opened that the next would push them out.

use core::ops::RangeInclusive;

use ctcp_units::{Duration, Instant, PathId};

use super::ranges::RangeSet;
use crate::wire::{ACK_RANGES_MAX, EcnCounts, Frame};
use crate::{Ecn, wire};

/// Longest time an ACK is held back.
pub(crate) const ACK_DELAY_MAX: Duration = Duration::from_millis(2);
/// Packets that ask for an ACK before one is sent.
const ACK_EVERY: u32 = 2;
/// Successive ACKs that report an arrival.
const REPEATS: usize = 16;
/// A new range per ACK at most this often, so that 64 ranges hold three ACKs.
const NEW_RANGES_MAX: u32 = (ACK_RANGES_MAX / 4) as u32;

#[derive(Debug)]
pub(crate) struct Arrivals {
    numbers: RangeSet,
    largest: Option<(u64, Instant)>,
    /// Packets that asked for an ACK, ever.
    eliciting: u64,
    ecn: EcnCounts,
    unreported: u32,
    new_ranges: u32,
    due: Option<Instant>,
    /// Lowest number that arrived since the last ACK, and before each of the
    /// ACKs before it.
    low: u64,
    lows: [u64; REPEATS],
    next_low: usize,
    scratch: Vec<RangeInclusive<u64>>,
}

impl Arrivals {
    pub(crate) fn new() -> Self {
        Self {
            numbers: RangeSet::default(),
            largest: None,
            eliciting: 0,
            ecn: wire::ECN_NONE,
            unreported: 0,
            new_ranges: 0,
            due: None,
            low: u64::MAX,
            lows: [u64::MAX; REPEATS],
            next_low: 0,
            scratch: Vec::with_capacity(ACK_RANGES_MAX),
        }
    }

    /// The number that comes next if nothing is lost, to restore truncated ones.
    pub(crate) fn expected(&self) -> u64 {
        self.largest.map_or(0, |(number, _)| number + 1)
    }

    /// A packet arrived for the first time; returns whether it is the newest.
    pub(crate) fn on_packet(&mut self, now: Instant, number: u64, ecn: Option<Ecn>) -> bool {
        let ranges_before = self.numbers.len();
        self.numbers.insert(number..=number, |_| {});
        self.new_ranges += u32::from(self.numbers.len() > ranges_before);
        self.numbers.keep_newest(4 * ACK_RANGES_MAX);
        self.low = self.low.min(number);
        match ecn {
            Some(Ecn::Ect0) => self.ecn.ect0 += 1,
            Some(Ecn::Ce) => self.ecn.ce += 1,
            // Never sent here: whoever remarked it is found out by the count.
            Some(Ecn::Ect1) | None => {}
        }
        let is_newest = self.largest.is_none_or(|(largest, _)| number > largest);
        if is_newest {
            self.largest = Some((number, now));
        }
        is_newest
    }

    /// The packet just arrived asks for an ACK.
    pub(crate) fn on_ack_eliciting(&mut self, now: Instant, wants_ack_now: bool) {
        self.eliciting += 1;
        self.unreported += 1;
        let is_due =
            wants_ack_now || self.unreported >= ACK_EVERY || self.new_ranges >= NEW_RANGES_MAX;
        let due = if is_due { now } else { now + ACK_DELAY_MAX };
        self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
    }

    /// When the next ACK must leave.
    pub(crate) const fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Ranges below `floor` need not be reported any more.
    pub(crate) fn forget_below(&mut self, floor: u64) {
        let floor = floor.min(self.expected().saturating_sub(1));
        self.numbers.remove_below(floor);
    }

    /// Appends an ACK of at most `room` bytes. Returns whether one was written.
    pub(crate) fn write_ack(
        &mut self,
        now: Instant,
        path: PathId,
        out: &mut Vec<u8>,
        room: usize,
    ) -> bool {
        let Some((largest, arrived_at)) = self.largest else {
            return false;
        };
        let oldest = self
            .lows
            .iter()
            .fold(self.low, |low, other| low.min(*other));
        self.scratch.clear();
        self.scratch.extend(
            self.numbers
                .iter()
                .rev()
                .take(ACK_RANGES_MAX)
                .take_while(|range| *range.end() >= oldest || *range.end() == largest)
                .cloned(),
        );
        let is_written = Frame::write_ack(
            out,
            path,
            now - arrived_at,
            self.eliciting,
            self.ecn,
            &self.scratch,
            room,
        );
        if is_written {
            self.lows[self.next_low] = self.low;
            self.next_low = (self.next_low + 1) % REPEATS;
            self.low = u64::MAX;
            self.unreported = 0;
            self.new_ranges = 0;
            self.due = None;
        }
        is_written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::FrameIter;
    use ctcp_units::{Random, millis};

    fn acked(arrivals: &mut Arrivals, now: Instant) -> Vec<RangeInclusive<u64>> {
        let mut out = Vec::new();
        assert!(arrivals.write_ack(now, PathId(0), &mut out, 1100));
        match FrameIter::new(&out).next() {
            Some(Ok(Frame::Ack(ack))) => ack.ranges.iter().collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_second_packet_is_acknowledged_at_once() {
        let mut arrivals = Arrivals::new();
        let now = Instant::EPOCH;
        arrivals.on_packet(now, 0, None);
        arrivals.on_ack_eliciting(now, false);
        assert_eq!(arrivals.due(), Some(now + ACK_DELAY_MAX));
        arrivals.on_packet(now + millis(1), 1, None);
        arrivals.on_ack_eliciting(now + millis(1), false);
        assert_eq!(arrivals.due(), Some(now + millis(1)));
        assert_eq!(acked(&mut arrivals, now + millis(1)), [0..=1]);
        assert_eq!(arrivals.due(), None);
    }

    #[test]
    fn a_wish_for_an_ack_is_granted_at_once() {
        let mut arrivals = Arrivals::new();
        arrivals.on_packet(Instant::EPOCH, 0, None);
        arrivals.on_ack_eliciting(Instant::EPOCH, true);
        assert_eq!(arrivals.due(), Some(Instant::EPOCH));
    }

    /// The contract of architecture 12, at heavy loss and reordering.
    #[test]
    fn every_arrival_is_in_three_successive_acks() {
        for seed in 0..40 {
            let mut random = Random::from_seed(seed);
            let mut arrivals = Arrivals::new();
            let mut reports = vec![0u32; 3000];
            let mut arrived = Vec::new();
            let mut held = Vec::new();
            let mut acks = 0u32;
            for number in 0..3000u64 {
                if random.chance(0.4) {
                    continue;
                }
                if random.chance(0.05) {
                    held.push(number);
                    continue;
                }
                let mut batch = vec![number];
                if random.chance(0.2) {
                    batch.extend(held.pop());
                }
                for number in batch {
                    arrivals.on_packet(Instant::EPOCH, number, None);
                    arrivals.on_ack_eliciting(Instant::EPOCH, false);
                    arrived.push((number, acks));
                    if arrivals.due() == Some(Instant::EPOCH) {
                        acks += 1;
                        for range in acked(&mut arrivals, Instant::EPOCH) {
                            range.for_each(|n| reports[n as usize] += 1);
                        }
                    }
                }
            }
            for (number, before) in arrived {
                if acks - before >= 4 && number + 200 > before.into() {
                    assert!(
                        reports[number as usize] >= 3,
                        "seed {seed}: {number} was reported {} times",
                        reports[number as usize]
                    );
                }
            }
        }
    }

    #[test]
    fn old_ranges_are_left_out_and_memory_is_bounded() {
        let mut arrivals = Arrivals::new();
        for number in (0..100_000).step_by(2) {
            arrivals.on_packet(Instant::EPOCH, number, None);
            arrivals.on_ack_eliciting(Instant::EPOCH, false);
            if arrivals.due() == Some(Instant::EPOCH) {
                assert!(acked(&mut arrivals, Instant::EPOCH).len() <= 2 * (REPEATS + 1));
            }
        }
        assert!(arrivals.numbers.len() <= 4 * ACK_RANGES_MAX);
        arrivals.forget_below(99_990);
        assert!(arrivals.numbers.len() <= 5);
    }
}
