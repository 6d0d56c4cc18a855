//! Which block the next token of a path pays for: pure decisions over read-only
//! views (architecture 9).
//!
//! [`single_path`] is the corrected Algorithm 3 of [MP12] as printed in the
//! sender's terms: oldest block first, a block is served while the packets
//! expected to arrive fall short of the degrees of freedom it lacks. It walks
//! all blocks and is the oracle of the tests. The sender reaches the same
//! decision in O(1) by re-judging only the block that an event touched and
//! keeping the answers in a [`ReadySet`].

mod ready;

pub(crate) use ready::ReadySet;

/// Loads within this of the need count as equal: (1−0.2)·40 must count as 32.
const TOLERANCE: f64 = 1e-9;

/// What a scheduler sees of a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockView {
    /// Degrees of freedom the receiver still lacks, as far as is known.
    pub dof_missing: u32,
    /// Packets of the block in flight that are expected to arrive: the sum of
    /// (1 − p) over those younger than 1.5 round trips.
    pub arrivals_expected: f64,
}

impl BlockView {
    /// Whether what is in flight is expected to fall short ([MP12] Algorithm 3,
    /// E-MP12-08 and -09).
    pub fn falls_short(&self) -> bool {
        self.dof_missing > 0 && self.arrivals_expected < f64::from(self.dof_missing) - TOLERANCE
    }

    /// Packets that would have to be sent on a path with this share of arrivals
    /// to make up for what is expected to be missing; a real number.
    pub fn packets_wanted(&self, arriving: f64) -> f64 {
        (f64::from(self.dof_missing) - self.arrivals_expected) / arriving
    }
}

/// Algorithm 3 of [MP12], corrected (E-MP12-08, -09): the first block, oldest
/// first, that falls short; `None` keeps the token.
pub fn single_path(blocks: &[BlockView]) -> Option<usize> {
    blocks.iter().position(BlockView::falls_short)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(dof_missing: u32, arrivals_expected: f64) -> BlockView {
        BlockView {
            dof_missing,
            arrivals_expected,
        }
    }

    /// The single-path decisions of `golden/scheduling.json`.
    #[test]
    fn decisions_agree_with_the_golden_vectors() {
        let golden: serde_json::Value =
            serde_json::from_str(include_str!("../../tests/golden/scheduling.json")).unwrap();
        let mut checked = 0;
        for case in golden["cases"].as_array().unwrap() {
            let paths = case["paths"].as_array().unwrap();
            if paths.len() != 1 {
                continue;
            }
            let number = |value: &serde_json::Value| value.as_f64().unwrap();
            let (p, rtt) = (number(&paths[0]["p"]), number(&paths[0]["rtt"]));
            let now = number(&case["now"]);
            let current = case["currblk"].as_u64().unwrap();
            let blocks: Vec<_> = (current..)
                .zip(case["blocks"].as_array().unwrap())
                .map(|(serial, view)| {
                    let have = if serial == current {
                        &case["currdof"]
                    } else {
                        &view["acked"]
                    };
                    let young = paths[0]["sent"].as_array().unwrap().iter().filter(|sent| {
                        sent[1].as_u64() == Some(serial) && now < number(&sent[0]) + 1.5 * rtt
                    });
                    let missing = number(&view["k"]) - number(have);
                    block(missing.max(0.0) as u32, (1.0 - p) * young.count() as f64)
                })
                .collect();
            let expected = case["send_from_block"]
                .as_u64()
                .map(|b| (b - current) as usize);
            assert_eq!(single_path(&blocks), expected, "{}", case["name"]);
            checked += 1;
        }
        assert!(checked >= 5, "{checked} cases have one path");
    }

    #[test]
    fn forty_packets_at_20_percent_are_enough_for_32() {
        assert!(!block(32, 0.8 * 40.0).falls_short());
        assert!(block(32, 0.8 * 39.0).falls_short());
        assert!(!block(0, 0.0).falls_short());
    }
}
