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
mod backoff;
mod controller;
mod controllers;
pub mod event;
mod increase;
mod pacing;
mod params;
mod registry;

pub use aimd::Aimd;
pub use backoff::{Backoff, Fixed, RttRatio};
pub use controller::{Controller, ControllerState};
pub use controllers::{cc14, reno};
pub use event::{
    AckEvent, DeliverySample, EcnEvent, LossEstimate, LossEvent, PathChangeEvent, RttSummary,
    SentEvent, SilenceEvent, SpuriousLossEvent,
};
pub use increase::{BackoffEvent, Increase, Linear};
pub use pacing::{PACING_GAIN_AVOIDANCE, PACING_GAIN_SLOW_START, window_pacing_rate};
pub use params::{JitterGuard, Params};
pub use registry::{
    ControllerInfo, UnknownController, controller_by_name, controllers, resolved_name,
};
