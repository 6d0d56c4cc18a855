use super::*;
use crate::stream::{FILL_ROOM_MIN, OpenError, StreamControl, StreamViolation};
use crate::wire::{StreamFrame, StreamFrames};

const SYMBOL: SymbolId = SymbolId(0);

fn frames(content: &[u8]) -> Vec<(u64, u64, usize, bool)> {
    StreamFrames::new(content)
        .map(|frame| frame.expect("our own frame"))
        .map(|f| (f.stream.0, f.offset, f.data.len(), f.is_fin))
        .collect()
}

fn frame(stream: u64, offset: u64, is_fin: bool, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    StreamFrame::write_header(&mut out, StreamId(stream), offset, is_fin, None);
    out.extend_from_slice(data);
    out
}

#[test]
fn a_request_and_its_answer_cross_and_the_stream_is_forgotten() {
    let (mut client, mut server) = small_pair();
    let (mut up, mut down) = (SYMBOL, SYMBOL);
    let id = client.open().unwrap();
    assert_eq!(id, StreamId(0));
    assert_eq!(client.write(id, b"request"), Ok(7));
    client.finish(id).unwrap();
    carry(&mut client, &mut server, &mut up);
    assert_eq!(events(&mut client), [StreamEvent::Finished(id)]);
    assert_eq!(
        events(&mut server),
        [StreamEvent::Opened, StreamEvent::Readable(id)]
    );
    assert_eq!(server.accept(), Some(id));
    assert_eq!(read_all(&mut server, id), Ok((b"request".to_vec(), true)));
    assert_eq!(server.write(id, b"answer"), Ok(6));
    server.finish(id).unwrap();
    carry(&mut server, &mut client, &mut down);
    assert_eq!(server.count(), 0);
    assert_eq!(read_all(&mut client, id), Ok((b"answer".to_vec(), true)));
    assert_eq!(client.count(), 0);
    assert_eq!(client.read(id, &mut [0; 9]), Err(ReadError::Unknown));
    assert_eq!(client.write(id, b"x"), Err(WriteError::Unknown));
    assert!(client.is_idle() && server.is_idle());
    check_books(&client);
    check_books(&server);
}

#[test]
fn small_writes_of_several_streams_share_a_symbol() {
    let (mut client, _) = small_pair();
    for len in [5, 1, 40] {
        let id = client.open().unwrap();
        client.write(id, &vec![7; len]).unwrap();
    }
    let mut content = Vec::new();
    // Two headers of 2 bytes with lengths of 2, one without.
    assert_eq!(
        client.fill_symbol(SYMBOL, 1430, &mut content),
        46 + 4 + 4 + 2
    );
    assert_eq!(
        frames(&content),
        [(0, 0, 5, false), (2, 0, 1, false), (4, 0, 40, false)]
    );
    assert!(!client.can_fill());
}

#[test]
fn streams_take_turns() {
    let (mut client, _) = small_pair();
    for _ in 0..3 {
        let id = client.open().unwrap();
        client.write(id, &[1; 4000]).unwrap();
    }
    let mut content = Vec::new();
    let mut turns = Vec::new();
    for symbol in 0..6 {
        content.clear();
        client.fill_symbol(SymbolId(symbol), 1000, &mut content);
        turns.extend(frames(&content).iter().map(|f| f.0));
        assert_eq!(content.len(), 1000);
    }
    assert_eq!(turns, [0, 2, 4, 0, 2, 4]);
}

#[test]
fn a_frame_is_not_begun_for_a_few_bytes() {
    let (mut client, _) = small_pair();
    for _ in 0..2 {
        let id = client.open().unwrap();
        client.write(id, &[1; 100]).unwrap();
    }
    let mut content = Vec::new();
    // Header 2, data 100, length 2, header 2, and 7 bytes left over.
    assert_eq!(client.fill_symbol(SYMBOL, 113, &mut content), 102);
    content.clear();
    assert_eq!(client.fill_symbol(SYMBOL, 113, &mut content), 102);
    assert_eq!(frames(&content), [(2, 0, 100, false)]);
}

