//! Rounds: spans of one round trip, told by packet numbers and not by time.

use ctcp_units::PacketNumber;

use crate::event::AckEvent;

/// Tells when a packet that was sent after the last round began is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Round {
    end: PacketNumber,
}

impl Round {
    /// Before the first ACK.
    pub(crate) const START: Self = Self {
        end: PacketNumber(0),
    };

    /// Whether a round begins with this ACK. The first ACK begins one.
    pub(crate) fn begins_with(&mut self, ack: &AckEvent) -> bool {
        let is_new = ack.newest_acked >= self.end;
        if is_new {
            self.end = ack.largest_sent.next();
        }
        is_new
    }
}
