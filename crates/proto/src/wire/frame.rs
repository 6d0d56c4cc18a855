//! Control frames: they travel outside symbols, are idempotent, and whoever
//! sent one repeats what it said until a packet that carried it is acknowledged
//! (architecture 7).

use core::ops::RangeInclusive;

use ctcp_units::{Duration, PathId, StreamId, SymbolId};

use super::ack::write_ack;
use super::varint::{VARINT_MAX, varint_len};
use super::{
    AckView, CLOSE_REASON_MAX, CONNECTION_ID_LEN, ConnectionId, EcnCounts, ParseError, REPORTS_MAX,
    Reader, write_varint,
};

const PADDING: u8 = 0;
const PING: u8 = 1;
pub(super) const ACK: u8 = 2;
const GENERATIONS: u8 = 3;
const ACK_FLOOR: u8 = 4;
const MAX_DATA: u8 = 5;
const MAX_STREAM_DATA: u8 = 6;
const MAX_STREAMS: u8 = 7;
const RESET_STREAM: u8 = 8;
const STOP_SENDING: u8 = 9;
const ABANDON: u8 = 10;
const PATH_ID: u8 = 11;
const PATH_CHALLENGE: u8 = 12;
const PATH_RESPONSE: u8 = 13;
const CLOSE: u8 = 14;
const PATH_USE: u8 = 15;
const PATH_CLOSE: u8 = 16;
const DATAGRAM: u8 = 17;
const NUMBERED_DATAGRAM: u8 = 18;
const DATAGRAM_REPAIR: u8 = 19;

/// The bit of a path's use that makes it a backup.
const USE_BACKUP: u8 = 1;

/// Degrees of freedom held for one generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GenerationReport {
    /// First symbol of the generation.
    pub first: SymbolId,
    /// Linearly independent packets received for it.
    pub rank: u8,
}

/// A control frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// The rest of the packet is filler.
    Padding,
    /// Asks for an acknowledgement.
    Ping,
    /// What arrived on a path.
    Ack(AckView<'a>),
    /// What arrived of the code: every symbol below `base` is known or was
    /// abandoned; the sender may use symbols below `window_end`.
    Generations {
        /// Lowest symbol still missing.
        base: SymbolId,
        /// First symbol not accepted yet (the coding window).
        window_end: SymbolId,
        /// Generations from `base` on of which something arrived.
        reports: ReportsView<'a>,
    },
    /// Ranges below `floor` on `path` need no longer be reported.
    AckFloor {
        /// The path.
        path: PathId,
        /// Lowest packet number still of interest.
        floor: u64,
    },
    /// Credit of the connection: bytes of all streams, from the start.
    MaxData(u64),
    /// Credit of a stream: offset that may not be passed.
    MaxStreamData {
        /// The stream.
        stream: StreamId,
        /// The offset.
        max: u64,
    },
    /// Streams the peer may have opened in all.
    MaxStreams(u64),
    /// The sender gives its half of a stream up.
    ResetStream {
        /// The stream.
        stream: StreamId,
        /// Why, in the application's words.
        code: u32,
        /// Offset after the last byte that was ever sent.
        final_offset: u64,
    },
    /// The reader does not want the rest of a stream.
    StopSending {
        /// The stream.
        stream: StreamId,
        /// Why, in the application's words.
        code: u32,
    },
    /// Symbols `first … first + count − 1` will never be completed; what their
    /// streams lacked comes again in later symbols.
    Abandon {
        /// First symbol given up.
        first: SymbolId,
        /// How many.
        count: u8,
    },
    /// Packets to whoever says this carry `id` on `path`.
    PathId {
        /// The path.
        path: PathId,
        /// Its connection id.
        id: ConnectionId,
    },
    /// How the peer is to use a path.
    PathUse {
        /// The path.
        path: PathId,
        /// Higher ones are newer.
        sequence: u64,
        /// Carries data only while no other path can.
        is_backup: bool,
        /// Hundredths of a second that data may wait for another path instead.
        cost: u8,
    },
    /// The path is gone and its id is not used again.
    PathClose(PathId),
    /// To be echoed on the path it came on.
    PathChallenge([u8; 8]),
    /// Echo of a challenge.
    PathResponse([u8; 8]),
    /// Data beside a stream, at most once and in any order; the rest of the packet.
    Datagram {
        /// The stream that it belongs to.
        stream: StreamId,
        /// The data.
        data: &'a [u8],
    },
    /// A datagram that repairs cover: symbol `number` of the sliding code.
    NumberedDatagram {
        /// Its place among the numbered datagrams of this direction, from 0.
        number: u64,
        /// Stream and data, as the code sees them; see [`datagram_content`].
        content: &'a [u8],
    },
    /// A linear combination of numbered datagrams; the rest of the packet.
    DatagramRepair {
        /// The lowest number that it covers.
        first: u64,
        /// How many, at least 1.
        count: u8,
        /// Which of the combinations of these.
        repair: u16,
        /// The combination.
        payload: &'a [u8],
    },
    /// The connection ends.
    Close {
        /// Why.
        code: u32,
        /// The same for people, UTF-8, at most [`CLOSE_REASON_MAX`] bytes.
        reason: &'a str,
    },
}

