use super::*;
use ctcp_units::{Random, micros, millis};
use std::collections::VecDeque;

fn random(label: u64) -> Random {
    let seed = std::env::var("CTCP_SEED").map_or(1, |text| text.parse().expect("a number"));
    println!("CTCP_SEED={seed}");
    Random::from_seed(seed).fork(label)
}

fn at(milliseconds: u64) -> Instant {
    Instant::EPOCH + millis(milliseconds)
}

fn ethernet() -> MtuDiscovery {
    MtuDiscovery::new(MtuMode::Probed {
        ceiling: CEILING_IPV4,
    })
}

fn packet(size: u16, number: u64) -> MtuPacket {
    MtuPacket {
        size,
        number: PacketNumber(number),
        sent_at: at(number),
    }
}

/// Answers every probe as a path that carries `mtu` would, until the search
/// settles; the sizes probed, in order.
fn search(discovery: &mut MtuDiscovery, now: Instant, mtu: u16) -> Vec<u16> {
    let mut sizes = Vec::new();
    while let Some(size) = discovery.poll_probe(now) {
        sizes.push(size);
        discovery.on_probe_sent(size);
        assert_eq!(discovery.poll_probe(now), None, "one probe at a time");
        if size <= mtu {
            discovery.on_probe_acked(now, size);
        } else {
            discovery.on_probe_lost(now, size);
        }
    }
    sizes
}

#[test]
fn the_ceiling_is_tried_first_and_settles_the_search() {
    let mut discovery = ethernet();
    assert_eq!(discovery.current(), BASE);
    assert_eq!(search(&mut discovery, at(0), 1472), [1472]);
    assert_eq!(discovery.current(), 1472);
    assert_eq!(discovery.next_timeout(), None);
}

#[test]
fn a_size_is_given_up_after_three_probes_and_the_next_common_one_tried() {
    let mut discovery = ethernet();
    let sizes = search(&mut discovery, at(0), 1452);
    assert_eq!(sizes[..4], [1472, 1472, 1472, 1452]);
    assert_eq!(discovery.current(), 1452);
}

#[test]
fn uncommon_sizes_are_found_by_halving() {
    for mtu in BASE..=CEILING_IPV4 {
        let mut discovery = ethernet();
        let probes = search(&mut discovery, at(0), mtu).len();
        let found = discovery.current();
        assert!(found <= mtu && mtu - found < GRAIN, "{found} of {mtu}");
        assert!(probes <= 21, "{probes} probes for {mtu}");
    }
}

#[test]
fn jumbo_frames_are_found_if_they_are_allowed() {
    for (ceiling, mtu) in [
        (8952, 8952),
        (8972, 8952),
        (9000, 1472),
        (CEILING_MAX, 65_527),
    ] {
        let mut discovery = MtuDiscovery::new(MtuMode::Probed { ceiling });
        search(&mut discovery, at(0), mtu);
        let found = discovery.current();
        assert!(found <= mtu && mtu - found < GRAIN, "{found} of {mtu}");
    }
}

#[test]
fn a_fixed_size_is_neither_probed_nor_lowered() {
    let mut discovery = MtuDiscovery::new(MtuMode::Fixed(1400));
    assert_eq!(discovery.poll_probe(at(1_000_000)), None);
    assert_eq!(discovery.next_timeout(), None);
    for number in 0..10_000 {
        assert!(!discovery.on_lost(at(number), &packet(1400, number)));
    }
    assert_eq!(discovery.current(), 1400);
}

#[test]
fn a_ceiling_below_the_base_is_the_size() {
    let mut discovery = MtuDiscovery::new(MtuMode::Probed { ceiling: 1000 });
    assert_eq!(discovery.current(), 1000);
    assert_eq!(discovery.poll_probe(at(0)), None);
}

#[test]
fn a_search_that_ended_low_is_repeated_at_growing_intervals() {
    let mut discovery = ethernet();
    let mut now = at(0);
    let mut waits = Vec::new();
    for _ in 0..9 {
        search(&mut discovery, now, 1300);
        let next = discovery.next_timeout().expect("a timer is set");
        waits.push((next - now).as_secs());
        assert_eq!(
            discovery.poll_probe(Instant::from_nanos(next.as_nanos() - 1)),
            None
        );
        now = next;
    }
    assert_eq!(waits, [10, 20, 40, 80, 160, 320, 600, 600, 600]);
    search(&mut discovery, now, 1472);
    assert_eq!(discovery.current(), 1472, "the path has widened");
}

