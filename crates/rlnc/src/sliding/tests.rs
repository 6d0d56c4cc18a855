use std::collections::BTreeMap;

use ctcp_gf256::{inv, mul};
use ctcp_units::{Random, SymbolId};

use super::*;
use crate::decoder::Insertion;
use crate::{Repair, coefficients};

fn seed() -> u64 {
    let seed = std::env::var("CTCP_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    println!("CTCP_SEED={seed}");
    seed
}

fn content(number: u64, len: usize) -> Vec<u8> {
    let mut content = vec![0; len];
    Random::from_seed(number).fill(&mut content);
    content
}

/// An encoder that has sent `count` symbols of `len` bytes.
fn sent(count: u64, len: usize) -> SlidingEncoder {
    let mut encoder = SlidingEncoder::new(SLIDING_MAX);
    for number in 0..count {
        assert_eq!(encoder.push(&content(number, len)), number);
    }
    encoder
}

fn repair(encoder: &SlidingEncoder, first: u64, index: u16) -> Vec<u8> {
    let mut payload = Vec::new();
    encoder
        .encode(first, index, &mut payload)
        .expect("not all zero");
    payload
}

fn take(decoder: &mut SlidingDecoder) -> Vec<(u64, Vec<u8>)> {
    let mut taken = Vec::new();
    while let Some((number, content)) = decoder.next_recovered() {
        taken.push((number, content.to_vec()));
    }
    taken
}

#[test]
fn as_many_repairs_as_symbols_were_lost_bring_them_back() {
    let encoder = sent(10, 100);
    let mut decoder = SlidingDecoder::new(SLIDING_MAX, 1400);
    for number in [0, 1, 3, 4, 6, 8, 9] {
        let got = decoder.insert_symbol(number, &content(number, 100));
        assert_eq!(got, Ok(Insertion::Innovative));
    }
    for index in 0..3 {
        assert_eq!(take(&mut decoder), []);
        let payload = repair(&encoder, 0, index);
        let got = decoder.insert_repair(0, 10, index, &payload);
        assert_eq!(got, Ok(Insertion::Innovative));
    }
    let lost = [2, 5, 7].map(|number| (number, content(number, 100)));
    assert_eq!(take(&mut decoder), lost);
    let again = decoder.insert_repair(0, 10, 3, &repair(&encoder, 0, 3));
    assert_eq!(again, Ok(Insertion::Dependent));
}

#[test]
fn a_symbol_that_arrives_late_frees_the_repair_for_another() {
    let encoder = sent(4, 30);
    let mut decoder = SlidingDecoder::new(SLIDING_MAX, 1400);
    let payload = repair(&encoder, 0, 9);
    decoder.insert_repair(0, 4, 9, &payload).unwrap();
    for number in [3, 0] {
        decoder.insert_symbol(number, &content(number, 30)).unwrap();
        assert_eq!(take(&mut decoder), []);
    }
    decoder.insert_symbol(1, &content(1, 30)).unwrap();
    assert_eq!(take(&mut decoder), [(2, content(2, 30))]);
    let late = decoder.insert_symbol(2, &content(2, 30));
    assert_eq!(late, Ok(Insertion::Dependent));
}

#[test]
fn what_was_forgotten_does_not_come_back() {
    let encoder = sent(6, 30);
    let mut decoder = SlidingDecoder::new(SLIDING_MAX, 1400);
    for number in 2..6 {
        decoder.insert_symbol(number, &content(number, 30)).unwrap();
    }
    decoder
        .insert_repair(0, 6, 1, &repair(&encoder, 0, 1))
        .unwrap();
    decoder.forget_below(1);
    assert_eq!(decoder.base(), 1);
    let late = decoder.insert_repair(0, 6, 2, &repair(&encoder, 0, 2));
    assert_eq!(late, Ok(Insertion::Dependent));
    assert_eq!(take(&mut decoder), []);
    decoder
        .insert_repair(1, 5, 3, &repair(&encoder, 1, 3))
        .unwrap();
    assert_eq!(take(&mut decoder), [(1, content(1, 30))]);
    // Numbers beyond any that were sent, and the end of numbers.
    for number in [1 << 40, u64::MAX] {
        decoder.insert_symbol(number, b"far").unwrap();
        assert_eq!(decoder.buffers(), 1);
        decoder.insert_symbol(5, b"near").unwrap();
        assert_eq!(decoder.buffers(), 1);
    }
}

#[test]
fn what_no_honest_peer_sends_is_refused() {
    let mut decoder = SlidingDecoder::new(8, 100);
    let window = 8;
    for count in [0, 9, 255] {
        let refused = decoder.insert_repair(0, count, 0, &[0; 10]);
        assert_eq!(refused, Err(SlidingError::Count { count, window }));
    }
    let len_max = 100;
    let long = SlidingError::TooLong { len: 101, len_max };
    assert_eq!(decoder.insert_symbol(0, &[0; 99]), Err(long));
    assert_eq!(decoder.insert_repair(0, 1, 0, &[0; 101]), Err(long));
    assert_eq!(decoder.buffers(), 0);
    // A length beyond the end, bytes beyond the length, no length at all.
    for payload in [&[0, 9, 1][..], &[0, 1, 1, 1], &[0], &[]] {
        let mut decoder = SlidingDecoder::new(8, 100);
        let mut one = [0];
        coefficients(SymbolId(5), Repair::uniform(0), &mut one).unwrap();
        let payload: Vec<u8> = payload.iter().map(|&byte| mul(byte, one[0])).collect();
        let refused = decoder.insert_repair(5, 1, 0, &payload);
        assert_eq!(refused, Err(SlidingError::BadSymbol { number: 5 }));
        assert_eq!(decoder.buffers(), 0);
    }
}

/// All that was taken in, by number, reduced by the book.
#[derive(Default)]
struct Oracle {
    rows: Vec<BTreeMap<u64, u8>>,
}

impl Oracle {
    fn insert(&mut self, row: BTreeMap<u64, u8>) {
        let subtract = |from: &mut BTreeMap<u64, u8>, by: &BTreeMap<u64, u8>, c: u8| {
            for (&number, &cell) in by {
                *from.entry(number).or_default() ^= mul(c, cell);
            }
            from.retain(|_, cell| *cell != 0);
        };
        let mut row: BTreeMap<_, _> = row.into_iter().filter(|(_, cell)| *cell != 0).collect();
        for other in &self.rows {
            let pivot = other.keys().next().expect("no empty rows");
            if let Some(&c) = row.get(pivot) {
                subtract(&mut row, other, c);
            }
        }
        let Some((&pivot, &first)) = row.iter().next() else {
            return;
        };
        let inverse = inv(first).expect("not zero");
        row.values_mut()
            .for_each(|cell| *cell = mul(*cell, inverse));
        for other in &mut self.rows {
            if let Some(&c) = other.get(&pivot) {
                subtract(other, &row, c);
            }
        }
        self.rows.push(row);
    }

    fn determines(&self, number: u64) -> bool {
        self.rows
            .iter()
            .any(|row| row.len() == 1 && row.contains_key(&number))
    }
}

/// Random rows of symbols, windows, losses, orders and jumps: exactly what the
/// packets determine is known, it is what was sent, nothing is told twice, and
/// memory stays within the window.
#[test]
fn random_windows_agree_with_plain_elimination() {
    let mut random = Random::from_seed(seed());
    for case in 0..60 {
        let window = 1 + random.below(SLIDING_MAX as u64) as usize;
        let span = 1 + random.below(window as u64) as usize;
        let (loss, share) = (random.unit() * 0.6, random.unit());
        let mut encoder = SlidingEncoder::new(span);
        let mut decoder = SlidingDecoder::new(window, 66);
        let mut oracle = Oracle::default();
        let mut told: Vec<u64> = Vec::new();
        let mut index = 0_u16;
        let mut late = Vec::new();
        for _ in 0..150 {
            let number = encoder.push(&content(encoder.next(), random.below(65) as usize));
            if random.chance(loss) {
                late.push(number);
            } else {
                deliver(&mut decoder, &mut oracle, &encoder, number);
            }
            if random.chance(0.05) && !late.is_empty() {
                let number = late.swap_remove(random.below(late.len() as u64) as usize);
                deliver(&mut decoder, &mut oracle, &encoder, number);
            }
            if random.chance(0.02) {
                decoder.forget_below(number.saturating_sub(random.below(window as u64)));
            }
            while random.chance(share * 0.7) {
                let count = 1 + random.below(encoder.next() - encoder.first());
                let first = encoder.next() - count;
                index = index.wrapping_add(1);
                let mut payload = Vec::new();
                if encoder.encode(first, index, &mut payload).is_err() || random.chance(loss) {
                    continue;
                }
                let mut row = vec![0; count as usize];
                coefficients(SymbolId(first), Repair::uniform(index), &mut row).unwrap();
                decoder
                    .insert_repair(first, count as usize, index, &payload)
                    .expect("honest");
                if first >= decoder.base() {
                    oracle.insert((first..).zip(row).collect());
                }
            }
            for (number, recovered) in take(&mut decoder) {
                let len = recovered.len();
                assert_eq!(recovered, content(number, len), "case {case}: {number}");
                assert!(!told.contains(&number), "case {case}: {number} twice");
                told.push(number);
            }
            assert!(decoder.buffers() <= window, "case {case}");
            for number in decoder.base()..encoder.next() {
                let known = decoder.is_known(number);
                assert_eq!(known, oracle.determines(number), "case {case}: {number}");
            }
        }
    }
}

fn deliver(decoder: &mut SlidingDecoder, oracle: &mut Oracle, encoder: &SlidingEncoder, n: u64) {
    let Some(symbol) = encoder.from(n).next().filter(|_| n >= encoder.first()) else {
        return;
    };
    decoder.insert_symbol(n, &symbol[2..]).expect("honest");
    if n >= decoder.base() {
        oracle.insert(BTreeMap::from([(n, 1)]));
    }
}
