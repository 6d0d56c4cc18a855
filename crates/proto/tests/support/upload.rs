//! An upload over [`Multi`]: the client writes, the server reads and checks every byte.

use ctcp_proto::stream::Read;
use ctcp_units::{Duration, Instant, StreamId};

use crate::multi::Multi;
use crate::support::{Which, pattern};

pub(crate) struct Upload {
    stream: StreamId,
    /// The server's side of it.
    accepted: Option<StreamId>,
    len: u64,
    written: u64,
    pub(crate) read: u64,
    is_done: bool,
    /// Longest time between two moments at which bytes came, and when it ended.
    pub(crate) gap: (Duration, Instant),
    last_bytes: Instant,
    buf: Vec<u8>,
}

impl Upload {
    /// Of `len` bytes; `u64::MAX` never ends.
    pub(crate) fn begin(world: &mut Multi, len: u64) -> Self {
        let now = world.now;
        let client = world.connection(Which::Client).unwrap();
        Self {
            stream: client.open_stream().unwrap(),
            accepted: None,
            len,
            written: 0,
            read: 0,
            is_done: false,
            gap: (Duration::ZERO, now),
            last_bytes: now,
            buf: vec![0; 1 << 16],
        }
    }

    /// Writes and reads what can be; returns whether all has come.
    pub(crate) fn pump(&mut self, world: &mut Multi) -> bool {
        self.write(world);
        self.read(world);
        world.drain();
        self.is_done
    }

    fn write(&mut self, world: &mut Multi) {
        let client = world.connection(Which::Client).unwrap();
        while self.written < self.len {
            let end = self.len.min(self.written.saturating_add(8192));
            let chunk: Vec<u8> = (self.written..end)
                .map(|offset| pattern(7, offset))
                .collect();
            let Ok(count) = client.write(self.stream, &chunk) else {
                break;
            };
            self.written += count as u64;
            if self.written == self.len {
                client.finish(self.stream).unwrap();
            }
        }
    }

    fn read(&mut self, world: &mut Multi) {
        let now = world.now;
        let Some(server) = world.connection(Which::Server) else {
            return;
        };
        self.accepted = self.accepted.or_else(|| server.accept_stream());
        let Some(id) = self.accepted else { return };
        loop {
            match server.read(id, &mut self.buf) {
                Ok(Read::Bytes(count)) => {
                    for byte in &self.buf[..count] {
                        assert_eq!(*byte, pattern(7, self.read), "byte {}", self.read);
                        self.read += 1;
                    }
                    self.gap = self.gap.max((now - self.last_bytes, now));
                    self.last_bytes = now;
                }
                Ok(Read::End) => {
                    self.is_done = true;
                    break;
                }
                Err(_) => break,
            }
        }
    }
}
