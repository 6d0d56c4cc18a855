//! The decoder against Gaussian elimination by the book.

use ctcp_gf256::{inv, mul};
use ctcp_rlnc::{Decoder, Encoder, Generator, InsertError, Insertion, Repair};
use ctcp_rlnc::{LEN_PREFIX_BYTES, coefficients};
use ctcp_units::SymbolId;

use crate::Input;

/// Insertions in one generation at most; the oracle is slow.
const PACKETS_MAX: usize = 300;

/// A decoder, used for one generation after another as long as there is input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut decoder = Decoder::new(SymbolId(0), 0);
    let mut packets_left = PACKETS_MAX;
    while !input.is_empty() && packets_left > 0 {
        let first = SymbolId(input.u64());
        if input.below(4) == 0 {
            hostile_generation(&mut input, &mut decoder, first, &mut packets_left);
        } else {
            honest_generation(&mut input, &mut decoder, first, &mut packets_left);
        }
    }
}

/// Whether the list of packets goes on.
fn goes_on(input: &Input<'_>, packets_left: &mut usize) -> bool {
    *packets_left = packets_left.saturating_sub(1);
    !input.is_empty() && *packets_left > 0
}

/// Reduced row echelon form on whole coefficient rows.
#[derive(Default)]
struct Oracle {
    rows: Vec<[u8; 255]>,
}

impl Oracle {
    /// Whether the row was innovative.
    fn insert(&mut self, coefficients: &[u8]) -> bool {
        let mut row = [0; 255];
        row[..coefficients.len()].copy_from_slice(coefficients);
        for known in &self.rows {
            let pivot = pivot(known).expect("rows are not zero");
            let multiple = row[pivot];
            add_multiple(&mut row, multiple, known);
        }
        let Some(column) = pivot(&row) else {
            return false;
        };
        let inverse = inv(row[column]).expect("a pivot is not zero");
        row = row.map(|c| mul(c, inverse));
        for known in &mut self.rows {
            let multiple = known[column];
            add_multiple(known, multiple, &row);
        }
        self.rows.push(row);
        true
    }

    fn determines(&self, index: u8) -> bool {
        let only = |row: &[u8; 255]| {
            let mut nonzero = (0..=254).filter(|&at| row[usize::from(at)] != 0);
            nonzero.next() == Some(index) && nonzero.next().is_none()
        };
        self.rows.iter().any(only)
    }
}

fn pivot(row: &[u8; 255]) -> Option<usize> {
    row.iter().position(|&c| c != 0)
}

fn add_multiple(row: &mut [u8; 255], multiple: u8, other: &[u8; 255]) {
    for (cell, &c) in row.iter_mut().zip(other) {
        *cell ^= mul(multiple, c);
    }
}

