//! The ACK of one path (architecture 12).
//!
//! ```text
//! path | largest | delay µs | received | ect0 | ce | ranges:1 | first len | (gap, len)…
//! ```
//!
//! All but the count of ranges are varints. Ranges run downwards from the
//! largest packet number: `first len` packets below `largest` arrived too, then
//! each `gap` counts missing numbers less one, each `len` arrived ones less one.
//! `received` counts every packet that asked for an acknowledgement and arrived
//! on the path so far, so that losses can be told from lost ACKs.

use core::ops::RangeInclusive;

use ctcp_units::{Duration, PathId};

use super::varint::varint_len;
use super::{ACK_RANGES_MAX, ParseError, Reader, write_varint};

/// Packets that arrived with each ECN mark, cumulative per path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EcnCounts {
    /// Marked ECT(0).
    pub ect0: u64,
    /// Marked congestion experienced.
    pub ce: u64,
}

/// No marks seen.
pub const ECN_NONE: EcnCounts = EcnCounts { ect0: 0, ce: 0 };

/// An ACK's ranges to be written: newest first, none empty, none touching.
pub type AckRanges<'a> = &'a [RangeInclusive<u64>];

/// An ACK read from the wire; its ranges have been checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckView<'a> {
    /// Path whose packets are acknowledged; the ACK may travel on another.
    pub path: PathId,
    /// Time between the arrival of the largest number and this ACK.
    pub delay: Duration,
    /// Packets that asked for an ACK and arrived on the path, ever.
    pub received: u64,
    /// ECN marks seen on the path, ever.
    pub ecn: EcnCounts,
    /// The packet numbers.
    pub ranges: RangesView<'a>,
}

/// Checked ranges of packet numbers, newest first. Never empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangesView<'a> {
    largest: u64,
    first_len: u64,
    count: usize,
    bytes: &'a [u8],
}

impl<'a> RangesView<'a> {
    /// Largest packet number acknowledged.
    pub const fn largest(&self) -> u64 {
        self.largest
    }

    /// The ranges, newest first.
    pub fn iter(&self) -> impl Iterator<Item = RangeInclusive<u64>> + 'a {
        let mut reader = Reader::new(self.bytes);
        let mut range = self.largest - self.first_len..=self.largest;
        let mut is_first = true;
        (0..self.count).map_while(move |_| {
            if !core::mem::take(&mut is_first) {
                let gap = reader.varint().ok()?;
                let len = reader.varint().ok()?;
                let end = range.start().checked_sub(gap.checked_add(2)?)?;
                range = end.checked_sub(len)?..=end;
            }
            Some(range.clone())
        })
    }

    fn parse(largest: u64, reader: &mut Reader<'a>) -> Result<Self, ParseError> {
        let count = usize::from(reader.u8()?);
        if count == 0 || count > ACK_RANGES_MAX {
            return Err(ParseError::Impossible {
                field: "count of ACK ranges",
                value: count as u64,
            });
        }
        let first_len = reader.varint()?;
        let mut low = largest
            .checked_sub(first_len)
            .ok_or(ParseError::Impossible {
                field: "first ACK range",
                value: first_len,
            })?;
        let bytes = reader.rest();
        for _ in 1..count {
            let gap = reader.varint()?;
            let len = reader.varint()?;
            low = low
                .checked_sub(gap + 2)
                .and_then(|end| end.checked_sub(len))
                .ok_or(ParseError::Impossible {
                    field: "ACK range",
                    value: gap,
                })?;
        }
        Ok(Self {
            largest,
            first_len,
            count,
            bytes: &bytes[..bytes.len() - reader.rest().len()],
        })
    }
}

