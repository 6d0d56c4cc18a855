//! Random path churn: thousands of short lives of two endpoints with several
//! networks between them that differ, change, swallow everything for a while,
//! give the client other addresses, and whose paths are opened and closed as they
//! go.
//!
//! Whatever happens: bytes are exact, memory stays within its limits, nothing
//! spins, and once the networks are good everything comes to its end in time.
//! `CTCP_SEED=17 CTCP_CASES=1` runs one case again.

#[path = "support/multi.rs"]
mod multi;
#[path = "support/mod.rs"]
mod support;

use ctcp_link::{Jitter, LinkConfig, LossModel, QueueSize, Reordering};
use ctcp_proto::schedule::Scheduler;
use ctcp_proto::{Event, MtuMode, PATHS_MAX, PathOptions, Redundancy, TransportConfig};
use ctcp_units::{Duration, LossRate, PathId, Random, Rate, millis, seconds};
use multi::{Download, Multi};
use support::{Which, base_seed, transport};

/// So long after the networks turned good, at the latest, all bytes have come:
/// as in `hostile`, and the time that a path which fell silent is waited for.
const PATIENCE: Duration = seconds(5);
/// Bytes of a case at most; 3 Mbit/s besides.
const BYTES_MAX: u64 = 1_500_000;

fn cases() -> u64 {
    let text = std::env::var("CTCP_CASES").ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(2000)
}

fn scaled(random: &mut Random, low: f64, high: f64) -> f64 {
    (low.ln() + (high.ln() - low.ln()) * random.unit()).exp()
}

fn good(random: &mut Random) -> LinkConfig {
    let rate = Rate::kbit(scaled(random, 6_000.0, 50_000.0) as u64);
    let delay = Duration::from_micros(scaled(random, 200.0, 60_000.0) as u64);
    LinkConfig::new(rate, delay)
}

fn hostile(random: &mut Random) -> LinkConfig {
    let rate = Rate::kbit(scaled(random, 300.0, 50_000.0) as u64);
    let delay = Duration::from_micros(scaled(random, 100.0, 200_000.0) as u64);
    let mut config = LinkConfig::new(rate, delay);
    config.queue = QueueSize::Packets(scaled(random, 3.0, 200.0) as u64);
    if random.chance(0.6) {
        let loss = LossRate::clamped(random.unit() * 0.4);
        config = config.loss(LossModel::Bernoulli(loss));
    }
    if random.chance(0.05) {
        config = config.loss(LossModel::Bernoulli(LossRate::ONE));
    }
    if random.chance(0.2) {
        config.jitter = Jitter::Uniform {
            max: millis(1 + random.below(30)),
        };
    }
    config.keeps_order = random.chance(0.7);
    if random.chance(0.2) {
        config.reordering = Some(Reordering {
            share: random.unit() * 0.2,
            extra: millis(1 + random.below(60)),
        });
    }
    if random.chance(0.2) {
        config.duplication_share = random.unit() * 0.2;
    }
    if random.chance(0.2) {
        config.corruption_share = random.unit() * 0.1;
    }
    if random.chance(0.2) {
        config = config.mtu(1228 + random.below(280) as u32);
    }
    config
}

fn settings(random: &mut Random, scheduler: Scheduler) -> TransportConfig {
    let mut config = transport();
    config.congestion = "cc14".to_owned();
    config.scheduler = scheduler;
    config.idle_timeout = seconds(60);
    config.block_symbols = [1, 8, 32, 32, 64][random.below(5) as usize];
    config.window_symbols = [64, 256, 4096, 16_384][random.below(4) as usize];
    config.redundancy = Redundancy::ALL[random.below(5) as usize];
    if random.chance(0.3) {
        let ceiling = 1200 + random.below(273) as u16;
        config.mtu = MtuMode::Probed { ceiling };
    }
    config
}

