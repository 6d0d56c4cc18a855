//! The sender by itself, fed with acknowledgements.

use ctcp_units::{Duration, Instant, Rate, millis};

use super::server::controller;
use super::{Ack, Coding, ConstantRate, Recovery, Segment, TcpConfig, TcpSender};

const RTT: Duration = millis(100);

fn sender(config: &TcpConfig, bytes: u64) -> TcpSender {
    let mut sender = TcpSender::new(Instant::EPOCH, config, controller(config).unwrap(), 0);
    sender.on_handshake_sample(Instant::EPOCH, RTT);
    sender.set_available(bytes);
    sender
}

fn config() -> TcpConfig {
    TcpConfig::default()
}

fn at(ms: u64) -> Instant {
    Instant::EPOCH + millis(ms)
}

fn drain(sender: &mut TcpSender, now: Instant) -> Vec<u64> {
    std::iter::from_fn(|| sender.poll_segment(now))
        .map(|segment: Segment| segment.sequence)
        .collect()
}

fn ack(cumulative: u64, blocks: &[(u64, u64)]) -> Ack {
    let mut ack = Ack {
        cumulative,
        block_count: blocks.len() as u8,
        ..Ack::default()
    };
    ack.blocks[..blocks.len()].copy_from_slice(blocks);
    ack
}

#[test]
fn ten_segments_leave_first_and_each_ack_lets_two_go_in_slow_start() {
    let mut sender = sender(&config(), u64::MAX);
    assert_eq!(drain(&mut sender, at(0)), (0..10).collect::<Vec<_>>());
    sender.handle_ack(at(100), &ack(1, &[]));
    assert_eq!(drain(&mut sender, at(100)), [10, 11]);
}

#[test]
fn the_last_segment_is_as_short_as_what_is_left() {
    let mut sender = sender(&config(), 1500);
    let lens: Vec<_> = std::iter::from_fn(|| sender.poll_segment(at(0)))
        .map(|segment| segment.len)
        .collect();
    assert_eq!(lens, [1448, 52]);
}

#[test]
fn the_first_two_duplicates_send_new_segments_and_the_third_repairs() {
    let mut sender = sender(&config(), u64::MAX);
    drain(&mut sender, at(0));
    sender.handle_ack(at(100), &ack(0, &[(1, 2)]));
    assert_eq!(drain(&mut sender, at(100)), [10]);
    sender.handle_ack(at(100), &ack(0, &[(1, 3)]));
    assert_eq!(drain(&mut sender, at(100)), [11]);
    sender.handle_ack(at(100), &ack(0, &[(1, 4)]));
    // 12 out, three SACKed, one lost and sent again: nine in the pipe of five.
    assert_eq!(drain(&mut sender, at(100)), [0]);
    assert_eq!(sender.stats(at(100)).backoffs, 1);
    assert_eq!(sender.stats(at(100)).window, 5.0);
}

#[test]
fn without_limited_transmit_duplicates_send_nothing() {
    let config = TcpConfig {
        has_limited_transmit: false,
        ..config()
    };
    let mut sender = sender(&config, u64::MAX);
    drain(&mut sender, at(0));
    sender.handle_ack(at(100), &ack(0, &[(1, 2)]));
    assert!(drain(&mut sender, at(100)).is_empty());
}

#[test]
fn many_losses_of_one_window_reduce_it_once() {
    let mut sender = sender(&config(), u64::MAX);
    drain(&mut sender, at(0));
    // 0, 2 and 4 are lost.
    for (one, next) in [(1, 2), (3, 4), (5, 6), (6, 7), (7, 8), (8, 9), (9, 10)] {
        sender.handle_ack(at(100), &ack(0, &[(one, next)]));
    }
    let mut sent = drain(&mut sender, at(100));
    sender.handle_ack(at(200), &ack(2, &[(3, 4), (5, 10)]));
    sent.extend(drain(&mut sender, at(200)));
    sender.handle_ack(at(200), &ack(4, &[(5, 10)]));
    sent.extend(drain(&mut sender, at(200)));
    assert!([0, 2, 4].iter().all(|lost| sent.contains(lost)), "{sent:?}");
    sender.handle_ack(at(300), &ack(10, &[]));
    assert_eq!(sender.stats(at(300)).backoffs, 1);
    assert_eq!(sender.stats(at(300)).retransmissions, 3);
}

#[test]
fn a_timeout_sends_one_segment_again_and_doubles() {
    let mut sender = sender(&config(), u64::MAX);
    drain(&mut sender, at(0));
    // SRTT 100 ms, RTTVAR 50 ms.
    assert_eq!(sender.deadline(), Some(at(300)));
    sender.handle_timeout(at(300));
    assert_eq!(drain(&mut sender, at(300)), [0]);
    assert_eq!(sender.deadline(), Some(at(900)));
    sender.handle_timeout(at(900));
    assert_eq!(drain(&mut sender, at(900)), [0]);
    assert_eq!(sender.deadline(), Some(at(2100)));
    let stats = sender.stats(at(900));
    assert_eq!((stats.timeouts, stats.time_in_timeout), (2, millis(900)));
    assert_eq!(stats.window, 1.0);
}

