//! What a controller hears. Every struct carries plain values of one path.
//!
//! The path keeps this order for what one incoming datagram reveals: it brings
//! its own estimators up to date, then reports [`SpuriousLossEvent`],
//! [`LossEvent`], [`EcnEvent`] and last [`AckEvent`]: so the growth that the
//! acknowledged packets earn is judged by the state the losses left behind.
//!
//! Numbers count *transmissions* and are never used twice. A sender that repeats
//! packets, as TCP does, gives each transmission a number of its own: then
//! "acknowledged after the silence" and "sent after the backoff" mean the same
//! for both. It reports one [`LossEvent`] for each recovery it enters, and a
//! retransmission timeout as [`SilenceEvent`].

use ctcp_units::{Duration, Instant, LossRate, PacketNumber};

/// Round-trip times of one path, as they stand when the event happens.
///
/// Before the first sample all four are the path's initial guess, so that
/// `rtt_min / latest` is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RttSummary {
    /// The last measured sample.
    pub latest: Duration,
    /// Smoothed mean.
    pub srtt: Duration,
    /// Smallest sample since the path began or its address last changed.
    pub rtt_min: Duration,
    /// Smallest sample of the last seconds. Whoever uses it as base RTT must
    /// drain the queue now and then, or a standing queue becomes the base.
    pub rtt_min_windowed: Duration,
}

/// The path's loss estimates, [MP12] Algorithm 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LossEstimate {
    /// Short-term share of packets lost.
    pub p: LossRate,
    /// Long-term share of packets lost.
    pub p_long: LossRate,
    /// Smoothed absolute difference of the two, in `[0, 1]`: a mean deviation,
    /// not a standard deviation (E-MP12-24).
    pub p_dev: f64,
}

/// How fast the path delivered around one acknowledged packet, for controllers
/// that model the path.
///
/// The interval is the longer of the send and the acknowledgement interval, so
/// that compressed ACKs do not pretend a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliverySample {
    /// Packets delivered within `interval`.
    pub delivered_packets: u64,
    /// Length of the interval; not zero.
    pub interval: Duration,
    /// Total delivered on the path when the sample's packet was sent: a round
    /// ends when this reaches the total at the round's start.
    pub delivered_packets_before: u64,
    /// Packets declared lost within `interval`.
    pub lost_packets: u64,
    /// Packets in flight when the sample's packet was sent, itself included.
    pub in_flight_at_send: u64,
    /// The application, not the tokens, was the limit within the interval: the
    /// sample is a lower bound.
    pub app_limited: bool,
}

impl DeliverySample {
    /// Packets per second.
    pub fn packets_per_second(&self) -> f64 {
        self.delivered_packets as f64 / self.interval.as_secs_f64().max(1e-9)
    }
}

/// One packet that counts as in flight was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentEvent {
    /// When.
    pub now: Instant,
    /// Its number on this path.
    pub number: PacketNumber,
    /// Packets in flight with it.
    pub in_flight: u64,
    /// The application, not the tokens, is the limit.
    pub app_limited: bool,
}

/// Packets were newly acknowledged by one ACK.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AckEvent {
    /// When the ACK arrived.
    pub now: Instant,
    /// The newest packet that this ACK newly acknowledges.
    pub newest_acked: PacketNumber,
    /// When that packet was sent.
    pub sent_at: Instant,
    /// The newest packet sent on the path so far; a round that starts now ends
    /// when a later one is acknowledged.
    pub largest_sent: PacketNumber,
    /// Packets this ACK newly acknowledges; at least 1.
    pub acked_packets: u64,
    /// Packets in flight after this ACK.
    pub in_flight: u64,
    /// The application, not the tokens, was the limit when the newest of them
    /// was sent.
    pub app_limited: bool,
    /// The sender is repairing the losses of an earlier event and its window
    /// stands still meanwhile (RFC 6675 §5). TCP agents say so; the token
    /// transport never repeats a packet and has no such phase: always false.
    pub in_recovery: bool,
    /// The sample this ACK gave; only an ACK that came back on the packet's own
    /// path gives one.
    pub rtt_sample: Option<Duration>,
    /// Round-trip times, this sample included.
    pub rtt: RttSummary,
    /// Packets delivered on the path in total, these included.
    pub delivered_packets: u64,
    /// Delivery rate around the newest packet, if it can be told.
    pub delivery: Option<DeliverySample>,
    /// Loss estimates, this ACK included.
    pub loss: LossEstimate,
}

