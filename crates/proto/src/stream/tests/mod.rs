//! Two ends joined by symbols: single behaviours in `behaviour`, limits in
//! `credit`, random operations over a hostile network in `random`.

mod behaviour;
mod credit;
mod network;
mod random;

use super::{Read, ReadError, Side, StreamEvent, Streams, StreamsConfig, WriteError};
use ctcp_units::{StreamId, SymbolId};

/// Seed of randomized tests: `CTCP_SEED`, or a fixed one. Printed.
pub(in crate::stream) fn seed() -> u64 {
    let seed = std::env::var("CTCP_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0xC7C9);
    println!("CTCP_SEED={seed}");
    seed
}

/// Small limits, so that tests reach them.
pub(super) fn small(side: Side) -> StreamsConfig {
    StreamsConfig {
        side,
        max_data: 512 << 10,
        max_stream_data: 16 << 10,
        stream_window_max: 128 << 10,
        max_streams: 8,
        local_streams_max: 8,
        send_buffer_floor: 8 << 10,
        stream_send_buffer_max: 64 << 10,
        send_buffer_bytes_max: 128 << 10,
    }
}

/// Two ends that know each other's limits.
pub(super) fn pair(client: StreamsConfig, server: StreamsConfig) -> (Streams, Streams) {
    let join = |own: StreamsConfig, peer: StreamsConfig| {
        let mut streams = Streams::new(own);
        streams.set_peer_limits(peer.max_data, peer.max_stream_data, peer.max_streams);
        streams
    };
    (join(client, server), join(server, client))
}

/// Both ends with small limits.
pub(super) fn small_pair() -> (Streams, Streams) {
    pair(small(Side::Client), small(Side::Server))
}

/// Moves everything there is to send from one end to the other over a perfect
/// network; `next` counts symbols.
pub(super) fn carry(from: &mut Streams, to: &mut Streams, next: &mut SymbolId) {
    while from.can_fill() || from.has_control() {
        while let Some(said) = from.poll_control() {
            super::tests::network::hear(to, said).expect("an honest peer");
            from.on_control_acked(said);
        }
        let mut content = Vec::new();
        if from.fill_symbol(*next, 1430, &mut content) > 0 {
            *next = next.next();
            to.on_symbol(&content).expect("an honest peer");
            from.on_symbols_complete(*next);
        }
    }
}

/// Reads all there is; the flag says whether the end came.
pub(super) fn read_all(streams: &mut Streams, id: StreamId) -> Result<(Vec<u8>, bool), ReadError> {
    let mut all = Vec::new();
    let mut piece = [0; 3000];
    loop {
        match streams.read(id, &mut piece) {
            Ok(Read::Bytes(len)) => all.extend_from_slice(&piece[..len]),
            Ok(Read::End) => return Ok((all, true)),
            Err(ReadError::Blocked) => return Ok((all, false)),
            Err(error) => return Err(error),
        }
    }
}

/// Takes all events.
pub(super) fn events(streams: &mut Streams) -> Vec<StreamEvent> {
    core::iter::from_fn(|| streams.poll_event()).collect()
}

/// Checks what counters claim against the streams themselves.
pub(super) fn check_books(streams: &Streams) {
    let halves = || streams.streams.values();
    let sum = |of: fn(&super::streams::Stream) -> u64| halves().map(|s| of(s)).sum::<u64>();
    let config = &streams.config;
    assert_eq!(
        streams.bytes_to_send,
        sum(|s| s.send.held() + s.send.again_bytes())
    );
    assert_eq!(streams.bytes_received, sum(|s| s.receive.assembler.held()));
    let islands: usize = halves().map(|s| s.receive.assembler.island_count()).sum();
    assert_eq!(streams.islands, islands);
    let promised: u64 = halves()
        .map(|s| s.receive.promise().saturating_sub(config.max_stream_data))
        .sum();
    assert_eq!(
        streams.promises.free() + promised,
        config.shared_promises(),
        "promises are accounted"
    );
    let waiting: u64 = halves()
        .map(|s| s.send.held().saturating_sub(config.send_buffer_floor))
        .sum();
    assert_eq!(
        streams.send_budget.free() + waiting,
        config.send_buffer_bytes_max
    );
    let unread = sum(|s| s.receive.highest - s.receive.assembler.read_offset());
    let credit = &streams.receive_credit;
    assert_eq!(credit.received - credit.consumed, unread);
    // The connection's limit is never what holds a stream back.
    assert!(credit.received + sum(|s| s.receive.promise()) - unread <= credit.announced.value());
    assert!(unread <= config.promises_max());
    for stream in halves() {
        let receive = &stream.receive;
        assert!(receive.highest <= receive.credit.value());
        assert!(stream.send.sent() <= stream.send.max);
    }
    let queued = (
        halves().filter(|s| s.send.wants_metered()).count(),
        halves().filter(|s| s.send.wants_unmetered()).count(),
    );
    assert_eq!(
        streams.ready.counts(),
        queued,
        "queues hold who has something"
    );
    assert!(streams.send_credit.sent <= streams.send_credit.max);
    let chunks = config.max_data + config.send_buffer_bytes_max;
    let rounding = streams.count() as u64 * (config.send_buffer_floor + 5 * 8192);
    assert!(streams.memory_bytes() as u64 <= chunks + rounding + (1 << 20));
}
