//! A peer that holds the keys and lies: whatever it says, nothing panics, spins
//! or grows without bound.

use std::sync::Arc;

use ctcp_units::{Duration, Instant, PacketNumber, PathId, Random, StreamId, SymbolId, millis};

use super::{Connection, Event, LocalIds, Start};
use crate::block::PATHS_MAX;
use crate::config::TransportConfig;
use crate::crypto::MIN_PACKET_LEN;
use crate::crypto::{IdCipher, Keys, PublicKey, SecretRandom, Suite};
use crate::stream::Side;
use crate::wire::{ConnectionId, EcnCounts, Flags, Frame, GenerationReport, Header};

struct Liar {
    keys: Keys,
    next: u64,
    honest: Connection,
    now: Instant,
    out: Vec<u8>,
}

impl Liar {
    fn new(seed: u64) -> Self {
        let (keys, theirs) = Keys::pair(Suite::ChaCha20Poly1305, [seed as u8; 32]);
        let config = Arc::new(TransportConfig {
            window_symbols: 256,
            ..TransportConfig::default()
        });
        let start = Start {
            side: Side::Server,
            remote: "10.0.0.1:1".parse().unwrap(),
            remote_id: Some(ConnectionId([1; 8])),
            peer_key: PublicKey::from_bytes([2; 32]),
            local: LocalIds {
                cipher: Arc::new(IdCipher::generate(&mut SecretRandom::from_seed([1; 32]))),
                connection: 0,
            },
        };
        let mut params = config.params();
        params.window_symbols = 1 << 22;
        let now = Instant::from_nanos(1 << 40);
        let random = SecretRandom::from_seed([seed as u8; 32]);
        let honest = Connection::server(now, config, &start, theirs, params, random);
        Self {
            keys,
            next: 0,
            honest,
            now,
            out: Vec::new(),
        }
    }

    fn say(&mut self, flags: Flags, payload: &[u8]) {
        self.say_on(PathId(0), flags, payload);
    }

    fn say_on(&mut self, path: PathId, flags: Flags, payload: &[u8]) {
        let mut packet = vec![flags.0];
        packet.extend_from_slice(&[1; 8]);
        packet.extend_from_slice(&[0; 3]);
        packet.extend_from_slice(payload);
        packet.resize(payload.len() + MIN_PACKET_LEN, 0);
        let number = PacketNumber(self.next);
        self.next += 1;
        self.keys.seal_in_place(path, number, &mut packet).unwrap();
        let remote = self.honest.paths[0].remote;
        self.honest
            .handle_datagram(self.now, path, remote, None, &mut packet);
    }

