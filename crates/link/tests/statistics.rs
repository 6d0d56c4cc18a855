//! Loss processes and faults do what their parameters say, measured over many
//! packets through a whole link.

mod common;

use common::seed;
use ctcp_link::{
    GilbertElliott, Interference, Jitter, Link, LinkConfig, LossModel, LossTrace, Packet, QueueSize,
};
use ctcp_units::{Duration, Instant, LossRate, Rate, micros, millis};

const PACKETS: u64 = 200_000;

/// Sends a packet every `pause` and says which of them arrived.
fn arrivals(config: LinkConfig, seed: u64, pause: Duration) -> (Vec<bool>, Link<usize>) {
    let mut link = Link::new(config, seed, Instant::EPOCH).expect("a valid configuration");
    let mut has_arrived = vec![false; PACKETS as usize];
    let mut now = Instant::EPOCH;
    for index in 0..PACKETS as usize {
        link.send(now, Packet::new(1500, index));
        now += pause;
        while let Some(delivered) = link.poll_delivery(now) {
            has_arrived[delivered.payload] = true;
        }
    }
    while let Some(event) = link.next_event() {
        while let Some(delivered) = link.poll_delivery(event) {
            has_arrived[delivered.payload] = true;
        }
    }
    (has_arrived, link)
}

fn share_lost(has_arrived: &[bool]) -> f64 {
    has_arrived.iter().filter(|&&arrived| !arrived).count() as f64 / has_arrived.len() as f64
}

/// Mean length of the runs of lost packets.
fn mean_burst(has_arrived: &[bool]) -> f64 {
    let lost = has_arrived.iter().filter(|&&arrived| !arrived).count();
    let bursts = has_arrived
        .chunk_by(|a, b| a == b)
        .filter(|run| !run[0])
        .count();
    lost as f64 / bursts as f64
}

fn assert_close(found: f64, expected: f64, tolerance: f64, what: &str) {
    assert!(
        (found - expected).abs() <= tolerance * expected.max(1e-9),
        "{what}: {found}, expected {expected} within {tolerance}"
    );
}

#[test]
fn bernoulli_loses_its_share_in_bursts_of_independent_length() {
    let seed = seed(11);
    for share in [0.01, 0.05, 0.2] {
        let model = LossModel::Bernoulli(LossRate::clamped(share));
        let config = LinkConfig::unlimited(millis(1)).loss(model);
        let (arrived, _) = arrivals(config, seed, micros(10));
        assert_close(share_lost(&arrived), share, 0.1, "share lost");
        assert_close(mean_burst(&arrived), 1.0 / (1.0 - share), 0.03, "burst");
    }
}

#[test]
fn gilbert_elliott_has_its_mean_and_its_burst_length() {
    let seed = seed(12);
    for (share, burst) in [(0.05, 8.0), (0.05, 30.0), (0.2, 4.0)] {
        let chain = GilbertElliott::from_mean_and_burst(LossRate::clamped(share), burst).unwrap();
        assert_close(chain.mean().share(), share, 1e-9, "stationary mean");
        let config = LinkConfig::unlimited(millis(1)).loss(LossModel::GilbertElliott(chain));
        let (arrived, _) = arrivals(config, seed, micros(10));
        // About 330 bursts at the longest: a deviation of 10 % is 2 sigma there.
        assert_close(share_lost(&arrived), share, 0.25, "share lost");
        assert_close(mean_burst(&arrived), burst, 0.2, "burst");
    }
}

#[test]
fn gilbert_elliott_with_loss_in_both_states_has_the_mean_of_the_two() {
    let chain = GilbertElliott {
        good_to_bad: 0.01,
        bad_to_good: 0.04,
        loss_good: LossRate::clamped(0.02),
        loss_bad: LossRate::clamped(0.5),
    };
    // 0.2 · 0.5 + 0.8 · 0.02
    assert_close(chain.mean().share(), 0.116, 1e-9, "stationary mean");
    let config = LinkConfig::unlimited(millis(1)).loss(LossModel::GilbertElliott(chain));
    let (arrived, _) = arrivals(config, seed(13), micros(10));
    assert_close(share_lost(&arrived), 0.116, 0.1, "share lost");
}

