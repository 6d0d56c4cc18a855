//! The relay with real sockets on loopback.

mod common;

use std::io::IoSliceMut;
use std::net::{Ipv6Addr, SocketAddr, UdpSocket};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use common::{Echo, PATIENCE, client_of, eventually, loopback, relay_to, socket, wire};
use ctcp_emu::{LinkConfig, Relay, RelayConfig, RelayError};
use ctcp_link::{LossModel, QueueSize};
use ctcp_units::{LossRate, Rate, millis};
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};

fn ping(client: &UdpSocket, bytes: &[u8]) -> Vec<u8> {
    client.send(bytes).expect("sent");
    let mut space = [0; 65_536];
    let len = client.recv(&mut space).expect("an answer");
    space[..len].to_vec()
}

#[test]
fn datagrams_of_all_lengths_come_back_unchanged() {
    let echo = Echo::start();
    let relay = relay_to(echo.addr, wire(), wire());
    let client = client_of(&relay);
    for len in [0, 1, 2, 500, 1472, 1473, 9000, 60_000] {
        let bytes: Vec<u8> = (0..len).map(|index| (index * 7 % 251) as u8).collect();
        assert_eq!(ping(&client, &bytes), bytes, "{len} bytes");
    }
    let counters = relay.stop().unwrap();
    assert_eq!(counters.up.delivered, 8);
    assert_eq!(counters.down.delivered, 8);
    let payload_bytes = 1 + 2 + 500 + 1472 + 1473 + 9000 + 60_000;
    assert_eq!(counters.up.delivered_bytes, payload_bytes + 8 * 28);
    assert_eq!((counters.clients_seen, counters.send_errors), (1, 0));
}

#[test]
fn ipv6_is_relayed_and_charged_for_its_header() {
    let any: SocketAddr = (Ipv6Addr::LOCALHOST, 0).into();
    let Ok(target) = UdpSocket::bind(any) else {
        println!("skipped: this machine has no IPv6 loopback");
        return;
    };
    let echo = Echo::on(target);
    let relay = Relay::spawn(RelayConfig::new(any, echo.addr, wire(), wire())).unwrap();
    let client = UdpSocket::bind(any).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.connect(relay.local_addr()).unwrap();
    assert_eq!(ping(&client, b"six"), b"six");
    assert_eq!(relay.counters().unwrap().down.delivered_bytes, 3 + 48);
}

/// Sends `count` datagrams of `len` bytes, not so fast that a buffer of the
/// system overflows.
fn send_many(client: &UdpSocket, count: u32, len: usize) {
    for index in 0..count {
        client.send(&vec![index as u8; len]).expect("sent");
        if index % 10 == 0 {
            std::thread::sleep(millis(1));
        }
    }
}

/// Receives `count` datagrams, or fewer if [`PATIENCE`] ends; the moment of each.
fn receive_many(target: UdpSocket, count: u32) -> JoinHandle<Vec<Instant>> {
    std::thread::spawn(move || {
        let mut space = [0; 2000];
        (0..count)
            .map_while(|_| target.recv(&mut space).ok().map(|_| Instant::now()))
            .collect()
    })
}

#[test]
fn the_share_of_losses_is_about_right_and_every_datagram_is_accounted_for() {
    let target = socket();
    let lossy = wire().loss(LossModel::Bernoulli(LossRate::clamped(0.2)));
    let relay = relay_to(target.local_addr().unwrap(), lossy, wire());
    let client = client_of(&relay);
    let deadline = Instant::now() + PATIENCE;
    let mut arrived = 0;
    for sent in (50..=2000).step_by(50) {
        send_many(&client, 50, 100);
        while relay.counters().unwrap().up.offered < sent {
            assert!(Instant::now() < deadline, "a datagram went astray");
        }
        while arrived < relay.counters().unwrap().up.delivered {
            target.recv(&mut [0; 200]).expect("a datagram sent");
            arrived += 1;
        }
    }
    target.set_read_timeout(Some(millis(20))).unwrap();
    assert!(target.recv(&mut [0; 200]).is_err(), "one too many");
    let counters = relay.stop().unwrap();
    assert_eq!(counters.up.offered, 2000);
    assert!(counters.up.is_conserved());
    assert_eq!(counters.up.delivered, 2000 - counters.up.lost());
    // A deviation of 0.9 %: 5 sigma and more.
    assert!((310..=490).contains(&counters.up.lost()), "{counters:?}");
}

