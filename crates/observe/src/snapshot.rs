//! Everything there is to see, at one moment: what the page, `ctcp status` and
//! `ctcp top` are made of. Its JSON form is that of `/api/status`.
//!
//! Counters only grow while a connection lives; rates are the reader's to make,
//! from two snapshots. Times are seconds, sizes bytes, rates packets per second.

use std::time::Duration;

use ctcp::{ConnectionStats, DelayHistogram, EndpointStats, PacketCounts, PathStats};
use serde::{Deserialize, Serialize};

/// A process that speaks CTCP.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// What it is: `client` or `server`.
    pub role: String,
    /// Its version.
    pub version: String,
    /// Differs between any two processes: counters begin anew.
    pub instance: String,
    /// The process's id.
    pub pid: u32,
    /// What it is called: where it listens, or which server it uses.
    pub title: String,
    /// Seconds since it started.
    pub uptime: f64,
    /// Its connections, oldest first.
    pub connections: Vec<ConnectionView>,
    /// Its proxy.
    pub proxy: ProxyView,
    /// What is relayed now, newest first; at most [`Snapshot::STREAMS_MAX`].
    pub streams: Vec<StreamView>,
    /// How many are relayed now.
    pub streams_total: usize,
    /// The UDP socket, of a server.
    pub socket: Option<SocketView>,
}

impl Snapshot {
    /// Streams that a snapshot lists at most.
    pub const STREAMS_MAX: usize = 200;
}

/// One connection.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ConnectionView {
    /// Differs between any two connections of the process.
    pub id: u64,
    /// Who is on the other side, in the user's words.
    pub name: String,
    /// The peer's public key.
    pub peer: String,
    /// Seconds since it was made.
    pub age: f64,
    /// Streams open.
    pub streams: usize,
    /// Blocks in memory as a sender.
    pub blocks_sending: usize,
    /// Generations in memory as a receiver.
    pub generations_receiving: usize,
    /// Stream bytes that wait to be sent.
    pub bytes_to_send: u64,
    /// Stream bytes that wait to be read.
    pub bytes_to_read: u64,
    /// Packets sent.
    pub sent: PacketView,
    /// Packets received.
    pub received: PacketView,
    /// Coded packets received that brought a degree of freedom.
    pub coded_innovative: u64,
    /// Symbols and combinations received that brought none.
    pub useless: u64,
    /// Lost symbols that decoding brought.
    pub symbols_recovered: u64,
    /// Lost datagrams of applications that repairs brought.
    #[serde(default)]
    pub datagrams_recovered: u64,
    /// Coded packets sent because feedback called for them.
    pub coded_on_feedback: u64,
    /// Datagrams dropped: forged, replayed or out of place.
    pub dropped: u64,
    /// Probes sent after silence.
    pub probe_timeouts: u64,
    /// How long later symbols waited for a lost one.
    pub in_order_delay: DelayView,
    /// How long decoding took to bring a lost symbol.
    pub decode_delay: DelayView,
    /// The paths.
    pub paths: Vec<PathView>,
}

/// Packets by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketView {
    /// Of the handshake.
    pub handshake: u64,
    /// Acknowledgements, credit, signs of life.
    pub control: u64,
    /// Datagrams of applications beside their streams.
    #[serde(default)]
    pub datagrams: u64,
    /// Repairs of these.
    #[serde(default)]
    pub datagram_repairs: u64,
    /// Source symbols as they are.
    pub systematic: u64,
    /// Linear combinations.
    pub coded: u64,
    /// UDP payload of all of them.
    pub bytes: u64,
}

/// A distribution of delays.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DelayView {
    /// Delays entered.
    pub count: u64,
    /// Their sum, seconds.
    pub sum: f64,
    /// Upper bound of each bucket in seconds (none: the last) and the delays in
    /// it.
    pub buckets: Vec<(Option<f64>, u64)>,
}

