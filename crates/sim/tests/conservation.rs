//! No packet is made or lost without being counted, on random networks.

use ctcp_link::{GilbertElliott, Jitter, LinkConfig, LossModel, QueueSize};
use ctcp_sim::{
    Application, Coding, CtcpConfig, Flow, FlowPath, GoBackNConfig, NcConfig, Network, Recovery,
    Scenario, TcpConfig, Think, Transport, UdpConfig,
};
use ctcp_units::{Duration, LossRate, Random, Rate, micros, millis, seconds};

fn base_seed() -> u64 {
    std::env::var("CTCP_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(11)
}

fn random_link(random: &mut Random) -> LinkConfig {
    let delay = micros(random.below(80_000));
    let mut link = match random.below(5) {
        0 => LinkConfig::unlimited(delay),
        _ => LinkConfig::new(Rate::kbit(300 + random.below(20_000)), delay),
    };
    link = link.queue(match random.chance(0.5) {
        true => QueueSize::Packets(2 + random.below(100)),
        false => QueueSize::Bytes(3000 + random.below(200_000)),
    });
    let share = LossRate::clamped(random.unit() * 0.2);
    if random.chance(0.4) {
        link = link.loss(LossModel::Bernoulli(share));
    }
    if random.chance(0.3) {
        let burst = GilbertElliott::from_mean_and_burst(share, 3.0).unwrap();
        link = link.loss_after(LossModel::GilbertElliott(burst));
    }
    if random.chance(0.3) {
        link = link.jitter(Jitter::Uniform { max: millis(20) });
        if random.chance(0.5) {
            link = link.lets_overtake();
        }
    }
    if random.chance(0.3) {
        link = link.reordering(0.05, millis(15));
    }
    if random.chance(0.3) {
        link = link.duplication(0.03);
    }
    if random.chance(0.3) {
        link = link.corruption(0.02);
    }
    if random.chance(0.3) {
        link = link.ecn_threshold(QueueSize::Packets(1 + random.below(20)));
    }
    link
}

fn random_tcp(random: &mut Random) -> TcpConfig {
    let controllers = ctcp_congestion::controllers();
    let name = controllers[random.below(controllers.len() as u64) as usize].name;
    let mut config = TcpConfig::default().congestion(name);
    config.recovery = match random.below(3) {
        0 => Recovery::Sack,
        1 => Recovery::NewReno,
        _ => Recovery::Rack,
    };
    config.is_ack_delayed = random.chance(0.5);
    config.is_ecn_enabled = random.chance(0.5);
    config.has_limited_transmit = random.chance(0.5);
    config.has_handshake = random.chance(0.5);
    config.receive_window = random.chance(0.3).then(|| 1 + random.below(60));
    if config.recovery == Recovery::Sack && random.chance(0.4) {
        config.coding = match random.chance(0.5) {
            true => Coding::Adaptive,
            false => Coding::Fixed { n: 10, k: 7 },
        };
    }
    config
}

fn random_transport(random: &mut Random) -> Transport {
    match random.below(6) {
        0 => {
            let controllers = ctcp_congestion::controllers();
            let name = controllers[random.below(controllers.len() as u64) as usize].name;
            Transport::Ctcp(CtcpConfig::default().congestion(name))
        }
        1 => Transport::GoBackN(GoBackNConfig::default()),
        2 => Transport::Nc(NcConfig {
            relay_redundancy: random.chance(0.5).then_some(1.1),
            ..NcConfig::default()
        }),
        3 => Transport::Udp(
            UdpConfig::constant(Rate::kbit(100 + random.below(5000)))
                .on_off(millis(300), millis(random.below(300))),
        ),
        _ => Transport::Tcp(random_tcp(random)),
    }
}

fn random_application(random: &mut Random, transport: &Transport) -> Application {
    let is_simple = matches!(transport, Transport::GoBackN(_) | Transport::Nc(_));
    match random.below(if is_simple { 2 } else { 4 }) {
        0 => Application::Bulk,
        1 => Application::File {
            bytes: 1 + random.below(500_000),
        },
        2 => Application::Web {
            sizes: vec![1, 5000, 80_000],
            count: None,
            think: Think::Exponential(millis(100)),
            is_cold: random.chance(0.5),
        },
        _ => Application::Video {
            rate: Rate::kbit(500),
            length: seconds(4),
            startup: millis(500),
            block: millis(500),
        },
    }
}

fn random_scenario(seed: u64) -> Scenario {
    let mut random = Random::from_seed(seed);
    let mut network = Network::new();
    let link_count = 2 + random.below(8);
    for index in 0..link_count {
        let link = random_link(&mut random);
        network.add(&format!("link{index}"), link);
    }
    let mut scenario = Scenario::new("random", network)
        .seed(seed)
        .time_limit(seconds(3) + Duration::from_millis(random.below(3000)))
        // A path without any limit would carry as much as the machine can.
        .events_max(200_000);
    scenario.stops_when_done = random.chance(0.3);
    for index in 0..1 + random.below(4) {
        let mut way = || {
            (0..1 + random.below(3))
                .map(|_| random.below(link_count) as usize)
                .collect::<Vec<_>>()
        };
        let path = FlowPath {
            down: way(),
            up: way(),
        };
        let transport = random_transport(&mut random);
        let application = random_application(&mut random, &transport);
        scenario = scenario.flow(
            Flow::new(&format!("flow{index}"), transport)
                .application(application)
                .start(millis(random.below(500)))
                .path(path),
        );
    }
    scenario
}

#[test]
fn every_packet_is_received_lost_or_queued_on_random_networks() {
    let base = base_seed();
    let mut packets = 0;
    for seed in base..base + 150 {
        println!("CTCP_SEED={seed}");
        let scenario = random_scenario(seed);
        let report = scenario.run().unwrap();
        let census = report.census;
        assert!(census.is_conserved(), "seed {seed}: {census:?}");
        for link in &report.links {
            assert!(link.counters.is_conserved(), "seed {seed}: {}", link.name);
        }
        let delivered: u64 = report.flows.iter().map(|flow| flow.bytes_in_order).sum();
        let sent: u64 = report.flows.iter().map(|flow| flow.bytes_sent).sum();
        let received: u64 = report.flows.iter().map(|flow| flow.packets_received).sum();
        assert!(delivered == 0 || (sent > 0 && received > 0), "seed {seed}");
        packets += census.sent;
    }
    assert!(packets > 50_000, "{packets}");
}

#[test]
fn random_runs_repeat() {
    let base = base_seed();
    for seed in base..base + 20 {
        println!("CTCP_SEED={seed}");
        let scenario = random_scenario(seed);
        assert_eq!(scenario.run(), scenario.run());
    }
}
