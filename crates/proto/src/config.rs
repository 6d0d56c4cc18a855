//! What a connection is told at its start.

use ctcp_congestion::{Params, UnknownController, resolved_name};
use ctcp_units::{Duration, seconds};
use thiserror::Error;

use crate::path::MtuMode;
use crate::schedule::Scheduler;
use crate::stream::{ConfigError as StreamsError, Side, StreamsConfig};
use crate::wire::TransportParams;
use crate::{Coupling, Redundancy};

/// What every host must take in one piece, IPv4 headers included; the least that
/// control packets have room in.
const FRAGMENT_MIN: u16 = 576;

/// Settings of the transport, the same for every connection of an endpoint.
#[derive(Debug, Clone)]
pub struct TransportConfig {
    /// Name of the congestion controller.
    pub congestion: String,
    /// Its parameters.
    pub congestion_params: Params,
    /// Coded packets ahead of feedback.
    pub redundancy: Redundancy,
    /// How several paths share the work.
    pub scheduler: Scheduler,
    /// What paths behind the same bottleneck take together.
    pub coupling: Coupling,
    /// Symbols per full block, 1–255.
    pub block_symbols: u8,
    /// Blocks in memory at most, as a sender.
    pub blocks_max: u64,
    /// Symbols accepted beyond the lowest one missing, as a receiver, 64 to 2^22:
    /// the coding window. Decoders hold no more than these; nor does the sender,
    /// however wide the peer opens its window.
    pub window_symbols: u64,
    /// How the UDP payload is found.
    pub mtu: MtuMode,
    /// Limits of the streams; the side is set by the connection.
    pub streams: StreamsConfig,
    /// Silence after which the connection is given up; the lesser of what both
    /// ends say counts.
    pub idle_timeout: Duration,
    /// Silence after which the client sends a sign of life; keeps NAT entries
    /// alive. Besides, it asks a few times when symbols stop coming, as its
    /// address may have changed.
    pub keep_alive: Option<Duration>,
    /// Patience with the handshake.
    pub handshake_timeout: Duration,
    /// Packets are marked ECT(0) where the path bears it.
    pub is_ecn_enabled: bool,
    /// The endpoint keeps rate and round trip of its peers' paths for ten minutes,
    /// so that the next connection there need not start from nothing.
    pub remembers_paths: bool,
}

impl Default for TransportConfig {
    fn default() -> Self {
        Self {
            congestion: "auto".to_owned(),
            congestion_params: Params::default(),
            redundancy: Redundancy::Auto,
            scheduler: Scheduler::Auto,
            coupling: Coupling::Auto,
            block_symbols: 32,
            blocks_max: 4095,
            window_symbols: 16_384,
            mtu: MtuMode::Probed { ceiling: 1472 },
            streams: StreamsConfig::new(Side::Client),
            idle_timeout: seconds(120),
            keep_alive: Some(seconds(15)),
            handshake_timeout: seconds(8),
            is_ecn_enabled: true,
            remembers_paths: true,
        }
    }
}

/// Why settings were refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TransportConfigError {
    /// No such controller.
    #[error(transparent)]
    Congestion(#[from] UnknownController),
    /// Limits of streams that do not agree.
    #[error(transparent)]
    Streams(#[from] StreamsError),
    /// A number out of its range.
    #[error("{name} is {value}; it must be {allowed}")]
    OutOfRange {
        /// The setting.
        name: &'static str,
        /// What was given.
        value: u64,
        /// What can be.
        allowed: &'static str,
    },
}

impl TransportConfig {
    /// Whether every setting is within its range.
    ///
    /// # Errors
    /// The first one that is not.
    pub fn check(&self) -> Result<(), TransportConfigError> {
        resolved_name(&self.congestion)?;
        self.streams.check()?;
        let refuse = |name, value, allowed| {
            Err(TransportConfigError::OutOfRange {
                name,
                value,
                allowed,
            })
        };
        if self.block_symbols == 0 {
            return refuse("block", 0, "1 to 255 symbols");
        }
        if !(64..=1 << 22).contains(&self.window_symbols) {
            return refuse(
                "coding window",
                self.window_symbols,
                "64 to 4194304 symbols",
            );
        }
        let (MtuMode::Fixed(size) | MtuMode::Probed { ceiling: size }) = self.mtu;
        if !(FRAGMENT_MIN..=65_527).contains(&size) {
            return refuse("mtu", size.into(), "576 to 65527 bytes");
        }
        if self.idle_timeout < seconds(1) {
            let millis = self.idle_timeout.as_millis() as u64;
            return refuse("idle timeout", millis, "1000 milliseconds or more");
        }
        Ok(())
    }

    /// The largest UDP payload that is sent or accepted.
    pub(crate) const fn udp_payload_max(&self) -> u16 {
        match self.mtu {
            MtuMode::Probed { ceiling } => ceiling,
            MtuMode::Fixed(size) => size,
        }
    }

    /// What is announced to the peer.
    pub(crate) fn params(&self) -> TransportParams {
        TransportParams {
            window_symbols: self.window_symbols,
            max_data: self.streams.max_data,
            max_stream_data: self.streams.max_stream_data,
            max_streams: self.streams.max_streams,
            idle_timeout: self.idle_timeout,
            max_ack_delay: crate::path::ACK_DELAY_MAX,
            udp_payload_max: u64::from(self.udp_payload_max()).max(1472),
            datagram_window: ctcp_rlnc::SLIDING_MAX as u64,
        }
    }
}