#[test]
fn an_oven_loses_its_share_of_time_and_of_the_transmissions_it_touches() {
    let oven = LossModel::Interference(Interference::MICROWAVE_OVEN);
    // An instant is inside a pulse for 9 of 20 ms; at 12 Mbit/s a transmission of
    // 1 ms touches one for 10 of 20 ms. 1013 µs wander through the period.
    let instants = LinkConfig::unlimited(millis(1)).loss(oven.clone());
    let (arrived, _) = arrivals(instants, 1, micros(1013));
    assert_close(share_lost(&arrived), 0.45, 0.01, "share of instants");
    let on_air = LinkConfig::new(Rate::mbit(12), millis(1)).loss_after(oven);
    let (arrived, _) = arrivals(on_air, 1, micros(1013));
    assert_close(share_lost(&arrived), 0.5, 0.01, "share of transmissions");
}

#[test]
fn processes_in_series_multiply_what_they_let_pass() {
    let seed = seed(14);
    let config = LinkConfig::new(Rate::mbit(100), millis(1))
        .loss(LossModel::Bernoulli(LossRate::clamped(0.1)))
        .loss(LossModel::EveryNth(5))
        .loss_after(LossModel::Trace(
            LossTrace::new(vec![false, true, false, false], true).unwrap(),
        ));
    let (arrived, link) = arrivals(config, seed, micros(120));
    assert_close(share_lost(&arrived), 1.0 - 0.9 * 0.8 * 0.75, 0.02, "lost");
    let counters = link.counters();
    let [bernoulli, every, trace, ..] = counters.lost_by_stage;
    assert_eq!(counters.lost_before, bernoulli + every);
    assert_eq!(counters.lost_after, trace);
    assert_eq!(every, (PACKETS - bernoulli) / 5);
}

#[test]
fn loss_before_the_limiter_uses_no_capacity_and_loss_after_does() {
    let half = LossModel::Bernoulli(LossRate::clamped(0.5));
    // Packets come twice as fast as the link carries them.
    let link = || LinkConfig::new(Rate::mbit(12), millis(1)).queue(QueueSize::Packets(40));
    let delivered_mbit = |config| {
        let (_, link) = arrivals(config, seed(15), micros(500));
        let bits = link.counters().delivered_bytes as f64 * 8.0;
        bits / (PACKETS as f64 * 500e-6) / 1e6
    };
    assert!(delivered_mbit(link().loss(half.clone())) > 11.0);
    assert_close(delivered_mbit(link().loss_after(half)), 6.0, 0.05, "after");
}

#[test]
fn shares_of_copies_corruption_and_held_back_packets_are_met() {
    let config = LinkConfig::unlimited(millis(10))
        .duplication(0.05)
        .corruption(0.02)
        .reordering(0.1, millis(2));
    let (_, link) = arrivals(config, seed(16), micros(100));
    let counters = link.counters();
    let packets = PACKETS as f64;
    assert_close(counters.duplicated as f64, 0.05 * packets, 0.1, "copies");
    assert_close(
        counters.corrupted as f64,
        0.02 * 1.05 * packets,
        0.1,
        "corrupted",
    );
    assert_close(counters.reordered as f64, 0.1 * packets, 0.1, "reordered");
}

#[test]
fn uniform_jitter_reorders_only_if_it_may() {
    let jitter = Jitter::Uniform { max: millis(5) };
    let config = LinkConfig::unlimited(millis(10)).jitter(jitter);
    let (_, link) = arrivals(config.clone(), seed(17), micros(100));
    assert_eq!(link.counters().reordered, 0);
    let (arrived, link) = arrivals(config.lets_overtake(), seed(17), micros(100));
    assert!(link.counters().reordered > PACKETS / 2);
    assert_eq!(share_lost(&arrived), 0.0);
}
