//! The engine: links and agents over one event queue, in virtual time.
//!
//! A packet is sent by an agent onto a *route*, a list of links in one
//! direction. At the far end of each link a router hands it to the next; at the
//! end of the route it is the receiving agent's. Time is whole nanoseconds from
//! 0. Nothing is allocated per packet once queues have grown to the traffic, and
//! nothing grows with simulated time.

mod packet;
mod queue;
mod simulation;
mod trace;

pub(crate) use packet::{Datagram, Payload, RouteId};
pub use simulation::Census;
pub(crate) use simulation::{AgentId, Reached, RouteCounters, Simulation, Tracer};
pub use trace::{TraceEvent, TraceKind};
