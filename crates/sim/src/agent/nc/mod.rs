//! TCP/NC: network coding between TCP and IP.
//!
//! Algorithm: Sundararajan et al. 2009 as `tcp-flavours.md` §12 gives it. A layer
//! under an unchanged TCP sends, for each packet that TCP passes down, R random
//! linear combinations over GF(2^8) of the packets TCP has in flight. The
//! receiver acknowledges the first packet it has not *seen*: packet k is seen
//! when a combination of k and later packets only is known. So every innovative
//! combination moves the ACK, and a loss looks like a longer round trip.
//!
//! The combinations are real: coefficients and a few bytes of content of every
//! packet are computed, eliminated and compared with what was sent. On the wire
//! a combination is as long as a packet: its coefficients are named by a seed,
//! as [MODEL] leaves their cost out.
//!
//! A re-coding relay takes the place of a router and sends combinations of the
//! combinations it got, R for each: what is lost before it is made up for by it
//! and not by the source ([MODEL] §I, [MP12]).

mod client;
mod decoder;
mod encoder;
mod relay;
mod server;

use ctcp_congestion::{Params, VegasParams};
use ctcp_units::{Duration, millis, seconds};

pub(crate) use client::NcClient;
pub(crate) use relay::NcRelay;
pub(crate) use server::NcServer;

use crate::agent::tcp::{Recovery, TcpConfig};
use crate::engine::Datagram;

/// Places for coefficients: a packet's is its number modulo this. Windows stay
/// below half of it, so that what is late has a place too.
pub(crate) const SPAN: usize = 256;
/// Content of a packet that is coded and checked.
pub(crate) const CONTENT_LEN: usize = 16;
/// A row: coefficients, then content.
pub(crate) const ROW_LEN: usize = SPAN + CONTENT_LEN;
/// Largest window of the TCP above.
pub(crate) const WINDOW_MAX: u64 = 120;

/// Settings of TCP/NC.
#[derive(Debug, Clone, PartialEq)]
pub struct NcConfig {
    /// R: combinations sent per packet of TCP; at least 1.
    pub redundancy: f64,
    /// W_max, packets; at most 120.
    pub window_max: u64,
    /// W_max counts combinations on the wire, as [MODEL] eq. (23) does
    /// (E-MODEL-12): the TCP above gets W_max/R. Else it counts TCP's packets.
    pub window_counts_combinations: bool,
    /// W at the start.
    pub initial_window: f64,
    /// Name of the congestion controller.
    pub congestion: String,
    /// Its parameters.
    pub params: Params,
    /// Least retransmission timeout.
    pub rto_min: Duration,
    /// Length of a packet; all of it counts as data.
    pub packet_bytes: u32,
    /// Length of an ACK.
    pub ack_bytes: u32,
    /// Routers on the way of the data re-code, each with its own R.
    pub relay_redundancy: Option<f64>,
}

impl Default for NcConfig {
    /// [MODEL] §VII: R 1.25, W_max 90, packets of 8000 bits, Vegas.
    fn default() -> Self {
        Self {
            redundancy: 1.25,
            window_max: 90,
            window_counts_combinations: true,
            initial_window: 1.0,
            congestion: "vegas".to_owned(),
            params: Params {
                vegas: VegasParams {
                    alpha: 28.0,
                    beta: 30.0,
                    gamma: 2.0,
                    ..VegasParams::ns2()
                },
                ..Params::tcp()
            },
            rto_min: seconds(1),
            packet_bytes: 1000,
            ack_bytes: 40,
            relay_redundancy: None,
        }
    }
}

impl NcConfig {
    /// The TCP above the layer.
    fn tcp(&self) -> TcpConfig {
        TcpConfig {
            congestion: self.congestion.clone(),
            params: self.params,
            initial_window: self.initial_window,
            // The layer acknowledges cumulatively.
            recovery: Recovery::NewReno,
            is_ack_delayed: false,
            ack_delay_max: millis(40),
            receive_window: Some(match self.window_counts_combinations {
                true => ((self.window_max as f64 / self.redundancy) as u64).max(1),
                false => self.window_max,
            }),
            rto_min: self.rto_min,
            has_handshake: false,
            payload_bytes: self.packet_bytes,
            header_bytes: 0,
            ack_bytes: self.ack_bytes,
            ..TcpConfig::default()
        }
    }
}

/// A combination as it travels.
#[derive(Debug, Clone)]
pub(crate) struct Combination {
    /// First and one past the last packet combined.
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Application bytes that lie before the packet `to`.
    pub(crate) bytes: u64,
    /// A row; no bytes on the wire.
    pub(crate) row: Datagram,
}

/// What packet `number` contains: any function of it will do.
pub(crate) fn content(number: u64) -> [u8; CONTENT_LEN] {
    let mut random = ctcp_units::Random::from_seed(number);
    let mut bytes = [0; CONTENT_LEN];
    random.fill(&mut bytes);
    bytes
}

/// The place of a packet's coefficient in a row.
pub(crate) const fn place(number: u64) -> usize {
    (number % SPAN as u64) as usize
}

/// Counts R for each packet and gives the whole part: 1, 1, 1, 2 for R = 1.25.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numerator {
    redundancy: f64,
    left: f64,
}

impl Numerator {
    pub(crate) fn new(redundancy: f64) -> Self {
        Self {
            redundancy,
            left: 0.0,
        }
    }

    /// Combinations to send for one more packet.
    pub(crate) fn next(&mut self) -> u64 {
        self.left += self.redundancy;
        // Tenths add up to a little less than whole numbers.
        let whole = (self.left + 1e-9).floor();
        self.left -= whole;
        whole as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numerator_gives_the_golden_sequence() {
        let mut numerator = Numerator::new(1.25);
        let sent: Vec<_> = (0..8).map(|_| numerator.next()).collect();
        assert_eq!(sent, [1, 1, 1, 2, 1, 1, 1, 2]);
    }
}