/// Checked reports, oldest generation first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportsView<'a> {
    /// What the first report's distance counts from.
    origin: SymbolId,
    bytes: &'a [u8],
}

impl<'a> ReportsView<'a> {
    /// The reports.
    pub fn iter(&self) -> impl Iterator<Item = GenerationReport> + 'a {
        let mut reader = Reader::new(self.bytes);
        let mut first = self.origin;
        core::iter::from_fn(move || {
            first = first.plus(reader.varint().ok()?);
            let rank = reader.u8().ok()?;
            Some(GenerationReport { first, rank })
        })
    }

    fn parse(base: SymbolId, reader: &mut Reader<'a>) -> Result<Self, ParseError> {
        let behind = u64::from(reader.u8()?);
        let origin = SymbolId(base.0.checked_sub(behind).ok_or(ParseError::Impossible {
            field: "first generation reported",
            value: behind,
        })?);
        let count = usize::from(reader.u8()?);
        if count > REPORTS_MAX {
            return Err(ParseError::Impossible {
                field: "count of generation reports",
                value: count as u64,
            });
        }
        let bytes = reader.rest();
        let mut first = origin.0;
        for _ in 0..count {
            first = bounded("generation", first.saturating_add(reader.varint()?))?;
            reader.u8()?;
        }
        let bytes = &bytes[..bytes.len() - reader.rest().len()];
        Ok(Self { origin, bytes })
    }
}

/// Values that later arithmetic adds to must leave room for it.
fn bounded(field: &'static str, value: u64) -> Result<u64, ParseError> {
    if value > VARINT_MAX / 2 {
        return Err(ParseError::Impossible { field, value });
    }
    Ok(value)
}

pub(super) fn path_id(reader: &mut Reader<'_>) -> Result<PathId, ParseError> {
    let value = reader.varint()?;
    u32::try_from(value)
        .map(PathId)
        .map_err(|_| ParseError::Impossible {
            field: "path id",
            value,
        })
}

fn the_rest<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], ParseError> {
    let rest = reader.rest().len();
    reader.bytes(rest)
}

fn stream_id(reader: &mut Reader<'_>) -> Result<StreamId, ParseError> {
    let value = reader.varint()?;
    if value > super::symbol::STREAM_ID_MAX {
        return Err(ParseError::Impossible {
            field: "stream id",
            value,
        });
    }
    Ok(StreamId(value))
}

/// Stream and data of a numbered datagram, as it arrived or was recovered.
///
/// # Errors
/// No stream id stands in front.
pub fn datagram_content(content: &[u8]) -> Result<(StreamId, &[u8]), ParseError> {
    let mut reader = Reader::new(content);
    let stream = stream_id(&mut reader)?;
    Ok((stream, reader.rest()))
}

fn code(reader: &mut Reader<'_>) -> Result<u32, ParseError> {
    reader.array().map(u32::from_be_bytes)
}

impl<'a> Frame<'a> {
    /// Whether a packet with this frame asks to be acknowledged.
    pub const fn is_ack_eliciting(&self) -> bool {
        !matches!(
            self,
            Self::Padding | Self::Ack(_) | Self::Generations { .. } | Self::Close { .. }
        )
    }

