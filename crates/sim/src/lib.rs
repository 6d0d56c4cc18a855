//! Discrete-event simulator: the transport that runs on the wire, next to the TCP
//! flavours it is compared with, in virtual time.
//!
//! A [`Scenario`] is a [`Network`] of links, the [`Flow`]s over it, a seed and a
//! time limit; [`Scenario::run`] gives a [`Report`]. The same scenario gives the
//! same report and the same trace, byte for byte. Names make the seeds of flows
//! and links, so that one more flow does not change what another meets.
//!
//! Nothing here sleeps or reads a clock: a run costs what its packets cost.
//! Memory does not grow with simulated time, except by the samples asked for and
//! the first ten thousand completions of a web client.

mod agent;
mod app;
mod engine;
pub mod file;
pub mod output;
mod report;
mod scenario;
mod simulate;
mod stats;
mod topology;

pub use agent::ctcp::CtcpConfig;
pub use agent::gbn::GoBackNConfig;
pub use agent::nc::NcConfig;
pub use agent::tcp::{Coding, ConstantRate, Recovery, TcpConfig};
pub use agent::udp::{UdpConfig, UdpPattern};
pub use app::{Application, Think};
pub use engine::{Census, TraceEvent, TraceKind};
pub use report::{
    Completion, Ended, FlowReport, FlowSample, LinkReport, LinkSample, Report, VideoReport,
};
pub use scenario::{EVENTS_MAX, Flow, Scenario, ScenarioError, Transport, run_all};
pub use stats::Estimate;
pub use topology::{FlowPath, NamedLink, Network};
