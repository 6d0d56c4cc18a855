//! Single rules of the flavours, each with the few events that show it.

mod support;

use ctcp_congestion::{
    AckCounting, AckEvent, Backoff, CompoundIncrease, Controller, CubicIncrease, CubicRules,
    HTcpBackoff, HTcpIncrease, HTcpRules, Increase, Params, SpuriousLossEvent, VenoIncrease,
    WindowLoss, cc14_cubic, controller_by_name, cubic, mp12, reno, sat, tcp_cd,
};
use ctcp_congestion::{BackoffEvent, EcnEvent, LossEstimate};
use ctcp_units::{Duration, Instant, LossRate, PacketNumber, millis, seconds};
use support::events::{ack, loss, rtt, silence};

const IDLE: Duration = millis(100);

fn at(ms: u64) -> Instant {
    Instant::EPOCH + millis(ms)
}

fn window_of(tokens: f64) -> Params {
    Params {
        init_tokens: tokens,
        init_ss_threshold: 1.0,
        ..Params::papers()
    }
}

fn estimate(p: f64, p_long: f64, p_dev: f64) -> LossEstimate {
    LossEstimate {
        p: LossRate::clamped(p),
        p_long: LossRate::clamped(p_long),
        p_dev,
    }
}

fn backoff(factor: f64, before: f64, ms: u64) -> BackoffEvent {
    BackoffEvent {
        now: at(ms),
        factor,
        tokens_before: before,
        tokens_after: factor * before,
    }
}

fn h_tcp(is_scaled: bool, is_rtt_scaled: bool, beta_hold: f64) -> HTcpIncrease {
    HTcpIncrease::new(HTcpRules {
        is_scaled,
        is_rtt_scaled,
        beta_hold,
    })
}

/// α in packets a round trip at `ms`.
fn alpha(rule: &mut impl Increase, ms: u64) -> f64 {
    let event = AckEvent {
        now: at(ms),
        ..ack(0)
    };
    100.0 * rule.avoidance(100.0, 1, &event)
}

#[test]
fn a_backoff_milder_than_the_hold_leaves_sats_clock_running() {
    let mut rule = h_tcp(false, false, 0.95);
    for ms in (0..2000).step_by(500) {
        alpha(&mut rule, ms);
    }
    rule.on_backoff(&backoff(1.0, 100.0, 1900));
    rule.on_backoff(&backoff(0.95, 100.0, 1900));
    assert!((alpha(&mut rule, 2000) - 11.25).abs() < 1e-9);
    rule.on_backoff(&backoff(0.949, 100.0, 2000));
    assert_eq!(alpha(&mut rule, 2900), 1.0);
}

#[test]
fn an_undone_backoff_gives_h_tcp_its_clock_back() {
    let mut rule = h_tcp(true, false, 2.0);
    for ms in (0..=2000).step_by(500) {
        alpha(&mut rule, ms);
    }
    rule.on_backoff(&backoff(0.5, 100.0, 2000));
    rule.on_undo();
    assert!((alpha(&mut rule, 2000) - 11.25).abs() < 1e-9);
}

#[test]
fn time_in_which_the_window_was_not_used_does_not_count() {
    let mut rule = h_tcp(false, false, 0.95);
    for ms in (0..=2000).step_by(500) {
        alpha(&mut rule, ms);
    }
    for ms in (2500..=60_000).step_by(500) {
        rule.on_pause(&AckEvent {
            now: at(ms),
            app_limited: true,
            ..ack(0)
        });
    }
    assert!((alpha(&mut rule, 60_000) - 11.25).abs() < 1e-9);
    // Nor does a gap without any ACK.
    assert!((alpha(&mut rule, 120_000) - 11.25).abs() < 1e-9);
    assert!((alpha(&mut rule, 121_000) - 22.0).abs() < 1e-9, "a second");
    // The repair of losses is part of the time since they happened.
    rule.on_pause(&AckEvent {
        now: at(122_000),
        in_recovery: true,
        ..ack(0)
    });
    assert!((alpha(&mut rule, 122_000) - 33.25).abs() < 1e-9);
}

