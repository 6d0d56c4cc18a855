//! How connections begin and end, and what an address gets before it is proven.

mod support;

use ctcp_link::{LinkConfig, LossModel};
use ctcp_proto::crypto::{Refusal, SecretRandom};
use ctcp_proto::{
    ConnectionError, Endpoint, EndpointConfig, Event, Identity, TransportConfig, Verdict,
};
use ctcp_units::{Duration, Instant, LossRate, Random, Rate, millis, seconds};
use support::ends::AllowOnly;
use support::{SERVER, Which, World, base_seed, transport};

fn lossy(share: f64) -> LinkConfig {
    LinkConfig::new(Rate::mbit(10), millis(20)).loss(LossModel::Bernoulli(LossRate::clamped(share)))
}

fn closed(world: &mut World, which: Which) -> Option<ConnectionError> {
    let events = &world.end(which).events;
    events.iter().find_map(|(_, event)| match event {
        Event::Closed(error) => Some(error.clone()),
        _ => None,
    })
}

fn connected(world: &mut World) -> bool {
    let mut both = |which| world.saw(which, |event| *event == Event::Connected);
    both(Which::Client) && both(Which::Server)
}

#[test]
fn a_connection_is_made_through_30_percent_loss_both_ways() {
    let first = base_seed(0);
    let mut slowest = Duration::ZERO;
    for seed in first..first + 300 {
        // One try in two gets through, and there is one a second.
        let patient = TransportConfig {
            handshake_timeout: seconds(20),
            ..transport()
        };
        let (up, down) = (lossy(0.3), lossy(0.3));
        let mut world = World::with_transport(seed, up, down, patient.clone(), patient);
        let start = world.now;
        world.connect();
        assert!(world.run_until(seconds(20), connected), "seed {seed}");
        slowest = slowest.max(world.now - start);
    }
    println!("slowest handshake of 300: {slowest:?}");
}

#[test]
fn a_lost_answer_is_given_again_and_makes_no_second_connection() {
    let mut world = World::new(1, lossy(0.0), lossy(1.0));
    world.connect();
    world.run_for(millis(700));
    world.set_links(lossy(0.0), lossy(0.0));
    assert!(world.run_until(seconds(2), connected));
    assert_eq!(world.server.endpoint.stats().accepted, 1);
    let stats = world.connection(Which::Client).unwrap().stats();
    assert!(stats.sent.handshake >= 3, "{}", stats.sent.handshake);
}

#[test]
fn a_client_that_is_not_on_the_list_learns_so_at_once() {
    let mut world = World::new(1, lossy(0.0), lossy(0.0));
    world.client.endpoint = stranger(2, transport());
    world.connect();
    world.run_for(millis(200));
    let refused = ConnectionError::Refused(Refusal::NotAllowed);
    assert_eq!(closed(&mut world, Which::Client), Some(refused));
    assert_eq!(world.server.endpoint.connection_count(), 0);
    // No longer than the request.
    assert!(world.wire_bytes_down <= world.wire_bytes_up);
}

fn stranger(seed: u8, transport: TransportConfig) -> Endpoint {
    let config = EndpointConfig {
        identity: Identity::generate(&mut SecretRandom::from_seed([seed; 32])),
        authorize: None,
        transport,
        has_aes: true,
        connections_max: 10,
    };
    Endpoint::new(config, [seed; 32]).unwrap()
}

#[test]
fn a_wrong_server_key_gets_silence() {
    let mut world = World::new(1, lossy(0.0), lossy(0.0));
    world.server_key = *Identity::generate(&mut SecretRandom::from_seed([9; 32])).public();
    let start = world.now;
    world.connect();
    let has_ended = |w: &mut World| closed(w, Which::Client).is_some();
    assert!(world.run_until(seconds(20), has_ended));
    let remote = SERVER.parse().unwrap();
    let error = ConnectionError::NoAnswer { remote };
    assert_eq!(closed(&mut world, Which::Client), Some(error));
    assert_eq!(world.now - start, transport().handshake_timeout);
    assert_eq!(world.wire_bytes_down, 0);
    assert!(world.server.endpoint.stats().bad_hello > 5);
}

