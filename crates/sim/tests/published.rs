//! Simulated flavours against what was published about them, each as a table.
//! Run with `--nocapture` to see the tables.

use ctcp_link::{LinkConfig, LossModel, QueueSize};
use ctcp_sim::{Flow, FlowReport, Network, Report, Scenario, TcpConfig, Transport};
use ctcp_units::{Duration, LossRate, Rate, millis, seconds};

/// A flow with an ACK for every segment over a link that is never full.
fn alone(config: TcpConfig, rtt: Duration, loss: LossModel, span: Duration) -> Report {
    let link = || LinkConfig::new(Rate::mbit(20_000), rtt / 2).queue(QueueSize::Packets(100_000));
    let config = config.ack_every_segment();
    Scenario::new("alone", Network::dumbbell(link().loss(loss), link()))
        .flow(Flow::new("one", Transport::Tcp(config)))
        .warmup(span / 10)
        .time_limit(span)
        .samples(millis(100))
        .run()
        .unwrap()
}

fn tcp(name: &str) -> TcpConfig {
    // Slow start must not run into the link's limit: there is none to stop it.
    let mut config = TcpConfig::default().congestion(name);
    config.params.init_ss_threshold = 50.0;
    config
}

/// Packets per round trip that arrive in order.
fn packets_per_rtt(flow: &FlowReport, rtt: Duration) -> f64 {
    flow.goodput_bits / 8.0 / 1448.0 * rtt.as_secs_f64()
}

fn bernoulli(share: f64) -> LossModel {
    LossModel::Bernoulli(LossRate::clamped(share))
}

/// Padhye et al.: sqrt(1.5/p), without timeouts, an ACK per packet.
#[test]
fn reno_sends_the_square_root_of_one_and_a_half_over_p() {
    let rtt = millis(100);
    println!(
        "{:>8} {:>10} {:>10} {:>7}",
        "p", "sqrt(1.5/p)", "Reno", "ratio"
    );
    for (p, span) in [
        (0.0002, 500),
        (0.001, 400),
        (0.005, 400),
        (0.01, 400),
        (0.02, 400),
    ] {
        let report = alone(tcp("reno"), rtt, bernoulli(p), seconds(span));
        let ours = packets_per_rtt(&report.flows[0], rtt);
        let theirs = (1.5 / p).sqrt();
        println!("{p:>8} {theirs:>10.2} {ours:>10.2} {:>7.3}", ours / theirs);
        // Losses at random and not every 1/p packets raise the mean; recovery
        // and, from 2 % on, timeouts lower it.
        assert!(
            (0.8..1.2).contains(&(ours / theirs)),
            "{p}: {ours} {theirs}"
        );
    }
}

/// [RFC9438] §5.1, Table 1: a loss every 1/p packets, RTT 0.1 s, C = 0.4.
#[test]
fn cubic_has_the_response_function_of_rfc_9438() {
    let rtt = millis(100);
    println!(
        "{:>8} {:>10} {:>10} {:>7}",
        "p", "RFC 9438", "CUBIC", "ratio"
    );
    for (every, span, theirs) in [
        (1000, 300, 38.0),
        (10_000, 250, 187.0),
        (100_000, 60, 1054.0),
    ] {
        let report = alone(tcp("cubic"), rtt, LossModel::EveryNth(every), seconds(span));
        let ours = packets_per_rtt(&report.flows[0], rtt);
        println!(
            "{:>8} {theirs:>10.0} {ours:>10.1} {:>7.3}",
            1.0 / every as f64,
            ours / theirs
        );
        assert!(
            (0.85..1.15).contains(&(ours / theirs)),
            "{every}: {ours} {theirs}"
        );
    }
}

/// Caini and Firrincieli: the rate of a connection of 25 ms, whatever its own
/// round trip.
#[test]
fn hybla_is_as_fast_on_a_long_path_as_on_a_short_one() {
    let p = 0.001;
    println!(
        "{:>7} {:>14} {:>14}",
        "RTT ms", "Hybla Mbit/s", "Reno Mbit/s"
    );
    let mut rates = Vec::new();
    for ms in [25, 50, 100, 200, 300] {
        let rate = |name: &str| {
            let report = alone(tcp(name), millis(ms), bernoulli(p), seconds(120));
            report.flows[0].goodput_mbit()
        };
        let (hybla, reno) = (rate("hybla"), rate("reno"));
        println!("{ms:>7} {hybla:>14.2} {reno:>14.2}");
        rates.push((hybla, reno));
    }
    let spread = |of: fn(&(f64, f64)) -> f64| {
        let (low, high) = rates
            .iter()
            .map(of)
            .fold((f64::MAX, 0.0_f64), |(low, high), one| {
                (low.min(one), high.max(one))
            });
        high / low
    };
    assert!(
        spread(|pair| pair.1) > 8.0,
        "Reno depends on the round trip"
    );
    assert!(spread(|pair| pair.0) < 1.5, "{rates:?}");
}

