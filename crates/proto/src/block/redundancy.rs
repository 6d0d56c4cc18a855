//! How many coded packets are sent ahead of feedback, and when feedback calls
//! for more ([CC14] §II, `N_c`; [FEC]; and `auto`, ours).
//!
//! `auto` plans a block of k symbols by what its failure would cost. With N_c =
//! k·p/(1 − p), the loss process' p and ρ (`path/process.rs`), and e the part of a
//! round trip by which a failure would delay the end, 0 to 1:
//!
//! ```text
//! σ² = k/(1 − p) · p·(1 − p) · (1 + ρ)/(1 − ρ)
//! bulk:  N_c − ½·σ coded packets, at least 0, randomly rounded
//! end:   as many as leave a chance of 2 %/e that fewer than k packets arrive,
//!        at most one for each symbol and ⌈N_c⌉
//! ```
//!
//! In bulk a failed block costs a feedback round that nobody waits for, as the
//! sender goes on with later blocks; coded packets that are not needed are lost
//! capacity. So it stays below the mean, the more so the more the losses vary:
//! where they come in runs, most blocks lose nothing and some much. With less to
//! send than a flight, e = 1 − left/flight, and repairs after feedback follow the
//! same rule: what is missing is sent with what it takes. Once more packets have
//! arrived in a row than p allows (chance below 1 %), nothing is sent ahead: what
//! was lost before was lost to a queue.

use ctcp_units::{LossRate, Random};

use super::chance::packets_for;
use crate::path::LossProcess;
use crate::schedule::BlockView;

/// Estimates above this share count as this, so that nothing is divided by zero.
const LOSS_MAX: f64 = 0.9;
/// What rounding must not turn into a whole packet: N_c(0.2) is 8, not 7.99….
const TOLERANCE: f64 = 1e-12;
/// Standard deviations of the number of losses that bulk stays below their mean.
///
/// Measured, `the_steady_rate_is_that_of_the_link_whatever_it_loses`.
const BULK_SIGMAS: f64 = 0.5;
/// The chance of failure allowed to what a whole round trip would be waited for:
/// an exchange is two flights, and its 95th percentile should not meet one.
const END_FAILURE: f64 = 0.02;
/// The largest chance of failure aimed at; above it is bulk.
const FAILURE_MAX: f64 = 0.5;

/// The rule that decides on coded packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Redundancy {
    /// Ours, by what the failure of a block would cost: in bulk a little less than
    /// [CC14], and at the end of what there is to send as many as it takes to be
    /// nearly sure; none on a clean path. Never more than `⌈N·p/(1−p)⌉` and, at the
    /// end, one for each symbol besides.
    #[default]
    Auto,
    /// [CC14] §II: with the last symbol of a block on its way, N·p/(1−p) coded
    /// packets, randomly rounded; more once all of these are accounted for and
    /// degrees of freedom are still missing.
    Cc14,
    /// [MP12] Algorithm 3 literally: whenever the packets expected to arrive
    /// fall short of what is missing, which rounds up.
    Mp12,
    /// [FEC], TCP-cd: an (n, (1−μ−σ)·n) code, with mean and deviation of the share
    /// of packets lost in a round trip; more after feedback as with `Cc14`.
    TcpCd,
    /// Nothing ahead of feedback.
    None,
}

/// What a number of coded packets is planned by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Plan {
    /// Degrees of freedom that must arrive.
    pub(crate) needed: u8,
    /// How packets are lost where they go.
    pub(crate) process: LossProcess,
    /// Round trips by which the end would come later if they do not, 0 to 1.
    pub(crate) delay: f64,
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
    /// Every rule there is.
    pub const ALL: [Self; 5] = [Self::Auto, Self::Cc14, Self::Mp12, Self::TcpCd, Self::None];

    /// The name by which users choose it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Cc14 => "cc14",
            Self::Mp12 => "mp12",
            Self::TcpCd => "tcp-cd",
            Self::None => "none",
        }
    }

    /// The rule of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.name() == name)
    }

    /// Coded packets beyond `plan.needed` that go out ahead of feedback.
    pub(crate) fn ahead(self, plan: &Plan, random: &mut Random) -> u32 {
        let mean = coded_ahead(plan.needed.into(), plan.process.rate);
        match self {
            Self::Cc14 => round_at_random(mean, random.unit()),
            Self::Auto if plan.process.has_ceased => 0,
            Self::Auto => {
                let bulk = round_at_random(bulk_mean(plan), random.unit());
                bulk.max(ahead_at_end(plan, mean))
            }
            Self::TcpCd => parity(plan),
            Self::Mp12 | Self::None => 0,
        }
    }

    /// Repairs for `count` datagrams that are of use together: what `auto` sends ahead
    /// at the end of a transfer of as many symbols, as nothing will come later to
    /// bring them. The papers know no datagrams, so every rule but `None` does so.
    pub(crate) fn for_datagrams(self, count: u8, process: LossProcess) -> u32 {
        if self == Self::None || process.has_ceased {
            return 0;
        }
        let plan = Plan {
            needed: count,
            process,
            delay: 1.0,
        };
        ahead_at_end(&plan, coded_ahead(count.into(), process.rate))
    }

    /// Whether what a failed pass still lacks is planned like a block of its own.
    pub(crate) const fn plans_repairs(self) -> bool {
        matches!(self, Self::Auto)
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
            Self::Auto | Self::Cc14 | Self::TcpCd | Self::None => {
                is_resolved
                    && view.dof_missing > 0
                    && view.packets_wanted(arriving) > dither + TOLERANCE
            }
        }
    }
}