impl<'a> AckView<'a> {
    /// Reads an ACK after its frame type.
    pub(super) fn parse(reader: &mut Reader<'a>) -> Result<Self, ParseError> {
        let path = super::frame::path_id(reader)?;
        let largest = reader.varint()?;
        let delay = Duration::from_micros(reader.varint()?);
        let received = reader.varint()?;
        let ecn = EcnCounts {
            ect0: reader.varint()?,
            ce: reader.varint()?,
        };
        let ranges = RangesView::parse(largest, reader)?;
        Ok(Self {
            path,
            delay,
            received,
            ecn,
            ranges,
        })
    }
}

/// Bytes the ranges from the second on may take at most, for sizing a packet.
fn range_len(above: &RangeInclusive<u64>, range: &RangeInclusive<u64>) -> usize {
    varint_len(above.start() - range.end() - 2) + varint_len(range.end() - range.start())
}

/// Appends an ACK frame with as many of the newest `ranges` as fit into `room`
/// bytes and [`ACK_RANGES_MAX`]. Returns whether anything was written.
pub(super) fn write_ack(
    out: &mut Vec<u8>,
    path: PathId,
    delay: Duration,
    received: u64,
    ecn: EcnCounts,
    ranges: AckRanges<'_>,
    room: usize,
) -> bool {
    let Some(first) = ranges.first() else {
        return false;
    };
    let delay_micros = delay.as_micros().min(1 << 40) as u64;
    let fixed = [
        u64::from(path.0),
        *first.end(),
        delay_micros,
        received,
        ecn.ect0,
        ecn.ce,
    ];
    let first_len = first.end() - first.start();
    let mut len = fixed.iter().map(|v| varint_len(*v)).sum::<usize>() + 2 + varint_len(first_len);
    if len > room {
        return false;
    }
    let fitting = 1 + ranges
        .windows(2)
        .take(ACK_RANGES_MAX - 1)
        .take_while(|pair| {
            len += range_len(&pair[0], &pair[1]);
            len <= room
        })
        .count();
    out.push(super::frame::ACK);
    fixed.iter().for_each(|value| write_varint(out, *value));
    out.push(fitting as u8);
    write_varint(out, first_len);
    for pair in ranges[..fitting].windows(2) {
        write_varint(out, pair[0].start() - pair[1].end() - 2);
        write_varint(out, pair[1].end() - pair[1].start());
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(ranges: AckRanges<'_>, room: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let ecn = EcnCounts { ect0: 5, ce: 1 };
        assert!(write_ack(
            &mut out,
            PathId(1),
            Duration::from_micros(300),
            77,
            ecn,
            ranges,
            room
        ));
        assert!(out.len() <= room);
        out
    }

    #[test]
    fn ranges_come_back_newest_first() {
        let ranges = [90..=100, 80..=80, 3..=77, 0..=0];
        let out = written(&ranges, 1000);
        let mut reader = Reader::new(&out[1..]);
        let ack = AckView::parse(&mut reader).unwrap();
        assert!(reader.is_empty());
        assert_eq!(ack.ranges.largest(), 100);
        assert_eq!(ack.ranges.iter().collect::<Vec<_>>(), ranges);
        assert_eq!(ack.received, 77);
        assert_eq!(ack.ecn.ce, 1);
    }

    #[test]
    fn no_more_than_64_ranges_and_no_more_than_fit() {
        let ranges: Vec<_> = (0..100).rev().map(|n| 4 * n..=4 * n).collect();
        let count = |room| {
            let out = written(&ranges, room);
            let ack = AckView::parse(&mut Reader::new(&out[1..])).unwrap();
            ack.ranges.iter().count()
        };
        assert_eq!(count(10_000), 64);
        assert!(count(40) < 20);
    }

    #[test]
    fn ranges_below_packet_zero_are_refused() {
        let mut out = Vec::new();
        for value in [0, 5, 0, 0, 0, 0] {
            write_varint(&mut out, value);
        }
        out.extend_from_slice(&[2, 1, 9, 9]);
        assert!(matches!(
            AckView::parse(&mut Reader::new(&out)),
            Err(ParseError::Impossible { .. })
        ));
    }
}
