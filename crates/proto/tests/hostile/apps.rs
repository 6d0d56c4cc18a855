//! Two applications that do random things with streams, and what must hold
//! whatever the network does to them.

use std::collections::BTreeMap;

use ctcp_proto::stream::{OpenError, Read, ReadError, WriteError};
use ctcp_proto::{Connection, TransportConfig};
use ctcp_units::{Random, StreamId};

use crate::support::{Which, World, pattern};

/// Streams that each side opens at most.
const STREAMS_MAX: usize = 8;
/// Bytes that one application writes at most.
const BYTES_MAX: u64 = 400_000;

/// What one side wrote to a stream and the other read of it.
#[derive(Debug, Default)]
pub(crate) struct Half {
    written: u64,
    is_finished: bool,
    is_reset: bool,
    read: u64,
    pub(crate) has_ended: bool,
    pub(crate) saw_reset: bool,
    is_stopped: bool,
    /// Its reader does not read.
    is_neglected: bool,
}

impl Half {
    /// The reader has learnt how it ends, or does not want to.
    fn is_settled(&self) -> bool {
        self.has_ended || self.saw_reset || self.is_stopped || self.is_neglected
    }
}

/// Both applications.
pub(crate) struct Apps {
    /// By stream and by who writes.
    halves: BTreeMap<(StreamId, bool), Half>,
    /// Streams each side knows.
    known: [Vec<StreamId>; 2],
    bytes_written: [u64; 2],
    neglect_share: f64,
    buf: Vec<u8>,
}

const fn side(which: Which) -> usize {
    match which {
        Which::Client => 0,
        Which::Server => 1,
    }
}

impl Apps {
    pub(crate) fn new(random: &mut Random) -> Self {
        Self {
            halves: BTreeMap::new(),
            known: [Vec::new(), Vec::new()],
            bytes_written: [0; 2],
            neglect_share: if random.chance(0.3) { 0.3 } else { 0.0 },
            buf: Vec::new(),
        }
    }

    fn half(&mut self, id: StreamId, writer: usize) -> &mut Half {
        self.halves
            .get_mut(&(id, writer == 1))
            .expect("both halves of known streams")
    }

    fn learn(&mut self, which: Which, id: StreamId, random: &mut Random) {
        self.known[side(which)].push(id);
        for writer in [false, true] {
            let is_neglected = random.chance(self.neglect_share);
            self.halves.entry((id, writer)).or_insert(Half {
                is_neglected,
                ..Half::default()
            });
        }
    }

    fn accept(&mut self, which: Which, connection: &mut Connection, random: &mut Random) {
        while let Some(id) = connection.accept_stream() {
            self.learn(which, id, random);
        }
    }

    /// One random thing that the application on side `which` does.
    pub(crate) fn act(&mut self, world: &mut World, which: Which, random: &mut Random) {
        let Some(connection) = world.connection(which).filter(|c| c.is_open()) else {
            return;
        };
        self.accept(which, connection, random);
        let own = self.known[side(which)].len();
        match random.below(20) {
            0 | 1 if own < STREAMS_MAX => match connection.open_stream() {
                Ok(id) => self.learn(which, id, random),
                Err(OpenError::TooMany) => {}
                Err(error) => panic!("{error}"),
            },
            2 => {
                // Too early is as good an answer as any.
                let _ = connection.update_keys();
            }
            3 => {
                if let Some(id) = self.any(which, random) {
                    self.finish(which, connection, id);
                }
            }
            4 if random.chance(0.2) => {
                if let Some(id) = self.any(which, random) {
                    connection.reset(id, 7);
                    self.half(id, side(which)).is_reset = true;
                }
            }
            5 if random.chance(0.2) => {
                if let Some(id) = self.any(which, random) {
                    connection.stop(id, 9);
                    self.half(id, 1 - side(which)).is_stopped = true;
                }
            }
            6..=11 => {
                if let Some(id) = self.any(which, random) {
                    let most = [8, 300, 3000, 40_000][random.below(4) as usize];
                    self.write(which, connection, id, 1 + random.below(most));
                }
            }
            12..=17 => {
                for _ in 0..random.below(6) {
                    if let Some(id) = self.any(which, random) {
                        self.read(which, connection, id, 1 + random.below(20_000));
                    }
                }
            }
            _ => {}
        }
    }

    fn any(&self, which: Which, random: &mut Random) -> Option<StreamId> {
        let known = &self.known[side(which)];
        let index = random.below(known.len().max(1) as u64);
        known.get(index as usize).copied()
    }

