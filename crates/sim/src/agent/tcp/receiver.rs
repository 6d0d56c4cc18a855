//! The receiving half: what has arrived, and what is said about it.
//!
//! Runs of segments beyond the first missing one are kept as their two ends, so
//! that a segment costs a constant number of steps. The blocks reported are the
//! run that the last segment belongs to and then those touched most recently
//! ([RFC2018] §4).

use ctcp_units::Instant;

use super::{Ack, SACK_BLOCKS_MAX, Segment, TcpConfig};

/// A place in the ring beyond the first missing segment.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    has_arrived: bool,
    len: u32,
    /// At the first segment of a run: its end; at the last: its start.
    other_end: u64,
}

/// What has arrived of one connection.
#[derive(Debug)]
pub(crate) struct TcpReceiver {
    connection: u32,
    /// The first segment missing.
    next: u64,
    /// One more than the highest that arrived.
    highest: u64,
    /// A power of two of places; segment s has place s modulo that.
    ring: Vec<Slot>,
    /// Starts of the runs touched most recently, the newest first.
    recent: [u64; SACK_BLOCKS_MAX],
    recent_count: usize,
    is_ack_delayed: bool,
    ack_delay_max: core::time::Duration,
    /// Segments in order that were not acknowledged yet.
    unacknowledged: u32,
    ack_due: Option<Instant>,
    is_ack_now: bool,
    /// Congestion is echoed until the sender says that it has slowed down.
    is_congested: bool,
}

impl TcpReceiver {
    pub(crate) fn new(config: &TcpConfig, connection: u32) -> Self {
        Self {
            connection,
            next: 0,
            highest: 0,
            ring: vec![Slot::default(); 256],
            recent: [0; SACK_BLOCKS_MAX],
            recent_count: 0,
            is_ack_delayed: config.is_ack_delayed,
            ack_delay_max: config.ack_delay_max,
            unacknowledged: 0,
            ack_due: None,
            is_ack_now: false,
            is_congested: false,
        }
    }

    fn slot(&mut self, sequence: u64) -> &mut Slot {
        let mask = self.ring.len() as u64 - 1;
        &mut self.ring[(sequence & mask) as usize]
    }

    fn grow(&mut self, sequence: u64) {
        while sequence - self.next >= self.ring.len() as u64 {
            let old = core::mem::take(&mut self.ring);
            self.ring = vec![Slot::default(); old.len() * 2];
            let mask = old.len() as u64 - 1;
            for one in self.next..self.next + old.len() as u64 {
                *self.slot(one) = old[(one & mask) as usize];
            }
        }
    }

    /// A segment has arrived. Returns the application bytes that are in order
    /// now, or `None` if it had arrived before.
    pub(crate) fn on_segment(
        &mut self,
        now: Instant,
        segment: &Segment,
        is_marked: bool,
    ) -> Option<u64> {
        if segment.is_window_reduced {
            self.is_congested = false;
        }
        self.is_congested |= is_marked;
        let sequence = segment.sequence;
        if sequence >= self.next {
            self.grow(sequence);
        }
        if sequence < self.next || self.slot(sequence).has_arrived {
            self.is_ack_now = true;
            return None;
        }
        *self.slot(sequence) = Slot {
            has_arrived: true,
            len: segment.len,
            other_end: 0,
        };
        let had_holes = self.highest > self.next;
        self.highest = self.highest.max(sequence + 1);
        if sequence == self.next {
            let bytes = self.deliver();
            self.unacknowledged += 1;
            // A segment that fills a hole is acknowledged at once ([RFC5681]
            // §4.2).
            if had_holes || !self.is_ack_delayed || self.unacknowledged >= 2 || is_marked {
                self.is_ack_now = true;
            } else if self.ack_due.is_none() {
                self.ack_due = Some(now + self.ack_delay_max);
            }
            Some(bytes)
        } else {
            self.join(sequence);
            self.is_ack_now = true;
            Some(0)
        }
    }

    /// Hands on what is in order.
    fn deliver(&mut self) -> u64 {
        let mut bytes = 0;
        loop {
            let next = self.next;
            let slot = self.slot(next);
            if !slot.has_arrived {
                break;
            }
            bytes += u64::from(slot.len);
            *slot = Slot::default();
            self.next += 1;
        }
        let next = self.next;
        self.retain_recent(|start| start > next);
        bytes
    }

    /// Joins a segment with the runs beside it.
    fn join(&mut self, sequence: u64) {
        let (mut start, mut end) = (sequence, sequence + 1);
        if sequence > self.next && self.slot(sequence - 1).has_arrived {
            start = self.slot(sequence - 1).other_end;
        }
        // A slot of the ring further than its length belongs to nobody yet.
        let has_right = (sequence + 1 - self.next) < self.ring.len() as u64
            && self.slot(sequence + 1).has_arrived;
        if has_right {
            // A run of one segment names its start in the place of its end.
            end = self.slot(sequence + 1).other_end.max(sequence + 2);
            let right = sequence + 1;
            self.retain_recent(|one| one != right);
        }
        self.retain_recent(|one| one != start);
        self.set_ends(start, end);
        let kept = self.recent_count.min(SACK_BLOCKS_MAX - 1);
        self.recent.copy_within(0..kept, 1);
        self.recent[0] = start;
        self.recent_count = kept + 1;
    }

