//! What is read off a record.

use serde::Deserialize;

use super::{Bound, over_time};
use crate::point::Workload;
use crate::record::{FlowOutcome, Inside, Record, Sample, Spread};

/// A full packet on the wire.
const PACKET_BYTES: f64 = 1500.0;

/// What it carries of the application, the measure of all our aims: 64 bytes go
/// for headers.
const PAYLOAD_BYTES: f64 = 1436.0;

/// What the kernel's TCP puts into it, with timestamps.
const SEGMENT_BYTES: f64 = 1448.0;

/// A quantity of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Application bytes in order, Mbit/s.
    GoodputMbit,
    /// Goodput over the rate of all paths.
    Efficiency,
    /// Goodput over what headers leave of that rate: 1436 of 1500 bytes. Where the
    /// rate changes, over its mean while the flow counts.
    PayloadShare,
    /// Seconds until an object is there, mean over the objects of a run.
    CompletionS,
    /// Share of the objects that arrived before the time limit.
    CompletedShare,
    /// Seconds from the request to the end of the film.
    PlayoutS,
    /// Playing time over the film's length.
    PlayoutRatio,
    /// Seconds that playing takes beyond the film's length.
    PlayoutExcessS,
    /// Times that playback stood still, per minute of film.
    StallsPerMinute,
    /// IP bytes sent in the data direction, before loss, per byte delivered.
    WirePerUseful,
    /// Share of CTCP's received packets that brought nothing.
    UselessShare,
    /// Share of the packets that the path lost or dropped in the data direction.
    LossShare,
    /// Mean time in the queue of the data direction, milliseconds.
    QueueingMs,
    /// Segments of 1448 bytes delivered in a round trip on the first path, whose
    /// length the path tells: both ways, the transmission of a packet, and the
    /// mean wait in its queues. What formulas for TCP's window speak of.
    WindowPackets,
    /// Packets that came through the path with the fewest over those through the
    /// one with the most, in the data direction.
    PathBalance,
    /// Smoothed round trip at the sender, mean, seconds.
    SrttS,
    /// Everything sent, headers and repairs included, Mbit/s.
    ThroughputMbit,
    /// Application bytes delivered per byte sent.
    GoodputShare,
    /// Mean of window or tokens over time, packets.
    Tokens,
    /// The least of the samples of it after the warm-up, packets.
    TokensLeast,
    /// The greatest of them.
    TokensMost,
    /// Share of the time spent waiting for retransmission timeouts.
    TimeoutShare,
    /// Share of the packets sent that did not come.
    LossSeen,
    /// The greatest share in any one interval of the samples.
    LossSeenMost,
    /// Standard deviation of the goodput of the samples after the warm-up over
    /// its mean.
    GoodputVariation,
    /// Standard deviation of the smoothed round trip of the samples after the
    /// warm-up over its mean.
    SrttVariation,
    /// Seconds of the middle one of the objects of a run.
    CompletionMedianS,
    /// Seconds of the object that 95 of 100 are faster than.
    CompletionP95S,
    /// Seconds from the first byte that the server can have sent to the last that
    /// arrives: completion less connecting and half a round trip, mean.
    TransferS,
    /// Jain's index of the flows' shares, mean over windows of 10 s from when all
    /// count.
    Jain,
    /// Round trips after a change of the path's rate until 0.9 of the payload of
    /// the new one arrives, the slowest of all changes; at a resolution of 0.1 s.
    SettleRtts,
    /// Packets that the queue dropped for each time that the path's rate fell, in
    /// bandwidth-delay products.
    OverflowBdp,
    /// The longest time without a byte in the counted time, milliseconds.
    GapMs,
    /// Milliseconds from when a source of steady rate had something to send until
    /// it was there in order: the middle one.
    DelayMedianMs,
    /// What 99 of 100 were faster than.
    DelayP99Ms,
    /// Share of the aims of a situation of the suite that are reached.
    AimsReached,
    /// What an equation gives.
    Value,
}