#[test]
fn h_tcp_on_a_short_path_can_grow_as_slowly_in_time_as_on_a_long_one() {
    let mut rule = h_tcp(false, true, 2.0);
    for ms in (0..3000).step_by(500) {
        alpha(&mut rule, ms);
    }
    let event = |rtt_min| AckEvent {
        now: at(3000),
        rtt: rtt(rtt_min, rtt_min),
        ..ack(0)
    };
    let mut alpha_at = |ms| 100.0 * rule.avoidance(100.0, 1, &event(millis(ms)));
    assert!((alpha_at(100) - 22.0).abs() < 1e-9);
    assert!((alpha_at(50) - 11.0).abs() < 1e-9);
    assert!((alpha_at(1) - 2.2).abs() < 1e-9, "the ratio is held at 10");
    assert!((alpha_at(1000) - 44.0).abs() < 1e-9, "and at one half");
}

#[test]
fn h_tcp_halves_when_the_throughput_has_moved_by_more_than_a_fifth() {
    for (packets, factor) in [(100, 0.8), (119, 0.8), (121, 0.5), (81, 0.8), (79, 0.5)] {
        let mut rule = HTcpBackoff::default();
        let event = loss(0, rtt(IDLE, IDLE));
        let round = |rule: &mut HTcpBackoff, number: u64, delivered: u64| {
            rule.on_ack(&AckEvent {
                now: Instant::EPOCH + seconds(number),
                delivered_packets: delivered,
                ..ack(number)
            });
        };
        round(&mut rule, 0, 0);
        round(&mut rule, 1, 100);
        assert_eq!(rule.on_loss(50.0, &event), 0.8, "nothing to compare with");
        round(&mut rule, 2, 100 + packets);
        assert_eq!(rule.on_loss(50.0, &event), factor, "{packets}");
    }
}

#[test]
fn h_tcp_backs_off_by_the_largest_round_trip_since_the_last_event() {
    let mut rule = HTcpBackoff::default();
    rule.on_ack(&AckEvent {
        rtt_sample: Some(millis(150)),
        ..ack(0)
    });
    let event = loss(0, rtt(IDLE, IDLE));
    assert!((rule.on_loss(50.0, &event) - 1.0 / 1.5).abs() < 1e-12);
    assert_eq!(rule.on_loss(50.0, &event), 0.8);
}

#[test]
fn fast_convergence_lowers_the_next_plateau() {
    for (fast_convergence, plateau) in [(true, 85.0), (false, 100.0)] {
        let mut rule = CubicIncrease::new(CubicRules {
            alpha: 0.5,
            beta_hold: 2.0,
            fast_convergence,
        });
        rule.on_backoff(&backoff(0.7, 200.0, 0));
        rule.on_backoff(&backoff(0.7, 100.0, 0));
        // At its plateau the curve is flat: K after the epoch's start.
        let k = CubicIncrease::k(plateau, 70.0);
        let mut tokens = 70.0;
        let step = 10;
        for ms in (0..(k * 1000.0) as u64).step_by(step) {
            tokens += rule.avoidance(
                tokens,
                (tokens / 10.0) as u64,
                &AckEvent {
                    now: at(ms),
                    rtt: rtt(millis(10), millis(10)),
                    ..ack(0)
                },
            );
        }
        assert!((tokens - plateau).abs() < 3.0, "{tokens} is not {plateau}");
    }
}

#[test]
fn an_undone_backoff_gives_cubic_its_curve_back() {
    let mut kept = cubic(&window_of(100.0));
    kept.on_loss(&loss(0, rtt(IDLE, IDLE)));
    let mut undone = kept.clone();
    for controller in [&mut kept, &mut undone] {
        for number in 1..50 {
            controller.on_ack(&AckEvent {
                now: at(20 * number),
                ..ack(number)
            });
        }
    }
    undone.on_loss(&loss(50, rtt(IDLE, IDLE)));
    assert!(undone.tokens() < kept.tokens());
    undone.on_spurious_loss(&SpuriousLossEvent {
        now: at(1000),
        number: PacketNumber(50),
    });
    for controller in [&mut kept, &mut undone] {
        controller.on_ack(&AckEvent {
            now: at(1020),
            ..ack(51)
        });
    }
    assert_eq!(kept.tokens(), undone.tokens());
}

