//! Pings of single paths in virtual time: what is reported of each direction is what
//! the links of that direction did, and nothing else.

#[path = "support/multi.rs"]
mod multi;
#[path = "support/mod.rs"]
mod support;

use ctcp_link::{LinkConfig, LossModel};
use ctcp_proto::{PathOptions, PingLog, PingReport};
use ctcp_units::{LossRate, PathId, Rate, millis, seconds};
use multi::Multi;
use support::{Which, base_seed, transport};

const PINGS: usize = 500;

fn link(delay_ms: u64, loss: f64) -> LinkConfig {
    let config = LinkConfig::new(Rate::mbit(50), millis(delay_ms)).queue_bdp(1.0, millis(40));
    match loss > 0.0 {
        true => config.loss(LossModel::Bernoulli(LossRate::clamped(loss))),
        false => config,
    }
}

/// Pings two paths, whose losses (out, back) are set once both are open.
fn pinged(seed: u64, losses: [(f64, f64); 2]) -> [PingReport; 2] {
    let links = [
        (link(20, 0.0), link(20, 0.0)),
        (link(50, 0.0), link(10, 0.0)),
    ];
    let mut world = Multi::new(seed, &links, transport(), transport());
    world.connect();
    let second = world.open_path(1, &PathOptions::default());
    world.run_for(seconds(20));
    for (network, (out, back)) in losses.into_iter().enumerate() {
        let (up, down) = if network == 0 { (20, 20) } else { (50, 10) };
        world.set_links(network, link(up, out), link(down, back));
    }
    let log = PingLog::default();
    let paths = [PathId(0), second];
    let connection = world.connection(Which::Client).expect("it is open");
    connection.set_trace(Box::new(log.clone()));
    // A few more, whose answers tell of the last ones.
    for _ in 0..PINGS + 10 {
        for path in paths {
            let now = world.now;
            let connection = world.connection(Which::Client).expect("it is open");
            connection
                .ping_path(now, path)
                .expect("there is such a path");
        }
        world.drain();
        world.run_for(millis(50));
    }
    paths.map(|path| log.report(path, PINGS))
}

#[test]
fn a_clean_path_answers_every_ping_with_its_round_trip() {
    let [first, second] = pinged(base_seed(1), [(0.0, 0.0); 2]);
    for (report, rtt) in [(first, 40), (second, 60)] {
        assert_eq!(
            (report.sent, report.answered(), report.waiting),
            (PINGS, PINGS, 0)
        );
        assert!(
            report.rtts.len() > PINGS * 9 / 10,
            "{} samples",
            report.rtts.len()
        );
        for share in [0.0, 0.5, 0.95] {
            let sample = report.rtt_quantile(share).expect("samples");
            let wanted = millis(rtt)..millis(rtt + 2);
            assert!(wanted.contains(&sample), "{share} of {rtt} ms: {sample:?}");
        }
        assert!(report.jitter().expect("samples") < millis(1));
    }
}

#[test]
fn losses_are_told_apart_by_direction() {
    let losses = [(0.2, 0.0), (0.05, 0.3)];
    for (report, (out, back)) in pinged(base_seed(2), losses).into_iter().zip(losses) {
        assert_eq!((report.sent, report.waiting), (PINGS, 0));
        // Four deviations of as many trials.
        let close = |share: f64, wanted: f64| {
            let deviation = (wanted * (1.0 - wanted) / PINGS as f64).sqrt();
            (share - wanted).abs() <= 4.5 * deviation
        };
        assert!(
            close(report.out.loss(), out),
            "out {} {out}",
            report.out.loss()
        );
        assert!(
            close(report.back.loss(), back),
            "back {} {back}",
            report.back.loss()
        );
        let bursts: usize = report.out.bursts.iter().sum();
        assert_eq!(bursts, report.out.lost);
        assert_eq!(
            report.answered() + report.out.lost + report.back.lost,
            PINGS
        );
    }
}

#[test]
fn a_path_that_breaks_leaves_nothing_answered_and_nothing_hanging() {
    let links = [(link(20, 0.0), link(20, 0.0))];
    let mut world = Multi::new(base_seed(3), &links, transport(), transport());
    world.connect();
    world.run_for(seconds(1));
    let log = PingLog::default();
    let connection = world.connection(Which::Client).expect("it is open");
    connection.set_trace(Box::new(log.clone()));
    world.networks[0].is_dead = true;
    for _ in 0..20 {
        let now = world.now;
        let connection = world.connection(Which::Client).expect("it is open");
        connection
            .ping_path(now, PathId(0))
            .expect("there is such a path");
        assert!(connection.ping_path(now, PathId(7)).is_err());
        world.drain();
        world.run_for(millis(50));
    }
    let report = log.report(PathId(0), PINGS);
    assert_eq!((report.sent, report.answered()), (20, 0));
    assert_eq!(report.rtt_quantile(0.5), None);
}
