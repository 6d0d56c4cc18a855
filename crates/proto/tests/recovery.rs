//! Mishaps one at a time, and how soon a transfer has got over them.

mod support;

use ctcp_link::{Jitter, LinkConfig, LossModel, Outage};
use ctcp_proto::stream::{Read, ReadError};
use ctcp_proto::{Event, TransportConfig};
use ctcp_units::{Duration, LossRate, Rate, StreamId, millis, seconds};
use support::{Which, World, pattern, transport};

/// 10 Mbit/s, a round trip of 40 ms, a queue of one bandwidth-delay product.
fn link() -> LinkConfig {
    LinkConfig::new(Rate::mbit(10), millis(20)).queue_bdp(1.0, millis(40))
}

fn lossy(share: f64) -> LinkConfig {
    link().loss(LossModel::Bernoulli(LossRate::clamped(share)))
}

/// A download without end, its bytes checked.
struct Download {
    world: World,
    id: StreamId,
    serving: Option<StreamId>,
    written: u64,
    read: u64,
}

impl Download {
    fn start(seed: u64, up: LinkConfig, down: LinkConfig, config: TransportConfig) -> Self {
        let mut world = World::with_transport(seed, up, down, config.clone(), config);
        world.connect();
        let connected = |w: &mut World| w.saw(Which::Client, |e| *e == Event::Connected);
        assert!(world.run_until(seconds(8), connected));
        let client = world.connection(Which::Client).unwrap();
        let id = client.open_stream().unwrap();
        assert_eq!(client.write(id, b"get"), Ok(3));
        client.finish(id).unwrap();
        world.drain();
        Self {
            world,
            id,
            serving: None,
            written: 0,
            read: 0,
        }
    }

    fn pump(&mut self) {
        let mut buf = [0; 4096];
        if let Some(server) = self.world.connection(Which::Server) {
            self.serving = self.serving.or_else(|| server.accept_stream());
            while let Some(id) = self.serving {
                let chunk = self.written..self.written + buf.len() as u64;
                let chunk: Vec<u8> = chunk.map(|at| pattern(3, at)).collect();
                match server.write(id, &chunk) {
                    Ok(count) => self.written += count as u64,
                    Err(_) => break,
                }
            }
        }
        if let Some(client) = self.world.connection(Which::Client) {
            loop {
                match client.read(self.id, &mut buf) {
                    Ok(Read::Bytes(count)) => {
                        for byte in &buf[..count] {
                            assert_eq!(*byte, pattern(3, self.read), "byte {}", self.read);
                            self.read += 1;
                        }
                    }
                    Err(ReadError::Blocked) => break,
                    other => panic!("{other:?}"),
                }
            }
        }
        self.world.drain();
    }

    /// Goes on for `span`; returns how many bytes came.
    fn run(&mut self, span: Duration) -> u64 {
        let (before, limit) = (self.read, self.world.now + span);
        while self.world.step(limit) {
            self.pump();
        }
        self.read - before
    }

    /// Time until another `len` bytes have come, within `limit`.
    fn until_bytes(&mut self, len: u64, limit: Duration) -> Duration {
        let (start, goal) = (self.world.now, self.read + len);
        let end = start + limit;
        while self.read < goal {
            assert!(
                self.world.step(end),
                "{} of {len} bytes in {limit:?}",
                self.read + len - goal
            );
            self.pump();
        }
        self.world.now - start
    }

    fn stats(&mut self, which: Which) -> ctcp_proto::ConnectionStats {
        self.world.connection(which).unwrap().stats()
    }
}

#[test]
fn a_transfer_goes_on_within_1200_ms_of_the_end_of_an_outage_of_3_s() {
    for seed in 0..20 {
        let mut download = Download::start(seed, link(), link(), transport());
        download.run(seconds(3));
        let outage = || {
            let (start, end) = (Duration::ZERO, seconds(3));
            link().loss(LossModel::Outages(vec![Outage { start, end }]))
        };
        download.world.set_links(outage(), outage());
        download.run(seconds(3));
        // Probes of a silent path are at most a second apart.
        let first = download.until_bytes(1, millis(1200));
        let then = download.until_bytes(1_000_000, seconds(4));
        println!("seed {seed}: first byte after {first:?}, a megabyte in {then:?}");
    }
}

#[test]
fn a_second_without_acknowledgements_costs_little_more_than_a_second() {
    for seed in 0..20 {
        let mut download = Download::start(seed, link(), link(), transport());
        download.run(seconds(2));
        download.world.set_links(lossy(1.0), link());
        download.run(seconds(1));
        download.world.set_links(link(), link());
        let first = download.until_bytes(1, millis(1200));
        let then = download.until_bytes(500_000, seconds(3));
        println!("seed {seed}: first byte after {first:?}, 500 kB in {then:?}");
    }
}

#[test]
fn losing_two_packets_in_five_both_ways_still_leaves_a_third_of_the_rate() {
    for seed in 0..4 {
        let mut download = Download::start(seed, lossy(0.4), lossy(0.4), transport());
        download.run(seconds(5));
        let bytes = download.run(seconds(10));
        let share = bytes as f64 * 8.0 / 10.0 / 10e6;
        println!("seed {seed}: {share:.3} of the rate");
        assert!(share > 0.33, "seed {seed}: {share}");
    }
}

/// Useless share of what arrives in 10 s, and share of the rate.
fn waste(seed: u64, down: LinkConfig) -> (f64, f64) {
    let mut download = Download::start(seed, link(), down, transport());
    download.run(seconds(3));
    let before = download.stats(Which::Client);
    let bytes = download.run(seconds(10));
    let after = download.stats(Which::Client);
    let packets = |s: &ctcp_proto::ConnectionStats| s.received.systematic + s.received.coded;
    let useless =
        (after.useless - before.useless) as f64 / (packets(&after) - packets(&before)) as f64;
    (useless, bytes as f64 * 8.0 / 10.0 / 10e6)
}

