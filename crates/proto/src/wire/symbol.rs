//! Stream frames: what the content of a source symbol is made of.
//!
//! ```text
//! | 1 F L O O O S S | stream id: 1–4 | offset: 0, 2–8 | length: 2 if L | data |
//! ```
//!
//! `F` the stream ends with this frame, `L` a length follows (otherwise the
//! frame reaches to the end of the symbol), `O` the length of the offset, `S`
//! the length of the stream id less one. A zero byte ends the symbol early.

use ctcp_units::StreamId;

use super::{ParseError, Reader};

const STREAM: u8 = 0x80;
const FIN: u8 = 0x40;
const LEN: u8 = 0x20;
/// Offset lengths by code: 1 is left out, so that 8 fits into three bits.
const OFFSET_LENS: [usize; 8] = [0, 2, 3, 4, 5, 6, 7, 8];
/// Largest stream id a frame can name.
pub(crate) const STREAM_ID_MAX: u64 = u32::MAX as u64;

/// A piece of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamFrame<'a> {
    /// The stream.
    pub stream: StreamId,
    /// Place of the first byte in the stream.
    pub offset: u64,
    /// The stream ends after `data`.
    pub is_fin: bool,
    /// The bytes.
    pub data: &'a [u8],
}

fn bytes_needed(value: u64) -> usize {
    (64 - value.leading_zeros() as usize).div_ceil(8)
}

fn offset_code(offset: u64) -> usize {
    match bytes_needed(offset) {
        0 => 0,
        1 | 2 => 1,
        len => len - 1,
    }
}

/// Bytes before the data of a frame that reaches to the end of its symbol; with
/// a length it takes two more.
pub fn stream_header_len(stream: StreamId, offset: u64) -> usize {
    1 + bytes_needed(stream.0).max(1) + OFFSET_LENS[offset_code(offset)]
}

impl StreamFrame<'_> {
    /// Appends the header; the caller appends exactly `data_len` bytes, given
    /// here if the frame does not reach to the end of the symbol.
    ///
    /// # Panics
    /// If the stream id needs more than 32 bits.
    pub(crate) fn write_header(
        out: &mut Vec<u8>,
        stream: StreamId,
        offset: u64,
        is_fin: bool,
        data_len: Option<u16>,
    ) {
        assert!(
            stream.0 <= STREAM_ID_MAX,
            "stream ids have 32 bits: {stream}"
        );
        let id_len = bytes_needed(stream.0).max(1);
        let code = offset_code(offset);
        out.push(
            STREAM
                | (u8::from(is_fin) * FIN)
                | (u8::from(data_len.is_some()) * LEN)
                | (code as u8) << 2
                | (id_len as u8 - 1),
        );
        out.extend_from_slice(&stream.0.to_be_bytes()[8 - id_len..]);
        out.extend_from_slice(&offset.to_be_bytes()[8 - OFFSET_LENS[code]..]);
        if let Some(len) = data_len {
            out.extend_from_slice(&len.to_be_bytes());
        }
    }
}

/// The frames of one symbol, in order. Stops at the first error.
#[derive(Debug, Clone)]
pub struct StreamFrames<'a> {
    reader: Reader<'a>,
}

impl<'a> StreamFrames<'a> {
    /// The frames in `content`.
    pub const fn new(content: &'a [u8]) -> Self {
        Self {
            reader: Reader::new(content),
        }
    }

    fn parse_next(&mut self, first: u8) -> Result<StreamFrame<'a>, ParseError> {
        if first & STREAM == 0 {
            return Err(ParseError::UnknownFrame(u64::from(first)));
        }
        let stream = StreamId(self.reader.uint(usize::from(first & 3) + 1)?);
        let offset = self.reader.uint(OFFSET_LENS[usize::from(first >> 2 & 7)])?;
        let data_len = if first & LEN == 0 {
            self.reader.rest().len()
        } else {
            usize::from(self.reader.u16()?)
        };
        let data = self.reader.bytes(data_len)?;
        if offset.checked_add(data_len as u64).is_none() {
            return Err(ParseError::Impossible {
                field: "stream offset",
                value: offset,
            });
        }
        Ok(StreamFrame {
            stream,
            offset,
            is_fin: first & FIN != 0,
            data,
        })
    }
}

impl<'a> Iterator for StreamFrames<'a> {
    type Item = Result<StreamFrame<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        let first = self.reader.u8().ok().filter(|first| *first != 0)?;
        let frame = self.parse_next(first);
        if frame.is_err() {
            self.reader = Reader::new(&[]);
        }
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(stream: u64, offset: u64, is_fin: bool, data: &[u8]) -> StreamFrame<'_> {
        StreamFrame {
            stream: StreamId(stream),
            offset,
            is_fin,
            data,
        }
    }

    fn append(out: &mut Vec<u8>, frame: &StreamFrame<'_>, with_len: bool) {
        let len = with_len.then_some(frame.data.len() as u16);
        let before = out.len();
        StreamFrame::write_header(out, frame.stream, frame.offset, frame.is_fin, len);
        assert_eq!(
            out.len() - before,
            stream_header_len(frame.stream, frame.offset) + 2 * usize::from(with_len)
        );
        out.extend_from_slice(frame.data);
    }

    #[test]
    fn frames_come_back_in_order() {
        for offset in [0, 1, 255, 256, 70_000, 5 << 30, 1 << 50, u64::MAX - 9] {
            for stream in [0, 3, 256, 70_000, STREAM_ID_MAX] {
                let one = frame(stream, offset, false, b"hello");
                let two = frame(stream, offset, true, b"world");
                let mut out = Vec::new();
                append(&mut out, &one, true);
                append(&mut out, &two, false);
                let read: Result<Vec<_>, _> = StreamFrames::new(&out).collect();
                assert_eq!(read, Ok(vec![one, two]));
            }
        }
    }

    #[test]
    fn a_zero_byte_ends_the_symbol() {
        let one = frame(1, 0, true, b"");
        let mut out = Vec::new();
        append(&mut out, &one, true);
        out.extend_from_slice(&[0, 0xFF, 0xFF]);
        assert_eq!(StreamFrames::new(&out).collect::<Vec<_>>(), vec![Ok(one)]);
    }

    #[test]
    fn a_stream_past_its_last_byte_is_refused() {
        let mut out = Vec::new();
        append(&mut out, &frame(1, u64::MAX, false, b"xy"), false);
        assert!(matches!(
            StreamFrames::new(&out).next(),
            Some(Err(ParseError::Impossible { .. }))
        ));
    }

    /// The header budget of the issue: offsets past 4 GiB, a busy stream id.
    #[test]
    fn a_coded_packet_of_1472_bytes_holds_1424_bytes_of_data() {
        let content_max = super::super::symbol_content_max(1472);
        let room = content_max - stream_header_len(StreamId(60_000), 1 << 40);
        assert!(room >= 1424, "{room}");
        let common = content_max - stream_header_len(StreamId(4), 5 << 30);
        assert_eq!(common, 1429);
    }

    #[test]
    fn golden_bytes() {
        let mut out = Vec::new();
        append(&mut out, &frame(4, 0x01_0203, true, b"ab"), true);
        assert_eq!(out, [0xE8, 4, 1, 2, 3, 0, 2, b'a', b'b']);
    }
}
