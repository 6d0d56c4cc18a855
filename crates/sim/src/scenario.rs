//! What is simulated: a network, the flows over it, and how long.

use ctcp_link::ConfigError;
use ctcp_proto::PATHS_MAX;
use ctcp_units::{Duration, seconds};
use thiserror::Error;

use crate::agent::ctcp::CtcpConfig;
use crate::agent::gbn::GoBackNConfig;
use crate::agent::nc::{NcConfig, WINDOW_MAX};
use crate::agent::tcp::{Coding, Recovery, TcpConfig};
use crate::agent::udp::{UdpConfig, UdpPattern};
use crate::app::Application;
use crate::engine::TraceEvent;
use crate::report::Report;
use crate::topology::{FlowPath, Network};

/// Packet events after which a run is cut unless told otherwise: an hour or so
/// of computing.
pub const EVENTS_MAX: u64 = 10_000_000_000;
/// Samples that one run may keep.
const SAMPLES_MAX: u128 = 1_000_000;

/// A transport between the ends of a flow.
#[derive(Debug, Clone)]
pub enum Transport {
    /// TCP with SACK and any controller.
    Tcp(TcpConfig),
    /// The real transport.
    Ctcp(CtcpConfig),
    /// The go-back-N TCP that [MODEL] reckons with.
    GoBackN(GoBackNConfig),
    /// TCP/NC: combinations under TCP Vegas.
    Nc(NcConfig),
    /// Datagrams without feedback; the flow's application does not matter.
    Udp(UdpConfig),
}

/// One flow.
#[derive(Debug, Clone)]
pub struct Flow {
    /// Unique among the flows; its seed and its results go by it.
    pub name: String,
    /// What carries it.
    pub transport: Transport,
    /// What it is for.
    pub application: Application,
    /// When its application begins.
    pub start: Duration,
    /// Its paths; none: those of the network.
    pub paths: Vec<FlowPath>,
}

impl Flow {
    /// A bulk flow from the start over the network's paths.
    pub fn new(name: &str, transport: Transport) -> Self {
        Self {
            name: name.to_owned(),
            transport,
            application: Application::Bulk,
            start: Duration::ZERO,
            paths: Vec::new(),
        }
    }

    /// The same for another application.
    #[must_use]
    pub fn application(self, application: Application) -> Self {
        Self {
            application,
            ..self
        }
    }

    /// The same, beginning later.
    #[must_use]
    pub fn start(self, start: Duration) -> Self {
        Self { start, ..self }
    }

    /// The same over a path of its own.
    #[must_use]
    pub fn path(mut self, path: FlowPath) -> Self {
        self.paths.push(path);
        self
    }
}

/// Everything that decides a run.
///
/// ```
/// use ctcp_link::{LinkConfig, LossModel};
/// use ctcp_sim::{CtcpConfig, Flow, Network, Scenario, Transport};
/// use ctcp_units::{LossRate, Rate, micros, millis, seconds};
///
/// let link = || LinkConfig::new(Rate::mbit(25), micros(12_500)).queue_bdp(1.0, millis(25));
/// let lossy = link().loss(LossModel::Bernoulli(LossRate::clamped(0.05)));
/// let report = Scenario::new("five percent", Network::dumbbell(lossy, link()))
///     .seed(7)
///     .flow(Flow::new("ctcp", Transport::Ctcp(CtcpConfig::default())))
///     .warmup(seconds(2))
///     .time_limit(seconds(7))
///     .run()?;
/// assert!(report.flows[0].goodput_mbit() > 20.0);
/// # Ok::<(), ctcp_sim::ScenarioError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Scenario {
    /// What it shows.
    pub name: String,
    /// Names every random choice.
    pub seed: u64,
    /// Links and usual paths.
    pub network: Network,
    /// The flows; at least one.
    pub flows: Vec<Flow>,
    /// Not counted.
    pub warmup: Duration,
    /// The run is cut here.
    pub time_limit: Duration,
    /// Packet events after which the run is cut.
    pub events_max: u64,
    /// The run ends when every flow that ends has ended.
    pub stops_when_done: bool,
    /// Interval of the samples; `None`: none are kept.
    pub sample_interval: Option<Duration>,
}