#[test]
fn cubic_falls_silent_towards_seven_tenths() {
    let mut controller = cubic(&window_of(100.0));
    controller.on_silence(&silence(0));
    assert_eq!(controller.state().ss_threshold, Some(70.0));
}

#[test]
fn random_losses_do_not_hold_cc14_cubic_on_its_plateau() {
    let grow = |with_losses: bool| {
        let mut controller = cc14_cubic(&window_of(50.0));
        for number in 0..2000 {
            let now = at(10 * number);
            if with_losses && number % 10 == 9 {
                controller.on_loss(&loss(number, rtt(IDLE, IDLE)));
            }
            controller.on_ack(&AckEvent { now, ..ack(number) });
        }
        controller.tokens()
    };
    assert_eq!(grow(true), grow(false));
    assert!(grow(true) > 500.0, "{}", grow(true));
}

#[test]
fn compound_gives_up_its_delay_window_when_a_queue_stands() {
    let mut rule = CompoundIncrease::new();
    for number in 0..20 {
        rule.avoidance(1000.0, 1, &ack(number));
    }
    let full = rule.delay_window();
    assert!(full > 400.0, "{full}");
    rule.on_backoff(&backoff(0.5, 1000.0, 0));
    assert_eq!(rule.delay_window(), full / 2.0);
    rule.on_undo();
    assert_eq!(rule.delay_window(), full);
    let queue = AckEvent {
        rtt: rtt(IDLE, millis(125)),
        ..ack(20)
    };
    let change = rule.avoidance(1000.0, 1, &queue);
    assert!((change - (0.001 - 200.0)).abs() < 1e-9, "{change}");
    for number in 21..30 {
        rule.avoidance(
            1000.0,
            1,
            &AckEvent {
                rtt: rtt(IDLE, millis(125)),
                ..ack(number)
            },
        );
    }
    assert_eq!(rule.delay_window(), 0.0);
}

#[test]
fn veno_counts_every_other_packet_while_three_are_queued() {
    let mut rule = VenoIncrease::new(3.0);
    let queue = AckEvent {
        rtt: rtt(IDLE, millis(110)),
        ..ack(0)
    };
    let steps: Vec<f64> = (0..4).map(|_| rule.avoidance(50.0, 1, &queue)).collect();
    assert_eq!(steps, [0.0, 0.02, 0.0, 0.02]);
    assert_eq!(rule.avoidance(50.0, 5, &queue), 0.04);
    assert_eq!(
        rule.avoidance(50.0, 1, &ack(0)),
        0.02,
        "without a queue each"
    );
}

#[test]
fn mp12_keeps_its_slow_start_through_losses_and_jumps_in_it() {
    let mut controller = mp12(&Params::papers());
    controller.on_loss(&loss(0, rtt(IDLE, millis(200))));
    assert_eq!(controller.tokens(), 10.0);
    assert!(controller.in_slow_start());
    let mut event = ack(1);
    event.loss = estimate(0.3, 0.1, 0.05);
    controller.on_ack(&event);
    assert!((controller.tokens() - 10.9).abs() < 1e-12);
    // Within the deviation nothing jumps.
    event.newest_acked = PacketNumber(2);
    event.loss = estimate(0.14, 0.1, 0.05);
    controller.on_ack(&event);
    assert!((controller.tokens() - 11.9).abs() < 1e-12);
}

#[test]
fn marks_move_mp12_and_tcp_cd_once_a_round_trip() {
    let mark = |newest, largest| EcnEvent {
        now: Instant::EPOCH,
        ce_packets: 1,
        newest_acked: PacketNumber(newest),
        sent_at: Instant::EPOCH,
        largest_sent: PacketNumber(largest),
        in_flight: 0,
        rtt: rtt(IDLE, IDLE),
    };
    let mut first = mp12(&window_of(40.0));
    let mut second = tcp_cd(&window_of(40.0));
    let controllers: [(&mut dyn Controller, f64); 2] = [(&mut first, 32.0), (&mut second, 20.0)];
    for (controller, after) in controllers {
        controller.on_ecn(&mark(0, 50));
        controller.on_ecn(&mark(50, 80));
        assert_eq!(controller.tokens(), after, "{}", controller.name());
        assert!(!controller.in_slow_start());
        controller.on_ecn(&mark(51, 80));
        assert!(controller.tokens() < after);
    }
}

