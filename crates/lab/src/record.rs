//! What came out of one run: one JSON line.

use serde::{Deserialize, Serialize};

use crate::point::Point;

/// One run and its outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// What was run.
    pub point: Point,
    /// When it began, RFC 3339 in UTC.
    pub started_at: String,
    /// How long it took.
    pub elapsed_s: f64,
    /// What ran it.
    pub provenance: Provenance,
    /// How well the testbed kept time; none in the simulator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fidelity: Option<Fidelity>,
    /// One outcome per flow, in the point's order; empty if the run failed.
    pub flows: Vec<FlowOutcome>,
    /// What the paths saw, in the point's order.
    pub paths: Vec<PathOutcome>,
    /// Why there is no outcome, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What ran it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Provenance {
    /// Commit of the tree the program was built from, `-dirty` if it differed.
    pub commit: String,
    /// Version of `ctcp`.
    pub version: String,
    /// Kernel release.
    pub kernel: String,
    /// Processor model and the number of cores.
    pub machine: String,
    /// Versions of the other programs that took part.
    pub programs: Vec<String>,
}

/// How well the testbed kept time during the run.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Fidelity {
    /// Packets that left the emulator later than the model says: median.
    pub timing_error_p50_us: f64,
    /// The same, 99th percentile.
    pub timing_error_p99_us: f64,
    /// How late a thread of the programs' priority got a processor: 99th
    /// percentile.
    #[serde(default)]
    pub wakeup_delay_p99_us: f64,
    /// Share of the machine's processor time that was idle.
    pub idle_share: f64,
    /// Runs at the same time, this one included.
    pub parallel_runs: u32,
    /// The machine was too busy for the result to be trusted.
    pub is_busy: bool,
}

/// What one flow achieved.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FlowOutcome {
    /// The flow's name.
    pub name: String,
    /// Application bytes delivered in order in the counted time.
    pub delivered_bytes: u64,
    /// The counted time.
    pub counted_s: f64,
    /// `delivered_bytes · 8 / counted_s`.
    pub goodput_mbit: f64,
    /// Cut at the time limit.
    pub is_censored: bool,
    /// Time of each object fetched, those cut at the limit left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub completion_s: Vec<f64>,
    /// Of each of those, how long it took until it could be asked for: the
    /// connection, and the proxy's part in it. Only if the laboratory itself
    /// fetches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connect_s: Vec<f64>,
    /// Times that playback stood still, after it had begun.
    pub stalls: u32,
    /// From the request to the end of the film; playback only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub playout_s: Option<f64>,
    /// IP bytes that the flow's sender put on all paths, before any loss, in the
    /// counted time; where flows share a path they cannot be told apart.
    pub wire_bytes: Option<u64>,
    /// Received packets of CTCP that brought nothing new, as a share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub useless_share: Option<f64>,
    /// Bytes delivered in each interval from the start of the flow on; none from
    /// the simulator, which gives the same run again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series_bytes: Vec<u64>,
    /// Length of such an interval.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub series_interval_s: f64,
    /// Smoothed round-trip times as the sender saw them, if it tells.
    pub srtt_ms: Option<f64>,
    /// The longest time without a byte in the counted time; of a bulk transfer on
    /// the testbed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_ms: Option<f64>,
    /// From when a source of steady rate had a portion to send until it was there
    /// in order: the middle one of those that arrived in the counted time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_median_ms: Option<f64>,
    /// The portion that 99 of 100 were faster than.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_p99_ms: Option<f64>,
    /// What only the simulator tells of a flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<Inside>,
    /// What the suite of the controllers found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<Score>,
    /// What an equation gives, where one stands in place of a flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
}

/// A figure of the suite of the controllers, held against its aim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Which figure.
    pub figure: String,
    /// What it is.
    pub value: f64,
    /// It should be at least this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// Or at most this; neither: it is shown, not judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
}

impl Score {
    /// Whether there is an aim.
    pub fn is_judged(&self) -> bool {
        self.at_least.is_some() || self.at_most.is_some()
    }

    /// Whether the aim is reached; true without one.
    pub fn is_reached(&self) -> bool {
        self.at_least.is_none_or(|aim| self.value >= aim)
            && self.at_most.is_none_or(|aim| self.value <= aim)
    }
}

/// What only the simulator tells of a flow, over the counted time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Inside {
    /// Everything sent towards the client, headers and repairs included.
    pub throughput_mbit: f64,
    /// Mean of the window or tokens over time.
    pub window_packets: f64,
    /// Share of the time that was spent silent before retransmission timeouts.
    pub timeout_share: f64,
    /// Share of the packets sent that did not come, as the receiver saw it.
    pub loss_seen: f64,
    /// What its samples come to, if the point asks for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
    /// The samples themselves, of the first repetition: the one that is drawn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Sample>,
}

/// How far the samples of a flow lie apart, over the counted time; none of what
/// no sample has.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Spread {
    /// The smallest window.
    pub window_least: Option<f64>,
    /// The greatest.
    pub window_most: Option<f64>,
    /// The greatest share lost in one interval.
    pub loss_seen_most: Option<f64>,
    /// Standard deviation of the goodput over its mean.
    pub goodput_variation: Option<f64>,
    /// The same of the smoothed round trip.
    pub srtt_variation: Option<f64>,
}

impl Spread {
    /// Of the samples after `warmup_s` seconds of the run.
    pub fn of(samples: &[Sample], warmup_s: f64) -> Self {
        let counted = || samples.iter().filter(move |one| one.time_s > warmup_s);
        Self {
            window_least: counted().map(|one| one.window_packets).reduce(f64::min),
            window_most: counted().map(|one| one.window_packets).reduce(f64::max),
            loss_seen_most: counted().filter_map(|one| one.loss_seen).reduce(f64::max),
            goodput_variation: variation(counted().map(|one| one.goodput_mbit)),
            srtt_variation: variation(counted().filter_map(|one| one.srtt_ms)),
        }
    }
}

/// Standard deviation over mean; none of nothing.
fn variation(values: impl Iterator<Item = f64> + Clone) -> Option<f64> {
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / count;
    let squares: f64 = values.map(|value| (value - mean).powi(2)).sum();
    let variation = (squares / count).sqrt() / mean;
    variation.is_finite().then_some(variation)
}

/// Where nothing is to be written.
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// A flow within one interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// End of the interval, from the start of the run.
    pub time_s: f64,
    /// Delivered in it.
    pub goodput_mbit: f64,
    /// Window or tokens at its end.
    pub window_packets: f64,
    /// Smoothed round trip at its end, if there is one yet.
    pub srtt_ms: Option<f64>,
    /// Share of the packets due in it that did not come; none if none was due.
    pub loss_seen: Option<f64>,
}

/// What one path saw over the whole run, down and up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PathOutcome {
    /// The data direction.
    pub down: DirectionOutcome,
    /// The other one.
    pub up: DirectionOutcome,
}

/// Counters of one direction, in packets unless named otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DirectionOutcome {
    /// Put in by the senders.
    pub offered: u64,
    /// The same in bytes.
    pub offered_bytes: u64,
    /// Lost at random, on either side of the limiter.
    pub lost: u64,
    /// Dropped by the full queue.
    pub dropped_queue: u64,
    /// Delivered.
    pub delivered: u64,
    /// Mean time in the queue.
    pub queueing_delay_mean_us: u64,
}
