//! The relay in numbers: how late it sends at 25 Mbit/s, and how many packets of
//! 1500 bytes it carries at most.
//!
//! `cargo bench -p ctcp-emu`. Sender, relay and receiver share the machine; what
//! the receiver saw stands beside what the relay sent.

use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ctcp_emu::{LinkConfig, Relay, RelayConfig};
use ctcp_units::Rate;
use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSocketState};

const PAYLOAD_BYTES: usize = 1472;
const PACKET_BITS: f64 = 1500.0 * 8.0;

fn main() {
    // `cargo test --all-targets` runs this too, without the flag.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    for mbit in [25, 100] {
        timing(Rate::mbit(mbit), Duration::from_secs(5));
    }
    for segments in [1, 16, 40] {
        most(segments, Duration::from_secs(3));
    }
}

fn loopback() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

/// Receives and counts until told to end.
struct Sink {
    addr: SocketAddr,
    is_over: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Sink {
    fn start() -> Self {
        let socket = UdpSocket::bind(loopback()).expect("a free port");
        let addr = socket.local_addr().expect("bound");
        let state = UdpSocketState::new((&socket).into()).expect("options");
        let _ = state.set_recv_buffer_size((&socket).into(), 6 << 20);
        let is_over = Arc::new(AtomicBool::new(false));
        let count = Arc::new(AtomicU64::new(0));
        let (over, counted) = (Arc::clone(&is_over), Arc::clone(&count));
        let thread = thread::spawn(move || {
            let mut space = vec![0; 65_536 * BATCH_SIZE];
            let mut meta = [RecvMeta::default(); BATCH_SIZE];
            while !over.load(Ordering::Relaxed) {
                let mut slices: Vec<IoSliceMut<'_>> =
                    space.chunks_mut(65_536).map(IoSliceMut::new).collect();
                match state.recv((&socket).into(), &mut slices, &mut meta) {
                    Ok(messages) => {
                        let datagrams = meta[..messages]
                            .iter()
                            .map(|meta| meta.len.div_ceil(meta.stride.max(1)) as u64)
                            .sum();
                        counted.fetch_add(datagrams, Ordering::Relaxed);
                    }
                    Err(_) => thread::sleep(Duration::from_micros(200)),
                }
            }
        });
        Self {
            addr,
            is_over,
            count,
            thread,
        }
    }

    fn stop(self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("the sink ends");
        self.count.load(Ordering::Relaxed)
    }
}

/// A sender at 98 % of the rate, a packet at a time.
fn timing(rate: Rate, span: Duration) {
    let sink = Sink::start();
    let link = || LinkConfig::new(rate, Duration::from_micros(12_500));
    let relay = Relay::spawn(RelayConfig::new(loopback(), sink.addr, link(), link()))
        .expect("a relay on loopback");
    let socket = UdpSocket::bind(loopback()).expect("a free port");
    let pause = rate.time_for_bytes(1500).mul_f64(1.0 / 0.98);
    let start = Instant::now();
    let mut count = 0;
    while start.elapsed() < span {
        thread::sleep((start + pause * count).saturating_duration_since(Instant::now()));
        let sent = socket.send_to(&[0; PAYLOAD_BYTES], relay.local_addr());
        sent.expect("loopback takes it");
        count += 1;
    }
    thread::sleep(Duration::from_millis(50));
    let counters = relay.stop().expect("it runs");
    let received = sink.stop();
    let timing = counters.timing;
    println!(
        "timing error at {rate}: p50 {:?}, p99 {:?}, max {:?} over {} packets ({count} sent, {received} received)",
        timing.p50, timing.p99, timing.max, timing.count
    );
}

/// A sender as fast as it can, `segments` packets per call.
fn most(segments: usize, span: Duration) {
    let sink = Sink::start();
    let link = || LinkConfig::unlimited(Duration::from_millis(1));
    let relay = Relay::spawn(RelayConfig::new(loopback(), sink.addr, link(), link()))
        .expect("a relay on loopback");
    let socket = UdpSocket::bind(loopback()).expect("a free port");
    let state = UdpSocketState::new((&socket).into()).expect("options");
    let contents = vec![0; PAYLOAD_BYTES * segments];
    let start = Instant::now();
    let mut sent = 0u64;
    while start.elapsed() < span {
        let transmit = Transmit {
            destination: relay.local_addr(),
            ecn: None,
            contents: &contents,
            segment_size: (segments > 1).then_some(PAYLOAD_BYTES),
            src_ip: None,
        };
        if state.try_send((&socket).into(), &transmit).is_ok() {
            sent += segments as u64;
        }
    }
    let elapsed = start.elapsed().as_secs_f64();
    let counters = relay.stop().expect("it runs");
    let received = sink.stop();
    let per_second = |packets: u64| packets as f64 / elapsed;
    println!(
        "at most, {segments} packets per send: {:.0} k sent/s, {:.0} k relayed/s = {:.0} Mbit/s, {:.0} k received/s; \
         late p50 {:?}, p99 {:?}",
        per_second(sent) / 1e3,
        per_second(counters.up.delivered) / 1e3,
        per_second(counters.up.delivered) * PACKET_BITS / 1e6,
        per_second(received) / 1e3,
        counters.timing.p50,
        counters.timing.p99
    );
}
