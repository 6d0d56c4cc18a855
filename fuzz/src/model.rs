//! What applications at both ends do with streams, and what each stream must
//! bring them. The same for bare streams and for connections.

use std::collections::BTreeMap;

use ctcp_proto::Connection;
use ctcp_proto::stream::{OpenError, Read, ReadError, StreamEvent, Streams, WriteError};
use ctcp_units::StreamId;

use crate::Input;

/// What an application calls.
pub(crate) trait End {
    fn open(&mut self) -> Result<StreamId, OpenError>;
    fn accept(&mut self) -> Option<StreamId>;
    fn write(&mut self, id: StreamId, data: &[u8]) -> Result<usize, WriteError>;
    fn read(&mut self, id: StreamId, out: &mut [u8]) -> Result<Read, ReadError>;
    fn finish(&mut self, id: StreamId) -> Result<(), WriteError>;
    fn reset(&mut self, id: StreamId, code: u32);
    fn stop(&mut self, id: StreamId, code: u32);
}

macro_rules! end {
    ($type:ty, $open:ident, $accept:ident) => {
        impl End for $type {
            fn open(&mut self) -> Result<StreamId, OpenError> {
                <$type>::$open(self)
            }
            fn accept(&mut self) -> Option<StreamId> {
                <$type>::$accept(self)
            }
            fn write(&mut self, id: StreamId, data: &[u8]) -> Result<usize, WriteError> {
                <$type>::write(self, id, data)
            }
            fn read(&mut self, id: StreamId, out: &mut [u8]) -> Result<Read, ReadError> {
                <$type>::read(self, id, out)
            }
            fn finish(&mut self, id: StreamId) -> Result<(), WriteError> {
                <$type>::finish(self, id)
            }
            fn reset(&mut self, id: StreamId, code: u32) {
                <$type>::reset(self, id, code);
            }
            fn stop(&mut self, id: StreamId, code: u32) {
                <$type>::stop(self, id, code);
            }
        }
    };
}

end!(Streams, open, accept);
end!(Connection, open_stream, accept_stream);

/// Byte `offset` of what end `by` writes to a stream.
fn byte_at(id: StreamId, by: usize, offset: u64) -> u8 {
    (offset * 31 + (offset >> 8) * 7 + id.0 * 13 + by as u64 * 101) as u8
}

/// One direction of a stream, seen from outside.
#[derive(Debug, Default, Clone, Copy)]
struct Direction {
    written: u64,
    is_finished: bool,
    /// The writer gave up, or was made to.
    is_reset: bool,
    read: u64,
    has_ended: bool,
    has_reset: bool,
    is_stopped: bool,
    is_told_finished: bool,
}

impl Direction {
    /// The reader has nothing more to wait for.
    const fn is_through(&self) -> bool {
        self.has_ended || self.has_reset || self.is_stopped
    }
}

/// All streams of ends 0 (the client) and 1.
#[derive(Debug, Default)]
pub(crate) struct Model {
    /// By stream and writer.
    directions: BTreeMap<(StreamId, usize), Direction>,
    /// What each application has a hold of.
    known: [Vec<StreamId>; 2],
}

impl Model {
    fn direction(&mut self, id: StreamId, by: usize) -> &mut Direction {
        self.directions.get_mut(&(id, by)).expect("a known stream")
    }

    fn add(&mut self, end: usize, id: StreamId) {
        self.known[end].push(id);
        for by in 0..2 {
            self.directions.entry((id, by)).or_default();
        }
    }

    pub(crate) fn open(&mut self, end: usize, streams: &mut impl End) {
        if let Ok(id) = streams.open() {
            self.add(end, id);
        }
    }

    /// Something the input chooses on one of the streams known at `end`.
    pub(crate) fn operate(&mut self, input: &mut Input<'_>, end: usize, streams: &mut impl End) {
        let choice = input.u8();
        let known = &self.known[end];
        // Late streams are worked at more.
        let back = usize::from(choice >> 4).min(known.len().saturating_sub(1));
        let Some(&id) = known.iter().rev().nth(back) else {
            return;
        };
        match choice & 0x0F {
            0..5 => self.write(end, id, u64::from(input.u16()), streams),
            5..11 => {
                self.read(end, id, usize::from(input.u16()) / 2 + 1, streams);
            }
            11..13 => self.finish(end, id, streams),
            13 => {
                if !self.direction(id, end).is_told_finished {
                    self.direction(id, end).is_reset = true;
                    streams.reset(id, 1);
                }
            }
            14 => {
                streams.stop(id, 2);
                let direction = self.direction(id, 1 - end);
                direction.is_stopped |= !direction.has_ended && !direction.has_reset;
            }
            _ => self.write(end, id, 3, streams),
        }
    }

