//! Associations for UDP through both proxies: names, limits, ends.

mod common;

use std::net::SocketAddr;
use std::time::Duration;

use common::{Plan, SOON, rig};
use ctcp_proxy::forward::ForwardConfig;
use ctcp_proxy::reverse::ReverseConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::{Instant, sleep, timeout};

/// Asks for an association; the connection and its UDP address, or the reply code.
async fn associate(proxy: SocketAddr) -> Result<(TcpStream, SocketAddr), u8> {
    let mut tcp = TcpStream::connect(proxy).await.expect("it listens");
    tcp.write_all(&[5, 1, 0, 5, 3, 0, 1, 0, 0, 0, 0, 0, 0])
        .await
        .expect("open");
    let mut answer = [0; 12];
    tcp.read_exact(&mut answer).await.expect("an answer");
    if answer[3] != 0 {
        return Err(answer[3]);
    }
    let port = u16::from_be_bytes([answer[10], answer[11]]);
    let ip: [u8; 4] = answer[6..10].try_into().expect("four bytes");
    Ok((tcp, SocketAddr::from((ip, port))))
}

/// A socket that sends back what comes.
async fn echo() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("loopback");
    let address = socket.local_addr().expect("bound");
    tokio::spawn(async move {
        let mut buf = [0; 2048];
        while let Ok((len, from)) = socket.recv_from(&mut buf).await {
            let _ = socket.send_to(&buf[..len], from).await;
        }
    });
    address
}

/// Sends until an answer comes, and returns what follows its prefix.
async fn answered(udp: &UdpSocket, to: SocketAddr, datagram: &[u8]) -> Vec<u8> {
    let mut buf = [0; 2048];
    let trying = async {
        loop {
            udp.send_to(datagram, to).await.expect("sent");
            let pause = Duration::from_millis(500);
            if let Ok(Ok((len, _))) = timeout(pause, udp.recv_from(&mut buf)).await {
                return buf[3..len].to_vec();
            }
        }
    };
    timeout(SOON * 3, trying).await.expect("an answer")
}

#[tokio::test]
async fn names_are_resolved_and_judged_at_the_far_side() {
    let rig = rig(Plan::default()).await;
    let target = echo().await;
    let (_tcp, proxy) = associate(rig.address).await.expect("an association");
    let udp = UdpSocket::bind("127.0.0.1:0").await.expect("loopback");
    let named = |name: &str, data: &[u8]| {
        let mut bytes = vec![0, 0, 0, 3, name.len() as u8];
        bytes.extend(name.as_bytes());
        bytes.extend(target.port().to_be_bytes());
        bytes.extend(data);
        bytes
    };
    // Neither is answered: one is private, one does not exist.
    for name in ["private.test", "nowhere.test"] {
        udp.send_to(&named(name, b"no"), proxy).await.expect("sent");
    }
    let answer = answered(&udp, proxy, &named("web.test", b"query")).await;
    let mut expected = vec![1, 127, 0, 0, 1];
    expected.extend(target.port().to_be_bytes());
    expected.extend(b"query");
    assert_eq!(answer, expected);
    let seen = rig.client.snapshot();
    assert!(seen.bytes_up > 0 && seen.bytes_down >= 5, "{seen:?}");
    let (streams, _) = rig.reverse.stats().streams().newest(9);
    assert_eq!(streams[0].target.to_string(), "udp:0");
}

#[tokio::test]
async fn associations_have_a_limit_at_either_side() {
    for (near, far) in [(2, 100), (100, 2)] {
        let rig = rig(Plan {
            forward: ForwardConfig {
                associations_max: near,
                ..ForwardConfig::default()
            },
            reverse: ReverseConfig {
                associations_max: far,
                ..ReverseConfig::default()
            },
            ..Plan::default()
        })
        .await;
        let first = associate(rig.address).await.expect("one");
        let _second = associate(rig.address).await.expect("two");
        assert_eq!(associate(rig.address).await.err(), Some(1), "{near} {far}");
        drop(first);
        let begun = Instant::now();
        while let Err(code) = associate(rig.address).await {
            assert_eq!(code, 1);
            assert!(begun.elapsed() < SOON * 3, "the place is never free");
            sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn an_association_counts_as_a_stream_of_its_client() {
    let rig = rig(Plan {
        limits: "streams=1",
        ..Plan::default()
    })
    .await;
    let _first = associate(rig.address).await.expect("one");
    assert_eq!(associate(rig.address).await.err(), Some(1));
}

#[tokio::test]
async fn what_is_no_datagram_of_the_application_is_dropped() {
    let rig = rig(Plan::default()).await;
    let target = echo().await;
    let (tcp, proxy) = associate(rig.address).await.expect("an association");
    let udp = UdpSocket::bind("127.0.0.1:0").await.expect("loopback");
    let mut datagram = vec![0, 0, 0, 1, 127, 0, 0, 1];
    datagram.extend(target.port().to_be_bytes());
    for stump in 0..datagram.len() {
        udp.send_to(&datagram[..stump], proxy).await.expect("sent");
    }
    datagram.extend(b"mine");
    let answer = answered(&udp, proxy, &datagram).await;
    assert!(answer.ends_with(b"mine"));
    // Another program's datagrams are not the application's.
    let other = UdpSocket::bind("127.0.0.1:0").await.expect("loopback");
    other.send_to(&datagram, proxy).await.expect("sent");
    let answer = answered(&udp, proxy, &datagram).await;
    assert!(answer.ends_with(b"mine"));
    assert!(other.try_recv(&mut [0; 9]).is_err());
    // Without its TCP connection the association has no port.
    drop(tcp);
    udp.connect(proxy).await.expect("loopback");
    let begun = Instant::now();
    while udp.send(&datagram).await.is_ok() {
        assert!(begun.elapsed() < SOON * 3, "the port stays open");
        sleep(Duration::from_millis(20)).await;
    }
}