/// Packets were declared lost. Packets that coding repaired are losses too:
/// coding must not hide congestion (RFC 9265).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LossEvent {
    /// When.
    pub now: Instant,
    /// Packets newly declared lost, less those a receiver's count disproved; at
    /// least 1.
    pub lost_packets: u64,
    /// The oldest of them.
    pub first_lost: PacketNumber,
    /// The newest of them.
    pub last_lost: PacketNumber,
    /// When the newest of them was sent.
    pub last_lost_sent_at: Instant,
    /// The newest packet sent on the path so far.
    pub largest_sent: PacketNumber,
    /// Packets in flight without the lost ones.
    pub in_flight: u64,
    /// Round-trip times, the sample of the revealing ACK included.
    pub rtt: RttSummary,
    /// Loss estimates, these losses included.
    pub loss: LossEstimate,
}

/// The receiver reports packets that a router marked Congestion Experienced.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EcnEvent {
    /// When the report arrived.
    pub now: Instant,
    /// Packets newly reported as marked; at least 1.
    pub ce_packets: u64,
    /// The newest packet the reporting ACK newly acknowledges. Which packet was
    /// marked is not known.
    pub newest_acked: PacketNumber,
    /// When that packet was sent.
    pub sent_at: Instant,
    /// The newest packet sent on the path so far.
    pub largest_sent: PacketNumber,
    /// Packets in flight.
    pub in_flight: u64,
    /// Round-trip times.
    pub rtt: RttSummary,
}

/// Persistent silence: packets are in flight and nothing came back over several
/// probe timeouts. It is what the papers, and TCP, call a timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SilenceEvent {
    /// When it was noticed.
    pub now: Instant,
    /// The newest packet sent on the path so far. ACKs of packets up to this
    /// one no longer earn growth ([MP12] §III-C).
    pub largest_sent: PacketNumber,
    /// Packets that were in flight.
    pub in_flight: u64,
}

/// One packet declared lost was acknowledged after all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpuriousLossEvent {
    /// When its acknowledgement arrived.
    pub now: Instant,
    /// The packet.
    pub number: PacketNumber,
}

/// How the path stands to others of its connection behind the same bottleneck.
/// Repeated while it lasts.
///
/// What they may take together is what one flow there would: a controller that
/// imitates such a flow takes `share` of its window, one that grows by packets a
/// round trip grows by `growth` of its own step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CouplingEvent {
    /// When.
    pub now: Instant,
    /// This path's part of one flow, in `(0, 1]`: one by the count of paths there;
    /// 1 for a path that shares its bottleneck with no other.
    pub share: f64,
    /// Factor of the growth, in `(0, 1]`: [RFC6356]'s min(α·w/w_total, 1).
    pub growth: f64,
}

/// Another path behind the same bottleneck lost packets: one flow in their place
/// would have heard of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartnerLossEvent {
    /// When.
    pub now: Instant,
    /// Packets that the other path lost; at least 1.
    pub lost_packets: u64,
    /// The newest packet sent on this path so far.
    pub largest_sent: PacketNumber,
}

/// The path now leads over a new, validated address; its packet numbers go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathChangeEvent {
    /// When the new address was validated.
    pub now: Instant,
    /// The newest packet sent to the old address: what happens to packets up
    /// to it says nothing about the new one (RFC 9000 §9.4).
    pub largest_sent: PacketNumber,
}