#[test]
fn the_rate_is_met_within_two_percent() {
    eventually(20, || {
        let target = socket();
        let slow = LinkConfig::new(Rate::mbit(20), millis(1)).queue(QueueSize::Packets(2000));
        let relay = relay_to(target.local_addr().unwrap(), slow, wire());
        let arrivals = receive_many(target, 1000);
        send_many(&client_of(&relay), 1000, 1222);
        let arrivals = arrivals.join().unwrap();
        if arrivals.len() < 1000 {
            return Err(format!("only {} arrived", arrivals.len()));
        }
        // 999 packets of 1250 bytes with headers, 500 µs each.
        let measured = Rate::from_bytes_in(999 * 1250, arrivals[999] - arrivals[0]).as_mbit();
        if (19.6..=20.4).contains(&measured) {
            Ok(())
        } else {
            Err(format!("{measured} Mbit/s"))
        }
    });
}

#[test]
fn the_delay_is_kept_and_met_within_a_millisecond() {
    let echo = Echo::start();
    let relay = relay_to(
        echo.addr,
        LinkConfig::unlimited(millis(20)),
        LinkConfig::unlimited(millis(10)),
    );
    let client = client_of(&relay);
    eventually(20, || {
        let shortest = (0..20)
            .map(|_| {
                let start = Instant::now();
                ping(&client, b"ping");
                start.elapsed()
            })
            .min()
            .expect("20 pings");
        assert!(shortest >= millis(30), "{shortest:?} is too short");
        if shortest < millis(31) {
            Ok(())
        } else {
            Err(shortest)
        }
    });
}

/// Receives one datagram with its ECN bits.
fn receive_ecn(socket: &UdpSocket, state: &UdpSocketState) -> Option<EcnCodepoint> {
    let mut space = [0; 65_536];
    let mut meta = [RecvMeta::default()];
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut slices = [IoSliceMut::new(&mut space)];
        match state.recv(socket.into(), &mut slices, &mut meta) {
            Ok(_) => return meta[0].ecn,
            Err(error) => {
                assert!(Instant::now() < deadline, "nothing received: {error}");
                std::thread::sleep(millis(1));
            }
        }
    }
}

#[test]
fn ecn_bits_go_through_and_the_marks_of_the_queue_are_added() {
    let target = UdpSocket::bind(loopback()).unwrap();
    let target_state = UdpSocketState::new((&target).into()).unwrap();
    // Each takes 100 ms: the second and third of three wait behind the first.
    let marking = LinkConfig::new(Rate::kbit(20), millis(0))
        .queue(QueueSize::Packets(10))
        .ecn_threshold(QueueSize::Packets(2));
    let relay = relay_to(target.local_addr().unwrap(), marking, wire());
    let client = socket();
    let client_state = UdpSocketState::new((&client).into()).unwrap();
    let send = |ecn| {
        let transmit = Transmit {
            destination: relay.local_addr(),
            ecn,
            contents: &[7; 222],
            segment_size: None,
            src_ip: None,
        };
        client_state.try_send((&client).into(), &transmit).unwrap();
    };
    use EcnCodepoint::{Ce, Ect0, Ect1};
    for ecn in [Some(Ect1), Some(Ect0), Some(Ect0), None] {
        send(ecn);
    }
    let ecns: Vec<_> = (0..4)
        .map(|_| receive_ecn(&target, &target_state))
        .collect();
    assert_eq!(ecns, [Some(Ect1), Some(Ect0), Some(Ce), None]);
    assert_eq!(relay.counters().unwrap().up.marked, 1);
}