#[test]
fn tcp_cd_scales_its_window_by_what_is_lost_and_does_not_shrink() {
    let mut controller = tcp_cd(&window_of(40.0));
    let mut number = 0;
    for _ in 0..100 {
        // Rounds of twenty packets, every fifth lost.
        for index in 0..20 {
            number += 1;
            if index % 5 == 4 {
                let mut event = loss(number, rtt(IDLE, millis(200)));
                event.largest_sent = PacketNumber(number - index + 20);
                controller.on_loss(&event);
            } else {
                let largest_sent = PacketNumber(number - index + 20);
                controller.on_ack(&AckEvent {
                    largest_sent,
                    app_limited: true,
                    ..ack(number)
                });
            }
        }
    }
    let mean = controller.loss().mean();
    assert!((mean - 0.2).abs() < 0.02, "{mean}");
    assert!((controller.tokens() - 40.0 / (1.0 - mean)).abs() < 1e-9);
    let block = controller.block();
    assert!((48..=52).contains(&block.packets), "{block:?}");
    assert!((37..=41).contains(&block.needed), "{block:?}");
}

#[test]
fn loss_statistics_follow_their_gains() {
    let mut loss = WindowLoss::default();
    loss.on_window(0.4);
    assert!((loss.mean() - 0.05).abs() < 1e-12);
    assert!((loss.deviation() - 0.2).abs() < 1e-12);
    loss.on_window(0.05);
    assert!((loss.mean() - 0.05).abs() < 1e-12);
    assert!((loss.deviation() - 0.03_f64.sqrt()).abs() < 1e-12);
}

#[test]
fn an_ack_of_four_packets_counts_as_it_is_told_to() {
    let grown = |ack_counting, init_ss_threshold| {
        let mut controller = reno(&Params {
            ack_counting,
            init_ss_threshold,
            ..Params::papers()
        });
        // The first ends slow start where there is a threshold.
        controller.on_ack(&ack(0));
        let before = controller.tokens();
        controller.on_ack(&AckEvent {
            acked_packets: 4,
            ..ack(4)
        });
        (controller.tokens() - before)
            * if init_ss_threshold == 1.0 {
                before
            } else {
                1.0
            }
    };
    let (slow_start, avoidance) = (f64::INFINITY, 1.0);
    for (counting, in_slow_start, in_avoidance) in [
        (AckCounting::Packets, 4.0, 4.0),
        (AckCounting::SlowStartUpTo(2), 2.0, 4.0),
        (AckCounting::Acks, 1.0, 1.0),
    ] {
        let started = grown(counting, slow_start);
        assert!((started - in_slow_start).abs() < 1e-9, "{counting:?}");
        let avoided = grown(counting, avoidance);
        assert!((avoided - in_avoidance).abs() < 1e-9, "{counting:?}");
    }
}

#[test]
fn vegas_doubles_every_other_round_trip() {
    let params = Params::default();
    let mut controller = controller_by_name("vegas", &params).expect("a known name");
    let mut next = 0;
    let mut windows = Vec::new();
    for _ in 0..6 {
        let window = controller.tokens() as u64;
        for number in next..next + window {
            controller.on_ack(&AckEvent {
                largest_sent: PacketNumber(next + window - 1),
                rtt_sample: Some(IDLE),
                ..ack(number)
            });
        }
        next += window;
        windows.push(controller.tokens());
    }
    assert_eq!(windows, [20.0, 20.0, 40.0, 40.0, 80.0, 80.0]);
}

#[test]
fn sat_is_cc14_but_for_its_growth() {
    let mut controller = sat(&window_of(100.0));
    controller.on_loss(&loss(0, rtt(IDLE, millis(200))));
    assert_eq!(controller.tokens(), 50.0);
    controller.on_loss(&loss(1, rtt(IDLE, IDLE)));
    assert_eq!(controller.tokens(), 50.0);
}
