//! Steady-state goodput over an emulated path, through real UDP sockets.
//!
//! `cargo bench -p ctcp --bench steady [-- SECONDS [RUNS [CONGESTION]]]`
//!
//! The path: 25 Mbit/s, 25 ms, a queue of one bandwidth-delay product, i.i.d.
//! loss *before* the rate limit in both directions. The server sends without
//! end; counted is what the client reads from the fifth second on. Printed per
//! loss rate, for each run:
//!
//! * goodput ÷ (link rate × 1436/1500): 1436 bytes are what a coded packet of
//!   1500 has room for when the tag is paid;
//! * bytes on the wire per useful byte, counted at the sender, IP headers
//!   included, before loss, in the data's direction;
//! * the share of received packets that brought nothing;
//! * the mean queueing delay at the bottleneck and the relay's own timing error,
//!   without which no figure here means anything.
//!
//! Both ends and the relay run in this process, on a machine of two cores or
//! more.

use std::net::SocketAddr;
use std::time::Duration;

use ctcp::{
    Authorize, ClientConfig, Connection, ConnectionStats, Decision, Endpoint, Identity, PublicKey,
    SecretKey, ServerConfig, Stream,
};
use ctcp_emu::relay::{Relay, RelayConfig, RelayHandle};
use ctcp_link::{LinkConfig, LossModel};
use ctcp_units::{LossRate, Rate, millis};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const RATE: Rate = Rate::mbit(25);
const RTT: Duration = millis(25);
const PAYLOAD_SHARE: f64 = 1436.0 / 1500.0;
const WARM_UP: Duration = Duration::from_secs(5);
const LOSSES: [f64; 5] = [0.0, 0.01, 0.05, 0.10, 0.20];
const AIMS: [f64; 5] = [0.97, 0.97, 0.95, 0.93, 0.90];
/// IPv4 and UDP headers, bytes.
const HEADERS_LEN: u64 = 28;

struct AllowAll;

impl Authorize for AllowAll {
    fn authorize(&mut self, _client: &PublicKey, _invite: &[u8], _wall_nanos: u64) -> Decision {
        Decision::Allow
    }
}

fn link(loss: f64) -> LinkConfig {
    LinkConfig::new(RATE, RTT / 2)
        .queue_bdp(1.0, RTT)
        .loss(LossModel::Bernoulli(LossRate::clamped(loss)))
}

/// What is counted at one moment.
#[derive(Clone)]
struct Count {
    at: std::time::Instant,
    bytes: u64,
    sent: ConnectionStats,
    received: ConnectionStats,
}

struct Outcome {
    share: f64,
    wire_per_byte: f64,
    useless: f64,
    queueing: Duration,
    timing_p99: Duration,
}

fn packets(stats: &ConnectionStats) -> u64 {
    let sent = &stats.sent;
    sent.control + sent.systematic + sent.coded + sent.handshake
}

fn outcome(start: &Count, end: &Count, relay: &RelayHandle) -> Outcome {
    let span = (end.at - start.at).as_secs_f64();
    let bytes = (end.bytes - start.bytes) as f64;
    let wire = end.sent.sent.bytes - start.sent.sent.bytes
        + HEADERS_LEN * (packets(&end.sent) - packets(&start.sent));
    let symbols = |stats: &ConnectionStats| stats.received.systematic + stats.received.coded;
    let useless = end.received.useless - start.received.useless;
    let arrived = symbols(&end.received) - symbols(&start.received);
    let counters = relay.counters().expect("the relay runs");
    Outcome {
        share: bytes * 8.0 / span / (RATE.as_bits_per_second() as f64 * PAYLOAD_SHARE),
        wire_per_byte: wire as f64 / bytes,
        useless: useless as f64 / arrived as f64,
        queueing: counters.down.queueing_delay_mean(),
        timing_p99: counters.timing.p99,
    }
}

