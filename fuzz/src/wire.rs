//! Everything inside a protected datagram: what parses and can be written again
//! must come back the same.

use ctcp_proto::crypto::{ReplayWindow, recover_number};
use ctcp_proto::wire::{
    CLOSE_REASON_MAX, Flags, Frame, FrameIter, Header, Reader, StreamFrame, StreamFrames,
    SymbolTruncation, TransportParams, stream_header_len, varint_len, write_varint,
};
use ctcp_units::{Duration, PacketNumber, SymbolId};

use crate::Input;

/// The first byte chooses the parser, the rest is for it.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    match input.below(6) {
        0 => frames(input.rest()),
        1 => header(input),
        2 => stream_frames(input.rest()),
        3 => params(input.rest()),
        4 => varints(input.rest()),
        _ => packet_numbers(input),
    }
}

fn frames(payload: &[u8]) {
    for frame in FrameIter::new(payload).map_while(Result::ok) {
        frame_comes_back(&frame);
    }
}

fn only_frame(bytes: &[u8]) -> Frame<'_> {
    let mut frames = FrameIter::new(bytes);
    let frame = frames.next().expect("a frame was written");
    let frame = frame.expect("what is written can be read");
    assert!(frames.next().is_none(), "one frame was written");
    frame
}

fn frame_comes_back(frame: &Frame<'_>) {
    let mut out = Vec::new();
    match *frame {
        Frame::Ack(ack) => {
            let ranges: Vec<_> = ack.ranges.iter().collect();
            assert_eq!(*ranges[0].end(), ack.ranges.largest());
            for pair in ranges.windows(2) {
                assert!(pair[1].end() + 1 < *pair[0].start(), "ranges do not touch");
            }
            let room = usize::MAX;
            Frame::write_ack(
                &mut out,
                ack.path,
                ack.delay,
                ack.received,
                ack.ecn,
                &ranges,
                room,
            );
            let Frame::Ack(again) = only_frame(&out) else {
                panic!("an ACK came back as another frame");
            };
            assert_eq!(again.ranges.iter().collect::<Vec<_>>(), ranges);
            assert_eq!((again.path, again.received), (ack.path, ack.received));
            assert_eq!(again.ecn, ack.ecn);
            // The writer's cap: nobody holds an ACK back for two weeks.
            assert_eq!(again.delay, ack.delay.min(Duration::from_micros(1 << 40)));
        }
        Frame::Generations {
            base,
            window_end,
            reports,
        } => {
            let said: Vec<_> = reports.iter().collect();
            assert!(said.windows(2).all(|pair| pair[0].first <= pair[1].first));
            let room = usize::MAX;
            Frame::write_generations(&mut out, base, window_end, said.iter().copied(), room);
            let Frame::Generations {
                base: base_again,
                window_end: window_end_again,
                reports,
            } = only_frame(&out)
            else {
                panic!("reports came back as another frame");
            };
            assert_eq!((base_again, window_end_again), (base, window_end));
            assert_eq!(reports.iter().collect::<Vec<_>>(), said);
        }
        Frame::Close { code, reason } => {
            frame.write(&mut out);
            let Frame::Close {
                code: code_again,
                reason: reason_again,
            } = only_frame(&out)
            else {
                panic!("a close came back as another frame");
            };
            assert_eq!(code_again, code);
            assert!(reason.starts_with(reason_again));
            assert!(reason_again.len() > CLOSE_REASON_MAX - 4 || reason_again == reason);
        }
        _ => {
            frame.write(&mut out);
            assert_eq!(out.len(), frame.encoded_len());
            assert_eq!(only_frame(&out), *frame);
        }
    }
}

fn header(mut input: Input<'_>) {
    let flags = Flags(input.u8());
    // What a receiver misses is one of the symbols it may be sent.
    let truncation = SymbolTruncation {
        reference: SymbolId(input.u64() >> 3),
    };
    let bytes = input.rest();
    let Ok(header) = Header::parse(flags, &mut Reader::new(bytes), truncation) else {
        return;
    };
    let mut out = Vec::new();
    header.write(&mut out);
    assert!(
        bytes.starts_with(&out),
        "every bit of the fields has a meaning"
    );
    let mut reader = Reader::new(&out);
    let again = Header::parse(header.flags(), &mut reader, truncation);
    assert_eq!(again, Ok(header));
    assert!(reader.is_empty());
    if let Header::Systematic { symbol: id, .. } | Header::Coded { first: id, .. } = header {
        let distance = id.0.abs_diff(truncation.reference.0);
        assert!(distance <= 1 << 23 || truncation.reference.0 < 1 << 23);
    }
}

