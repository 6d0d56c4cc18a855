//! What each end announces in the handshake: limits it keeps as a receiver.
//!
//! Layout: `(id varint, value varint)…`; unknown ids are passed over, so that
//! later versions can add some.

use ctcp_units::Duration;

use super::varint::VARINT_MAX;
use super::{ParseError, Reader, write_varint};

/// Limits of a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransportParams {
    /// Symbols accepted from the start: the coding window.
    pub window_symbols: u64,
    /// Credit of the connection, bytes.
    pub max_data: u64,
    /// Credit of each new stream, bytes.
    pub max_stream_data: u64,
    /// Streams the peer may open at first.
    pub max_streams: u64,
    /// Silence after which the connection is given up.
    pub idle_timeout: Duration,
    /// Longest time an ACK is held back.
    pub max_ack_delay: Duration,
    /// Largest UDP payload accepted, bytes.
    pub udp_payload_max: u64,
    /// Numbered datagrams that are remembered for repairs to cover; 0: none, and
    /// neither may be sent.
    pub datagram_window: u64,
}

impl TransportParams {
    fn fields(&self) -> [(u64, u64); 8] {
        [
            (1, self.window_symbols),
            (2, self.max_data),
            (3, self.max_stream_data),
            (4, self.max_streams),
            (5, self.idle_timeout.as_millis() as u64),
            (6, self.max_ack_delay.as_micros() as u64),
            (7, self.udp_payload_max),
            (8, self.datagram_window),
        ]
    }

    /// Appends the parameters.
    pub fn write(&self, out: &mut Vec<u8>) {
        for (id, value) in self.fields() {
            write_varint(out, id);
            write_varint(out, value.min(VARINT_MAX));
        }
    }

    /// Reads parameters; what is left out counts as 0.
    ///
    /// # Errors
    /// Truncated bytes; a window, payload or ACK delay out of range.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let mut values = [0u64; 9];
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            let id = reader.varint()?;
            let value = reader.varint()?;
            if let Some(slot) = usize::try_from(id).ok().and_then(|id| values.get_mut(id)) {
                *slot = value;
            }
        }
        let [
            _,
            window_symbols,
            max_data,
            max_stream_data,
            max_streams,
            idle,
            ack,
            payload,
            datagram_window,
        ] = values;
        let check = |field, value, range: core::ops::RangeInclusive<u64>| {
            if range.contains(&value) {
                Ok(value)
            } else {
                Err(ParseError::Impossible { field, value })
            }
        };
        Ok(Self {
            window_symbols: check("coding window", window_symbols, 1..=1 << 22)?,
            max_data,
            max_stream_data,
            max_streams,
            idle_timeout: Duration::from_millis(check("idle timeout", idle, 0..=1 << 40)?),
            max_ack_delay: Duration::from_micros(check("ACK delay", ack, 0..=1_000_000)?),
            udp_payload_max: check("UDP payload", payload, 1200..=65_527)?,
            datagram_window,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMS: TransportParams = TransportParams {
        window_symbols: 8192,
        max_data: 1 << 24,
        max_stream_data: 1 << 22,
        max_streams: 100,
        idle_timeout: Duration::from_secs(120),
        max_ack_delay: Duration::from_millis(5),
        udp_payload_max: 65_527,
        datagram_window: 64,
    };

    #[test]
    fn parameters_come_back_beside_unknown_ones() {
        let mut out = Vec::new();
        write_varint(&mut out, 99);
        write_varint(&mut out, 1);
        PARAMS.write(&mut out);
        assert_eq!(TransportParams::parse(&out), Ok(PARAMS));
    }

    #[test]
    fn what_an_older_peer_leaves_out_is_zero() {
        let mut out = Vec::new();
        PARAMS.write(&mut out);
        // The last one: an id of one byte, a value of two.
        out.truncate(out.len() - 3);
        let older = TransportParams {
            datagram_window: 0,
            ..PARAMS
        };
        assert_eq!(TransportParams::parse(&out), Ok(older));
    }

    #[test]
    fn an_impossible_limit_is_named() {
        let mut out = Vec::new();
        TransportParams {
            udp_payload_max: 100,
            ..PARAMS
        }
        .write(&mut out);
        assert_eq!(
            TransportParams::parse(&out),
            Err(ParseError::Impossible {
                field: "UDP payload",
                value: 100
            })
        );
    }
}
