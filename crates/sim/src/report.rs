//! What came of a run.

use ctcp_link::LinkCounters;
use ctcp_units::{Duration, Instant};

use crate::engine::Census;

pub use crate::app::{Completion, VideoReport};

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Every flow that ends has ended.
    AllDone,
    /// At the limit of simulated time. Flows that were to end and did not are
    /// not done: their results are what they had come to.
    TimeLimit,
    /// At the limit on packet events.
    EventLimit,
}

impl Ended {
    /// In words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AllDone => "all done",
            Self::TimeLimit => "time limit",
            Self::EventLimit => "event limit",
        }
    }
}

/// Results of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The scenario's name.
    pub name: String,
    /// Its seed.
    pub seed: u64,
    /// Why it ended.
    pub ended: Ended,
    /// Simulated time.
    pub simulated: Duration,
    /// Packets offered to links and packets that came to the ends of links.
    pub packet_events: u64,
    /// Where all packets are at the end.
    pub census: Census,
    /// The flows, in the scenario's order.
    pub flows: Vec<FlowReport>,
    /// The links, in the network's order.
    pub links: Vec<LinkReport>,
}

impl Report {
    /// The flow of that name.
    pub fn flow(&self, name: &str) -> Option<&FlowReport> {
        self.flows.iter().find(|flow| flow.name == name)
    }

    /// The link of that name.
    pub fn link(&self, name: &str) -> Option<&LinkReport> {
        self.links.iter().find(|link| link.name == name)
    }

    /// What a reader must know before trusting the numbers: flows that were cut.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.ended == Ended::EventLimit {
            notes.push(format!(
                "cut after {} packet events at {:.3} s: raise events_max to see the rest",
                self.packet_events,
                self.simulated.as_secs_f64()
            ));
        }
        for flow in &self.flows {
            if flow.is_finite && !flow.is_done {
                notes.push(format!(
                    "flow `{}` had not ended at {:.3} s and counts as cut: {} bytes had come",
                    flow.name,
                    self.simulated.as_secs_f64(),
                    flow.bytes_in_order
                ));
            } else if flow.bytes_in_order == 0 {
                notes.push(format!(
                    "flow `{}` had delivered nothing when the run ended at {:.3} s: a rate of 0, \
                     a loss of all or a start too late lets nothing through",
                    flow.name,
                    self.simulated.as_secs_f64()
                ));
            }
        }
        notes
    }
}

/// Results of one flow. Counts are those after the warm-up.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowReport {
    /// The flow's name.
    pub name: String,
    /// Time that rates refer to: from the end of the warm-up, or the flow's
    /// start, to its last byte, or the end of the run.
    pub measured: Duration,
    /// Application bytes delivered in order, bits per second.
    pub goodput_bits: f64,
    /// Everything sent towards the client, headers included, bits per second.
    pub throughput_bits: f64,
    /// Application bytes delivered in order.
    pub bytes_in_order: u64,
    /// Bytes on the wire towards the client, headers included.
    pub bytes_sent: u64,
    /// Bytes on the wire towards the server.
    pub bytes_returned: u64,
    /// Packets towards the client.
    pub packets_sent: u64,
    /// Of these, received.
    pub packets_received: u64,
    /// Packets with data, first sent, sent again or coded.
    pub data_packets: u64,
    /// Sent again.
    pub retransmissions: u64,
    /// Linear combinations or parity.
    pub coded_packets: u64,
    /// Received without bringing anything new.
    pub useless_packets: u64,
    /// Source packets that decoding brought.
    pub recovered_packets: u64,
    /// Retransmission timeouts; of CTCP probe timeouts.
    pub timeouts: u64,
    /// Time spent silent before them.
    pub time_in_timeout: Duration,
    /// Reductions of the window.
    pub backoffs: u64,
    /// Share of the packets towards the client that did not come.
    pub loss_seen: f64,
    /// Packets that came marked Congestion Experienced.
    pub marked_packets: u64,
    /// Mean of the smoothed round trip; `None` without a sample.
    pub srtt_mean: Option<Duration>,
    /// Mean of tokens or window over time, packets.
    pub tokens_mean: f64,
    /// Whether its application ends.
    pub is_finite: bool,
    /// Whether it has ended.
    pub is_done: bool,
    /// Requests answered in full, over the whole run.
    pub completion_count: u64,
    /// The first of these, one by one.
    pub completions: Vec<Completion>,
    /// What the player saw, of a video.
    pub video: Option<VideoReport>,
    /// The flow over time, if samples were asked for.
    pub samples: Vec<FlowSample>,
}

impl FlowReport {
    /// Goodput in Mbit/s.
    pub fn goodput_mbit(&self) -> f64 {
        self.goodput_bits / 1e6
    }

    /// Mean time of the requests answered, in seconds; `None` without any.
    pub fn completion_mean(&self) -> Option<f64> {
        let sum: f64 = self
            .completions
            .iter()
            .map(|one| one.span().as_secs_f64())
            .sum();
        (!self.completions.is_empty()).then(|| sum / self.completions.len() as f64)
    }
}

/// A flow within one sampling interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlowSample {
    /// End of the interval.
    pub at: Instant,
    /// Tokens or window then, packets.
    pub tokens: f64,
    /// Packets in flight then.
    pub in_flight: u64,
    /// Smoothed round trip then.
    pub srtt: Option<Duration>,
    /// Goodput within the interval, bits per second.
    pub goodput_bits: f64,
    /// Share of the packets due at the client within the interval that did not
    /// come; `None` if none was due.
    pub loss: Option<f64>,
}

/// A link's queue at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkSample {
    /// When.
    pub at: Instant,
    /// Packets in the queue, the one in transmission included.
    pub queue_packets: u64,
    /// Their bytes.
    pub queue_bytes: u64,
}

/// Results of one link, over the whole run.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkReport {
    /// Its name.
    pub name: String,
    /// What it has seen.
    pub counters: LinkCounters,
    /// Its queue over time, if samples were asked for.
    pub samples: Vec<LinkSample>,
}
