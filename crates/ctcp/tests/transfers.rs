//! Bytes that go through, on loopback.

mod common;

use common::{
    Pair, bytes, carry, carry_both_ways, in_time, receive, send, server, server_key, spawn_echo,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test(flavor = "multi_thread")]
async fn ten_megabytes_each_way_at_the_same_time_arrive_whole() {
    in_time(async {
        let pair = Pair::new().await;
        let (near, far) = pair.stream(b"go").await;
        let (mut near_out, mut far_out) = carry_both_ways(near, far, 10 << 20).await;
        near_out.delivered().await.unwrap();
        far_out.delivered().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn one_thread_is_enough_for_both_ends() {
    in_time(async {
        let pair = Pair::new().await;
        let (mut near, mut far) = pair.stream(b"go").await;
        let data = bytes(3, 4 << 20);
        carry(&mut near, &mut far, &data).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_streams_at_once_each_get_their_own_bytes_back() {
    in_time(async {
        let server = server();
        let address = server.local_addr();
        spawn_echo(server.clone());
        let client = common::client();
        let connection = client.connect(address, server_key(), None).await.unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..200 {
            let connection = connection.clone();
            tasks.spawn(async move {
                let data = bytes(number, 20_000 + 100 * number as usize);
                let stream = connection.open_stream().await.unwrap();
                let (mut from, mut to) = stream.into_split();
                carry(&mut to, &mut from, &data).await;
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_streams_than_are_allowed_at_once_wait_for_their_turn() {
    in_time(async {
        let server = server();
        let address = server.local_addr();
        spawn_echo(server.clone());
        let client = common::client();
        let connection = client.connect(address, server_key(), None).await.unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..1000u64 {
            let connection = connection.clone();
            tasks.spawn(async move {
                let mut stream = connection.open_stream().await.unwrap();
                send(&mut stream, &number.to_be_bytes()).await.unwrap();
                assert_eq!(receive(&mut stream).await.unwrap(), number.to_be_bytes());
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        assert!(connection.stats().streams <= 256);
    })
    .await;
}

#[tokio::test]
async fn a_half_closed_stream_carries_the_other_direction_on() {
    in_time(async {
        let pair = Pair::new().await;
        let (mut near, mut far) = pair.stream(b"question").await;
        near.shutdown().await.unwrap();
        assert_eq!(receive(&mut far).await.unwrap(), b"");
        // Read again, the end is still the end.
        assert_eq!(receive(&mut far).await.unwrap(), b"");
        for _ in 0..3 {
            far.write_all(b"answer").await.unwrap();
            let mut seen = [0; 6];
            near.read_exact(&mut seen).await.unwrap();
            assert_eq!(&seen, b"answer");
        }
        send(&mut far, b"end").await.unwrap();
        assert_eq!(receive(&mut near).await.unwrap(), b"end");
    })
    .await;
}

#[tokio::test]
async fn a_stream_that_ended_both_ways_is_forgotten_when_dropped() {
    in_time(async {
        let pair = Pair::new().await;
        let (mut near, mut far) = pair.stream(b"hello").await;
        send(&mut far, b"").await.unwrap();
        send(&mut near, b"").await.unwrap();
        assert_eq!(receive(&mut near).await.unwrap(), b"");
        assert_eq!(receive(&mut far).await.unwrap(), b"");
        near.delivered().await.unwrap();
        drop((near, far));
        while pair.near.stats().streams + pair.far.stats().streams > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        assert_eq!(pair.near.error(), None);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_goes_on_after_the_client_has_moved() {
    in_time(async {
        let pair = Pair::new().await;
        let (mut near, mut far) = pair.stream(b"go").await;
        let data = bytes(7, 30 << 20);
        let old = pair.client.local_addr();
        let sending = tokio::spawn({
            let data = data.clone();
            async move { send(&mut near, &data).await.map(|()| near) }
        });
        let mut got = vec![0; 2 << 20];
        far.read_exact(&mut got).await.unwrap();
        pair.client
            .rebind(common::LOOPBACK.parse().unwrap())
            .unwrap();
        assert_ne!(pair.client.local_addr(), old);
        got.extend(receive(&mut far).await.unwrap());
        assert!(got == data);
        sending.await.unwrap().unwrap();
        assert_eq!(pair.far.stats().address_changes, 1);
    })
    .await;
}
