//! The demo's web server and the HTTP client that downloads from it. Both speak
//! just enough HTTP/1.1 for one another.

use std::io;
use std::net::{IpAddr, SocketAddr};

use sha2::{Digest, Sha256};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::bars::Progress;
use super::content::{CHUNK_BYTES, Content, hex};

/// Most bytes of a request's or an answer's head.
const HEAD_LEN_MAX: u64 = 16 << 10;

/// Serves `content` to whoever asks for anything, until the task is dropped.
pub(crate) async fn serve(listener: TcpListener, content: Content, len: u64) {
    while let Ok((tcp, _)) = listener.accept().await {
        let content = content.clone();
        tokio::spawn(async move {
            // A client that leaves early is its own business.
            let _ = answer(tcp, content, len).await;
        });
    }
}

async fn answer(tcp: TcpStream, mut content: Content, len: u64) -> io::Result<()> {
    let mut tcp = BufReader::new(tcp);
    read_head(&mut tcp).await?;
    let mut tcp = tcp.into_inner();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n\
         Content-Length: {len}\r\nConnection: close\r\n\r\n"
    );
    tcp.write_all(head.as_bytes()).await?;
    let mut chunk = Vec::with_capacity(CHUNK_BYTES);
    loop {
        content.next_chunk(&mut chunk);
        if chunk.is_empty() {
            return tcp.shutdown().await;
        }
        tcp.write_all(&chunk).await?;
    }
}

/// Connects to `target` through the SOCKS5 proxy.
pub(crate) async fn connect_by_socks(
    proxy: SocketAddr,
    target: SocketAddr,
) -> io::Result<TcpStream> {
    let mut tcp = TcpStream::connect(proxy).await?;
    socks_connect(&mut tcp, target).await?;
    Ok(tcp)
}

/// Downloads from `target`, to which `tcp` leads; tells `progress` the bytes
/// there are so far. Returns their number and hash.
pub(crate) async fn download(
    mut tcp: TcpStream,
    target: SocketAddr,
    progress: &Progress,
) -> io::Result<(u64, String)> {
    let request = format!("GET /demo HTTP/1.1\r\nHost: {target}\r\nConnection: close\r\n\r\n");
    tcp.write_all(request.as_bytes()).await?;
    let mut tcp = BufReader::new(tcp);
    let head = read_head(&mut tcp).await?;
    let len = content_length(&head)?;
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut received = 0;
    while received < len {
        let count = match tcp.read(&mut chunk).await? {
            0 => {
                let cut = format!("the download ended after {received} of {len} bytes");
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, cut));
            }
            count => count,
        };
        hasher.update(&chunk[..count]);
        received += count as u64;
        progress.set(received);
    }
    Ok((received, hex(&hasher.finalize())))
}

/// Asks a SOCKS5 proxy for a connection ([RFC1928] §3, §4 and §6).
async fn socks_connect(tcp: &mut TcpStream, target: SocketAddr) -> io::Result<()> {
    let mut request = vec![5, 1, 0, 5, 1, 0];
    match target.ip() {
        IpAddr::V4(ip) => {
            request.push(1);
            request.extend(ip.octets());
        }
        IpAddr::V6(ip) => {
            request.push(4);
            request.extend(ip.octets());
        }
    }
    request.extend(target.port().to_be_bytes());
    tcp.write_all(&request).await?;
    let mut method = [0; 2];
    tcp.read_exact(&mut method).await?;
    let mut reply = [0; 4];
    tcp.read_exact(&mut reply).await?;
    if method != [5, 0] || reply[1] != 0 {
        let code = reply[1];
        return Err(io::Error::other(format!("the SOCKS proxy answers {code}")));
    }
    let address_len = if reply[3] == 1 { 4 } else { 16 };
    let mut bound = vec![0; address_len + 2];
    tcp.read_exact(&mut bound).await.map(drop)
}

async fn read_head(tcp: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut head = String::new();
    let mut limited = tcp.take(HEAD_LEN_MAX);
    while !head.ends_with("\r\n\r\n") {
        if limited.read_line(&mut head).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(head)
}

fn content_length(head: &str) -> io::Result<u64> {
    let is_ok = head.starts_with("HTTP/1.1 200 ");
    let mut lines = head.lines();
    let len = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse().ok())?
    });
    match len {
        Some(len) if is_ok => Ok(len),
        _ => Err(io::Error::other("the web server's answer makes no sense")),
    }
}