    fn say_frames(&mut self, frames: &[Frame<'_>]) {
        let mut payload = Vec::new();
        frames.iter().for_each(|frame| frame.write(&mut payload));
        self.say(Header::Control.flags(), &payload);
    }

    /// Acknowledges whatever was sent, and says that nothing of it was of use.
    fn acknowledge(&mut self, base: u64, window: u64, reports: &[GenerationReport]) {
        let Some(largest) = self.honest.paths[0].next_number().0.checked_sub(1) else {
            return;
        };
        let mut payload = Vec::new();
        let (path, ecn) = (PathId(0), EcnCounts { ect0: 0, ce: 0 });
        let delay = Duration::ZERO;
        Frame::write_ack(&mut payload, path, delay, largest, ecn, &[0..=largest], 500);
        let (base, end) = (SymbolId(base), SymbolId(base + window));
        Frame::write_generations(&mut payload, base, end, reports.iter().copied(), 500);
        self.say(Header::Control.flags(), &payload);
    }

    /// Polls until nothing is left; it must come to that.
    fn drain(&mut self) {
        for _ in 0..5000 {
            let sent = self.honest.poll_transmit(self.now, &mut self.out, 10);
            while self.honest.poll_event().is_some() {}
            if sent.is_none() {
                return;
            }
        }
        panic!("there is always something more to send");
    }

    fn wait(&mut self) {
        let Some(at) = self.honest.poll_timeout() else {
            return;
        };
        self.now = self.now.max(at);
        self.honest.handle_timeout(self.now);
        self.drain();
    }

    fn check(&self) {
        let stats = self.honest.stats();
        assert!(stats.symbol_bytes_held <= 256 * 1474, "{stats:#?}");
        assert!(stats.generations_receiving <= 256);
        assert!(self.honest.controls.len() <= 5000);
        assert!(self.honest.responses.len() <= 8);
        assert!(stats.paths.len() <= PATHS_MAX);
        assert!(self.honest.path_controls <= 128);
        assert!(self.honest.fates.is_empty());
        assert!(self.honest.events.is_empty());
    }
}

fn random_frame(random: &mut Random, next: u64) -> Frame<'static> {
    let wild = [3, 300, 1 << 20, 1 << 61][random.below(4) as usize];
    let number = random.below(wild);
    let stream = StreamId(2 * random.below(6));
    let code = number as u32;
    match random.below(16) {
        0 => Frame::MaxData(number),
        1 => Frame::MaxStreams(number),
        2 => Frame::MaxStreamData {
            stream,
            max: number,
        },
        3 => Frame::ResetStream {
            stream,
            code,
            final_offset: random.below(3),
        },
        4 => Frame::StopSending { stream, code },
        5 => Frame::Abandon {
            first: SymbolId(32 * random.below(12)),
            count: if random.chance(0.9) { 32 } else { number as u8 },
        },
        6 => Frame::AckFloor {
            path: PathId(random.below(2) as u32),
            floor: number,
        },
        7 | 8 => Frame::PathChallenge(number.to_be_bytes()),
        9 => Frame::PathResponse(next.to_be_bytes()),
        10 => Frame::PathId {
            path: PathId(random.below(12) as u32),
            id: ConnectionId([number as u8; 8]),
        },
        11 => Frame::PathUse {
            path: PathId(random.below(12) as u32),
            sequence: number,
            is_backup: random.chance(0.5),
            cost: number as u8,
        },
        12 => Frame::PathClose(PathId(random.below(12) as u32)),
        _ => Frame::Ping,
    }
}

#[test]
fn random_lies_neither_panic_nor_pile_up() {
    let mut steps = 0;
    for seed in 0..200 {
        let mut random = Random::from_seed(seed);
        let mut liar = Liar::new(seed);
        liar.say_frames(&[Frame::Ping]);
        let id = liar.honest.open_stream().unwrap();
        for _ in 0..300 {
            let _ = liar.honest.write(id, &[7; 3000]);
            while let Some(id) = liar.honest.accept_stream() {
                let _ = liar.honest.write(id, &[1; 100]);
            }
            match random.below(8) {
                0 => {
                    let (first, index) = (32 * random.below(10), random.below(32));
                    let header = Header::Systematic {
                        symbol: SymbolId(first + index),
                        index: index as u8,
                        is_last: index == 31 || random.chance(0.01),
                    };
                    let mut payload = Vec::new();
                    header.write(&mut payload);
                    payload.resize(payload.len() + random.below(1400) as usize, 0);
                    liar.say(header.flags(), &payload);
                }
                1 if random.chance(0.05) => {
                    let mut payload = vec![0; random.below(1400) as usize];
                    random.fill(&mut payload);
                    // Kinds and generators at random, sense by accident.
                    liar.say(Flags(random.next_u64() as u8 & 0x3F), &payload);
                }
                2 | 3 => {
                    let first = random.below(300);
                    let reports = [0, 1, 5].map(|distance| GenerationReport {
                        first: SymbolId(first + 40 * distance),
                        rank: random.next_u64() as u8,
                    });
                    let count = random.below(4) as usize;
                    liar.acknowledge(first, random.below(1 << 30), &reports[..count]);
                }
                4 => {
                    liar.now += millis(random.below(50));
                    // Paths begun, used and left, some of them never issued.
                    let path = PathId(random.below(40) as u32);
                    let mut payload = Vec::new();
                    random_frame(&mut random, seed).write(&mut payload);
                    liar.say_on(path, Header::Control.flags(), &payload);
                }
                5 => liar.wait(),
                _ => {
                    let frame = random_frame(&mut random, seed);
                    liar.say_frames(&[frame, Frame::Ping]);
                }
            }
            liar.drain();
            liar.check();
            if !liar.honest.is_open() {
                break;
            }
            steps += 1;
        }
    }
    println!("{steps} lies before connections were closed");
    assert!(steps > 5000, "{steps}");
}

