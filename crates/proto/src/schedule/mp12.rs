//! `mp12`: Algorithms 3 and 4 of [MP12], corrected (E-MP12-08 to -10).
//!
//! A block is served, oldest first, while the packets expected to arrive fall
//! short of the degrees of freedom it lacks. On several paths the oldest block
//! (`currblk`) also counts what *other* paths will have delivered before a packet
//! sent now on path i arrives: `thru·RTT_i − sent`, with `thru` the expected
//! deliveries per second of all paths and `sent` the expected deliveries among
//! the packets in flight. A slow path so moves on to later blocks. With one path
//! the term is 0.

use super::{BlockView, PathView};

/// Algorithm 3 of [MP12], corrected (E-MP12-08, -09): the first block, oldest
/// first, that falls short; `None` keeps the token.
pub fn single_path(blocks: &[BlockView]) -> Option<usize> {
    blocks.iter().position(BlockView::falls_short)
}

/// Algorithm 4: which of `blocks`, the oldest first, a token of path `index`
/// pays for; `None` keeps the token.
pub fn multi_path(index: usize, paths: &[PathView], blocks: &[BlockView]) -> Option<usize> {
    let others = delivered_before(index, paths);
    let (first, rest) = blocks.split_first()?;
    if first.falls_short_beside(others) {
        return Some(0);
    }
    single_path(rest).map(|place| place + 1)
}

/// `thru·RTT_i − sent`: packets that all paths will have delivered, beyond those
/// in flight now, before a packet sent now on path `index` arrives.
pub(crate) fn delivered_before(index: usize, paths: &[PathView]) -> f64 {
    let (mut thru, mut sent) = (0.0, 0.0);
    for path in paths {
        let expected = path.arriving() * path.in_flight as f64;
        thru += expected / path.srtt.as_secs_f64().max(1e-6);
        sent += expected;
    }
    thru * paths[index].srtt.as_secs_f64() - sent
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::path;
    use super::*;
    use ctcp_units::{Duration, LossRate};

    /// All decisions of `golden/scheduling.json`.
    #[test]
    fn decisions_agree_with_the_golden_vectors() {
        let golden: serde_json::Value =
            serde_json::from_str(include_str!("../../tests/golden/scheduling.json")).unwrap();
        let number = |value: &serde_json::Value| value.as_f64().unwrap();
        let (mut single, mut multi) = (0, 0);
        for case in golden["cases"].as_array().unwrap() {
            let now = number(&case["now"]);
            let current = case["currblk"].as_u64().unwrap();
            let listed = case["paths"].as_array().unwrap();
            let paths: Vec<_> = listed
                .iter()
                .map(|view| PathView {
                    srtt: Duration::from_secs_f64(number(&view["rtt"])),
                    loss_rate: LossRate::clamped(number(&view["p"])),
                    in_flight: view["sent"].as_array().unwrap().len() as u64,
                    ..path(0, 0.0, 0.0)
                })
                .collect();
            let blocks: Vec<_> = (current..)
                .zip(case["blocks"].as_array().unwrap())
                .map(|(serial, view)| {
                    let have = if serial == current {
                        &case["currdof"]
                    } else {
                        &view["acked"]
                    };
                    let expected = listed.iter().map(|path| {
                        let (p, rtt) = (number(&path["p"]), number(&path["rtt"]));
                        let young = path["sent"].as_array().unwrap().iter().filter(|sent| {
                            sent[1].as_u64() == Some(serial) && now < number(&sent[0]) + 1.5 * rtt
                        });
                        (1.0 - p) * young.count() as f64
                    });
                    let missing = number(&view["k"]) - number(have);
                    BlockView {
                        dof_missing: missing.max(0.0) as u32,
                        arrivals_expected: expected.sum(),
                    }
                })
                .collect();
            let index = case["path"].as_u64().unwrap() as usize;
            let chosen = case["send_from_block"].as_u64();
            let chosen = chosen.map(|block| (block - current) as usize);
            assert_eq!(multi_path(index, &paths, &blocks), chosen, "{case}");
            if paths.len() == 1 {
                assert_eq!(single_path(&blocks), chosen, "{}", case["name"]);
                single += 1;
            } else {
                multi += 1;
            }
        }
        assert!(single >= 5 && multi >= 2, "{single} and {multi} cases");
    }

    /// transport.md §13: round trips of 10 and 100 ms, ten packets of the oldest
    /// block in flight on each.
    #[test]
    fn a_slow_path_leaves_the_oldest_block_to_a_fast_one() {
        let mut paths = [path(10, 20.0, 0.0), path(100, 20.0, 0.0)];
        for path in &mut paths {
            path.in_flight = 10;
        }
        assert!((delivered_before(0, &paths) + 9.0).abs() < 1e-9);
        assert!((delivered_before(1, &paths) - 90.0).abs() < 1e-9);
        let blocks = [
            BlockView {
                dof_missing: 32,
                arrivals_expected: 20.0,
            },
            BlockView {
                dof_missing: 32,
                arrivals_expected: 0.0,
            },
        ];
        assert_eq!(multi_path(0, &paths, &blocks), Some(0));
        assert_eq!(multi_path(1, &paths, &blocks), Some(1));
    }
}