/// One path.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PathView {
    /// Its id.
    pub id: u64,
    /// Where it begins, if that is known.
    pub local: Option<String>,
    /// Where it leads.
    pub remote: String,
    /// `active`, `degraded`, `down` or `probing`.
    pub state: String,
    /// Carries data only while no other path can.
    pub is_backup: bool,
    /// Smoothed round trip, seconds.
    pub srtt: Option<f64>,
    /// Mean deviation of the round trip, seconds.
    pub rttvar: Option<f64>,
    /// Smallest round trip, seconds.
    pub rtt_min: Option<f64>,
    /// Short-term estimate of the share of packets lost on the way out.
    pub loss_rate: f64,
    /// Long-term estimate of the same.
    pub loss_rate_long: f64,
    /// Packets that may be in flight.
    pub tokens: f64,
    /// Packets in flight.
    pub in_flight: u64,
    /// Packets in flight that stand in queues: tokens in use × (1 − base ÷
    /// smoothed round trip).
    pub queued: f64,
    /// The controller.
    pub congestion: String,
    /// What the controller is doing.
    pub phase: String,
    /// UDP payload in use, bytes.
    pub mtu: u16,
    /// `capable`, `testing`, `unknown` or `failed`.
    pub ecn: String,
    /// Packets marked by routers.
    pub ecn_ce: u64,
    /// Packets sent.
    pub packets_sent: u64,
    /// Of those, the ones that stand as lost.
    pub packets_lost: u64,
    /// UDP payload sent.
    pub bytes_sent: u64,
    /// UDP payload of symbols acknowledged.
    pub bytes_delivered: u64,
    /// Packets received.
    pub packets_received: u64,
    /// Packets that the peer sent and that have not arrived.
    pub packets_missing: u64,
    /// UDP payload received.
    pub bytes_received: u64,
    /// Content received that was news.
    pub bytes_useful: u64,
}

/// What a proxy has done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyView {
    /// Connections taken on.
    pub accepted: u64,
    /// Of those, the ones not yet ended.
    pub active: u64,
    /// Bytes relayed towards targets.
    pub bytes_up: u64,
    /// Bytes relayed towards applications.
    pub bytes_down: u64,
    /// Connections that failed, by reason.
    pub failed: Vec<(String, u64)>,
    /// Whom a server serves, by name; at most [`ProxyView::CLIENTS_MAX`].
    #[serde(default)]
    pub clients: Vec<ClientView>,
}

impl ProxyView {
    /// Most clients shown.
    pub const CLIENTS_MAX: usize = 1000;
}

/// A client of a server, all that share its name together, since the server
/// started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientView {
    /// What it is called.
    pub name: String,
    /// Streams at once now.
    pub streams: u64,
    /// Streams it may have at once.
    pub streams_max: Option<u32>,
    /// Streams refused because of that.
    pub streams_refused: u64,
    /// What it may relay each way, bits per second.
    pub rate_max: Option<u64>,
    /// Bytes relayed towards targets.
    pub bytes_up: u64,
    /// Bytes relayed towards the client.
    pub bytes_down: u64,
}

/// One connection that is relayed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamView {
    /// Differs between any two of the process.
    pub id: u64,
    /// Where it leads.
    pub target: String,
    /// Whose it is; empty where there are no names.
    pub client: String,
    /// Seconds since it began.
    pub age: f64,
    /// Bytes towards the target.
    pub bytes_up: u64,
    /// Bytes towards the application.
    pub bytes_down: u64,
}

/// A UDP socket and the datagrams that belonged to no connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketView {
    /// Datagrams received.
    pub datagrams_received: u64,
    /// Datagrams sent.
    pub datagrams_sent: u64,
    /// Calls to send that failed.
    pub send_errors: u64,
    /// Receive buffer granted by the kernel, bytes.
    pub receive_buffer_bytes: usize,
    /// Send buffer granted by the kernel, bytes.
    pub send_buffer_bytes: usize,
    /// Connections accepted.
    pub accepted: u64,
    /// Clients that were refused.
    pub refused: u64,
    /// Datagrams of nobody known: strangers, scans, late packets.
    pub unknown: u64,
}

impl From<&EndpointStats> for SocketView {
    fn from(stats: &EndpointStats) -> Self {
        let (socket, proto) = (&stats.socket, &stats.proto);
        Self {
            datagrams_received: socket.datagrams_received,
            datagrams_sent: socket.datagrams_sent,
            send_errors: socket.send_errors,
            receive_buffer_bytes: socket.receive_buffer_bytes,
            send_buffer_bytes: socket.send_buffer_bytes,
            accepted: proto.accepted,
            refused: proto.refused,
            unknown: proto.too_short + proto.unknown_id + proto.bad_hello + proto.stale_hello,
        }
    }
}

