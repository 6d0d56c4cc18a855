//! What the sender knows of each segment on its way.
//!
//! Algorithm: [RFC6675] §4. `IsLost` for full segments means that three SACKed
//! ones lie above, so one edge, below which every segment without SACK is lost,
//! says it all; it only moves up. SACKed runs are skipped by links from each
//! segment to the next without SACK, shortened as they are walked. So an ACK
//! costs a constant number of steps per segment over the segment's life,
//! however long the window is.

use std::collections::VecDeque;

use ctcp_units::Instant;

/// SACKed segments above one that make it lost, DupThresh.
pub(crate) const DUP_THRESH: usize = 3;

/// A segment on its way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) len: u32,
    /// Number of the last transmission.
    pub(crate) number: u64,
    pub(crate) sent_at: Instant,
    /// Transmissions thought to be in the network.
    in_pipe: u8,
    pub(crate) is_sacked: bool,
    pub(crate) is_lost: bool,
    /// Sent again since it was found lost.
    is_resent: bool,
    /// Sent more than once: gives no RTT sample (Karn).
    pub(crate) was_resent: bool,
    pub(crate) is_app_limited: bool,
    /// A segment at or after this one, with nothing but SACKed ones between.
    next_unsacked: u64,
    /// Delivery so far when it was sent.
    pub(crate) rate: RateMark,
}

/// State of delivery when a segment was sent, for its rate sample.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RateMark {
    pub(crate) delivered: u64,
    pub(crate) delivered_at: Instant,
    pub(crate) first_sent_at: Instant,
    pub(crate) in_flight: u64,
    pub(crate) lost: u64,
}

/// What one ACK newly told.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct News {
    /// Segments by which the cumulative ACK advanced.
    pub(crate) advanced: u64,
    /// Segments newly known to have arrived.
    pub(crate) delivered: u64,
    /// The newest transmission among them.
    pub(crate) newest: Option<Sent>,
    /// When the newest of them was sent, if it was sent only once and nothing that
    /// was sent again came in order with it.
    pub(crate) sample_sent_at: Option<Instant>,
}

impl News {
    fn add(&mut self, segment: &Sent) {
        self.delivered += 1;
        if self
            .newest
            .is_none_or(|newest| newest.number < segment.number)
        {
            self.newest = Some(*segment);
        }
        if !segment.was_resent {
            self.sample_sent_at = self.sample_sent_at.max(Some(segment.sent_at));
        }
    }
}

/// Segments newly found lost.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Losses {
    pub(crate) count: u64,
    /// Numbers of the oldest and the newest of their transmissions.
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) last_sent_at: Instant,
}

impl Losses {
    fn add(&mut self, segment: &Sent) {
        if self.count == 0 || segment.number < self.first {
            self.first = segment.number;
        }
        if self.count == 0 || segment.number > self.last {
            self.last = segment.number;
            self.last_sent_at = segment.sent_at;
        }
        self.count += 1;
    }
}

/// The segments from the first unacknowledged one to the last one sent.
#[derive(Debug, Default)]
pub(crate) struct Scoreboard {
    /// The first segment not acknowledged.
    una: u64,
    segments: VecDeque<Sent>,
    pipe: u64,
    sacked: u64,
    /// Segments found lost and not acknowledged, sent again or not.
    lost: u64,
    /// Of these, not sent again.
    to_resend: u64,
    /// The three highest SACKed segments plus one, ascending.
    top: [u64; DUP_THRESH],
    /// Segments below were judged by [`Scoreboard::find_losses`].
    judged_to: u64,
    /// No segment below is to be sent again.
    resend_from: u64,
}

impl Scoreboard {
    /// The first segment not acknowledged.
    pub(crate) fn una(&self) -> u64 {
        self.una
    }

    /// The next one to be sent for the first time.
    pub(crate) fn next(&self) -> u64 {
        self.una + self.segments.len() as u64
    }

    /// Segments sent and not cumulatively acknowledged, `FlightSize`.
    pub(crate) fn outstanding(&self) -> u64 {
        self.segments.len() as u64
    }

