//! The vectors of `tests/golden/`: coefficients are wire format; the code itself
//! and the statistics of innovation are those of the specification.

use ctcp_gf256::mul;
use ctcp_rlnc::{Decoder, Generator, Insertion, NoRepair, Repair, coefficients};
use ctcp_units::{Random, SymbolId};
use serde_json::Value;

fn parse(text: &str) -> Value {
    serde_json::from_str(text).expect("the vectors are JSON")
}

fn hex(value: &Value) -> Vec<u8> {
    let digits = value.as_str().expect("a text of digits");
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("two hex digits"))
        .collect()
}

fn bytes(value: &Value) -> Vec<u8> {
    list(value).iter().map(|byte| number(byte) as u8).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

#[test]
fn coefficients_are_golden() {
    let golden = parse(include_str!("golden/coefficients.json"));
    for vector in list(&golden["vectors"]) {
        let first = vector["first"].as_str().expect("digits").parse();
        let repair = Repair {
            generator: Generator::from_code_point(number(&vector["generator"]) as u8)
                .expect("a code point in use"),
            index: number(&vector["index"]) as u16,
        };
        let expected = hex(&vector["coefficients"]);
        let mut ours = vec![0; expected.len()];
        coefficients(SymbolId(first.expect("an id")), repair, &mut ours).expect("a repair");
        assert_eq!(ours, expected, "{vector}");
    }
}

#[test]
fn the_first_index_of_zeros_alone_is_golden() {
    let golden = parse(include_str!("golden/coefficients.json"));
    let zero = number(&golden["first_index_of_first_0_count_1_that_is_all_zero"]) as u16;
    for index in 0..=zero {
        let result = coefficients(SymbolId(0), Repair::uniform(index), &mut [0]);
        let expected = if index == zero {
            Err(NoRepair::AllZero { index, count: 1 })
        } else {
            Ok(())
        };
        assert_eq!(result, expected);
    }
}

/// The specification's symbols have no length in front. The code works byte by
/// byte, so its payloads are ours behind a combination of the prefixes.
fn payload_of(coefficients: &[u8], golden: &[u8]) -> Vec<u8> {
    let len = u8::try_from(golden.len()).expect("short symbols");
    let prefix = coefficients.iter().fold(0, |sum, &c| sum ^ mul(c, len));
    [&[0, prefix], golden].concat()
}

fn decoder() -> Decoder {
    Decoder::new(SymbolId(0), 10)
}

#[test]
fn the_receive_sequence_is_golden_in_innovation_rank_and_result() {
    let golden = parse(include_str!("golden/rlnc.json"));
    let mut decoder = decoder();
    for step in list(&golden["receive_sequence"]) {
        let (row, payload) = (bytes(&step["coefficients"]), hex(&step["payload"]));
        let unit = (0u8..)
            .zip(&row)
            .filter(|&(_, &c)| c != 0)
            .collect::<Vec<_>>();
        let insertion = match unit[..] {
            [(index, 1)] => decoder.insert_systematic(index, &payload),
            _ => decoder.insert_combination(&row, &payload_of(&row, &payload)),
        };
        let is_innovative = step["innovative"].as_bool().expect("true or false");
        assert_eq!(
            insertion.map(Insertion::is_innovative),
            Ok(is_innovative),
            "{step}"
        );
        assert_eq!(u64::from(decoder.rank()), number(&step["rank"]), "{step}");
    }
    assert!(decoder.is_complete(4));
    for (index, symbol) in (0..=3).zip(list(&golden["decoded"])) {
        assert_eq!(decoder.content(index), Some(&hex(symbol)[..]));
    }
    for expected in list(&golden["erased"]) {
        assert_eq!(decoder.next_recovered().map(u64::from), expected.as_u64());
    }
    assert_eq!(decoder.next_recovered(), None);
}

#[test]
fn a_row_whose_first_coefficients_are_zero_is_innovative() {
    let golden = parse(include_str!("golden/rlnc.json"));
    let vector = &golden["first_coefficient_zero"];
    let row = bytes(&vector["coefficients"]);
    let mut decoder = decoder();
    let payload = payload_of(&row, &hex(&vector["payload"]));
    let insertion = decoder.insert_combination(&row, &payload);
    assert_eq!(insertion, Ok(Insertion::Innovative));
    assert_eq!(decoder.rank(), 1);
    assert_eq!(decoder.next_recovered(), None);
}

#[test]
fn a_short_block_is_golden() {
    let golden = parse(include_str!("golden/rlnc.json"));
    let block = &golden["short_block"];
    let symbols: Vec<_> = list(&block["symbols"]).iter().map(hex).collect();
    let row = &bytes(&block["coded"]["coefficients"])[..number(&block["k"]) as usize];
    let payload = payload_of(row, &hex(&block["coded"]["payload"]));
    let mut decoder = decoder();
    decoder.insert_systematic(0, &symbols[0]).expect("it fits");
    decoder.insert_combination(row, &payload).expect("it fits");
    assert_eq!(
        u64::from(decoder.rank()),
        number(&block["rank_after_sys0_and_coded"])
    );
    decoder.insert_systematic(2, &symbols[2]).expect("it fits");
    assert_eq!(decoder.content(1), Some(&symbols[1][..]));
}

/// Share of generations of `erased` lost symbols that `erased + extra` uniform
/// repairs do not decode, over `trials` generations.
fn share_not_decodable(erased: u8, extra: u16, trials: u64) -> f64 {
    let mut failures = 0;
    for trial in 0..trials {
        let mut decoder = Decoder::new(SymbolId(trial * 32), 2);
        for index in 0..u16::from(erased) + extra {
            // Symbols without content: the algebra is what is asked for.
            let insertion = decoder.insert_coded(Repair::uniform(index), erased, &[0, 0]);
            if let Err(error) = insertion {
                assert!(error.to_string().contains("are zero"), "{error}");
            }
        }
        failures += u64::from(decoder.missing(erased) > 0);
    }
    failures as f64 / trials as f64
}

#[test]
fn uniform_repairs_fail_as_often_as_random_matrices_are_singular() {
    let golden = parse(include_str!("golden/rank.json"));
    for entry in list(&golden["prob_not_decodable"]) {
        let entry = list(entry);
        let (erased, extra) = (number(&entry[0]) as u8, number(&entry[1]) as u16);
        let probability = entry[2].as_f64().expect("a probability");
        let trials = if erased > 8 { 10_000 } else { 60_000 };
        let share = share_not_decodable(erased, extra, trials);
        // Fixed repairs of fixed generations: this passes always or never. Four
        // standard deviations, and one failure, is what chance allows.
        let deviation = (probability / trials as f64).sqrt();
        let allowed = 4.0 * deviation + 1.0 / trials as f64;
        assert!(
            (share - probability).abs() <= allowed,
            "{erased} erased, {extra} extra: {share} instead of {probability} ± {allowed}"
        );
    }
}

#[test]
fn cauchy_repairs_never_fail() {
    let seed = std::env::var("CTCP_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    println!("CTCP_SEED={seed}");
    let mut random = Random::from_seed(seed);
    for _ in 0..3000 {
        let count = 1 + random.below(60) as u8;
        let mut indices: Vec<u16> = (0..255 - u16::from(count) + 1).collect();
        let mut decoder = Decoder::new(SymbolId(0), 2);
        let mut received = 0;
        for symbol in 0..count {
            if random.chance(0.5) {
                decoder.insert_systematic(symbol, &[]).expect("it fits");
                received += 1;
            }
        }
        while received < count {
            let index = indices.swap_remove(random.below(indices.len() as u64) as usize);
            let insertion = decoder.insert_coded(Repair::cauchy(index), count, &[0, 0]);
            assert_eq!(
                insertion,
                Ok(Insertion::Innovative),
                "repair {index} over {count}"
            );
            received += 1;
        }
        assert!(decoder.is_complete(count));
    }
}
