//! Sender and receiver of blocks, each by itself and against one another.

use ctcp_rlnc::Repair;
use ctcp_units::{Instant, Random, SymbolId, millis};

use super::receive::{BlockReceiver, BlockViolation, Insertion};
use super::redundancy::Redundancy;
use super::send::{BlockSender, SendConfig, SymbolSource};
use crate::path::LossProcess;
use crate::wire::{Flags, Frame, FrameIter, GenerationReport, Header, Reader, SymbolTruncation};

const ROOM: usize = 40;

/// Numbered symbols, as many as `left`.
struct Numbers {
    next: u32,
    left: u32,
}

impl SymbolSource for Numbers {
    fn fill(&mut self, _symbol: SymbolId, _room: usize, out: &mut Vec<u8>) {
        if self.has_more() {
            out.extend_from_slice(&self.next.to_be_bytes());
            self.next += 1;
            self.left -= 1;
        }
    }

    fn has_more(&self) -> bool {
        self.left > 0
    }

    fn bytes_left(&self) -> u64 {
        4 * u64::from(self.left)
    }
}

fn sender(redundancy: Redundancy, block_symbols: u8) -> BlockSender {
    let mut sender = BlockSender::new(SendConfig {
        redundancy,
        block_symbols,
        blocks_max: 8,
        symbols_max: 64,
        seed: 1,
    });
    sender.open_window(SymbolId(1000));
    sender
}

/// Sends the next `count` symbols of `source`.
fn send(sender: &mut BlockSender, source: &mut Numbers, count: usize) -> Vec<u64> {
    let mut out = Vec::new();
    (0..count)
        .map_while(|_| sender.write_systematic(0, ROOM, &mut out, source))
        .map(|(serial, _)| serial)
        .collect()
}

fn report(sender: &mut BlockSender, base: u64, reports: &[(u64, u8)]) {
    let reports = reports.iter().map(|(first, rank)| GenerationReport {
        first: SymbolId(*first),
        rank: *rank,
    });
    let mut bytes = Vec::new();
    Frame::write_generations(&mut bytes, SymbolId(base), SymbolId(1000), reports, 500);
    let Some(Ok(Frame::Generations { base, reports, .. })) = FrameIter::new(&bytes).next() else {
        panic!("a report");
    };
    sender.on_report(base, reports);
}

/// Coded packets that the sender wants to send now.
fn repairs(sender: &mut BlockSender) -> usize {
    let mut count = 0;
    while let Some(serial) = sender.oldest_ready() {
        assert!(sender.write_coded(serial, 0, &mut Vec::new()).is_some());
        count += 1;
        assert!(count < 1000);
    }
    count
}

#[test]
fn repairs_wait_until_the_first_pass_is_accounted_for() {
    let mut sender = sender(Redundancy::None, 4);
    let serials = send(&mut sender, &mut Numbers { next: 0, left: 9 }, 4);
    assert_eq!(serials, [0; 4]);
    assert_eq!(repairs(&mut sender), 0);
    sender.on_acked(0, 0, false);
    sender.on_gone(0, 0, false);
    sender.on_gone(0, 0, false);
    report(&mut sender, 1, &[(0, 1)]);
    assert_eq!(repairs(&mut sender), 0);
    sender.on_acked(0, 0, false);
    report(&mut sender, 1, &[(0, 2)]);
    assert_eq!(repairs(&mut sender), 2);
    report(&mut sender, 1, &[(0, 4)]);
    assert_eq!(sender.bytes_held(), 0);
}

/// The receiver does not report a generation of which it knows nothing beyond
/// `base`. Such a block was once taken for lost as a whole.
#[test]
fn a_block_whose_last_symbol_was_lost_wants_one_repair() {
    let mut sender = sender(Redundancy::None, 4);
    send(&mut sender, &mut Numbers { next: 0, left: 9 }, 4);
    for _ in 0..3 {
        sender.on_acked(0, 0, false);
    }
    report(&mut sender, 3, &[]);
    sender.on_gone(0, 0, false);
    assert_eq!(repairs(&mut sender), 1);
}

/// A block that `base` itself shows to be complete leaves at once: with room
/// for one block only, nothing else would bring another report.
#[test]
fn a_block_known_complete_by_base_makes_room() {
    let mut sender = sender(Redundancy::None, 4);
    let mut source = Numbers { next: 0, left: 9 };
    send(&mut sender, &mut source, 3);
    report(&mut sender, 3, &[]);
    assert_eq!(sender.len(), 1);
    sender.close_open_block();
    assert_eq!(sender.len(), 0);
}

#[test]
fn a_block_ends_where_the_source_pauses_or_the_room_ends() {
    let mut sender = sender(Redundancy::None, 16);
    let mut source = Numbers { next: 0, left: 3 };
    assert_eq!(send(&mut sender, &mut source, 9), [0, 0, 0]);
    source.left = 1000;
    let mut sent = 3;
    while sender.has_room_for_symbol(ROOM) {
        send(&mut sender, &mut source, 1);
        sent += 1;
    }
    // Our own memory, not the peer's window of 1000, is the limit.
    assert_eq!(sent, 64);
    report(&mut sender, 3, &[]);
    assert!(sender.has_room_for_symbol(ROOM));
    send(&mut sender, &mut source, 1);
    assert_eq!(sender.len(), 5);
}

