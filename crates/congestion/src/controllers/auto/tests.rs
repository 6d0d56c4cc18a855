use ctcp_units::{Duration, Instant, PacketNumber, millis};

use super::model::{Burst, ChanceLoss, Delivered, Noise, QueueRate, StartLoss, losses_explained};
use super::{Auto, auto};
use crate::controller::Controller;
use crate::event::{AckEvent, CouplingEvent, LossEstimate, LossEvent, RttSummary, SilenceEvent};
use crate::params::Params;

fn rtt(latest: Duration, base: Duration) -> RttSummary {
    RttSummary {
        latest,
        srtt: latest,
        rtt_min: base,
        rtt_min_windowed: base,
    }
}

fn lost(first: u64, last: u64, count: u64) -> LossEvent {
    LossEvent {
        now: Instant::EPOCH,
        lost_packets: count,
        first_lost: PacketNumber(first),
        last_lost: PacketNumber(last),
        last_lost_sent_at: Instant::EPOCH,
        largest_sent: PacketNumber(last + 1),
        in_flight: 1,
        rtt: rtt(millis(20), millis(20)),
        loss: LossEstimate::default(),
    }
}

fn acked(now: Duration, delivered: u64, sample: Duration) -> AckEvent {
    AckEvent {
        now: Instant::EPOCH + now,
        newest_acked: PacketNumber(delivered),
        sent_at: Instant::EPOCH + now.saturating_sub(sample),
        largest_sent: PacketNumber(delivered + 10),
        acked_packets: 1,
        in_flight: 10,
        app_limited: false,
        in_recovery: false,
        rtt_sample: Some(sample),
        rtt: rtt(sample, millis(20)),
        delivered_packets: delivered,
        delivery: None,
        loss: LossEstimate::default(),
    }
}

#[test]
fn runs_of_losses_widen_what_chance_explains() {
    let mut burst = Burst::default();
    assert_eq!(burst.dispersion(), 1.0);
    for run in 0..200 {
        // A run of eight, told in two pieces.
        let first = run * 100;
        burst.on_lost(&lost(first, first + 4, 5));
        burst.on_lost(&lost(first + 5, first + 7, 3));
    }
    assert!((14.0..=15.1).contains(&burst.dispersion()), "{burst:?}");
    assert_eq!(burst.packets(), 7.0);
    let single = losses_explained(100.0, 0.05, 1.0, 4.0);
    assert!((16.0..17.0).contains(&single), "{single}");
    assert!(losses_explained(100.0, 0.05, 15.0, 4.0) > 2.5 * single);
    // Rare losses are skewed: one in a hundred packets is nothing at all.
    assert!(losses_explained(100.0, 0.0, 1.0, 3.0) > 1.0);
}

#[test]
fn loss_that_drains_do_not_see_is_nothing_to_send_more_for() {
    let mut chance = ChanceLoss::default();
    for cycle in 0..20_u64 {
        let first = 100 * cycle;
        // Ten of ninety packets are lost at full rate, none of ten in the drain.
        chance.on_acked(PacketNumber(first + 40), 80);
        chance.on_lost(&lost(first + 41, first + 89, 10), true);
        chance.begin_drain(PacketNumber(first + 90));
        chance.on_acked(PacketNumber(first + 99), 10);
        chance.end_drain(PacketNumber(first + 100));
    }
    assert!(chance.share(1.0) < 0.02, "{}", chance.share(1.0));
}

#[test]
fn loss_that_drains_see_too_is_chance() {
    let mut chance = ChanceLoss::default();
    for cycle in 0..20_u64 {
        let first = 100 * cycle;
        chance.on_acked(PacketNumber(first + 40), 81);
        chance.on_lost(&lost(first + 41, first + 89, 9), true);
        chance.begin_drain(PacketNumber(first + 90));
        chance.on_lost(&lost(first + 90, first + 90, 1), true);
        chance.on_acked(PacketNumber(first + 99), 9);
        chance.end_drain(PacketNumber(first + 100));
    }
    assert!((0.09..0.11).contains(&chance.share(1.0)), "{chance:?}");
}

