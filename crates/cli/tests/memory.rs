//! A large transfer holds its memory bound at both ends. 200 MB here;
//! `CTCP_SOAK_BYTES` asks for more, as `scripts/soak` does.

mod common;

use std::process::Stdio;

use common::{Key, Web, curl_command, has_curl, start_client, start_server};
use ctcp_units::Random;
use sha2::{Digest, Sha256};

/// What a process may hold, whatever it carries: its code, the buffers of its
/// sockets and streams, the blocks in flight.
const MEMORY_MAX: u64 = 64 << 20;

#[test]
fn a_large_transfer_holds_its_memory_bound() {
    if !has_curl() {
        return;
    }
    let given = std::env::var("CTCP_SOAK_BYTES").ok();
    let len: u64 = given
        .and_then(|text| text.parse().ok())
        .unwrap_or(200_000_000);
    let (server_key, client_key) = (Key::generate(), Key::generate());
    let server = start_server(&server_key, &client_key, "127.0.0.1:0");
    let address = server.result("listening");
    let client = start_client(&address, &server_key, &client_key, &[]);
    let socks = client.result("socks5").parse().expect("an address");
    let web = Web::start();
    let mut curl = curl_command(socks)
        .args([
            "--max-time",
            "3600",
            "--write-out",
            "%{stderr}%{size_download}\n",
        ])
        .arg(web.url(&format!("/bytes/1/{len}")))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("curl runs");
    let got = hash_of(curl.stdout.take().expect("piped"));
    assert!(curl.wait().expect("it is ours").success());
    assert_eq!(got, expected(1, len));
    for (name, process) in [("client", &client), ("server", &server)] {
        let held = process.memory_max();
        println!(
            "{name}: at most {} MB for {} MB",
            held >> 20,
            len / 1_000_000
        );
        assert!(held < MEMORY_MAX, "{name} held {held} bytes");
    }
}

/// The hash of what the web server sends, without holding all of it.
fn expected(seed: u64, len: u64) -> String {
    let (mut random, mut left) = (Random::from_seed(seed), len);
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; 1 << 16];
    while left > 0 {
        let count = left.min(chunk.len() as u64) as usize;
        random.fill(&mut chunk[..count]);
        hasher.update(&chunk[..count]);
        left -= count as u64;
    }
    hex(&hasher.finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hash_of(mut from: impl std::io::Read) -> String {
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; 1 << 20];
    loop {
        match from.read(&mut chunk).expect("a pipe") {
            0 => break,
            count => hasher.update(&chunk[..count]),
        }
    }
    hex(&hasher.finalize())
}