#[test]
fn an_end_after_the_data_travels_in_an_empty_frame() {
    let (mut client, mut server) = small_pair();
    let mut next = SYMBOL;
    let id = client.open().unwrap();
    client.write(id, b"all").unwrap();
    carry(&mut client, &mut server, &mut next);
    assert_eq!(read_all(&mut server, id), Ok((b"all".to_vec(), false)));
    events(&mut server);
    client.finish(id).unwrap();
    let mut content = Vec::new();
    client.fill_symbol(next, FILL_ROOM_MIN, &mut content);
    assert_eq!(frames(&content), [(0, 3, 0, true)]);
    server.on_symbol(&content).unwrap();
    assert_eq!(events(&mut server), [StreamEvent::Readable(id)]);
    assert_eq!(server.read(id, &mut [0; 9]), Ok(Read::End));
    assert_eq!(client.write(id, b"more"), Err(WriteError::Finished));
}

#[test]
fn the_content_of_an_abandoned_symbol_comes_again_in_shorter_ones() {
    let (mut client, mut server) = small_pair();
    let id = client.open().unwrap();
    let data: Vec<u8> = (0..1000u32).map(|i| (i / 3) as u8).collect();
    client.write(id, &data).unwrap();
    client.finish(id).unwrap();
    let mut lost = Vec::new();
    client.fill_symbol(SYMBOL, 1430, &mut lost);
    assert!(!client.can_fill());
    client.requeue(&lost);
    assert_eq!(client.bytes_buffered_send(), 1000);
    client.on_symbols_complete(SymbolId(1));
    assert_eq!(events(&mut client), []);
    let mut next = SymbolId(1);
    while client.can_fill() {
        let mut content = Vec::new();
        assert!(client.fill_symbol(next, 300, &mut content) <= 300);
        next = next.next();
        server.on_symbol(&content).unwrap();
    }
    server.on_symbol(&lost).unwrap();
    assert_eq!(read_all(&mut server, id), Ok((data, true)));
    client.on_symbols_complete(SymbolId(next.0 - 1));
    assert_eq!(events(&mut client), []);
    client.on_symbols_complete(next);
    assert_eq!(events(&mut client), [StreamEvent::Finished(id)]);
}

#[test]
fn a_stream_sent_again_is_finished_only_with_its_last_symbol() {
    let (mut client, _) = small_pair();
    let id = client.open().unwrap();
    client.write(id, b"abc").unwrap();
    client.finish(id).unwrap();
    let mut content = Vec::new();
    client.fill_symbol(SYMBOL, 1430, &mut content);
    client.requeue(&content);
    client.fill_symbol(SymbolId(1), 1430, &mut content);
    client.on_symbols_complete(SymbolId(1));
    assert_eq!(events(&mut client), []);
    client.on_symbols_complete(SymbolId(2));
    assert_eq!(events(&mut client), [StreamEvent::Finished(id)]);
}

#[test]
fn old_and_new_bytes_of_a_stream_may_share_a_symbol() {
    let (mut client, mut server) = small_pair();
    let id = client.open().unwrap();
    let mut content = Vec::new();
    client.write(id, b"old").unwrap();
    client.fill_symbol(SYMBOL, 1430, &mut content);
    client.write(id, b"new").unwrap();
    client.finish(id).unwrap();
    client.requeue(&content);
    content.clear();
    client.fill_symbol(SymbolId(1), 1430, &mut content);
    assert_eq!(frames(&content), [(0, 0, 3, false), (0, 3, 3, true)]);
    assert!(!client.can_fill());
    check_books(&client);
    server.on_symbol(&content).unwrap();
    assert_eq!(read_all(&mut server, id), Ok((b"oldnew".to_vec(), true)));
}