#[test]
fn ecn_bits_come_back_from_the_target_too() {
    let target = socket();
    let relay = relay_to(target.local_addr().unwrap(), wire(), wire());
    let client = client_of(&relay);
    client.send(b"hello").unwrap();
    let (_, upstream) = target.recv_from(&mut [0; 9]).unwrap();
    let client_state = UdpSocketState::new((&client).into()).unwrap();
    let target_state = UdpSocketState::new((&target).into()).unwrap();
    let transmit = Transmit {
        destination: upstream,
        ecn: Some(EcnCodepoint::Ce),
        contents: b"back",
        segment_size: None,
        src_ip: None,
    };
    target_state.try_send((&target).into(), &transmit).unwrap();
    assert_eq!(receive_ecn(&client, &client_state), Some(EcnCodepoint::Ce));
}

/// Sends ten datagrams joined; nothing if the kernel does not do that.
fn send_joined(socket: &UdpSocket, destination: SocketAddr) -> Option<()> {
    let state = UdpSocketState::new(socket.into()).unwrap();
    if state.max_gso_segments() == 1 {
        eprintln!("SKIPPED: this kernel does not send datagrams joined");
        return None;
    }
    let transmit = Transmit {
        destination,
        ecn: Some(EcnCodepoint::Ect0),
        contents: &[7; 1000],
        segment_size: Some(100),
        src_ip: None,
    };
    state.try_send(socket.into(), &transmit).unwrap();
    Some(())
}

/// The kernel hands datagrams that were sent together over joined, with more to
/// say about them than the receive call has room for. The queue marks all but the
/// first two, if it sees that they may be marked.
fn marks_of_joined_datagrams(listen: SocketAddr, is_up: bool) {
    let target = socket();
    let marking = LinkConfig::new(Rate::kbit(20), millis(0))
        .queue(QueueSize::Packets(100))
        .ecn_threshold(QueueSize::Packets(2));
    let (up, down) = match is_up {
        true => (marking, wire()),
        false => (wire(), marking),
    };
    let config = RelayConfig::new(listen, target.local_addr().unwrap(), up, down);
    let relay = Relay::spawn(config).unwrap();
    let front = SocketAddr::from(([127, 0, 0, 1], relay.local_addr().port()));
    let client = socket();
    let sent = if is_up {
        send_joined(&client, front)
    } else {
        client.send_to(b"who", front).unwrap();
        let (_, back) = target.recv_from(&mut [0; 9]).unwrap();
        send_joined(&target, back)
    };
    if sent.is_none() {
        return;
    }
    let deadline = Instant::now() + PATIENCE;
    loop {
        let counters = relay.counters().unwrap();
        if counters.up.marked + counters.down.marked >= 8 {
            return;
        }
        assert!(Instant::now() < deadline, "{counters:?}");
        std::thread::sleep(millis(5));
    }
}

#[test]
fn ecn_bits_of_joined_datagrams_are_not_lost() {
    marks_of_joined_datagrams(loopback(), true);
}

#[test]
fn ecn_bits_of_joined_datagrams_are_not_lost_on_all_addresses() {
    marks_of_joined_datagrams(([0, 0, 0, 0], 0).into(), true);
}

#[test]
fn ecn_bits_of_joined_datagrams_come_back_from_the_target_too() {
    marks_of_joined_datagrams(loopback(), false);
}

#[test]
fn rebinding_changes_the_port_that_the_target_sees() {
    let target = socket();
    let relay = relay_to(target.local_addr().unwrap(), wire(), wire());
    let client = client_of(&relay);
    let mut space = [0; 9];
    let mut seen_from = || {
        client.send(b"who").unwrap();
        let (_, from) = target.recv_from(&mut space).unwrap();
        target.send_to(b"you", from).unwrap();
        let mut answer = [0; 9];
        assert_eq!(client.recv(&mut answer).unwrap(), 3);
        from
    };
    let before = seen_from();
    assert_eq!(seen_from(), before);
    assert_eq!(relay.rebind().unwrap(), 1);
    let after = seen_from();
    assert_ne!(after, before);
    assert_eq!(seen_from(), after);
    assert_eq!(relay.counters().unwrap().clients, 1);
}