    fn finish(&mut self, end: usize, id: StreamId, streams: &mut impl End) {
        if streams.finish(id).is_ok() {
            self.direction(id, end).is_finished = true;
        }
    }

    fn write(&mut self, end: usize, id: StreamId, len: u64, streams: &mut impl End) {
        let direction = self.direction(id, end);
        let start = direction.written;
        let data: Vec<u8> = (start..start + len).map(|o| byte_at(id, end, o)).collect();
        match streams.write(id, &data) {
            Ok(written) => {
                assert!(!direction.is_finished && !direction.is_reset);
                direction.written += written as u64;
            }
            Err(WriteError::Blocked) => assert!(!direction.is_finished),
            Err(WriteError::Finished) => assert!(direction.is_finished),
            Err(WriteError::Stopped(code)) => {
                assert_eq!(code, 2);
                assert!(direction.is_reset && direction.is_stopped);
            }
            Err(WriteError::Reset) => assert!(direction.is_reset),
            Err(WriteError::Unknown) => {
                assert!(direction.is_reset || direction.is_told_finished);
            }
        }
    }

    /// Whether it brought anything.
    fn read(&mut self, end: usize, id: StreamId, len: usize, streams: &mut impl End) -> bool {
        let mut out = vec![0; len];
        let direction = self.direction(id, 1 - end);
        match streams.read(id, &mut out) {
            Ok(Read::Bytes(len)) => {
                assert!(!direction.is_through());
                for byte in &out[..len] {
                    assert_eq!(*byte, byte_at(id, 1 - end, direction.read));
                    direction.read += 1;
                }
                assert!(direction.read <= direction.written);
                return true;
            }
            Ok(Read::End) => {
                assert!(direction.is_finished && !direction.has_reset && !direction.is_stopped);
                assert_eq!(direction.read, direction.written, "never short");
                direction.has_ended = true;
                return true;
            }
            Err(ReadError::Blocked) => assert!(!direction.has_ended && !direction.has_reset),
            Err(ReadError::Reset(_)) => {
                assert!(direction.is_reset && !direction.has_ended);
                direction.has_reset = true;
                return true;
            }
            Err(ReadError::Stopped) => assert!(direction.is_stopped),
            Err(ReadError::Unknown) => assert!(direction.is_through()),
        }
        false
    }

    pub(crate) fn on_event(&mut self, end: usize, event: StreamEvent, streams: &mut impl End) {
        match event {
            StreamEvent::Opened => {
                while let Some(id) = streams.accept() {
                    self.add(end, id);
                }
            }
            StreamEvent::Stopped { id, .. } => {
                let direction = self.direction(id, end);
                assert!(direction.is_stopped && !direction.is_reset);
                direction.is_reset = true;
            }
            StreamEvent::Reset { id, .. } => {
                let direction = self.direction(id, 1 - end);
                assert!(direction.is_reset && !direction.is_stopped);
            }
            StreamEvent::Finished(id) => {
                let direction = self.direction(id, end);
                assert!(direction.is_finished && !direction.is_told_finished);
                direction.is_told_finished = true;
            }
            StreamEvent::Readable(id) => {
                let brought = self.read(end, id, 500, streams);
                assert!(brought, "readable means that there is something");
            }
            StreamEvent::Writable(_) | StreamEvent::CreditOpened => {}
        }
    }

    /// Ends what has not ended, and reads all there is.
    pub(crate) fn wind_up(&mut self, end: usize, streams: &mut impl End) {
        for id in self.known[end].clone() {
            let ours = *self.direction(id, end);
            if !ours.is_finished && !ours.is_reset {
                self.finish(end, id, streams);
            }
            while !self.direction(id, 1 - end).is_through() && self.read(end, id, 30_000, streams) {
            }
        }
    }

    /// What an application does that loses interest. It takes note of a stop
    /// that it has not run into by writing.
    pub(crate) fn let_go(&mut self, end: usize, streams: &mut impl End) {
        for &id in &self.known[end] {
            streams.reset(id, 1);
            streams.stop(id, 2);
        }
    }

    /// Whether no reader waits for anything more.
    pub(crate) fn is_through(&self) -> bool {
        self.directions.values().all(Direction::is_through)
    }
}