impl Metric {
    /// Its unit, as it stands after a number.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::GoodputMbit | Self::ThroughputMbit => "Mbit/s",
            Self::CompletionS
            | Self::CompletionMedianS
            | Self::CompletionP95S
            | Self::TransferS
            | Self::PlayoutS
            | Self::PlayoutExcessS
            | Self::SrttS => "s",
            Self::OverflowBdp => "BDP",
            Self::Tokens | Self::TokensLeast | Self::TokensMost => "packets",
            Self::QueueingMs | Self::GapMs | Self::DelayMedianMs | Self::DelayP99Ms => "ms",
            Self::WindowPackets => "packets",
            _ => "",
        }
    }

    /// What it is called in a table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::GoodputMbit => "goodput",
            Self::Efficiency => "efficiency",
            Self::PayloadShare => "share of the payload rate",
            Self::CompletionS => "completion time",
            Self::CompletedShare => "objects completed",
            Self::PlayoutS => "playing time",
            Self::PlayoutRatio => "playing time over the film's",
            Self::PlayoutExcessS => "playing time beyond the film's",
            Self::StallsPerMinute => "stalls per minute of film",
            Self::WirePerUseful => "wire bytes per useful byte",
            Self::UselessShare => "useless packets",
            Self::LossShare => "packets lost",
            Self::QueueingMs => "queueing delay",
            Self::WindowPackets => "packets per round trip",
            Self::PathBalance => "least over most used path",
            Self::SrttS => "smoothed round trip",
            Self::ThroughputMbit => "throughput",
            Self::GoodputShare => "goodput over throughput",
            Self::Tokens => "tokens",
            Self::TokensLeast => "least tokens",
            Self::TokensMost => "most tokens",
            Self::TimeoutShare => "time in timeout",
            Self::LossSeen => "loss seen",
            Self::LossSeenMost => "greatest loss seen",
            Self::GoodputVariation => "variation of the goodput",
            Self::SrttVariation => "variation of the round trip",
            Self::CompletionMedianS => "median completion time",
            Self::CompletionP95S => "95th percentile of the completion time",
            Self::TransferS => "time from the first byte sent",
            Self::Jain => "Jain's index",
            Self::SettleRtts => "round trips to the new rate",
            Self::OverflowBdp => "dropped at each fall of the rate",
            Self::GapMs => "longest time without a byte",
            Self::DelayMedianMs => "median delay",
            Self::DelayP99Ms => "99th percentile of the delay",
            Self::AimsReached => "aims reached",
            Self::Value => "value",
        }
    }

    /// Its value in a run; none if the run did not tell. `flow`: by its name, the
    /// first one if empty, the sum over all for `all`.
    pub fn of(self, record: &Record, flow: &str) -> Option<(f64, Bound)> {
        let exact = |value: f64| value.is_finite().then_some((value, Bound::Exact));
        match self {
            Self::LossShare => {
                let down = record.paths.iter().map(|path| path.down);
                let (lost, offered) = down.fold((0, 0), |(lost, offered), direction| {
                    let gone = direction.lost + direction.dropped_queue;
                    (lost + gone, offered + direction.offered)
                });
                (offered > 0).then(|| (lost as f64 / offered as f64, Bound::Exact))
            }
            Self::QueueingMs => {
                let first = record.paths.first()?;
                let mean_us = first.down.queueing_delay_mean_us;
                Some((mean_us as f64 / 1e3, Bound::Exact))
            }
            Self::PathBalance => {
                let delivered = record.paths.iter().map(|path| path.down.delivered);
                let (least, most) = (delivered.clone().min()?, delivered.max()?);
                (most > 0).then(|| (least as f64 / most as f64, Bound::Exact))
            }
            Self::Jain => exact(over_time::jain(record)?),
            Self::OverflowBdp => exact(over_time::overflow_bdp(record)?),
            _ if flow == "all" => {
                let each = (0..record.flows.len()).map(|index| self.of_flow(record, index));
                let each: Option<Vec<_>> = each.collect();
                let each = each.filter(|each| !each.is_empty())?;
                Some((each.iter().map(|one| one.0).sum(), Bound::Exact))
            }
            _ if flow.is_empty() => self.of_flow(record, 0),
            _ => {
                let index = record.flows.iter().position(|f| f.name == flow)?;
                self.of_flow(record, index)
            }
        }
    }

    fn of_flow(self, record: &Record, index: usize) -> Option<(f64, Bound)> {
        let flow = record.flows.get(index)?;
        let workload = &record.point.flows.get(index)?.workload;
        let exact = |value: f64| value.is_finite().then_some((value, Bound::Exact));
        match self {
            Self::GoodputMbit => exact(flow.goodput_mbit),
            Self::Efficiency => exact(flow.goodput_mbit / over_time::rate_mbit(record, index)),
            Self::PayloadShare => {
                let rate_mbit = over_time::rate_mbit(record, index);
                exact(flow.goodput_mbit / (rate_mbit * PAYLOAD_BYTES / PACKET_BYTES))
            }
            Self::CompletionS => completion(flow, record),
            Self::CompletionMedianS => percentile(flow, record, 0.5),
            Self::CompletionP95S => percentile(flow, record, 0.95),
            Self::TransferS => {
                let (mean, bound) = completion(flow, record)?;
                let connecting: f64 = flow.connect_s.iter().sum();
                let connecting = connecting / flow.connect_s.len().max(1) as f64;
                let half_rtt_s = record.point.paths.first()?.rtt_ms / 2e3;
                Some((mean - connecting - half_rtt_s, bound))
            }
            Self::SettleRtts => {
                let start_s = record.point.flows.get(index)?.start_s;
                exact(over_time::settle_rtts(record, flow, start_s)?)
            }
            Self::CompletedShare => match workload {
                Workload::Fetch { count, .. } => {
                    exact(flow.completion_s.len() as f64 / f64::from(*count))
                }
                _ => None,
            },
            Self::PlayoutS => playout(flow, record),
            Self::PlayoutRatio => {
                let film_s = film_s(workload)?;
                playout(flow, record).map(|(played, bound)| (played / film_s, bound))
            }
            Self::PlayoutExcessS => {
                let film_s = film_s(workload)?;
                playout(flow, record).map(|(played, bound)| (played - film_s, bound))
            }
            Self::StallsPerMinute => {
                let per_minute = f64::from(flow.stalls) * 60.0 / film_s(workload)?;
                Some((per_minute, cut(flow)))
            }
            Self::WirePerUseful => {
                let wire = flow.wire_bytes?;
                exact(wire as f64 / flow.delivered_bytes as f64)
            }
            Self::UselessShare => exact(flow.useless_share?),
            Self::WindowPackets => {
                let segments_per_s = flow.goodput_mbit * 1e6 / (8.0 * SEGMENT_BYTES);
                exact(segments_per_s * round_trip_s(record)?)
            }
            Self::SrttS => exact(flow.srtt_ms? / 1e3),
            Self::GapMs => exact(flow.gap_ms?),
            Self::DelayMedianMs => exact(flow.delay_median_ms?),
            Self::DelayP99Ms => exact(flow.delay_p99_ms?),
            Self::AimsReached => {
                let judged = || flow.scores.iter().filter(|score| score.is_judged());
                let reached = judged().filter(|score| score.is_reached()).count();
                exact(reached as f64 / judged().count() as f64)
            }
            Self::Value => exact(flow.value?),
            Self::LossShare
            | Self::QueueingMs
            | Self::PathBalance
            | Self::Jain
            | Self::OverflowBdp => None,
            _ => {
                let inside = flow.inside.as_ref()?;
                exact(self.of_inside(flow, inside, workload)?)
            }
        }
    }

    fn of_inside(self, flow: &FlowOutcome, inside: &Inside, workload: &Workload) -> Option<f64> {
        let spread = || {
            let warmup_s = match workload {
                Workload::Bulk { warmup_s, .. } => *warmup_s,
                _ => 0.0,
            };
            // Records of old hold only the samples.
            let computed = || Spread::of(&inside.samples, warmup_s);
            inside.spread.unwrap_or_else(computed)
        };
        match self {
            Self::ThroughputMbit => Some(inside.throughput_mbit),
            Self::GoodputShare => Some(flow.goodput_mbit / inside.throughput_mbit),
            Self::Tokens => Some(inside.window_packets),
            Self::TimeoutShare => Some(inside.timeout_share),
            Self::LossSeen => Some(inside.loss_seen),
            Self::TokensLeast => spread().window_least,
            Self::TokensMost => spread().window_most,
            Self::LossSeenMost => spread().loss_seen_most,
            Self::GoodputVariation => spread().goodput_variation,
            Self::SrttVariation => spread().srtt_variation,
            _ => None,
        }
    }

    /// Its value in a sample; none if samples do not have it.
    pub(crate) fn of_sample(self, sample: &Sample) -> Option<f64> {
        match self {
            Self::GoodputMbit => Some(sample.goodput_mbit),
            Self::Tokens => Some(sample.window_packets),
            Self::SrttS => sample.srtt_ms.map(|srtt| srtt / 1e3),
            Self::LossSeen => sample.loss_seen,
            _ => None,
        }
    }
}

