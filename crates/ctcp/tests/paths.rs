//! Several paths through real sockets, each with a network of its own between.
#![cfg(target_os = "linux")]

mod common;

use std::net::SocketAddr;
use std::time::Duration;

use common::{Pair, bytes, carry, in_time, server};
use ctcp::{
    ClosePathError, Connection, OpenPathError, PathConfig, PathEvent, PathId, PathOptions,
    PathState,
};
use ctcp_emu::relay::RelayHandle;
use ctcp_emu::{LinkConfig, Relay, RelayConfig};
use ctcp_units::{Rate, millis};

fn any() -> SocketAddr {
    common::LOOPBACK.parse().unwrap()
}

/// A network of 20 Mbit/s and 20 ms that leads to `server`.
fn relay(server: SocketAddr, seed: u64) -> RelayHandle {
    let link = LinkConfig::new(Rate::mbit(20), millis(10)).queue_bdp(1.0, millis(20));
    let config = RelayConfig::new(any(), server, link.clone(), link).seed(seed);
    Relay::spawn(config).unwrap()
}

async fn event(connection: &Connection, expected: PathEvent) {
    while let Some(event) = connection.path_event().await {
        if event == expected {
            return;
        }
    }
    panic!("the connection ended before {expected:?}");
}

/// A connection over two networks.
async fn bonded() -> (Pair, RelayHandle, RelayHandle, PathId) {
    let server = server();
    let address = server.local_addr();
    let (first, second) = (relay(address, 1), relay(address, 2));
    let pair = Pair::through(server, first.local_addr()).await;
    let config = PathConfig::new(any(), second.local_addr());
    let path = pair.near.open_path(&config).unwrap();
    event(&pair.near, PathEvent::Validated(path)).await;
    event(&pair.far, PathEvent::Validated(path)).await;
    (pair, first, second, path)
}

#[tokio::test(flavor = "multi_thread")]
async fn two_networks_carry_one_stream() {
    in_time(async {
        let (pair, first, second, path) = bonded().await;
        let (mut near, mut far) = pair.stream(b"go").await;
        let data = bytes(1, 8 << 20);
        carry(&mut far, &mut near, &data).await;
        for relay in [&first, &second] {
            let down = relay.counters().unwrap().down;
            println!("{down:?}");
        }
        let sent: Vec<_> = pair.far.paths().iter().map(|p| p.packets_sent).collect();
        assert!(sent.iter().all(|count| *count > 1000), "{sent:?}");
        let paths = pair.near.paths();
        assert_eq!(paths[1].id, path);
        assert_ne!(paths[0].local, paths[1].local);
        // Where the machine is late, a path looks silent for a moment.
        while !(pair.near.paths().iter()).all(|path| path.state == PathState::Active) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_dies_takes_no_byte_along() {
    in_time(async {
        let (pair, first, _second, path) = bonded().await;
        let (mut near, mut far) = pair.stream(b"go").await;
        let data = bytes(2, 8 << 20);
        let death = async {
            tokio::time::sleep(Duration::from_millis(700)).await;
            first.stop().unwrap();
        };
        tokio::join!(carry(&mut far, &mut near, &data), death);
        event(&pair.far, PathEvent::Down(PathId(0))).await;
        pair.near.close_path(PathId(0)).unwrap();
        event(&pair.near, PathEvent::Closed(PathId(0))).await;
        event(&pair.far, PathEvent::Closed(PathId(0))).await;
        assert_eq!(
            pair.near.close_path(path),
            Err(ClosePathError::Last(path)),
            "one has to stay"
        );
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_a_path_is_named_and_the_rest_carries_on() {
    in_time(async {
        let pair = Pair::new().await;
        let remote = pair.server.local_addr();
        let near = &pair.near;
        let open = |config: PathConfig| near.open_path(&config).unwrap_err();

        let not_ours = PathConfig::new("192.0.2.1:0".parse().unwrap(), remote);
        let error = open(not_ours);
        assert!(matches!(error, OpenPathError::Bind { .. }), "{error}");
        assert!(error.to_string().contains("192.0.2.1"), "{error}");

        let no_interface = PathConfig {
            interface: Some("nonesuch0".to_owned()),
            ..PathConfig::new(any(), remote)
        };
        let error = open(no_interface);
        assert!(error.to_string().contains("nonesuch0"), "{error}");

        let other_kind = PathConfig::new("[::1]:0".parse().unwrap(), remote);
        assert!(matches!(
            open(other_kind),
            OpenPathError::AddressFamily { .. }
        ));

        let unknown = PathConfig {
            options: PathOptions {
                congestion: Some("fastest".to_owned()),
                ..PathOptions::default()
            },
            ..PathConfig::new(any(), remote)
        };
        assert!(matches!(open(unknown), OpenPathError::Refused(_)));

        let (mut near, mut far) = pair.stream(b"still here").await;
        let data = bytes(3, 1 << 20);
        carry(&mut far, &mut near, &data).await;
    })
    .await;
}

/// The server has nothing there; the path is named, and closed sockets are not
/// left behind.
#[tokio::test]
async fn a_path_without_an_answer_hinders_nobody() {
    in_time(async {
        let pair = Pair::new().await;
        let silent = std::net::UdpSocket::bind(any()).unwrap();
        let remote = silent.local_addr().unwrap();
        let path = pair
            .near
            .open_path(&PathConfig::new(any(), remote))
            .unwrap();
        event(&pair.near, PathEvent::Unanswered { path, remote }).await;
        assert_eq!(pair.near.paths()[1].state, PathState::Probing);
        pair.near.close_path(path).unwrap();
        event(&pair.near, PathEvent::Closed(path)).await;
        let (mut near, mut far) = pair.stream(b"x").await;
        let data = bytes(4, 1 << 20);
        carry(&mut far, &mut near, &data).await;
    })
    .await;
}