#[test]
fn a_probe_acknowledged_after_it_was_given_up_counts() {
    let mut discovery = ethernet();
    for _ in 0..3 {
        let size = discovery.poll_probe(at(0)).expect("a probe is due");
        discovery.on_probe_sent(size);
        discovery.on_probe_lost(at(0), size);
    }
    assert_eq!(discovery.poll_probe(at(0)), Some(1452));
    discovery.on_probe_acked(at(1), 1472);
    assert_eq!(discovery.current(), 1472);
    assert_eq!(discovery.poll_probe(at(1)), None);
}

#[test]
fn sizes_nobody_asked_for_change_nothing() {
    let mut discovery = ethernet();
    discovery.on_probe_acked(at(0), 9000);
    discovery.on_probe_lost(at(0), 1472);
    discovery.on_probe_sent(77);
    assert_eq!(discovery.current(), BASE);
    assert_eq!(discovery.poll_probe(at(0)), Some(1472));
}

#[test]
fn a_new_address_starts_at_the_base_again() {
    let mut discovery = ethernet();
    search(&mut discovery, at(0), 1472);
    discovery.reset();
    assert_eq!(discovery.current(), BASE);
    assert_eq!(discovery.poll_probe(at(5)), Some(1472));
}

fn found() -> MtuDiscovery {
    let mut discovery = ethernet();
    search(&mut discovery, at(0), 1472);
    discovery
}

/// The number of lost packets after which the hole is seen, if it is: every
/// second packet is large and lost, every other small and delivered.
fn losses_until_fall(discovery: &mut MtuDiscovery) -> Option<u64> {
    (0..200).find(|round| {
        discovery.on_acked(&packet(90, 2 * round));
        discovery.on_lost(at(2 * round + 1), &packet(1472, 2 * round + 1))
    })
}

#[test]
fn large_packets_lost_while_small_ones_pass_are_a_black_hole() {
    let mut discovery = found();
    let rounds = losses_until_fall(&mut discovery).expect("it is seen");
    assert!(rounds < 10, "{rounds} rounds");
    assert_eq!(discovery.current(), BASE);
    assert_eq!(discovery.hole_count, 1);
}

#[test]
fn after_a_black_hole_what_still_passes_is_searched_for() {
    let mut discovery = found();
    losses_until_fall(&mut discovery);
    let retry = discovery.next_timeout().expect("a timer is set");
    search(&mut discovery, retry, 1392);
    assert!((1385..=1392).contains(&discovery.current()));
}

#[test]
fn a_path_that_falls_again_and_again_is_searched_less_often() {
    let mut discovery = found();
    let mut now = at(0);
    let mut pauses = Vec::new();
    for _ in 0..6 {
        while !discovery.on_lost(now, &packet(1472, now.as_nanos() / 1_000_000)) {
            let number = now.as_nanos() / 1_000_000;
            discovery.on_acked(&packet(90, number + 1));
            now += millis(2);
        }
        let retry = discovery.next_timeout().expect("a timer is set");
        pauses.push((retry - now).as_secs());
        now = retry;
        search(&mut discovery, now, 1472);
    }
    assert_eq!(pauses, [1, 4, 16, 64, 256, 600]);
}

#[test]
fn packets_still_on_their_way_at_the_fall_are_not_a_second_one() {
    let mut discovery = found();
    losses_until_fall(&mut discovery);
    assert_eq!(losses_until_fall(&mut discovery), None);
    assert!(!discovery.is_suspicious());
}

#[test]
fn a_burst_that_a_later_large_packet_survives_is_no_black_hole() {
    let mut discovery = found();
    discovery.on_acked(&packet(1472, 500));
    for number in 0..500 {
        assert!(!discovery.on_lost(at(501), &packet(1472, number)));
    }
    assert!(!discovery.is_suspicious());
}

#[test]
fn an_outage_of_a_few_seconds_is_no_black_hole_and_long_silence_is() {
    let mut discovery = found();
    for number in 0..4_900 {
        assert!(!discovery.on_lost(at(number + 100), &packet(1472, number)));
    }
    assert!(discovery.is_suspicious());
    let fell =
        (4_900..6_000).find(|number| discovery.on_lost(at(number + 100), &packet(1472, *number)));
    assert_eq!(fell, Some(5_000));
}

#[test]
fn a_path_that_carries_smaller_large_packets_is_seen_through() {
    let mut discovery = found();
    let fell = (0..100).any(|round| {
        discovery.on_acked(&packet(1350, 2 * round));
        discovery.on_lost(at(2 * round + 1), &packet(1472, 2 * round + 1))
    });
    assert!(fell);
}

