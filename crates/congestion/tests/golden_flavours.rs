//! The golden vectors of the TCP flavours: `golden/flavours.json`,
//! `golden/htcp.json`, `golden/mp12_cc.json`, `golden/padhye.json`. Of the first,
//! `rto_rfc6298` and `tcp_nc_numerator` belong to TCP agents, not to controllers.

mod support;

use ctcp_congestion::{
    AckEvent, Aimd, Backoff, Bandwidth, CompoundIncrease, Controller, CubicIncrease, EcnEvent,
    HTcpBackoff, HTcpIncrease, HyblaIncrease, Increase, Params, RttSummary, VegasIncrease,
    VegasParams, VenoBackoff, WindowBlock, backlog, controller_by_name, cubic, hybla, mp12, reno,
    scaled_window, vegas, window_block,
};
use ctcp_units::{Duration, Instant, LossRate, PacketNumber, millis, seconds};
use serde_json::Value;
use support::events::{ack, loss, rtt, silence};
use support::{Flow, Link, Loss};

fn golden(text: &str) -> Value {
    serde_json::from_str(text).expect("the golden file is JSON")
}

fn flavours() -> Value {
    golden(include_str!("golden/flavours.json"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

fn span(value: &Value) -> Duration {
    Duration::from_secs_f64(number(value))
}

fn rows(value: &Value) -> &Vec<Value> {
    let rows = value.as_array().expect("rows");
    assert!(!rows.is_empty());
    rows
}

/// Round-trip times are whole nanoseconds here and real numbers in the files.
fn assert_close(ours: f64, golden: f64) {
    assert!(
        (ours - golden).abs() <= 1e-8 * golden.abs().max(1.0),
        "{ours} is not {golden}"
    );
}

#[test]
fn cubic_follows_the_curve_of_the_golden_file() {
    let golden = &flavours()["cubic_rfc9438"];
    let beta = number(&golden["beta"]);
    assert_close(
        CubicIncrease::alpha_cubic(beta),
        number(&golden["alpha_cubic"]),
    );
    for example in rows(&golden["examples"]) {
        let (w_max, epoch) = (number(&example["W_max"]), number(&example["cwnd_epoch"]));
        let k = CubicIncrease::k(w_max, epoch);
        assert_close(k, number(&example["K"]));
        for point in rows(&example["W"]) {
            let window = CubicIncrease::window(number(&point[0]), k, w_max);
            assert_close(window, number(&point[1]));
        }
        // The controller itself: from W_max to cwnd_epoch, and up along the curve.
        let mut controller = cubic(&in_avoidance_at(w_max));
        controller.on_loss(&loss(0, rtt(millis(100), millis(100))));
        assert_close(controller.tokens(), epoch);
    }
}

/// A window of `tokens` whose first ACK ends slow start.
fn in_avoidance_at(tokens: f64) -> Params {
    Params {
        init_tokens: tokens,
        init_ss_threshold: 1.0,
        ..Params::papers()
    }
}

#[test]
fn hybla_grows_as_the_golden_file_says() {
    for row in rows(&flavours()["hybla_rtt0_25ms"]) {
        let rho = HyblaIncrease::rho(span(&row["rtt"]), Params::papers().hybla.rtt0);
        assert_close(rho, number(&row["rho"]));
        let slow_start = HyblaIncrease::slow_start_step(rho);
        let printed = number(&row["slow_start_inc_per_ack"]);
        assert!((slow_start / printed - 1.0).abs() < 1e-6, "{slow_start}");
        let avoidance = number(&row["ca_inc_per_ack_cwnd_100"]);
        assert_close(HyblaIncrease::avoidance_step(rho, 100.0), avoidance);

        let event = AckEvent {
            rtt: rtt(span(&row["rtt"]), span(&row["rtt"])),
            ..ack(0)
        };
        let mut rule = HyblaIncrease::new(Params::papers().hybla);
        assert_close(rule.avoidance(100.0, 1, &event), avoidance);
        // The rule itself holds the exponent at 16.
        let step = rule.slow_start(100.0, &event);
        assert!((step / printed.min(65_535.0) - 1.0).abs() < 1e-6, "{step}");
    }
}

#[test]
fn hybla_starts_from_rho_initial_windows() {
    let mut controller = hybla(&Params {
        init_tokens: 2.0,
        ..Params::papers()
    });
    let event = AckEvent {
        rtt: rtt(millis(100), millis(100)),
        rtt_sample: Some(millis(100)),
        ..ack(0)
    };
    controller.on_ack(&event);
    assert_close(controller.tokens(), 4.0 * 2.0 + 15.0);
}

#[test]
fn veno_tells_chance_from_congestion_as_the_golden_file() {
    for row in rows(&flavours()["veno_beta3"]) {
        let tokens = number(&row["cwnd"]);
        let (rtt_min, latest) = (span(&row["rtt_min"]), span(&row["rtt"]));
        let waiting = backlog(tokens, rtt_min, latest);
        assert_close(waiting, number(&row["N"]));
        assert_eq!(waiting < 3.0, row["random_loss"].as_bool().expect("a bool"));
        let beta = VenoBackoff::new(3.0).on_loss(tokens, &loss(0, rtt(rtt_min, latest)));
        assert_close(beta * tokens, number(&row["ssthresh"]));
    }
}

#[test]
fn vegas_changes_by_a_packet_as_the_golden_file() {
    let rule = VegasIncrease::new(VegasParams::linux());
    for row in rows(&flavours()["vegas_2_4"]) {
        let tokens = number(&row["cwnd"]);
        let (rtt_min, latest) = (span(&row["rtt_min"]), span(&row["rtt"]));
        assert_close(backlog(tokens, rtt_min, latest), number(&row["diff"]));
        let change = number(&row["change_per_rtt"]);
        assert_eq!(rule.change(tokens, rtt_min, latest), change);

        // The controller itself: a round of that round-trip time, then its end.
        let mut controller = vegas(&in_avoidance_at(tokens));
        let event = |number: u64| AckEvent {
            largest_sent: PacketNumber(number),
            rtt: rtt(rtt_min, latest),
            rtt_sample: Some(latest),
            ..ack(number)
        };
        // A loss on an empty queue takes it out of slow start, to ¾.
        controller.on_loss(&loss(0, rtt(rtt_min, rtt_min)));
        let before = controller.tokens();
        let expected = rule.change(before, rtt_min, latest);
        controller.on_ack(&event(1));
        assert_eq!(controller.tokens(), before, "the round has not ended");
        controller.on_ack(&event(2));
        assert_eq!(controller.tokens(), before + expected);
    }
}

#[test]
fn westwood_falls_back_to_the_window_of_the_golden_file() {
    for row in rows(&flavours()["westwood_plus"]) {
        let (rate, rtt_min) = (number(&row["bwe_packets_per_s"]), span(&row["rtt_min"]));
        let ssthresh = number(&row["ssthresh"]);
        assert_close(Bandwidth::window(rate, rtt_min), ssthresh);
        // Measured over one round of a second.
        let mut rule = Bandwidth::default();
        for (number, second, delivered) in [(0, 0, 0), (1, 1, rate as u64)] {
            rule.on_ack(&AckEvent {
                now: Instant::EPOCH + seconds(second),
                delivered_packets: delivered,
                rtt: rtt(rtt_min, rtt_min),
                ..ack(number)
            });
        }
        assert_close(rule.estimate().expect("a round has passed"), rate);
        let event = loss(2, rtt(rtt_min, rtt_min));
        assert_close(200.0 * rule.on_loss(200.0, &event), ssthresh);
        assert_eq!(rule.on_loss(1.0, &event), 1.0, "it never raises a window");
        assert_close(rule.silence_threshold(200.0, &silence(2)), ssthresh);
    }
}

#[test]
fn compound_changes_its_delay_window_as_the_golden_file() {
    for row in rows(&flavours()["compound_alpha1/8_k3/4_gamma30_zeta1"]) {
        let win = number(&row["win"]);
        let (rtt_min, latest) = (span(&row["rtt_min"]), span(&row["rtt"]));
        assert_close(backlog(win, rtt_min, latest), number(&row["diff"]));
        let change = CompoundIncrease::delay_window_change(win, rtt_min, latest);
        assert_close(change, number(&row["dwnd_change_per_rtt"]));

        let mut rule = CompoundIncrease::new();
        let event = AckEvent {
            rtt: rtt(rtt_min, latest),
            ..ack(0)
        };
        let total = rule.avoidance(win, 1, &event);
        assert_close(rule.delay_window(), change.max(0.0));
        assert_close(total, 1.0 / win + change.max(0.0));
    }
}

#[test]
fn the_block_of_a_window_is_that_of_the_golden_file() {
    for row in rows(&flavours()["tcp_cd"]) {
        let (window, mean) = (number(&row["cwnd"]), number(&row["mu"]));
        let scaled = number(&row["n_scaled"]);
        assert_close(scaled_window(window, mean), scaled);
        let expected = WindowBlock {
            packets: scaled.floor() as u64,
            needed: row["k"].as_u64().expect("whole"),
        };
        assert_eq!(window_block(window, mean, number(&row["sigma"])), expected);
    }
    let all_lost = window_block(4.0, 1.0, 1.0);
    assert_eq!((all_lost.packets, all_lost.needed), (40, 1));
}

#[test]
fn h_tcp_grows_as_the_golden_file_says() {
    let golden = golden(include_str!("golden/htcp.json"));
    for row in rows(&golden["alpha"]) {
        assert_close(HTcpIncrease::alpha(number(&row[0])), number(&row[1]));
        for name in ["sat", "htcp"] {
            assert_close(growth_after(name, &row[0]), number(&row[1]));
        }
    }
    for row in rows(&golden["scaled_2(1-beta)"]) {
        let alpha = HTcpIncrease::alpha(number(&row["delta"]));
        let beta = number(&row["beta"]);
        assert_close(2.0 * (1.0 - beta) * alpha, number(&row["unclamped"]));
        // The file shows what an unclamped β does; at 1 growth would stop.
        let expected = if beta > 0.8 {
            (0.4 * alpha).max(1.0)
        } else {
            number(&row["alpha"])
        };
        assert_close(HTcpIncrease::scaled(alpha, beta), expected);
    }
    for row in rows(&golden["htcp_beta"]) {
        let beta = HTcpBackoff::beta(span(&row["rtt_min"]), span(&row["rtt_max"]));
        assert_close(beta, number(&row["beta"]));
    }
}

/// Packets a round trip by which the controller grows `delta` seconds after a
/// backoff to one half.
fn growth_after(name: &str, delta: &Value) -> f64 {
    let start = Instant::EPOCH + seconds(5);
    let mut controller = controller_by_name(name, &in_avoidance_at(100.0)).expect("a known name");
    let mut backoff = loss(0, rtt(millis(100), millis(200)));
    backoff.now = start;
    controller.on_loss(&backoff);
    let end = start + span(delta);
    let mut now = start;
    let mut growth = 0.0;
    // ACKs at short distances: a long pause would stop the clock.
    for number in 1.. {
        now = (now + millis(500)).min(end);
        let before = controller.tokens();
        controller.on_ack(&AckEvent {
            now,
            rtt: rtt(millis(100), millis(100)),
            ..ack(number)
        });
        growth = (controller.tokens() - before) * before;
        if now == end {
            break;
        }
    }
    growth
}

#[test]
fn mp12_takes_the_steps_of_the_golden_file() {
    let golden = golden(include_str!("golden/mp12_cc.json"));
    let init = &golden["init"];
    let mut controller = mp12(&Params {
        init_tokens: number(&init["tokens"]),
        init_ss_threshold: number(&init["ss_threshold"]),
        ..Params::papers()
    });
    for (index, step) in rows(&golden["steps"]).iter().enumerate() {
        let sample = span(&step["rtt"]);
        let mut event = AckEvent {
            rtt: rtt(span(&init["rtt_min"]), sample),
            rtt_sample: Some(sample),
            ..ack(index as u64)
        };
        event.loss.p = LossRate::clamped(number(&step["p"]));
        event.loss.p_long = LossRate::clamped(number(&step["p_long"]));
        event.loss.p_dev = number(&step["p_stdlong"]);
        controller.on_ack(&event);
        assert_close(controller.tokens(), number(&step["tokens"]));
        assert_eq!(
            controller.in_slow_start(),
            step["slow_start"].as_bool().expect("a bool")
        );
        let threshold = controller.state().ss_threshold;
        assert_eq!(threshold, step["ss_threshold"].as_f64());
    }
}

#[test]
fn mp12_falls_silent_as_the_golden_file() {
    let golden = golden(include_str!("golden/mp12_cc.json"));
    let (before, after) = (&golden["timeout"]["before"], &golden["timeout"]["after"]);
    let initial = number(&golden["timeout"]["initial_tokens"]);
    let mut controller = mp12(&Params {
        init_tokens: initial,
        ..Params::papers()
    });
    let first = before["seqno_una"].as_u64().expect("whole");
    let next = before["seqno_nxt"].as_u64().expect("whole");
    controller.on_ack(&AckEvent {
        acked_packets: (number(&before["tokens"]) - initial) as u64,
        ..ack(first - 1)
    });
    assert_close(controller.tokens(), number(&before["tokens"]));
    controller.on_silence(&silence(next - 1));
    assert_close(controller.tokens(), number(&after["tokens"]));
    assert_eq!(
        controller.state().ss_threshold,
        after["ss_threshold"].as_f64()
    );
    assert!(controller.in_slow_start());
    // Everything up to seqno_nxt is stale.
    controller.on_ack(&ack(next - 1));
    assert_close(controller.tokens(), number(&after["tokens"]));
    let una = after["seqno_una"].as_u64().expect("whole");
    controller.on_ack(&ack(una));
    assert_close(controller.tokens(), number(&after["tokens"]) + 1.0);
}

/// √(1.5/p), the formula and the window that `reno` has at periodic loss.
#[test]
fn renos_window_is_that_of_the_golden_file() {
    let golden = golden(include_str!("golden/padhye.json"));
    let bdp = 25e6 * 0.025 / 12_000.0;
    assert_close(bdp, number(&golden["bdp_packets"]["25Mbps_25ms_1500B"]));
    let shorter = 25e6 * 0.020 / 12_000.0;
    assert_close(shorter, number(&golden["bdp_packets"]["25Mbps_20ms_1500B"]));
    println!("     p   √(1.5/p)   reno");
    for row in rows(&golden["grid"]) {
        let p = number(&row["p"]);
        let window = (1.5 / p).sqrt();
        assert_close(window, number(&row["W"]));
        let efficiency = (window / bdp).min(1.0);
        assert_close(efficiency, number(&row["efficiency_bdp_52.08"]));

        let link = Link {
            loss: Loss::Every((1.0 / p).round() as u64),
            is_paced: false,
            ..Link::new(1e6, millis(100))
        };
        let params = Params {
            init_ss_threshold: window,
            ..Params::papers()
        };
        let mut flow = Flow::new(Box::new(reno(&params)), link);
        flow.run(seconds(60));
        // A window of 122 packets takes 8 s from loss to loss.
        let measured = flow.run(seconds(600)).packets_per_second * 0.1;
        println!("{p:7} {window:8.2} {measured:8.2}");
        // The formula is one of large windows; in small ones the loss of a whole
        // packet and whole tokens show.
        let tolerance = if p <= 0.02 { 0.03 } else { 0.3 };
        assert!(
            (measured / window - 1.0).abs() < tolerance,
            "{measured} is not {window} at {p}"
        );
    }
}

/// A mark is answered as a loss by every flavour that hears marks.
#[test]
fn a_mark_halves_reno() {
    let mut controller: Aimd<_, _> = reno(&in_avoidance_at(40.0));
    controller.on_ecn(&EcnEvent {
        now: Instant::EPOCH,
        ce_packets: 1,
        newest_acked: PacketNumber(0),
        sent_at: Instant::EPOCH,
        largest_sent: PacketNumber(9),
        in_flight: 0,
        rtt: RttSummary {
            latest: millis(100),
            srtt: millis(100),
            rtt_min: millis(100),
            rtt_min_windowed: millis(100),
        },
    });
    assert_eq!(controller.tokens(), 20.0);
}