    fn write(&mut self, which: Which, connection: &mut Connection, id: StreamId, len: u64) {
        let me = side(which);
        let len = len.min(BYTES_MAX.saturating_sub(self.bytes_written[me]));
        let half = self.half(id, me);
        let from = half.written;
        let data: Vec<u8> = (from..from + len)
            .map(|at| pattern(id.0 * 2 + me as u64, at))
            .collect();
        match connection.write(id, &data) {
            Ok(count) => {
                assert!(
                    !half.is_finished && !half.is_reset,
                    "{id}: written past the end"
                );
                half.written += count as u64;
                self.bytes_written[me] += count as u64;
            }
            Err(WriteError::Blocked | WriteError::Stopped(_)) => {}
            Err(WriteError::Finished) => assert!(half.is_finished, "{id}"),
            Err(WriteError::Reset) => assert!(half.is_reset, "{id}"),
            Err(WriteError::Unknown) => {}
        }
    }

    fn finish(&mut self, which: Which, connection: &mut Connection, id: StreamId) {
        if connection.finish(id).is_ok() {
            self.half(id, side(which)).is_finished = true;
        }
    }

    fn read(&mut self, which: Which, connection: &mut Connection, id: StreamId, len: u64) -> bool {
        let writer = 1 - side(which);
        let mut buf = core::mem::take(&mut self.buf);
        buf.resize(len as usize, 0);
        let half = self.half(id, writer);
        let mut has_more = false;
        if !half.is_neglected {
            match connection.read(id, &mut buf) {
                Ok(Read::Bytes(count)) => {
                    assert!(
                        !half.has_ended && !half.saw_reset,
                        "{id}: bytes after the end"
                    );
                    for (at, byte) in (half.read..).zip(&buf[..count]) {
                        let expected = pattern(id.0 * 2 + writer as u64, at);
                        assert_eq!(*byte, expected, "{id}: byte {at} written by {writer}");
                    }
                    half.read += count as u64;
                    assert!(half.read <= half.written, "{id}: more read than written");
                    has_more = true;
                }
                Ok(Read::End) => {
                    assert!(half.is_finished, "{id}: ended but never finished");
                    assert_eq!(half.read, half.written, "{id}: ended short");
                    half.has_ended = true;
                }
                Err(ReadError::Reset(code)) => {
                    assert!(half.is_reset || half.is_stopped, "{id}: reset {code}");
                    half.saw_reset = true;
                }
                Err(ReadError::Blocked) => {}
                Err(ReadError::Stopped) => assert!(half.is_stopped, "{id}"),
                Err(ReadError::Unknown) => assert!(half.is_settled(), "{id}: {half:?}"),
            }
        }
        self.buf = buf;
        has_more
    }

    /// Both applications end what they write and read what there is. Returns
    /// whether every stream has come to its end.
    pub(crate) fn wind_up(&mut self, world: &mut World, random: &mut Random) -> bool {
        for which in [Which::Client, Which::Server] {
            let Some(connection) = world.connection(which) else {
                return false;
            };
            if !connection.is_open() {
                return false;
            }
            self.accept(which, connection, random);
            for index in 0..self.known[side(which)].len() {
                let id = self.known[side(which)][index];
                let half = self.half(id, side(which));
                if !half.is_finished && !half.is_reset {
                    self.finish(which, connection, id);
                }
                while self.read(which, connection, id, 65_536) {}
            }
        }
        world.drain();
        self.halves.values().all(Half::is_settled)
    }

    /// Bytes read by both.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.halves.values().map(|half| half.read).sum()
    }

    /// Streams that have not come to their end, for people.
    pub(crate) fn unsettled(&self) -> String {
        self.halves
            .iter()
            .filter(|(_, half)| !half.is_settled())
            .map(|((id, by_server), half)| format!("{id} server {by_server}: {half:?}\n"))
            .collect()
    }
}

/// Memory stays within what the settings say.
pub(crate) fn check_memory(connection: &Connection, own: &TransportConfig, peer: &TransportConfig) {
    let stats = connection.stats();
    let (limits, streams) = (&own.streams, stats.streams as u64);
    let window = own.window_symbols.min(peer.window_symbols + 255);
    let given_back = window * 1472;
    assert!(stats.generations_receiving as u64 <= own.window_symbols);
    assert!(stats.blocks_sending as u64 <= own.blocks_max);
    assert!(stats.symbol_bytes_held <= window as usize * 1474);
    assert!(stats.bytes_to_read <= limits.max_data / 4 * 3);
    assert!(
        stats.bytes_to_send
            <= limits.send_buffer_bytes_max + streams * limits.send_buffer_floor + given_back
    );
    assert!(streams <= limits.max_streams + limits.local_streams_max);
}
