//! Sealing, opening and the update of keys.

use ctcp_units::{Instant, PacketNumber, PathId, Random, millis};

use super::test_support::{End, SUITES, hex, mangle, packet, seed};
use super::*;

const LATER: Instant = Instant::from_nanos(1_000_000);

/// Lets the end forget the keys of the phase before.
fn drop_previous(end: &mut End) {
    end.keys.hold_previous_until(LATER);
    end.keys.handle_timeout(LATER);
}

/// Both ends in an exchange, so that updates are allowed.
fn warm_pair(suite: Suite) -> (End, End) {
    let (mut client, mut server) = End::pair(suite);
    client.exchange(&mut server, 0);
    server.exchange(&mut client, 0);
    (client, server)
}

/// Computed with an independent implementation in Python: HKDF over `hmac`,
/// ciphers of OpenSSL.
#[test]
fn sealed_bytes_are_pinned() {
    let expected = [
        (
            Suite::Aes128Gcm,
            "33636f6e6e2d69643843ad6ea7ca9be852854861fb138130970fbcc009b97c33a8ee5390e59cfc54dc4641078dc147ef57228845827594544a01c8",
        ),
        (
            Suite::ChaCha20Poly1305,
            "4e636f6e6e2d69643812a01f4b905ef6231a989b2eaecc871648a5d35d40feeb237351a2d6eeb69e271db33573c66c69de9767500222219de6d67f",
        ),
    ];
    for (suite, expected) in expected {
        let (mut client, _) = Keys::pair(suite, [9; 32]);
        let mut packet = packet(b"a text of thirty-one bytes, yes");
        let number = PacketNumber(0x12_3456_789A);
        client
            .seal_in_place(PathId(0x0102_0304), number, &mut packet)
            .unwrap();
        assert_eq!(hex(&packet), expected);
    }
}

/// The same after one key update: only AEAD key and IV are new.
#[test]
fn sealed_bytes_of_the_next_key_phase_are_pinned() {
    let (mut client, mut server) = warm_pair(Suite::Aes128Gcm);
    client.keys.update().unwrap();
    let mut packet = packet(b"updated");
    client
        .keys
        .seal_in_place(PathId(0), PacketNumber(1), &mut packet)
        .unwrap();
    assert_eq!(
        hex(&packet),
        "41636f6e6e2d6964386b49beb81edeaf6891ab6acc6c27435b350e10fd3ba28cc0ca84"
    );
    assert!(server.open(0, &packet).unwrap().0.key_phase_changed);
}

#[test]
fn a_packet_comes_back_with_number_flags_and_text() {
    for suite in SUITES {
        let (mut client, mut server) = Keys::pair(suite, [9; 32]);
        for len in (0..40).chain([1400, 9000, 65_000]) {
            let text: Vec<u8> = (0..len).map(|at| at as u8).collect();
            let mut packet = packet(&text);
            let number = PacketNumber(5);
            client
                .seal_in_place(PathId(3), number, &mut packet)
                .unwrap();
            let mut window = ReplayWindow::new();
            let opened = server.open_in_place(PathId(3), &mut window, &mut packet);
            let opened = opened.unwrap();
            assert_eq!((opened.number, opened.flags), (number, 0x2A));
            assert_eq!(packet[opened.payload], text);
            assert_eq!(&packet[1..9], b"conn-id8");
        }
    }
}

#[test]
fn every_flipped_bit_is_found() {
    for suite in SUITES {
        let (mut client, mut server) = End::pair(suite);
        let (_, sealed) = client.seal(0, b"some text of a packet");
        for at in 0..sealed.len() {
            for bit in 0..8 {
                let mut changed = sealed.clone();
                changed[at] ^= 1 << bit;
                let error = server.open(0, &changed).unwrap_err();
                let expected = if (at, bit) == (0, 7) {
                    OpenError::NotProtected
                } else {
                    OpenError::Forged
                };
                assert_eq!(error, expected, "bit {bit} of byte {at}");
            }
        }
        assert_eq!(server.keys.forged_count(), sealed.len() as u64 * 8 - 1);
        assert!(server.open(0, &sealed).is_ok());
    }
}