/// Everything is acknowledged and nothing is said to be of use: repairs go on
/// until their indices are used up, and then there is silence, not a spin.
#[test]
fn a_peer_that_wants_repairs_for_ever_gets_65_536_of_a_block() {
    let mut liar = Liar::new(1);
    liar.say_frames(&[Frame::Ping]);
    let id = liar.honest.open_stream().unwrap();
    liar.honest.write(id, b"hello").unwrap();
    liar.honest.finish(id).unwrap();
    liar.drain();
    for _ in 0..200_000 {
        liar.now += millis(1);
        liar.acknowledge(0, 1000, &[]);
        liar.drain();
        if liar.honest.stats().sent.coded >= 65_000 {
            break;
        }
    }
    for _ in 0..2000 {
        liar.wait();
        liar.acknowledge(0, 1000, &[]);
        liar.drain();
    }
    liar.check();
    assert!(liar.honest.stats().sent.coded <= 65_536);
}

/// Packets that nobody acknowledges do not pile up in the ledger for ever.
#[test]
fn a_peer_that_never_acknowledges_costs_bounded_memory() {
    let mut liar = Liar::new(2);
    liar.say_frames(&[Frame::Ping]);
    let id = liar.honest.open_stream().unwrap();
    for _ in 0..300_000 {
        let _ = liar.honest.write(id, &[7; 3000]);
        liar.now += Duration::from_micros(200);
        liar.say_frames(&[Frame::Ping, Frame::Ping]);
        liar.drain();
        if liar.honest.poll_timeout().is_some_and(|at| at <= liar.now) {
            liar.honest.handle_timeout(liar.now);
            liar.drain();
        }
    }
    assert!(liar.honest.is_open());
    let slots = liar.honest.paths[0].slots_held();
    assert!(slots < 80_000, "{slots} slots");
}

/// Whoever only opens paths gets eight, and no memory beyond them.
#[test]
fn a_peer_that_opens_paths_for_ever_gets_eight() {
    let mut liar = Liar::new(4);
    liar.say_frames(&[Frame::Ping]);
    liar.drain();
    let mut most = 0;
    for path in 1..5000 {
        liar.now += millis(1);
        let mut payload = Vec::new();
        Frame::PathId {
            path: PathId(path),
            id: ConnectionId([7; 8]),
        }
        .write(&mut payload);
        Frame::PathChallenge([1; 8]).write(&mut payload);
        liar.say_on(PathId(path), Header::Control.flags(), &payload);
        liar.drain();
        liar.check();
        most = most.max(liar.honest.paths.len());
    }
    assert_eq!(most, PATHS_MAX);
    assert!(liar.honest.controls.len() < 200);
    assert!(liar.honest.is_open());
}

#[test]
fn nothing_follows_a_close() {
    let mut liar = Liar::new(3);
    let close = Frame::Close {
        code: 1,
        reason: "bye",
    };
    liar.say_frames(&[Frame::Ping, close, close, Frame::MaxData(9)]);
    let events: Vec<_> = core::iter::from_fn(|| liar.honest.poll_event()).collect();
    let closed = events.iter().filter(|e| matches!(e, Event::Closed(_)));
    assert_eq!(closed.count(), 1);
}
