//! What each controller is known for, over a toy bottleneck.

mod support;

use ctcp_congestion::{
    AckEvent, Bbr, Controller, Mp12BaseRtt, Mp12Params, Params, VegasParams, bbr,
    controller_by_name, hybla,
};
use ctcp_units::{Duration, Instant, millis, seconds};
use support::events::{ack, rtt};
use support::{Flow, Link, Loss, Report};

fn flow(name: &str, params: &Params, link: Link) -> Flow {
    let controller = controller_by_name(name, params).expect("a known name");
    Flow::new(controller, link)
}

/// A run of `span` after a warm-up of `before`.
fn steady(name: &str, params: &Params, link: Link, before: Duration, span: Duration) -> Report {
    let mut flow = flow(name, params, link);
    flow.run(before);
    flow.run(span)
}

/// 25 Mbit/s, 25 ms, packets of 1500 bytes, a queue of one BDP ([CC14] §III).
fn cc14_link(loss: f64) -> Link {
    Link {
        queue_packets_max: 52.0,
        loss: Loss::Random(loss),
        ..Link::new(2083.0, millis(25))
    }
}

fn share(name: &str, loss: f64) -> f64 {
    let link = cc14_link(loss);
    let report = steady(name, &Params::default(), link, seconds(10), seconds(60));
    report.packets_per_second / link.packets_per_second
}

/// [RFC9438] §5.1 and §5.2: with periodic loss at rate p the mean window is
/// 1.054·RTT^¾/p^¾, or Reno's √(1.5/p) where that is more.
#[test]
fn cubics_response_function_is_that_of_the_rfc() {
    println!("  RTT      1/p  RFC 9438   cubic");
    for (rtt, every) in [
        (0.01, 1_000),
        (0.01, 10_000),
        (0.1, 100),
        (0.1, 1_000),
        (0.1, 10_000),
        (0.1, 100_000),
    ] {
        let p = 1.0 / every as f64;
        let curve = 1.054 * (rtt / p).powf(0.75);
        let expected = curve.max((1.5 / p).sqrt());
        let link = Link {
            loss: Loss::Every(every),
            is_paced: false,
            ..Link::new(1e6, Duration::from_secs_f64(rtt))
        };
        let params = Params {
            init_ss_threshold: expected,
            ..Params::papers()
        };
        // Twenty losses to settle, forty to measure.
        let period = Duration::from_secs_f64(every as f64 / expected * rtt);
        let report = steady("cubic", &params, link, period * 20, period * 40);
        let window = report.packets_per_second * rtt;
        println!("{rtt:5} {every:8} {expected:9.1} {window:7.1}");
        assert!(
            (window / expected - 1.0).abs() < 0.1,
            "{window} is not {expected} at {rtt} s, {every}"
        );
    }
}

#[test]
fn cubic_begins_on_its_plateau_after_slow_start_without_loss() {
    let params = Params {
        init_ss_threshold: 100.0,
        ..Params::papers()
    };
    let mut controller = controller_by_name("cubic", &params).expect("a known name");
    // One ACK a packet, 100 packets in 100 ms.
    for number in 0..91 {
        controller.on_ack(&ack(number));
    }
    let mut now = Instant::EPOCH;
    for number in 91..1091 {
        now += millis(1);
        controller.on_ack(&AckEvent { now, ..ack(number) });
    }
    // A second on the plateau: the floor alone grows, W_est by one packet a
    // window of ACKs.
    let tokens = controller.tokens();
    assert!((109.0..112.0).contains(&tokens), "{tokens}");
}

