//! One run, described so that anyone can repeat it.
//!
//! Points are what recipes unfold into and what the testbed and the simulator
//! take. Every quantity carries its unit in its name; the JSON has the same names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One run of one series of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// The experiment's id, such as `cc14-fig2a`.
    pub experiment: String,
    /// The curve it belongs to, as the recipe names it.
    pub series: String,
    /// Where it stands in the sweep: `loss` → 0.01, `rtt_ms` → 25, …
    pub at: BTreeMap<String, f64>,
    /// Which repetition, from 0.
    pub repetition: u32,
    /// Names every random choice of the run but the paths' losses.
    pub seed: u64,
    /// Names what the paths lose: the same for all series at one place and
    /// repetition, so that they meet the same fortune.
    pub loss_seed: u64,
    /// Who runs it.
    pub venue: Venue,
    /// The paths between client and server; at least one.
    pub paths: Vec<Path>,
    /// What runs over them; at least one.
    pub flows: Vec<Flow>,
    /// The run is cut after this long and reported as censored.
    pub time_limit_s: f64,
    /// What the flows do over time is kept at this interval, if at all; in the
    /// simulator only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_s: Option<f64>,
}

/// Who runs a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Venue {
    /// Real programs in network namespaces, joined by the emulator.
    Testbed,
    /// The simulator, in virtual time.
    Simulator,
}

/// One path between the client and the server, both directions.
///
/// *Down* is the direction of the data, from the server to the client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Path {
    /// Rate of either direction, IP headers counted.
    pub rate_mbit: f64,
    /// Propagation delay, there and back.
    pub rtt_ms: f64,
    /// Queue before the rate limiter, in bandwidth-delay products of this path.
    pub queue_bdp: f64,
    /// Largest IP packet.
    pub mtu_bytes: u32,
    /// What the data direction loses.
    pub loss_down: Loss,
    /// What the direction of the ACKs loses.
    pub loss_up: Loss,
    /// Links in a row that it is made of, each with this rate, queue and loss and
    /// its part of the delay. Above 1 in the simulator only.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub hops: u32,
    /// Packets are marked instead of dropped while the queue of the data
    /// direction is longer than this share of its room. In the simulator only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ecn_queue_share: Option<f64>,
    /// Delay that comes and goes in the data direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<Noise>,
    /// Round trips that follow each other for ever, in place of `rtt_ms`, which
    /// still measures the queue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rtt_phases: Vec<RttPhase>,
    /// Rates of the data direction that follow each other for ever, in place of
    /// `rate_mbit`, which still measures the queue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rate_phases: Vec<RatePhase>,
    /// Shares lost in either direction that follow each other for ever, beside the
    /// losses above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loss_phases: Vec<LossPhase>,
    /// When nothing passes, in either direction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<Outage>,
    /// The data direction has a token bucket of so many bytes that drops, and no
    /// queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policer_burst_bytes: Option<u64>,
}

/// Delay beyond the path's own: a line from one random value to the next.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noise {
    /// The most.
    pub max_ms: f64,
    /// From one value to the next.
    pub interval_ms: f64,
}

/// A round trip for a while.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RttPhase {
    /// For how long.
    pub for_s: f64,
    /// There and back.
    pub rtt_ms: f64,
}

/// A rate for a while.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RatePhase {
    /// For how long.
    pub for_s: f64,
    /// IP headers counted.
    pub rate_mbit: f64,
}

/// A share lost for a while, each packet by itself.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossPhase {
    /// For how long.
    pub for_s: f64,
    /// Share lost, 0 to 1, before the rate limiter.
    pub loss: f64,
}

/// A time in which nothing passes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outage {
    /// Its start, from when the path began.
    pub from_s: f64,
    /// For how long.
    pub for_s: f64,
}

fn one() -> u32 {
    1
}

fn is_one(count: &u32) -> bool {
    *count == 1
}

/// A loss process and its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loss {
    /// Before the rate limiter (dummynet) or after it (at the receiver).
    pub position: Position,
    /// How packets are chosen.
    pub process: Process,
}

/// Where packets are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Position {
    /// Before queue and rate limiter: a lost packet uses no capacity.
    Before,
    /// After the rate limiter: it has used it.
    After,
}