/// The layout as the documentation draws it, written a second time.
fn write_stream_header(out: &mut Vec<u8>, frame: &StreamFrame<'_>, with_len: bool) {
    let significant = |value: u64| {
        (
            value.to_be_bytes(),
            (64 - value.leading_zeros()).div_ceil(8),
        )
    };
    let (id, id_len) = significant(frame.stream.0);
    let id_len = id_len.max(1) as usize;
    let (offset, offset_len) = significant(frame.offset);
    let (code, offset_len) = match offset_len {
        0 => (0, 0),
        1 | 2 => (1, 2),
        len => (len - 1, len as usize),
    };
    let flags = 0x80 | u32::from(frame.is_fin) << 6 | u32::from(with_len) << 5 | code << 2;
    out.push(flags as u8 | (id_len - 1) as u8);
    out.extend(&id[8 - id_len..]);
    out.extend(&offset[8 - offset_len..]);
    if with_len {
        out.extend((frame.data.len() as u16).to_be_bytes());
    }
}

fn stream_frames(content: &[u8]) {
    let mut bytes = 0;
    for frame in StreamFrames::new(content).map_while(Result::ok) {
        bytes += frame.data.len() + 2;
        assert!(frame.offset.checked_add(frame.data.len() as u64).is_some());
        for with_len in [false, true] {
            if with_len && frame.data.len() > usize::from(u16::MAX) {
                continue;
            }
            let mut out = Vec::new();
            write_stream_header(&mut out, &frame, with_len);
            let header_len = stream_header_len(frame.stream, frame.offset);
            assert_eq!(out.len(), header_len + 2 * usize::from(with_len));
            out.extend(frame.data);
            let mut frames = StreamFrames::new(&out);
            assert_eq!(frames.next(), Some(Ok(frame)));
            assert_eq!(frames.next(), None);
        }
    }
    assert!(bytes <= content.len(), "frames do not overlap");
}

fn params(bytes: &[u8]) {
    let Ok(params) = TransportParams::parse(bytes) else {
        return;
    };
    let mut out = Vec::new();
    params.write(&mut out);
    assert_eq!(TransportParams::parse(&out), Ok(params));
}

fn varints(bytes: &[u8]) {
    let mut reader = Reader::new(bytes);
    while let Ok(value) = reader.varint() {
        let mut out = Vec::new();
        write_varint(&mut out, value);
        assert_eq!(out.len(), varint_len(value));
        assert_eq!(Reader::new(&out).varint(), Ok(value));
    }
    assert!(reader.rest().len() < 8, "a varint has at most 8 bytes");
}

/// Truncated numbers are told apart, and none is taken twice.
fn packet_numbers(mut input: Input<'_>) {
    let mut window = ReplayWindow::new();
    let mut seen = Vec::new();
    while !input.is_empty() {
        let expected = window.expected();
        let number = match input.below(4) {
            0 => expected.0.saturating_sub(u64::from(input.u16())),
            1 => expected.0 + u64::from(input.u8()),
            2 => expected.0 + (u64::from(input.u16()) << 6),
            _ => seen.get(usize::from(input.u8())).copied().unwrap_or(0),
        };
        let low = (number & 0xFF_FFFF) as u32;
        if number + (1 << 23) > expected.0 {
            assert_eq!(recover_number(expected, low), PacketNumber(number));
        }
        let is_new = window.check(PacketNumber(number)).is_ok();
        assert!(
            !is_new || !seen.contains(&number),
            "{number} is taken twice"
        );
        if !is_new && !seen.contains(&number) {
            assert!(number + ctcp_proto::crypto::REPLAY_WINDOW < expected.0);
        }
        if is_new {
            window.mark(PacketNumber(number));
            seen.push(number);
        }
    }
}