/// Brakmo and Peterson: between α and β packets stay in the queue.
#[test]
fn vegas_keeps_alpha_to_beta_packets_in_the_queue() {
    println!(
        "{:>12} {:>6} {:>6} {:>8} {:>14}",
        "link", "alpha", "beta", "queue", "goodput Mbit/s"
    );
    for (mbit, ms) in [(5, 40), (10, 40), (25, 25), (50, 100)] {
        for (alpha, beta) in [(1.0, 3.0), (2.0, 4.0), (8.0, 12.0)] {
            let mut config = TcpConfig::default().congestion("vegas").ack_every_segment();
            config.params.vegas.alpha = alpha;
            config.params.vegas.beta = beta;
            let link = || {
                LinkConfig::new(Rate::mbit(mbit), millis(ms) / 2).queue(QueueSize::Packets(1000))
            };
            let report = Scenario::new("vegas", Network::dumbbell(link(), link()))
                .flow(Flow::new("one", Transport::Tcp(config)))
                .warmup(seconds(100))
                .time_limit(seconds(130))
                .samples(millis(7))
                .run()
                .unwrap();
            let samples = &report.link("bottleneck.down").unwrap().samples;
            let steady = &samples[samples.len() * 2 / 3..];
            let mean = steady
                .iter()
                .map(|one| one.queue_packets as f64)
                .sum::<f64>()
                / steady.len() as f64;
            println!(
                "{mbit:>5} {ms:>3} ms {alpha:>6} {beta:>6} {mean:>8.2} {:>14.2}",
                report.flows[0].goodput_mbit()
            );
            // The packet in transmission included.
            assert!((alpha - 0.2..beta + 0.2).contains(&mean), "{mean} packets");
            assert!(report.flows[0].goodput_mbit() > 0.93 * mbit as f64);
        }
    }
}

/// Leith and Shorten: α = 1 for a second, then 1 + 10(Δ − 1) + ((Δ − 1)/2)², all
/// times 2(1 − β).
#[test]
fn htcp_grows_by_the_time_since_the_last_loss() {
    let rtt = millis(100);
    let report = alone(tcp("htcp"), rtt, LossModel::EveryNth(400_000), seconds(40));
    let tokens: Vec<f64> = report.flows[0]
        .samples
        .iter()
        .map(|one| one.tokens)
        .collect();
    // The windows between the first loss and the second.
    let falls: Vec<usize> = (1..tokens.len())
        .filter(|&index| tokens[index] < tokens[index - 1])
        .collect();
    let (start, end) = (falls[0], falls[1]);
    let least = tokens[start];
    let span = (end - start) as f64 / 10.0;
    let alpha = |delta: f64| match delta - 1.0 {
        over if over <= 0.0 => 1.0,
        over => 1.0 + 10.0 * over + (over / 2.0) * (over / 2.0),
    };
    let growth = |until: f64| -> f64 {
        let steps = (until * 10.0) as usize;
        (0..steps)
            .map(|step| alpha((step as f64 + 0.5) / 10.0))
            .sum()
    };
    println!("window after the loss {least:.1} packets, next loss after {span} s");
    println!("{:>8} {:>10} {:>10} {:>7}", "Δ s", "Σα", "growth", "ratio");
    let mut ratios = Vec::new();
    for delta in [0.4, 0.6, 0.8, 0.95].map(|share| (span * share * 10.0).floor() / 10.0) {
        let grown = tokens[start + (delta * 10.0) as usize] - least;
        let ratio = grown / growth(delta);
        println!(
            "{delta:>8} {:>10.1} {grown:>10.1} {ratio:>7.3}",
            growth(delta)
        );
        ratios.push(ratio);
    }
    // 2(1 − β) with β between 0.5 and 0.8.
    let last = ratios[3];
    assert!((0.38..1.05).contains(&last), "{ratios:?}");
    assert!(
        ratios[1..]
            .iter()
            .all(|ratio| (ratio / last - 1.0).abs() < 0.12),
        "{ratios:?}"
    );
}