struct Case {
    world: Multi,
    random: Random,
    download: Download,
    open: Vec<PathId>,
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut random = Random::from_seed(seed ^ 0x0043_6875_726e);
        let scheduler = Scheduler::ALL[random.below(6).min(3) as usize];
        let (client, server) = (
            settings(&mut random, scheduler),
            settings(&mut random, scheduler),
        );
        let count = 2 + random.below(3) as usize;
        let links: Vec<_> = (0..count)
            .map(|_| (good(&mut random), good(&mut random)))
            .collect();
        let mut world = Multi::new(seed, &links, client, server);
        world.connect();
        let bytes = scaled(&mut random, 1e4, BYTES_MAX as f64) as u64;
        let download = Download::begin(&mut world, bytes);
        Self {
            world,
            random,
            download,
            open: vec![PathId(0)],
        }
    }

    fn open_path(&mut self) {
        if self.open.len() >= PATHS_MAX {
            return;
        }
        let network = self.random.below(self.world.networks.len() as u64) as usize;
        let options = PathOptions {
            is_backup: self.random.chance(0.2),
            cost: if self.random.chance(0.2) { 20 } else { 0 },
            congestion: None,
        };
        if let Ok(path) = self.world.try_open_path(network, &options) {
            self.open.push(path);
        }
    }

    fn act(&mut self) {
        let network = self.random.below(self.world.networks.len() as u64) as usize;
        match self.random.below(12) {
            0 | 1 => self.open_path(),
            2 => {
                let place = self.random.below(self.open.len() as u64) as usize;
                let path = self.open[place];
                if self.world.close_path(path) {
                    self.open.remove(place);
                }
            }
            3 | 4 => {
                let network = &mut self.world.networks[network];
                network.is_dead = !network.is_dead;
            }
            5 => self.world.networks[network].nat_port += 1,
            6 => {
                let (up, down) = (hostile(&mut self.random), hostile(&mut self.random));
                self.world.set_links(network, up, down);
            }
            7 if self.random.chance(0.3) => {
                let now = self.world.now;
                let path = self.open[self.random.below(self.open.len() as u64) as usize];
                if let Some(server) = self.world.connection(Which::Server) {
                    server.on_path_error(now, path);
                }
            }
            8 if self.random.chance(0.3) => {
                let path = self.open[self.random.below(self.open.len() as u64) as usize];
                let is_backup = self.random.chance(0.5);
                if let Some(client) = self.world.connection(Which::Client) {
                    let _ = client.set_path_use(path, is_backup, 0);
                }
            }
            _ => {}
        }
        self.world.drain();
    }

    fn suffer(&mut self) {
        let end = self.world.now + Duration::from_secs_f64(scaled(&mut self.random, 0.1, 8.0));
        while self.world.now < end && !self.download.is_done {
            let pause = Duration::from_secs_f64(self.random.exponential(0.08).min(1.0));
            let download = &mut self.download;
            self.world.run_until(pause, |world| download.pump(world));
            self.act();
            self.check();
        }
    }

    fn check(&mut self) {
        for which in [Which::Client, Which::Server] {
            for (_, event) in &self.world.end(which).events {
                assert!(!matches!(event, Event::Closed(_)), "{which:?}: {event:?}");
            }
            let stats = self.world.connection(which).unwrap().stats();
            assert!(stats.paths.len() <= PATHS_MAX);
            assert!(stats.symbol_bytes_held <= 16_384 * 1474);
            assert!(stats.generations_receiving <= 16_384);
        }
    }

    fn wind_up(&mut self) -> Duration {
        for network in 0..self.world.networks.len() {
            let (up, down) = (good(&mut self.random), good(&mut self.random));
            self.world.set_links(network, up, down);
            self.world.networks[network].is_dead = false;
        }
        let start = self.world.now;
        let transfer = Duration::from_secs_f64(BYTES_MAX as f64 * 8.0 / 3e6);
        let download = &mut self.download;
        let is_done = self
            .world
            .run_until(PATIENCE + transfer, |world| download.pump(world));
        if !is_done {
            let read = self.download.read;
            let mut dump = |which| self.world.connection(which).map(|c| c.stats());
            panic!(
                "stalled at {read} bytes:\n{:#?}\n{:#?}",
                dump(Which::Client),
                dump(Which::Server)
            );
        }
        self.check();
        self.world.now - start
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

fn live(seed: u64) -> (Case, Duration) {
    let _seed = Seed(seed);
    let mut case = Case::new(seed);
    case.suffer();
    let took = case.wind_up();
    (case, took)
}

#[test]
fn bytes_are_exact_and_nothing_stalls_whatever_paths_do() {
    let first = base_seed(0);
    let mut slowest = (Duration::ZERO, first);
    let (mut bytes, mut paths) = (0, 0);
    for seed in first..first + cases() {
        let (case, took) = live(seed);
        bytes += case.download.read;
        paths += case.world.routes.len();
        slowest = slowest.max((took, seed));
    }
    println!(
        "{bytes} bytes over {paths} paths; slowest to wind up: {:?} with seed {}",
        slowest.0, slowest.1
    );
}

/// 100637: what followed the close of another path in a packet was passed over,
/// and acknowledged. 202328: blocks too long for the only path that was no backup
/// waited until its MTU rose. 5057: `mp12` left the oldest block to a quick path that
/// had died.
#[test]
fn seeds_that_once_failed_pass() {
    live(100_637);
    live(202_328);
    live(5057);
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let first = base_seed(0);
    for seed in first..first + cases().div_ceil(100) {
        let ((one, _), (two, _)) = (live(seed), live(seed));
        assert_eq!(one.world.trace, two.world.trace, "seed {seed}");
    }
}
