//! The transports beside TCP and CTCP do what their papers say.

use ctcp_link::{LinkConfig, LossModel, QueueSize};
use ctcp_sim::{
    Application, Coding, ConstantRate, Flow, FlowReport, GoBackNConfig, NcConfig, Network, Report,
    Scenario, TcpConfig, Transport, UdpConfig,
};
use ctcp_units::{Duration, LossRate, Rate, millis, seconds};

fn bernoulli(share: f64) -> LossModel {
    LossModel::Bernoulli(LossRate::clamped(share))
}

/// Four links of 1 Mbit/s and 100 ms in a row ([MODEL] Fig. 9); `q` of the data is
/// lost on each, and `q_up` of the ACKs.
fn four_links(q: f64, q_up: f64) -> Network {
    let link = |q: f64| {
        LinkConfig::new(Rate::mbit(1), millis(100))
            .queue(QueueSize::Packets(200))
            .loss(bernoulli(q))
    };
    Network::chain(["a", "b", "c", "d"].map(|name| (name, link(q), link(q_up))))
}

fn over(network: Network, transport: Transport, span: Duration) -> FlowReport {
    let report = Scenario::new("four links", network)
        .flow(Flow::new("one", transport))
        .time_limit(span)
        .seed(3)
        .run()
        .unwrap();
    report.flows[0].clone()
}

fn over_four_links(q: f64, transport: Transport) -> FlowReport {
    over(four_links(q, q), transport, seconds(300))
}

/// [MODEL] eq. (17) with two idle rounds, its Table I: 0.0231, 0.0150 and 0.0065
/// Mbit/s. The equation knows of no lost ACK, and its idle rounds stand for the
/// feedback that a simulated sender waits for by itself.
#[test]
fn go_back_n_is_near_the_equation_of_its_paper_while_no_ack_is_lost() {
    println!("{:>6} {:>9} {:>9} {:>6}", "q", "eq. (17)", "ours", "ratio");
    for (q, computed) in [(0.015, 0.0231), (0.025, 0.0150), (0.05, 0.0065)] {
        let config = GoBackNConfig::default();
        let flow = over(
            four_links(q, 0.0),
            Transport::GoBackN(config),
            seconds(5000),
        );
        let ratio = flow.goodput_mbit() / computed;
        println!(
            "{q:>6} {computed:>9.4} {:>9.4} {ratio:>6.2}",
            flow.goodput_mbit()
        );
        assert!((0.75..1.33).contains(&ratio), "{q}: {ratio}");
    }
}

/// Combinations make up for losses with little to spare where R(1 − p) is near 1:
/// packets not yet seen are a random walk with a drift of R(1 − p) − 1 and a
/// variance of Rp(1 − p) a packet, and stand at variance over twice the drift.
/// They lengthen the round trip by their time on the way.
#[test]
fn the_round_trip_of_tcp_nc_has_the_backlog_of_a_random_walk() {
    println!("{:>6} {:>9} {:>9}", "q", "computed", "ours, s");
    for q in [0.015_f64, 0.025, 0.05] {
        let p = 1.0 - (1.0 - q).powi(4);
        let config = NcConfig::default();
        let r = config.redundancy;
        let flow = over(four_links(q, q), Transport::Nc(config), seconds(2000));
        let packets_per_s = flow.goodput_mbit() * 1e6 / 8000.0;
        let backlog = r * p * (1.0 - p) / (2.0 * (r * (1.0 - p) - 1.0));
        // Four links each way: 0.8 s, four packets of 8 ms and four ACKs.
        let unloaded_s = 0.8 + 4.0 * 0.008 + 4.0 * 40.0 * 8.0 / 1e6;
        let computed_s = unloaded_s + backlog / packets_per_s;
        let ours_s = flow.srtt_mean.unwrap().as_secs_f64();
        println!("{q:>6} {computed_s:>9.4} {ours_s:>9.4}");
        assert!(
            (ours_s / computed_s - 1.0).abs() < 0.03,
            "{q}: {ours_s} {computed_s}"
        );
    }
}

#[test]
fn tcp_nc_hides_losses_from_vegas() {
    // [MODEL] Table I: simulated 0.6242, 0.6161, 0.5200 Mbit/s.
    for (q, printed) in [(0.015, 0.6242), (0.025, 0.6161), (0.05, 0.5200)] {
        let flow = over_four_links(q, Transport::Nc(NcConfig::default()));
        let tcp = over_four_links(q, Transport::GoBackN(GoBackNConfig::default()));
        println!(
            "q {q}: TCP/NC {:.4} Mbit/s (print {printed}), window {:.1}, srtt {:?}, timeouts {}, backoffs {}, resent {}, useless {}, go-back-N {:.4}",
            flow.goodput_mbit(),
            flow.tokens_mean,
            flow.srtt_mean.unwrap(),
            flow.timeouts,
            flow.backoffs,
            flow.retransmissions,
            flow.useless_packets,
            tcp.goodput_mbit(),
        );
        assert!(flow.goodput_mbit() > 0.75 * printed);
        assert!(flow.goodput_mbit() > 10.0 * tcp.goodput_mbit());
    }
}