impl Scenario {
    /// A run of 60 s over `network`, without flows yet.
    pub fn new(name: &str, network: Network) -> Self {
        Self {
            name: name.to_owned(),
            seed: 1,
            network,
            flows: Vec::new(),
            warmup: Duration::ZERO,
            time_limit: seconds(60),
            events_max: EVENTS_MAX,
            stops_when_done: true,
            sample_interval: None,
        }
    }

    /// Sets the seed.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Adds a flow.
    #[must_use]
    pub fn flow(mut self, flow: Flow) -> Self {
        self.flows.push(flow);
        self
    }

    /// Sets the warm-up.
    #[must_use]
    pub fn warmup(self, warmup: Duration) -> Self {
        Self { warmup, ..self }
    }

    /// Sets the limit of simulated time.
    #[must_use]
    pub fn time_limit(self, time_limit: Duration) -> Self {
        Self { time_limit, ..self }
    }

    /// Sets the limit on packet events.
    #[must_use]
    pub fn events_max(self, events_max: u64) -> Self {
        Self { events_max, ..self }
    }

    /// Keeps samples at this interval.
    #[must_use]
    pub fn samples(self, interval: Duration) -> Self {
        Self {
            sample_interval: Some(interval),
            ..self
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// [`ScenarioError`]: something in it is impossible.
    pub fn run(&self) -> Result<Report, ScenarioError> {
        crate::simulate::run(self, None)
    }

    /// Runs it and tells `tracer` of every packet.
    ///
    /// # Errors
    /// [`ScenarioError`]: something in it is impossible.
    pub fn run_traced(
        &self,
        tracer: impl FnMut(&TraceEvent) + Send + 'static,
    ) -> Result<Report, ScenarioError> {
        crate::simulate::run(self, Some(Box::new(tracer)))
    }

    /// Whether it can be run.
    ///
    /// # Errors
    /// The first thing that is impossible.
    pub fn check(&self) -> Result<(), ScenarioError> {
        if self.flows.is_empty() {
            return Err(ScenarioError::NoFlows);
        }
        if self.time_limit.is_zero() || self.warmup >= self.time_limit {
            return Err(ScenarioError::Times {
                warmup: self.warmup,
                time_limit: self.time_limit,
            });
        }
        if let Some(interval) = self.sample_interval
            && (interval.is_zero()
                || self.time_limit.as_nanos() / interval.as_nanos() > SAMPLES_MAX)
        {
            return Err(ScenarioError::Samples { interval });
        }
        for (index, flow) in self.flows.iter().enumerate() {
            if self.flows[..index].iter().any(|one| one.name == flow.name) {
                return Err(ScenarioError::NameTaken(flow.name.clone()));
            }
            self.check_flow(flow)?;
        }
        Ok(())
    }

    fn check_flow(&self, flow: &Flow) -> Result<(), ScenarioError> {
        let refuse = |message: &str| {
            Err(ScenarioError::Flow {
                flow: flow.name.clone(),
                message: message.to_owned(),
            })
        };
        let paths = match flow.paths.is_empty() {
            true => &self.network.paths,
            false => &flow.paths,
        };
        if paths.is_empty() {
            return refuse("has no path: give it one, or the network");
        }
        let count = self.network.links.len();
        for path in paths {
            if path.down.is_empty() || path.up.is_empty() {
                return refuse("has a path without links in one direction");
            }
            if path.down.iter().chain(&path.up).any(|&link| link >= count) {
                return refuse("has a path over a link that does not exist");
            }
        }
        if matches!(flow.transport, Transport::Ctcp(_)) && paths.len() > PATHS_MAX {
            return refuse(&format!(
                "has more than {PATHS_MAX} paths, which a connection has at most"
            ));
        }
        check_transport(flow)?;
        match &flow.application {
            Application::File { bytes: 0 } => refuse("a file of 0 bytes has nothing to send"),
            Application::Web { sizes, .. } if sizes.is_empty() || sizes.contains(&0) => {
                refuse("objects need sizes above 0")
            }
            Application::Web { count: Some(0), .. } => refuse("0 objects are none"),
            Application::Video { rate, length, .. } if rate.is_zero() || length.is_zero() => {
                refuse("a video needs a rate and a length above 0")
            }
            _ => Ok(()),
        }
    }
}

/// Refuses settings that contradict one another.
fn check_transport(flow: &Flow) -> Result<(), ScenarioError> {
    let message = match &flow.transport {
        Transport::Tcp(tcp) if tcp.payload_bytes == 0 => "segments of 0 bytes carry nothing",
        Transport::Tcp(tcp) if tcp.coding != Coding::None && tcp.recovery != Recovery::Sack => {
            "erasure blocks need recovery by SACK"
        }
        Transport::Tcp(TcpConfig {
            coding: Coding::Fixed { n, k },
            ..
        }) if *k == 0 || k > n || *n > 4096 => "a block (n, k) needs 1 ≤ k ≤ n ≤ 4096",
        Transport::Tcp(TcpConfig {
            receive_window: Some(0),
            ..
        }) => "a receive window of 0 segments lets nothing through",
        Transport::Tcp(TcpConfig {
            constant_rate: Some(rate),
            ..
        }) if rate.rate.is_zero() => "a constant rate must be above 0",
        Transport::GoBackN(gbn)
            if gbn.packet_bytes == 0
                || gbn.window_max.is_nan()
                || gbn.window_max < 1.0
                || gbn.timeout.is_zero() =>
        {
            "packets, window and timeout must be above 0"
        }
        Transport::Nc(nc) if nc.packet_bytes == 0 || !(1..=WINDOW_MAX).contains(&nc.window_max) => {
            "TCP/NC needs packets above 0 bytes and a window of 1 to 120 packets"
        }
        Transport::Nc(nc)
            if !(1.0..=16.0).contains(&nc.redundancy)
                || !(1.0..=16.0).contains(&nc.relay_redundancy.unwrap_or(1.0)) =>
        {
            "a redundancy R must lie between 1 and 16"
        }
        Transport::GoBackN(_) | Transport::Nc(_)
            if matches!(flow.application, Application::Web { .. }) =>
        {
            "this transport carries one request: choose bulk, file or video"
        }
        Transport::Udp(udp) if udp.rate.is_zero() || udp.packet_bytes == 0 => {
            "datagrams need a rate and a length above 0"
        }
        Transport::Udp(UdpConfig {
            pattern: UdpPattern::OnOff { on, .. },
            ..
        }) if on.is_zero() => "a source that is never on sends nothing",
        _ => return Ok(()),
    };
    Err(ScenarioError::Flow {
        flow: flow.name.clone(),
        message: message.to_owned(),
    })
}

/// Runs scenarios over all cores; results come in the order of the scenarios.
pub fn run_all(scenarios: &[Scenario]) -> Vec<Result<Report, ScenarioError>> {
    use rayon::prelude::*;
    scenarios.par_iter().map(Scenario::run).collect()
}

/// Why a scenario cannot be run.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ScenarioError {
    /// Nothing is sent.
    #[error("there are no flows: add at least one")]
    NoFlows,
    /// Nothing would be measured.
    #[error("a time limit of {time_limit:?} leaves nothing after a warm-up of {warmup:?}")]
    Times {
        /// The warm-up.
        warmup: Duration,
        /// The limit.
        time_limit: Duration,
    },
    /// Too many samples, or no interval.
    #[error(
        "a sample every {interval:?} is not possible: the interval must be above 0 and \
         give at most a million samples"
    )]
    Samples {
        /// What was given.
        interval: Duration,
    },
    /// Two flows of the same name.
    #[error("two flows are called `{0}`: results and seeds go by the name, give each its own")]
    NameTaken(String),
    /// A link is impossible.
    #[error("link `{link}`: {error}")]
    Link {
        /// Its name.
        link: String,
        /// Why.
        error: ConfigError,
    },
    /// A flow is impossible.
    #[error("flow `{flow}`: {message}")]
    Flow {
        /// Its name.
        flow: String,
        /// Why, and what is possible.
        message: String,
    },
}