    /// Transmissions thought to be in the network, `pipe`.
    pub(crate) fn pipe(&self) -> u64 {
        self.pipe
    }

    pub(crate) fn sacked(&self) -> u64 {
        self.sacked
    }

    /// Segments found lost that have not arrived since.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Segments found lost and not sent again.
    pub(crate) fn to_resend(&self) -> u64 {
        self.to_resend
    }

    pub(crate) fn get(&self, sequence: u64) -> Option<&Sent> {
        let place = sequence.checked_sub(self.una)?;
        self.segments.get(place as usize)
    }

    fn place(&self, sequence: u64) -> usize {
        (sequence - self.una) as usize
    }

    /// A new segment was sent.
    pub(crate) fn push(
        &mut self,
        now: Instant,
        number: u64,
        len: u32,
        is_app_limited: bool,
        rate: RateMark,
    ) {
        let sequence = self.next();
        self.segments.push_back(Sent {
            len,
            number,
            sent_at: now,
            in_pipe: 1,
            is_sacked: false,
            is_lost: false,
            is_resent: false,
            was_resent: false,
            is_app_limited,
            next_unsacked: sequence,
            rate,
        });
        self.pipe += 1;
    }

    /// A segment was sent again.
    pub(crate) fn resend(&mut self, now: Instant, sequence: u64, number: u64, rate: RateMark) {
        let place = self.place(sequence);
        let segment = &mut self.segments[place];
        if segment.is_lost && !segment.is_resent {
            segment.is_resent = true;
            self.to_resend -= 1;
        }
        segment.in_pipe += 1;
        segment.was_resent = true;
        segment.number = number;
        segment.sent_at = now;
        segment.rate = rate;
        self.pipe += 1;
    }

    /// The next lost segment to be sent again: rule (1) of `NextSeg`.
    pub(crate) fn next_to_resend(&mut self) -> Option<u64> {
        if self.to_resend == 0 {
            return None;
        }
        let mut sequence = self.resend_from.max(self.una);
        loop {
            let segment = self.get(sequence).expect("a segment to resend is there");
            if segment.is_lost && !segment.is_resent {
                self.resend_from = sequence;
                return Some(sequence);
            }
            sequence += 1;
        }
    }

    /// The lowest segment from `from` on that is neither SACKed nor sent again
    /// and lies below a SACKed one: rule (3) of `NextSeg`.
    pub(crate) fn next_hole(&mut self, from: u64) -> Option<u64> {
        let mut sequence = self.find_unsacked(from.max(self.una));
        while sequence < self.top[DUP_THRESH - 1] {
            if !self.get(sequence)?.was_resent {
                return Some(sequence);
            }
            sequence = self.find_unsacked(sequence + 1);
        }
        None
    }

    /// The last segment, if it has not arrived: rule (4) of `NextSeg`.
    pub(crate) fn last_unsacked(&self) -> Option<u64> {
        let place = self.segments.iter().rposition(|one| !one.is_sacked)?;
        Some(self.una + place as u64)
    }

    /// The first segment at or after `sequence` that is not SACKed; the end if
    /// there is none.
    fn find_unsacked(&mut self, sequence: u64) -> u64 {
        let end = self.next();
        let mut at = sequence;
        while at < end {
            let place = self.place(at);
            let next = self.segments[place].next_unsacked;
            if next == at {
                return at;
            }
            if next < end {
                // Halve the way for whoever comes next.
                let beyond = self.segments[self.place(next)].next_unsacked;
                self.segments[place].next_unsacked = beyond;
            }
            at = next;
        }
        end
    }

    /// Takes in an acknowledgement.
    pub(crate) fn on_ack(&mut self, cumulative: u64, blocks: &[(u64, u64)]) -> News {
        let mut news = News::default();
        let mut has_repair = false;
        while self.una < cumulative
            && let Some(segment) = self.segments.pop_front()
        {
            self.una += 1;
            news.advanced += 1;
            self.pipe -= u64::from(segment.in_pipe);
            self.sacked -= u64::from(segment.is_sacked);
            self.lost -= u64::from(segment.is_lost);
            self.to_resend -= u64::from(segment.is_lost && !segment.is_resent);
            if !segment.is_sacked {
                has_repair |= segment.was_resent;
                news.add(&segment);
            }
        }
        // What waited at the receiver behind a repair tells how long that took,
        // not how long the path is: the other half of Karn's rule ([RFC6298] §3).
        if has_repair {
            news.sample_sent_at = None;
        }
        for &(from, to) in blocks {
            let end = to.min(self.next());
            let mut sequence = self.find_unsacked(from.max(self.una));
            while sequence < end {
                self.sack(sequence, &mut news);
                sequence = self.find_unsacked(sequence + 1);
            }
        }
        news
    }