#[test]
fn a_clock_that_was_set_back_does_not_lock_a_client_out() {
    let mut world = World::new(1, lossy(0.1), lossy(0.1));
    world.connect();
    assert!(world.run_until(seconds(8), connected));
    let (server, key) = (world.server.address, world.server_key);
    for wall_nanos in [0, 1] {
        let (handle, connection) = world
            .client
            .endpoint
            .connect(world.now, wall_nanos, server, key, &[])
            .unwrap();
        world.client.connections.insert(handle, connection);
        world.drain();
        let is_open = |w: &mut World| {
            let connection = &w.client.connections[&handle];
            connection.is_open()
        };
        assert!(world.run_until(seconds(8), is_open));
    }
    assert!(world.server.endpoint.stats().stale_hello >= 2);
}

#[test]
fn an_address_gets_at_most_three_times_what_it_sent_before_it_is_proven() {
    for seed in 0..50 {
        // The client hears nothing: it never proves that it is there.
        let mut world = World::new(seed, lossy(0.0), lossy(1.0));
        world.connect();
        for _ in 0..400 {
            world.run_for(millis(50));
            assert!(
                world.wire_bytes_down <= 3 * world.wire_bytes_up,
                "seed {seed}"
            );
        }
        assert_eq!(world.server.endpoint.connection_count(), 0);
    }
}

#[test]
fn a_new_address_gets_at_most_three_times_what_it_sent_before_it_is_proven() {
    for seed in 0..50 {
        let mut world = World::new(seed, lossy(0.0), lossy(0.0));
        world.connect();
        assert!(world.run_until(seconds(8), connected));
        world.run_for(seconds(2));
        world.set_links(lossy(0.0), lossy(1.0));
        world.client.address.set_port(9);
        let (new, server) = (world.client.address, world.server.address);
        let client = world.connection(Which::Client).unwrap();
        client.open_stream().unwrap();
        world.drain();
        // Keep-alive and its probes come from there; nothing is answered.
        for _ in 0..200 {
            world.run_for(millis(50));
            let sent = world
                .bytes_from_to
                .get(&(new, server))
                .copied()
                .unwrap_or(0);
            let got = world
                .bytes_from_to
                .get(&(server, new))
                .copied()
                .unwrap_or(0);
            assert!(got <= 3 * sent, "seed {seed}: {got} bytes for {sent}");
        }
        assert!(world.bytes_from_to[&(server, new)] > 0);
    }
}

#[test]
fn keep_alive_holds_an_idle_connection_and_silence_ends_it_at_both_ends() {
    let config = |keep_alive| TransportConfig {
        idle_timeout: seconds(30),
        keep_alive,
        ..transport()
    };
    let kept = config(Some(seconds(15)));
    let mut world = World::with_transport(1, lossy(0.0), lossy(0.0), kept.clone(), kept);
    world.connect();
    world.run_for(seconds(600));
    assert_eq!(closed(&mut world, Which::Client), None);
    assert_eq!(closed(&mut world, Which::Server), None);
    // An answered sign of life each 15 s, and few more.
    let sent = world
        .connection(Which::Client)
        .unwrap()
        .stats()
        .sent
        .control;
    assert!((35..100).contains(&sent), "{sent}");

    world.set_links(lossy(1.0), lossy(1.0));
    world.run_for(seconds(46));
    for which in [Which::Client, Which::Server] {
        let error = closed(&mut world, which);
        assert!(
            matches!(error, Some(ConnectionError::IdleTimeout(_))),
            "{error:?}"
        );
    }
    world.run_for(seconds(10));
    assert!(world.client.connections.is_empty() && world.server.connections.is_empty());
}

#[test]
fn a_close_reaches_the_peer_with_its_reason_through_loss() {
    let mut told = 0;
    for seed in 0..100 {
        let mut world = World::new(seed, lossy(0.1), lossy(0.1));
        world.connect();
        assert!(world.run_until(seconds(20), connected));
        let now = world.now;
        let server = world.connection(Which::Server).unwrap();
        server.close(now, 42, "enough");
        // The client has something to say, and so finds out if the close is lost.
        let client = world.connection(Which::Client).unwrap();
        let id = client.open_stream().unwrap();
        client.write(id, &[0; 20_000]).unwrap();
        world.drain();
        world.run_for(seconds(3));
        let expected = ConnectionError::PeerClosed {
            code: 42,
            reason: "enough".to_owned(),
        };
        told += u32::from(closed(&mut world, Which::Client) == Some(expected));
        let events = &world.end(Which::Client).events;
        let closes = events.iter().filter(|(_, e)| matches!(e, Event::Closed(_)));
        assert!(closes.count() <= 1, "seed {seed}");
        assert_eq!(world.server.endpoint.connection_count(), 0);
    }
    println!("{told} of 100 were told");
    assert!(told >= 95, "{told}");
}