#[test]
fn a_report_of_more_than_was_sent_changes_nothing() {
    let mut sender = sender(Redundancy::None, 4);
    send(&mut sender, &mut Numbers { next: 0, left: 9 }, 4);
    report(&mut sender, 5, &[(5, 9)]);
    assert_eq!((sender.base(), sender.len()), (SymbolId(0), 1));
    report(&mut sender, 0, &[(0, 255), (1, 7), (900, 200)]);
    assert_eq!(sender.bytes_held(), 0);
    report(&mut sender, 4, &[]);
    assert_eq!((sender.base(), sender.len()), (SymbolId(4), 0));
    sender.on_acked(0, 0, false);
    sender.on_gone(99, 0, true);
}

#[test]
fn abandoned_blocks_give_each_symbol_back_once() {
    let mut sender = sender(Redundancy::Cc14, 4);
    send(&mut sender, &mut Numbers { next: 0, left: 9 }, 6);
    let (mut back, mut blocks) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        sender.abandon_longer_than(
            ROOM,
            |content| back.push(content[3]),
            |first, count| blocks.push((first.0, count)),
        );
    }
    assert_eq!(back, [0, 1, 2, 3, 4, 5]);
    assert_eq!(blocks, [(0, 4), (4, 2)]);
    assert_eq!(repairs(&mut sender), 0);
    // What comes next goes into a block of its own.
    let serials = send(&mut sender, &mut Numbers { next: 6, left: 1 }, 1);
    assert_eq!(serials, [2]);
}

#[test]
fn coded_packets_ahead_follow_the_last_symbol_of_a_block() {
    let mut sender = sender(Redundancy::Cc14, 32);
    sender.set_loss(0, LossProcess::independent(0.2));
    send(&mut sender, &mut Numbers { next: 0, left: 99 }, 31);
    assert_eq!(repairs(&mut sender), 0);
    send(&mut sender, &mut Numbers { next: 31, left: 99 }, 1);
    assert_eq!(repairs(&mut sender), 8);
}

const NOW: Instant = Instant::EPOCH;

fn systematic(
    receiver: &mut BlockReceiver,
    symbol: u64,
    index: u8,
    is_last: bool,
) -> Result<Insertion, BlockViolation> {
    receiver.on_systematic(NOW, SymbolId(symbol), index, is_last, &[7], |_| {})
}

#[test]
fn symbols_are_taken_within_the_window_only() {
    let mut receiver = BlockReceiver::new(64, 100);
    assert_eq!(
        systematic(&mut receiver, 63, 3, false),
        Ok(Insertion::Innovative)
    );
    assert_eq!(
        systematic(&mut receiver, 63, 3, false),
        Ok(Insertion::Useless)
    );
    assert_eq!(
        systematic(&mut receiver, 64, 4, false),
        Ok(Insertion::OutsideWindow)
    );
    let coded = receiver.on_coded(
        NOW,
        SymbolId(60),
        5,
        true,
        Repair::uniform(0),
        &[0; 9],
        |_| {},
    );
    assert_eq!(coded, Ok(Insertion::OutsideWindow));
    assert!(receiver.on_abandon(SymbolId(60), 5).is_err());
    assert!(receiver.on_abandon(SymbolId(60), 0).is_err());
    assert_eq!(receiver.base(), SymbolId(0));
}

#[test]
fn generations_that_overlap_are_a_violation() {
    let overlap = |result: Result<Insertion, BlockViolation>| {
        matches!(result, Err(BlockViolation::Overlap(_)))
    };
    let mut receiver = BlockReceiver::new(64, 100);
    assert!(systematic(&mut receiver, 12, 2, false).is_ok());
    assert!(overlap(systematic(&mut receiver, 12, 1, false)));
    assert!(overlap(systematic(&mut receiver, 10, 8, false)));
    assert!(systematic(&mut receiver, 13, 3, true).is_ok());
    assert!(overlap(systematic(&mut receiver, 14, 4, false)));
    assert!(overlap(systematic(&mut receiver, 11, 1, true)));
}

#[test]
fn what_was_abandoned_is_passed_over() {
    let mut receiver = BlockReceiver::new(64, 100);
    assert!(systematic(&mut receiver, 1, 1, false).is_ok());
    assert!(systematic(&mut receiver, 5, 1, true).is_ok());
    assert_eq!(receiver.on_abandon(SymbolId(0), 4), Ok(()));
    assert_eq!(receiver.base(), SymbolId(4));
    assert_eq!(receiver.on_abandon(SymbolId(0), 4), Ok(()));
    assert!(systematic(&mut receiver, 4, 0, false).is_ok());
    assert_eq!((receiver.base(), receiver.len()), (SymbolId(6), 0));
}

