//! A small web server: what the laboratory's own sink, curl and wget fetch.
//!
//! The plain subset of HTTP/1.1 that they need, on a thread per connection: `GET`,
//! one request a connection, a length where there is one. It serves
//!
//! - `/bytes/LEN`: as many bytes of the [`Content`],
//! - `/endless`: its bytes for as long as somebody reads,
//! - `/paced/LEN`: portions of so many bytes at a steady rate, see [`paced`],
//! - `/film`: a file.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use rustix::net as socket;
use socket2::SockRef;

use crate::workload::content::Content;
use crate::workload::paced;

/// Requests with longer heads are dropped.
const HEAD_LEN_MAX: usize = 16 << 10;

/// What is served.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) content: Arc<Content>,
    pub(crate) film: Option<PathBuf>,
    /// Congestion control to set on each connection; none: that of the route,
    /// which further subflows of Multipath TCP do not take.
    pub(crate) congestion: Option<String>,
}

/// A running server; it ends when dropped.
#[derive(Debug)]
pub(crate) struct WebServer {
    listener: Arc<TcpListener>,
    open: Arc<Mutex<Vec<Arc<TcpStream>>>>,
    accepting: Option<JoinHandle<()>>,
}

impl WebServer {
    /// Serves on a socket that was bound in the namespace of the server.
    pub(crate) fn start(listener: TcpListener, site: Site) -> Self {
        let listener = Arc::new(listener);
        let open = Arc::new(Mutex::new(Vec::new()));
        let accepting = {
            let (listener, open, site) = (listener.clone(), open.clone(), Arc::new(site));
            thread::spawn(move || accept(&listener, &open, &site))
        };
        Self {
            listener,
            open,
            accepting: Some(accepting),
        }
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        // Wakes `accept`, which then fails.
        let _ = socket::shutdown(&self.listener, socket::Shutdown::Both);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        for stream in self.open.lock().expect("no holder panics").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn accept(listener: &TcpListener, open: &Mutex<Vec<Arc<TcpStream>>>, site: &Arc<Site>) {
    while let Ok((stream, _)) = listener.accept() {
        let stream = Arc::new(stream);
        let mut all = open.lock().expect("no holder panics");
        all.retain(|stream| Arc::strong_count(stream) > 1);
        all.push(stream.clone());
        drop(all);
        let site = site.clone();
        // A reader who leaves is no error of ours.
        thread::spawn(move || drop(serve(&stream, &site)));
    }
}

fn serve(stream: &TcpStream, site: &Site) -> io::Result<()> {
    stream.set_nodelay(true)?;
    if let Some(name) = &site.congestion {
        SockRef::from(stream).set_tcp_congestion(name.as_bytes())?;
    }
    let path = read_request(stream)?;
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    match parts[..] {
        ["bytes", len] => match len.parse() {
            Ok(len) => send_content(stream, &site.content, Some(len)),
            Err(_) => refuse(stream),
        },
        ["endless"] => send_content(stream, &site.content, None),
        ["paced", len] => match len.parse() {
            Ok(len) => {
                let mut stream = stream;
                stream.write_all(head(None).as_bytes())?;
                paced::send(stream, &site.content, len)
            }
            Err(_) => refuse(stream),
        },
        ["film"] => match &site.film {
            Some(film) => send_file(stream, film),
            None => refuse(stream),
        },
        _ => refuse(stream),
    }
}

/// Reads a request to its empty line; the path it asks for.
fn read_request(stream: &TcpStream) -> io::Result<String> {
    let mut reader = BufReader::new(stream);
    let mut path = String::new();
    let mut head_len = 0;
    loop {
        let mut line = String::new();
        head_len += reader.read_line(&mut line)?;
        if head_len > HEAD_LEN_MAX || line.is_empty() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if path.is_empty() {
            line.split(' ')
                .nth(1)
                .ok_or(io::ErrorKind::InvalidData)?
                .clone_into(&mut path);
        }
        if line.trim_end().is_empty() {
            return Ok(path);
        }
    }
}

fn head(len: Option<u64>) -> String {
    let length = len.map_or(String::new(), |len| format!("Content-Length: {len}\r\n"));
    format!(
        "HTTP/1.1 200 OK\r\n{length}Content-Type: application/octet-stream\r\n\
         Connection: close\r\n\r\n"
    )
}

fn send_content(mut stream: &TcpStream, content: &Content, len: Option<u64>) -> io::Result<()> {
    let end = len.unwrap_or(u64::MAX);
    let mut sent: u64 = 0;
    // Head and first bytes go together: no packet for the head alone.
    let mut first = head(len).into_bytes();
    let some = content.at(0);
    let with_head = (end.min(8192)) as usize;
    first.extend_from_slice(&some[..with_head]);
    stream.write_all(&first)?;
    sent += with_head as u64;
    while sent < end {
        let bytes = content.at(sent);
        let len = (bytes.len() as u64).min(end - sent) as usize;
        stream.write_all(&bytes[..len])?;
        sent += len as u64;
    }
    stream.shutdown(Shutdown::Write)
}

fn send_file(mut stream: &TcpStream, path: &PathBuf) -> io::Result<()> {
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    stream.write_all(head(Some(len)).as_bytes())?;
    io::copy(&mut file, &mut stream)?;
    stream.shutdown(Shutdown::Write)
}

fn refuse(mut stream: &TcpStream) -> io::Result<()> {
    stream
        .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
    stream.shutdown(Shutdown::Write)
}

/// Where the server is found.
pub(crate) fn url(server: SocketAddr, path: &str) -> String {
    format!("http://{server}/{path}")
}