/// How packets are chosen to be lost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Process {
    /// Nothing is lost.
    None,
    /// Each packet by itself.
    Bernoulli {
        /// Share lost, 0 to 1.
        share: f64,
    },
    /// In bursts.
    GilbertElliott {
        /// Mean share lost, 0 to 1.
        share: f64,
        /// Mean length of a burst.
        burst_packets: f64,
    },
    /// Every n-th packet.
    EveryNth {
        /// n.
        n: u64,
    },
    /// Frames whose time on the air overlaps a pulse of on/off interference.
    Interference {
        /// Length of one period.
        period_ms: f64,
        /// Mean length of a pulse.
        pulse_ms: f64,
        /// Rate at which a frame is on the air.
        phy_mbit: f64,
        /// Share lost between the pulses.
        noise_share: f64,
        /// Transmissions of the same frame after the first.
        retries: u32,
    },
}

/// One flow over the paths.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// What the recipe calls it: `measured`, `beside`, …
    pub name: String,
    /// The transport.
    pub system: System,
    /// What the application does.
    pub workload: Workload,
    /// When it starts.
    pub start_s: f64,
    /// Propagation delay of this flow beyond that of the paths, there and back:
    /// flows of different round-trip times through one queue. The testbed has
    /// none such.
    #[serde(default)]
    pub extra_rtt_ms: f64,
    /// So many paths of CTCP lead over each path, from addresses of their own: they
    /// share it.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub paths_each: u32,
}

/// A transport under test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum System {
    /// The kernel's TCP (testbed) or the simulator's SACK TCP.
    Tcp {
        /// `reno`, `cubic`, `bbr`, …
        congestion: String,
    },
    /// The kernel's Multipath TCP over all paths.
    Mptcp {
        /// Congestion control of its subflows.
        congestion: String,
    },
    /// CTCP between its two proxies.
    Ctcp {
        /// `--congestion`.
        congestion: String,
        /// `--redundancy`; empty: the default.
        redundancy: String,
        /// Further arguments for client and server.
        arguments: Vec<String>,
    },
    /// One of the simulator's transports with its settings, as a scenario of
    /// `ctcp sim` has them: `{ "tcp-nc": { "redundancy": 1.25 } }`.
    Simulated {
        /// Its name there, with a table.
        transport: toml::Table,
    },
    /// No transport: an equation of `ctcp model`, evaluated.
    Model {
        /// The model's name.
        name: String,
        /// How it is read; empty: its first reading.
        reading: String,
        /// Its parameters.
        parameters: BTreeMap<String, f64>,
        /// Which of its outputs is taken.
        output: String,
        /// As what.
        gives: Gives,
    },
    /// A situation of the controllers' suite, with whoever is scored in it.
    Suite {
        /// `auto`, `tcp:cubic`, …
        contestant: String,
        /// The situation.
        row: String,
        /// Measured for 20 s instead of 60.
        is_quick: bool,
    },
    /// Programs that the user names; `{server}`, `{port}`, `{target}` are replaced.
    External {
        /// Run beside the server.
        server_command: String,
        /// Run beside the client; offers SOCKS5 on `{port}`.
        client_command: String,
    },
}

/// What the output of an equation stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gives {
    /// Itself.
    #[default]
    Value,
    /// A goodput in Mbit/s.
    GoodputMbit,
    /// A window in packets.
    WindowPackets,
    /// A smoothed round trip in seconds.
    SrttS,
}

/// What the application of a flow does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Workload {
    /// As much as goes, for a time; goodput counts after the warm-up.
    Bulk {
        /// Not counted.
        warmup_s: f64,
        /// Counted, after the warm-up.
        duration_s: f64,
        /// A source of this rate, in portions of 5 ms, in place of one that has
        /// whatever can be sent. On the testbed only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        offered_mbit: Option<f64>,
    },
    /// Objects of one size, one after the other, timed each.
    Fetch {
        /// Size of each.
        bytes: u64,
        /// How many.
        count: u32,
        /// Who fetches.
        program: Program,
        /// Each over a transport connection of its own.
        cold: bool,
    },
    /// A video of constant rate, played as it comes.
    Video {
        /// Length of the film.
        duration_s: f64,
        /// Its rate.
        rate_mbit: f64,
        /// Played time that must be buffered before it starts, and again after a stall.
        buffer_s: f64,
        /// Who plays.
        program: Program,
    },
}

/// The program that carries a workload out on the testbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    /// The laboratory's own source and sink.
    Own,
    /// `curl` against an HTTP server.
    Curl,
    /// `wget` against an HTTP server.
    Wget,
    /// `rsync` against its daemon.
    Rsync,
    /// `curl` under `proxychains`.
    Proxychains,
    /// `iperf3`.
    Iperf3,
    /// `ffmpeg` reading at the film's natural rate.
    Ffmpeg,
}