/// A lossy, reordering channel with immediate feedback that is often lost.
#[test]
fn every_symbol_is_delivered_once_whatever_is_lost() {
    for seed in 0..300 {
        let mut random = Random::from_seed(seed);
        let block_symbols = 1 + random.below(40) as u8;
        let redundancy = Redundancy::ALL[random.below(5) as usize];
        let mut sender = sender(redundancy, block_symbols);
        let share = random.unit() * 0.6;
        sender.set_loss(0, LossProcess::independent(share));
        let mut receiver = BlockReceiver::new(64, ROOM + 2);
        let total = 200;
        let mut source = Numbers {
            next: 0,
            left: total,
        };
        let mut delivered = vec![0; total as usize];
        let mut flying: Vec<(u64, Header, Vec<u8>)> = Vec::new();
        let mut steps = 0;
        while delivered.contains(&0) {
            steps += 1;
            assert!(steps < 20_000, "seed {seed}: {:?} stuck", receiver.base());
            let mut out = Vec::new();
            sender.open_window(receiver.window_end());
            let ready = sender.oldest_ready();
            let sent = if let Some(serial) = ready {
                let header = sender.write_coded(serial, 0, &mut out);
                header.map(|header| (serial, header))
            } else if source.has_more() && sender.has_room_for_symbol(ROOM) {
                sender.write_systematic(0, ROOM, &mut out, &mut source)
            } else {
                sender.close_open_block();
                None
            };
            flying.extend(sent.map(|(serial, header)| (serial, header, out)));
            if flying.is_empty() || random.chance(0.4) && flying.len() < 20 {
                continue;
            }
            let (serial, header, bytes) = flying.remove(random.below(flying.len() as u64) as usize);
            if random.chance(share) {
                sender.on_gone(serial, 0, false);
                continue;
            }
            deliver(&mut receiver, &header, &bytes, &mut delivered);
            sender.on_acked(serial, 0, false);
            if random.chance(0.5) || flying.is_empty() {
                let mut bytes = Vec::new();
                let (base, end) = (receiver.base(), receiver.window_end());
                Frame::write_generations(&mut bytes, base, end, receiver.reports(), 340);
                if let Some(Ok(Frame::Generations { base, reports, .. })) =
                    FrameIter::new(&bytes).next()
                {
                    sender.on_report(base, reports);
                }
            }
        }
        assert!(delivered.iter().all(|count| *count == 1), "seed {seed}");
        assert!(receiver.len() <= 64);
    }
}

fn deliver(receiver: &mut BlockReceiver, header: &Header, bytes: &[u8], delivered: &mut [u32]) {
    let truncation = SymbolTruncation {
        reference: receiver.base(),
    };
    let mut reader = Reader::new(bytes);
    let flags: Flags = header.flags();
    assert_eq!(
        Header::parse(flags, &mut reader, truncation).as_ref(),
        Ok(header)
    );
    let note = |content: &[u8]| {
        let number = u32::from_be_bytes(content.try_into().unwrap());
        delivered[number as usize] += 1;
    };
    let result = match *header {
        Header::Systematic {
            symbol,
            index,
            is_last,
        } => receiver.on_systematic(NOW, symbol, index, is_last, reader.rest(), note),
        Header::Coded {
            first,
            count,
            is_final,
            repair,
        } => receiver.on_coded(NOW, first, count, is_final, repair, reader.rest(), note),
        Header::Control => unreachable!("the sender of blocks makes symbols"),
    };
    assert!(result.is_ok(), "{result:?}");
}

#[test]
fn waits_are_counted_from_the_arrival_that_shows_the_loss() {
    let mut encoder = ctcp_rlnc::Encoder::new(SymbolId(0), ROOM + 2);
    for content in [[1u8; 4], [2; 4], [3; 4]] {
        encoder.push(&content).unwrap();
    }
    let repair = Repair::uniform(0);
    let mut coded = vec![0; encoder.payload_len(3)];
    encoder.encode(repair, 3, &mut coded).unwrap();
    let mut receiver = BlockReceiver::new(64, ROOM + 2);
    let arrive = |receiver: &mut BlockReceiver, at, index: u8, content: &[u8]| {
        let symbol = SymbolId(index.into());
        let is_last = index == 2;
        receiver
            .on_systematic(NOW + millis(at), symbol, index, is_last, content, |_| {})
            .unwrap();
    };
    arrive(&mut receiver, 0, 0, &[1; 4]);
    arrive(&mut receiver, 10, 2, &[3; 4]);
    assert_eq!(receiver.waits().in_order().count(), 0);
    let at = NOW + millis(40);
    let inserted = receiver.on_coded(at, SymbolId(0), 3, true, repair, &coded, |_| {});
    assert_eq!(inserted, Ok(Insertion::Innovative));
    let waits = receiver.waits();
    for histogram in [waits.in_order(), waits.decode()] {
        assert_eq!((histogram.count(), histogram.sum()), (1, millis(30)));
    }
    arrive(&mut receiver, 50, 3, &[4; 4]);
    assert_eq!(receiver.waits().in_order().count(), 1, "nobody waited");
}
