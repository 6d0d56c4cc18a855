//! One direction of a network link, as a model without a clock.
//!
//! A packet passes these stages in order; each can be left out:
//!
//! ```text
//!  send ─▶ MTU ─▶ losses before ─▶ queue ─▶ rate limiter ─▶ losses after ─▶ duplication
//!          │       the limiter       │                       the limiter        │
//!          ▼                         ▼                                          ▼
//!        too long            full, or CE-marked                    corruption, reordering,
//!                                                                  delay + jitter ─▶ delivery
//! ```
//!
//! *Losses before* the limiter use none of the link's capacity (dummynet drops
//! there); *losses after* it do, as packets dropped at the receiver do.
//!
//! [`Link`] is driven like everything below the drivers: time comes as an
//! argument, randomness from a seed. The simulator steps it in virtual time, the
//! emulator in real time, and both see the same packets at the same nanoseconds,
//! however often they look.
//!
//! ```
//! use ctcp_link::{Link, LinkConfig, LossModel, Packet};
//! use ctcp_units::{Instant, LossRate, Rate, micros, millis};
//!
//! // 25 Mbit/s, 12.5 ms one way, a queue of one bandwidth-delay product of a
//! // 25 ms round trip, 5 % of the packets lost before the rate limiter.
//! let config = LinkConfig::new(Rate::mbit(25), micros(12_500))
//!     .queue_bdp(1.0, millis(25))
//!     .loss(LossModel::Bernoulli(LossRate::clamped(0.05)));
//! let mut link = Link::new(config, 7, Instant::EPOCH)?;
//!
//! link.send(Instant::EPOCH, Packet::new(1500, "hello"));
//! while let Some(at) = link.next_event() {
//!     if let Some(delivered) = link.poll_delivery(at) {
//!         assert_eq!(delivered.payload, "hello");
//!         // 480 µs on the wire and 12.5 ms on the way.
//!         assert_eq!(delivered.due, Instant::EPOCH + micros(12_980));
//!     }
//! }
//! # Ok::<(), ctcp_link::ConfigError>(())
//! ```

mod config;
mod counters;
mod delay;
mod limiter;
mod link;
mod loss;
mod packet;
mod rate_trace;

pub use config::{
    ConfigError, DelayChange, EcnMarking, INSIDE_PACKETS_MAX, LOSS_STAGES_MAX, LinkConfig,
    LossStage, Position, QueueSize, Reordering,
};
pub use counters::LinkCounters;
pub use delay::Jitter;
pub use limiter::RateLimit;
pub use link::Link;
pub use loss::{
    GilbertElliott, Interference, LossModel, LossPhase, LossProcess, LossTrace, LossTraceError,
    Outage,
};
pub use packet::{Corruption, Delivered, Ecn, Fate, Packet};
pub use rate_trace::{OPPORTUNITY_BYTES, RateTrace, RateTraceError};
