//! How fast the simulator is: packet events (packets offered to links, and
//! packets at their ends) per second of one core.
//!
//! The setting of the issue: 25 Mbit/s, 25 ms, 1 % loss, 300 s simulated.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ctcp_link::{LinkConfig, LossModel};
use ctcp_sim::{CtcpConfig, Flow, Network, Scenario, TcpConfig, Transport};
use ctcp_units::{LossRate, Rate, micros, millis, seconds};

fn scenario(transport: Transport) -> Scenario {
    let link = || LinkConfig::new(Rate::mbit(25), micros(12_500)).queue_bdp(1.0, millis(25));
    let lossy = link().loss(LossModel::Bernoulli(LossRate::clamped(0.01)));
    Scenario::new("bench", Network::dumbbell(lossy, link()))
        .flow(Flow::new("one", transport))
        .time_limit(seconds(300))
}

fn flows(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("300 s at 25 Mbit/s, 25 ms, 1 % loss");
    group.sample_size(10);
    for (name, transport, goodput) in [
        (
            "tcp cubic",
            Transport::Tcp(TcpConfig::default().congestion("cubic")),
            3.0..9.0,
        ),
        (
            "ctcp cc14",
            Transport::Ctcp(CtcpConfig::default().congestion("cc14")),
            22.0..24.5,
        ),
    ] {
        let scenario = scenario(transport);
        let once = scenario.run().expect("the scenario is possible");
        assert!(goodput.contains(&once.flows[0].goodput_mbit()), "{name}");
        group.throughput(Throughput::Elements(once.packet_events));
        group.bench_function(name, |bencher| {
            bencher.iter(|| black_box(scenario.run()).is_ok());
        });
    }
    group.finish();
}

criterion_group!(benches, flows);
criterion_main!(benches);
