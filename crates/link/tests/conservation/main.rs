//! Random links under random traffic: no packet appears from nowhere or
//! vanishes, and looking at a link does not change it.

#[path = "../common/mod.rs"]
mod common;
mod random;

use common::seed;
use ctcp_link::{Delivered, Ecn, INSIDE_PACKETS_MAX, Link, LinkConfig, LinkCounters, Packet};
use ctcp_units::{Instant, Random, micros};
use random::config as random_config;

const RUNS: u64 = 400;
const STEPS: u64 = 500;

enum Step {
    Send(Packet<u64>),
    Reconfigure(Box<LinkConfig>),
}

/// Traffic, and changes of the link, at random times.
struct Script {
    seed: u64,
    start: Instant,
    config: LinkConfig,
    steps: Vec<(Instant, Step)>,
}

impl Script {
    /// Arrived packets that nobody polled count as inside, so with a tight limit
    /// on those it does matter whether one looks.
    fn lift_inside_limits(&mut self) {
        self.config.inside_packets_max = INSIDE_PACKETS_MAX;
        for (_, step) in &mut self.steps {
            if let Step::Reconfigure(config) = step {
                config.inside_packets_max = INSIDE_PACKETS_MAX;
            }
        }
    }
}

fn script(seed: u64) -> Script {
    let mut random = Random::from_seed(seed);
    let start = Instant::from_nanos(random.below(1 << 40));
    let config = random_config(&mut random);
    let mut now = start;
    let steps = (0..STEPS)
        .map(|index| {
            let pause_most = if random.chance(0.02) { 20_000 } else { 400 };
            now += micros(random.below(pause_most));
            let step = if random.chance(0.01) {
                Step::Reconfigure(Box::new(random_config(&mut random)))
            } else {
                let ecn = Ecn::from_bits(random.below(4) as u8);
                Step::Send(Packet::new(1 + random.below(1500) as u32, index).ecn(ecn))
            };
            (now, step)
        })
        .collect();
    Script {
        seed,
        start,
        config,
        steps,
    }
}

fn take_all(link: &mut Link<u64>, now: Instant, deliveries: &mut Vec<Delivered<u64>>) {
    while let Some(delivered) = link.poll_delivery(now) {
        assert!(delivered.due <= now, "delivered before its time");
        assert!(delivered.sent_at <= delivered.due);
        deliveries.push(delivered);
    }
}

/// Plays a script. `looks` at each step, as an emulator does, or only when
/// everything is over.
fn play(script: &Script, looks: bool) -> (Vec<Delivered<u64>>, LinkCounters) {
    let mut link =
        Link::new(script.config.clone(), script.seed, script.start).expect("a valid configuration");
    let mut deliveries = Vec::new();
    for (at, step) in &script.steps {
        if looks {
            while let Some(event) = link.next_event().filter(|event| event <= at) {
                take_all(&mut link, event, &mut deliveries);
            }
            take_all(&mut link, *at, &mut deliveries);
        }
        match step {
            Step::Send(packet) => {
                link.send(*at, *packet);
            }
            Step::Reconfigure(config) => link
                .reconfigure(*at, (**config).clone())
                .expect("a valid configuration"),
        }
        assert!(link.counters().is_conserved(), "{:?}", link.counters());
    }
    while let Some(event) = link.next_event() {
        take_all(&mut link, event, &mut deliveries);
    }
    (deliveries, link.counters())
}

#[test]
fn every_packet_is_lost_dropped_delivered_or_inside() {
    let first = seed(1);
    for seed in first..first + RUNS {
        let script = script(seed);
        let (deliveries, counters) = play(&script, true);
        assert!(counters.is_conserved(), "seed {seed}: {counters:?}");
        assert_eq!(counters.inside, 0, "seed {seed}");
        assert_eq!(counters.queue_bytes, 0, "seed {seed}");
        assert_eq!(counters.delivered, deliveries.len() as u64);
        let bytes: u64 = deliveries.iter().map(|d| u64::from(d.len_bytes)).sum();
        assert_eq!(counters.delivered_bytes, bytes);
        let by_stage: u64 = counters.lost_by_stage.iter().sum();
        assert_eq!(counters.lost(), by_stage, "seed {seed}");
        let copies = deliveries.iter().filter(|d| d.is_duplicate).count();
        assert!(copies as u64 <= counters.duplicated);
        let corrupt = deliveries.iter().filter(|d| d.corruption.is_some()).count();
        assert_eq!(counters.corrupted, corrupt as u64);
        assert!(
            deliveries.windows(2).all(|pair| pair[0].due <= pair[1].due),
            "seed {seed}: deliveries out of order of time"
        );
    }
}

#[test]
fn looking_often_or_only_at_the_end_shows_the_same() {
    let first = seed(1000);
    for seed in first..first + RUNS {
        let mut script = script(seed);
        script.lift_inside_limits();
        assert_eq!(play(&script, true), play(&script, false), "seed {seed}");
    }
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_does_not() {
    let first = seed(2000);
    let mut differing = 0;
    for seed in first..first + 50 {
        let mut script = script(seed);
        let once = format!("{:?}", play(&script, true));
        assert_eq!(once, format!("{:?}", play(&script, true)), "seed {seed}");
        script.seed += 1;
        differing += u32::from(once != format!("{:?}", play(&script, true)));
    }
    assert!(differing > 25, "{differing} of 50 seeds made a difference");
}
