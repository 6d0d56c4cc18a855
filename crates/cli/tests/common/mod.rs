//! What the end-to-end tests share: the built `ctcp`, a web server, a path that
//! misbehaves, and curl.
#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "each test file is a crate of its own and uses its part"
)]

mod chromium;
mod process;
mod sshd;
mod web;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use ctcp_emu::{LinkConfig, Relay, RelayConfig, RelayHandle};
use ctcp_units::{Rate, millis};
use sha2::{Digest, Sha256};

pub use chromium::Chromium;
pub use process::{Ctcp, Key};
pub use sshd::Sshd;
pub use web::{Seen, Web, body};

/// The seed of randomized tests: `CTCP_SEED`, else a fixed one. Printed, so that
/// a failure shows it.
pub fn seed() -> u64 {
    let given = std::env::var("CTCP_SEED").ok();
    let seed = given.and_then(|text| text.parse().ok()).unwrap_or(1);
    println!("CTCP_SEED={seed}");
    seed
}

/// A hash to compare transfers by.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Whether a program of someone else's can be run; says so if not.
pub fn has(program: &str, package: &str) -> bool {
    let found = std::env::var_os("PATH").is_some_and(|paths| {
        let sbin = Path::new("/usr/sbin").to_owned();
        let mut folders = std::env::split_paths(&paths).chain([sbin]);
        folders.any(|folder| folder.join(program).is_file())
    });
    if !found {
        eprintln!("SKIPPED: {program} missing, install package {package}");
    }
    found
}

/// Whether curl can be run; says so if not.
pub fn has_curl() -> bool {
    has("curl", "curl")
}

/// A link of 50 Mbit/s and 10 ms in one direction, with a queue of one
/// bandwidth-delay product.
pub fn link() -> LinkConfig {
    LinkConfig::new(Rate::mbit(50), millis(10)).queue_bdp(1.0, millis(20))
}

/// A client, a path and a server, all running.
pub struct Net {
    pub client: Ctcp,
    pub server: Ctcp,
    pub relay: RelayHandle,
    pub socks: SocketAddr,
    pub server_key: Key,
    pub client_key: Key,
}

impl Net {
    /// Both directions of the path are `link`.
    pub fn start(link: LinkConfig) -> Self {
        Self::start_with(link, &[])
    }

    /// The same, with further arguments for the client.
    pub fn start_with(link: LinkConfig, client_args: &[&str]) -> Self {
        let (server_key, client_key) = (Key::generate(), Key::generate());
        let server = start_server(&server_key, &client_key, "127.0.0.1:0");
        let behind = server.result("listening").parse().expect("an address");
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let config = RelayConfig::new(any, behind, link.clone(), link).seed(seed());
        let relay = Relay::spawn(config).expect("the relay starts");
        let path = relay.local_addr().to_string();
        let client = start_client(&path, &server_key, &client_key, client_args);
        let socks = client.result("socks5").parse().expect("an address");
        Self {
            client,
            server,
            relay,
            socks,
            server_key,
            client_key,
        }
    }

    /// Runs curl through the proxy.
    pub fn curl(&self, args: &[&str]) -> Output {
        curl(self.socks, args)
    }

    /// Downloads `len` bytes and checks each of them.
    pub fn download(&self, web: &Web, seed: u64, len: usize) {
        let output = self.curl(&[&web.url(&format!("/bytes/{seed}/{len}"))]);
        assert_ok(&output);
        assert_eq!(output.stdout.len(), len);
        assert_eq!(
            sha256(&output.stdout),
            sha256(&body(seed, len)),
            "bytes differ"
        );
    }

    /// Uploads `len` bytes; the web server answers with the hash of what it got.
    pub fn upload(&self, web: &Web, seed: u64, len: usize) {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), body(seed, len)).expect("written");
        let from = file.path().to_str().expect("UTF-8");
        let output = self.curl(&["--upload-file", from, &web.url("/hash")]);
        assert_ok(&output);
        let answer = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(answer, sha256(&body(seed, len)), "bytes differ");
    }
}

/// A server that lets one client in and may reach this machine.
pub fn start_server(server: &Key, client: &Key, listen: &str) -> Ctcp {
    let mut args = vec!["server", "--listen", listen, "--key", server.path()];
    args.extend(["--allow", &client.public, "--egress-allow", "127.0.0.0/8"]);
    Ctcp::start(&args)
}

/// A client of the server at `address`, with a SOCKS proxy on any port and further
/// arguments.
pub fn start_client(address: &str, server: &Key, client: &Key, further: &[&str]) -> Ctcp {
    let mut args = vec!["client", "--server", address];
    args.extend(["--server-key", &server.public, "--key", client.path()]);
    args.extend(["--socks", "127.0.0.1:0"]);
    args.extend(further);
    Ctcp::start(&args)
}

/// The command that runs curl through a SOCKS proxy.
pub fn curl_command(socks: SocketAddr) -> Command {
    let mut command = Command::new("curl");
    command.args([
        "--silent",
        "--show-error",
        "--fail",
        "--noproxy",
        "",
        "--max-time",
        "90",
    ]);
    command.args(["--socks5-hostname", &socks.to_string()]);
    command
}

/// Runs curl through a SOCKS proxy.
pub fn curl(socks: SocketAddr, args: &[&str]) -> Output {
    curl_command(socks).args(args).output().expect("curl runs")
}

/// A connection to an IPv4 target through a SOCKS5 proxy.
pub fn socks_connect(socks: SocketAddr, target: SocketAddr) -> TcpStream {
    let mut tcp = TcpStream::connect(socks).expect("it listens");
    let SocketAddr::V4(target) = target else {
        panic!("the tests' targets have IPv4 addresses");
    };
    let mut request = vec![5, 1, 0, 5, 1, 0, 1];
    request.extend(target.ip().octets());
    request.extend(target.port().to_be_bytes());
    tcp.write_all(&request).expect("open");
    let mut answer = [0; 12];
    tcp.read_exact(&mut answer).expect("an answer");
    assert_eq!(answer[..4], [5, 0, 5, 0], "the proxy connects");
    tcp
}

/// Fails with what the program said.
pub fn assert_ok(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
}

/// Waits until `condition` holds.
pub fn wait_until(what: &str, patience: Duration, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(
            started.elapsed() < patience,
            "not within {patience:?}: {what}"
        );
        thread::sleep(Duration::from_millis(50));
    }
}