    fn sack(&mut self, sequence: u64, news: &mut News) {
        let place = self.place(sequence);
        let segment = &mut self.segments[place];
        news.add(segment);
        self.pipe -= u64::from(segment.in_pipe);
        self.lost -= u64::from(segment.is_lost);
        self.to_resend -= u64::from(segment.is_lost && !segment.is_resent);
        segment.in_pipe = 0;
        segment.is_lost = false;
        segment.is_sacked = true;
        segment.next_unsacked = sequence + 1;
        self.sacked += 1;
        // Keep the three highest.
        let mut rising = sequence + 1;
        for place in (0..DUP_THRESH).rev() {
            if rising > self.top[place] {
                core::mem::swap(&mut rising, &mut self.top[place]);
            }
        }
    }

    /// Marks what now counts as lost: `IsLost`.
    pub(crate) fn find_losses(&mut self) -> Losses {
        let mut losses = Losses::default();
        // The third highest SACKed segment: below it everything is decided.
        let edge = self.top[0].saturating_sub(1);
        if edge <= self.judged_to {
            return losses;
        }
        let mut sequence = self.find_unsacked(self.judged_to.max(self.una));
        while sequence < edge {
            if !self.segments[self.place(sequence)].is_lost {
                self.mark_lost(sequence, &mut losses);
            }
            sequence = self.find_unsacked(sequence + 1);
        }
        self.judged_to = edge;
        losses
    }

    /// Marks a segment lost that is neither SACKed nor waits to be sent again.
    pub(crate) fn mark_lost(&mut self, sequence: u64, losses: &mut Losses) {
        let place = self.place(sequence);
        let segment = &mut self.segments[place];
        if segment.is_sacked || (segment.is_lost && !segment.is_resent) {
            return;
        }
        losses.add(segment);
        self.lost += u64::from(!segment.is_lost);
        segment.is_lost = true;
        segment.is_resent = false;
        self.to_resend += 1;
        self.pipe -= u64::from(segment.in_pipe);
        segment.in_pipe = 0;
        self.resend_from = self.resend_from.min(sequence);
    }

    /// The `rank`-th highest SACKed segment plus one: below its place, that many
    /// lie above.
    pub(crate) fn sacked_top(&self, rank: usize) -> u64 {
        self.top[DUP_THRESH - rank].saturating_sub(1)
    }

    /// Whether losses below `sequence` were looked for.
    pub(crate) fn is_judged(&self, sequence: u64) -> bool {
        sequence <= self.judged_to
    }

    pub(crate) fn judge_to(&mut self, sequence: u64) {
        self.judged_to = self.judged_to.max(sequence);
    }

    /// A segment that is not waited for any more, though it may be lacking.
    pub(crate) fn abandon(&mut self, sequence: u64) {
        let place = self.place(sequence);
        let segment = &mut self.segments[place];
        self.pipe -= u64::from(segment.in_pipe);
        segment.in_pipe = 0;
    }

