//! The sum of several paths: simulated versions of the figures that bonding must
//! reach. Loss is independent, before the rate limit, in both directions; queues
//! hold one bandwidth-delay product. Ratios are to the sum of the paths' payload
//! rates, rate × 1436/1500.
//!
//! `cargo test -p ctcp-proto --test bonding -- --nocapture` prints the table.

#[path = "support/multi.rs"]
mod multi;
#[path = "support/mod.rs"]
mod support;

use ctcp_link::{LinkConfig, LossModel};
use ctcp_proto::{PathOptions, Scheduler, TransportConfig};
use ctcp_units::{LossRate, Rate, millis, seconds};
use multi::{Download, Multi};
use support::{Which, base_seed, transport};

/// Rate in Mbit/s, round trip in ms, share lost.
type Line = (f64, u64, f64);

fn link(line: Line) -> LinkConfig {
    let (mbit, rtt, loss) = line;
    let config = LinkConfig::new(Rate::kbit((mbit * 1e3) as u64), millis(rtt) / 2)
        .queue_bdp(1.0, millis(rtt));
    if loss > 0.0 {
        config.loss(LossModel::Bernoulli(LossRate::clamped(loss)))
    } else {
        config
    }
}

fn payload_rate(lines: &[Line]) -> f64 {
    lines.iter().map(|line| line.0).sum::<f64>() * 1e6 * 1436.0 / 1500.0
}

fn config(scheduler: Scheduler) -> TransportConfig {
    let mut config = transport();
    config.scheduler = scheduler;
    config.congestion = std::env::var("CTCP_CONGESTION").unwrap_or_else(|_| "cc14".to_owned());
    if let Ok(name) = std::env::var("CTCP_SCHEDULER") {
        config.scheduler = name.parse().unwrap();
    }
    config
}

fn world(seed: u64, lines: &[Line], scheduler: Scheduler) -> Multi {
    let links: Vec<_> = lines
        .iter()
        .map(|line| (link(*line), link(*line)))
        .collect();
    let mut world = Multi::new(seed, &links, config(scheduler), config(scheduler));
    world.connect();
    for network in 1..lines.len() {
        world.open_path(network, &PathOptions::default());
    }
    world
}

/// Share of the payload rate from the fifth second on.
fn steady(seed: u64, lines: &[Line], scheduler: Scheduler) -> f64 {
    let mut world = world(seed, lines, scheduler);
    let mut download = Download::begin(&mut world, u64::MAX);
    let slowest = lines.iter().map(|line| line.1).max().unwrap();
    let warm_up = seconds(5).max(millis(slowest) * 20);
    world.run_until(warm_up, |world| download.pump(world));
    let before = download.read;
    let span = seconds(10);
    world.run_until(span, |world| download.pump(world));
    let share = (download.read - before) as f64 * 8.0 / span.as_secs_f64() / payload_rate(lines);
    let received = world.connection(Which::Client).unwrap().stats();
    let server = world.connection(Which::Server).unwrap().stats();
    let symbols = received.received.systematic + received.received.coded;
    let wire: u64 = world.networks.iter().map(|n| n.wire_bytes_down).sum();
    println!(
        "    seed {seed}: {share:.4}, {:.4} useless, {:.4} wire/byte, paths {}",
        received.useless as f64 / symbols as f64,
        wire as f64 / download.read as f64,
        server
            .paths
            .iter()
            .map(|path| format!(
                "{:.0}t/{:.0}ms/{:.3}p/{}pk",
                path.controller.tokens,
                path.srtt.unwrap_or_default().as_secs_f64() * 1e3,
                path.loss_rate_long,
                path.packets_sent
            ))
            .collect::<Vec<_>>()
            .join(" ")
    );
    share
}

/// Time for `len` bytes from the connection's first moment, as a share.
fn cold(seed: u64, lines: &[Line], len: u64) -> f64 {
    let scheduler = Scheduler::Auto;
    let links: Vec<_> = lines
        .iter()
        .map(|line| (link(*line), link(*line)))
        .collect();
    let mut world = Multi::new(seed, &links, config(scheduler), config(scheduler));
    let start = world.now;
    world.connect();
    for network in 1..lines.len() {
        world.open_path(network, &PathOptions::default());
    }
    let mut download = Download::begin(&mut world, len);
    assert!(world.run_until(seconds(300), |world| download.pump(world)));
    let share = len as f64 * 8.0 / (world.now - start).as_secs_f64() / payload_rate(lines);
    println!("    seed {seed}: {share:.4} cold, {len} bytes");
    share
}

/// Seeds to average over: `CTCP_CASES`, else one.
fn seeds() -> std::ops::Range<u64> {
    let count = std::env::var("CTCP_CASES").ok();
    let count = count.and_then(|text| text.parse().ok()).unwrap_or(1);
    let first = base_seed(1);
    first..first + count
}

