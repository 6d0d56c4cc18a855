use std::future::poll_fn;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;

fn socket(local: &str) -> Socket {
    let local = local.parse().expect("an address");
    Socket::bind(local, None, &SocketConfig::default(), Arc::default()).expect("a free port")
}

async fn send_all(socket: &Socket, outgoing: Outgoing<'_>) {
    let mut rest = outgoing.contents;
    while !rest.is_empty() {
        let contents = rest;
        let sent = socket.send(&Outgoing {
            contents,
            ..outgoing
        });
        rest = &rest[sent.bytes..];
        if !rest.is_empty() {
            poll_fn(|cx| socket.poll_writable(cx)).await;
        }
    }
}

/// Lengths and marks of the next datagrams, `count` of them.
async fn receive(socket: &Socket, count: usize) -> Vec<(usize, Option<Ecn>)> {
    let mut lots = Lots::new();
    let mut seen = Vec::new();
    while seen.len() < count {
        let filled = poll_fn(|cx| socket.poll_receive(cx, &mut lots)).await;
        for lot in lots.filled(filled) {
            let ecn = lot.ecn;
            seen.extend(lot.bytes.chunks(lot.segment_len).map(|d| (d.len(), ecn)));
        }
    }
    seen
}

#[tokio::test]
async fn a_batch_arrives_as_the_datagrams_it_is_made_of() {
    let (sender, receiver) = (socket("127.0.0.1:0"), socket("127.0.0.1:0"));
    // More than one call may take.
    let contents = vec![7; 100 * 1200 + 300];
    send_all(
        &sender,
        Outgoing {
            remote: receiver.local_addr(),
            source: None,
            ecn: Some(Ecn::Ect0),
            contents: &contents,
            segment_len: 1200,
        },
    )
    .await;
    let seen = receive(&receiver, 101).await;
    let mut expected = vec![(1200, Some(Ecn::Ect0)); 100];
    expected.push((300, Some(Ecn::Ect0)));
    assert_eq!(seen, expected);
    let stats = sender.counters.read();
    assert_eq!(stats.datagrams_sent, 101);
    assert_eq!(stats.bytes_sent, 100 * 1200 + 300);
    assert!(receiver.counters.read().receive_buffer_bytes > 0);
}

#[tokio::test]
async fn a_socket_for_ipv6_reaches_ipv4() {
    let Ok(sender) = Socket::bind(
        (Ipv6Addr::UNSPECIFIED, 0).into(),
        None,
        &SocketConfig::default(),
        Arc::default(),
    ) else {
        eprintln!("skipped: no IPv6 here");
        return;
    };
    let receiver = socket("127.0.0.1:0");
    send_all(
        &sender,
        Outgoing {
            remote: receiver.local_addr(),
            source: Some(Ipv4Addr::LOCALHOST.into()),
            ecn: None,
            contents: &[1; 50],
            segment_len: 50,
        },
    )
    .await;
    let mut lots = Lots::new();
    poll_fn(|cx| receiver.poll_receive(cx, &mut lots)).await;
    let lot = lots.filled(1).next().expect("one was received");
    assert_eq!(lot.from.ip(), IpAddr::from(Ipv4Addr::LOCALHOST));
    assert_eq!(lot.to, Some(Ipv4Addr::LOCALHOST.into()));
}

#[tokio::test]
async fn a_datagram_too_long_for_the_path_is_a_loss_and_no_error() {
    let (sender, receiver) = (socket("127.0.0.1:0"), socket("127.0.0.1:0"));
    let contents = vec![0; 65_535];
    let outgoing = Outgoing {
        remote: receiver.local_addr(),
        source: None,
        ecn: None,
        contents: &contents,
        segment_len: contents.len(),
    };
    // The first call may find that the reactor has not seen the socket yet.
    send_all(&sender, outgoing).await;
    assert_eq!(sender.counters.read().send_errors, 1);
    assert_eq!(sender.counters.read().datagrams_sent, 0);
}

#[tokio::test]
async fn nobody_listening_is_no_error() {
    let sender = socket("127.0.0.1:0");
    let nobody = socket("127.0.0.1:0").local_addr();
    for _ in 0..3 {
        let outgoing = Outgoing {
            remote: nobody,
            source: None,
            ecn: None,
            contents: &[0; 10],
            segment_len: 10,
        };
        send_all(&sender, outgoing).await;
    }
    assert_eq!(sender.counters.read().send_errors, 0);
}

#[test]
fn what_a_socket_reaches_is_known_before_it_sends() {
    let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
    assert!(reaches(address("0.0.0.0:1"), address("1.2.3.4:5")));
    assert!(reaches(address("0.0.0.0:1"), address("[::ffff:1.2.3.4]:5")));
    assert!(!reaches(address("0.0.0.0:1"), address("[::1]:5")));
    assert!(reaches(address("[::]:1"), address("1.2.3.4:5")));
    assert!(reaches(address("[::]:1"), address("[::1]:5")));
    assert!(!reaches(address("[::1]:1"), address("1.2.3.4:5")));
}
