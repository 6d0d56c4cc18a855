//! A web server for tests: bytes by seed, hashes of uploads, and manners bad
//! enough to see what a proxy makes of them.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use ctcp_units::Random;
use rustix::net::sockopt::set_socket_linger;

/// The first `len` bytes that `seed` names.
pub fn body(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Random::from_seed(seed).fill(&mut bytes);
    bytes
}

/// How long a test waits for what has to come.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a connection ended, as the web server saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// The peer ended its direction.
    End,
    /// The connection was reset.
    Reset,
}

/// The server; its threads live until the test ends.
pub struct Web {
    address: SocketAddr,
    requests: Mutex<Receiver<()>>,
    ends: Mutex<Receiver<Seen>>,
    peers: Arc<Mutex<Vec<SocketAddr>>>,
}

impl Web {
    pub fn start() -> Self {
        Self::start_on("127.0.0.1:0")
    }

    pub fn start_on(listen: &str) -> Self {
        let listener = TcpListener::bind(listen).expect("an address of ours");
        let address = listener.local_addr().expect("bound");
        let (request, requests) = channel();
        let (end, ends) = channel();
        let peers = Arc::default();
        let peers_seen: Arc<Mutex<Vec<SocketAddr>>> = Arc::clone(&peers);
        thread::spawn(move || {
            while let Ok((tcp, peer)) = listener.accept() {
                peers_seen.lock().expect("no panic").push(peer);
                let (request, end) = (request.clone(), end.clone());
                thread::spawn(move || {
                    // What the client makes of it is judged by the test.
                    let _ = answer(tcp, &request, &end);
                });
            }
        });
        Self {
            address,
            requests: Mutex::new(requests),
            ends: Mutex::new(ends),
            peers,
        }
    }

    /// Who has connected so far.
    pub fn peers(&self) -> Vec<SocketAddr> {
        self.peers.lock().expect("no panic").clone()
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for a request that was not waited for before.
    pub fn next_request(&self) {
        let requests = self.requests.lock().expect("no panic");
        requests.recv_timeout(PATIENCE).expect("a request");
    }

    /// Waits for the end of an `/endless` download.
    pub fn next_end(&self) -> Seen {
        let ends = self.ends.lock().expect("no panic");
        ends.recv_timeout(PATIENCE).expect("an end")
    }
}

/// `/bytes/SEED/LEN`, `/hash` (PUT), `/endless`, `/broken` (no length, reset in
/// the middle).
fn answer(tcp: TcpStream, request: &Sender<()>, end: &Sender<Seen>) -> io::Result<()> {
    let mut reader = BufReader::new(tcp.try_clone()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let _ = request.send(());
    let path = head
        .split_whitespace()
        .nth(1)
        .unwrap_or_default()
        .to_owned();
    let mut words = path.trim_start_matches('/').split('/');
    match words.next() {
        Some("bytes") => {
            let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
            let (seed, len) = (number(), number() as usize);
            send(tcp, len, &mut seeded(seed))
        }
        Some("hash") => {
            if head.to_lowercase().contains("expect: 100-continue") {
                (&tcp).write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
            }
            let hash = read_hash(&mut reader, length(&head))?;
            (&tcp).write_all(response(hash.len()).as_bytes())?;
            (&tcp).write_all(hash.as_bytes())
        }
        Some("endless") => {
            let _ = end.send(endless(&tcp, &mut reader));
            Ok(())
        }
        _ => {
            (&tcp).write_all(b"HTTP/1.0 200 OK\r\n\r\n")?;
            (&tcp).write_all(&body(1, 100_000))?;
            thread::sleep(Duration::from_millis(500));
            set_socket_linger(&tcp, Some(Duration::ZERO))?;
            Ok(())
        }
    }
}

fn response(len: usize) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n")
}

fn length(head: &str) -> usize {
    let lower = head.to_lowercase();
    let (_, rest) = lower.split_once("content-length:").unwrap_or_default();
    rest.lines()
        .next()
        .and_then(|line| line.trim().parse().ok())
        .unwrap_or(0)
}

/// Fills chunk after chunk with the bytes of a seed.
fn seeded(seed: u64) -> impl FnMut(&mut [u8]) {
    let mut random = Random::from_seed(seed);
    move |chunk| random.fill(chunk)
}

fn send(tcp: TcpStream, len: usize, fill: &mut impl FnMut(&mut [u8])) -> io::Result<()> {
    (&tcp).write_all(response(len).as_bytes())?;
    // A multiple of 8, so that chunks are filled as the whole would be.
    let mut chunk = vec![0; 64 << 10];
    let mut left = len;
    while left > 0 {
        let count = left.min(chunk.len());
        fill(&mut chunk[..count]);
        (&tcp).write_all(&chunk[..count])?;
        left -= count;
    }
    tcp.shutdown(Shutdown::Write)
}

fn read_hash(reader: &mut impl Read, len: usize) -> io::Result<String> {
    use sha2::{Digest, Sha256};
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; 64 << 10];
    let mut left = len;
    while left > 0 {
        let wanted = left.min(chunk.len());
        let count = reader.read(&mut chunk[..wanted])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        hasher.update(&chunk[..count]);
        left -= count;
    }
    Ok(hasher
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

/// Sends a little, then waits until the client is gone; how it went. Nothing is
/// being written then: the system tells of a reset once, and reading has to be
/// who learns of it.
fn endless(tcp: &TcpStream, reader: &mut impl Read) -> Seen {
    let mut head = b"HTTP/1.0 200 OK\r\n\r\n".to_vec();
    head.resize(300_000, b'x');
    match (&mut &*tcp)
        .write_all(&head)
        .and_then(|()| reader.read(&mut [0]))
    {
        Ok(_) => Seen::End,
        Err(_) => Seen::Reset,
    }
}
