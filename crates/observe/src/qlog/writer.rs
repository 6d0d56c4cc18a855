//! The thread that writes traces.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use tracing::warn;

/// Chunks that wait to be written: with chunks of 16 KiB, 8 MiB.
const CHUNKS_MAX: usize = 512;
/// How long flushing may take.
const FLUSH_PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
enum Message {
    Open(u64, PathBuf, File),
    Chunk(u64, Vec<u8>),
    Close(u64),
    Flush(SyncSender<()>),
}

/// Hands chunks to the thread.
#[derive(Debug)]
pub(super) struct Writer {
    sender: SyncSender<Message>,
    next: AtomicU64,
}

/// One file. Chunks that find the channel full are dropped.
#[derive(Debug)]
pub(super) struct Sink {
    sender: SyncSender<Message>,
    id: u64,
}

impl Writer {
    /// Starts the thread; it ends with the last sink.
    pub(super) fn start() -> io::Result<Self> {
        let (sender, receiver) = sync_channel(CHUNKS_MAX);
        thread::Builder::new()
            .name("ctcp-qlog".to_owned())
            .spawn(move || run(&receiver))?;
        Ok(Self {
            sender,
            next: AtomicU64::new(0),
        })
    }

    pub(super) fn add(&self, path: PathBuf, file: File) -> Sink {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        // A file that is not opened for want of room gets no chunks either.
        let _ = self.sender.try_send(Message::Open(id, path, file));
        Sink {
            sender: self.sender.clone(),
            id,
        }
    }

    /// Waits until everything sent so far is written.
    pub(super) fn flush(&self) {
        let (told, done) = sync_channel(1);
        if self.sender.try_send(Message::Flush(told)).is_ok() {
            let _ = done.recv_timeout(FLUSH_PATIENCE);
        }
    }
}

impl Sink {
    /// Hands a chunk on; false if it was dropped.
    pub(super) fn send(&self, chunk: Vec<u8>) -> bool {
        self.sender.try_send(Message::Chunk(self.id, chunk)).is_ok()
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        let _ = self.sender.try_send(Message::Close(self.id));
    }
}

fn run(receiver: &Receiver<Message>) {
    let mut files = BTreeMap::new();
    while let Ok(message) = receiver.recv() {
        match message {
            Message::Open(id, path, file) => {
                files.insert(id, (path, file));
            }
            Message::Chunk(id, chunk) => {
                let Some((path, file)) = files.get_mut(&id) else {
                    continue;
                };
                if let Err(error) = file.write_all(&chunk) {
                    warn!(file = %path.display(), %error, "a trace ends early");
                    files.remove(&id);
                }
            }
            Message::Close(id) => {
                files.remove(&id);
            }
            Message::Flush(told) => {
                let _ = told.try_send(());
            }
        }
    }
}
