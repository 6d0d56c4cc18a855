//! What happens to a connection once it stands: ends, resets, many at once.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::*;
use ctcp_proxy::forward::ForwardConfig;
use ctcp_proxy::reverse::ReverseConfig;
use ctcp_proxy::stats::FailReason;
use ctcp_units::Random;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

#[tokio::test]
async fn the_applications_end_reaches_the_target_before_its_answer() {
    let rig = rig(Plan::default()).await;
    // Answers with the length only after the end.
    let target = target_on("127.0.0.1:0", |mut tcp| async move {
        let mut all = Vec::new();
        tcp.read_to_end(&mut all).await.expect("a clean end");
        let answer = all.len().to_string();
        tcp.write_all(answer.as_bytes()).await.expect("open");
    })
    .await;
    let mut tcp = socks5(rig.address, &target.to_string()).await.expect("up");
    assert_eq!(exchange(&mut tcp, &[0; 12_345]).await, b"12345");
}

#[tokio::test]
async fn the_targets_end_reaches_the_application_which_goes_on() {
    let rig = rig(Plan::default()).await;
    let seen: Seen<Vec<u8>> = Seen::default();
    let target = {
        let seen = seen.clone();
        target_on("127.0.0.1:0", move |mut tcp| {
            let seen = seen.clone();
            async move {
                tcp.write_all(b"banner").await.expect("open");
                tcp.shutdown().await.expect("open");
                let mut all = Vec::new();
                tcp.read_to_end(&mut all).await.expect("a clean end");
                *seen.lock().expect("no panic") = Some(all);
            }
        })
        .await
    };
    let mut tcp = socks5(rig.address, &target.to_string()).await.expect("up");
    let mut banner = Vec::new();
    tcp.read_to_end(&mut banner).await.expect("a clean end");
    assert_eq!(banner, b"banner");
    tcp.write_all(b"afterwards").await.expect("still open");
    tcp.shutdown().await.expect("still open");
    eventually("the target reads what follows its own end", || {
        seen.lock().expect("no panic").as_deref() == Some(b"afterwards")
    })
    .await;
    let stats = rig.forward.stats();
    eventually("the relay ends", || stats.snapshot().active == 0).await;
    assert_eq!(stats.snapshot().failed_total(), 0);
}

#[tokio::test]
async fn an_application_that_disappears_is_a_reset_for_the_target() {
    let rig = rig(Plan::default()).await;
    let seen: Seen<std::io::Result<usize>> = Seen::default();
    let target = {
        let seen = seen.clone();
        target_on("127.0.0.1:0", move |mut tcp| {
            let seen = seen.clone();
            async move {
                let mut all = Vec::new();
                let read = tcp.read_to_end(&mut all).await;
                *seen.lock().expect("no panic") = Some(read);
            }
        })
        .await
    };
    let mut tcp = socks5(rig.address, &target.to_string()).await.expect("up");
    tcp.write_all(&[1; 100_000]).await.expect("open");
    tokio::time::sleep(Duration::from_millis(50)).await;
    reset(tcp);
    eventually("the target notices", || {
        seen.lock().expect("no panic").is_some()
    })
    .await;
    let seen = seen.lock().expect("no panic").take();
    let error = seen.expect("noticed").expect_err("a clean end");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    let (near, far) = (rig.forward.stats(), rig.reverse.stats());
    eventually("both relays end", || {
        near.snapshot().active + far.snapshot().active == 0
    })
    .await;
    assert_eq!(near.snapshot().failed(FailReason::LocalGone), 1);
    assert_eq!(far.snapshot().failed(FailReason::StreamReset), 1);
}

#[tokio::test]
async fn a_target_that_disappears_is_a_reset_for_the_application() {
    let rig = rig(Plan::default()).await;
    let target = target_on("127.0.0.1:0", |mut tcp| async move {
        tcp.write_all(&[1; 100_000]).await.expect("open");
        // Let it be read first: a reset may overtake what is under way.
        let _ = tcp.read_u8().await;
        reset(tcp);
    })
    .await;
    let mut tcp = socks5(rig.address, &target.to_string()).await.expect("up");
    let mut part = vec![0; 100_000];
    tcp.read_exact(&mut part).await.expect("relayed");
    tcp.write_all(b"x").await.expect("open");
    assert_reset(&mut tcp).await;
}