/// An encoder's packets in any choice and order: each is worth what the oracle
/// says, and what is recovered is what was encoded.
fn honest_generation(
    input: &mut Input<'_>,
    decoder: &mut Decoder,
    first: SymbolId,
    packets_left: &mut usize,
) {
    let symbol_len = LEN_PREFIX_BYTES + input.below(40);
    let is_large = input.below(8) == 0;
    let count = 1 + input.below(if is_large { 255 } else { 20 }) as u8;
    let mut encoder = Encoder::new(first, symbol_len);
    let mut contents = Vec::new();
    for index in 0..count {
        let len = input.below(encoder.content_len_max() + 1);
        let mut content = input.bytes(len).to_vec();
        // Behind the end of the input still not all the same.
        content.resize(len, index ^ 0x5A);
        assert_eq!(encoder.push(&content), Ok(index));
        contents.push(content);
    }
    decoder.reset(first, symbol_len);
    let mut oracle = Oracle::default();
    let mut told = vec![false; contents.len()];
    while goes_on(input, packets_left) {
        let (row, insertion) = match input.below(8) {
            0..3 => {
                let index = input.below(count.into()) as u8;
                let mut row = vec![0; usize::from(index) + 1];
                row[usize::from(index)] = 1;
                told[usize::from(index)] |= !decoder.is_known(index);
                let content = &contents[usize::from(index)];
                (row, decoder.insert_systematic(index, content))
            }
            3..6 => {
                let covered = 1 + input.below(count.into()) as u8;
                let repair = Repair {
                    generator: if input.bool() {
                        Generator::Cauchy
                    } else {
                        Generator::Uniform
                    },
                    index: input.u16() % 300,
                };
                let mut payload = vec![0; symbol_len];
                let Ok(len) = encoder.encode(repair, covered, &mut payload) else {
                    let refused = decoder.insert_coded(repair, covered, &payload);
                    let is_done = refused == Ok(Insertion::Dependent);
                    assert!(is_done || matches!(refused, Err(InsertError::NoRepair(_))));
                    continue;
                };
                let mut row = vec![0; covered.into()];
                coefficients(first, repair, &mut row).expect("it was encoded");
                assert_eq!(payload[..len], combine(&contents, &row));
                (row, decoder.insert_coded(repair, covered, &payload[..len]))
            }
            6 => {
                let covered = 1 + input.below(count.into());
                let mut row = input.bytes(covered).to_vec();
                row.resize(covered, 0);
                let payload = combine(&contents, &row);
                let insertion = decoder.insert_combination(&row, &payload);
                (row, insertion)
            }
            _ => return,
        };
        let insertion = insertion.expect("honest packets are taken");
        assert_eq!(insertion.is_innovative(), oracle.insert(&row));
        assert_eq!(usize::from(decoder.rank()), oracle.rows.len());
        assert_eq!(decoder.missing(count) == 0, decoder.is_complete(count));
        while let Some(index) = decoder.next_recovered() {
            assert!(!told[usize::from(index)], "symbol {index} is told twice");
            told[usize::from(index)] = true;
        }
        for index in 0..count {
            let is_known = decoder.is_known(index);
            assert_eq!(is_known, oracle.determines(index), "symbol {index}");
            assert_eq!(is_known, told[usize::from(index)], "symbol {index}");
            let content = decoder.content(index);
            let expected = is_known.then_some(&contents[usize::from(index)][..]);
            assert_eq!(content, expected, "symbol {index}");
        }
    }
}

/// The payload of a coded packet, computed byte by byte.
fn combine(contents: &[Vec<u8>], row: &[u8]) -> Vec<u8> {
    let covered = &contents[..row.len()];
    let longest = covered.iter().map(Vec::len).max().unwrap_or(0);
    let mut payload = vec![0; LEN_PREFIX_BYTES + longest];
    for (content, &coefficient) in covered.iter().zip(row) {
        let prefix = (content.len() as u16).to_be_bytes();
        for (at, &byte) in prefix.iter().chain(content).enumerate() {
            payload[at] ^= mul(coefficient, byte);
        }
    }
    payload
}

/// Packets that nobody encoded: the decoder notices, or takes them, and its
/// books stay in order.
fn hostile_generation(
    input: &mut Input<'_>,
    decoder: &mut Decoder,
    first: SymbolId,
    packets_left: &mut usize,
) {
    let symbol_len = input.below(40);
    decoder.reset(first, symbol_len);
    while goes_on(input, packets_left) {
        let rank_before = decoder.rank();
        let number = input.u8();
        let index = input.u16();
        let choice = input.below(5);
        let row = input.bytes(if choice == 3 { number.into() } else { 0 });
        let len = input.below(44);
        let payload = input.bytes(len);
        let insertion = match choice {
            0 => decoder.insert_systematic(number, payload),
            1 => decoder.insert_coded(Repair::uniform(index), number, payload),
            2 => decoder.insert_coded(Repair::cauchy(index), number, payload),
            3 => decoder.insert_combination(row, payload),
            _ => return,
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
            assert!(content.len() + LEN_PREFIX_BYTES <= symbol_len);
        }
    }
}
