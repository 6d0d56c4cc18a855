use ctcp_rlnc::SLIDING_MAX;
use ctcp_units::{Duration, LossRate, Random, millis};

use super::recover::AGE_MAX;
use super::*;
use crate::Redundancy;
use crate::path::LossProcess;

const START: Instant = Instant::from_nanos(1 << 40);
const PACKET: usize = 1472;

fn lossy(share: f64) -> LossProcess {
    LossProcess {
        rate: LossRate::clamped(share),
        ..LossProcess::default()
    }
}

/// Sends a datagram of `len` bytes, numbered if that is worth it.
fn protect(protection: &mut Protection, now: Instant, loss: f64, len: usize) -> Option<u64> {
    let share = protection.share(now, Redundancy::Auto, lossy(loss));
    (share > 0.0).then(|| protection.push(now, share, &vec![0; len]))
}

/// The payload of the repair that goes now, with what it covers.
fn repair(protection: &mut Protection, now: Instant) -> Option<(u64, u8, u16, Vec<u8>)> {
    let plan = protection.next_repair(now, PACKET)?;
    let mut out = Vec::new();
    protection.write_repair(&plan, &mut out);
    match crate::wire::FrameIter::new(&out).next() {
        Some(Ok(Frame::DatagramRepair {
            first,
            count,
            repair,
            payload,
        })) => Some((first, count, repair, payload.to_vec())),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lone_datagram_is_repaired_at_once_and_by_no_more_than_its_bytes() {
    let mut protection = Protection::default();
    for number in 0..3 {
        let now = START + millis(300) * number as u32;
        assert_eq!(protect(&mut protection, now, 0.2, 50), Some(number));
        let (first, count, _, payload) = repair(&mut protection, now).expect("it is owed");
        assert_eq!((first, count, payload.len()), (number, 1, 52));
        // Three packets of which one arrives would be two repairs: past the cap.
        assert!(repair(&mut protection, now).is_none());
    }
}

#[test]
fn datagrams_in_a_row_share_repairs() {
    let mut protection = Protection::default();
    let (mut repairs, mut bytes) = (0, 0);
    for number in 0..200 {
        let now = START + millis(10) * number;
        protect(&mut protection, now, 0.05, 100);
        while let Some((_, count, _, payload)) = repair(&mut protection, now) {
            repairs += 1;
            bytes += payload.len();
            assert!(count <= 32);
        }
        assert!(bytes <= (number as usize + 1) * 102);
    }
    assert!((30..60).contains(&repairs), "{repairs}");
}

/// Of three queries at once the third is in no repair until they are seen to pause.
#[test]
fn a_pause_has_a_repair_of_its_own() {
    let mut protection = Protection::default();
    for number in 0..3 {
        assert_eq!(protect(&mut protection, START, 0.05, 60), Some(number));
        let covered = repair(&mut protection, START).map(|(first, count, ..)| (first, count));
        assert_eq!(covered, (number < 2).then_some((0, number as u8 + 1)));
    }
    let pause = protection.due().expect("one is in no repair");
    assert_eq!(pause, START + millis(25));
    assert!(repair(&mut protection, pause).is_none());
    protection.handle_timeout(pause);
    let (first, count, ..) = repair(&mut protection, pause).expect("a pause has begun");
    assert_eq!((first, count), (0, 3));
    let end = protection.due().expect("three are held");
    assert_eq!(end, START + millis(200));
    protection.handle_timeout(end);
    assert_eq!(protection.due(), None);
    assert!(repair(&mut protection, end).is_none());
}

/// A long datagram that waits in the window does not make repairs of short ones long.
#[test]
fn repairs_of_mixed_lengths_stay_within_the_bytes_of_what_was_sent() {
    let mut protection = Protection::default();
    let mut random = Random::from_seed(5);
    let (mut sent, mut repaired) = (0, 0);
    for number in 0..2000 {
        let now = START + millis(15) * number;
        let len = [30, 200, 1200][random.below(3) as usize];
        sent += len + 2;
        protect(&mut protection, now, 0.3, len);
        while let Some((.., payload)) = repair(&mut protection, now) {
            repaired += payload.len();
        }
        assert!(repaired <= sent);
        assert!(protection.held() <= 32);
    }
    assert!(repaired > sent / 4, "{repaired} of {sent}");
}

#[test]
fn nothing_is_numbered_on_a_clean_path_or_against_the_rule() {
    let mut protection = Protection::default();
    for number in 0..100 {
        let now = START + millis(number);
        assert_eq!(protect(&mut protection, now, 0.0, 100), None);
        for (rule, process) in [
            (Redundancy::None, lossy(0.1)),
            (
                Redundancy::Auto,
                LossProcess {
                    has_ceased: true,
                    ..lossy(0.1)
                },
            ),
        ] {
            assert!(protection.share(now, rule, process) <= 0.0);
        }
    }
    assert_eq!(protection.due(), None);
}

#[test]
fn a_peer_that_does_not_announce_the_window_gets_neither_numbers_nor_repairs() {
    use super::protect::is_numbered;
    for (share, window, expected) in [
        (0.5, 0, false),
        (0.5, 63, false),
        (0.5, 64, true),
        (0.0, 64, false),
    ] {
        assert_eq!(is_numbered(share, window), expected, "{share}, {window}");
    }
}

/// Both sides of the age limit.
#[test]
fn a_repair_that_comes_too_late_brings_nothing() {
    for (late, is_recovered) in [(millis(499), true), (AGE_MAX, false)] {
        let mut protection = Protection::default();
        protect(&mut protection, START, 0.1, 40);
        let mut recovery = Recovery::new(PACKET);
        let number = protect(&mut protection, START, 0.1, 40).expect("numbered");
        let (first, count, index, payload) = repair(&mut protection, START).expect("owed");
        assert_eq!((first, count), (0, 2));
        let new = recovery.on_numbered(START, number, &[0; 40]).unwrap();
        assert_eq!(new, Ok(()));
        let now = START + late;
        recovery
            .on_repair(now, (first, count), index, &payload)
            .unwrap();
        assert_eq!(recovery.next_recovered().is_some(), is_recovered);
        // What was recovered is not delivered when it arrives after all.
        let original = recovery.on_numbered(now, 0, &[0; 40]).unwrap();
        assert_eq!(original.is_ok(), !is_recovered);
        assert_eq!(recovery.next_recovered(), None);
        let again = recovery.on_numbered(now, 0, &[0; 40]).unwrap();
        assert_eq!(again, Err(ReplayError::Duplicate));
    }
}

/// Numbers, spans and bytes as they come, times that go on: memory stays within the
/// window and is given back.
#[test]
fn hostile_numbers_and_repairs_take_no_more_memory_than_the_window() {
    let mut random = Random::from_seed(3);
    let mut datagrams = Datagrams::default();
    let mut now = START;
    let mut highest = 0;
    for _ in 0..20_000 {
        now += Duration::from_micros(random.below(20_000));
        let near = highest + random.below(70);
        let number = match random.below(20) {
            0 => random.below(1 << 61),
            1..4 => near.saturating_sub(random.below(200)),
            _ => near,
        };
        if number < 1 << 60 {
            highest = highest.max(number);
        }
        let mut bytes = vec![0; random.below(PACKET as u64 + 40) as usize];
        random.fill(&mut bytes);
        let count = random.below(255) as u8 + 1;
        let index = random.below(9) as u16;
        // Refused or taken; what matters is what is kept.
        let _ = match random.chance(0.5) {
            true => datagrams.on_numbered(now, number, &bytes, PACKET),
            false => datagrams.on_repair(now, (number, count % 40 + 1), index, &bytes, PACKET),
        };
        let recovery = datagrams.recovery.as_ref().expect("it is there");
        assert!(recovery.buffers() <= SLIDING_MAX);
        assert!(recovery.noticed() <= SLIDING_MAX);
        assert!(datagrams.incoming.len() <= INCOMING_MAX);
    }
    let due = datagrams.due().expect("something is held");
    datagrams.handle_timeout(due);
    assert_eq!(datagrams.due(), None);
    assert_eq!(datagrams.recovery.as_ref().unwrap().buffers(), 0);
}

#[test]
fn queues_are_bounded() {
    let mut datagrams = Datagrams::default();
    for number in 0..1000_u64 {
        datagrams.push(StreamId(0), &number.to_be_bytes());
        datagrams.on_received(StreamId(0), &number.to_be_bytes());
    }
    let number = |taken: Option<(StreamId, Vec<u8>)>| {
        let (_, data) = taken.expect("it is full");
        u64::from_be_bytes(data.try_into().expect("eight bytes"))
    };
    assert_eq!(number(datagrams.pop()), 1000 - OUTGOING_MAX as u64);
    assert_eq!(number(datagrams.read()), 0);
    assert_eq!(datagrams.incoming.len(), INCOMING_MAX - 1);
    let dropped = 2000 - (OUTGOING_MAX + INCOMING_MAX) as u64;
    assert_eq!(datagrams.dropped(), dropped);
    datagrams.drop_until(|_, len| len < 8);
    assert!(datagrams.outgoing.is_empty());
    assert_eq!(datagrams.dropped(), dropped + OUTGOING_MAX as u64 - 1);
}