#[test]
fn a_packet_opens_on_its_own_path_and_in_its_own_direction_only() {
    let (mut client, mut server) = End::pair(Suite::Aes128Gcm);
    let (_, sealed) = client.seal(0, b"text");
    assert_eq!(server.open(1, &sealed).unwrap_err(), OpenError::Forged);
    assert_eq!(client.open(0, &sealed).unwrap_err(), OpenError::Forged);
    assert!(server.open(0, &sealed).is_ok());
}

#[test]
fn equal_packets_look_different() {
    let (mut client, _) = End::pair(Suite::Aes128Gcm);
    let (_, first) = client.seal(0, &[0; 64]);
    let (_, second) = client.seal(0, &[0; 64]);
    let (_, elsewhere) = client.seal(1, &[0; 64]);
    assert_ne!(first[12..], second[12..]);
    assert_ne!(first[12..], elsewhere[12..]);
    // Flags and number of 40 packets do not stand still under the mask.
    let starts: std::collections::BTreeSet<Vec<u8>> = (0..40)
        .map(|_| client.seal(0, &[0; 64]).1[..12].to_vec())
        .collect();
    assert_eq!(starts.len(), 40);
}

#[test]
fn a_replayed_packet_is_dropped_and_a_reordered_one_is_not() {
    let (mut client, mut server) = End::pair(Suite::ChaCha20Poly1305);
    let sealed: Vec<Vec<u8>> = (0..100).map(|_| client.seal(0, b"x").1).collect();
    for packet in sealed.iter().rev() {
        assert!(server.open(0, packet).is_ok());
    }
    for packet in &sealed {
        let error = server.open(0, packet).unwrap_err();
        assert_eq!(error, OpenError::Replay(ReplayError::Duplicate));
    }
    assert_eq!(server.keys.forged_count(), 0);
}

#[test]
fn a_packet_older_than_the_window_is_dropped() {
    let (mut client, mut server) = End::pair(Suite::Aes128Gcm);
    let (_, old) = client.seal(0, b"old");
    let (_, oldest_kept) = client.seal(0, b"kept");
    client.next[0] = REPLAY_WINDOW;
    let (_, new) = client.seal(0, b"new");
    assert!(server.open(0, &new).is_ok());
    let error = server.open(0, &old).unwrap_err();
    assert_eq!(error, OpenError::Replay(ReplayError::TooOld));
    assert!(server.open(0, &oldest_kept).is_ok());
}

#[test]
fn a_forged_packet_moves_nothing() {
    let (mut client, mut server) = End::pair(Suite::Aes128Gcm);
    client.exchange(&mut server, 0);
    let before = server.windows[0].expected();
    let mut random = Random::from_seed(seed());
    for _ in 0..2000 {
        let mut garbage = vec![0; 28 + random.below(60) as usize];
        random.fill(&mut garbage);
        assert!(server.open(0, &garbage).is_err());
    }
    assert_eq!(server.windows[0].expected(), before);
    assert_eq!(server.keys.key_phase(), 0);
    assert_eq!(server.keys.deadline(), None);
    client.exchange(&mut server, 0);
}

#[test]
fn packets_of_every_length_and_mangled_ones_never_panic() {
    let mut random = Random::from_seed(seed());
    for suite in SUITES {
        let (mut client, mut server) = End::pair(suite);
        let (_, sealed) = client.seal(0, &[7; 80]);
        for len in 0..sealed.len() {
            let error = server.open(0, &sealed[..len]).unwrap_err();
            let expected = if len < MIN_PACKET_LEN {
                OpenError::Truncated { len }
            } else {
                OpenError::Forged
            };
            assert_eq!(error, expected);
            let mut short = sealed[..len].to_vec();
            let result = client
                .keys
                .seal_in_place(PathId(0), PacketNumber(9), &mut short);
            assert_eq!(result.is_ok(), len >= MIN_PACKET_LEN);
        }
        for _ in 0..5000 {
            let mangled = mangle(&sealed, &mut random);
            if mangled != sealed {
                assert!(server.open(0, &mangled).is_err());
            }
        }
        assert!(server.open(0, &sealed).is_ok());
    }
}

