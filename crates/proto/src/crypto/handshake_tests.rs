//! Client and server together.

use blake2::{Blake2s256, Digest};
use ctcp_units::{Random, millis};

use super::test_support::{End, NOW, SOURCE, World, hex, mangle, seed};
use super::*;

#[test]
fn both_sides_learn_what_the_other_said_and_share_keys() {
    let mut world = World::new(1);
    let mut client = world.hello();
    assert_eq!(client.packet().len(), HELLO_LEN);
    let hello = world.read_hello(client.packet());
    assert_eq!(hello.client, *world.client.public());
    assert_eq!((hello.client_id, hello.timestamp), (*b"client-1", 77));
    assert_eq!(hello.params, b"client params");
    assert_eq!(hello.invite, b"invite token");
    let server = hello.accept(*b"server-1", b"server params").unwrap();
    let Ok(ClientProgress::Accepted(accepted)) = client.on_packet(&server.packet) else {
        panic!("the client is accepted");
    };
    assert_eq!(accepted.server_id, *b"server-1");
    assert_eq!(accepted.params, b"server params");
    assert_eq!(accepted.keys.suite(), Suite::Aes128Gcm);
    let (mut client, mut server) = (End::new(accepted.keys), End::new(server.keys));
    for _ in 0..3 {
        client.exchange(&mut server, 0);
        server.exchange(&mut client, 1);
    }
}