#[tokio::test]
async fn an_application_that_leaves_before_the_answer_frees_its_place() {
    // The name never resolves, so the request would stay unanswered.
    let rig = rig(Plan {
        reverse: ReverseConfig {
            resolve_timeout: SOON * 10,
            ..ReverseConfig::default()
        },
        ..Plan::default()
    })
    .await;
    let mut tcp = TcpStream::connect(rig.address).await.expect("listening");
    let request = socks5_request(&"slow.test:80".parse().expect("a target"));
    let hasty = [&[5, 1, 0][..], &request].concat();
    tcp.write_all(&hasty).await.expect("open");
    let (near, far) = (rig.forward.stats(), rig.reverse.stats());
    eventually("the request arrives", || far.snapshot().active == 1).await;
    reset(tcp);
    eventually("both sides let go", || {
        near.snapshot().active + far.snapshot().active == 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_at_once_each_get_their_own_bytes() {
    let seed = seed();
    let rig = Arc::new(rig(Plan::default()).await);
    let target = echo().await.to_string();
    let mut tasks = JoinSet::new();
    for index in 0..200 {
        let (rig, target) = (rig.clone(), target.clone());
        tasks.spawn(async move {
            let mut random = Random::from_seed(seed + index);
            let mut bytes = vec![0; 1 + random.below(200_000) as usize];
            random.fill(&mut bytes);
            let tcp = socks5(rig.address, &target).await.expect("up");
            let (mut reader, mut writer) = tcp.into_split();
            let sending = async {
                writer.write_all(&bytes).await.expect("open");
                writer.shutdown().await.expect("open");
            };
            let mut back = Vec::new();
            let (read, ()) = tokio::join!(reader.read_to_end(&mut back), sending);
            read.expect("a clean end");
            assert!(back == bytes, "connection {index}, seed {seed}");
        });
    }
    while let Some(done) = timeout(SOON, tasks.join_next()).await.expect("hangs") {
        done.expect("each connection is right");
    }
    let stats = rig.forward.stats();
    eventually("all end", || stats.snapshot().active == 0).await;
    assert_eq!(stats.snapshot().accepted, 200);
    assert_eq!(stats.snapshot().failed_total(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_transfers_in_both_directions_at_once_are_exact() {
    let seed = seed();
    let rig = rig(Plan::default()).await;
    let bytes = {
        let mut bytes = vec![0; 32 << 20];
        Random::from_seed(seed).fill(&mut bytes);
        Arc::new(bytes)
    };
    let target = {
        let bytes = bytes.clone();
        target_on("127.0.0.1:0", move |tcp| {
            let bytes = bytes.clone();
            async move {
                let (mut reader, mut writer) = tcp.into_split();
                let mut got = Vec::new();
                let sending = async {
                    writer.write_all(&bytes[..20 << 20]).await.expect("open");
                };
                let (read, ()) = tokio::join!(reader.read_to_end(&mut got), sending);
                read.expect("a clean end");
                // The last byte tells the application that all was right.
                writer
                    .write_all(&[u8::from(got == *bytes)])
                    .await
                    .expect("open");
            }
        })
        .await
    };
    let tcp = socks5(rig.address, &target.to_string()).await.expect("up");
    let (mut reader, mut writer) = tcp.into_split();
    let started = std::time::Instant::now();
    let sending = async {
        writer.write_all(&bytes).await.expect("open");
        writer.shutdown().await.expect("open");
    };
    let mut got = Vec::new();
    let (read, ()) = tokio::join!(reader.read_to_end(&mut got), sending);
    read.expect("a clean end");
    println!("52 MiB through both proxies in {:?}", started.elapsed());
    assert_eq!(got.pop(), Some(1), "upload, seed {seed}");
    assert!(got == bytes[..20 << 20], "download, seed {seed}");
}

#[tokio::test]
async fn a_drain_lets_connections_end_and_accepts_no_new_ones() {
    let rig = rig(Plan::default()).await;
    let target = echo().await.to_string();
    let mut tcp = socks5(rig.address, &target).await.expect("up");
    rig.trigger.start(SOON);
    let refused = async {
        while TcpStream::connect(rig.address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, refused).await.expect("still accepting");
    assert_eq!(exchange(&mut tcp, b"last words").await, b"last words");
    assert_eq!(rig.forward_task.await.expect("no panic"), 0);
    assert_eq!(rig.reverse_task.await.expect("no panic"), 0);
}

#[tokio::test]
async fn a_drain_resets_what_does_not_end_by_its_deadline() {
    let rig = rig(Plan::default()).await;
    let target = echo().await.to_string();
    let mut tcp = socks5(rig.address, &target).await.expect("up");
    tcp.write_all(b"x").await.expect("open");
    tcp.read_u8().await.expect("relayed");
    rig.trigger.start(Duration::from_millis(50));
    assert_reset(&mut tcp).await;
    let stopped = rig.forward_task.await.expect("no panic");
    assert!(stopped <= 1);
    timeout(SOON, rig.reverse_task)
        .await
        .expect("the drain hangs")
        .expect("no panic");
}

#[tokio::test]
async fn at_the_servers_limit_the_answer_is_a_general_failure() {
    let rig = rig(Plan {
        reverse: ReverseConfig {
            connections_max: 1,
            ..ReverseConfig::default()
        },
        ..Plan::default()
    })
    .await;
    let target = echo().await.to_string();
    let mut first = socks5(rig.address, &target).await.expect("up");
    assert_eq!(socks5(rig.address, &target).await.err(), Some(1));
    let stats = rig.reverse.stats();
    assert_eq!(stats.snapshot().failed(FailReason::AtLimit), 1);
    assert_eq!(exchange(&mut first, b"x").await, b"x");
    eventually("the place is free", || stats.snapshot().active == 0).await;
    assert!(socks5(rig.address, &target).await.is_ok());
}

#[tokio::test]
async fn at_the_clients_limit_the_next_waits_for_a_place() {
    let rig = rig(Plan {
        forward: ForwardConfig {
            connections_max: 1,
            ..ForwardConfig::default()
        },
        ..Plan::default()
    })
    .await;
    let target = echo().await.to_string();
    let mut first = socks5(rig.address, &target).await.expect("up");
    let waiting = {
        let (address, target) = (rig.address, target.clone());
        tokio::spawn(async move { socks5(address, &target).await })
    };
    let stats = rig.forward.stats();
    eventually("the limit shows", || stats.snapshot().limit_reached == 1).await;
    assert_eq!(stats.snapshot().accepted, 1);
    assert_eq!(exchange(&mut first, b"x").await, b"x");
    drop(first);
    let second = timeout(SOON, waiting).await.expect("waits for ever");
    assert!(second.expect("no panic").is_ok());
}

/// The far side speaks to whatever opens a stream; garbage gets its status or a
/// reset, and never holds a place for longer than the request's time.
#[tokio::test]
async fn a_stream_that_asks_for_nothing_sensible_is_ended() {
    use ctcp_proxy::request::{Reply, Status};
    use ctcp_proxy::tunnel::Tunnel;
    let rig = rig(Plan {
        reverse: ReverseConfig {
            request_timeout: Duration::from_millis(200),
            ..ReverseConfig::default()
        },
        ..Plan::default()
    })
    .await;
    for (bytes, status) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], Status::VersionUnknown),
        (b"\x01\x09", Status::CommandUnknown),
        (b"\x01\x01\x09", Status::AddressTypeUnknown),
        (b"\x01\x01\x03\x01\x00\x00\x50", Status::Malformed),
    ] {
        let mut stream = rig.forward.tunnel().open().await.expect("up");
        stream.write_all(bytes).await.expect("open");
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).await.expect("a clean end");
        match Reply::parse(&reply) {
            Ok(Some((Reply::Failed(failure), _))) => assert_eq!(failure.status, status),
            other => panic!("{other:?}"),
        }
    }
    let mut stream = rig.forward.tunnel().open().await.expect("up");
    stream.write_all(b"\x01\x01").await.expect("open");
    let error = timeout(SOON, stream.read_u8()).await.expect("let go");
    assert_eq!(
        error.expect_err("a reset").kind(),
        std::io::ErrorKind::ConnectionReset
    );
}

#[tokio::test]
async fn a_client_above_its_limit_of_streams_gets_a_failure() {
    let rig = rig(Plan {
        limits: "streams=1",
        ..Plan::default()
    })
    .await;
    let target = echo().await.to_string();
    let mut first = socks5(rig.address, &target).await.expect("the first");
    assert_eq!(socks5(rig.address, &target).await.err(), Some(1));
    assert_eq!(exchange(&mut first, b"x").await, b"x");
    drop(first);
    eventually("the first has ended", || rig.client.snapshot().streams == 0).await;
    let mut next = socks5(rig.address, &target).await.expect("the next");
    assert_eq!(exchange(&mut next, b"yy").await, b"yy");
    let stats = rig.reverse.stats().snapshot();
    assert_eq!(
        (stats.failed(FailReason::AtLimit), stats.failed_total()),
        (1, 1)
    );
    let seen = rig.client.snapshot();
    assert_eq!((seen.bytes_up, seen.bytes_down), (3, 3));
    assert_eq!(seen.streams_refused, 1);
}

#[tokio::test]
async fn a_client_with_a_rate_keeps_to_it_both_ways() {
    let rig = rig(Plan {
        limits: "rate=8mbit",
        ..Plan::default()
    })
    .await;
    let target = echo().await.to_string();
    let mut tcp = socks5(rig.address, &target).await.expect("listening");
    let begun = Instant::now();
    let bytes = vec![3; 500_000];
    // 500 kB at 1 MB/s, both ways at the same time.
    assert!(exchange_both(&mut tcp, &bytes).await == bytes);
    let took = begun.elapsed();
    assert!(took > Duration::from_millis(450), "{took:?}");
}

/// Sends and receives at once.
async fn exchange_both(tcp: &mut TcpStream, bytes: &[u8]) -> Vec<u8> {
    let (mut reader, mut writer) = tcp.split();
    let mut back = Vec::new();
    let sending = async {
        writer.write_all(bytes).await.expect("open");
        writer.shutdown().await.expect("open");
    };
    let receiving = async {
        reader.read_to_end(&mut back).await.expect("a clean end");
    };
    tokio::join!(sending, receiving);
    back
}