/// Coded packets on average where a failure delays nothing.
fn bulk_mean(plan: &Plan) -> f64 {
    let mean = coded_ahead(plan.needed.into(), plan.process.rate);
    let rho = plan.process.correlation;
    // With k/(1 − p) packets sent, k·p are their variance if independent.
    let losses = 1.0 - arriving(plan.process.rate);
    let variance = f64::from(plan.needed) * losses * (1.0 + rho) / (1.0 - rho);
    (mean - BULK_SIGMAS * variance.sqrt()).max(0.0)
}

/// Coded packets that a delay of the end is worth.
fn ahead_at_end(plan: &Plan, mean: f64) -> u32 {
    if plan.delay * FAILURE_MAX <= END_FAILURE || mean <= 0.0 {
        return 0;
    }
    let needed = u32::from(plan.needed);
    let most = 2 * needed + (mean - TOLERANCE).ceil() as u32;
    packets_for(plan.needed, END_FAILURE / plan.delay, most, &plan.process) - needed
}

/// n − k of [FEC]: the smallest n of which ⌊(1 − μ − σ)·n⌋ are k.
fn parity(plan: &Plan) -> u32 {
    let LossProcess {
        round_mean,
        round_deviation,
        ..
    } = plan.process;
    let needed = f64::from(plan.needed);
    let rate = (1.0 - round_mean - round_deviation).max(1.0 - LOSS_MAX);
    (needed / rate - needed - TOLERANCE).ceil().max(0.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(needed: u8, share: f64, delay: f64) -> Plan {
        Plan {
            needed,
            process: LossProcess::independent(share),
            delay,
        }
    }

    fn ahead(plan: &Plan) -> u32 {
        Redundancy::Auto.ahead(plan, &mut Random::from_seed(1))
    }

    #[test]
    fn auto_sends_nothing_ahead_on_a_clean_path() {
        for needed in [1, 7, 32, 255] {
            for delay in [0.0, 0.5, 1.0] {
                assert_eq!(ahead(&plan(needed, 0.0, delay)), 0);
                let mut ceased = plan(needed, 0.1, delay);
                ceased.process.has_ceased = true;
                assert_eq!(ahead(&ceased), 0);
            }
        }
    }

    #[test]
    fn auto_stays_below_the_mean_in_bulk() {
        for (share, mean) in [(0.01, 0.0404), (0.05, 1.0517), (0.1, 2.6611), (0.2, 6.7351)] {
            let planned = bulk_mean(&plan(32, share, 0.0));
            assert!((planned - mean).abs() < 0.02, "{share}: {planned}");
            let mut random = Random::from_seed(3);
            let sent =
                (0..20_000).map(|_| Redundancy::Auto.ahead(&plan(32, share, 0.0), &mut random));
            let average = f64::from(sent.sum::<u32>()) / 20_000.0;
            assert!((average - mean).abs() < 0.02, "{share}: {average}");
        }
        // Runs of eight: the mean of 1.7 says nothing about any one block.
        let mut runs = plan(32, 0.05, 0.0);
        runs.process.correlation = 0.87;
        assert_eq!(ahead(&runs), 0);
    }

    #[test]
    fn auto_sends_the_end_of_a_transfer_until_it_is_nearly_sure() {
        // A keystroke, 10 kB, a whole block.
        for (needed, share, packets) in [(1, 0.2, 2), (1, 0.05, 1), (7, 0.2, 5), (32, 0.01, 2)] {
            assert_eq!(
                ahead(&plan(needed, share, 1.0)),
                packets,
                "{needed} at {share}"
            );
        }
        let far = ahead(&plan(32, 0.2, 0.0));
        let near = ahead(&plan(32, 0.2, 0.3));
        let last = ahead(&plan(32, 0.2, 1.0));
        assert!(far < near && near < last, "{far}, {near}, {last}");
    }

    #[test]
    fn auto_never_exceeds_its_caps() {
        for needed in [1, 7, 32, 255] {
            for share in [0.001, 0.01, 0.1, 0.3, 0.6, 1.0] {
                for correlation in [0.0, 0.9, 0.99] {
                    for delay in [0.0, 0.1, 1.0] {
                        let mut plan = plan(needed, share, delay);
                        plan.process.correlation = correlation;
                        let mean = coded_ahead(needed.into(), plan.process.rate).ceil() as u32;
                        let symbols = if delay > 0.0 { u32::from(needed) } else { 0 };
                        assert!(ahead(&plan) <= mean + symbols, "{plan:?}");
                    }
                }
            }
        }
    }

    /// (n, (1 − μ − σ)·n) as in the golden text of tcp-flavours §13.
    #[test]
    fn tcp_cds_code_rate_is_one_less_mean_less_deviation() {
        let sent = |needed, round_mean, round_deviation| {
            let process = LossProcess {
                round_mean,
                round_deviation,
                ..LossProcess::default()
            };
            let plan = Plan {
                needed,
                process,
                delay: 0.0,
            };
            Redundancy::TcpCd.ahead(&plan, &mut Random::from_seed(1))
        };
        assert_eq!(sent(32, 0.0, 0.0), 0);
        assert_eq!(sent(32, 0.1, 0.1), 8);
        assert_eq!(sent(32, 0.2, 0.05), 11);
        assert_eq!(sent(8, 0.9, 0.5), 72);
        for needed in 1..=255 {
            let n = u32::from(needed) + sent(needed, 0.07, 0.04);
            let suffice = |n: u32| (0.89 * f64::from(n) + 1e-9).floor() as u32;
            assert!(suffice(n) >= needed.into() && suffice(n - 1) < needed.into());
        }
    }

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
