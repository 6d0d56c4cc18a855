//! How a TCP is set up.

use super::constant::ConstantRate;
use super::fec::Coding;
use ctcp_congestion::{AckCounting, Params};
use ctcp_units::{Duration, millis, seconds};

/// How losses are found and repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// SACK scoreboard ([RFC6675]).
    Sack,
    /// Partial ACKs ([RFC6582]).
    NewReno,
    /// SACK scoreboard, with losses found by time and a probe at the tail
    /// ([RFC8985]), as present kernels do.
    Rack,
}

/// Settings of a TCP connection.
#[derive(Debug, Clone, PartialEq)]
pub struct TcpConfig {
    /// Name of the congestion controller.
    pub congestion: String,
    /// Its parameters. Set the initial window by [`TcpConfig::initial_window`].
    pub params: Params,
    /// Segments in flight at the start.
    pub initial_window: f64,
    /// Loss recovery.
    pub recovery: Recovery,
    /// Every second segment is acknowledged ([RFC5681] §4.2).
    pub is_ack_delayed: bool,
    /// The longest such wait.
    pub ack_delay_max: Duration,
    /// New segments on the first two duplicate ACKs ([RFC3042]).
    pub has_limited_transmit: bool,
    /// Congestion marks instead of drops ([RFC3168]).
    pub is_ecn_enabled: bool,
    /// Segments the receiver has room for; `None`: any number.
    pub receive_window: Option<u64>,
    /// Least retransmission timeout.
    pub rto_min: Duration,
    /// Greatest retransmission timeout.
    pub rto_max: Duration,
    /// Whether packets are spread over the round trip as the controller says.
    /// `None`: only where the controller depends on it (BBR, Hybla).
    pub is_paced: Option<bool>,
    /// The window is widened by 1/(1 − μ), μ the mean share lost, so that as many
    /// packets arrive as it holds ([FEC]: TCP-la). `tcp-cd` does so by itself.
    pub scales_window: bool,
    /// Erasure blocks. They need SACK.
    pub coding: Coding,
    /// A constant rate in place of the controller.
    pub constant_rate: Option<ConstantRate>,
    /// The connection opens with a handshake. Without, the server knows the
    /// client from the start and only the request travels.
    pub has_handshake: bool,
    /// Application bytes of a full segment.
    pub payload_bytes: u32,
    /// Headers of a segment with data.
    pub header_bytes: u32,
    /// Length of an ACK.
    pub ack_bytes: u32,
}

impl Default for TcpConfig {
    /// Reno as a Linux kernel of today has it on Ethernet: 1448 bytes and
    /// timestamps in 1500, ten segments to begin with, 0.2 s least timeout.
    fn default() -> Self {
        Self {
            congestion: "reno".to_owned(),
            params: Params::tcp(),
            initial_window: 10.0,
            recovery: Recovery::Sack,
            is_ack_delayed: true,
            ack_delay_max: millis(40),
            has_limited_transmit: true,
            is_ecn_enabled: false,
            receive_window: None,
            rto_min: millis(200),
            rto_max: seconds(60),
            is_paced: None,
            scales_window: false,
            coding: Coding::None,
            constant_rate: None,
            has_handshake: true,
            payload_bytes: 1448,
            header_bytes: 52,
            ack_bytes: 52,
        }
    }
}

impl TcpConfig {
    /// The same with another controller.
    #[must_use]
    pub fn congestion(mut self, name: &str) -> Self {
        self.congestion = name.to_owned();
        self
    }

    /// The kernel of the papers' testbeds (Linux 2.6.32): three segments to
    /// begin with, appropriate byte counting with L = 1.
    #[must_use]
    pub fn linux_2_6_32(mut self) -> Self {
        self.initial_window = 3.0;
        self.params.ack_counting = AckCounting::SlowStartUpTo(1);
        self
    }

    /// TCP-la of [FEC]: SACK and ECN, its window widened by what is lost.
    pub fn tcp_la() -> Self {
        Self {
            scales_window: true,
            is_ecn_enabled: true,
            ..Self::default()
        }
    }

    /// TCP-cd of [FEC]: deaf to loss, obedient to marks, each window a block of
    /// an erasure code.
    pub fn tcp_cd() -> Self {
        Self {
            congestion: "tcp-cd".to_owned(),
            is_ecn_enabled: true,
            coding: Coding::Adaptive,
            ..Self::default()
        }
    }

    /// A reliable source of constant rate with (n, k) blocks ([FEC] Fig. 1).
    pub fn constant(rate: ConstantRate, coding: Coding) -> Self {
        Self {
            constant_rate: Some(rate),
            coding,
            ..Self::default()
        }
    }

    /// An ACK for every segment.
    #[must_use]
    pub fn ack_every_segment(mut self) -> Self {
        self.is_ack_delayed = false;
        self
    }

    /// Whether packets are paced under this controller.
    pub(crate) fn paces(&self) -> bool {
        let depends = matches!(self.congestion.as_str(), "bbr" | "hybla");
        self.is_paced
            .unwrap_or(depends || self.constant_rate.is_some())
    }
}
