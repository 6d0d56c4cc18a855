//! Random hostile networks: thousands of short lives of two endpoints.
//!
//! Each seed draws a network that changes for the worse a few times, tight or
//! wide limits, and what the applications do. Whatever happens, bytes are exact,
//! memory stays within its limits, and once the network is good everything
//! comes to its end within [`PATIENCE`] and the time the bytes take.
//!
//! `CTCP_SEED=17 CTCP_CASES=1` runs one case again.

#[path = "../support/mod.rs"]
mod support;

mod apps;
mod network;

use apps::{Apps, check_memory};
use ctcp_proto::{ConnectionError, Event, MtuMode, TransportConfig};
use ctcp_units::{Duration, Random, millis, seconds};
use support::{Which, World, base_seed};

/// The bound: so long after the network turned good, and the time that the bytes
/// take at a quarter of the slowest good network's rate besides, every stream has
/// come to its end.
const PATIENCE: Duration = seconds(5);
/// Bytes of both applications at 2.5 Mbit/s.
const TRANSFER: Duration = millis(2600);

fn cases(default: u64) -> u64 {
    let text = std::env::var("CTCP_CASES").ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

struct Case {
    world: World,
    random: Random,
    apps: Apps,
    client: TransportConfig,
    server: TransportConfig,
    port: u16,
    /// Time that winding up took.
    took: Duration,
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut random = Random::from_seed(seed ^ 0x486F_7374_696C_6521);
        let client = network::transport(&mut random);
        let server = network::transport(&mut random);
        let start = network::good(&mut random);
        let world =
            World::with_transport(seed, start.clone(), start, client.clone(), server.clone());
        let apps = Apps::new(&mut random);
        Self {
            world,
            random,
            apps,
            client,
            server,
            port: 1000,
            took: Duration::ZERO,
        }
    }

    fn is_mtu_fixed(&self) -> bool {
        let is_fixed = |config: &TransportConfig| matches!(config.mtu, MtuMode::Fixed(_));
        is_fixed(&self.client) || is_fixed(&self.server)
    }

    /// The client turns up at another address, with or without knowing.
    fn move_client(&mut self) {
        self.port += 1;
        self.world.client.address.set_port(self.port);
        if self.random.chance(0.5) {
            let now = self.world.now;
            if let Some(client) = self.world.connection(Which::Client) {
                client.on_local_address_changed(now);
            }
        }
    }

    fn check(&mut self) {
        if let Some(client) = self.world.connection(Which::Client) {
            check_memory(client, &self.client, &self.server);
        }
        if let Some(server) = self.world.connection(Which::Server) {
            check_memory(server, &self.server, &self.client);
        }
        for which in [Which::Client, Which::Server] {
            let is_closed = |event: &Event| matches!(event, Event::Closed(_));
            let events = &self.world.end(which).events;
            let closed: Vec<_> = events.iter().filter(|(_, e)| is_closed(e)).collect();
            assert!(closed.is_empty(), "{which:?}: {closed:?}");
        }
    }

    /// The applications at work on hostile networks.
    fn suffer(&mut self) {
        let is_mtu_fixed = self.is_mtu_fixed();
        let phases = network::hostile(&mut self.random, is_mtu_fixed);
        let moves = self.random.chance(0.3);
        for phase in phases {
            self.world.set_links(phase.up, phase.down);
            let end = self.world.now + phase.span;
            while self.world.now < end {
                let pause = self.random.exponential(8e-3).min(0.3);
                let left = end - self.world.now;
                self.world.run_for(Duration::from_secs_f64(pause).min(left));
                for which in [Which::Client, Which::Server] {
                    self.apps.act(&mut self.world, which, &mut self.random);
                }
                if moves && self.random.chance(0.005) {
                    self.move_client();
                }
                self.world.drain();
                self.check();
            }
        }
    }

    fn turn_good(&mut self) {
        let up = network::good(&mut self.random);
        let down = network::good(&mut self.random);
        self.world.set_links(up, down);
    }

    fn wind_up(&mut self) {
        let start = self.world.now;
        let (apps, random) = (&mut self.apps, &mut self.random);
        let is_done = self
            .world
            .run_until(PATIENCE + TRANSFER, |world| apps.wind_up(world, random));
        if !is_done {
            let mut dump = |which| self.world.connection(which).map(|c| c.stats());
            panic!(
                "stalled for {:?}:\n{}{:#?}\n{:#?}",
                PATIENCE + TRANSFER,
                self.apps.unsettled(),
                dump(Which::Client),
                dump(Which::Server),
            );
        }
        self.check();
        self.took = self.world.now - start;
    }

    /// Nothing passes any more: both ends find out in time.
    fn die(&mut self) {
        self.world.set_links(network::dead(), network::dead());
        let mut limit = self.client.idle_timeout.max(self.server.idle_timeout);
        limit = limit.max(self.client.handshake_timeout) + seconds(2);
        self.world.run_for(limit);
        for which in [Which::Client, Which::Server] {
            for (_, event) in &self.world.end(which).events {
                if let Event::Closed(error) = event {
                    let is_expected = matches!(
                        error,
                        ConnectionError::IdleTimeout(_) | ConnectionError::NoAnswer { .. }
                    );
                    assert!(is_expected, "{which:?}: {error}");
                }
            }
            self.world.run_for(seconds(20));
            let left = self.world.end(which).connections.len();
            assert_eq!(left, 0, "{which:?} still holds a dead connection");
            assert_eq!(self.world.end(which).endpoint.connection_count(), 0);
        }
    }
}

/// Says which seed it was if a case fails.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("run it again with CTCP_SEED={} CTCP_CASES=1", self.0);
        }
    }
}

fn live(seed: u64) -> Case {
    let _seed = Seed(seed);
    let mut case = Case::new(seed);
    case.world.connect();
    case.suffer();
    case.turn_good();
    case.wind_up();
    case
}

#[test]
fn bytes_are_exact_and_nothing_stalls_once_the_network_is_good() {
    let first = base_seed(0);
    let mut slowest = (Duration::ZERO, first);
    let mut bytes = 0;
    for seed in first..first + cases(6000) {
        let case = live(seed);
        bytes += case.apps.bytes_read();
        slowest = slowest.max((case.took, seed));
    }
    println!(
        "{bytes} bytes read; slowest to wind up: {:?} with seed {}",
        slowest.0, slowest.1
    );
}

/// 4300, 7181: the NAT gave another address to a client that only read.
/// 1039055: a block that was complete when it was closed kept its place.
#[test]
fn seeds_that_once_failed_pass() {
    for seed in [4300, 7181, 1_039_055] {
        live(seed);
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let first = base_seed(0);
    for seed in first..first + cases(6000).div_ceil(100) {
        let (one, two) = (live(seed), live(seed));
        assert_eq!(one.world.trace, two.world.trace, "seed {seed}");
    }
}

#[test]
fn a_dead_network_ends_the_connection_at_both_ends() {
    let first = base_seed(0);
    for seed in first..first + cases(6000).div_ceil(20) {
        let _seed = Seed(seed);
        let mut case = Case::new(seed);
        case.world.connect();
        case.suffer();
        case.die();
    }
}