#[test]
fn a_reset_is_seen_at_once_and_never_as_an_end() {
    let (mut client, mut server) = small_pair();
    let (mut up, mut down) = (SYMBOL, SYMBOL);
    let id = client.open().unwrap();
    client.write(id, &[1; 5000]).unwrap();
    carry(&mut client, &mut server, &mut up);
    client.write(id, &[1; 5000]).unwrap();
    client.reset(id, 77);
    assert!(!client.can_fill());
    assert_eq!(client.bytes_buffered_send(), 0);
    assert_eq!(client.write(id, b"x"), Err(WriteError::Reset));
    events(&mut server);
    carry(&mut client, &mut server, &mut up);
    assert_eq!(events(&mut server), [StreamEvent::Reset { id, code: 77 }]);
    assert_eq!(server.bytes_buffered_receive(), 0);
    check_books(&server);
    for _ in 0..2 {
        assert_eq!(server.read(id, &mut [0; 9]), Err(ReadError::Reset(77)));
    }
    server.finish(id).unwrap();
    carry(&mut server, &mut client, &mut down);
    assert_eq!(server.count(), 0);
    assert_eq!(client.read(id, &mut [0; 9]), Ok(Read::End));
    assert_eq!(client.count(), 0);
}

#[test]
fn a_stop_resets_the_writer_and_tells_it_why() {
    let (mut client, mut server) = small_pair();
    let (mut up, mut down) = (SYMBOL, SYMBOL);
    let id = client.open().unwrap();
    client.write(id, &[1; 5000]).unwrap();
    carry(&mut client, &mut server, &mut up);
    server.stop(id, 9);
    assert_eq!(server.bytes_buffered_receive(), 0);
    assert_eq!(server.read(id, &mut [0; 9]), Err(ReadError::Stopped));
    carry(&mut server, &mut client, &mut down);
    assert_eq!(events(&mut client), [StreamEvent::Stopped { id, code: 9 }]);
    client.stop(id, 0);
    server.reset(id, 0);
    carry(&mut client, &mut server, &mut up);
    carry(&mut server, &mut client, &mut down);
    assert_eq!(server.count(), 0);
    // The writer has yet to learn of it.
    assert_eq!(client.count(), 1);
    assert_eq!(client.write(id, b"x"), Err(WriteError::Stopped(9)));
    assert_eq!(client.count(), 0);
    check_books(&client);
    check_books(&server);
}

#[test]
fn a_lost_control_frame_is_said_again_with_what_is_true_then() {
    let (mut client, mut server) = small_pair();
    let id = client.open().unwrap();
    client.reset(id, 5);
    let said = client.poll_control().unwrap();
    assert_eq!(
        said,
        StreamControl::Reset {
            id,
            code: 5,
            final_offset: 0
        }
    );
    assert_eq!(client.poll_control(), None);
    client.on_control_lost(said);
    assert_eq!(client.poll_control(), Some(said));
    client.on_control_acked(said);
    client.on_control_lost(said);
    assert_eq!(client.poll_control(), None);
    network::hear(&mut server, said).unwrap();
    network::hear(&mut server, said).unwrap();
    assert_eq!(
        events(&mut server),
        [StreamEvent::Opened, StreamEvent::Reset { id, code: 5 }]
    );
}

#[test]
fn late_frames_for_a_forgotten_stream_are_ignored() {
    let (mut client, mut server) = small_pair();
    let id = client.open().unwrap();
    client.write(id, b"late").unwrap();
    let mut content = Vec::new();
    client.fill_symbol(SYMBOL, 1430, &mut content);
    client.reset(id, 1);
    let reset = client.poll_control().unwrap();
    network::hear(&mut server, reset).unwrap();
    server.stop(id, 0);
    server.reset(id, 0);
    let answer = server.poll_control().unwrap();
    server.on_control_acked(answer);
    assert_eq!(server.count(), 0);
    server.on_symbol(&content).unwrap();
    network::hear(&mut server, reset).unwrap();
    server.on_max_stream_data(id, 1 << 40).unwrap();
    server.on_stop_sending(id, 1).unwrap();
    assert_eq!((server.count(), server.bytes_buffered_receive()), (0, 0));
    check_books(&server);
}

