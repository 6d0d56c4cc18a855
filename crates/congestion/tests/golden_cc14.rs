//! The golden vectors of [CC14] eq. (1), `golden/aimd.json`.

use ctcp_congestion::{
    AckEvent, Aimd, Backoff, Controller, Increase, JitterGuard, Linear, LossEstimate, LossEvent,
    Params, RttRatio, RttSummary, cc14,
};
use ctcp_units::{Duration, Instant, PacketNumber};
use serde_json::Value;

fn golden() -> Value {
    serde_json::from_str(include_str!("golden/aimd.json")).expect("the golden file is JSON")
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

fn assert_close(ours: f64, golden: f64) {
    assert!(
        (ours - golden).abs() <= 1e-9 * golden.abs(),
        "{ours} is not {golden}"
    );
}

fn loss(rtt_min: f64, rtt: f64) -> LossEvent {
    let seconds = Duration::from_secs_f64;
    LossEvent {
        now: Instant::EPOCH,
        lost_packets: 1,
        first_lost: PacketNumber(0),
        last_lost: PacketNumber(0),
        last_lost_sent_at: Instant::EPOCH,
        largest_sent: PacketNumber(0),
        in_flight: 0,
        rtt: RttSummary {
            latest: seconds(rtt),
            srtt: seconds(rtt),
            rtt_min: seconds(rtt_min),
            rtt_min_windowed: seconds(rtt_min),
        },
        loss: LossEstimate::default(),
    }
}

fn ack() -> AckEvent {
    let rtt = loss(0.1, 0.1).rtt;
    AckEvent {
        now: Instant::EPOCH,
        newest_acked: PacketNumber(0),
        sent_at: Instant::EPOCH,
        largest_sent: PacketNumber(0),
        acked_packets: 1,
        in_flight: 0,
        app_limited: false,
        in_recovery: false,
        rtt_sample: None,
        rtt,
        delivered_packets: 0,
        delivery: None,
        loss: LossEstimate::default(),
    }
}

#[test]
fn backoffs_are_those_of_the_golden_file() {
    for row in golden()["backoff"].as_array().expect("rows") {
        let event = loss(number(&row["rtt_min"]), number(&row["rtt"]));
        let tokens = number(&row["tokens"]);
        let beta = RttRatio::new(JitterGuard::Off).on_loss(tokens, &event);
        assert_close(beta, number(&row["beta"]));

        let params = Params {
            init_tokens: tokens,
            ..Params::papers()
        };
        let mut controller: Aimd<Linear, RttRatio> = cc14(&params);
        controller.on_loss(&event);
        assert_close(controller.tokens(), number(&row["tokens_after"]));
    }
}

/// A loss event and one packet of growth a round trip, over a link whose RTT is
/// max(T, tokens/C): the very arithmetic of the file, with our two rules.
#[test]
fn the_trace_with_a_loss_event_every_round_trip_is_that_of_the_golden_file() {
    let golden = golden();
    let trace = &golden["trace_loss_event_every_rtt"];
    let base = number(&trace["T"]);
    let packets_per_second = number(&trace["bdp_packets"]) / base;
    let mut tokens = number(&trace["w0"]);
    let (mut increase, mut backoff) = (Linear::new(1.0), RttRatio::new(JitterGuard::Off));
    let mut expected = trace["rtt_index_and_tokens"]
        .as_array()
        .expect("rows")
        .iter();
    for round in 1..=80 {
        let rtt = base.max(tokens / packets_per_second);
        let before = tokens * backoff.on_loss(tokens, &loss(base, rtt));
        // A window's worth of packets adds α; scaled, as windows are real.
        let per_packet = increase.avoidance(before, 1, &ack());
        tokens = before + per_packet * before;
        if round % 8 == 0 {
            let row = expected.next().expect("a row every eight rounds");
            assert_eq!(row[0].as_u64(), Some(round));
            // RTTs are whole nanoseconds here and real numbers in the file.
            assert!((tokens - number(&row[1])).abs() < 1e-5, "{tokens}");
        }
    }
    assert!(expected.next().is_none());
}

#[test]
fn jitter_settles_the_window_where_the_golden_file_says() {
    for row in golden()["jitter_equilibrium_tokens"]
        .as_array()
        .expect("rows")
    {
        let beta = number(&row["beta"]);
        let event = loss(1.0, 1.0 / beta);
        let (mut increase, mut backoff) = (Linear::new(1.0), RttRatio::new(JitterGuard::Off));
        let mut tokens = 10.0;
        for _ in 0..20_000 {
            tokens *= backoff.on_loss(tokens, &event);
            tokens += increase.avoidance(tokens, 1, &ack()) * tokens;
        }
        let expected = number(&row["tokens"]);
        assert!(
            (tokens / expected - 1.0).abs() < 1e-5,
            "{tokens} is not {expected}"
        );
    }
}