#[test]
fn relays_that_recode_need_less_from_the_source() {
    // 18.5 % are lost end to end, 5 % on each link.
    let far = NcConfig {
        redundancy: 1.3,
        ..NcConfig::default()
    };
    let near = NcConfig {
        redundancy: 1.1,
        relay_redundancy: Some(1.06),
        ..NcConfig::default()
    };
    let far = over_four_links(0.05, Transport::Nc(far));
    let near = over_four_links(0.05, Transport::Nc(near));
    println!(
        "end to end {:.3}, re-coded {:.3} Mbit/s, combinations per packet {:.2} and {:.2}",
        far.goodput_mbit(),
        near.goodput_mbit(),
        far.packets_sent as f64 * 1000.0 / far.bytes_in_order as f64,
        near.packets_sent as f64 * 1000.0 / near.bytes_in_order as f64,
    );
    assert!(near.goodput_bits > 0.95 * far.goodput_bits);
    let sent = |flow: &FlowReport| flow.packets_sent as f64 / flow.bytes_in_order as f64;
    assert!(sent(&near) < 0.95 * sent(&far));
}

/// [FEC]'s dumb-bell: 10 Mbit/s, 40 ms, a buffer that marks at half.
fn fec(transport: Transport, udp_peak_mbit: u64, seed: u64) -> Report {
    let buffer = QueueSize::Bytes(50_000);
    let down = LinkConfig::new(Rate::mbit(10), millis(20))
        .queue(buffer)
        .ecn_threshold(QueueSize::Bytes(25_000));
    let up = LinkConfig::new(Rate::mbit(10), millis(20)).queue(buffer);
    let udp = UdpConfig::constant(Rate::mbit(udp_peak_mbit)).on_off(seconds(2), seconds(2));
    Scenario::new("fec", Network::dumbbell(down, up))
        .flow(Flow::new("tcp", transport))
        .flow(Flow::new("udp", Transport::Udp(udp)))
        .warmup(seconds(4))
        .time_limit(seconds(84))
        .seed(seed)
        .run()
        .unwrap()
}

#[test]
fn the_coded_tcp_gets_through_bursts_of_udp() {
    let ecn = TcpConfig {
        is_ecn_enabled: true,
        ..TcpConfig::default()
    };
    for peak in [3, 8, 12] {
        let mut shares = Vec::new();
        for (name, config) in [
            ("sack", ecn.clone()),
            ("la", TcpConfig::tcp_la()),
            ("cd", TcpConfig::tcp_cd()),
        ] {
            let report = fec(Transport::Tcp(config), peak, 1);
            let flow = &report.flows[0];
            println!(
                "udp {peak} Mbit/s {name}: goodput {:.2} throughput {:.2} Mbit/s, coded {} recovered {} resent {} timeouts {} marked {} loss {:.4}",
                flow.goodput_mbit(),
                flow.throughput_bits / 1e6,
                flow.coded_packets,
                flow.recovered_packets,
                flow.retransmissions,
                flow.timeouts,
                flow.marked_packets,
                flow.loss_seen,
            );
            shares.push(flow.goodput_mbit());
        }
        assert!(shares[2] > 0.7 * shares[0], "{shares:?}");
    }
}

#[test]
fn parity_repairs_what_retransmissions_would() {
    let lossy = || {
        LinkConfig::new(Rate::mbit(10), millis(20))
            .queue_bdp(1.0, millis(40))
            .loss(bernoulli(0.05))
    };
    let up = LinkConfig::new(Rate::mbit(10), millis(20));
    let file = Application::File { bytes: 3_000_000 };
    let rate = ConstantRate {
        rate: Rate::mbit(5),
        has_aimd: false,
    };
    for (coding, resent) in [
        (Coding::Fixed { n: 10, k: 8 }, 0..20),
        (Coding::None, 100..400),
    ] {
        let report = Scenario::new("fixed", Network::dumbbell(lossy(), up.clone()))
            .flow(
                Flow::new("one", Transport::Tcp(TcpConfig::constant(rate, coding)))
                    .application(file.clone()),
            )
            .time_limit(seconds(100))
            .run()
            .unwrap();
        let flow = &report.flows[0];
        println!("{coding:?}: {:?}", flow.completions[0].span());
        assert!(flow.is_done && flow.bytes_in_order == 3_000_000);
        assert!(
            resent.contains(&flow.retransmissions),
            "{}",
            flow.retransmissions
        );
    }
}
