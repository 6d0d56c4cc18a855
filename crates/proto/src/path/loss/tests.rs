use super::*;
use ctcp_units::Random;
use serde_json::Value;
use std::collections::BTreeSet;

fn golden() -> Value {
    let text = include_str!("../../../tests/golden/ewma.json");
    serde_json::from_str(text).expect("the golden file is JSON")
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

fn assert_close(ours: f64, expected: f64) {
    let tolerance = 1e-9 * expected.abs() + 1e-15;
    assert!(
        (ours - expected).abs() <= tolerance,
        "{ours} is not {expected}"
    );
}

fn random() -> Random {
    let seed = std::env::var("CTCP_SEED").map_or(1, |text| text.parse().expect("a number"));
    println!("CTCP_SEED={seed}");
    Random::from_seed(seed)
}

#[test]
fn algorithm_1_goes_step_by_step_as_the_golden_file() {
    let golden = golden();
    let init = &golden["init"];
    let start = LossEstimate {
        p: LossRate::clamped(number(&init["p"])),
        p_long: LossRate::clamped(number(&init["pl"])),
        p_dev: number(&init["pd"]),
    };
    let mut estimator = LossEstimator::new(number(&init["mu"]), number(&init["nu"]), start);
    for step in golden["steps"].as_array().expect("steps") {
        // A stale ACK is no news of the path.
        if let Some(losses) = step["losses"].as_u64() {
            estimator.on_packets(1, losses);
        }
        let ours = estimator.estimate();
        assert_close(ours.p.share(), number(&step["ours"]["p"]));
        assert_close(ours.p_long.share(), number(&step["ours"]["p_long"]));
        assert_close(ours.p_dev, number(&step["ours"]["p_stdlong"]));
    }
}

#[test]
fn single_updates_are_those_of_the_golden_file() {
    for row in golden()["single_updates"].as_array().expect("rows") {
        let gain = Gain::new(number(&row["mu"]));
        let losses = number(&row["losses"]);
        assert_close(
            gain.filtered(number(&row["p"]), 1.0, losses),
            number(&row["p_new"]),
        );
    }
}

#[test]
fn many_packets_in_one_ack_are_as_many_acks_of_one() {
    for (acked, losses_each) in [(1, 0), (7, 0), (10, 1), (64, 3)] {
        let mut batch = LossEstimator::default();
        let mut single = batch;
        batch.on_packets(20, 4);
        single.on_packets(20, 4);
        batch.on_packets(acked, acked * losses_each);
        for _ in 0..acked {
            single.on_packets(1, losses_each);
        }
        assert_close(batch.p, single.p);
        assert_close(batch.p_long, single.p_long);
    }
}

#[test]
fn losses_without_an_arrival_only_raise_the_estimate() {
    let mut estimator = LossEstimator::default();
    estimator.on_packets(0, 50);
    assert_close(estimator.p, 1.0 - 0.98_f64.powi(50));
    estimator.on_packets(0, 1_000_000);
    assert_eq!(estimator.estimate().p, LossRate::ONE);
}

/// E-MP12-03: seen at ACK instants the mean is p, however many packets an ACK
/// speaks of.
#[test]
fn the_mean_estimate_is_the_loss_rate_for_any_size_of_ack() {
    let mut random = random();
    for packets_per_ack in [1, 2, 10, 40] {
        for p in [0.01, 0.05, 0.2, 0.5] {
            let mut estimator = LossEstimator::default();
            let (mut sum, mut count) = (0.0, 0.0);
            let (mut acked, mut lost) = (0, 0);
            // Enough packets that 5 % are four standard deviations and more.
            for packet in 0..(8_000.0 / p) as u64 {
                if random.chance(p) {
                    lost += 1;
                    continue;
                }
                acked += 1;
                if acked == packets_per_ack {
                    estimator.on_packets(acked, lost);
                    (acked, lost) = (0, 0);
                    if packet > 1_000 {
                        sum += estimator.p;
                        count += 1.0;
                    }
                }
            }
            let mean: f64 = sum / count;
            assert!(
                (mean / p - 1.0).abs() < 0.05,
                "{packets_per_ack} packets an ACK at p = {p}: {mean}"
            );
        }
    }
}

#[test]
fn a_loss_taken_back_at_once_leaves_nothing() {
    let mut estimator = LossEstimator::default();
    estimator.on_packets(0, 30);
    estimator.take_back(30);
    assert_close(estimator.p, 0.0);
    assert_close(estimator.p_long, 0.0);
    estimator.take_back(5);
    assert_eq!(estimator.estimate().p, LossRate::ZERO);
}

#[test]
fn a_new_address_returns_to_the_start_values() {
    let mut estimator = LossEstimator::default();
    estimator.on_packets(10, 9);
    estimator.reset();
    assert_eq!(estimator, LossEstimator::default());
}

fn entry(newly_acked: u64, newly_lost: u64, received_total: u64) -> AckTally {
    AckTally {
        newly_acked,
        newly_lost,
        spurious: 0,
        received_total: Some(received_total),
    }
}

fn tally(acked: u64, lost: u64, taken_back: u64) -> LossTally {
    LossTally {
        acked,
        lost,
        taken_back,
    }
}

#[test]
fn a_gap_that_the_count_agrees_with_is_a_loss() {
    let mut ledger = LossLedger::new();
    assert_eq!(ledger.enter(&entry(10, 0, 10)), tally(10, 0, 0));
    assert_eq!(ledger.enter(&entry(5, 2, 15)), tally(5, 2, 0));
    assert_eq!(ledger.lost_total(), 2);
}

#[test]
fn a_lost_ack_is_not_a_lost_packet() {
    let mut ledger = LossLedger::new();
    ledger.enter(&entry(10, 0, 10));
    // Three packets arrived, and every ACK that named them was lost. The next
    // ACK leaves a gap of four, but counts three of them.
    assert_eq!(ledger.enter(&entry(5, 4, 18)), tally(8, 1, 0));
    assert_eq!(ledger.lost_total(), 1);
}

#[test]
fn a_reordered_ack_is_not_a_loss() {
    let mut ledger = LossLedger::new();
    ledger.enter(&entry(10, 0, 10));
    ledger.enter(&entry(10, 0, 20));
    // An older ACK with an older count, and nothing new in it.
    assert_eq!(ledger.enter(&entry(0, 0, 15)), tally(0, 0, 0));
    // The count does not go back: the next gap is a loss.
    assert_eq!(ledger.enter(&entry(5, 1, 25)), tally(5, 1, 0));
}

#[test]
fn a_late_ack_spends_the_credit_that_stood_for_its_packets() {
    let mut ledger = LossLedger::new();
    ledger.enter(&entry(10, 0, 10));
    assert_eq!(ledger.enter(&entry(5, 3, 18)), tally(8, 0, 0));
    // The ACK that named the three was only late.
    let late = AckTally {
        newly_acked: 3,
        spurious: 3,
        newly_lost: 0,
        received_total: Some(13),
    };
    assert_eq!(ledger.enter(&late), tally(0, 0, 0));
    assert_eq!(ledger.enter(&entry(5, 1, 23)), tally(5, 1, 0));
}

#[test]
fn a_packet_reordered_beyond_the_allowance_is_taken_back_when_it_arrives() {
    let mut ledger = LossLedger::new();
    ledger.enter(&entry(10, 0, 10));
    assert_eq!(ledger.enter(&entry(5, 1, 15)), tally(5, 1, 0));
    let late = AckTally {
        newly_acked: 2,
        spurious: 1,
        newly_lost: 0,
        received_total: Some(17),
    };
    assert_eq!(ledger.enter(&late), tally(1, 0, 1));
    assert_eq!(ledger.lost_total(), 0);
}

#[test]
fn true_losses_beside_spurious_ones_still_count() {
    let mut ledger = LossLedger::new();
    ledger.enter(&entry(10, 3, 10));
    let both = AckTally {
        newly_acked: 8,
        spurious: 3,
        newly_lost: 3,
        received_total: Some(18),
    };
    assert_eq!(ledger.enter(&both), tally(5, 3, 3));
    assert_eq!(ledger.lost_total(), 3);
}

#[test]
fn a_surplus_waits_for_the_losses_it_belongs_to() {
    let mut ledger = LossLedger::new();
    ledger.enter(&entry(10, 4, 10));
    // The count runs ahead of the loss detection by one ACK.
    assert_eq!(ledger.enter(&entry(1, 0, 14)), tally(1, 0, 0));
    assert_eq!(ledger.enter(&entry(1, 3, 15)), tally(4, 0, 0));
    assert_eq!(ledger.lost_total(), 4);
}

#[test]
fn losses_the_timer_declared_are_taken_back_by_a_lasting_surplus() {
    let mut ledger = LossLedger::new();
    ledger.enter(&entry(10, 0, 10));
    let timer = AckTally {
        newly_lost: 20,
        ..AckTally::default()
    };
    assert_eq!(ledger.enter(&timer), tally(0, 20, 0));
    // All twenty had arrived; their ACKs were lost in an outage of the way back.
    let mut taken_back = 0;
    for received in 31..=(31 + 2 * SURPLUS_PATIENCE) {
        let step = ledger.enter(&entry(1, 0, received));
        assert_eq!((step.acked, step.lost), (1, 0));
        taken_back += step.taken_back;
    }
    assert_eq!((taken_back, ledger.lost_total()), (20, 0));
}

#[test]
fn packets_given_up_that_arrived_excuse_no_later_loss() {
    let mut ledger = LossLedger::new();
    ledger.enter(&entry(10, 4, 10));
    // The way back is silent for long; the fifty packets in flight arrive.
    ledger.give_up(50);
    assert_eq!(ledger.enter(&entry(1, 0, 61)), tally(51, 0, 0));
    for received in 62..62 + 3 * SURPLUS_PATIENCE {
        assert_eq!(ledger.enter(&entry(1, 1, received)), tally(1, 1, 0));
    }
    assert_eq!(ledger.lost_total(), 4 + 3 * SURPLUS_PATIENCE);
}

#[test]
fn packets_given_up_may_still_be_acknowledged() {
    let mut ledger = LossLedger::new();
    ledger.enter(&entry(10, 4, 10));
    ledger.give_up(3);
    let late = AckTally {
        newly_acked: 2,
        spurious: 2,
        newly_lost: 0,
        received_total: Some(13),
    };
    assert_eq!(ledger.enter(&late), tally(3, 0, 0), "one more by the count");
    let last = AckTally {
        newly_acked: 1,
        spurious: 1,
        ..late
    };
    assert_eq!(ledger.enter(&last), tally(0, 0, 0));
    assert_eq!(ledger.lost_total(), 4);
}

#[test]
fn packets_given_up_that_are_gone_are_forgotten() {
    let mut ledger = LossLedger::new();
    ledger.give_up(50);
    for received in 1..=SURPLUS_PATIENCE {
        ledger.enter(&entry(1, 0, received));
    }
    // A lost ACK later on is credited as ever.
    let received = SURPLUS_PATIENCE + 5;
    assert_eq!(ledger.enter(&entry(1, 4, received)), tally(5, 0, 0));
}

#[test]
fn entries_of_any_kind_keep_the_books_balanced() {
    let mut random = random();
    for _ in 0..200 {
        let mut ledger = LossLedger::new();
        let mut total = LossTally::default();
        for _ in 0..500 {
            let newly_acked = random.below(20);
            let entry = AckTally {
                newly_acked,
                spurious: random.below(newly_acked + 1),
                newly_lost: random.below(5),
                received_total: random.chance(0.9).then(|| random.below(8_000)),
            };
            let step = ledger.enter(&entry);
            total.lost += step.lost;
            total.taken_back += step.taken_back;
            assert_eq!(total.lost - total.taken_back, ledger.lost_total());
            if random.chance(0.02) {
                ledger.give_up(random.below(100));
            }
        }
    }
}

#[test]
fn a_count_that_lies_breaks_nothing() {
    let mut ledger = LossLedger::new();
    assert_eq!(ledger.enter(&entry(5, 3, u64::MAX)), tally(8, 0, 0));
    assert_eq!(ledger.enter(&entry(5, 3, 0)), tally(8, 0, 0));
    assert_eq!(ledger.lost_total(), 0);
    let mut ledger = LossLedger::new();
    assert_eq!(ledger.enter(&entry(5, 3, 0)), tally(5, 3, 0));
}

/// A path with losses both ways, reordering both ways, and a receiver that
/// names each arrival in three successive ACKs and then forgets it.
struct Network {
    loss: f64,
    ack_loss: f64,
    late: f64,
}

/// What came of it: true losses, the ledger's, and mean estimates with and
/// without the count.
struct Outcome {
    lost: u64,
    ledger_lost: u64,
    mean: f64,
    mean_without_count: f64,
}

impl Network {
    fn run(&self, random: &mut Random, packets: u64) -> Outcome {
        const REORDERING: u64 = 3;
        let mut ledger = LossLedger::new();
        let (mut estimator, mut naive) = (LossEstimator::default(), LossEstimator::default());
        let (mut sum, mut naive_sum, mut samples) = (0.0, 0.0, 0.0);
        // Arrival order: a packet is late by some places now and then.
        let mut lost = 0;
        let mut arrivals: Vec<(u64, u64)> = Vec::new();
        for packet in 0..packets {
            if random.chance(self.loss) {
                lost += 1;
                continue;
            }
            let late = if random.chance(self.late) {
                random.below(12)
            } else {
                0
            };
            arrivals.push((packet + late, packet));
        }
        arrivals.sort_unstable();
        // The ACKs, each naming the last three arrivals, in order of arrival.
        let mut acks: Vec<(usize, usize)> = Vec::new();
        for place in 0..arrivals.len() {
            let late = if random.chance(self.late) {
                random.below(12) as usize
            } else {
                0
            };
            // The last ones get through, so that the end can be judged.
            if place + 4 * SURPLUS_PATIENCE as usize > arrivals.len()
                || !random.chance(self.ack_loss)
            {
                acks.push((place + late, place));
            }
        }
        acks.sort_unstable();

        let mut unacked: BTreeSet<u64> = BTreeSet::new();
        let mut declared: BTreeSet<u64> = BTreeSet::new();
        let (mut known, mut judged) = (0, 0);
        for (_, place) in acks {
            let mut step = AckTally {
                received_total: Some(place as u64 + 1),
                ..AckTally::default()
            };
            let named = &arrivals[place.saturating_sub(2)..=place];
            let largest = named.iter().map(|(_, packet)| *packet).max().expect("one");
            unacked.extend(known..=largest);
            known = known.max(largest + 1);
            for (_, packet) in named {
                if declared.remove(packet) {
                    step.spurious += 1;
                    step.newly_acked += 1;
                } else if unacked.remove(packet) {
                    step.newly_acked += 1;
                }
            }
            judged = judged.max(known.saturating_sub(REORDERING));
            let beyond = unacked.split_off(&judged);
            step.newly_lost = unacked.len() as u64;
            declared.append(&mut unacked);
            unacked = beyond;

            estimator.on_tally(&ledger.enter(&step));
            naive.on_tally(&LossTally {
                acked: step.newly_acked - step.spurious,
                lost: step.newly_lost,
                taken_back: step.spurious,
            });
            if place > 2_000 {
                sum += estimator.p;
                naive_sum += naive.p;
                samples += 1.0;
            }
        }
        Outcome {
            lost,
            ledger_lost: ledger.lost_total(),
            mean: sum / samples,
            mean_without_count: naive_sum / samples,
        }
    }
}

#[test]
fn the_estimate_is_the_loss_rate_of_the_way_there_alone() {
    let mut random = random();
    for loss in [0.0, 0.01, 0.1, 0.3] {
        for ack_loss in [0.0, 0.1, 0.5, 0.7] {
            for late in [0.0, 0.05] {
                let network = Network {
                    loss,
                    ack_loss,
                    late,
                };
                let outcome = network.run(&mut random, 25_000);
                let case = format!("loss {loss}, ACK loss {ack_loss}, late {late}");
                let error = (outcome.mean - loss).abs();
                assert!(error < 0.01 + 0.05 * loss, "{case}: {}", outcome.mean);
                // A few losses are still within the reordering allowance.
                let open = outcome.lost.abs_diff(outcome.ledger_lost);
                assert!(open <= 8, "{case}: {open} losses apart");
                if ack_loss > 0.4 {
                    let naive = outcome.mean_without_count;
                    assert!(naive > loss + 0.05, "{case}: the count has work to do");
                }
            }
        }
    }
}

#[test]
fn redundancy_is_planned_with_the_long_memory_until_the_rate_changes() {
    let mut random = Random::from_seed(5);
    let mut estimator = LossEstimator::default();
    let mut feed = |estimator: &mut LossEstimator, rate: f64, packets: u32| {
        let (mut sum, mut from_long) = (0.0, 0u32);
        for _ in 0..packets {
            let is_lost = random.chance(rate);
            estimator.on_packets(u64::from(!is_lost), u64::from(is_lost));
            let estimate = estimator.estimate();
            from_long += u32::from(estimator.planning_rate() == estimate.p_long);
            sum += estimator.planning_rate().share();
        }
        (sum / f64::from(packets), from_long)
    };
    feed(&mut estimator, 0.2, 4000);
    let (mean, from_long) = feed(&mut estimator, 0.2, 4000);
    assert!((mean - 0.2).abs() < 0.02, "{mean}");
    assert!(from_long > 3600, "{from_long}");
    // A fall and a rise are followed within the short memory.
    feed(&mut estimator, 0.0, 200);
    assert!(estimator.planning_rate().share() < 0.01);
    feed(&mut estimator, 0.5, 200);
    assert!(estimator.planning_rate().share() > 0.3);
}
