//! Short objects over a running connection: how long a request takes until its
//! last byte is there, and what that costs on the wire.
//!
//! The setting of [CC14] Fig. 5: 25 Mbit/s, a round trip of 10 ms, a queue of one
//! bandwidth-delay product, the same loss both ways and before the rate limit.
//! `cargo test -p ctcp-proto --test short_objects -- --nocapture` prints the table.

mod support;

use ctcp_link::{LinkConfig, LossModel};
use ctcp_proto::stream::{Read, ReadError};
use ctcp_proto::{Event, Redundancy, TransportConfig};
use ctcp_units::{Duration, LossRate, Rate, StreamId, millis, seconds};
use support::{Which, World, base_seed, transport};

/// What a browser says.
const REQUEST: [u8; 400] = [b'g'; 400];

fn link(loss: f64) -> LinkConfig {
    LinkConfig::new(Rate::mbit(25), millis(5))
        .queue_bdp(1.0, millis(10))
        .loss(LossModel::Bernoulli(LossRate::clamped(loss)))
}

/// A connection over which objects are fetched one after the other.
struct Browser {
    world: World,
    serving: Option<(StreamId, u64)>,
    buf: Vec<u8>,
}

impl Browser {
    fn new(seed: u64, link: &LinkConfig, config: &TransportConfig) -> Self {
        let mut world = World::with_transport(
            seed,
            link.clone(),
            link.clone(),
            config.clone(),
            config.clone(),
        );
        world.connect();
        let connected = |w: &mut World| w.saw(Which::Client, |e| *e == Event::Connected);
        assert!(world.run_until(seconds(8), connected), "seed {seed}");
        Self {
            world,
            serving: None,
            buf: vec![7; 1 << 16],
        }
    }

    /// Answers whoever has asked: the object of `len` bytes and its end.
    fn serve(&mut self, len: u64) {
        let Some(server) = self.world.connection(Which::Server) else {
            return;
        };
        if self.serving.is_none() {
            self.serving = server.accept_stream().map(|id| (id, len));
        }
        let Some((id, left)) = &mut self.serving else {
            return;
        };
        // A reader of requests: nothing is said before all of it is there.
        let mut request = [0; REQUEST.len()];
        match server.read(*id, &mut request) {
            Ok(Read::End) => {}
            Ok(Read::Bytes(_)) if server.read(*id, &mut request) == Ok(Read::End) => {}
            _ if *left == len => return,
            _ => {}
        }
        while *left > 0 {
            let most = self.buf.len().min(usize::try_from(*left).unwrap());
            match server.write(*id, &self.buf[..most]) {
                Ok(count) => *left -= count as u64,
                Err(_) => return,
            }
        }
        server.finish(*id).unwrap();
        self.serving = None;
    }

    /// Time from the request for `len` bytes until the last is read.
    fn fetch(&mut self, len: u64) -> Duration {
        let start = self.world.now;
        let client = self.world.connection(Which::Client).unwrap();
        let id = client.open_stream().unwrap();
        assert_eq!(client.write(id, &REQUEST), Ok(REQUEST.len()));
        client.finish(id).unwrap();
        self.world.drain();
        let limit = start + seconds(60);
        let (mut read, mut sink) = (0, vec![0; 1 << 16]);
        loop {
            self.serve(len);
            let client = self.world.connection(Which::Client).unwrap();
            let is_done = loop {
                match client.read(id, &mut sink) {
                    Ok(Read::Bytes(count)) => read += count as u64,
                    Ok(Read::End) => break true,
                    Err(ReadError::Blocked) => break false,
                    Err(error) => panic!("{error}"),
                }
            };
            self.world.drain();
            if is_done {
                assert_eq!(read, len);
                return self.world.now - start;
            }
            assert!(self.world.step(limit), "{read} of {len} bytes in a minute");
        }
    }
}

#[derive(Debug)]
struct Row {
    median: f64,
    p95: f64,
    max: f64,
    /// Bytes on the wire, both ways, for each byte asked for.
    wire: f64,
}

/// `count` objects of `len` bytes a connection, over a connection for each seed
/// that has carried a megabyte before.
fn row(seeds: core::ops::Range<u64>, loss: f64, len: u64, count: usize, how: Redundancy) -> Row {
    let config = TransportConfig {
        redundancy: how,
        ..transport()
    };
    let (mut spans, mut wire) = (Vec::new(), 0);
    for seed in seeds {
        let mut browser = Browser::new(seed, &link(loss), &config);
        browser.fetch(1_000_000);
        let before = browser.world.wire_bytes_down + browser.world.wire_bytes_up;
        for _ in 0..count {
            // Not in step with anything that has a clock of its own.
            let pause = millis(20) + Duration::from_micros(browser.world.random.below(80_000));
            browser.world.run_for(pause);
            spans.push(browser.fetch(len).as_secs_f64());
        }
        wire += browser.world.wire_bytes_down + browser.world.wire_bytes_up - before;
    }
    spans.sort_by(f64::total_cmp);
    let at = |share: f64| spans[((spans.len() - 1) as f64 * share).round() as usize];
    Row {
        median: at(0.5),
        p95: at(0.95),
        max: at(1.0),
        wire: wire as f64 / (spans.len() as f64 * len as f64),
    }
}

#[test]
fn short_objects_come_in_time_at_20_percent_loss() {
    let seed = base_seed(40);
    println!("seed {seed}; seconds, and wire bytes both ways per byte asked for");
    println!("  loss       bytes  redundancy   median     p95     max    wire");
    for (len, count, median, p95) in [
        (100, 60, 0.040, 0.080),
        (10_000, 60, 0.040, 0.080),
        (100_000, 40, 0.080, 0.140),
        (1_000_000, 10, 0.42, 0.55),
        // The aim is 3.6. At 20 % loss the controller leaves 6 % of the rate unused.
        (10_000_000, 1, 3.65, 3.9),
    ] {
        let seeds = seed..seed + if len > 1_000_000 { 4 } else { 8 };
        for loss in [0.0, 0.05, 0.2] {
            if loss < 0.2 && len > 100_000 {
                continue;
            }
            for how in [Redundancy::Cc14, Redundancy::default()] {
                let row = row(seeds.clone(), loss, len, count, how);
                println!(
                    "{loss:>6} {len:>11}  {how:<10?} {:>8.4} {:>7.4} {:>7.3} {:>7.3}",
                    row.median, row.p95, row.max, row.wire
                );
                if how == Redundancy::default() && loss == 0.2 {
                    assert!(row.median <= median, "{len}: {row:?}");
                    assert!(row.p95 <= p95, "{len}: {row:?}");
                }
            }
        }
    }
}