fn check_steady(name: &str, lines: &[Line], aim: f64, least: f64) {
    let shares: Vec<_> = seeds()
        .map(|seed| steady(seed, lines, Scheduler::Auto))
        .collect();
    let share = shares.iter().sum::<f64>() / shares.len() as f64;
    println!("{name}, steady: {share:.4}, aim {aim}");
    assert!(share >= least, "{name}: {share} below {least}");
}

/// The same beside what the paths reach one by one: what is missing there is the
/// controller's, what is missing between the two the scheduler's.
fn check_beside_single(name: &str, lines: &[Line], aim: f64, least: f64) {
    check_steady(name, lines, aim, least);
    let seed = seeds().start;
    let rate = |line: &Line| steady(seed, &[*line], Scheduler::Auto) * payload_rate(&[*line]);
    let alone = lines.iter().map(rate).sum::<f64>() / payload_rate(lines);
    let together = steady(seed, lines, Scheduler::Auto);
    println!("{name}: {together:.4} together, {alone:.4} one by one");
    assert!(
        together >= alone - 0.03,
        "{name}: {together}, one by one {alone}"
    );
}

fn check_cold(name: &str, lines: &[Line], len: u64, aim: f64, least: f64) {
    let shares: Vec<_> = seeds().map(|seed| cold(seed, lines, len)).collect();
    let share = shares.iter().sum::<f64>() / shares.len() as f64;
    println!("{name}, {len} bytes cold: {share:.4}, aim {aim}");
    assert!(share >= least, "{name}: {share} below {least}");
}

const TWINS: [Line; 2] = [(8.0, 100, 0.0), (8.0, 100, 0.0)];
const UNEQUAL: [Line; 2] = [(20.0, 20, 0.0), (10.0, 100, 0.0)];

fn lossy(lines: [Line; 2], loss: f64) -> [Line; 2] {
    lines.map(|(rate, rtt, _)| (rate, rtt, loss))
}

#[test]
fn two_alike_reach_their_sum() {
    for (loss, least) in [(0.0, 0.96), (0.01, 0.96), (0.05, 0.93)] {
        let name = format!("2 x 8 Mbit/s, 100 ms, p = {loss}");
        check_steady(&name, &lossy(TWINS, loss), 0.96, least);
    }
}

#[test]
fn two_alike_reach_their_sum_from_cold() {
    for (loss, aim, least) in [(0.0, 0.95, 0.9), (0.01, 0.95, 0.85), (0.05, 0.93, 0.75)] {
        let name = format!("2 x 8 Mbit/s, 100 ms, p = {loss}");
        check_cold(&name, &lossy(TWINS, loss), 30_000_000, aim, least);
    }
    check_cold("2 x 8 Mbit/s, 100 ms", &TWINS, 11_500_000, 0.90, 0.8);
}

#[test]
fn two_unequal_reach_their_sum() {
    for (loss, aim, least) in [(0.0, 0.97, 0.96), (0.01, 0.97, 0.96), (0.05, 0.95, 0.93)] {
        let name = format!("20 Mbit/s 20 ms + 10 Mbit/s 100 ms, p = {loss}");
        check_steady(&name, &lossy(UNEQUAL, loss), aim, least);
    }
}

#[test]
fn two_unequal_reach_their_sum_from_cold() {
    for (loss, aim, least) in [(0.0, 0.95, 0.9), (0.01, 0.95, 0.85), (0.05, 0.92, 0.75)] {
        let name = format!("20 Mbit/s 20 ms + 10 Mbit/s 100 ms, p = {loss}");
        check_cold(&name, &lossy(UNEQUAL, loss), 30_000_000, aim, least);
    }
}

/// `cc14` grows by a packet a round trip: a path of 250 packets and 600 ms is
/// not filled in the time that this test has.
#[test]
fn a_satellite_adds_to_a_quick_line() {
    let lines = [(25.0, 20, 0.0), (5.0, 600, 0.02)];
    check_steady(
        "25 Mbit/s 20 ms + 5 Mbit/s 600 ms, p = 2 %",
        &lines,
        0.93,
        0.84,
    );
}

#[test]
fn four_paths_reach_their_sum() {
    let lines = [
        (5.0, 10, 0.0),
        (10.0, 50, 0.1),
        (20.0, 100, 0.02),
        (15.0, 150, 0.05),
    ];
    check_beside_single("four, 5-20 Mbit/s, 10-150 ms, 0-10 %", &lines, 0.92, 0.7);
}

/// What the other schedulers are worth on unequal paths; `redundant` is for what
/// must arrive, not for rate: it has what the quickest path has, or more.
#[test]
fn other_schedulers_use_all_paths_too() {
    for (scheduler, least) in [
        (Scheduler::Mp12, 0.85),
        (Scheduler::MinRtt, 0.9),
        (Scheduler::Redundant, 0.6),
    ] {
        for lines in [TWINS, UNEQUAL] {
            let least = if scheduler == Scheduler::Redundant && lines == TWINS {
                0.45
            } else {
                least
            };
            let share = steady(seeds().start, &lossy(lines, 0.01), scheduler);
            println!("{scheduler}: {share:.4} of {lines:?} at 1 %");
            assert!(share >= least, "{scheduler}: {share}");
        }
    }
}
