//! Downloads and uploads with curl over paths that lose, reorder, duplicate and
//! corrupt packets, break for seconds, and change under way: every byte arrives.

mod common;

use std::thread;
use std::time::Duration;

use common::{Net, Web, has_curl, link, wait_until};
use ctcp_link::{GilbertElliott, LinkConfig, LossModel, Outage};
use ctcp_units::{LossRate, millis, seconds};

const MEGABYTES: usize = 1_000_000;

/// A download and then an upload over a path of this kind.
fn both_ways(link: LinkConfig, len: usize) {
    if !has_curl() {
        return;
    }
    let (web, net) = (Web::start(), Net::start(link));
    net.download(&web, 1, len);
    net.upload(&web, 2, len);
}

fn losing(share: f64) -> LinkConfig {
    link().loss(LossModel::Bernoulli(LossRate::clamped(share)))
}

#[test]
fn a_path_that_loses_nothing_carries_every_byte() {
    both_ways(link(), 10 * MEGABYTES);
}

#[test]
fn a_path_that_loses_5_percent_both_ways_carries_every_byte() {
    both_ways(losing(0.05), 8 * MEGABYTES);
}

#[test]
fn a_path_that_loses_20_percent_both_ways_carries_every_byte() {
    both_ways(losing(0.2), 4 * MEGABYTES);
}

#[test]
fn a_path_that_loses_in_bursts_of_8_carries_every_byte() {
    let bursts = GilbertElliott::from_mean_and_burst(LossRate::clamped(0.05), 8.0);
    let model = LossModel::GilbertElliott(bursts.expect("possible"));
    both_ways(link().loss(model), 4 * MEGABYTES);
}

#[test]
fn a_path_that_reorders_5_percent_carries_every_byte() {
    both_ways(link().reordering(0.05, millis(10)), 8 * MEGABYTES);
}

#[test]
fn a_path_that_duplicates_1_percent_carries_every_byte() {
    both_ways(link().duplication(0.01), 8 * MEGABYTES);
}

#[test]
fn a_path_that_corrupts_1_percent_carries_every_byte() {
    both_ways(link().corruption(0.01), 8 * MEGABYTES);
}

#[test]
fn a_path_with_all_troubles_at_once_carries_every_byte() {
    let link = losing(0.03).reordering(0.05, millis(10));
    both_ways(link.duplication(0.01).corruption(0.01), 4 * MEGABYTES);
}

#[test]
fn packets_larger_than_the_path_carries_are_asked_for_in_vain_and_harm_nothing() {
    if !has_curl() {
        return;
    }
    let web = Web::start();
    let net = Net::start_with(link().mtu(1328), &["--mtu", "1472"]);
    net.upload(&web, 8, 2 * MEGABYTES);
}

/// Waits until half a megabyte more has arrived.
fn under_way(net: &Net) {
    let arrived = || net.relay.counters().expect("it runs").down.delivered_bytes;
    let before = arrived();
    wait_until("data arrive", Duration::from_secs(60), || {
        arrived() > before + MEGABYTES as u64 / 2
    });
}

#[test]
fn an_outage_of_three_seconds_interrupts_and_breaks_nothing() {
    if !has_curl() {
        return;
    }
    let (web, net) = (Web::start(), Net::start(link()));
    thread::scope(|scope| {
        let transfer = scope.spawn(|| net.download(&web, 3, 16 * MEGABYTES));
        under_way(&net);
        let outage = Outage {
            start: Duration::ZERO,
            end: seconds(3),
        };
        let broken = link().loss(LossModel::Outages(vec![outage]));
        net.relay
            .reconfigure(broken.clone(), broken)
            .expect("it runs");
        assert!(!transfer.is_finished(), "the outage must hit the transfer");
        transfer.join().expect("every byte");
    });
    net.download(&web, 4, MEGABYTES);
}

#[test]
fn a_change_of_the_clients_address_breaks_nothing() {
    if !has_curl() {
        return;
    }
    let (web, net) = (Web::start(), Net::start(losing(0.01)));
    thread::scope(|scope| {
        let transfer = scope.spawn(|| net.download(&web, 5, 16 * MEGABYTES));
        for _ in 0..2 {
            under_way(&net);
            assert_eq!(net.relay.rebind().expect("it runs"), 1);
        }
        assert!(!transfer.is_finished(), "the change must hit the transfer");
        transfer.join().expect("every byte");
    });
    net.upload(&web, 6, 2 * MEGABYTES);
}

#[test]
fn both_directions_at_once_carry_every_byte() {
    if !has_curl() {
        return;
    }
    let (web, net) = (Web::start(), Net::start(losing(0.02)));
    thread::scope(|scope| {
        scope.spawn(|| net.download(&web, 7, 6 * MEGABYTES));
        scope.spawn(|| net.upload(&web, 8, 6 * MEGABYTES));
    });
}

#[test]
fn two_hundred_connections_at_once_carry_every_byte() {
    if !has_curl() {
        return;
    }
    let (web, net) = (Web::start(), Net::start(losing(0.02)));
    let folder = tempfile::tempdir().expect("a folder");
    let file = |index: u64| folder.path().join(index.to_string());
    let mut config = String::new();
    for index in 0..200 {
        let url = web.url(&format!("/bytes/{index}/50000"));
        config += &format!("url = \"{url}\"\noutput = \"{}\"\n", file(index).display());
    }
    let list = folder.path().join("list");
    std::fs::write(&list, config).expect("written");
    let list = list.to_str().expect("UTF-8");
    let at_once = [
        "--parallel",
        "--parallel-immediate",
        "--parallel-max",
        "200",
    ];
    let output = net.curl(&[&at_once[..], &["--config", list]].concat());
    common::assert_ok(&output);
    for index in 0..200 {
        let got = std::fs::read(file(index)).expect("downloaded");
        assert!(
            got == common::body(index, 50_000),
            "download {index} differs"
        );
    }
}
