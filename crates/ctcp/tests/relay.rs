//! Real sockets, with a lossy path between them.
#![cfg(target_os = "linux")]

mod common;

use common::{Pair, bytes, carry, carry_both_ways, in_time, server};
use ctcp::Endpoint;
use ctcp_emu::{LinkConfig, Relay, RelayConfig};
use ctcp_link::LossModel;
use ctcp_units::{LossRate, Rate, millis};

/// Downloads and uploads `len` bytes at the same time over 50 Mbit/s, 20 ms,
/// losing `share` of the datagrams before the limit, both ways.
async fn transfer(share: f64, len: usize) {
    let server = server();
    let link = LinkConfig::new(Rate::mbit(50), millis(10))
        .queue_bdp(1.0, millis(20))
        .loss(LossModel::Bernoulli(LossRate::clamped(share)));
    let listen = common::LOOPBACK.parse().unwrap();
    let config = RelayConfig::new(listen, server.local_addr(), link.clone(), link).seed(11);
    let relay = Relay::spawn(config).unwrap();
    let pair = Pair::through(server, relay.local_addr()).await;
    let (near, far) = pair.stream(b"go").await;
    carry_both_ways(near, far, len).await;
    drop(pair);
    let counters = relay.stop().unwrap();
    eprintln!("{share}: up {:?}, down {:?}", counters.up, counters.down);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_packet_in_twenty_lost_both_ways_changes_no_byte() {
    in_time(transfer(0.05, 4 << 20)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_packet_in_five_lost_both_ways_changes_no_byte() {
    in_time(transfer(0.2, 2 << 20)).await;
}

/// A NAT lets in only what comes from where the client sent to; so does the
/// relay.
#[tokio::test]
async fn a_server_with_many_addresses_answers_from_the_one_that_was_asked() {
    in_time(async {
        for wildcard in ["0.0.0.0:0", "[::]:0"] {
            let local = wildcard.parse().unwrap();
            let Ok(server) = Endpoint::server(local, common::server_config()) else {
                eprintln!("skipped: cannot listen on {wildcard} here");
                continue;
            };
            let second_address = ([127, 0, 0, 2], server.local_addr().port()).into();
            let link = LinkConfig::unlimited(millis(1));
            let listen = common::LOOPBACK.parse().unwrap();
            let config = RelayConfig::new(listen, second_address, link.clone(), link);
            let relay = Relay::spawn(config).unwrap();
            let pair = Pair::through(server, relay.local_addr()).await;
            let (mut near, mut far) = pair.stream(b"hello").await;
            let data = bytes(6, 1 << 20);
            carry(&mut far, &mut near, &data).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_connection_learnt_of_its_path_outlives_it() {
    in_time(async {
        let server = server();
        let client_key = *common::identity(2).public();
        let link = LinkConfig::new(Rate::mbit(20), millis(10)).queue_bdp(1.0, millis(20));
        let listen = common::LOOPBACK.parse().unwrap();
        let config = RelayConfig::new(listen, server.local_addr(), link.clone(), link);
        let relay = Relay::spawn(config).unwrap();
        let way = relay.local_addr();
        assert_eq!(server.remembered(&client_key, way.ip()), None);
        // A connection that never got going has nothing to tell: once more then.
        let known = loop {
            let pair = Pair::through(server.clone(), way).await;
            let (mut near, mut far) = pair.stream(b"go").await;
            let data = bytes(7, 1 << 20);
            carry(&mut far, &mut near, &data).await;
            pair.near.close(0, "done");
            assert_eq!(server.drain(std::time::Duration::from_secs(60)).await, 0);
            if let Some(known) = server.remembered(&client_key, way.ip()) {
                break known;
            }
        };
        assert!(known.packets_per_second > 0.0, "{known:?}");
        assert!(known.rtt >= millis(20), "{known:?}");
        let stranger = *common::identity(3).public();
        assert_eq!(server.remembered(&stranger, way.ip()), None);
    })
    .await;
}