#[test]
fn numbers_far_beyond_24_bits_come_back() {
    let (mut client, mut server) = End::pair(Suite::Aes128Gcm);
    let jumps = [0, 1, (1 << 23) - 1, 1 << 24, (1 << 24) + (1 << 23), 1 << 25];
    for number in jumps {
        client.next[0] = number;
        assert_eq!(client.exchange(&mut server, 0).number, PacketNumber(number));
    }
    // More than 2^23 ahead of what the receiver knows is taken for another.
    client.next[0] = (1 << 25) + (1 << 23) + 2;
    let (_, sealed) = client.seal(0, b"x");
    assert!(server.open(0, &sealed).is_err());
}

#[test]
fn the_last_packet_number_is_the_last() {
    let (mut client, _) = Keys::pair(Suite::Aes128Gcm, [9; 32]);
    let mut seal = |number| {
        let mut packet = packet(b"x");
        client.seal_in_place(PathId(0), PacketNumber(number), &mut packet)
    };
    assert_eq!(seal((1 << 62) - 1), Ok(()));
    assert_eq!(seal(1 << 62), Err(SealError::NumbersExhausted));
}

#[test]
fn an_update_moves_both_directions_on() {
    for suite in SUITES {
        let (mut client, mut server) = warm_pair(suite);
        for phase in 1..6 {
            client.keys.update().unwrap();
            assert!(client.exchange(&mut server, 0).key_phase_changed);
            assert!(server.exchange(&mut client, 0).key_phase_changed);
            assert_eq!(client.keys.key_phase(), phase);
            assert_eq!(server.keys.key_phase(), phase);
            assert!(!client.exchange(&mut server, 0).key_phase_changed);
            drop_previous(&mut client);
            drop_previous(&mut server);
        }
    }
}

#[test]
fn late_packets_of_the_phase_before_open_until_their_keys_are_dropped() {
    let (mut client, mut server) = warm_pair(Suite::Aes128Gcm);
    let (_, late) = client.seal(0, b"late");
    let (_, other_path) = client.seal(1, b"late");
    let (_, too_late) = client.seal(0, b"too late");
    client.keys.update().unwrap();
    client.exchange(&mut server, 0);
    server.keys.hold_previous_until(LATER);
    assert_eq!(server.keys.deadline(), Some(LATER));
    server.keys.handle_timeout(LATER.saturating_sub(millis(1)));
    assert!(!server.open(0, &late).unwrap().0.key_phase_changed);
    assert!(!server.open(1, &other_path).unwrap().0.key_phase_changed);
    server.keys.handle_timeout(LATER);
    assert_eq!(server.keys.deadline(), None);
    assert_eq!(server.open(0, &too_late).unwrap_err(), OpenError::Forged);
}

/// The peer's probe timeout may be shorter than ours.
#[test]
fn the_next_update_opens_while_the_keys_before_the_last_are_held() {
    let (mut client, mut server) = warm_pair(Suite::Aes128Gcm);
    let (_, late) = client.seal(0, b"late");
    for phase in 1..4 {
        client.keys.update().unwrap();
        assert!(client.exchange(&mut server, 0).key_phase_changed);
        server.exchange(&mut client, 0);
        assert_eq!(server.keys.key_phase(), phase);
        drop_previous(&mut client);
    }
    // Three phases late: its parity is that of the keys held, which do not fit.
    assert_eq!(server.open(0, &late).unwrap_err(), OpenError::Forged);
}