#[test]
fn one_percent_of_corruption_flips_bits_of_one_percent() {
    let target = socket();
    let relay = relay_to(
        target.local_addr().unwrap(),
        wire().corruption(0.01),
        wire(),
    );
    let client = client_of(&relay);
    let sent = [0x5a; 300];
    let mut space = [0; 400];
    let mut changed = 0;
    for _ in 0..2000 {
        client.send(&sent).unwrap();
        let len = target.recv(&mut space).unwrap();
        assert_eq!(len, sent.len());
        changed += u64::from(space[..len] != sent);
    }
    assert_eq!(relay.stop().unwrap().up.corrupted, changed);
    assert!((4..=45).contains(&changed), "{changed} of 2000");
}

#[test]
fn a_target_that_is_not_there_does_not_end_the_relay() {
    let absent = socket();
    let addr = absent.local_addr().unwrap();
    drop(absent);
    let relay = relay_to(addr, wire(), wire());
    let client = client_of(&relay);
    for _ in 0..20 {
        client.send(b"anybody?").unwrap();
        std::thread::sleep(millis(2));
    }
    assert!(relay.counters().unwrap().target_refused > 0);
    let Ok(target) = UdpSocket::bind(addr) else {
        println!("skipped: the port was taken meanwhile");
        return;
    };
    let _echo = Echo::on(target);
    // An answer to the last attempt may still count against the first of these.
    client.set_read_timeout(Some(millis(500))).unwrap();
    let mut space = [0; 9];
    let is_answered = (0..20).any(|_| {
        client.send(b"now?").unwrap();
        client.recv(&mut space).is_ok()
    });
    assert!(is_answered);
}

#[test]
fn links_change_under_way() {
    let echo = Echo::start();
    let dead = wire().loss(LossModel::Bernoulli(LossRate::ONE));
    let relay = relay_to(echo.addr, dead, wire());
    let client = client_of(&relay);
    client.set_read_timeout(Some(millis(50))).unwrap();
    client.send(b"lost").unwrap();
    assert!(client.recv(&mut [0; 9]).is_err());
    relay
        .reconfigure(LinkConfig::unlimited(millis(5)), wire())
        .unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let start = Instant::now();
    assert_eq!(ping(&client, b"found"), b"found");
    assert!(start.elapsed() >= millis(5));
    let refused = relay.reconfigure(wire().mtu(0), wire());
    assert!(matches!(refused, Err(RelayError::Up(_))));
    assert_eq!(relay.stop().unwrap().up.lost_before, 1);
}

#[test]
fn each_of_many_clients_gets_its_own_answers_and_the_limit_holds() {
    let echo = Echo::start();
    let mut config = RelayConfig::new(loopback(), echo.addr, wire(), wire());
    config.clients_max = 30;
    let relay = Relay::spawn(config).unwrap();
    let clients: Vec<UdpSocket> = (0..40).map(|_| client_of(&relay)).collect();
    for (index, client) in clients.iter().enumerate() {
        assert_eq!(ping(client, &[index as u8; 9]), [index as u8; 9]);
    }
    // The first ten had to give way, and come back as new ones.
    assert_eq!(ping(&clients[0], b"again"), b"again");
    let counters = relay.counters().unwrap();
    assert_eq!((counters.clients, counters.clients_seen), (30, 41));
    assert_eq!(counters.clients_evicted, 11);
}

