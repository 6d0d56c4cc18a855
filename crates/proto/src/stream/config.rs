//! How much streams may hold.

use thiserror::Error;

use super::chunks::CHUNK_LEN;

/// Which end of the connection this is; it decides whose streams are even.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Opens streams 0, 2, 4, …
    Client,
    /// Opens streams 1, 3, 5, …
    Server,
}

impl Side {
    /// Lowest bit of the ids of streams that this side opens.
    pub(super) const fn bit(self) -> u64 {
        match self {
            Self::Client => 0,
            Self::Server => 1,
        }
    }
}

/// Limits of the streams of one connection, all in bytes or streams.
///
/// Memory that follows, at most: three quarters of `max_data` of received bytes,
/// two chunks of 8 KiB more for each stream, an eighth of `max_data` for the
/// places of gaps;
/// `send_buffer_bytes_max` and, for each stream, `send_buffer_floor` of bytes to
/// send; beside them what was given back by abandoned generations, which is
/// never more than the coding window holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamsConfig {
    /// This end.
    pub side: Side,
    /// Credit of the connection; announced in the handshake.
    pub max_data: u64,
    /// Credit of each new stream; announced in the handshake. A stream always
    /// has this much beyond what was read, however many others are not read.
    pub max_stream_data: u64,
    /// Credit that a stream may grow to while its reader keeps up.
    pub stream_window_max: u64,
    /// Streams of the peer open at once; announced in the handshake.
    pub max_streams: u64,
    /// Streams of our own open at once, whatever the peer allows.
    pub local_streams_max: u64,
    /// Bytes a stream may always have waiting to be sent.
    pub send_buffer_floor: u64,
    /// Bytes a stream may have waiting to be sent while the buffer of all has
    /// room.
    pub stream_send_buffer_max: u64,
    /// Bytes that all streams may have waiting to be sent above their floors.
    pub send_buffer_bytes_max: u64,
}

impl StreamsConfig {
    /// Limits for a few hundred streams, one of which may have 16 MiB on the
    /// way: 1 Gbit/s over 100 ms.
    pub const fn new(side: Side) -> Self {
        Self {
            side,
            max_data: 96 << 20,
            max_stream_data: 64 << 10,
            stream_window_max: 16 << 20,
            max_streams: 256,
            local_streams_max: 256,
            send_buffer_floor: 16 << 10,
            stream_send_buffer_max: 512 << 10,
            send_buffer_bytes_max: 8 << 20,
        }
    }

    /// Bytes of `max_data` that may be promised to streams. Connection credit
    /// follows what was read by up to a quarter of `max_data`; with no more than
    /// the other three quarters promised it is never what a stream waits for.
    pub(super) const fn promises_max(&self) -> u64 {
        self.max_data - self.max_data.div_ceil(4)
    }

    /// Bytes that stay reserved so that every stream can have its first credit.
    fn reserved(&self) -> u64 {
        self.max_streams
            .saturating_add(self.local_streams_max)
            .saturating_mul(self.max_stream_data)
    }

    /// Bytes that streams may be promised above their first credit.
    pub(super) fn shared_promises(&self) -> u64 {
        self.promises_max() - self.reserved()
    }

    /// Gaps in all streams at once, so that fragments of one byte cannot cost
    /// more than an eighth of the credit (an entry of the tree of gaps takes
    /// some 40 bytes). An honest sender stays below while the symbols missing in
    /// its coding window hold fewer frames than this.
    pub(super) const fn islands_max(&self) -> usize {
        let share = self.max_data / 512;
        if share > 1024 { share as usize } else { 1024 }
    }

    /// Whether the limits agree with one another.
    ///
    /// # Errors
    /// The first one that does not.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.max_data > 1 << 40 || self.max_streams > 1 << 20 || self.local_streams_max > 1 << 20
        {
            return Err(ConfigError::TooLarge);
        }
        if self.max_stream_data < CHUNK_LEN as u64 || self.send_buffer_floor < CHUNK_LEN as u64 {
            return Err(ConfigError::TooSmall);
        }
        let (reserved, available) = (self.reserved(), self.promises_max());
        if reserved > available {
            return Err(ConfigError::Starvation {
                reserved,
                available,
            });
        }
        Ok(())
    }
}

/// Why limits of streams were refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// Unread streams could take the credit of others. Raise `max_data`, or
    /// lower `max_stream_data` or the counts of streams.
    #[error(
        "streams could starve one another: {reserved} bytes are promised to new streams, \
         {available} (three quarters of max_data) are there; raise max_data"
    )]
    Starvation {
        /// First credit of all streams that may be open.
        reserved: u64,
        /// Three quarters of `max_data`.
        available: u64,
    },
    /// `max_stream_data` or `send_buffer_floor` is below 8 KiB.
    #[error("max_stream_data and send_buffer_floor must be at least {CHUNK_LEN} bytes")]
    TooSmall,
    /// More than 1 TiB of credit or 2^20 streams.
    #[error("at most 1 TiB of credit and 2^20 streams of each side can be had")]
    TooLarge,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_under_which_streams_could_starve_one_another_are_refused() {
        let config = StreamsConfig::new(Side::Client);
        assert_eq!(config.check(), Ok(()));
        let edge = StreamsConfig {
            max_data: 512 * (64 << 10) / 3 * 4 + 4,
            ..config
        };
        assert_eq!(edge.check(), Ok(()));
        let past = StreamsConfig {
            max_data: edge.max_data - 8,
            ..config
        };
        assert!(matches!(past.check(), Err(ConfigError::Starvation { .. })));
    }
}