/// Mean length of a full packet's round trip on the first path.
fn round_trip_s(record: &Record) -> Option<f64> {
    let (path, seen) = (record.point.paths.first()?, record.paths.first()?);
    let transmission_s = PACKET_BYTES * 8.0 / (path.rate_mbit * 1e6);
    let waiting_us = seen.down.queueing_delay_mean_us + seen.up.queueing_delay_mean_us;
    Some(path.rtt_ms / 1e3 + transmission_s + waiting_us as f64 / 1e6)
}

/// Cut at the limit, a time is at least what had passed.
fn cut(flow: &FlowOutcome) -> Bound {
    if flow.is_censored {
        Bound::AtLeast
    } else {
        Bound::Exact
    }
}

/// Mean over the objects. The one that was cut counts with the time it had had,
/// and makes the mean a bound from below.
fn completion(flow: &FlowOutcome, record: &Record) -> Option<(f64, Bound)> {
    let done: f64 = flow.completion_s.iter().sum();
    let done_count = flow.completion_s.len() as f64;
    if flow.is_censored {
        let spent = (record.point.time_limit_s - done).max(0.0);
        return Some(((done + spent) / (done_count + 1.0), Bound::AtLeast));
    }
    (done_count > 0.0).then(|| (done / done_count, Bound::Exact))
}

/// The object that this share of the others is faster than, those cut at the limit
/// as slow as the slowest.
fn percentile(flow: &FlowOutcome, record: &Record, share: f64) -> Option<(f64, Bound)> {
    let mut sorted = flow.completion_s.clone();
    if flow.is_censored {
        sorted.push(record.point.time_limit_s - sorted.iter().sum::<f64>());
    }
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    let value = *sorted.get(rank.saturating_sub(1))?;
    Some((value, cut(flow)))
}

/// Time of playing; at least the limit if it was cut.
fn playout(flow: &FlowOutcome, record: &Record) -> Option<(f64, Bound)> {
    match flow.playout_s {
        Some(played) => Some((played, cut(flow))),
        None if flow.is_censored => Some((record.point.time_limit_s, Bound::AtLeast)),
        None => None,
    }
}

fn film_s(workload: &Workload) -> Option<f64> {
    match workload {
        Workload::Video { duration_s, .. } => Some(*duration_s),
        _ => None,
    }
}