#[test]
fn a_silent_client_is_forgotten() {
    let echo = Echo::start();
    let mut config = RelayConfig::new(loopback(), echo.addr, wire(), wire());
    config.idle_timeout = millis(1);
    let relay = Relay::spawn(config).unwrap();
    let client = client_of(&relay);
    // No answer is waited for: it may come too late.
    client.send(b"here").expect("sent");
    let deadline = Instant::now() + PATIENCE;
    while relay.counters().unwrap().clients_expired == 0 {
        assert!(Instant::now() < deadline, "still there");
        std::thread::sleep(millis(50));
    }
    assert_eq!(relay.counters().unwrap().clients, 0);
}

#[test]
fn what_cannot_work_is_refused_by_name() {
    let target = socket().local_addr().unwrap();
    let spawn = |listen: SocketAddr, target: SocketAddr| {
        Relay::spawn(RelayConfig::new(listen, target, wire(), wire())).map(|_| ())
    };
    let taken = socket();
    let taken_addr = taken.local_addr().unwrap();
    let error = spawn(taken_addr, target).unwrap_err();
    assert!(matches!(error, RelayError::Listen { addr, .. } if addr == taken_addr));
    assert!(error.to_string().contains("pick a free port"), "{error}");
    let foreign = ([203, 0, 113, 1], 4500).into();
    assert!(matches!(
        spawn(foreign, target),
        Err(RelayError::Listen { .. })
    ));
    let nowhere = ([127, 0, 0, 1], 0).into();
    assert!(matches!(
        spawn(loopback(), nowhere),
        Err(RelayError::Target { .. })
    ));
    drop(taken);
    assert!(matches!(
        spawn(taken_addr, taken_addr),
        Err(RelayError::Loop { .. })
    ));
    let bad_link = RelayConfig::new(loopback(), target, wire(), wire().corruption(2.0));
    assert!(matches!(Relay::spawn(bad_link), Err(RelayError::Down(_))));
}

#[test]
fn a_stopped_or_dropped_relay_frees_its_port() {
    let target = socket().local_addr().unwrap();
    let relay = relay_to(target, wire(), wire());
    let addr = relay.local_addr();
    assert!(UdpSocket::bind(addr).is_err());
    relay.stop().unwrap();
    let again = RelayConfig::new(addr, target, wire(), wire());
    drop(Relay::spawn(again).expect("the port is free"));
    UdpSocket::bind(addr).expect("the port is free again");
}

#[test]
fn an_answer_comes_from_the_address_that_was_written_to() {
    let echo = Echo::start();
    let any = ([0, 0, 0, 0], 0).into();
    let relay = Relay::spawn(RelayConfig::new(any, echo.addr, wire(), wire())).unwrap();
    let port = relay.local_addr().port();
    for host in [1, 2] {
        // A connected socket takes answers from nowhere else.
        let client = socket();
        client
            .connect(SocketAddr::from(([127, 0, 0, host], port)))
            .unwrap();
        assert_eq!(ping(&client, b"you?"), b"you?");
    }
}

#[test]
fn a_handle_can_be_shared_between_threads() {
    fn is_shareable<T: Send + Sync + 'static>() {}
    is_shareable::<ctcp_emu::RelayHandle>();
}

#[test]
fn a_burst_that_is_due_at_once_arrives_whole_and_in_order() {
    let target = socket();
    let relay = relay_to(
        target.local_addr().unwrap(),
        LinkConfig::unlimited(Duration::from_millis(30)),
        wire(),
    );
    let client = client_of(&relay);
    // Lengths rise and fall, so that batches are cut at every kind of place. All
    // of them fit into the receive buffer of an ordinary socket.
    let lengths: Vec<usize> = (0..60).map(|index| 40 + (index / 7 % 5) * 100).collect();
    for (index, &len) in lengths.iter().enumerate() {
        client.send(&vec![index as u8; len]).unwrap();
    }
    let mut space = [0; 2000];
    for (index, &len) in lengths.iter().enumerate() {
        assert_eq!(target.recv(&mut space).unwrap(), len, "datagram {index}");
        assert_eq!(space[0], index as u8);
    }
}