/// Hybla's rate grows in time as that of a flow whose round trip is RTT_0:
/// by 2^(t/RTT_0) in slow start, by t/RTT_0² packets a second in avoidance.
#[test]
fn hyblas_rate_does_not_depend_on_the_round_trip() {
    println!("RTT ms   slow start, times in 200 ms   avoidance, packets/s after 10 s");
    for ms in [25, 50, 100, 200] {
        let round_trip = millis(ms);
        let (before, after) = hyblas_windows(round_trip, millis(200), f64::INFINITY);
        let growth = after / before;
        let (before, after) = hyblas_windows(round_trip, seconds(10), 1.0);
        let rate = (after - before) / round_trip.as_secs_f64();
        println!("{ms:6} {growth:12.1} {rate:12.0}");
        assert!((growth / 256.0 - 1.0).abs() < 0.01, "{growth}");
        // Whole windows a round: a tenth of Euler's step size shows.
        assert!((rate / (10.0 / 0.025 / 0.025) - 1.0).abs() < 0.1, "{rate}");
    }
}

/// Hybla's window once its round trip is known, and `span` later.
fn hyblas_windows(round_trip: Duration, span: Duration, threshold: f64) -> (f64, f64) {
    let mut controller = hybla(&Params {
        init_tokens: 10.0,
        max_tokens: 1e9,
        init_ss_threshold: threshold,
        ..Params::papers()
    });
    let mut numbers = 0..;
    let mut now = Instant::EPOCH;
    let mut deliver = |controller: &mut dyn Controller, now, packets: u64| {
        for number in numbers.by_ref().take(packets as usize) {
            controller.on_ack(&AckEvent {
                now,
                rtt: rtt(round_trip, round_trip),
                rtt_sample: Some(round_trip),
                ..ack(number)
            });
        }
    };
    deliver(&mut controller, now, 1);
    let before = controller.tokens();
    while now < Instant::EPOCH + span {
        now += round_trip;
        let packets = controller.tokens().floor() as u64;
        deliver(&mut controller, now, packets);
    }
    (before, controller.tokens())
}

#[test]
fn hyblas_first_ack_does_not_flood_the_path_with_the_products_parameters() {
    let mut controller = hybla(&Params::default());
    controller.on_ack(&AckEvent {
        rtt: rtt(millis(500), millis(500)),
        rtt_sample: Some(millis(500)),
        ..ack(0)
    });
    assert_eq!(controller.tokens(), 45.0 * 20.0);
    assert!(!controller.in_slow_start());
}

#[test]
fn vegas_keeps_between_alpha_and_beta_packets_queued() {
    println!("parameters  RTT ms  queued");
    for (name, vegas) in [("linux", VegasParams::linux()), ("ns2", VegasParams::ns2())] {
        for ms in [20, 50, 100] {
            let params = Params {
                vegas,
                ..Params::default()
            };
            let link = Link::new(2000.0, millis(ms));
            let report = steady("vegas", &params, link, seconds(60), seconds(60));
            println!("{name:10} {ms:7} {:7.2}", report.queue_mean);
            // The packet in service is not seen by the one that arrives.
            let range = vegas.alpha - 1.0..=vegas.beta + 1.0;
            assert!(range.contains(&report.queue_mean), "{report:?}");
            assert!(report.packets_per_second > 0.995 * 2000.0, "{report:?}");
        }
    }
}

/// E-MP12-06: with the smoothed mean as base RTT there is no equilibrium.
#[test]
fn mp12_holds_a_short_queue_by_the_smallest_rtt_and_none_by_the_smoothed() {
    let queue = |base_rtt| {
        let params = Params {
            init_tokens: 50.0,
            init_ss_threshold: 1.0,
            mp12: Mp12Params {
                base_rtt,
                ..Mp12Params::papers()
            },
            ..Params::papers()
        };
        let link = Link::new(1000.0, millis(100));
        let mut flow = flow("mp12", &params, link);
        flow.run(seconds(60));
        let early = flow.run(seconds(20)).tokens_mean;
        flow.run(seconds(60));
        (
            early - link.bdp(),
            flow.run(seconds(20)).tokens_mean - link.bdp(),
        )
    };
    let (early, late) = queue(Mp12BaseRtt::RttMin);
    assert!((3.0..20.0).contains(&late), "{early} {late}");
    assert!((late - early).abs() < 1.0, "{early} {late}");
    let (early, late) = queue(Mp12BaseRtt::Srtt);
    assert!(late > 100.0 && late > early + 50.0, "{early} {late}");
}

