//! One direction of a relay: datagrams into the link, and out again on time.

use std::io;

use ctcp_link::{ConfigError, Delivered, Ecn, Link, LinkConfig, Packet};
use ctcp_units::Instant;

use super::clients::ClientId;
use super::socket::{Route, UdpPort};
use crate::buffer::{Buffer, Pool};
use crate::clock;
use crate::timing::Histogram;

/// Most bytes handed to the system at once, below what one send may carry.
const BATCH_BYTES_MAX: usize = 60_000;

/// A datagram inside a link.
#[derive(Debug, Clone)]
pub(crate) struct Datagram {
    pub(crate) client: ClientId,
    bytes: Buffer,
}

/// A link and the bytes in it.
#[derive(Debug)]
pub(crate) struct Direction {
    link: Link<Datagram>,
    /// The link has been told of this moment.
    told: Instant,
    /// Bytes of headers that the link charges for beside the payload.
    header_bytes: usize,
    pool: Pool,
}

impl Direction {
    pub(crate) fn new(
        config: LinkConfig,
        seed: u64,
        header_bytes: usize,
        now: Instant,
    ) -> Result<Self, ConfigError> {
        Ok(Self {
            link: Link::new(config, seed, now)?,
            told: now,
            header_bytes,
            pool: Pool::default(),
        })
    }

    pub(crate) fn link(&self) -> &Link<Datagram> {
        &self.link
    }

    /// The link has been told of this moment and will not go back.
    pub(crate) fn told(&self) -> Instant {
        self.told
    }

    /// Lets happen what happens up to `now`.
    pub(crate) fn advance(&mut self, now: Instant) {
        self.told = self.told.max(now);
        self.link.advance(self.told);
    }

    pub(crate) fn reconfigure(
        &mut self,
        now: Instant,
        config: LinkConfig,
    ) -> Result<(), ConfigError> {
        self.told = self.told.max(now);
        self.link.reconfigure(self.told, config)
    }

    /// Takes in a datagram received at `at`.
    pub(crate) fn offer(&mut self, at: Instant, client: ClientId, ecn: Ecn, bytes: &[u8]) {
        self.told = self.told.max(at);
        let len_bytes = (bytes.len() + self.header_bytes) as u32;
        let datagram = Datagram {
            client,
            bytes: self.pool.copy(bytes),
        };
        let packet = Packet::new(len_bytes, datagram).ecn(ecn);
        self.link.send(self.told, packet);
    }

    /// The next datagram due by `now`, corrupted if the link says so.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Delivered<Datagram>> {
        self.told = self.told.max(now);
        let mut delivered = self.link.poll_delivery(self.told)?;
        if let Some(corruption) = delivered.corruption {
            corruption.apply(&mut delivered.payload.bytes);
        }
        Some(delivered)
    }
}

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
    fn add(&mut self, delivered: &Delivered<Datagram>) -> bool {
        let bytes = &delivered.payload.bytes;
        let way = Some((delivered.payload.client, delivered.ecn));
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

/// Sends all that is due in `direction`; `way` finds port and route of a client.
pub(crate) fn send_due<'a>(
    direction: &mut Direction,
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
    while let Some(delivered) = direction.next(now) {
        let segments_max = way(delivered.payload.client).map_or(1, |(port, _)| port.segments_max());
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
