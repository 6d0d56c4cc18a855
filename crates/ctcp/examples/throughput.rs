//! Bulk goodput and CPU seconds per GB over loopback, both ends in this process,
//! and the time of a small request.
//!
//! ```text
//! cargo run --release -p ctcp --example throughput -- [MEGABYTES] [RUNS] [CONTROLLER]
//! ```
//!
//! Each end has a thread with a runtime of its own; with `CTCP_WORKERS=N` in the
//! environment each has a runtime of N threads instead.
//!
//! The timed region is from the first write to the end read at the far side. CPU
//! time is the whole process's: both ends, application included.

use std::error::Error;
use std::time::{Duration, Instant};

use ctcp::{
    Authorize, ClientConfig, Connection, Decision, Endpoint, Identity, PublicKey, SecretKey,
    ServerConfig, SocketStats,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Builder;

struct Everyone;

impl Authorize for Everyone {
    fn authorize(&mut self, _: &PublicKey, _: &[u8], _: u64) -> Decision {
        Decision::Allow
    }
}

/// Length of one write and one read, bytes.
const PIECE: usize = 64 << 10;
/// Small requests timed.
const REQUESTS: usize = 2000;

/// CPU time of the process so far.
#[cfg(target_os = "linux")]
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(not(target_os = "linux"))]
fn cpu_time() -> Duration {
    Duration::ZERO
}

/// What is sent over and over, twice in a row so that any `PIECE` bytes of the
/// repetition are a slice of it.
fn pattern() -> Vec<u8> {
    let byte = |index: usize| (((index % PIECE) * 31) >> 3) as u8;
    (0..2 * PIECE).map(byte).collect()
}

/// Reads everything and compares it; answers how many bytes there were.
async fn drink(connection: &Connection, pattern: &[u8]) -> std::io::Result<u64> {
    let mut stream = connection
        .accept_stream()
        .await
        .map_err(std::io::Error::other)?;
    let mut piece = vec![0; PIECE];
    let mut len = 0;
    loop {
        let count = stream.read(&mut piece).await?;
        if count == 0 {
            return Ok(len);
        }
        let start = (len % PIECE as u64) as usize;
        assert!(
            piece[..count] == pattern[start..start + count],
            "bytes were changed after {len}"
        );
        len += count as u64;
    }
}

async fn serve(server: Endpoint) {
    let Some(connection) = server.accept().await else {
        return;
    };
    let Ok(mut stream) = connection.accept_stream().await else {
        return;
    };
    // Requests first, then bulk.
    let mut request = [0; 100];
    for _ in 0..REQUESTS {
        if stream.read_exact(&mut request).await.is_err() {
            return;
        }
        if stream.write_all(&request).await.is_err() {
            return;
        }
    }
    let pattern = pattern();
    while let Ok(len) = drink(&connection, &pattern).await {
        if stream.write_all(&len.to_be_bytes()).await.is_err() {
            return;
        }
    }
}

fn show(name: &str, stats: SocketStats) {
    println!(
        "  {name}: {} datagrams out in {} calls, {} in by {}, blocked {}, errors {}, buffers {} / {} bytes",
        stats.datagrams_sent,
        stats.send_calls,
        stats.datagrams_received,
        stats.receive_calls,
        stats.send_blocked,
        stats.send_errors,
        stats.receive_buffer_bytes,
        stats.send_buffer_bytes,
    );
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let megabytes: u64 = arguments.next().map_or(Ok(1000), |text| text.parse())?;
    let runs: usize = arguments.next().map_or(Ok(3), |text| text.parse())?;
    let controller = arguments.next().unwrap_or_else(|| "auto".to_owned());

    let identity = |number| Identity::from_secret(SecretKey::from_bytes([number; 32]));
    let server_key = *identity(1).public();
    let workers = std::env::var("CTCP_WORKERS").ok();
    let workers: Option<usize> = workers.map(|text| text.parse()).transpose()?;
    let runtime = move || match workers {
        None => Builder::new_current_thread().enable_all().build(),
        Some(count) => Builder::new_multi_thread()
            .worker_threads(count)
            .enable_all()
            .build(),
    };

    let (address_out, address_in) = std::sync::mpsc::channel();
    let server_controller = controller.clone();
    std::thread::spawn(move || {
        runtime().expect("a runtime").block_on(async {
            let mut config = ServerConfig::new(identity(1), Everyone);
            config.transport.congestion = server_controller;
            let local = "127.0.0.1:0".parse().expect("an address");
            let server = Endpoint::server(local, config).expect("a free port");
            address_out
                .send(server.local_addr())
                .expect("main waits for it");
            serve(server.clone()).await;
            show("server", server.stats().socket);
        });
    });
    let address = address_in.recv()?;

    runtime()?.block_on(async {
        let mut config = ClientConfig::new(identity(2));
        config.transport.congestion = controller.clone();
        let client = Endpoint::client("127.0.0.1:0".parse()?, config)?;
        let connection = client.connect(address, server_key, None).await?;
        let mut talk = connection.open_stream().await?;

        let mut times = Vec::with_capacity(REQUESTS);
        let mut request = [7; 100];
        for _ in 0..REQUESTS {
            let start = Instant::now();
            talk.write_all(&request).await?;
            talk.read_exact(&mut request).await?;
            times.push(start.elapsed());
        }
        times.sort();
        println!(
            "request of 100 bytes and its answer: median {:?}, 99th percentile {:?}",
            times[REQUESTS / 2],
            times[REQUESTS * 99 / 100]
        );

        let pattern = pattern();
        let piece = &pattern[..PIECE];
        let pieces = (megabytes * 1_000_000).div_ceil(PIECE as u64);
        for run in 0..runs {
            let (start, cpu) = (Instant::now(), cpu_time());
            let mut stream = connection.open_stream().await?;
            for _ in 0..pieces {
                stream.write_all(piece).await?;
            }
            stream.shutdown().await?;
            let received = talk.read_u64().await?;
            assert_eq!(received, pieces * PIECE as u64, "bytes are missing");
            let bytes = pieces as f64 * PIECE as f64;
            let wall = start.elapsed().as_secs_f64();
            println!(
                "run {run}: {:.0} Mbit/s, {:.2} CPU s/GB",
                bytes * 8e-6 / wall,
                (cpu_time() - cpu).as_secs_f64() * 1e9 / bytes
            );
        }
        let stats = connection.stats();
        println!("  sent {:?}", stats.sent);
        println!("  {:?}", stats.paths);
        show("client", client.stats().socket);
        connection.close(0, "");
        client.drain(Duration::from_secs(2)).await;
        Ok(())
    })
}