#[test]
fn more_than_64_hellos_a_second_have_to_show_a_cookie_and_still_get_in() {
    let mut world = World::new(1, lossy(0.0), lossy(0.0));
    let identities: Vec<_> = (0..90)
        .map(|n| Identity::generate(&mut SecretRandom::from_seed([n; 32])))
        .collect();
    let keys: Vec<_> = identities
        .iter()
        .map(|identity| *identity.public())
        .collect();
    let server_identity = Identity::generate(&mut SecretRandom::from_seed([200; 32]));
    world.server_key = *server_identity.public();
    let config = EndpointConfig {
        identity: server_identity,
        authorize: Some(Box::new(AllowOnly(keys))),
        transport: transport(),
        has_aes: true,
        connections_max: 100,
    };
    world.server.endpoint = Endpoint::new(config, [1; 32]).unwrap();
    for identity in identities {
        let config = EndpointConfig {
            identity,
            authorize: None,
            transport: transport(),
            has_aes: true,
            connections_max: 10,
        };
        let mut endpoint = Endpoint::new(config, [7; 32]).unwrap();
        let now = world.now;
        let (_, mut connection) = endpoint
            .connect(
                now,
                now.as_nanos(),
                world.server.address,
                world.server_key,
                &[],
            )
            .unwrap();
        exchange(&mut world, &mut connection, &mut endpoint);
        assert!(connection.is_open());
    }
    let stats = world.server.endpoint.stats();
    assert_eq!((stats.accepted, stats.cookies), (90, 26));
}

/// Hellos and answers to and fro at one moment.
fn exchange(world: &mut World, connection: &mut ctcp_proto::Connection, endpoint: &mut Endpoint) {
    let (now, from, server) = (world.now, world.client.address, world.server.address);
    let mut out = Vec::new();
    while !connection.is_open() && connection.poll_transmit(now, &mut out, 1).is_some() {
        let wall = now.as_nanos();
        let _ = world.server.endpoint.handle_datagram(now, wall, from, &out);
        while world.server.endpoint.poll_transmit(&mut out).is_some() {
            if let Verdict::Route { path, .. } = endpoint.handle_datagram(now, wall, server, &out) {
                connection.handle_datagram(now, path, server, None, &mut out.clone());
            }
        }
    }
}

/// Noise and mutilated copies of real datagrams: neither end panics, answers or
/// closes.
#[test]
fn whatever_comes_from_strangers_is_dropped() {
    let mut world = World::new(1, lossy(0.0), lossy(0.0));
    world.connect();
    assert!(world.run_until(seconds(8), connected));
    let mut random = Random::from_seed(base_seed(4));
    let from = "192.0.2.1:7".parse().unwrap();
    let now: Instant = world.now;
    for _ in 0..20_000 {
        let len = [0, 1, 8, 9, 28, 41, 60, 1200, 1472][random.below(9) as usize];
        let mut bytes = vec![0; len];
        random.fill(&mut bytes);
        let end = world.end(Which::Server);
        if let Verdict::Replied | Verdict::Accepted { .. } =
            end.endpoint
                .handle_datagram(now, now.as_nanos(), from, &bytes)
        {
            panic!("answered {bytes:?}");
        }
        for which in [Which::Client, Which::Server] {
            let connection = world.connection(which).unwrap();
            connection.handle_datagram(now, ctcp_units::PathId(0), from, None, &mut bytes.clone());
        }
    }
    world.drain();
    assert_eq!(closed(&mut world, Which::Client), None);
    assert_eq!(closed(&mut world, Which::Server), None);
    let stats = world.connection(Which::Server).unwrap().stats();
    assert!(stats.forged > 5000 && stats.unexpected > 5000, "{stats:#?}");
    assert_eq!(stats.address_changes, 0);
}
