//! What CTCP says of itself: its control sockets, asked while a flow runs.
//!
//! Each process has a Unix socket in a folder of the flow's own, and answers
//! `GET /api/status` with a snapshot. What is missing in it is left out of the
//! record: an older `ctcp` may be under test.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

/// How long a process may take to answer.
const PATIENCE: Duration = Duration::from_millis(300);
/// Longest answer taken.
const ANSWER_LEN_MAX: u64 = 8 << 20;
/// Longest folder whose sockets have names that the kernel takes: 108 bytes, less
/// `/server-4194304.sock`.
const FOLDER_LEN_MAX: usize = 80;

/// Packets that the client has received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Received {
    /// All of them.
    pub(crate) packets: u64,
    /// Symbols and combinations among them that brought nothing.
    pub(crate) useless: u64,
}

impl Received {
    /// Share of what came since `before` that brought nothing; none if nothing
    /// came, or another process counts by now.
    pub(crate) fn useless_share_since(&self, before: &Self) -> Option<f64> {
        let packets = self.packets.checked_sub(before.packets)?;
        let useless = self.useless.checked_sub(before.useless)?;
        (packets > 0).then(|| useless as f64 / packets as f64)
    }
}

/// The control sockets of one flow.
#[derive(Debug, Clone)]
pub(crate) struct Counters {
    folder: PathBuf,
}

impl Counters {
    /// Sockets in `folder`; none where their names would be too long.
    pub(crate) fn in_folder(folder: PathBuf) -> Option<Self> {
        (folder.as_os_str().len() <= FOLDER_LEN_MAX).then_some(Self { folder })
    }

    /// Where they are, for `--control`.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// What the client has received.
    pub(crate) fn received(&self) -> Option<Received> {
        let snapshot = self.ask("client")?;
        let mut all = Received::default();
        for connection in snapshot["connections"].as_array()? {
            let kinds = ["handshake", "control", "systematic", "coded"];
            for kind in kinds {
                all.packets += connection["received"][kind].as_u64()?;
            }
            all.useless += connection["useless"].as_u64()?;
        }
        Some(all)
    }

    /// Smoothed round trip of the server's first path, seconds.
    pub(crate) fn srtt_s(&self) -> Option<f64> {
        let snapshot = self.ask("server")?;
        let connections = snapshot["connections"].as_array()?;
        connections.last()?["paths"][0]["srtt"].as_f64()
    }

    /// A snapshot of the process of this role.
    fn ask(&self, role: &str) -> Option<Value> {
        let entries = std::fs::read_dir(&self.folder).ok()?;
        let mut names = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let socket = names.find(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(role) && name.ends_with(".sock"))
        })?;
        let answer = read(&socket).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        head.starts_with("HTTP/1.0 200").then_some(())?;
        serde_json::from_str(body).ok()
    }
}

fn read(socket: &Path) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /api/status HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(ANSWER_LEN_MAX).read_to_string(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::thread;

    /// Answers once, as a process of this role would.
    fn answering(folder: &Path, role: &str, body: &str) -> thread::JoinHandle<()> {
        let listener = UnixListener::bind(folder.join(format!("{role}-7.sock"))).expect("free");
        let answer = format!("HTTP/1.0 200 OK\r\n\r\n{body}");
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody asks");
            let mut request = [0; 256];
            let _ = stream.read(&mut request).expect("a request");
            stream.write_all(answer.as_bytes()).expect("it listens");
        })
    }

    #[test]
    fn what_the_client_received_is_added_up_over_its_connections() {
        let folder = tempfile::tempdir().expect("a folder");
        let connection = r#"{"received":{"handshake":1,"control":2,"systematic":80,"coded":17,"bytes":9},"useless":5}"#;
        let body = format!(r#"{{"connections":[{connection},{connection}]}}"#);
        let process = answering(folder.path(), "client", &body);
        let counters = Counters::in_folder(folder.path().to_owned()).expect("short enough");
        let received = counters.received().expect("it answers");
        process.join().expect("it does not panic");
        assert_eq!((received.packets, received.useless), (200, 10));
        let before = Received::default();
        assert_eq!(received.useless_share_since(&before), Some(0.05));
        assert_eq!(before.useless_share_since(&received), None, "others count");
    }

    #[test]
    fn an_answer_without_counters_tells_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let counters = Counters::in_folder(folder.path().to_owned()).expect("short enough");
        assert_eq!(counters.received(), None, "nobody is there");
        let process = answering(folder.path(), "server", r#"{"connections":[{"paths":[]}]}"#);
        assert_eq!(counters.srtt_s(), None);
        process.join().expect("it does not panic");
    }
}
