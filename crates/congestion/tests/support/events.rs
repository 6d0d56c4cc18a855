//! Events with plain values, to be changed where a test cares.

use ctcp_congestion::{AckEvent, LossEstimate, LossEvent, RttSummary, SilenceEvent};
use ctcp_units::{Duration, Instant, PacketNumber, millis};

pub(crate) fn rtt(rtt_min: Duration, latest: Duration) -> RttSummary {
    RttSummary {
        latest,
        srtt: latest,
        rtt_min,
        rtt_min_windowed: rtt_min,
    }
}

/// An ACK of packet `number`, the newest sent, over 100 ms.
pub(crate) fn ack(number: u64) -> AckEvent {
    AckEvent {
        now: Instant::EPOCH,
        newest_acked: PacketNumber(number),
        sent_at: Instant::EPOCH,
        largest_sent: PacketNumber(number),
        acked_packets: 1,
        in_flight: 0,
        app_limited: false,
        in_recovery: false,
        rtt_sample: None,
        rtt: rtt(millis(100), millis(100)),
        delivered_packets: number + 1,
        delivery: None,
        loss: LossEstimate::default(),
    }
}

/// The loss of packet `number`, the newest sent.
pub(crate) fn loss(number: u64, rtt: RttSummary) -> LossEvent {
    LossEvent {
        now: Instant::EPOCH,
        lost_packets: 1,
        first_lost: PacketNumber(number),
        last_lost: PacketNumber(number),
        last_lost_sent_at: Instant::EPOCH,
        largest_sent: PacketNumber(number),
        in_flight: 0,
        rtt,
        loss: LossEstimate::default(),
    }
}

/// Silence after packet `number`, the newest sent.
pub(crate) fn silence(number: u64) -> SilenceEvent {
    SilenceEvent {
        now: Instant::EPOCH,
        largest_sent: PacketNumber(number),
        in_flight: 1,
    }
}
