//! Random generations through random losses, orders, prefixes and duplicates,
//! against plain Gaussian elimination as oracle.

use ctcp_gf256::{Kernel, inv, mul};
use ctcp_rlnc::{COUNT_MAX, Decoder, Encoder, Generator, InsertError, Repair, coefficients};
use ctcp_units::{Random, SymbolId};

fn random() -> Random {
    let seed = std::env::var("CTCP_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    println!("CTCP_SEED={seed}");
    Random::from_seed(seed)
}

/// Reduced row echelon form by the book, on whole coefficient rows.
#[derive(Default)]
struct Oracle {
    rows: Vec<Vec<u8>>,
}

impl Oracle {
    fn rank(&self) -> usize {
        self.rows.len()
    }

    fn insert(&mut self, row: &[u8]) {
        let mut row = row.to_vec();
        row.resize(COUNT_MAX.into(), 0);
        self.rows.push(row);
        let mut done = 0;
        for column in 0..usize::from(COUNT_MAX) {
            let Some(pivot) = (done..self.rows.len()).find(|&r| self.rows[r][column] != 0) else {
                continue;
            };
            self.rows.swap(done, pivot);
            let inverse = inv(self.rows[done][column]).expect("not zero");
            let pivot_row: Vec<u8> = self.rows[done].iter().map(|&c| mul(c, inverse)).collect();
            for row in &mut self.rows {
                let multiple = row[column];
                if multiple != 0 {
                    for (cell, &c) in row.iter_mut().zip(&pivot_row) {
                        *cell ^= mul(multiple, c);
                    }
                }
            }
            self.rows[done] = pivot_row;
            done += 1;
        }
        self.rows.truncate(done);
    }

    fn determines(&self, index: u8) -> bool {
        self.rows
            .iter()
            .any(|row| row[usize::from(index)] == 1 && row.iter().filter(|&&c| c != 0).count() == 1)
    }
}

enum Packet {
    Systematic(u8),
    Coded(Repair, u8, Vec<u8>),
}

/// A generation of `count` symbols of any length up to `symbol_len`.
fn fill(random: &mut Random, encoder: &mut Encoder, count: u8) -> Vec<Vec<u8>> {
    let room = encoder.content_len_max() as u64;
    let same = random.chance(0.5);
    let contents = (0..count).map(|_| {
        let len = if same { room } else { random.below(room + 1) };
        let mut content = vec![0; len as usize];
        random.fill(&mut content);
        content
    });
    let contents: Vec<_> = contents.collect();
    for content in &contents {
        encoder.push(content).expect("it fits");
    }
    contents
}

/// What could be sent, in any order and some of it twice.
fn packets(random: &mut Random, encoder: &Encoder) -> Vec<Packet> {
    let count = encoder.count();
    let mut packets = Vec::new();
    let arriving = random.unit();
    let prefixes = random.chance(0.5);
    for index in 0..count {
        if random.chance(arriving) {
            packets.push(Packet::Systematic(index));
        }
    }
    for index in 0..random.below(2 * u64::from(count) + 3) {
        let covered = if prefixes {
            1 + random.below(count.into()) as u8
        } else {
            count
        };
        let generator = match random.below(2) {
            0 => Generator::Uniform,
            _ => Generator::Cauchy,
        };
        let repair = Repair {
            generator,
            index: index as u16,
        };
        let mut payload = vec![0; encoder.symbol_len()];
        if let Ok(len) = encoder.encode(repair, covered, &mut payload) {
            payload.truncate(len);
            packets.push(Packet::Coded(repair, covered, payload));
        }
    }
    // Out of order a little, or altogether.
    let reach = if random.chance(0.5) { 5 } else { u64::MAX };
    for at in 0..packets.len() {
        let left = (packets.len() - at) as u64;
        packets.swap(at, at + random.below(left.min(reach)) as usize);
    }
    packets
}

/// Inserts `packets` and compares every step with the oracle.
fn check(decoder: &mut Decoder, contents: &[Vec<u8>], packets: &[Packet]) {
    let mut oracle = Oracle::default();
    let mut told = vec![false; contents.len()];
    let count = contents.len() as u8;
    for packet in packets {
        let rank_before = oracle.rank();
        let insertion = match packet {
            &Packet::Systematic(index) => {
                let mut row = vec![0; usize::from(index) + 1];
                row[usize::from(index)] = 1;
                oracle.insert(&row);
                told[usize::from(index)] |= !decoder.is_known(index);
                decoder.insert_systematic(index, &contents[usize::from(index)])
            }
            Packet::Coded(repair, covered, payload) => {
                let mut row = vec![0; usize::from(*covered)];
                coefficients(decoder.first(), *repair, &mut row).expect("it was sent");
                oracle.insert(&row);
                decoder.insert_coded(*repair, *covered, payload)
            }
        };
        let is_innovative = insertion.expect("honest packets are taken").is_innovative();
        assert_eq!(is_innovative, oracle.rank() > rank_before);
        assert_eq!(usize::from(decoder.rank()), oracle.rank());
        assert_eq!(decoder.missing(count) == 0, decoder.is_complete(count));
        while let Some(index) = decoder.next_recovered() {
            assert!(!told[usize::from(index)], "symbol {index} is told twice");
            told[usize::from(index)] = true;
        }
        for index in 0..count {
            assert_eq!(
                decoder.is_known(index),
                oracle.determines(index),
                "symbol {index}"
            );
            assert_eq!(
                decoder.is_known(index),
                told[usize::from(index)],
                "symbol {index}"
            );
            if let Some(content) = decoder.content(index) {
                assert_eq!(content, contents[usize::from(index)], "symbol {index}");
            }
        }
    }
}

fn rounds(random: &mut Random, kernel: Kernel, rounds: u32, count_max: u8) {
    let mut encoder = Encoder::new(SymbolId(0), 0).with_kernel(kernel);
    let mut decoder = Decoder::with_kernel(SymbolId(0), 0, kernel);
    for _ in 0..rounds {
        let first = SymbolId(random.next_u64());
        let symbol_len = 2 + random.below(200) as usize;
        encoder.reset(first, symbol_len);
        decoder.reset(first, symbol_len);
        let count = 1 + random.below(count_max.into()) as u8;
        let contents = fill(random, &mut encoder, count);
        let packets = packets(random, &encoder);
        check(&mut decoder, &contents, &packets);
    }
}

#[test]
fn small_generations_decode_exactly_when_their_rank_suffices() {
    rounds(&mut random(), Kernel::active(), 4000, 12);
}

#[test]
fn large_generations_decode_exactly_when_their_rank_suffices() {
    rounds(&mut random(), Kernel::active(), 40, 120);
}

#[test]
fn generations_decode_on_every_kernel() {
    let mut random = random();
    for kernel in Kernel::available() {
        rounds(&mut random, kernel, 100, 20);
    }
}

#[test]
fn arbitrary_packets_never_break_the_decoder() {
    let mut random = random();
    for _ in 0..1500 {
        let symbol_len = random.below(40) as usize;
        let mut decoder = Decoder::new(SymbolId(random.next_u64()), symbol_len);
        let count_max = 1 + random.below(256);
        for _ in 0..random.below(120) {
            let mut bytes = vec![0; random.below(symbol_len as u64 + 3) as usize];
            if random.chance(0.5) {
                random.fill(&mut bytes);
            }
            let rank_before = decoder.rank();
            let number = random.below(count_max) as u8;
            let index = random.below(300) as u16;
            let insertion = match random.below(4) {
                0 => decoder.insert_systematic(number, &bytes),
                1 => decoder.insert_coded(Repair::uniform(index), number, &bytes),
                2 => decoder.insert_coded(Repair::cauchy(index), number, &bytes),
                _ => {
                    let mut row = vec![0; usize::from(number)];
                    random.fill(&mut row);
                    decoder.insert_combination(&row, &bytes)
                }
            };
            match insertion {
                Ok(insertion) => {
                    let gained = u8::from(insertion.is_innovative());
                    assert_eq!(decoder.rank(), rank_before + gained);
                }
                // The packet that shows the contradiction counted.
                Err(InsertError::BadSymbol { .. }) => assert!(decoder.rank() >= rank_before),
                Err(_) => assert_eq!(decoder.rank(), rank_before),
            }
            assert!(decoder.rank() <= decoder.count_seen());
            while let Some(index) = decoder.next_recovered() {
                let content = decoder.content(index).expect("what is told is there");
                assert!(content.len() + 2 <= symbol_len);
            }
        }
    }
}