    fn parse(reader: &mut Reader<'a>) -> Result<Self, ParseError> {
        Ok(match reader.u8()? {
            PADDING => {
                the_rest(reader)?;
                Self::Padding
            }
            PING => Self::Ping,
            ACK => Self::Ack(AckView::parse(reader)?),
            GENERATIONS => {
                let base = SymbolId(bounded("base", reader.varint()?)?);
                let ahead = bounded("coding window", reader.varint()?)?;
                Self::Generations {
                    base,
                    window_end: base.plus(ahead),
                    reports: ReportsView::parse(base, reader)?,
                }
            }
            ACK_FLOOR => Self::AckFloor {
                path: path_id(reader)?,
                floor: reader.varint()?,
            },
            MAX_DATA => Self::MaxData(reader.varint()?),
            MAX_STREAM_DATA => Self::MaxStreamData {
                stream: stream_id(reader)?,
                max: reader.varint()?,
            },
            MAX_STREAMS => Self::MaxStreams(reader.varint()?),
            RESET_STREAM => Self::ResetStream {
                stream: stream_id(reader)?,
                code: code(reader)?,
                final_offset: reader.varint()?,
            },
            STOP_SENDING => Self::StopSending {
                stream: stream_id(reader)?,
                code: code(reader)?,
            },
            ABANDON => Self::Abandon {
                first: SymbolId(bounded("symbol", reader.varint()?)?),
                count: reader.u8()?,
            },
            PATH_ID => Self::PathId {
                path: path_id(reader)?,
                id: ConnectionId(reader.array()?),
            },
            PATH_USE => Self::PathUse {
                path: path_id(reader)?,
                sequence: reader.varint()?,
                // Other bits are for later.
                is_backup: reader.u8()? & USE_BACKUP != 0,
                cost: reader.u8()?,
            },
            PATH_CLOSE => Self::PathClose(path_id(reader)?),
            PATH_CHALLENGE => Self::PathChallenge(reader.array()?),
            PATH_RESPONSE => Self::PathResponse(reader.array()?),
            DATAGRAM => Self::Datagram {
                stream: stream_id(reader)?,
                data: the_rest(reader)?,
            },
            NUMBERED_DATAGRAM => {
                let number = bounded("datagram", reader.varint()?)?;
                let content = the_rest(reader)?;
                datagram_content(content)?;
                Self::NumberedDatagram { number, content }
            }
            DATAGRAM_REPAIR => Self::DatagramRepair {
                first: bounded("datagram", reader.varint()?)?,
                count: match reader.u8()? {
                    0 => {
                        return Err(ParseError::Impossible {
                            field: "count of datagrams repaired",
                            value: 0,
                        });
                    }
                    count => count,
                },
                repair: reader.array().map(u16::from_be_bytes)?,
                payload: the_rest(reader)?,
            },
            CLOSE => {
                let code = code(reader)?;
                let len = usize::from(reader.u8()?);
                let text = reader.bytes(len)?;
                Self::Close {
                    code,
                    // A reason is for people: what is not text is left out.
                    reason: core::str::from_utf8(text).unwrap_or(""),
                }
            }
            unknown => return Err(ParseError::UnknownFrame(u64::from(unknown))),
        })
    }

    /// Bytes that [`Frame::write`] appends. ACKs and generation reports have
    /// writers of their own.
    pub fn encoded_len(&self) -> usize {
        1 + match *self {
            Self::Padding | Self::Ping | Self::Ack(_) | Self::Generations { .. } => 0,
            Self::AckFloor { path, floor } => varint_len(path.0.into()) + varint_len(floor),
            Self::MaxData(max) | Self::MaxStreams(max) => varint_len(max),
            Self::MaxStreamData { stream, max } => varint_len(stream.0) + varint_len(max),
            Self::ResetStream {
                stream,
                final_offset,
                ..
            } => varint_len(stream.0) + 4 + varint_len(final_offset),
            Self::StopSending { stream, .. } => varint_len(stream.0) + 4,
            Self::Abandon { first, .. } => varint_len(first.0) + 1,
            Self::PathId { path, .. } => varint_len(path.0.into()) + CONNECTION_ID_LEN,
            Self::PathUse { path, sequence, .. } => {
                varint_len(path.0.into()) + varint_len(sequence) + 2
            }
            Self::PathClose(path) => varint_len(path.0.into()),
            Self::PathChallenge(_) | Self::PathResponse(_) => 8,
            Self::Datagram { stream, data } => varint_len(stream.0) + data.len(),
            Self::NumberedDatagram { number, content } => varint_len(number) + content.len(),
            Self::DatagramRepair { first, payload, .. } => {
                varint_len(first) + 1 + 2 + payload.len()
            }
            Self::Close { reason, .. } => 4 + 1 + reason.len().min(CLOSE_REASON_MAX),
        }
    }