#[test]
fn losses_across_a_drains_border_count_only_where_they_are_certain() {
    let mut chance = ChanceLoss::default();
    chance.begin_drain(PacketNumber(100));
    chance.on_acked(PacketNumber(110), 10);
    chance.on_lost(&lost(60, 100, 20), true);
    chance.end_drain(PacketNumber(120));
    // One of eleven, not twenty of thirty.
    assert!(chance.share(1.0) < 0.3, "{}", chance.share(1.0));
}

#[test]
fn the_starts_losses_count_when_the_next_round_doubles_too() {
    let mut start = StartLoss::default();
    assert!(!start.on_round(80, 20, true));
    let mut chance = ChanceLoss::default();
    chance.learn_start(&start);
    assert_eq!(chance.share(1.0), 0.0);
    assert!(!start.on_round(160, 40, true));
    chance.learn_start(&start);
    assert!((chance.share(1.0) - 0.2).abs() < 1e-9);
    // As much again is chance; three times as much ends the start.
    assert!(!start.on_round(160, 40, false));
    assert!(start.on_round(80, 120, false));
}

#[test]
fn one_swing_of_the_round_trip_is_no_noise_and_many_are() {
    let base = 0.020;
    let mut noise = Noise::default();
    for _ in 0..50 {
        noise.on_round(millis(20), millis(21), base);
    }
    for far in [90, 60, 100] {
        noise.on_round(millis(far), millis(far), base);
    }
    assert!(!noise.drowns_delay(), "{noise:?}");
    for round in 0..50 {
        let least = if round % 2 == 0 { 25 } else { 40 };
        noise.on_round(millis(least), millis(45), base);
    }
    assert!(noise.drowns_delay(), "{noise:?}");
    assert!((noise.highest(base) - 0.025).abs() < 0.004);
    // It comes and goes; over it is when little of it is left.
    for round in 0..8 {
        assert!(noise.drowns_delay(), "{round}: {noise:?}");
        noise.on_round(millis(30), millis(31), base);
    }
    for _ in 0..50 {
        noise.on_round(millis(30), millis(31), base);
    }
    assert!(!noise.drowns_delay(), "{noise:?}");
}

#[test]
fn what_arrives_over_some_rounds_has_no_noise_of_one() {
    let mut delivered = Delivered::default();
    assert_eq!(delivered.rate(), 0.0);
    for round in 0..40_u64 {
        // A hundred packets a tenth of a second, told early and late in turn.
        let early = if round % 2 == 0 { 30 } else { 0 };
        let now = Instant::EPOCH + millis(100 * round - early.min(100 * round));
        delivered.put(now, 100 * round);
        if round == 1 {
            assert!(delivered.rate() > 0.0);
        }
    }
    assert!((delivered.rate() - 1000.0).abs() < 50.0, "{delivered:?}");
}

#[test]
fn losses_of_before_a_cut_do_not_cut_again() {
    let mut controller = auto(&Params::default());
    let number = steady(&mut controller, 0, 40, millis(20));
    let overflow = |first: u64, last: u64, count: u64, sent: u64| LossEvent {
        largest_sent: PacketNumber(sent),
        rtt: rtt(millis(60), millis(20)),
        ..lost(first, last, count)
    };
    // Forty of the packets on the way are lost, in two pieces.
    controller.on_loss(&overflow(number, number + 20, 20, number + 40));
    let after = controller.bandwidth();
    controller.on_loss(&overflow(number + 21, number + 40, 20, number + 60));
    // And one by chance of those that were sent since.
    controller.on_loss(&overflow(number + 50, number + 50, 1, number + 60));
    assert_eq!(controller.bandwidth(), after, "{controller:?}");
}

