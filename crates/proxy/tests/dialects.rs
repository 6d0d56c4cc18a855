//! Every way to name a target reaches it, and every failure has its code.

mod common;

use std::time::{Duration, Instant};

use common::*;
use ctcp_proxy::forward::{Entry, ForwardConfig};
use ctcp_proxy::reverse::ReverseConfig;
use ctcp_proxy::socks::Credentials;
use ctcp_proxy::stats::FailReason;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test]
async fn socks5_reaches_ipv4_ipv6_and_names() {
    let rig = rig(Plan::default()).await;
    let four = echo().await;
    let six = echo_on("[::1]:0").await;
    for target in [
        four.to_string(),
        six.to_string(),
        format!("web.test:{}", four.port()),
        format!("WEB.test.:{}", four.port()),
    ] {
        let mut tcp = socks5(rig.address, &target).await.expect(&target);
        assert_eq!(exchange(&mut tcp, b"hello").await, b"hello", "{target}");
    }
    let stats = rig.forward.stats().snapshot();
    assert_eq!((stats.accepted, stats.failed_total()), (4, 0));
    assert_eq!((stats.bytes_up, stats.bytes_down), (20, 20));
}

#[tokio::test]
async fn socks4_and_4a_reach_addresses_and_names() {
    let rig = rig(Plan::default()).await;
    let port = echo().await.port().to_be_bytes();
    let four = [&[4, 1][..], &port, &[127, 0, 0, 1], b"user\0"].concat();
    let four_a = [&[4, 1][..], &port, &[0, 0, 0, 7], b"\0web.test\0"].concat();
    for request in [four, four_a] {
        let mut tcp = TcpStream::connect(rig.address).await.expect("listening");
        // The data comes with the request, as a hasty application sends it.
        let bytes = [&request[..], b"hello"].concat();
        let back = exchange(&mut tcp, &bytes).await;
        assert_eq!(back[..2], [0, 0x5A]);
        assert_eq!(&back[8..], b"hello");
    }
    let mut tcp = TcpStream::connect(rig.address).await.expect("listening");
    let port = refusing_port().await.to_be_bytes();
    let request = [&[4, 1][..], &port, &[127, 0, 0, 1], b"\0"].concat();
    let back = exchange(&mut tcp, &request).await;
    assert_eq!(back[..2], [0, 0x5B]);
}

#[tokio::test]
async fn the_next_address_of_a_name_is_tried() {
    let rig = rig(Plan::default()).await;
    // Listens on IPv4 only; the name leads to ::1 first.
    let port = echo().await.port();
    let mut tcp = socks5(rig.address, &format!("twice.test:{port}"))
        .await
        .expect("the second address");
    assert_eq!(exchange(&mut tcp, b"x").await, b"x");
}

#[tokio::test]
async fn each_failure_has_its_code() {
    let plan = Plan {
        deny: vec!["denied.test:*", "127.0.0.9"],
        reverse: ReverseConfig {
            resolve_timeout: Duration::from_millis(100),
            ..ReverseConfig::default()
        },
        ..Plan::default()
    };
    let rig = rig(plan).await;
    let closed = refusing_port().await;
    for (target, code) in [
        (format!("127.0.0.1:{closed}"), 5),
        (format!("web.test:{closed}"), 5),
        ("10.0.0.1:80".to_owned(), 2),
        ("169.254.169.254:80".to_owned(), 2),
        ("[::ffff:10.0.0.1]:80".to_owned(), 2),
        ("[64:ff9b::a00:1]:80".to_owned(), 2),
        ("0.0.0.0:80".to_owned(), 2),
        ("127.0.0.9:80".to_owned(), 2),
        ("private.test:80".to_owned(), 2),
        ("denied.test:80".to_owned(), 2),
        ("metadata.google.internal:80".to_owned(), 2),
        ("unknown.test:80".to_owned(), 4),
        ("slow.test:80".to_owned(), 4),
    ] {
        let got = socks5(rig.address, &target).await.err();
        assert_eq!(got, Some(code), "{target}");
    }
    let stats = rig.reverse.stats().snapshot();
    assert_eq!(stats.failed(FailReason::NotAllowed), 9);
    assert_eq!(stats.failed(FailReason::TargetRefused), 2);
    assert_eq!(stats.failed(FailReason::NameUnknown), 2);
    assert_eq!(stats.active, 0);
}

#[tokio::test]
async fn only_the_judged_addresses_of_a_name_are_connected() {
    let rig = rig(Plan::default()).await;
    let port = echo().await.port();
    let tcp = socks5(rig.address, &format!("mixed.test:{port}")).await;
    let mut tcp = tcp.expect("the allowed one of two addresses");
    assert_eq!(exchange(&mut tcp, b"x").await, b"x");
}

#[tokio::test]
async fn new_rules_hold_from_the_next_request_on() {
    let rig = rig(Plan::default()).await;
    let target = echo().await.to_string();
    let mut kept = socks5(rig.address, &target).await.expect("allowed");
    rig.reverse.set_policy(Default::default());
    assert_eq!(socks5(rig.address, &target).await.err(), Some(2));
    assert_eq!(exchange(&mut kept, b"stays").await, b"stays");
}