impl From<&PacketCounts> for PacketView {
    fn from(counts: &PacketCounts) -> Self {
        Self {
            handshake: counts.handshake,
            control: counts.control,
            datagrams: counts.datagrams,
            datagram_repairs: counts.datagram_repairs,
            systematic: counts.systematic,
            coded: counts.coded,
            bytes: counts.bytes,
        }
    }
}

impl From<&DelayHistogram> for DelayView {
    fn from(histogram: &DelayHistogram) -> Self {
        let seconds = |(bound, count): (Option<Duration>, u64)| {
            (bound.map(|bound| bound.as_secs_f64()), count)
        };
        Self {
            count: histogram.count(),
            sum: histogram.sum().as_secs_f64(),
            buckets: histogram.buckets().map(seconds).collect(),
        }
    }
}

impl ConnectionView {
    pub(crate) fn new(id: u64, name: &str, age: Duration, stats: &ConnectionStats) -> Self {
        Self {
            id,
            name: name.to_owned(),
            peer: String::new(),
            age: age.as_secs_f64(),
            streams: stats.streams,
            blocks_sending: stats.blocks_sending,
            generations_receiving: stats.generations_receiving,
            bytes_to_send: stats.bytes_to_send,
            bytes_to_read: stats.bytes_to_read,
            sent: (&stats.sent).into(),
            received: (&stats.received).into(),
            coded_innovative: stats.coded_innovative,
            useless: stats.useless,
            symbols_recovered: stats.symbols_recovered,
            datagrams_recovered: stats.datagrams_recovered,
            coded_on_feedback: stats.coded_on_feedback,
            dropped: stats.forged + stats.replayed + stats.unexpected,
            probe_timeouts: stats.probe_timeouts,
            in_order_delay: (&stats.in_order_delay).into(),
            decode_delay: (&stats.decode_delay).into(),
            paths: stats.paths.iter().map(PathView::from).collect(),
        }
    }
}

impl From<&PathStats> for PathView {
    fn from(stats: &PathStats) -> Self {
        let seconds = |span: Option<Duration>| span.map(|span| span.as_secs_f64());
        Self {
            id: u64::from(stats.id.0),
            local: stats.local.map(|local| local.to_string()),
            remote: stats.remote.to_string(),
            state: stats.state.to_string(),
            is_backup: stats.is_backup,
            srtt: seconds(stats.srtt),
            rttvar: seconds(stats.rttvar),
            rtt_min: seconds(stats.rtt_min),
            loss_rate: stats.loss_rate,
            loss_rate_long: stats.loss_rate_long,
            tokens: stats.controller.tokens,
            in_flight: stats.in_flight,
            queued: queued(stats.in_flight, stats.srtt, stats.rtt_min),
            congestion: stats.congestion.to_owned(),
            phase: stats.controller.phase.to_owned(),
            mtu: stats.mtu,
            ecn: ecn(stats).to_owned(),
            ecn_ce: stats.ecn_ce,
            packets_sent: stats.packets_sent,
            packets_lost: stats.packets_lost,
            bytes_sent: stats.bytes.sent,
            bytes_delivered: stats.bytes_delivered,
            packets_received: stats.packets_received,
            packets_missing: stats.packets_missing,
            bytes_received: stats.bytes.received,
            bytes_useful: stats.bytes_useful,
        }
    }
}

fn ecn(stats: &PathStats) -> &'static str {
    use ctcp_proto::EcnState;
    match stats.ecn {
        EcnState::Testing => "testing",
        EcnState::Unknown => "unknown",
        EcnState::Capable => "capable",
        EcnState::Failed(_) => "failed",
    }
}

/// Packets of those in flight that wait in queues: `in_flight · (1 − base ÷
/// srtt)`, the estimate of TCP Vegas.
fn queued(in_flight: u64, srtt: Option<Duration>, base: Option<Duration>) -> f64 {
    let (Some(srtt), Some(base)) = (srtt, base) else {
        return 0.0;
    };
    if srtt.is_zero() {
        return 0.0;
    }
    let share = 1.0 - base.as_secs_f64() / srtt.as_secs_f64();
    in_flight as f64 * share.max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_in_queues_is_what_the_round_trip_grew_by() {
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(queued(100, ms(50), ms(50)), 0.0);
        assert!((queued(100, ms(80), ms(40)) - 50.0).abs() < 1e-9);
        assert_eq!(queued(100, ms(40), ms(50)), 0.0, "never less than none");
        assert_eq!(queued(100, None, None), 0.0);
    }
}