#[test]
fn acks_of_a_queue_show_the_links_rate() {
    let mut rate = QueueRate::default();
    let above = millis(24);
    let mut found = Vec::new();
    for step in 0..200_u32 {
        // A packet a millisecond; a queue from the hundredth on.
        let sample = if step < 100 { millis(20) } else { millis(40) };
        let ack = acked(millis(u64::from(step)), u64::from(step), sample);
        found.extend(rate.on_ack(&ack, above, millis(50), 30));
    }
    assert_eq!(found, [1000.0]);
}

#[test]
fn a_queue_that_passes_before_a_whole_span_shows_the_rate_by_its_packets() {
    for (packets, is_shown) in [(40, true), (20, false)] {
        let mut rate = QueueRate::default();
        let mut found = None;
        for step in 0..=packets {
            // A packet a millisecond; after the last of them the queue is gone.
            let sample = if step < packets { 40 } else { 20 };
            let ack = acked(millis(step), step, millis(sample));
            found = found.or(rate.on_ack(&ack, millis(24), millis(125), 30));
        }
        assert_eq!(found.is_some(), is_shown, "{packets}: {found:?}");
        assert!(
            (900.0..=1000.0).contains(&found.unwrap_or(950.0)),
            "{found:?}"
        );
    }
}

/// Acknowledges a packet every two milliseconds, all after this round trip.
fn start_over(base: Duration, packets: u64) -> Auto {
    let mut controller = auto(&Params::default());
    for number in 1..=packets {
        let mut ack = acked(base + millis(2 * number), number, base);
        ack.rtt = rtt(base, base);
        controller.on_ack(&ack);
    }
    controller
}

#[test]
fn a_long_path_quadruples_for_longer_and_is_paced_by_its_window() {
    let short = start_over(millis(150), 40);
    let long = start_over(millis(500), 40);
    assert!(short.in_slow_start() && long.in_slow_start());
    assert!(long.tokens() > 10.0 + 3.0 * 39.0, "{}", long.tokens());
    assert!(short.tokens() < 64.0 + 40.0, "{}", short.tokens());
    let paced = long.pacing_rate(Some(millis(500))).expect("a rate");
    assert!(paced >= 2.0 * long.tokens() / 0.5, "{paced}");
}

fn steady(controller: &mut Auto, from: u64, rounds: u64, sample: Duration) -> u64 {
    let mut number = from;
    for _ in 0..rounds * 40 {
        number += 1;
        let now = Duration::from_micros(500 * number);
        controller.on_ack(&acked(now, number, sample));
    }
    number
}

/// More arrives from cut to cut, and the round trip stands.
#[test]
fn what_another_path_of_a_group_gives_up_makes_no_path_longer() {
    let has_grown = |share: f64| {
        let mut controller = auto(&Params::default());
        controller.on_coupling(&CouplingEvent {
            now: Instant::from_nanos(1),
            share,
            growth: share,
        });
        (1..=5).any(|cut| controller.has_path_grown(millis(90), f64::from(100 + 2 * cut)))
    };
    assert!(has_grown(1.0));
    assert!(!has_grown(0.5));
}

#[test]
fn a_first_silence_keeps_half_of_the_model_and_a_second_starts_anew() {
    let mut controller = auto(&Params::default());
    let number = steady(&mut controller, 0, 40, millis(20));
    let silence = |number: u64| SilenceEvent {
        now: Instant::EPOCH + Duration::from_secs(60),
        largest_sent: PacketNumber(number),
        in_flight: 5,
    };
    let before = controller.bandwidth();
    assert!(
        !controller.in_slow_start() && before > 0.0,
        "{controller:?}"
    );
    controller.on_silence(&silence(number + 20));
    assert!((controller.bandwidth() - before / 2.0).abs() < 1e-6);
    controller.on_silence(&silence(number + 21));
    assert!(controller.in_slow_start());
    assert_eq!(controller.tokens(), Params::default().after_silence());
}