#[test]
fn mp12s_slow_start_ends_by_a_queue_with_the_products_parameters() {
    let link = cc14_link(0.0);
    let report = flow("mp12", &Params::default(), link).run(seconds(10));
    assert!(report.overflowed < 1000, "{report:?}");
    let params = Params {
        max_tokens: 1000.0,
        ..Params::papers()
    };
    let printed = flow("mp12", &params, link).run(seconds(10));
    assert!(printed.overflowed > 10_000, "{printed:?}");
}

#[test]
fn bbr_finds_the_bandwidth_through_random_loss() {
    println!("  loss  bandwidth  arriving, of 2083 packets/s");
    for (loss, share_min) in [(0.0, 0.98), (0.01, 0.97), (0.05, 0.93), (0.1, 0.87)] {
        let mut flow = Flow::new(Box::new(bbr(&Params::default())), cc14_link(loss));
        flow.run(seconds(5));
        let report = flow.run(seconds(60));
        let bandwidth = model(&flow);
        println!(
            "{loss:6} {bandwidth:10.0} {:9.0}",
            report.packets_per_second
        );
        assert!((bandwidth / 2083.0 - 1.0).abs() < 0.03, "{bandwidth}");
        assert!(report.packets_per_second > share_min * 2083.0, "{report:?}");
    }
}

/// The bandwidth a flow's BBR paces by, from its state in a steady phase.
fn model(flow: &Flow) -> f64 {
    // Tokens are 2·bw·rtprop + 3 while it probes.
    assert_eq!(flow.controller.state().phase, "probe_bw");
    let rtprop = flow.link.rtt.as_secs_f64() + 1.0 / flow.link.packets_per_second;
    (flow.controller.tokens() - 3.0) / 2.0 / rtprop
}

#[test]
fn bbr_goes_from_startup_through_drain_to_probing() {
    let mut phases = Vec::new();
    let mut flow = Flow::new(
        Box::new(bbr(&Params::default())),
        Link::new(2000.0, millis(50)),
    );
    for step in 0..3600 {
        flow.run(millis(5));
        // The path grows longer: its old round trip must be forgotten in time.
        if step == 1000 {
            flow.link.rtt = millis(55);
        }
        let phase = flow.controller.state().phase;
        if phases.last() != Some(&phase) {
            phases.push(phase);
        }
    }
    assert_eq!(
        phases,
        ["startup", "drain", "probe_bw", "probe_rtt", "probe_bw"]
    );
    let report = flow.run(seconds(30));
    assert!(report.queue_mean < 0.2 * flow.link.bdp(), "{report:?}");
    let model: Bbr = bbr(&Params::default());
    assert_eq!(model.bandwidth(), 0.0, "nothing is known at first");
}

#[test]
fn bbr_is_paced_by_its_model_and_not_by_its_window() {
    let mut flow = Flow::new(
        Box::new(bbr(&Params::default())),
        Link::new(2000.0, millis(50)),
    );
    let initial = flow
        .controller
        .pacing_rate(Some(millis(50)))
        .expect("a rate");
    assert!((initial - 2.885 * 10.0 / 0.05).abs() < 1.0, "{initial}");
    flow.run(seconds(5));
    let rate = flow
        .controller
        .pacing_rate(Some(millis(500)))
        .expect("a rate");
    assert!((0.74 * 2000.0..1.3 * 2000.0).contains(&rate), "{rate}");
}

