//! How many coded packets are sent ahead of feedback, and when feedback calls
//! for more ([CC14] §II, `N_c`).

use ctcp_units::{LossRate, Random};

use crate::schedule::BlockView;

/// Estimates above this share count as this, so that nothing is divided by zero.
const LOSS_MAX: f64 = 0.9;
/// What rounding must not turn into a whole packet: N_c(0.2) is 8, not 7.99….
const TOLERANCE: f64 = 1e-12;

/// The rule that decides on coded packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Redundancy {
    /// [CC14] §II: with the last symbol of a block on its way, N·p/(1−p) coded
    /// packets, randomly rounded; more once all of these are accounted for and
    /// degrees of freedom are still missing.
    #[default]
    Cc14,
    /// [MP12] Algorithm 3 literally: whenever the packets expected to arrive
    /// fall short of what is missing, which rounds up.
    Mp12,
    /// Nothing ahead of feedback.
    None,
}

/// Share of arrivals to divide by.
pub(crate) fn arriving(loss_rate: LossRate) -> f64 {
    1.0 - loss_rate.share().min(LOSS_MAX)
}

/// Coded packets to send ahead of feedback for `symbols` symbols on a path that
/// loses a share p, on average: N·p/(1−p) ([CC14] §II).
fn coded_ahead(symbols: u32, loss_rate: LossRate) -> f64 {
    let arriving = arriving(loss_rate);
    f64::from(symbols) * (1.0 - arriving) / arriving
}

/// `mean` rounded at random so that its expectation stays: `⌊mean⌋`, plus one
/// when `draw`, uniform in `[0, 1)`, lies below the rest.
fn round_at_random(mean: f64, draw: f64) -> u32 {
    let floor = (mean + TOLERANCE).floor();
    floor as u32 + u32::from(draw < mean - floor)
}

impl Redundancy {
    /// Coded packets that follow the last symbol of a block.
    pub(crate) fn ahead(self, symbols: u32, loss_rate: LossRate, random: &mut Random) -> u32 {
        match self {
            Self::Cc14 => round_at_random(coded_ahead(symbols, loss_rate), random.unit()),
            Self::Mp12 | Self::None => 0,
        }
    }

    /// Whether feedback calls for another coded packet of a block whose first
    /// pass is on its way.
    ///
    /// * `is_resolved`: every packet of the first pass is accounted for.
    /// * `dither`: the block's draw, uniform in `[0, 1)`, for random rounding.
    pub(crate) fn calls_for_more(
        self,
        view: &BlockView,
        arriving: f64,
        is_resolved: bool,
        dither: f64,
    ) -> bool {
        match self {
            Self::Mp12 => view.falls_short(),
            Self::Cc14 | Self::None => {
                is_resolved
                    && view.dof_missing > 0
                    && view.packets_wanted(arriving) > dither + TOLERANCE
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn golden() -> serde_json::Value {
        serde_json::from_str(include_str!("../../tests/golden/redundancy.json")).unwrap()
    }

    fn loss(value: &serde_json::Value) -> LossRate {
        LossRate::new(value.as_f64().unwrap()).unwrap()
    }

    #[test]
    fn coded_packets_ahead_agree_with_the_golden_grid() {
        for row in golden()["grid"].as_array().unwrap() {
            let symbols = row["N"].as_u64().unwrap() as u32;
            let mean = coded_ahead(symbols, loss(&row["p"]));
            let expected = row["N_c"].as_f64().unwrap();
            assert!((mean - expected).abs() <= 1e-9 * expected.max(1.0), "{row}");
            assert_eq!(
                u64::from(round_at_random(mean, 1.0 - 1e-9)),
                row["floor"].as_u64().unwrap(),
                "{row}"
            );
        }
    }

    #[test]
    fn rounding_agrees_with_the_golden_draws() {
        for row in golden()["rounding"].as_array().unwrap() {
            let symbols = row["N"].as_u64().unwrap() as u32;
            let mean = coded_ahead(symbols, loss(&row["p"]));
            assert_eq!(
                u64::from(round_at_random(mean, row["u"].as_f64().unwrap())),
                row["coded_packets"].as_u64().unwrap(),
                "{row}"
            );
        }
    }

    /// The dithered rule sends d/(1−p) − f packets on average.
    #[test]
    fn repairs_after_feedback_keep_the_golden_mean() {
        let mut random = Random::from_seed(11);
        for row in golden()["feedback_repair"].as_array().unwrap() {
            let missing = row["missing"].as_u64().unwrap() as u32;
            let arriving = arriving(loss(&row["p"]));
            let draws = 20_000;
            let mut sent = 0;
            for _ in 0..draws {
                let dither = random.unit();
                let mut view = BlockView {
                    dof_missing: missing,
                    arrivals_expected: 0.0,
                };
                while Redundancy::Cc14.calls_for_more(&view, arriving, true, dither) {
                    view.arrivals_expected += arriving;
                    sent += 1;
                }
            }
            let mean = f64::from(sent) / f64::from(draws);
            let expected = row["expected_packets_to_send"].as_f64().unwrap();
            assert!((mean - expected).abs() < 0.02, "{row}: {mean}");
        }
    }

    #[test]
    fn total_loss_does_not_divide_by_zero() {
        assert!((coded_ahead(32, LossRate::ONE) - 288.0).abs() < 1e-6);
    }
}
