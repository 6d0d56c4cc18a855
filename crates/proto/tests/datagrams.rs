//! Datagrams beside streams, in virtual time: what arrives is whole and comes once,
//! repairs bring back most of what is lost, they keep to the path's rate, and streams
//! go on beside them.

#[path = "support/multi.rs"]
mod multi;
#[path = "support/mod.rs"]
mod support;

use std::collections::BTreeSet;

use ctcp_link::{GilbertElliott, LinkConfig, LossModel};
use ctcp_proto::stream::Read;
use ctcp_proto::{DatagramError, PathOptions, Redundancy, TransportConfig};
use ctcp_units::{Duration, LossRate, Rate, StreamId, micros, millis, seconds};
use multi::Multi;
use support::{Which, World, base_seed, pattern, transport};

fn bernoulli(loss: f64) -> Option<LossModel> {
    (loss > 0.0).then(|| LossModel::Bernoulli(LossRate::clamped(loss)))
}

fn link(loss: Option<LossModel>) -> LinkConfig {
    let config = LinkConfig::new(Rate::mbit(10), millis(20)).queue_bdp(1.0, millis(40));
    match loss {
        Some(model) => config.loss(model),
        None => config,
    }
}

fn connected(seed: u64, loss: Option<LossModel>, redundancy: Redundancy) -> World {
    let transport = || TransportConfig {
        redundancy,
        ..transport()
    };
    let (up, down) = (link(None), link(None));
    let mut world = World::with_transport(seed, up, down, transport(), transport());
    world.connect();
    world.run_for(seconds(2));
    world.set_links(link(loss.clone()), link(loss));
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
fn without_repairs_datagrams_arrive_both_ways_and_are_not_sent_again() {
    for (loss, arrive) in [(0.0, 200..=200), (0.2, 130..=190)] {
        let mut world = connected(base_seed(1), bernoulli(loss), Redundancy::None);
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
        assert_eq!(stats.sent.datagram_repairs, 0);
        assert_eq!(stats.datagrams_dropped, 0);
    }
}

/// What an application sends: so many datagrams of `len` bytes at once, every `pause`.
struct Habit {
    name: &'static str,
    len: usize,
    at_once: u64,
    pause: Duration,
}

const HABITS: [Habit; 4] = [
    Habit {
        name: "a query",
        len: 60,
        at_once: 1,
        pause: millis(400),
    },
    Habit {
        name: "a voice",
        len: 160,
        at_once: 1,
        pause: millis(20),
    },
    Habit {
        name: "a game",
        len: 90,
        at_once: 1,
        pause: millis(50),
    },
    Habit {
        name: "a video",
        len: 1100,
        at_once: 9,
        pause: millis(33),
    },
];

/// Shares of what was sent after the path's loss had become known.
struct Outcome {
    /// Packets that the link lost.
    raw: f64,
    /// Datagrams that did not arrive.
    residual: f64,
    /// Bytes of packets with repairs, in those of packets with datagrams, nearly.
    overhead: f64,
    recovered: u64,
}

impl Outcome {
    fn print(&self, habit: &Habit, loss: &str) {
        println!(
            "{:11} {loss:>8} {:13.2} % {:5.2} % {:8.1} % {:10}",
            habit.name,
            self.raw * 100.0,
            self.residual * 100.0,
            self.overhead * 100.0,
            self.recovered,
        );
    }
}

fn converse(seed: u64, loss: Option<LossModel>, redundancy: Redundancy, habit: &Habit) -> Outcome {
    const BEFORE: u64 = 1000;
    const COUNT: u64 = 6000;
    let mut world = connected(seed, loss, redundancy);
    let mut seen = BTreeSet::new();
    let mut before = None;
    for number in 0..BEFORE + COUNT {
        if number == BEFORE {
            let client = world.connection(Which::Client).expect("open").stats();
            let server = world.connection(Which::Server).expect("open").stats();
            before = Some((client, server));
        }
        send(&mut world, Which::Client, number, habit.len).expect("it fits");
        if number % habit.at_once == 0 {
            world.run_for(habit.pause);
            take(&mut world, Which::Server, habit.len, &mut seen);
        }
    }
    world.run_for(seconds(2));
    take(&mut world, Which::Server, habit.len, &mut seen);
    let sent = world.connection(Which::Client).expect("open").stats();
    let got = world.connection(Which::Server).expect("open").stats();
    let (sent_before, got_before) = before.expect("there were more");
    assert_eq!(sent.datagrams_dropped, 0, "{}", habit.name);
    let packets = sent.sent.datagrams - sent_before.sent.datagrams;
    let repairs = sent.sent.datagram_repairs - sent_before.sent.datagram_repairs;
    let arrived = seen.range(BEFORE..).count() as f64;
    let direct = (got.received.datagrams - got_before.received.datagrams) as f64;
    let lens = (habit.len + 40) as f64 / (habit.len + 36) as f64;
    Outcome {
        raw: 1.0 - direct / packets as f64,
        residual: 1.0 - arrived / COUNT as f64,
        overhead: repairs as f64 / packets as f64 * lens,
        recovered: got.datagrams_recovered - got_before.datagrams_recovered,
    }
}

/// The cap is as many bytes as the datagrams had; who sends often needs far less.
/// `docs/measurements.md` has the table.
#[test]
fn repairs_bring_back_most_of_what_is_lost_within_their_cap() {
    println!("application     loss  without repairs    with  bytes more  recovered");
    for habit in &HABITS {
        for loss in [0.02, 0.05, 0.1, 0.2] {
            let seed = base_seed(5);
            let outcome = converse(seed, bernoulli(loss), Redundancy::Auto, habit);
            outcome.print(habit, &format!("{:4.0} %", loss * 100.0));
            let what = format!("{} at {loss}, seed {seed}", habit.name);
            assert!(outcome.overhead <= 1.1, "{what}: {}", outcome.overhead);
            if loss >= 0.05 {
                assert!(outcome.residual <= outcome.raw / 4.0, "{what}");
                assert!(outcome.recovered > 100, "{what}");
            }
        }
    }
    let video = &HABITS[3];
    let video = converse(base_seed(5), bernoulli(0.05), Redundancy::Auto, video);
    assert!(video.overhead < 0.3, "{}", video.overhead);
}

/// Repairs are no worse than none where losses come in runs, and cost no more.
#[test]
fn losses_in_runs_are_repaired_as_far_as_the_cap_allows() {
    for (habit, run) in [(1, 3.0), (1, 8.0), (3, 3.0), (3, 8.0)] {
        let habit = &HABITS[habit];
        let mean = LossRate::clamped(0.05);
        let chain = GilbertElliott::from_mean_and_burst(mean, run).expect("possible");
        let model = Some(LossModel::GilbertElliott(chain));
        let outcome = converse(base_seed(6), model, Redundancy::Auto, habit);
        outcome.print(habit, &format!("5 % / {run}"));
        assert!(outcome.overhead <= 1.1, "{}", outcome.overhead);
        assert!(outcome.residual < outcome.raw, "{}", habit.name);
    }
}

/// Not a byte and not a nanosecond more than without the code.
#[test]
fn where_nothing_is_lost_nothing_is_added() {
    for habit in &HABITS {
        let trace = |redundancy| {
            let mut world = connected(base_seed(7), None, redundancy);
            let mut seen = BTreeSet::new();
            for number in 0..500 {
                send(&mut world, Which::Client, number, habit.len).expect("it fits");
                if number % habit.at_once == 0 {
                    world.run_for(habit.pause);
                }
            }
            world.run_for(seconds(1));
            take(&mut world, Which::Server, habit.len, &mut seen);
            (world.trace, seen.len())
        };
        assert_eq!(trace(Redundancy::Auto), trace(Redundancy::None));
    }
}

#[test]
fn more_than_the_path_carries_is_dropped_and_streams_go_on() {
    const LEN: u64 = 300_000;
    let mut world = connected(base_seed(2), bernoulli(0.01), Redundancy::Auto);
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
    let mut world = connected(base_seed(3), None, Redundancy::Auto);
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
    let links = [(link(None), link(None)), (link(None), link(None))];
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