#[test]
fn a_stream_opens_those_before_it() {
    let (_, mut server) = small_pair();
    server.on_symbol(&frame(6, 0, false, b"x")).unwrap();
    assert_eq!(
        events(&mut server),
        [StreamEvent::Opened, StreamEvent::Readable(StreamId(6))]
    );
    let accepted: Vec<_> = core::iter::from_fn(|| server.accept()).collect();
    assert_eq!(accepted, [0, 2, 4, 6].map(StreamId));
}

#[test]
fn rules_of_ids_and_ends_are_enforced() {
    let refused = |symbols: &[Vec<u8>]| {
        let (_, mut server) = small_pair();
        let (last, before) = symbols.split_last().expect("a symbol");
        for symbol in before {
            server.on_symbol(symbol).expect("allowed so far");
        }
        server.on_symbol(last).expect_err("a violation")
    };
    assert_eq!(
        refused(&[frame(1, 0, false, b"x")]),
        StreamViolation::NeverOpened(StreamId(1))
    );
    assert_eq!(
        refused(&[frame(14, 0, false, b"x"), frame(16, 0, false, b"x")]),
        StreamViolation::TooManyStreams {
            stream: StreamId(16),
            max: 8
        }
    );
    assert_eq!(
        refused(&[frame(0, 0, true, b"abc"), frame(0, 3, false, b"d")]),
        StreamViolation::FinalOffset {
            stream: StreamId(0),
            end: 4,
            known: 3
        }
    );
    assert_eq!(
        refused(&[frame(0, 16_384, false, b"e")]),
        StreamViolation::StreamCredit {
            stream: StreamId(0),
            end: 16_385,
            max: 16_384
        }
    );
    assert!(matches!(
        refused(&[vec![0x20, 1]]),
        StreamViolation::Malformed(_)
    ));
}

#[test]
fn the_peer_may_open_more_as_streams_close() {
    let (mut client, mut server) = small_pair();
    let (mut up, mut down) = (SYMBOL, SYMBOL);
    let ids: Vec<_> = (0..8).map(|_| client.open().unwrap()).collect();
    assert_eq!(client.open(), Err(OpenError::TooMany));
    client.reset(ids[3], 0);
    client.stop(ids[3], 0);
    carry(&mut client, &mut server, &mut up);
    server.stop(ids[3], 0);
    server.reset(ids[3], 0);
    carry(&mut server, &mut client, &mut down);
    carry(&mut client, &mut server, &mut up);
    assert_eq!(events(&mut client), [StreamEvent::CreditOpened]);
    assert_eq!(client.open(), Ok(StreamId(16)));
    assert_eq!(client.open(), Err(OpenError::TooMany));
}

#[test]
fn a_writer_cut_short_is_woken_when_half_its_room_is_free() {
    let (mut client, _) = small_pair();
    client.on_max_data(1 << 30);
    let id = client.open().unwrap();
    client.on_max_stream_data(id, 1 << 30).unwrap();
    let written = client.write(id, &vec![0; 1 << 20]).unwrap();
    assert_eq!(written, 64 << 10);
    assert_eq!(client.write(id, b"x"), Err(WriteError::Blocked));
    let mut content = Vec::new();
    for symbol in 0.. {
        content.clear();
        client.fill_symbol(SymbolId(symbol), 1430, &mut content);
        if client.bytes_buffered_send() <= 32 << 10 {
            break;
        }
        assert_eq!(events(&mut client), []);
    }
    assert_eq!(events(&mut client), [StreamEvent::Writable(id)]);
}