async fn send_without_end(connection: Connection) {
    let chunk = vec![0x5A; 64 << 10];
    if let Ok(mut stream) = connection.accept_stream().await {
        let mut request = [0];
        let _ = stream.read_exact(&mut request).await;
        while stream.write_all(&chunk).await.is_ok() {}
    }
}

async fn read_for(stream: &mut Stream, until: std::time::Instant) -> u64 {
    let mut buf = vec![0; 256 << 10];
    let mut bytes = 0;
    let until = tokio::time::Instant::from_std(until);
    while let Ok(Ok(count)) = tokio::time::timeout_at(until, stream.read(&mut buf)).await {
        bytes += count as u64;
    }
    bytes
}

async fn run(loss: f64, span: Duration, seed: u64, congestion: &str) -> Outcome {
    let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let identity = |byte: u8| Identity::from_secret(SecretKey::from_bytes([byte; 32]));
    let server_key = *identity(1).public();
    let mut server = ServerConfig::new(identity(1), AllowAll);
    server.transport.congestion = congestion.to_owned();
    let server = Endpoint::server(any, server).expect("a server");
    let relay =
        Relay::spawn(RelayConfig::new(any, server.local_addr(), link(loss), link(loss)).seed(seed))
            .expect("a relay");
    let mut client = ClientConfig::new(identity(2));
    client.transport.congestion = congestion.to_owned();
    let client = Endpoint::client(any, client).expect("a client");
    let near = client
        .connect(relay.local_addr(), server_key, None)
        .await
        .expect("a connection");
    let far = server.accept().await.expect("a client");
    let sender = tokio::spawn(send_without_end(far.clone()));
    let mut stream = near.open_stream().await.expect("a stream");
    stream.write_all(b"!").await.expect("a request");

    let begin = std::time::Instant::now();
    let mut bytes = read_for(&mut stream, begin + WARM_UP).await;
    let count = |bytes| Count {
        at: std::time::Instant::now(),
        bytes,
        sent: far.stats(),
        received: near.stats(),
    };
    let start = count(bytes);
    bytes += read_for(&mut stream, begin + WARM_UP + span).await;
    let end = count(bytes);
    let outcome = outcome(&start, &end, &relay);
    sender.abort();
    outcome
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let mut numbers = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with("--"));
    let mut number = |default: u64| {
        numbers.next().map_or(default, |text| {
            text.parse()
                .unwrap_or_else(|_| panic!("`{text}` is not a whole number"))
        })
    };
    let (seconds, runs) = (number(60), number(1).max(1));
    let congestion = numbers.next().unwrap_or_else(|| "cc14".to_owned());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    println!(
        "{congestion}, {RATE}, {} ms, queue 1 BDP, loss before the limit both ways, {seconds} s after {} s, seeds 1-{runs}",
        RTT.as_millis(),
        WARM_UP.as_secs()
    );
    println!(
        "loss | goodput share: median (min-max) | aim | wire/byte | useless | queueing | timing p99"
    );
    for (loss, aim) in LOSSES.into_iter().zip(AIMS) {
        let outcomes: Vec<_> = (1..=runs)
            .map(|seed| {
                runtime.block_on(run(loss, Duration::from_secs(seconds), seed, &congestion))
            })
            .collect();
        let of = |value: fn(&Outcome) -> f64| outcomes.iter().map(value).collect::<Vec<_>>();
        let shares = of(|outcome| outcome.share);
        let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
        let most = shares.iter().copied().fold(0.0, f64::max);
        println!(
            "{:4.0} % | {:.4} ({least:.4}-{most:.4}) | {aim:.2} | {:.4} | {:.4} | {:.2} ms | {:.0} us",
            loss * 100.0,
            median(shares.clone()),
            median(of(|outcome| outcome.wire_per_byte)),
            median(of(|outcome| outcome.useless)),
            median(of(|outcome| outcome.queueing.as_secs_f64() * 1e3)),
            median(of(|outcome| outcome.timing_p99.as_secs_f64() * 1e6)),
        );
    }
}