/// [SAT] Fig. 4: 10 Mbit/s, 500 ms, 20 % loss, from cold.
#[test]
fn sat_fills_a_satellite_path_where_cc14_crawls() {
    let link = Link {
        queue_packets_max: 417.0,
        loss: Loss::Random(0.2),
        ..Link::new(833.0, millis(500))
    };
    let rate = |name: &str| {
        let report = flow(name, &Params::papers(), link).run(seconds(60));
        report.packets_per_second / link.packets_per_second
    };
    let (sat, cc14, reno) = (rate("sat"), rate("cc14"), rate("reno"));
    println!("share of the link over a minute: sat {sat:.3}, cc14 {cc14:.3}, reno {reno:.3}");
    assert!(sat > 0.8 && sat > 5.0 * cc14, "{sat} {cc14}");
    assert!(sat > 50.0 * reno, "{sat} {reno}");
}

/// [CC14] Fig. 2a: what each flavour makes of random loss before the queue.
#[test]
fn random_loss_costs_the_papers_controllers_little_and_tcp_much() {
    println!("controller       share of the link at 0, 1, 5, 10, 20 % loss");
    for name in ["cc14", "sat", "mp12", "cc14-cubic", "cc14-compound"] {
        let shares = [0.0, 0.01, 0.05, 0.1, 0.2].map(|loss| share(name, loss));
        println!("{name:14} {shares:5.2?}");
        assert!(
            shares.iter().all(|share| *share > 0.95),
            "{name} {shares:?}"
        );
    }
    for name in [
        "reno", "cubic", "htcp", "hybla", "veno", "vegas", "compound",
    ] {
        let shares = [0.0, 0.01, 0.05, 0.1, 0.2].map(|loss| share(name, loss));
        println!("{name:14} {shares:5.2?}");
        assert!(shares[0] > 0.98, "{name} {shares:?}");
        assert!(shares[2] < 0.25, "{name} {shares:?}");
    }
    // Westwood keeps the rate at 1 % here, as simulators often find.
    let shares = [0.0, 0.01, 0.05, 0.1, 0.2].map(|loss| share("westwood", loss));
    println!("westwood       {shares:5.2?}");
    assert!(shares[0] > 0.98 && shares[3] < 0.25, "{shares:?}");
}

#[test]
fn veno_gets_more_through_random_loss_than_reno() {
    let (veno, reno) = (share("veno", 0.02), share("reno", 0.02));
    // √(1.5/p) becomes √(4.5/p) with β = ⅘: a factor √3 at most.
    assert!((1.4..2.0).contains(&(veno / reno)), "{veno} {reno}");
}

#[test]
fn tcp_cd_fills_a_marking_path_whatever_it_loses() {
    println!("  loss  share  queue");
    for loss in [0.0, 0.05, 0.1, 0.2] {
        let link = Link {
            mark_above: 26.0,
            ..cc14_link(loss)
        };
        let report = steady("tcp-cd", &Params::default(), link, seconds(10), seconds(60));
        let share = report.packets_per_second / link.packets_per_second;
        println!("{loss:6} {share:6.3} {:6.1}", report.queue_mean);
        assert!(share > 0.93, "{report:?}");
        assert!(
            report.queue_mean < 30.0 && report.overflowed < 200,
            "{report:?}"
        );
    }
}

#[test]
fn hystart_ends_slow_start_before_the_queue_runs_over() {
    let link = Link {
        queue_packets_max: 800.0,
        ..Link::new(4000.0, millis(100))
    };
    let overflow = |hystart| {
        let params = Params {
            hystart,
            ..Params::default()
        };
        flow("cubic", &params, link).run(seconds(3))
    };
    let (with, without) = (overflow(true), overflow(false));
    println!(
        "overflow {} with, {} without",
        with.overflowed, without.overflowed
    );
    assert!(without.overflowed > 100, "{without:?}");
    assert!(
        with.overflowed < without.overflowed / 2,
        "{with:?} {without:?}"
    );
    assert!(with.packets_per_second > 0.8 * 4000.0, "{with:?}");
}

/// The same run twice: nothing hangs on anything but the seed.
#[test]
fn the_same_seed_gives_the_same_run() {
    let run = || {
        let report = share("bbr", 0.1);
        report.to_bits()
    };
    assert_eq!(run(), run());
}
