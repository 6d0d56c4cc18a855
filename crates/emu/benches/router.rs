//! The router in numbers: how late it sends at 25 Mbit/s, and how many packets of
//! 1500 bytes it carries at most, by UDP and by the kernel's TCP.
//!
//! `cargo bench -p ctcp-emu --bench router`, as root or not. Sender, router and
//! receiver share the machine; `busy` is the router's share of one core, and what
//! the rate would be if it had a core for itself stands beside it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ctcp_emu::{
    AttachmentKind, LinkConfig, Network, NetworkConfig, RouterCounters, enter_user_namespace,
};
use ctcp_units::{Rate, millis};

const PAYLOAD_BYTES: usize = 1472;
const PACKET_BITS: f64 = 1500.0 * 8.0;

fn main() {
    // `cargo test --all-targets` runs this too, without the flag.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    if let Err(error) = enter_user_namespace() {
        return eprintln!("SKIPPED: {error}");
    }
    for kind in [AttachmentKind::Tun, AttachmentKind::Veth] {
        for rate in [Rate::mbit(25), Rate::mbit(100)] {
            measure(
                kind,
                &format!("udp at 98 % of {rate}"),
                Some(rate),
                |network| {
                    paced(network, rate, Duration::from_secs(8));
                },
            );
            measure(kind, &format!("tcp over {rate}"), Some(rate), |network| {
                transfer(network, Duration::from_secs(8));
            });
        }
        measure(kind, "udp at most", None, |network| {
            flood(network, Duration::from_secs(4));
        });
        measure(kind, "tcp at most", None, |network| {
            transfer(network, Duration::from_secs(4));
        });
    }
}

fn measure(kind: AttachmentKind, what: &str, rate: Option<Rate>, run: impl Fn(&Network)) {
    let link = match rate {
        Some(rate) => LinkConfig::new(rate, Duration::from_micros(12_500)),
        None => LinkConfig::unlimited(millis(1)),
    };
    let config = NetworkConfig {
        attachment: Some(kind),
        ..NetworkConfig::single(link.clone(), link)
    };
    let network = match Network::start(config) {
        Ok(network) => network,
        Err(error) => return eprintln!("SKIPPED {}: {error}", kind.name()),
    };
    let before = network.router().counters().expect("it runs");
    run(&network);
    let after = network.router().counters().expect("it runs");
    print(kind, what, &before, &after);
}

fn print(kind: AttachmentKind, what: &str, before: &RouterCounters, after: &RouterCounters) {
    let elapsed = (after.age - before.age).as_secs_f64();
    let busy = (after.busy - before.busy).as_secs_f64() / elapsed;
    let mbit = after.links[0].delivered as f64 * PACKET_BITS / elapsed / 1e6;
    let packets: u64 = after.links.iter().map(|link| link.delivered).sum();
    let timing = after.timing;
    println!(
        "{:4} {what:22} {mbit:7.1} Mbit/s forward, {:6.1} k packets/s both ways; busy {:4.1} %, \
         {:5.2} µs a packet, one core: {:5.0} Mbit/s; late p50 {:?}, p99 {:?}, max {:?}, {} > 1 ms",
        kind.name(),
        packets as f64 / elapsed / 1e3,
        busy * 100.0,
        busy * elapsed / packets as f64 * 1e6,
        mbit / busy,
        timing.p50,
        timing.p99,
        timing.max,
        timing.late,
    );
}

fn sockets(network: &Network) -> (UdpSocket, UdpSocket) {
    let path = &network.paths()[0];
    let bind = |name, address| {
        let namespace = network.namespace(name).expect("it has one");
        let socket = namespace.run(|| UdpSocket::bind((address, 9)).expect("free"));
        socket.expect("a thread")
    };
    let one = bind("left", path.left.address);
    let other = bind("right", path.right.address);
    one.connect((path.right.address, 9)).expect("a route");
    (one, other)
}

/// A sender at 98 % of the rate, a packet at a time.
fn paced(network: &Network, rate: Rate, span: Duration) {
    let (one, _other) = sockets(network);
    let pause = rate.time_for_bytes(1500).mul_f64(1.0 / 0.98);
    let start = Instant::now();
    let mut count = 0;
    while start.elapsed() < span {
        thread::sleep((start + pause * count).saturating_duration_since(Instant::now()));
        one.send(&[0; PAYLOAD_BYTES]).expect("sent");
        count += 1;
    }
}

/// A sender as fast as it can, a packet at a time.
fn flood(network: &Network, span: Duration) {
    let (one, _other) = sockets(network);
    let start = Instant::now();
    while start.elapsed() < span {
        let _ = one.send(&[0; PAYLOAD_BYTES]);
    }
}

/// One TCP connection.
fn transfer(network: &Network, span: Duration) {
    let address = network.paths()[0].right.address;
    let right = network.namespace("right").expect("it has one");
    let left = network.namespace("left").expect("it has one");
    let listener = right
        .run(|| TcpListener::bind((address, 9)).expect("free"))
        .expect("a thread");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let connect = || TcpStream::connect((address, 9)).expect("it listens");
            let mut stream = left.run(connect).expect("a thread");
            let bytes = vec![0; 1 << 16];
            while !is_over.load(Ordering::Relaxed) {
                if stream.write_all(&bytes).is_err() {
                    return;
                }
            }
        });
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut space = vec![0; 1 << 18];
        let start = Instant::now();
        while start.elapsed() < span {
            let _ = stream.read(&mut space);
        }
        is_over.store(true, Ordering::Relaxed);
        // Whoever writes is told that nobody reads.
        drop(stream);
    });
}