#[test]
fn two_updates_at_the_same_time_are_one() {
    let (mut client, mut server) = warm_pair(Suite::ChaCha20Poly1305);
    client.keys.update().unwrap();
    server.keys.update().unwrap();
    let (_, upstream) = client.seal(0, b"up");
    let (_, downstream) = server.seal(0, b"down");
    assert!(server.open(0, &upstream).unwrap().0.key_phase_changed);
    assert!(client.open(0, &downstream).unwrap().0.key_phase_changed);
    assert_eq!((client.keys.key_phase(), server.keys.key_phase()), (1, 1));
    drop_previous(&mut client);
    drop_previous(&mut server);
    client.exchange(&mut server, 0);
    server.exchange(&mut client, 0);
    client.keys.update().unwrap();
    client.exchange(&mut server, 0);
    server.exchange(&mut client, 0);
    assert_eq!((client.keys.key_phase(), server.keys.key_phase()), (2, 2));
}

#[test]
fn an_update_waits_until_the_last_one_is_settled() {
    let (mut client, mut server) = End::pair(Suite::Aes128Gcm);
    assert_eq!(client.keys.update(), Err(UpdateError::NotAcknowledged));
    let (number, sealed) = client.seal(0, b"x");
    client.keys.on_acknowledged(PathId(1), number);
    assert_eq!(client.keys.update(), Err(UpdateError::NotAcknowledged));
    server.open(0, &sealed).unwrap();
    server.exchange(&mut client, 0);
    client.keys.on_acknowledged(PathId(0), number);
    client.keys.update().unwrap();
    assert_eq!(client.keys.update(), Err(UpdateError::PeerBehind));
    // An acknowledgement of the phase before confirms nothing.
    let (next, sealed) = client.seal(0, b"x");
    client.keys.on_acknowledged(PathId(0), number);
    server.open(0, &sealed).unwrap();
    server.exchange(&mut client, 0);
    assert_eq!(client.keys.update(), Err(UpdateError::PreviousHeld));
    drop_previous(&mut client);
    assert_eq!(client.keys.update(), Err(UpdateError::NotAcknowledged));
    client.keys.on_acknowledged(PathId(0), next);
    assert_eq!(client.keys.update(), Ok(()));
}

#[test]
fn a_peer_that_updates_twice_without_an_answer_is_found_out() {
    let (mut client, mut server) = warm_pair(Suite::Aes128Gcm);
    client.keys.update().unwrap();
    client.exchange(&mut server, 0);
    drop_previous(&mut server);
    // A client that skips the rules: its answer-less second update.
    let (mut rogue, mut mirror) = Keys::pair(Suite::Aes128Gcm, [9; 32]);
    let mut sealed = rogue_packet(&mut rogue, &mut mirror, 2);
    let result = server
        .keys
        .open_in_place(PathId(0), &mut server.windows[0], &mut sealed);
    assert_eq!(result, Err(OpenError::UpdateTooEarly));
    assert!(OpenError::UpdateTooEarly.is_fatal());
    assert_eq!(server.keys.key_phase(), 1);
}

/// A packet of `phase` by the client of a pair, number 100.
fn rogue_packet(client: &mut Keys, server: &mut Keys, phase: u64) -> Vec<u8> {
    let mut client_end = End::new(core::mem::replace(
        client,
        Keys::pair(Suite::Aes128Gcm, [0; 32]).0,
    ));
    let mut server_end = End::new(core::mem::replace(
        server,
        Keys::pair(Suite::Aes128Gcm, [0; 32]).1,
    ));
    for _ in 0..phase {
        client_end.exchange(&mut server_end, 0);
        server_end.exchange(&mut client_end, 0);
        drop_previous(&mut client_end);
        drop_previous(&mut server_end);
        client_end.keys.update().unwrap();
    }
    client_end.next[0] = 100;
    client_end.seal(0, b"rogue").1
}