#[tokio::test]
async fn a_password_is_required_and_checked() {
    let credentials = Credentials::new("anna", "secret").expect("lengths fit");
    let plan = Plan {
        forward: ForwardConfig {
            credentials: Some(credentials),
            ..ForwardConfig::default()
        },
        ..Plan::default()
    };
    let rig = rig(plan).await;
    let target = echo().await.to_string().parse().expect("a target");
    for (password, admitted) in [(&b"secret"[..], true), (b"wrong!", false)] {
        let mut tcp = TcpStream::connect(rig.address).await.expect("listening");
        tcp.write_all(&[5, 2, 0, 2]).await.expect("open");
        let mut answer = [0; 2];
        tcp.read_exact(&mut answer).await.expect("a method");
        assert_eq!(answer, [5, 2]);
        let login = [&b"\x01\x04anna\x06"[..], password].concat();
        tcp.write_all(&login).await.expect("open");
        tcp.read_exact(&mut answer).await.expect("a verdict");
        if admitted {
            assert_eq!(answer, [1, 0]);
            tcp.write_all(&socks5_request(&target)).await.expect("open");
            assert_eq!(socks5_reply(&mut tcp).await, 0);
            assert_eq!(exchange(&mut tcp, b"in").await, b"in");
        } else {
            assert_eq!(answer, [1, 1]);
            assert_eq!(exchange(&mut tcp, b"").await, b"");
        }
    }
    let stats = rig.forward.stats().snapshot();
    assert_eq!(stats.failed(FailReason::BadPassword), 1);
}

#[tokio::test]
async fn other_commands_get_code_7() {
    let rig = rig(Plan::default()).await;
    for command in [2, 4] {
        let mut tcp = TcpStream::connect(rig.address).await.expect("listening");
        let request = [5, 1, 0, 5, command, 0, 1, 0, 0, 0, 0, 0, 0];
        let back = exchange(&mut tcp, &request).await;
        assert_eq!(back[..4], [5, 0, 5, 7]);
    }
}

#[tokio::test]
async fn a_port_forward_needs_no_socks_and_does_not_wait() {
    let port = echo().await.port();
    let target = format!("web.test:{port}").parse().expect("a target");
    let rig = rig(Plan {
        entry: Entry::Fixed(target),
        ..Plan::default()
    })
    .await;
    let mut tcp = TcpStream::connect(rig.address).await.expect("listening");
    assert_eq!(exchange(&mut tcp, b"hello").await, b"hello");
}

#[tokio::test]
async fn a_port_forward_to_a_closed_port_is_reset() {
    let port = refusing_port().await;
    let rig = rig(Plan {
        entry: Entry::Fixed(format!("127.0.0.1:{port}").parse().expect("a target")),
        ..Plan::default()
    })
    .await;
    let mut tcp = TcpStream::connect(rig.address).await.expect("listening");
    assert_reset(&mut tcp).await;
    let stats = rig.forward.stats();
    eventually("the refusal is counted", || {
        stats.snapshot().failed(FailReason::TargetRefused) == 1
    })
    .await;
}

#[tokio::test]
async fn without_a_tunnel_the_reply_comes_within_seconds() {
    let patience = Duration::from_millis(200);
    let rig = rig(Plan {
        forward: ForwardConfig {
            open_timeout: patience,
            ..ForwardConfig::default()
        },
        ..Plan::default()
    })
    .await;
    rig.forward.tunnel().fall_silent();
    let started = Instant::now();
    assert_eq!(socks5(rig.address, "web.test:80").await.err(), Some(4));
    let took = started.elapsed();
    assert!(
        took >= patience && took < Duration::from_secs(5),
        "{took:?}"
    );

    rig.forward.tunnel().refuse();
    assert_eq!(socks5(rig.address, "web.test:80").await.err(), Some(2));

    let stats = rig.forward.stats().snapshot();
    assert_eq!(stats.failed(FailReason::NoAnswer), 1);
    assert_eq!(stats.failed(FailReason::RefusedByServer), 1);
}

#[tokio::test]
async fn a_tunnel_that_ended_is_a_general_failure() {
    let rig = rig(Plan::default()).await;
    rig.reverse_task.abort();
    let _ = rig.reverse_task.await;
    assert_eq!(socks5(rig.address, "web.test:80").await.err(), Some(1));
    let stats = rig.forward.stats().snapshot();
    assert_eq!(stats.failed(FailReason::TunnelClosed), 1);
}

#[tokio::test]
async fn who_says_nothing_is_let_go() {
    let rig = rig(Plan {
        forward: ForwardConfig {
            handshake_timeout: Duration::from_millis(100),
            ..ForwardConfig::default()
        },
        ..Plan::default()
    })
    .await;
    let mut tcp = TcpStream::connect(rig.address).await.expect("listening");
    tcp.write_all(&[5, 200]).await.expect("open");
    let mut rest = Vec::new();
    let read = tokio::time::timeout(SOON, tcp.read_to_end(&mut rest)).await;
    let _ = read.expect("the proxy holds on to a silent application");
    assert!(rest.is_empty());
}
