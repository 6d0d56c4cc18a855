//! Sending what is due, several datagrams in one call.

use std::io;

use ctcp_link::{Delivered, Ecn};

use super::clients::ClientId;
use super::socket::{Route, UdpPort};
use crate::clock;
use crate::line::{Carried, Line};
use crate::timing::Histogram;

/// Most bytes handed to the system at once, below what one send may carry.
const BATCH_BYTES_MAX: usize = 60_000;

/// Datagrams that are due together and go the same way, sent in one call.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    segment_bytes: usize,
    segment_count: usize,
    is_closed: bool,
    way: Option<(ClientId, Ecn)>,
}

/// What sending met.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SendCounts {
    pub(crate) send_errors: u64,
    pub(crate) target_refused: u64,
    pub(crate) strayed: u64,
}

impl Batch {
    /// Adds a datagram if it can go together with those here: the same way, the
    /// same length (the last may be shorter), not too many.
    fn add(&mut self, delivered: &Delivered<Carried<ClientId>>) -> bool {
        let bytes = &delivered.payload.bytes;
        let way = Some((delivered.payload.key, delivered.ecn));
        if self.segment_count == 0 {
            self.way = way;
            self.segment_bytes = bytes.len();
        } else if self.is_closed
            || self.way != way
            || bytes.len() > self.segment_bytes
            || bytes.is_empty()
            || self.bytes.len() + bytes.len() > BATCH_BYTES_MAX
        {
            return false;
        }
        // The system cuts into equal pieces: only the last may be shorter.
        self.is_closed = bytes.len() < self.segment_bytes;
        self.bytes.extend_from_slice(bytes);
        self.segment_count += 1;
        true
    }

    fn send(&mut self, port: &UdpPort, route: &Route, counts: &mut SendCounts) {
        let (_, ecn) = self.way.expect("a batch that is sent holds a datagram");
        let segment_bytes = (self.segment_count > 1).then_some(self.segment_bytes);
        let mut result = port.send(route, ecn, &self.bytes, segment_bytes);
        if matches!(&result, Err(error) if error.kind() == io::ErrorKind::ConnectionRefused) {
            // That was the answer to an earlier datagram; this one was not tried.
            counts.target_refused += 1;
            result = port.send(route, ecn, &self.bytes, segment_bytes);
        }
        if let Err(error) = result {
            if error.kind() == io::ErrorKind::ConnectionRefused {
                counts.target_refused += 1;
            } else {
                tracing::debug!(to = %route.to, %error, "datagram not sent");
            }
            counts.send_errors += self.segment_count as u64;
        }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.segment_count = 0;
        self.is_closed = false;
        self.way = None;
    }
}

/// Sends all that is due in `line`; `way` finds port and route of a client.
pub(crate) fn send_due<'a>(
    line: &mut Line<ClientId>,
    batch: &mut Batch,
    timing: &mut Histogram,
    counts: &mut SendCounts,
    way: impl Fn(ClientId) -> Option<(&'a UdpPort, Route)>,
) {
    let flush = |batch: &mut Batch, counts: &mut SendCounts| {
        let Some((client, _)) = batch.way else {
            return;
        };
        match way(client) {
            Some((port, route)) => batch.send(port, &route, counts),
            None => counts.strayed += batch.segment_count as u64,
        }
        batch.clear();
    };
    // What becomes due while we send waits for the next round, so that the other
    // direction and the arrivals get their turn.
    let now = clock::now();
    let mut sending_at = now;
    while let Some(mut delivered) = line.next(now) {
        if let Some(corruption) = delivered.corruption {
            corruption.apply(&mut delivered.payload.bytes);
        }
        let segments_max = way(delivered.payload.key).map_or(1, |(port, _)| port.segments_max());
        if batch.segment_count >= segments_max || !batch.add(&delivered) {
            flush(batch, counts);
            sending_at = clock::now();
            let is_added = batch.add(&delivered);
            debug_assert!(is_added, "an empty batch takes any datagram");
        }
        timing.record(delivered.due, sending_at);
    }
    flush(batch, counts);
}
