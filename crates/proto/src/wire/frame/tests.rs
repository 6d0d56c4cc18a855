use super::*;

fn samples() -> Vec<Frame<'static>> {
    vec![
        Frame::Ping,
        Frame::AckFloor {
            path: PathId(2),
            floor: 70_000,
        },
        Frame::MaxData(1 << 40),
        Frame::MaxStreams(9),
        Frame::MaxStreamData {
            stream: StreamId(5),
            max: 1 << 20,
        },
        Frame::ResetStream {
            stream: StreamId(4),
            code: 7,
            final_offset: 99,
        },
        Frame::StopSending {
            stream: StreamId(4),
            code: 8,
        },
        Frame::Abandon {
            first: SymbolId(1 << 33),
            count: 32,
        },
        Frame::PathId {
            path: PathId(3),
            id: ConnectionId([9; 8]),
        },
        Frame::PathUse {
            path: PathId(3),
            sequence: 1 << 20,
            is_backup: true,
            cost: 7,
        },
        Frame::PathClose(PathId(70)),
        Frame::PathChallenge([1; 8]),
        Frame::PathResponse([2; 8]),
        Frame::Close {
            code: 3,
            reason: "done",
        },
    ]
}

#[test]
fn frames_come_back_in_order() {
    let mut out = Vec::new();
    for frame in samples() {
        let before = out.len();
        frame.write(&mut out);
        assert_eq!(out.len() - before, frame.encoded_len(), "{frame:?}");
    }
    Frame::Padding.write(&mut out);
    out.extend_from_slice(&[0xFF; 10]);
    let read: Result<Vec<_>, _> = FrameIter::new(&out).collect();
    let mut expected = samples();
    expected.push(Frame::Padding);
    assert_eq!(read, Ok(expected));
}

#[test]
fn path_frames_are_pinned_to_their_bytes() {
    let mut out = Vec::new();
    for frame in samples().iter().filter(|frame| {
        matches!(
            frame,
            Frame::PathId { .. } | Frame::PathUse { .. } | Frame::PathClose(_)
        )
    }) {
        frame.write(&mut out);
    }
    let expected = [
        11, 3, 9, 9, 9, 9, 9, 9, 9, 9, 15, 3, 0x80, 0x10, 0, 0, 1, 7, 16, 0x40, 70,
    ];
    assert_eq!(out, expected);
}

#[test]
fn a_datagram_is_the_rest_of_its_packet() {
    let datagram = Frame::Datagram {
        stream: StreamId(70),
        data: b"\x01\x02\x03",
    };
    let mut out = Vec::new();
    Frame::Ping.write(&mut out);
    datagram.write(&mut out);
    assert_eq!(out, [1, 17, 0x40, 70, 1, 2, 3]);
    assert_eq!(datagram.encoded_len(), out.len() - 1);
    assert!(datagram.is_ack_eliciting());
    let read: Result<Vec<_>, _> = FrameIter::new(&out).collect();
    assert_eq!(read, Ok(vec![Frame::Ping, datagram]));
    let empty = FrameIter::new(&out[..4]).last();
    let stream = StreamId(70);
    assert_eq!(empty, Some(Ok(Frame::Datagram { stream, data: b"" })));
}

#[test]
fn numbered_datagrams_and_their_repairs_are_pinned_to_their_bytes() {
    let numbered = Frame::NumberedDatagram {
        number: 300,
        content: b"\x07\x01\x02",
    };
    let repair = Frame::DatagramRepair {
        first: 70,
        count: 9,
        repair: 0x0102,
        payload: b"\x03\x04",
    };
    for (frame, bytes) in [
        (numbered, &[18, 0x41, 0x2C, 7, 1, 2][..]),
        (repair, &[19, 0x40, 70, 9, 1, 2, 3, 4]),
    ] {
        let mut out = Vec::new();
        frame.write(&mut out);
        assert_eq!(out, bytes);
        assert_eq!(frame.encoded_len(), bytes.len());
        assert!(frame.is_ack_eliciting());
        let mut frames = FrameIter::new(bytes);
        assert_eq!(frames.next(), Some(Ok(frame)));
        assert_eq!(frames.next(), None);
    }
    assert_eq!(
        datagram_content(b"\x07\x01\x02"),
        Ok((StreamId(7), &[1, 2][..]))
    );
}

#[test]
fn a_numbered_datagram_has_a_stream_and_a_repair_covers_something() {
    for bytes in [&[18, 1][..], &[18], &[19, 1, 9, 0], &[19, 1, 0, 0, 0]] {
        let read: Vec<_> = FrameIter::new(bytes).collect();
        assert!(matches!(read[..], [Err(_)]), "{bytes:?}: {read:?}");
    }
}

#[test]
fn reports_come_back_and_stop_at_the_room() {
    let reports = |n: u64| {
        (0..n).map(|i| GenerationReport {
            first: SymbolId(80 + 40 * i),
            rank: i as u8,
        })
    };
    let write = |n, room| {
        let mut out = Vec::new();
        Frame::write_generations(&mut out, SymbolId(90), SymbolId(5000), reports(n), room);
        assert!(out.len() <= room);
        out
    };
    let out = write(5, 1000);
    let Some(Ok(Frame::Generations {
        base,
        window_end,
        reports: view,
    })) = FrameIter::new(&out).next()
    else {
        panic!("a generations frame");
    };
    assert_eq!((base, window_end), (SymbolId(90), SymbolId(5000)));
    assert!(view.iter().eq(reports(5)));
    for (n, room) in [(500, 2000), (500, 30)] {
        assert!(FrameIter::new(&write(n, room)).all(|frame| frame.is_ok()));
    }
}

#[test]
fn every_truncation_is_an_error_or_a_shorter_list() {
    let mut out = Vec::new();
    for frame in samples() {
        frame.write(&mut out);
    }
    let whole = FrameIter::new(&out).count();
    for len in 0..out.len() {
        let frames: Vec<_> = FrameIter::new(&out[..len]).collect();
        assert!(frames.len() <= whole);
        assert!(frames.iter().rev().skip(1).all(Result::is_ok));
    }
}

#[test]
fn a_long_reason_is_cut_between_letters() {
    let reason = "ü".repeat(100);
    let mut out = Vec::new();
    Frame::Close {
        code: 1,
        reason: &reason,
    }
    .write(&mut out);
    let Some(Ok(Frame::Close { reason: cut, .. })) = FrameIter::new(&out).next() else {
        panic!("a close frame");
    };
    assert_eq!(cut.len(), CLOSE_REASON_MAX);
    assert!(reason.starts_with(cut));
}