/// What loses packets beside their size.
enum Chance {
    Each(f64),
    /// Gilbert's two states: losses in bursts of a mean length.
    Bursts {
        share: f64,
        length: f64,
        is_bad: bool,
    },
}

impl Chance {
    fn loses(&mut self, random: &mut Random) -> bool {
        match self {
            Self::Each(share) => random.chance(*share),
            Self::Bursts {
                share,
                length,
                is_bad,
            } => {
                let leave_bad = 1.0 / *length;
                let leave_good = leave_bad * *share / (1.0 - *share);
                let flips = random.chance(if *is_bad { leave_bad } else { leave_good });
                *is_bad ^= flips;
                *is_bad
            }
        }
    }
}

/// A sender that fills a path of 20 ms with a packet a millisecond, one in
/// twenty of them small, and reports their fates as a path would: acknowledged
/// packets first, then those lost by three numbers, or by silence.
struct Path {
    discovery: MtuDiscovery,
    random: Random,
    chance: Chance,
    mtu: u16,
    small_share: f64,
    now: Instant,
    number: u64,
    /// Sent, oldest first: packet, whether it is a probe, whether it arrives.
    sent: VecDeque<(MtuPacket, bool, bool)>,
    lost: Vec<(MtuPacket, bool)>,
    last_ack: Instant,
    fell_at: Vec<Instant>,
}

impl Path {
    fn new(random: Random, chance: Chance, mtu: u16) -> Self {
        Self {
            discovery: ethernet(),
            random,
            chance,
            mtu,
            small_share: 0.05,
            now: at(0),
            number: 0,
            sent: VecDeque::new(),
            lost: Vec::new(),
            last_ack: at(0),
            fell_at: Vec::new(),
        }
    }

    fn run(&mut self, span: Duration) {
        let end = self.now + span;
        while self.now < end {
            self.now += millis(1);
            let size = if self.random.chance(self.small_share) {
                100
            } else {
                self.discovery.current()
            };
            self.send(size, false);
            if let Some(size) = self.discovery.poll_probe(self.now) {
                self.discovery.on_probe_sent(size);
                self.send(size, true);
            }
            self.receive();
        }
    }

    fn send(&mut self, size: u16, is_probe: bool) {
        let arrives = !self.chance.loses(&mut self.random) && size <= self.mtu;
        let packet = MtuPacket {
            size,
            number: PacketNumber(self.number),
            sent_at: self.now,
        };
        self.number += 1;
        self.sent.push_back((packet, is_probe, arrives));
    }

    fn receive(&mut self) {
        while let Some((packet, is_probe, arrives)) = self.sent.front().copied()
            && self.now - packet.sent_at >= millis(20)
        {
            self.sent.pop_front();
            if !arrives {
                self.lost.push((packet, is_probe));
                continue;
            }
            self.last_ack = self.now;
            if is_probe {
                self.discovery.on_probe_acked(self.now, packet.size);
            } else {
                self.discovery.on_acked(&packet);
            }
            self.declare(|lost| packet.number.0 >= lost.number.0 + 3);
        }
        if self.now - self.last_ack > millis(80) {
            let now = self.now;
            self.declare(|lost| now - lost.sent_at > millis(60));
        }
    }

    fn declare(&mut self, is_lost: impl Fn(&MtuPacket) -> bool) {
        let mut kept = Vec::new();
        for (packet, is_probe) in core::mem::take(&mut self.lost) {
            if !is_lost(&packet) {
                kept.push((packet, is_probe));
            } else if is_probe {
                self.discovery.on_probe_lost(self.now, packet.size);
            } else if self.discovery.on_lost(self.now, &packet) {
                self.fell_at.push(self.now);
            }
        }
        self.lost = kept;
    }
}

#[test]
fn the_size_is_found_at_any_loss() {
    for (label, loss) in [0.0, 0.05, 0.2, 0.4].into_iter().enumerate() {
        let mut worst = Duration::ZERO;
        let mut low_after_20_s = 0;
        let runs = 60;
        for run in 0..runs {
            let mtu = [1472, 1452, 1420, 1392, 1300][run % 5];
            let random = random((label * 1000 + run) as u64);
            let mut path = Path::new(random, Chance::Each(loss), mtu);
            let is_found = |path: &Path| path.discovery.current() + GRAIN > mtu;
            while !is_found(&path) && path.now < Instant::EPOCH + seconds(300) {
                path.run(millis(20));
            }
            assert!(is_found(&path), "{} of {mtu}", path.discovery.current());
            let took = path.now - Instant::EPOCH;
            low_after_20_s += usize::from(took > seconds(20));
            worst = worst.max(took);
            path.run(seconds(5));
            assert!(is_found(&path) && path.discovery.current() <= mtu);
        }
        println!("loss {loss}: slowest {worst:?}, {low_after_20_s} of {runs} low after 20 s");
        assert!(
            low_after_20_s * 10 <= runs,
            "at loss {loss}: {low_after_20_s}"
        );
    }
}

