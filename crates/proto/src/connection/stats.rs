//! What a connection counts.

use super::Connection;
use crate::DelayHistogram;
use crate::path::PathStats;

/// Packets by kind, and their bytes of UDP payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketCounts {
    /// Hellos and answers.
    pub handshake: u64,
    /// Control packets: acknowledgements, credit, signs of life.
    pub control: u64,
    /// Datagrams of the application beside its streams.
    pub datagrams: u64,
    /// Repairs of such datagrams.
    pub datagram_repairs: u64,
    /// Source symbols as they are.
    pub systematic: u64,
    /// Linear combinations.
    pub coded: u64,
    /// UDP payload of all of them, bytes.
    pub bytes: u64,
}

/// Counters without a place of their own.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counters {
    pub(super) coded_innovative: u64,
    pub(super) useless: u64,
    pub(super) outside_window: u64,
    pub(super) forged: u64,
    pub(super) replayed: u64,
    pub(super) unexpected: u64,
    pub(super) probe_timeouts: u64,
    pub(super) address_changes: u64,
    pub(super) generations_abandoned: u64,
}

/// A snapshot of a connection.
#[derive(Debug, Clone, PartialEq)]
pub struct ConnectionStats {
    /// Packets sent.
    pub sent: PacketCounts,
    /// Packets received, opened and not seen before.
    pub received: PacketCounts,
    /// Coded packets received that brought a degree of freedom.
    pub coded_innovative: u64,
    /// Symbols and combinations received that brought none.
    pub useless: u64,
    /// Source symbols that decoding brought: losses repaired without sending
    /// anything again.
    pub symbols_recovered: u64,
    /// Coded packets sent because feedback showed that the first pass of a block,
    /// the coded packets sent ahead among it, had not sufficed: what loss is left
    /// after coding.
    pub coded_on_feedback: u64,
    /// How long later symbols were held back by one that was lost; see
    /// [`DelayHistogram`]. One entry for each time that the lowest missing symbol
    /// arrived, from when it was known to be missing.
    pub in_order_delay: DelayHistogram,
    /// How long decoding took to bring a lost symbol, from the arrival that showed
    /// the loss; one entry for each of `symbols_recovered`.
    pub decode_delay: DelayHistogram,
    /// Symbols beyond the coding window, dropped.
    pub outside_window: u64,
    /// Datagrams whose tag did not fit, dropped.
    pub forged: u64,
    /// Datagrams seen before, dropped.
    pub replayed: u64,
    /// Datagrams that made no sense in the connection's state, dropped.
    pub unexpected: u64,
    /// Times nothing came back for so long that a probe was sent.
    pub probe_timeouts: u64,
    /// Changes of the peer's address that were proven and followed.
    pub address_changes: u64,
    /// Datagrams of the application dropped here: they came faster than they could go
    /// on, or no path could carry them any more.
    pub datagrams_dropped: u64,
    /// Datagrams of the application that were lost on the way and that repairs
    /// brought back.
    pub datagrams_recovered: u64,
    /// Generations given up because no path could carry them any more.
    pub generations_abandoned: u64,
    /// Blocks in memory as a sender.
    pub blocks_sending: usize,
    /// Generations in memory as a receiver.
    pub generations_receiving: usize,
    /// Datagrams of the application and repairs held as a receiver, to recover others
    /// by; at most 64.
    pub datagrams_held: usize,
    /// Bytes of symbols held as a sender.
    pub symbol_bytes_held: usize,
    /// Stream bytes that wait to be sent.
    pub bytes_to_send: u64,
    /// Stream bytes that wait to be read.
    pub bytes_to_read: u64,
    /// Streams open.
    pub streams: usize,
    /// Times the sending keys were renewed.
    pub key_phase: u64,
    /// The paths.
    pub paths: Vec<PathStats>,
}

impl Connection {
    /// What the connection shows of itself.
    pub fn stats(&self) -> ConnectionStats {
        let counters = &self.stats;
        ConnectionStats {
            sent: self.sent,
            received: self.received,
            coded_innovative: counters.coded_innovative,
            useless: counters.useless,
            symbols_recovered: self.receiver.recovered(),
            coded_on_feedback: self.sender.coded_on_feedback(),
            in_order_delay: *self.receiver.waits().in_order(),
            decode_delay: *self.receiver.waits().decode(),
            outside_window: counters.outside_window,
            forged: counters.forged,
            replayed: counters.replayed,
            unexpected: counters.unexpected,
            probe_timeouts: counters.probe_timeouts,
            address_changes: counters.address_changes,
            datagrams_dropped: self.datagrams.dropped(),
            datagrams_recovered: self.datagrams.recovered(),
            datagrams_held: self.datagrams.held(),
            generations_abandoned: counters.generations_abandoned,
            blocks_sending: self.sender.len(),
            generations_receiving: self.receiver.len(),
            symbol_bytes_held: self.sender.bytes_held(),
            bytes_to_send: self.streams.bytes_buffered_send(),
            bytes_to_read: self.streams.bytes_buffered_receive(),
            streams: self.streams.count(),
            key_phase: self.keys.as_ref().map_or(0, |keys| keys.key_phase()),
            paths: self.paths.iter().map(|path| path.stats()).collect(),
        }
    }
}
