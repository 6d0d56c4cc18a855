//! Memory does not grow with simulated time.

use ctcp_link::{LinkConfig, LossModel};
use ctcp_sim::{CtcpConfig, Flow, Network, Scenario, TcpConfig, Transport};
use ctcp_units::{LossRate, Rate, micros, millis, seconds};

/// Resident memory of this process, bytes; none where the system does not say.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}

fn run(span: u64) {
    let link = || LinkConfig::new(Rate::mbit(10), micros(12_500)).queue_bdp(1.0, millis(25));
    let lossy = link().loss(LossModel::Bernoulli(LossRate::clamped(0.01)));
    let report = Scenario::new("memory", Network::dumbbell(lossy, link()))
        .flow(Flow::new("tcp", Transport::Tcp(TcpConfig::default())))
        .flow(Flow::new("ctcp", Transport::Ctcp(CtcpConfig::default())))
        .time_limit(seconds(span))
        .run()
        .unwrap();
    assert!(report.packet_events > span * 1000);
}

#[test]
fn ten_times_the_time_takes_the_same_memory() {
    run(20);
    let Some(short) = resident() else { return };
    run(200);
    let long = resident().unwrap();
    println!("{short} bytes after 20 s, {long} after 200 s");
    // The peak: what the short run touched the long one may touch again.
    assert!(long < short + (2 << 20), "{short} {long}");
}