#[test]
fn chance_is_seldom_taken_for_a_black_hole_and_never_for_long() {
    let chances = [
        (Chance::Each(0.05), 0),
        (Chance::Each(0.2), 0),
        (Chance::Each(0.4), 0),
        (bursts(0.05, 8.0), 0),
        (bursts(0.05, 30.0), 2),
        (bursts(0.2, 8.0), 2),
    ];
    for (label, (chance, falls_max)) in chances.into_iter().enumerate() {
        let mut path = Path::new(random(label as u64), chance, 1472);
        let mut low = 0;
        for _ in 0..1000 {
            path.run(millis(500));
            low += u32::from(path.discovery.current() < 1472);
        }
        println!(
            "case {label}: {} falls, low {low} of 1000",
            path.fell_at.len()
        );
        assert!(
            path.fell_at.len() <= falls_max,
            "case {label}: {:?}",
            path.fell_at
        );
        assert!(low <= 60, "case {label}: low in {low} of 1000 half seconds");
    }
}

fn bursts(share: f64, length: f64) -> Chance {
    Chance::Bursts {
        share,
        length,
        is_bad: false,
    }
}

#[test]
fn a_black_hole_is_seen_at_any_loss() {
    for (label, loss) in [0.0, 0.05, 0.2, 0.4].into_iter().enumerate() {
        let mut worst = Duration::ZERO;
        for run in 0..20 {
            let random = random((label * 1000 + run) as u64);
            let mut path = Path::new(random, Chance::Each(loss), 1472);
            path.run(seconds(25));
            path.mtu = 1360;
            let shrunk = path.now;
            let falls_before = path.fell_at.len();
            path.run(seconds(3));
            let fell = path
                .fell_at
                .get(falls_before)
                .expect("it is seen within 3 s");
            worst = worst.max(*fell - shrunk);
            path.run(seconds(30));
            assert!(path.discovery.current() <= 1360);
            assert!(
                path.discovery.current() > 1340,
                "{}",
                path.discovery.current()
            );
        }
        println!("loss {loss}: a black hole is seen after at most {worst:?}");
    }
}

#[test]
fn a_black_hole_that_swallows_everything_is_seen_too() {
    let mut path = Path::new(random(0), Chance::Each(0.05), 1472);
    path.small_share = 0.0;
    path.run(seconds(10));
    path.mtu = 1360;
    path.run(seconds(6));
    assert_eq!(path.discovery.current(), BASE);
}

#[test]
fn three_seconds_of_outage_leave_the_size_alone() {
    let mut path = Path::new(random(0), Chance::Each(0.01), 1472);
    path.run(seconds(10));
    path.mtu = 0;
    path.run(seconds(3));
    path.mtu = 1472;
    path.run(seconds(3));
    assert_eq!(path.discovery.current(), 1472);
    assert!(path.fell_at.is_empty());
}

#[test]
fn any_order_of_events_is_harmless() {
    let mut random = random(0);
    let mut discovery = ethernet();
    let mut now = at(0);
    for _ in 0..200_000 {
        now += micros(random.below(20_000));
        let size = random.below(1600) as u16;
        let number = random.below(5_000);
        let packet = MtuPacket {
            sent_at: at(random.below(100_000)),
            ..packet(size, number)
        };
        match random.below(7) {
            0 => discovery.on_probe_acked(now, size),
            1 => discovery.on_probe_lost(now, size),
            2 => discovery.on_probe_sent(size),
            3 => discovery.on_acked(&packet),
            4 => drop(discovery.on_lost(now, &packet)),
            5 => {
                if let Some(size) = discovery.poll_probe(now) {
                    assert!(size > discovery.current() && size <= CEILING_IPV4);
                    discovery.on_probe_sent(size);
                }
            }
            _ => {
                if random.chance(0.001) {
                    discovery.reset();
                }
            }
        }
        assert!((BASE..=CEILING_IPV4).contains(&discovery.current()));
    }
}
