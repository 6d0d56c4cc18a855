//! Datagrams beside streams, in virtual time: what arrives is whole and comes once,
//! they keep to the path's rate, and streams go on beside them.

#[path = "support/multi.rs"]
mod multi;
#[path = "support/mod.rs"]
mod support;

use std::collections::BTreeSet;

use ctcp_link::{LinkConfig, LossModel};
use ctcp_proto::stream::Read;
use ctcp_proto::{DatagramError, PathOptions};
use ctcp_units::{LossRate, Rate, StreamId, micros, millis, seconds};
use multi::Multi;
use support::{Which, World, base_seed, pattern, transport};

fn link(loss: f64) -> LinkConfig {
    let config = LinkConfig::new(Rate::mbit(10), millis(20)).queue_bdp(1.0, millis(40));
    match loss > 0.0 {
        true => config.loss(LossModel::Bernoulli(LossRate::clamped(loss))),
        false => config,
    }
}

fn connected(seed: u64, loss: f64) -> World {
    let mut world = World::new(seed, link(0.0), link(0.0));
    world.connect();
    world.run_for(seconds(2));
    world.set_links(link(loss), link(loss));
    world
}

fn data(number: u64, len: usize) -> Vec<u8> {
    let rest = (8..len as u64).map(|offset| pattern(number, offset));
    number.to_be_bytes().into_iter().chain(rest).collect()
}

fn send(world: &mut World, from: Which, number: u64, len: usize) -> Result<(), DatagramError> {
    let now = world.now;
    let connection = world.connection(from).expect("it is open");
    let sent = connection.send_datagram(now, StreamId(0), &data(number, len));
    world.drain();
    sent
}

/// Takes what has come; each must be whole and new.
fn take(world: &mut World, at: Which, len: usize, seen: &mut BTreeSet<u64>) {
    let connection = world.connection(at).expect("it is open");
    while let Some((stream, datagram)) = connection.poll_datagram() {
        assert_eq!(stream, StreamId(0));
        let number = u64::from_be_bytes(datagram[..8].try_into().expect("eight bytes"));
        assert_eq!(datagram, data(number, len), "datagram {number}");
        assert!(seen.insert(number), "datagram {number} came twice");
    }
}

#[test]
fn datagrams_arrive_both_ways_and_are_not_sent_again() {
    for (loss, arrive) in [(0.0, 200..=200), (0.2, 130..=190)] {
        let mut world = connected(base_seed(1), loss);
        let (mut up, mut down) = (BTreeSet::new(), BTreeSet::new());
        for number in 0..200 {
            send(&mut world, Which::Client, number, 700).expect("it fits");
            send(&mut world, Which::Server, number, 700).expect("it fits");
            world.run_for(millis(10));
            take(&mut world, Which::Server, 700, &mut up);
            take(&mut world, Which::Client, 700, &mut down);
        }
        world.run_for(seconds(2));
        take(&mut world, Which::Server, 700, &mut up);
        take(&mut world, Which::Client, 700, &mut down);
        assert!(arrive.contains(&up.len()), "{loss}: {} up", up.len());
        assert!(arrive.contains(&down.len()), "{loss}: {} down", down.len());
        let stats = world.connection(Which::Client).expect("open").stats();
        assert_eq!(stats.sent.datagrams, 200);
        assert_eq!(stats.received.datagrams, down.len() as u64);
        assert_eq!(stats.datagrams_dropped, 0);
    }
}

#[test]
fn more_than_the_path_carries_is_dropped_and_streams_go_on() {
    const LEN: u64 = 300_000;
    let mut world = connected(base_seed(2), 0.01);
    let client = world.connection(Which::Client).expect("open");
    let stream = client.open_stream().expect("allowed");
    let (mut written, mut read, mut seen) = (0, 0, BTreeSet::new());
    let mut buf = vec![0; 1 << 16];
    // 48 Mbit/s of datagrams into 10, for as long as the stream takes.
    for number in 0..100_000 {
        send(&mut world, Which::Client, number, 1200).expect("it fits");
        let client = world.connection(Which::Client).expect("open");
        let chunk: Vec<u8> = (written..LEN.min(written + 4096))
            .map(|offset| pattern(7, offset))
            .collect();
        written += client.write(stream, &chunk).unwrap_or(0) as u64;
        world.run_for(micros(200));
        take(&mut world, Which::Server, 1200, &mut seen);
        let server = world.connection(Which::Server).expect("open");
        while let Some(id) = server.accept_stream() {
            assert_eq!(id, stream);
        }
        while let Ok(Read::Bytes(count)) = server.read(stream, &mut buf) {
            for byte in &buf[..count] {
                assert_eq!(*byte, pattern(7, read));
                read += 1;
            }
        }
        if read == LEN {
            break;
        }
    }
    assert_eq!(read, LEN, "in 20 seconds");
    let client = world.connection(Which::Client).expect("open");
    let dropped = client.stats().datagrams_dropped;
    assert!(dropped > 1_000, "{dropped}");
    assert!(seen.len() > 100, "{} datagrams", seen.len());
}

#[test]
fn a_datagram_as_long_as_a_packet_fits_and_a_longer_one_is_refused() {
    let mut world = connected(base_seed(3), 0.0);
    let client = world.connection(Which::Client).expect("open");
    let max = client.datagram_len_max(StreamId(0));
    assert!((1100..=1500).contains(&max), "{max}");
    send(&mut world, Which::Client, 1, max).expect("it fits");
    send(&mut world, Which::Client, 2, 8).expect("it fits");
    let error = DatagramError::TooLong { len: max + 1, max };
    assert_eq!(send(&mut world, Which::Client, 3, max + 1), Err(error));
    world.run_for(seconds(1));
    let server = world.connection(Which::Server).expect("open");
    let came: Vec<_> = std::iter::from_fn(|| server.poll_datagram()).collect();
    assert_eq!(came.len(), 2);
    assert_eq!(came[0].1, data(1, max));
    let now = world.now;
    let client = world.connection(Which::Client).expect("open");
    client.close(now, 0, "done");
    let closed = send(&mut world, Which::Client, 4, 8);
    assert_eq!(closed, Err(DatagramError::NotConnected));
}

#[test]
fn datagrams_go_on_when_one_of_two_paths_dies() {
    let links = [(link(0.0), link(0.0)), (link(0.0), link(0.0))];
    let mut world = Multi::new(base_seed(4), &links, transport(), transport());
    world.connect();
    world.open_path(1, &PathOptions::default());
    world.run_for(seconds(5));
    let mut came = 0;
    for number in 0..1_000_u64 {
        if number == 200 {
            world.networks[0].is_dead = true;
        }
        let now = world.now;
        let client = world.connection(Which::Client).expect("open");
        client
            .send_datagram(now, StreamId(0), &number.to_be_bytes())
            .expect("it fits");
        world.drain();
        world.run_for(millis(10));
        let server = world.connection(Which::Server).expect("open");
        while let Some((_, datagram)) = server.poll_datagram() {
            let number = u64::from_be_bytes(datagram.try_into().expect("eight bytes"));
            came += u64::from(number >= 700);
        }
    }
    // Five seconds after the path died, the other carries them.
    assert!(came > 290, "{came} of the last 300");
}