#[test]
fn a_used_key_is_replaced_by_itself() {
    let (mut client, mut server) = warm_pair(Suite::Aes128Gcm);
    client.keys.pretend((1 << 22) - 1, 0);
    assert!(!client.exchange(&mut server, 0).key_phase_changed);
    assert!(client.exchange(&mut server, 0).key_phase_changed);
    assert_eq!(client.keys.key_phase(), 1);
}

#[test]
fn a_key_that_cannot_be_replaced_stops_at_its_limit() {
    let (mut client, _) = End::pair(Suite::Aes128Gcm);
    client.keys.pretend((1 << 23) - 1, 0);
    client.seal(0, b"the last");
    let mut packet = packet(b"one more");
    let result = client
        .keys
        .seal_in_place(PathId(0), PacketNumber(9), &mut packet);
    assert_eq!(result, Err(SealError::KeyExhausted));
    let (mut client, _) = End::pair(Suite::ChaCha20Poly1305);
    client.keys.pretend(1 << 23, 0);
    client.seal(0, b"this cipher has no such limit");
}

#[test]
fn too_many_forged_packets_end_the_connection() {
    for (suite, limit) in SUITES.into_iter().zip([1 << 52, 1 << 36]) {
        let (mut client, mut server) = End::pair(suite);
        let (_, sealed) = client.seal(0, b"x");
        let mut forged = sealed.clone();
        forged[20] ^= 1;
        server.keys.pretend(0, limit - 1);
        assert_eq!(server.open(0, &forged).unwrap_err(), OpenError::Forged);
        let error = server.open(0, &sealed).unwrap_err();
        assert_eq!(error, OpenError::TooManyForged);
        assert!(error.is_fatal() && !OpenError::Forged.is_fatal());
    }
}

/// Both ends send on two paths that lose and reorder, acknowledge some of what
/// they get, update whenever they may and drop old keys at random times.
#[test]
fn updates_survive_loss_and_reordering_in_both_directions() {
    let mut random = Random::from_seed(seed());
    for round in 0..20 {
        let suite = SUITES[round % 2];
        let (client, server) = End::pair(suite);
        let mut ends = [client, server];
        // What is under way to each end: path, number, packet.
        let mut under_way: [Vec<(u32, PacketNumber, Vec<u8>)>; 2] = [Vec::new(), Vec::new()];
        let mut lost_by_old_keys = 0;
        for _ in 0..4000 {
            let at = random.below(2) as usize;
            if random.chance(0.3) {
                let _ = ends[at].keys.update();
            }
            if random.chance(0.05) {
                drop_previous(&mut ends[at]);
            }
            let path = random.below(2) as u32;
            let (number, packet) = ends[at].seal(path, b"text");
            if random.chance(0.8) {
                under_way[1 - at].push((path, number, packet));
            }
            while under_way[at].len() > 10 || (random.chance(0.4) && !under_way[at].is_empty()) {
                let pick = random.below(under_way[at].len() as u64) as usize;
                let (path, number, packet) = under_way[at].swap_remove(pick);
                match ends[at].open(path, &packet) {
                    Ok((opened, _)) => {
                        assert_eq!(opened.number, number);
                        if random.chance(0.5) {
                            ends[1 - at].keys.on_acknowledged(PathId(path), number);
                        }
                    }
                    Err(error) => {
                        assert_eq!(error, OpenError::Forged);
                        lost_by_old_keys += 1;
                    }
                }
            }
        }
        let phases = ends.each_ref().map(|end| end.keys.key_phase());
        assert!(phases[0].abs_diff(phases[1]) <= 1, "{phases:?}");
        assert!(phases[0] > 20, "{phases:?}");
        // Only packets that arrived after their keys were dropped are lost.
        assert!(lost_by_old_keys < 800, "{lost_by_old_keys}");
        // A path that was silent for a whole phase is ambiguous until then.
        ends.iter_mut().for_each(drop_previous);
        for path in 0..2 {
            let [client, server] = &mut ends;
            client.exchange(server, path);
            server.exchange(client, path);
        }
    }
}
