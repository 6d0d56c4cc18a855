//! How streams and connections end, and how each end tells.

mod common;

use std::future::poll_fn;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use common::{LOOPBACK, Pair, in_time, receive, send, server, server_key};
use ctcp::{ConnectError, ConnectionError, Endpoint, Refusal, ServerConfig, StreamError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn a_stream_dropped_half_way_reads_as_reset_and_not_as_ended() {
    in_time(async {
        let pair = Pair::new().await;
        let (near, mut far) = pair.stream(b"the first half").await;
        drop(near);
        let error = receive(&mut far).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        assert_eq!(StreamError::of(&error), Some(&StreamError::Reset(0)));
        // And whoever goes on writing learns that nobody reads.
        let error = loop {
            if let Err(error) = far.write_all(&[0; 10_000]).await {
                break error;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    })
    .await;
}

#[tokio::test]
async fn a_reset_carries_its_code_both_ways() {
    in_time(async {
        let pair = Pair::new().await;
        let (mut near, mut far) = pair.stream(b"hello").await;
        near.reset(77);
        let broken = poll_fn(|cx| far.poll_broken(cx)).await;
        assert_eq!(StreamError::of(&broken), Some(&StreamError::Reset(77)));
        let error = receive(&mut far).await.unwrap_err();
        assert_eq!(StreamError::of(&error), Some(&StreamError::Reset(77)));
        let error = far.delivered().await.unwrap_err();
        assert_eq!(error, StreamError::Stopped(77));
        // Here it is over as well.
        let error = near.write_all(b"more").await.unwrap_err();
        assert_eq!(StreamError::of(&error), Some(&StreamError::Closed));
        assert!(near.read_u8().await.is_err());
    })
    .await;
}

#[tokio::test]
async fn what_was_written_and_ended_arrives_after_the_stream_was_dropped() {
    in_time(async {
        let pair = Pair::new().await;
        let (mut near, mut far) = pair.stream(b"hello").await;
        send(&mut near, &[9; 100_000]).await.unwrap();
        drop(near);
        assert_eq!(receive(&mut far).await.unwrap(), vec![9; 100_000]);
    })
    .await;
}

#[tokio::test]
async fn a_watcher_learns_that_the_peer_wants_no_more() {
    in_time(async {
        let pair = Pair::new().await;
        let (mut near, far) = pair.stream(b"hello").await;
        let (mut far_in, _far_out) = far.into_split();
        far_in.stop(5);
        let broken = poll_fn(|cx| near.poll_broken(cx)).await;
        assert_eq!(StreamError::of(&broken), Some(&StreamError::Stopped(5)));
    })
    .await;
}

#[tokio::test]
async fn code_and_reason_of_a_close_arrive() {
    in_time(async {
        let pair = Pair::new().await;
        let (mut near, mut far) = pair.stream(b"hello").await;
        let waiting = tokio::spawn(async move { near.read_u8().await.unwrap_err() });
        pair.far.close(42, "going home");
        let expected = ConnectionError::PeerClosed {
            code: 42,
            reason: "going home".to_owned(),
        };
        assert_eq!(pair.near.closed().await, expected);
        let error = waiting.await.unwrap();
        assert_eq!(error.kind(), ErrorKind::ConnectionAborted);
        assert_eq!(
            StreamError::of(&error),
            Some(&StreamError::Lost(expected.clone()))
        );
        assert_eq!(
            pair.near.open_stream().await.unwrap_err(),
            expected.clone().into()
        );
        assert_eq!(pair.near.accept_stream().await.unwrap_err(), expected);
        // On this side at once.
        assert_eq!(pair.far.closed().await, ConnectionError::LocallyClosed);
        let error = far.write_all(b"more").await.unwrap_err();
        assert_eq!(
            StreamError::of(&error),
            Some(&StreamError::Lost(ConnectionError::LocallyClosed))
        );
        assert_eq!(pair.server.drain(Duration::from_secs(5)).await, 0);
        assert_eq!(pair.client.drain(Duration::from_secs(5)).await, 0);
    })
    .await;
}

#[tokio::test]
async fn closing_all_tells_every_peer_and_lets_new_ones_in() {
    in_time(async {
        let pair = Pair::new().await;
        let address = pair.server.local_addr();
        let other = common::client();
        let second = other.connect(address, server_key(), None).await.unwrap();
        let _accepted = pair.server.accept().await.unwrap();
        pair.server.close_all(3, "maintenance");
        for connection in [&pair.near, &second] {
            let error = connection.closed().await;
            assert!(matches!(error, ConnectionError::PeerClosed { code: 3, .. }));
        }
        assert!(other.connect(address, server_key(), None).await.is_ok());
    })
    .await;
}

#[tokio::test]
async fn the_last_handle_closes_and_a_stream_is_a_handle() {
    in_time(async {
        let Pair {
            near,
            far,
            client: _client,
            server: _server,
        } = Pair::new().await;
        let mut stream = near.open_stream().await.unwrap();
        drop(near);
        stream.write_all(b"still here").await.unwrap();
        let mut peer = far.accept_stream().await.unwrap();
        let mut seen = [0; 10];
        peer.read_exact(&mut seen).await.unwrap();
        assert_eq!(far.error(), None);
        drop(stream);
        let error = far.closed().await;
        assert!(matches!(error, ConnectionError::PeerClosed { code: 0, .. }));
    })
    .await;
}

#[tokio::test]
async fn a_dropped_endpoint_tells_its_peers() {
    in_time(async {
        let Pair {
            near,
            far,
            client,
            server,
        } = Pair::new().await;
        drop(server);
        let error = near.closed().await;
        assert!(matches!(error, ConnectionError::PeerClosed { code: 0, .. }));
        assert_eq!(far.closed().await, ConnectionError::LocallyClosed);
        drop(client);
    })
    .await;
}

#[tokio::test]
async fn nobody_waits_for_ever_for_an_endpoint_that_is_gone() {
    in_time(async {
        let server = server();
        let accepting = tokio::spawn({
            let server = server.clone();
            async move { server.accept().await.is_none() }
        });
        let pair = Pair::new().await;
        let mut stream = pair.near.open_stream().await.unwrap();
        let reading = tokio::spawn(async move { stream.read_u8().await.unwrap_err() });
        tokio::task::yield_now().await;
        drop(pair.client);
        assert_eq!(reading.await.unwrap().kind(), ErrorKind::ConnectionAborted);
        accepting.abort();
    })
    .await;
}

#[tokio::test]
async fn a_wrong_server_key_gets_no_answer_within_the_patience_asked_for() {
    in_time(async {
        let server = server();
        let mut config = common::client_config();
        config.transport.handshake_timeout = Duration::from_millis(700);
        let client = Endpoint::client(LOOPBACK.parse().unwrap(), config).unwrap();
        let remote = server.local_addr();
        let start = Instant::now();
        let wrong_key = *common::identity(9).public();
        let error = client.connect(remote, wrong_key, None).await.unwrap_err();
        assert_eq!(error, ConnectError::NoAnswer { remote });
        let waited = start.elapsed();
        assert!(waited >= Duration::from_millis(600), "{waited:?}");
        assert!(waited < Duration::from_secs(30), "{waited:?}");
        assert!(server.stats().proto.bad_hello > 0);
        assert_eq!(client.drain(Duration::from_secs(1)).await, 0);
    })
    .await;
}

#[tokio::test]
async fn a_client_that_is_not_on_the_list_is_refused() {
    in_time(async {
        let guests = common::Guests(vec![*common::identity(8).public()]);
        let config = ServerConfig::new(common::identity(1), guests);
        let server = Endpoint::server(LOOPBACK.parse().unwrap(), config).unwrap();
        let client = common::client();
        let error = client
            .connect(server.local_addr(), server_key(), None)
            .await
            .unwrap_err();
        assert_eq!(error, ConnectError::Refused(Refusal::NotAllowed));
    })
    .await;
}

#[tokio::test]
async fn a_full_server_says_so() {
    in_time(async {
        let mut config = common::server_config();
        config.connections_max = 1;
        let server = Endpoint::server(LOOPBACK.parse().unwrap(), config).unwrap();
        let address = server.local_addr();
        let pair = Pair::through(server, address).await;
        let error = pair.client.connect(address, server_key(), None).await;
        let busy = ConnectError::Refused(Refusal::Busy);
        assert_eq!(error.unwrap_err(), busy);
    })
    .await;
}

#[tokio::test]
async fn an_attempt_that_is_dropped_is_given_up() {
    in_time(async {
        let client = common::client();
        // Nobody there: a port of ours that was just let go.
        let remote = server().local_addr();
        let attempt = client.connect(remote, server_key(), None);
        let given_up = tokio::time::timeout(Duration::from_millis(20), attempt).await;
        assert!(given_up.is_err());
        assert_eq!(client.drain(Duration::from_secs(5)).await, 0);
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_reached_or_started_is_said_at_once() {
    let client = common::client();
    let (local, remote) = (client.local_addr(), "[::1]:9".parse().unwrap());
    let error = client.connect(remote, server_key(), None).await;
    assert_eq!(
        error.unwrap_err(),
        ConnectError::AddressFamily { remote, local }
    );
    let twice = Endpoint::client(local, common::client_config());
    assert!(matches!(twice, Err(ctcp::StartError::Bind { .. })));
    let mut config = common::client_config();
    config.transport.block_symbols = 0;
    let refused = Endpoint::client(LOOPBACK.parse().unwrap(), config);
    assert!(matches!(refused, Err(ctcp::StartError::Config(_))));
}
