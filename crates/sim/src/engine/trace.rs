//! What a trace tells about each packet.

use ctcp_units::Instant;

/// What happened to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceKind {
    /// An agent sent it; the first link took it in.
    Sent,
    /// A router handed it to the next link.
    Forwarded,
    /// A loss process took it.
    Lost,
    /// A full queue, or a link's limit, dropped it.
    Dropped,
    /// The receiving agent has it.
    Received,
}

impl TraceKind {
    /// As it stands in a trace.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sent => "packet_sent",
            Self::Forwarded => "packet_forwarded",
            Self::Lost => "packet_lost",
            Self::Dropped => "packet_dropped",
            Self::Received => "packet_received",
        }
    }
}

/// One event of a packet. A packet lost behind a rate limiter is lost without
/// an event; the link's counters have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceEvent {
    /// When.
    pub at: Instant,
    /// What.
    pub kind: TraceKind,
    /// The link concerned.
    pub link: usize,
    /// The flow.
    pub flow: usize,
    /// The route within the simulation: data and acknowledgements of each path
    /// have their own.
    pub route: usize,
    /// Place among the packets sent on the route, from 0.
    pub index: u64,
    /// Length on the wire.
    pub len_bytes: u32,
}
