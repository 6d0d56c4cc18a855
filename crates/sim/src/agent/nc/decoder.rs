//! Seen packets and decoded ones.
//!
//! Rows are kept reduced: row k is packet k plus a combination of packets that
//! are not seen. So only the columns of unseen packets hold anything, and a row
//! without any is decoded.

use std::collections::VecDeque;

use ctcp_gf256::{Kernel, inv};

use super::{Combination, SPAN, content, place};

/// What became of a combination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// It made one more packet seen.
    Innovative,
    /// It told nothing new.
    Useless,
}

/// A packet that was seen.
#[derive(Debug)]
struct Seen {
    /// Coefficients of packets not seen, and content; its own coefficient, 1, is
    /// left out.
    row: Vec<u8>,
    is_decoded: bool,
}

/// The receiver's matrix.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// Number of the first row kept.
    first: u64,
    /// Rows of consecutive packets; `None`: not seen.
    rows: VecDeque<Option<Seen>>,
    /// The first packet not seen.
    unseen: u64,
    /// The first packet not delivered.
    undelivered: u64,
    /// One more than the last packet of any combination.
    to: u64,
    /// Rows for reuse.
    spare: Vec<Vec<u8>>,
    row: Vec<u8>,
}

impl Decoder {
    /// The first packet not seen: what is acknowledged.
    pub(crate) fn unseen(&self) -> u64 {
        self.unseen
    }

    /// The first packet not delivered.
    pub(crate) fn undelivered(&self) -> u64 {
        self.undelivered
    }

    fn get(&self, number: u64) -> Option<&Seen> {
        let index = number.checked_sub(self.first)?;
        self.rows.get(index as usize)?.as_ref()
    }

    /// Takes in a combination.
    pub(crate) fn push(&mut self, combination: &Combination) -> Heard {
        self.to = self.to.max(combination.to);
        let mut row = core::mem::take(&mut self.row);
        row.clear();
        row.extend_from_slice(combination.row.bytes());
        let heard = self.reduce(combination, &mut row);
        self.row = row;
        self.deliver(combination.from);
        heard
    }

    /// Subtracts what is known; keeps what is left.
    fn reduce(&mut self, combination: &Combination, row: &mut [u8]) -> Heard {
        if combination.from < self.first {
            return Heard::Useless;
        }
        let kernel = Kernel::active();
        for number in combination.from..combination.to {
            let coefficient = row[place(number)];
            if coefficient == 0 {
                continue;
            }
            if let Some(seen) = self.get(number) {
                kernel.mul_add(row, coefficient, &seen.row);
                row[place(number)] = 0;
            }
        }
        let from = self.unseen.max(combination.from);
        let Some(pivot) = (from..combination.to).find(|&number| row[place(number)] != 0) else {
            return Heard::Useless;
        };
        let inverse = inv(row[place(pivot)]).expect("the pivot is not zero");
        kernel.mul(row, inverse);
        for seen in self.rows.iter_mut().flatten() {
            let coefficient = seen.row[place(pivot)];
            if coefficient != 0 {
                kernel.mul_add(&mut seen.row, coefficient, row);
            }
        }
        self.insert(pivot, row);
        while self.get(self.unseen).is_some() {
            self.unseen += 1;
        }
        for index in 0..self.rows.len() {
            self.settle(self.first + index as u64);
        }
        Heard::Innovative
    }

    fn insert(&mut self, number: u64, row: &[u8]) {
        let index = (number - self.first) as usize;
        while self.rows.len() <= index {
            self.rows.push_back(None);
        }
        let mut kept = self.spare.pop().unwrap_or_default();
        kept.clear();
        kept.extend_from_slice(row);
        kept[place(number)] = 0;
        self.rows[index] = Some(Seen {
            row: kept,
            is_decoded: false,
        });
    }

    /// A row with nothing but its own packet is decoded.
    fn settle(&mut self, number: u64) {
        let index = (number - self.first) as usize;
        let unseen = self.unseen..self.to;
        let Some(seen) = &mut self.rows[index] else {
            return;
        };
        if seen.is_decoded {
            return;
        }
        // Mostly the first coefficient looked at is one.
        if unseen.clone().all(|other| seen.row[place(other)] == 0) {
            assert_eq!(
                seen.row[SPAN..],
                content(number),
                "packet {number} was decoded to something else"
            );
            seen.is_decoded = true;
        }
    }

    /// Delivers what is decoded in order; forgets rows that no combination will
    /// name again.
    fn deliver(&mut self, window_from: u64) {
        while self
            .get(self.undelivered)
            .is_some_and(|seen| seen.is_decoded)
        {
            self.undelivered += 1;
        }
        // Combinations made earlier may come late.
        let keep_from = window_from
            .min(self.undelivered)
            .saturating_sub(SPAN as u64 / 2);
        while self.first < keep_from
            && let Some(row) = self.rows.pop_front()
        {
            self.first += 1;
            if let Some(seen) = row {
                self.spare.push(seen.row);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Numerator;
    use super::super::encoder::Encoder;
    use super::*;
    use ctcp_units::Random;

    #[test]
    fn a_loss_delays_what_is_seen_and_makes_no_duplicate() {
        // [MODEL] Fig. 1: three packets, the second combination is lost.
        let mut encoder = Encoder::new(Random::from_seed(1));
        let mut decoder = Decoder::default();
        for number in 0..3 {
            encoder.push(number, 1000);
        }
        let one = encoder.combine().unwrap();
        encoder.combine().unwrap();
        let three = encoder.combine().unwrap();
        assert_eq!(decoder.push(&one), Heard::Innovative);
        assert_eq!((decoder.unseen(), decoder.undelivered()), (1, 0));
        assert_eq!(decoder.push(&three), Heard::Innovative);
        assert_eq!((decoder.unseen(), decoder.undelivered()), (2, 0));
        assert_eq!(decoder.push(&three), Heard::Useless);
        let four = encoder.combine().unwrap();
        assert_eq!(decoder.push(&four), Heard::Innovative);
        assert_eq!((decoder.unseen(), decoder.undelivered()), (3, 3));
    }

    #[test]
    fn every_packet_is_decoded_over_a_lossy_way() {
        let mut random = Random::from_seed(4);
        let mut encoder = Encoder::new(random.fork(1));
        let mut decoder = Decoder::default();
        let mut numerator = Numerator::new(1.4);
        let mut next = 0;
        while decoder.undelivered() < 20_000 {
            if next < decoder.unseen() + 90 {
                encoder.push(next, 1000);
                next += 1;
            }
            // ACKs come late: the window keeps what was seen a while.
            encoder.acknowledge(decoder.unseen().saturating_sub(random.below(20)));
            for _ in 0..numerator.next() {
                if let Some(combination) = encoder.combine()
                    && !random.chance(0.2)
                {
                    decoder.push(&combination);
                }
            }
            assert!(decoder.rows.len() < 1000, "{}", decoder.rows.len());
        }
        assert!(next >= 20_000);
    }
}