    /// Notes the run `start..end` at both its ends; the only place of a run of
    /// one segment names its start.
    fn set_ends(&mut self, start: u64, end: u64) {
        self.slot(end - 1).other_end = start;
        if end - start > 1 {
            self.slot(start).other_end = end;
        }
    }

    fn retain_recent(&mut self, keeps: impl Fn(u64) -> bool) {
        let mut kept = 0;
        for place in 0..self.recent_count {
            let start = self.recent[place];
            if keeps(start) {
                self.recent[kept] = start;
                kept += 1;
            }
        }
        self.recent_count = kept;
    }

    /// The first segment missing.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// When an acknowledgement that waits is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.ack_due
    }

    /// The acknowledgement that is due now, if one is.
    pub(crate) fn poll_ack(&mut self, now: Instant) -> Option<Ack> {
        let is_due = self.is_ack_now || self.ack_due.is_some_and(|at| at <= now);
        is_due.then(|| {
            self.is_ack_now = false;
            self.ack_due = None;
            self.unacknowledged = 0;
            self.ack()
        })
    }

    /// What would be said now.
    pub(crate) fn ack(&mut self) -> Ack {
        let mut ack = Ack {
            connection: self.connection,
            cumulative: self.next,
            is_congested: self.is_congested,
            ..Ack::default()
        };
        for place in 0..self.recent_count {
            let start = self.recent[place];
            let end = self.slot(start).other_end;
            ack.blocks[place] = (start, end.max(start + 1));
        }
        ack.block_count = self.recent_count as u8;
        ack
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctcp_units::{Random, millis};
    use std::collections::BTreeSet;

    fn receiver(is_ack_delayed: bool) -> TcpReceiver {
        let config = TcpConfig {
            is_ack_delayed,
            ..TcpConfig::default()
        };
        TcpReceiver::new(&config, 0)
    }

    fn segment(sequence: u64) -> Segment {
        Segment {
            sequence,
            len: 10,
            ..Segment::default()
        }
    }

    #[test]
    fn every_second_segment_is_acknowledged_and_a_lonely_one_after_a_while() {
        let mut receiver = receiver(true);
        let now = Instant::EPOCH;
        assert_eq!(receiver.on_segment(now, &segment(0), false), Some(10));
        assert_eq!(receiver.poll_ack(now), None);
        assert_eq!(receiver.deadline(), Some(now + millis(40)));
        assert_eq!(receiver.poll_ack(now + millis(40)).unwrap().cumulative, 1);
        receiver.on_segment(now, &segment(1), false);
        receiver.on_segment(now, &segment(2), false);
        assert_eq!(receiver.poll_ack(now).unwrap().cumulative, 3);
    }

    #[test]
    fn a_gap_is_reported_at_once_with_the_newest_run_first() {
        let mut receiver = receiver(true);
        let now = Instant::EPOCH;
        for (sequence, expected) in [
            (1, vec![(1, 2)]),
            (3, vec![(3, 4), (1, 2)]),
            (4, vec![(3, 5), (1, 2)]),
            (7, vec![(7, 8), (3, 5), (1, 2)]),
            (2, vec![(1, 5), (7, 8)]),
        ] {
            assert_eq!(receiver.on_segment(now, &segment(sequence), false), Some(0));
            assert_eq!(receiver.poll_ack(now).unwrap().blocks(), expected);
        }
        assert_eq!(receiver.on_segment(now, &segment(0), false), Some(50));
        let ack = receiver.poll_ack(now).unwrap();
        assert_eq!((ack.cumulative, ack.blocks()), (5, &[(7, 8)][..]));
        assert_eq!(receiver.on_segment(now, &segment(7), false), None);
    }

    #[test]
    fn congestion_is_echoed_until_the_sender_has_slowed_down() {
        let mut receiver = receiver(false);
        let now = Instant::EPOCH;
        receiver.on_segment(now, &segment(0), true);
        assert!(receiver.poll_ack(now).unwrap().is_congested);
        receiver.on_segment(now, &segment(1), false);
        assert!(receiver.poll_ack(now).unwrap().is_congested);
        let reduced = Segment {
            is_window_reduced: true,
            ..segment(2)
        };
        receiver.on_segment(now, &reduced, false);
        assert!(!receiver.poll_ack(now).unwrap().is_congested);
    }

    #[test]
    fn the_first_block_is_always_the_whole_run_of_the_last_segment() {
        let mut random = Random::from_seed(2);
        let mut receiver = receiver(false);
        let (mut model, mut next, mut bytes) = (BTreeSet::new(), 0, 0);
        for _ in 0..50_000 {
            let span = if random.chance(0.01) { 900 } else { 30 };
            let sequence = next + random.below(span);
            let now = Instant::EPOCH;
            let is_new = model.insert(sequence);
            let told = receiver.on_segment(now, &segment(sequence), false);
            assert_eq!(told.is_some(), is_new, "{sequence}");
            bytes += told.unwrap_or(0);
            while model.remove(&next) {
                next += 1;
            }
            let ack = receiver.poll_ack(now).unwrap();
            assert_eq!((ack.cumulative, bytes), (next, next * 10));
            for (place, &(from, to)) in ack.blocks().iter().enumerate() {
                assert!((from..to).all(|one| model.contains(&one)), "{ack:?}");
                assert!(!model.contains(&to) && (from == 0 || !model.contains(&(from - 1))));
                if place == 0 && is_new && sequence >= next {
                    assert!((from..to).contains(&sequence), "{sequence} {ack:?}");
                }
            }
        }
    }
}