#[test]
fn after_a_timeout_everything_missing_is_sent_again_in_slow_start() {
    let mut sender = sender(&config(), u64::MAX);
    drain(&mut sender, at(0));
    sender.handle_timeout(at(300));
    drain(&mut sender, at(300));
    sender.handle_ack(at(400), &ack(1, &[]));
    assert_eq!(drain(&mut sender, at(400)), [1, 2]);
    sender.handle_ack(at(500), &ack(2, &[]));
    sender.handle_ack(at(500), &ack(3, &[]));
    assert_eq!(drain(&mut sender, at(500)), [3, 4, 5, 6]);
}

#[test]
fn newreno_repairs_one_hole_a_round_trip() {
    let config = TcpConfig {
        recovery: Recovery::NewReno,
        ..config()
    };
    let mut sender = sender(&config, u64::MAX);
    drain(&mut sender, at(0));
    let mut sent = Vec::new();
    // 0 and 4 are lost: eight duplicates.
    for _ in 0..8 {
        sender.handle_ack(at(100), &ack(0, &[]));
        sent.extend(drain(&mut sender, at(100)));
    }
    assert_eq!(sent.iter().filter(|&&one| one < 10).count(), 1, "{sent:?}");
    sender.handle_ack(at(200), &ack(4, &[]));
    assert_eq!(drain(&mut sender, at(200)).first(), Some(&4));
    sender.handle_ack(at(300), &ack(12, &[]));
    assert_eq!(sender.stats(at(300)).backoffs, 1);
}

#[test]
fn the_receive_window_bounds_the_flight() {
    let config = TcpConfig {
        receive_window: Some(4),
        ..config()
    };
    let mut sender = sender(&config, u64::MAX);
    assert_eq!(drain(&mut sender, at(0)).len(), 4);
    for cumulative in 1..100 {
        sender.handle_ack(at(100), &ack(cumulative, &[]));
        assert_eq!(drain(&mut sender, at(100)).len(), 1);
    }
}

#[test]
fn congestion_echoes_reduce_the_window_once_a_round_trip_and_are_answered() {
    let config = TcpConfig {
        is_ecn_enabled: true,
        ..config()
    };
    let mut sender = sender(&config, u64::MAX);
    drain(&mut sender, at(0));
    let echo = |cumulative| Ack {
        is_congested: true,
        ..ack(cumulative, &[])
    };
    sender.handle_ack(at(100), &echo(1));
    let after_one = sender.stats(at(100)).window;
    for cumulative in 2..=10 {
        sender.handle_ack(at(100), &echo(cumulative));
    }
    assert_eq!(sender.stats(at(100)).backoffs, 1);
    assert!(after_one <= 6.0, "{after_one}");
    let reduced = sender.poll_segment(at(100)).unwrap();
    assert!(reduced.is_window_reduced);
    assert!(!sender.poll_segment(at(100)).unwrap().is_window_reduced);
    sender.handle_ack(at(200), &echo(11));
    assert_eq!(sender.stats(at(200)).backoffs, 2);
}

#[test]
fn rack_finds_a_lost_retransmission_that_sack_leaves_to_the_timeout() {
    for (recovery, finds) in [(Recovery::Sack, false), (Recovery::Rack, true)] {
        let config = TcpConfig {
            recovery,
            ..config()
        };
        let mut sender = sender(&config, u64::MAX);
        drain(&mut sender, at(0));
        sender.handle_ack(at(100), &ack(0, &[(1, 10)]));
        let repaired = drain(&mut sender, at(100));
        assert_eq!(repaired[0], 0);
        assert!(repaired.len() > 1, "{repaired:?}");
        // What was sent after the retransmission arrives, and once more.
        sender.handle_ack(at(205), &ack(0, &[(1, 12)]));
        let mut sent = drain(&mut sender, at(205));
        sender.handle_timeout(at(240));
        sent.extend(drain(&mut sender, at(240)));
        assert_eq!(sent.contains(&0), finds, "{recovery:?}: {sent:?}");
    }
}

#[test]
fn a_probe_repeats_the_tail_before_the_timeout() {
    let config = TcpConfig {
        recovery: Recovery::Rack,
        ..config()
    };
    let mut sender = sender(&config, 3000);
    assert_eq!(drain(&mut sender, at(0)), [0, 1, 2]);
    let probe = sender.deadline().unwrap();
    assert!(probe < at(300), "{probe}");
    sender.handle_timeout(probe);
    assert_eq!(drain(&mut sender, probe), [2]);
}

/// Every 50 ms a segment leaves and, a round trip later, arrives; the first of a
/// block of ten is lost.
#[test]
fn a_long_block_is_not_cut_short_by_a_timeout() {
    let config = TcpConfig {
        is_ack_delayed: false,
        constant_rate: Some(ConstantRate {
            rate: Rate::bits_per_second(8 * 1500 * 20),
            has_aimd: false,
        }),
        coding: Coding::Fixed { n: 10, k: 9 },
        ..config()
    };
    let mut sender = sender(&config, u64::MAX);
    let mut sent = Vec::new();
    for tick in 0..12 {
        let now = at(50 * tick);
        if sender.deadline().is_some_and(|due| due <= now) {
            sender.handle_timeout(now);
        }
        sent.extend(drain(&mut sender, now));
        // Segment 1 left at 50 ms and arrived at 100; its ACK is here at 150.
        if tick >= 3 {
            let mut said = ack(0, &[(1, tick - 1)]);
            (said.received, said.due) = (tick - 2, tick - 1);
            sender.handle_ack(now, &said);
        }
    }
    assert_eq!(sender.stats(at(550)).timeouts, 0);
    assert_eq!(sent, (0..12).collect::<Vec<_>>());
}