#[test]
fn without_aes_on_both_sides_chacha_is_chosen() {
    let mut world = World::new(1);
    let cookies = CookieSecret::generate(&mut world.random);
    world.responder = Responder::new(world.server.clone(), cookies, false);
    let (client, server) = world.connect();
    assert_eq!(client.keys.suite(), Suite::ChaCha20Poly1305);
    End::new(client.keys).exchange(&mut End::new(server.keys), 0);
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let run = |seed| {
        let mut world = World::new(seed);
        let hello = world.hello().packet().to_vec();
        let (client, server) = world.connect();
        let (_, sealed) = End::new(client.keys).seal(0, b"first");
        (hello, server.packet, sealed)
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

/// Computed with an independent implementation of the whole handshake in Python:
/// `hmac`, `hashlib`, curve and ciphers of OpenSSL. A change of the prologue, of
/// a layout or of a derivation changes these; two versions then cannot talk.
#[test]
fn the_bytes_of_seed_1_are_pinned() {
    let mut world = World::new(1);
    let mut client = world.hello();
    let hello = Blake2s256::digest(client.packet());
    let read = world.read_hello(client.packet());
    let server = read.accept(*b"server-1", b"server params").unwrap();
    let Ok(ClientProgress::Accepted(accepted)) = client.on_packet(&server.packet) else {
        panic!("the client is accepted");
    };
    let (_, sealed) = End::new(accepted.keys).seal(0, b"first");
    assert_eq!(
        hex(&hello),
        "76a4790935c8dac53956213b687c29e57eaf2d550ee0a7e9a975c58c16479d37"
    );
    assert_eq!(
        hex(&server.packet),
        "82636c69656e742d3120531ca000cd35d3f0741aa71d75e257167d10c920626811625ec62df13aae\
         1d3bb2be2a0454b0d278314e10f36594da77771bf2905106daa11c45d58ae6b6bb1e457b1f30e1a8"
    );
    assert_eq!(
        hex(&sealed),
        "71636f6e6e2d69643851a6eb1ccc0cbbf8afa0336095d150f04a2b6f91db8fbba7"
    );
}

#[test]
fn every_changed_byte_of_a_hello_is_met_with_silence() {
    let mut world = World::new(2);
    let packet = world.hello().packet().to_vec();
    for at in 0..HELLO_LEN - 16 {
        for bit in [0, 7] {
            let mut changed = packet.clone();
            changed[at] ^= 1 << bit;
            let error = world.read(&changed, false).expect_err("it was changed");
            match at {
                0 => assert_eq!(error, HelloError::Unexpected),
                1..5 => assert!(matches!(error, HelloError::UnknownVersion { .. })),
                _ => assert_eq!(error, HelloError::WrongMac),
            }
        }
    }
}

#[test]
fn a_hello_with_a_right_mac_over_changed_bytes_does_not_open() {
    let mut world = World::new(2);
    let key = mac::Mac1Key::of(world.server.public());
    let packet = world.hello().packet().to_vec();
    // The header is bound by the prologue, the rest by the cipher.
    for at in (5..1168).step_by(7) {
        let mut changed = packet.clone();
        changed[at] ^= 1;
        let mac1 = key.mac(&[&changed[..1168]]);
        changed[1168..1184].copy_from_slice(&mac1);
        assert_eq!(world.read(&changed, false).err(), Some(HelloError::Forged));
    }
}

#[test]
fn a_hello_of_any_other_length_is_met_with_silence() {
    let mut world = World::new(3);
    let mut packet = world.hello().packet().to_vec();
    for len in 0..HELLO_LEN {
        let error = world.read(&packet[..len], true).expect_err("too short");
        if len > 0 {
            assert_eq!(error, HelloError::WrongLength { len });
        }
    }
    packet.push(0);
    let error = world.read(&packet, false).expect_err("too long");
    assert_eq!(error, HelloError::WrongLength { len: 1201 });
}

#[test]
fn a_client_with_another_servers_key_gets_silence() {
    let mut world = World::new(4);
    let other = Identity::generate(&mut world.random);
    let right = core::mem::replace(&mut world.server, other);
    let packet = world.hello().packet().to_vec();
    assert_eq!(world.read(&packet, false).err(), Some(HelloError::WrongMac));
    assert_eq!(world.read(&packet, true).err(), Some(HelloError::WrongMac));
    assert_eq!(world.responder.public(), right.public());
}

#[test]
fn a_refused_client_learns_why_in_a_packet_shorter_than_its_own() {
    let mut world = World::new(5);
    for refusal in [Refusal::NotAllowed, Refusal::Stale { last: 99 }] {
        let mut client = world.hello();
        let answer = world.read_hello(client.packet()).refuse(refusal);
        assert_eq!(answer.len(), 66);
        let Ok(ClientProgress::Refused(found)) = client.on_packet(&answer) else {
            panic!("the client is refused");
        };
        assert_eq!(found, refusal);
        assert_eq!(client.on_packet(&answer).err(), Some(ReplyError::Finished));
    }
}

#[test]
fn no_answer_is_longer_than_its_request() {
    let mut world = World::new(6);
    let packet = world.hello().packet().to_vec();
    let params = [1; REPLY_PARAMS_MAX + 1];
    let accept = |world: &mut World, len: usize| {
        let hello = world.read_hello(&packet);
        hello.accept([0; 8], &params[..len])
    };
    let longest = accept(&mut world, REPLY_PARAMS_MAX).unwrap();
    assert_eq!(longest.packet.len(), packet.len());
    let error = accept(&mut world, REPLY_PARAMS_MAX + 1).unwrap_err();
    assert_eq!(error, ParamsTooLong { len: 1134 });
    let Ok(Incoming::Cookie(cookie)) = world.read(&packet, true) else {
        panic!("a server under load sends a cookie");
    };
    assert_eq!(cookie.len(), 41);
}

#[test]
fn parameters_that_do_not_fit_a_hello_are_refused_and_the_longest_arrive() {
    let mut world = World::new(7);
    let params = [3; HELLO_PAYLOAD_MAX];
    let identity = world.client.clone();
    let config = |server, invite: &'static [u8]| ClientConfig {
        server,
        identity: &identity,
        connection_id: [1; 8],
        timestamp: 1,
        has_aes: true,
        params: &params,
        invite,
    };
    let server = *world.server.public();
    let client = ClientHandshake::new(&config(&server, b""), &mut world.random).unwrap();
    assert_eq!(world.read_hello(client.packet()).params, params);
    let error = ClientHandshake::new(&config(&server, b"x"), &mut world.random).unwrap_err();
    assert_eq!(error, ClientError::TooLong { len: 1047 });
    let weak = PublicKey::from_bytes([0; 32]);
    let error = ClientHandshake::new(&config(&weak, b""), &mut world.random).unwrap_err();
    assert_eq!(error, ClientError::WeakServerKey);
}

#[test]
fn under_load_a_client_gets_in_with_its_cookie() {
    let mut world = World::new(8);
    let mut client = world.hello();
    let first = client.packet().to_vec();
    let Ok(Incoming::Cookie(cookie)) = world.read(&first, true) else {
        panic!("no cookie, no hello");
    };
    assert!(matches!(
        client.on_packet(&cookie),
        Ok(ClientProgress::Cookie)
    ));
    let second = client.packet().to_vec();
    assert_ne!(first, second);
    assert_eq!(
        world.responder.identify(&first),
        world.responder.identify(&second)
    );
    let Ok(Incoming::Hello(hello)) = world.read(&second, true) else {
        panic!("the cookie is good");
    };
    let server = hello.accept(*b"server-1", b"").unwrap();
    assert!(matches!(
        client.on_packet(&server.packet),
        Ok(ClientProgress::Accepted(_))
    ));
}

#[test]
fn a_cookie_is_good_for_its_address_and_its_time_only() {
    let mut world = World::new(9);
    let mut client = world.hello();
    let Ok(Incoming::Cookie(cookie)) = world.read(client.packet(), true) else {
        panic!("no cookie, no hello");
    };
    client.on_packet(&cookie).unwrap();
    let is_taken = |world: &mut World, source, now| {
        let random = &mut world.random;
        let result = world
            .responder
            .read(client.packet(), source, true, now, random);
        matches!(result, Ok(Incoming::Hello(_)))
    };
    let later = NOW + COOKIE_LIFETIME;
    assert!(is_taken(&mut world, SOURCE, NOW));
    assert!(is_taken(&mut world, SOURCE, later));
    assert!(!is_taken(&mut world, b"192.0.2.2:4500", NOW));
    assert!(!is_taken(&mut world, SOURCE, later + COOKIE_LIFETIME));
    let before = NOW.saturating_sub(COOKIE_LIFETIME);
    assert!(!is_taken(&mut world, SOURCE, before));
    assert!(!is_taken(
        &mut world,
        SOURCE,
        NOW.saturating_sub(millis(1_000_000))
    ));
}

#[test]
fn forged_and_repeated_cookies_are_dropped() {
    let mut world = World::new(10);
    let mut client = world.hello();
    let packet = client.packet().to_vec();
    let Ok(Incoming::Cookie(cookie)) = world.read(&packet, true) else {
        panic!("no cookie, no hello");
    };
    for at in 0..cookie.len() {
        let mut changed = cookie.clone();
        changed[at] ^= 1;
        let error = client.on_packet(&changed).expect_err("it was changed");
        match at {
            // One bit away from the cookie's type lies the server hello's.
            0 => assert_eq!(error, ReplyError::Truncated { len: 41 }),
            1..9 => assert_eq!(error, ReplyError::WrongConnectionId),
            _ => assert_eq!(error, ReplyError::ForgedCookie),
        }
    }
    for len in 0..cookie.len() {
        assert!(client.on_packet(&cookie[..len]).is_err(), "{len} bytes");
    }
    // Who did not see this hello cannot answer it, even with the server's key.
    let Ok(Incoming::Cookie(of_another)) = ({
        let other = world.hello().packet().to_vec();
        world.read(&other, true)
    }) else {
        panic!("no cookie, no hello");
    };
    let error = client.on_packet(&of_another).expect_err("another hello's");
    assert_eq!(error, ReplyError::ForgedCookie);
    assert_eq!(client.packet(), packet);
    assert!(client.on_packet(&cookie).is_ok());
    let error = client.on_packet(&cookie).expect_err("a copy");
    assert_eq!(error, ReplyError::RepeatedCookie);
}

#[test]
fn a_forged_server_hello_does_not_end_the_handshake() {
    let mut world = World::new(11);
    let mut client = world.hello();
    let hello = world.read_hello(client.packet());
    let answer = hello.accept(*b"server-1", b"params").unwrap().packet;
    for at in 9..answer.len() {
        let mut forged = answer.clone();
        forged[at] ^= 0x10;
        assert_eq!(client.on_packet(&forged).err(), Some(ReplyError::Forged));
    }
    for len in 0..answer.len() {
        assert!(client.on_packet(&answer[..len]).is_err(), "{len} bytes");
    }
    let mut elsewhere = answer.clone();
    elsewhere[1] ^= 1;
    let error = client.on_packet(&elsewhere).err();
    assert_eq!(error, Some(ReplyError::WrongConnectionId));
    let too_long = [&answer[..], &[0; 2000]].concat();
    assert_eq!(client.on_packet(&too_long).err(), Some(ReplyError::Forged));
    let own = client.packet().to_vec();
    assert_eq!(client.on_packet(&own).err(), Some(ReplyError::Unexpected));
    assert!(client.on_packet(&answer).is_ok());
}

#[test]
fn a_server_hello_for_one_hello_does_not_answer_another() {
    let mut world = World::new(12);
    let (first, mut second) = (world.hello(), world.hello());
    let hello = world.read_hello(first.packet());
    let answer = hello.accept(*b"server-1", b"").unwrap().packet;
    assert_eq!(second.on_packet(&answer).err(), Some(ReplyError::Forged));
}

#[test]
fn a_recorded_hello_is_recognised_and_its_timestamp_refused() {
    let mut world = World::new(13);
    let packet = world.hello().packet().to_vec();
    let mut guard = TimestampGuard::new(8);
    let first = world.read_hello(&packet);
    assert_eq!(guard.advance(&first.client, first.timestamp), Ok(()));
    let copy = world.read_hello(&packet);
    assert_eq!(world.responder.identify(&packet), Ok(first.id));
    assert_eq!((copy.id, copy.client), (first.id, first.client));
    let stale = StaleTimestamp { last: 77 };
    assert_eq!(guard.advance(&copy.client, copy.timestamp), Err(stale));
}

#[test]
fn a_copied_hello_gives_its_sender_no_keys() {
    // Two acceptances of one hello: the client follows the first, and what it
    // seals does not open under the second.
    let mut world = World::new(14);
    let mut client = world.hello();
    let packet = client.packet().to_vec();
    let hello = world.read_hello(&packet);
    let first = hello.accept(*b"server-1", b"").unwrap();
    let second = world.read_hello(&packet).accept(*b"server-1", b"").unwrap();
    let Ok(ClientProgress::Accepted(accepted)) = client.on_packet(&first.packet) else {
        panic!("the client is accepted");
    };
    let mut client = End::new(accepted.keys);
    let (_, sealed) = client.seal(0, b"text");
    let error = End::new(second.keys).open(0, &sealed).unwrap_err();
    assert_eq!(error, OpenError::Forged);
    assert!(End::new(first.keys).open(0, &sealed).is_ok());
}

#[test]
fn a_client_key_of_small_order_is_silence() {
    let mut world = World::new(15);
    let mut packet = world.hello().packet().to_vec();
    // The ephemeral key is the first field of the Noise message.
    packet[13..45].fill(0);
    let mac1 = mac::Mac1Key::of(world.server.public()).mac(&[&packet[..1168]]);
    packet[1168..1184].copy_from_slice(&mac1);
    assert_eq!(world.read(&packet, false).err(), Some(HelloError::Forged));
}

#[test]
fn handshakes_and_keys_move_between_threads() {
    fn moves<T: Send>() {}
    moves::<ClientHandshake>();
    moves::<Responder>();
    moves::<HelloRead>();
    moves::<Keys>();
}

#[test]
fn mangled_handshake_packets_never_panic() {
    let mut world = World::new(16);
    let mut random = Random::from_seed(seed());
    let mut client = world.hello();
    let hello = client.packet().to_vec();
    let answer = world.read_hello(&hello).accept([2; 8], b"params").unwrap();
    let Ok(Incoming::Cookie(cookie)) = world.read(&hello, true) else {
        panic!("no cookie, no hello");
    };
    for _ in 0..2000 {
        for bytes in [&hello, &answer.packet, &cookie] {
            let mangled = mangle(bytes, &mut random);
            if mangled[..mangled.len().min(1184)] != hello[..1184] {
                let _ = world.read(&mangled, true).expect_err("silence");
            }
            if mangled != answer.packet && mangled != cookie {
                let _ = client.on_packet(&mangled).expect_err("dropped");
            }
        }
    }
    assert!(client.on_packet(&answer.packet).is_ok());
}