#[test]
fn reordering_causes_few_repairs() {
    for seed in 0..4 {
        let (base, _) = waste(seed, link());
        let (useless, share) = waste(seed, link().reordering(0.05, millis(10)));
        println!("seed {seed}: {useless:.4} useless, {base:.4} in order, {share:.3} of the rate");
        assert!(useless < base + 0.005, "seed {seed}: {useless}");
        assert!(share > 0.85, "seed {seed}: {share}");
    }
}

#[test]
fn jitter_that_reorders_does_not_break_a_transfer() {
    let wild = link()
        .jitter(Jitter::Uniform { max: millis(30) })
        .lets_overtake();
    let mut download = Download::start(1, wild.clone(), wild, transport());
    download.run(seconds(3));
    let bytes = download.run(seconds(10));
    let useless = download.stats(Which::Client).useless;
    println!("{bytes} bytes in 10 s, {useless} useless");
    assert!(bytes > 5_000_000, "{bytes}");
}

#[test]
fn duplicates_are_dropped_and_counted() {
    let twice = || link().duplication(0.2);
    let mut download = Download::start(1, twice(), twice(), transport());
    download.run(seconds(5));
    for which in [Which::Client, Which::Server] {
        let stats = download.stats(which);
        let received = stats.received.systematic + stats.received.coded + stats.received.control;
        let share = stats.replayed as f64 / received as f64;
        assert!((0.17..0.23).contains(&share), "{which:?}: {share}");
        assert_eq!((stats.forged, stats.unexpected), (0, 0));
    }
}

#[test]
fn damaged_packets_are_dropped_and_counted() {
    let bent = || link().corruption(0.05);
    let mut download = Download::start(1, bent(), bent(), transport());
    let bytes = download.run(seconds(5));
    assert!(bytes > 3_000_000, "{bytes}");
    let stats = download.stats(Which::Client);
    // Where the connection id was hit the endpoint drops it.
    let elsewhere = download.world.client.endpoint.stats();
    let damaged = stats.forged + stats.unexpected + elsewhere.unknown_id + elsewhere.bad_hello;
    let all = stats.received.systematic + stats.received.coded + stats.received.control;
    let share = damaged as f64 / all as f64;
    assert!((0.04..0.07).contains(&share), "{share}: {stats:#?}");
    assert!(stats.forged > 0 && elsewhere.unknown_id > 0);
}

#[test]
fn a_client_that_knows_of_its_new_address_goes_on_at_once() {
    for seed in 0..10 {
        let mut download = Download::start(seed, link(), link(), transport());
        download.run(seconds(2));
        download.world.client.address = "10.0.7.7:4000".parse().unwrap();
        let now = download.world.now;
        let client = download.world.connection(Which::Client).unwrap();
        client.on_local_address_changed(now);
        download.world.drain();
        let first = download.until_bytes(1, millis(400));
        let then = download.until_bytes(1_000_000, seconds(3));
        println!("seed {seed}: first byte after {first:?}, a megabyte in {then:?}");
        assert_eq!(download.stats(Which::Server).address_changes, 1);
    }
}

#[test]
fn a_reader_whose_nat_gives_it_another_address_goes_on_within_1500_ms() {
    for seed in 0..10 {
        let mut download = Download::start(seed, link(), link(), transport());
        download.run(seconds(2));
        download.world.client.address = "10.0.7.7:4000".parse().unwrap();
        let first = download.until_bytes(100_000, millis(1500));
        println!("seed {seed}: 100 kB after {first:?}");
        let stats = download.stats(Which::Server);
        assert_eq!(stats.address_changes, 1);
        assert_eq!(stats.paths[0].remote, download.world.client.address);
    }
}

#[test]
fn a_path_that_shrinks_twice_is_noticed_and_nothing_is_lost() {
    for seed in 0..10 {
        let mut download = Download::start(seed, lossy(0.01), lossy(0.01), transport());
        download.run(seconds(2));
        assert_eq!(download.stats(Which::Server).paths[0].mtu, 1472);
        for mtu in [1300, 1200] {
            let narrow = || lossy(0.01).mtu(mtu + 28);
            download.world.set_links(narrow(), narrow());
            // What was received already may be read for a while.
            download.run(millis(100));
            let first = download.until_bytes(400_000, seconds(3));
            let stats = download.stats(Which::Server);
            println!(
                "seed {seed}: at {mtu} after {first:?}, {:?}",
                stats.paths[0].mtu
            );
            assert!(u32::from(stats.paths[0].mtu) <= mtu);
            assert!(stats.generations_abandoned > 0);
            download.run(seconds(4));
        }
    }
}

#[test]
fn keys_are_renewed_under_way_without_a_gap() {
    let mut download = Download::start(1, lossy(0.1), lossy(0.1), transport());
    let mut renewed = 0;
    for _ in 0..40 {
        download.run(millis(250));
        let server = download.world.connection(Which::Server).unwrap();
        renewed += u64::from(server.update_keys().is_ok());
    }
    let (client, server) = (download.stats(Which::Client), download.stats(Which::Server));
    println!("{renewed} updates, {} bytes", download.read);
    assert!(renewed > 10, "{renewed}");
    assert_eq!(server.key_phase, renewed);
    assert!(client.key_phase + 1 >= renewed);
    // Reordering is all that could make a packet come with keys long gone.
    assert_eq!((client.forged, server.forged), (0, 0));
    assert!(download.read > 5_000_000, "{}", download.read);
}