    /// Appends the frame.
    ///
    /// # Panics
    /// For [`Frame::Ack`] and [`Frame::Generations`], which are written from
    /// state by [`Frame::write_ack`] and [`Frame::write_generations`].
    pub fn write(&self, out: &mut Vec<u8>) {
        let before = out.len();
        match *self {
            Self::Padding => out.push(PADDING),
            Self::Ping => out.push(PING),
            Self::Ack(_) | Self::Generations { .. } => {
                unreachable!("acknowledgements are written from receive state")
            }
            Self::AckFloor { path, floor } => {
                out.push(ACK_FLOOR);
                write_varint(out, path.0.into());
                write_varint(out, floor);
            }
            Self::MaxData(max) => {
                out.push(MAX_DATA);
                write_varint(out, max);
            }
            Self::MaxStreams(max) => {
                out.push(MAX_STREAMS);
                write_varint(out, max);
            }
            Self::MaxStreamData { stream, max } => {
                out.push(MAX_STREAM_DATA);
                write_varint(out, stream.0);
                write_varint(out, max);
            }
            Self::ResetStream {
                stream,
                code,
                final_offset,
            } => {
                out.push(RESET_STREAM);
                write_varint(out, stream.0);
                out.extend_from_slice(&code.to_be_bytes());
                write_varint(out, final_offset);
            }
            Self::StopSending { stream, code } => {
                out.push(STOP_SENDING);
                write_varint(out, stream.0);
                out.extend_from_slice(&code.to_be_bytes());
            }
            Self::Abandon { first, count } => {
                out.push(ABANDON);
                write_varint(out, first.0);
                out.push(count);
            }
            Self::PathId { path, id } => {
                out.push(PATH_ID);
                write_varint(out, path.0.into());
                out.extend_from_slice(&id.0);
            }
            Self::PathUse {
                path,
                sequence,
                is_backup,
                cost,
            } => {
                out.push(PATH_USE);
                write_varint(out, path.0.into());
                write_varint(out, sequence);
                out.push(if is_backup { USE_BACKUP } else { 0 });
                out.push(cost);
            }
            Self::PathClose(path) => {
                out.push(PATH_CLOSE);
                write_varint(out, path.0.into());
            }
            Self::PathChallenge(data) => {
                out.push(PATH_CHALLENGE);
                out.extend_from_slice(&data);
            }
            Self::PathResponse(data) => {
                out.push(PATH_RESPONSE);
                out.extend_from_slice(&data);
            }
            Self::Datagram { stream, data } => {
                out.push(DATAGRAM);
                write_varint(out, stream.0);
                out.extend_from_slice(data);
            }
            Self::NumberedDatagram { number, content } => {
                out.push(NUMBERED_DATAGRAM);
                write_varint(out, number);
                out.extend_from_slice(content);
            }
            Self::DatagramRepair {
                first,
                count,
                repair,
                payload,
            } => {
                out.push(DATAGRAM_REPAIR);
                write_varint(out, first);
                out.push(count);
                out.extend_from_slice(&repair.to_be_bytes());
                out.extend_from_slice(payload);
            }
            Self::Close { code, reason } => {
                let mut len = reason.len().min(CLOSE_REASON_MAX);
                while !reason.is_char_boundary(len) {
                    len -= 1;
                }
                out.push(CLOSE);
                out.extend_from_slice(&code.to_be_bytes());
                out.push(len as u8);
                out.extend_from_slice(&reason.as_bytes()[..len]);
            }
        }
        debug_assert!(out.len() - before <= self.encoded_len());
    }

    /// Appends an ACK frame with as many of the newest `ranges` as fit into
    /// `room` bytes; returns whether anything was written.
    pub fn write_ack(
        out: &mut Vec<u8>,
        path: PathId,
        delay: Duration,
        received: u64,
        ecn: EcnCounts,
        ranges: &[RangeInclusive<u64>],
        room: usize,
    ) -> bool {
        write_ack(out, path, delay, received, ecn, ranges, room)
    }

    /// Appends a frame with as many of `reports` as fit into `room` bytes and
    /// [`REPORTS_MAX`]. They ascend; the first may be the generation that `base`
    /// stands in.
    pub fn write_generations(
        out: &mut Vec<u8>,
        base: SymbolId,
        window_end: SymbolId,
        reports: impl Iterator<Item = GenerationReport>,
        room: usize,
    ) {
        let mut reports = reports.peekable();
        // A generation that `base` stands in began at most 254 symbols before.
        let behind = reports
            .peek()
            .and_then(|oldest| u8::try_from(base.0.saturating_sub(oldest.first.0)).ok());
        let reports = reports.filter(|_| behind.is_some());
        let behind = behind.unwrap_or(0);
        let before = out.len();
        out.push(GENERATIONS);
        write_varint(out, base.0);
        write_varint(out, window_end.0.saturating_sub(base.0));
        out.push(behind);
        let count_at = out.len();
        out.push(0);
        let mut previous = base.0 - u64::from(behind);
        for report in reports.take(REPORTS_MAX) {
            let delta = report.first.0.saturating_sub(previous);
            if out.len() - before + varint_len(delta) + 1 > room {
                break;
            }
            write_varint(out, delta);
            out.push(report.rank);
            out[count_at] += 1;
            previous = report.first.0;
        }
    }
}

/// The frames of a control packet, in order. Stops at the first error.
#[derive(Debug, Clone)]
pub struct FrameIter<'a> {
    reader: Reader<'a>,
}

impl<'a> FrameIter<'a> {
    /// The frames in `payload`.
    pub const fn new(payload: &'a [u8]) -> Self {
        Self {
            reader: Reader::new(payload),
        }
    }
}

impl<'a> Iterator for FrameIter<'a> {
    type Item = Result<Frame<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let frame = Frame::parse(&mut self.reader);
        if frame.is_err() {
            self.reader = Reader::new(&[]);
        }
        Some(frame)
    }
}

#[cfg(test)]
mod tests;
