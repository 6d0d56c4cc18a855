//! Token controllers: how many packets a path may have in flight.
//!
//! A *token* pays for one packet, coded or not ([CC14] §II). A [`Controller`]
//! hears what happened to the packets of one path, as [event] structs
//! that carry values, and answers with a number of tokens and a pacing rate. It
//! knows neither what a packet carries nor how long it is; paths are not
//! coupled. There is no clock, randomness or allocation in here: time comes
//! with the events, and an event costs a few floating-point operations.
//!
//! Most controllers are an [`Increase`] rule and a [`Backoff`] rule joined by
//! [`Aimd`]: `cc14` is (linear, RTTmin/RTT), `reno` is (linear, half). A
//! controller that does not fit that mould implements [`Controller`] itself.
//! [`controller_by_name`] makes one from the name a user types.
//!
//! Units: packets (tokens, real-valued), packets per second, [`Duration`].
//!
//! [`Duration`]: ctcp_units::Duration

#![forbid(unsafe_code)]

mod aimd;
mod backlog;
mod backoff;
mod controller;
mod controllers;
pub mod event;
mod hystart;
mod increase;
mod pacing;
mod params;
mod registry;
mod round;

pub use aimd::Aimd;
pub use backlog::backlog;
pub use backoff::{Backoff, Bandwidth, Fixed, HTcpBackoff, RttRatio, VenoBackoff};
pub use controller::{Controller, ControllerState};
pub use controllers::{
    Auto, Bbr, Mp12, TcpCd, WindowBlock, WindowLoss, auto, bbr, cc14, cc14_compound, cc14_cubic,
    compound, cubic, htcp, hybla, mp12, reno, sat, scaled_window, tcp_cd, vegas, veno, westwood,
    window_block,
};
pub use event::{
    AckEvent, CouplingEvent, DeliverySample, EcnEvent, LossEstimate, LossEvent, PartnerLossEvent,
    PathChangeEvent, RttSummary, SentEvent, SilenceEvent, SpuriousLossEvent,
};
pub use increase::{
    BackoffEvent, CompoundIncrease, CubicIncrease, CubicRules, HTcpIncrease, HTcpRules,
    HyblaIncrease, Increase, Linear, VegasIncrease, VenoIncrease,
};
pub use pacing::{PACING_GAIN_AVOIDANCE, PACING_GAIN_SLOW_START, window_pacing_rate};
pub use params::{
    AckCounting, HyblaParams, JitterGuard, Mp12BaseRtt, Mp12Params, Params, Remembered, SatParams,
    VegasParams, VegasRtt,
};
pub use registry::{
    ControllerInfo, UnknownController, controller_by_name, controllers, resolved_name,
};