    /// After a timeout everything without SACK is to be sent again.
    pub(crate) fn mark_all_lost(&mut self) {
        for segment in &mut self.segments {
            if !segment.is_sacked {
                segment.is_lost = true;
                segment.is_resent = false;
            }
            segment.in_pipe = 0;
        }
        self.lost = self.outstanding() - self.sacked;
        self.to_resend = self.lost;
        self.pipe = 0;
        self.resend_from = self.una;
        self.judged_to = self.next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(count: u64) -> Scoreboard {
        let mut board = Scoreboard::default();
        for number in 0..count {
            board.push(Instant::EPOCH, number, 1448, false, RateMark::default());
        }
        board
    }

    #[test]
    fn three_sacked_above_make_a_segment_lost_and_two_do_not() {
        let mut board = board(10);
        board.on_ack(1, &[(2, 4)]);
        assert_eq!(board.find_losses().count, 0);
        board.on_ack(1, &[(2, 5)]);
        assert_eq!(board.find_losses().count, 1);
        assert_eq!(board.next_to_resend(), Some(1));
        // Nine outstanding, three of them SACKed, one lost.
        assert_eq!((board.outstanding(), board.pipe()), (9, 5));
        board.resend(Instant::EPOCH, 1, 10, RateMark::default());
        assert_eq!((board.next_to_resend(), board.pipe()), (None, 6));
    }

    #[test]
    fn a_segment_counts_as_delivered_once() {
        let mut board = board(6);
        assert_eq!(board.on_ack(0, &[(1, 3)]).delivered, 2);
        assert_eq!(board.on_ack(0, &[(1, 4)]).delivered, 1);
        let news = board.on_ack(5, &[]);
        assert_eq!((news.advanced, news.delivered), (5, 2));
        assert_eq!((board.una(), board.pipe(), board.sacked()), (5, 1, 0));
    }

    #[test]
    fn what_waited_behind_a_repair_is_no_round_trip() {
        let mut board = board(4);
        let mut losses = Losses::default();
        board.mark_lost(0, &mut losses);
        board.resend(Instant::EPOCH, 0, 4, RateMark::default());
        assert_eq!(board.on_ack(3, &[]).sample_sent_at, None);
        assert_eq!(board.on_ack(4, &[]).sample_sent_at, Some(Instant::EPOCH));
    }

    #[test]
    fn after_a_timeout_all_but_the_sacked_are_sent_again_in_order() {
        let mut board = board(5);
        board.on_ack(0, &[(2, 3)]);
        board.mark_all_lost();
        assert_eq!(board.pipe(), 0);
        let mut resent = Vec::new();
        while let Some(sequence) = board.next_to_resend() {
            resent.push(sequence);
            board.resend(Instant::EPOCH, sequence, 9, RateMark::default());
        }
        assert_eq!(resent, [0, 1, 3, 4]);
        assert_eq!(board.pipe(), 4);
    }

    /// Random ACKs against a board that is recomputed from scratch.
    #[test]
    fn counts_agree_with_a_board_that_recounts() {
        let mut random = ctcp_units::Random::from_seed(9);
        let mut board = Scoreboard::default();
        let mut number = 0;
        let mut received = std::collections::BTreeSet::new();
        for _ in 0..30_000 {
            match random.below(4) {
                0 | 1 if board.outstanding() < 80 => {
                    board.push(Instant::EPOCH, number, 1, false, RateMark::default());
                    number += 1;
                }
                2 => {
                    if let Some(sequence) = board.next_to_resend() {
                        board.resend(Instant::EPOCH, sequence, number, RateMark::default());
                        number += 1;
                    }
                }
                _ if board.outstanding() > 0 => {
                    let arrived = board.una() + random.below(board.outstanding());
                    received.insert(arrived);
                    let mut cumulative = board.una();
                    while received.remove(&cumulative) {
                        cumulative += 1;
                    }
                    let blocks = [(arrived, arrived + 1)];
                    board.on_ack(cumulative, &blocks);
                    board.find_losses();
                }
                _ => {}
            }
            let end = board.next();
            let all = || (board.una()..end).map(|sequence| board.get(sequence).unwrap());
            assert_eq!(
                board.pipe(),
                all().map(|one| u64::from(one.in_pipe)).sum::<u64>()
            );
            assert_eq!(
                board.sacked(),
                all().filter(|one| one.is_sacked).count() as u64
            );
            for sequence in board.una()..end {
                let above = received.range(sequence + 1..).count();
                let one = board.get(sequence).unwrap();
                assert_eq!(one.is_sacked, received.contains(&sequence));
                assert_eq!(
                    one.is_lost,
                    !one.is_sacked && above >= DUP_THRESH,
                    "{sequence}"
                );
            }
        }
    }
}
