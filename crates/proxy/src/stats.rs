//! What a proxy counts. Written by its tasks, read by whoever shows it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::request::Status;
use crate::streams::{Listed, Streams};
use crate::target::Target;
use crate::tunnel::OpenError;

/// Why a connection was not relayed to its clean end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailReason {
    /// The application did not keep to SOCKS, or left while negotiating.
    BadSocks,
    /// User or password wrong or missing.
    BadPassword,
    /// The tunnel has no answer from the server.
    NoAnswer,
    /// The server does not serve this client.
    RefusedByServer,
    /// The tunnel's connection ended.
    TunnelClosed,
    /// Streams, or connections at the server, are at their limit.
    AtLimit,
    /// A request that breaks its protocol, or came too late.
    BadRequest,
    /// The egress policy forbids the target.
    NotAllowed,
    /// The name does not resolve.
    NameUnknown,
    /// The target refused.
    TargetRefused,
    /// No way to the target.
    Unreachable,
    /// The target did not answer in time.
    TimedOut,
    /// Any other failure before the relay.
    Other,
    /// While relaying, the TCP side disappeared.
    LocalGone,
    /// While relaying, the tunnel's stream was reset.
    StreamReset,
    /// While relaying, a drain reached its deadline.
    Cancelled,
}

impl FailReason {
    /// All of them, in a fixed order.
    pub const ALL: [Self; 16] = [
        Self::BadSocks,
        Self::BadPassword,
        Self::NoAnswer,
        Self::RefusedByServer,
        Self::TunnelClosed,
        Self::AtLimit,
        Self::BadRequest,
        Self::NotAllowed,
        Self::NameUnknown,
        Self::TargetRefused,
        Self::Unreachable,
        Self::TimedOut,
        Self::Other,
        Self::LocalGone,
        Self::StreamReset,
        Self::Cancelled,
    ];

    /// A label for metrics: lower case and underscores.
    pub fn label(self) -> &'static str {
        match self {
            Self::BadSocks => "bad_socks",
            Self::BadPassword => "bad_password",
            Self::NoAnswer => "no_answer",
            Self::RefusedByServer => "refused_by_server",
            Self::TunnelClosed => "tunnel_closed",
            Self::AtLimit => "at_limit",
            Self::BadRequest => "bad_request",
            Self::NotAllowed => "not_allowed",
            Self::NameUnknown => "name_unknown",
            Self::TargetRefused => "target_refused",
            Self::Unreachable => "unreachable",
            Self::TimedOut => "timed_out",
            Self::Other => "other",
            Self::LocalGone => "local_gone",
            Self::StreamReset => "stream_reset",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for FailReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

impl From<Status> for FailReason {
    /// The reason that a failed request's status gives.
    fn from(status: Status) -> Self {
        match status {
            Status::NotAllowed => Self::NotAllowed,
            Status::NetUnreachable | Status::HostUnreachable => Self::Unreachable,
            Status::Refused => Self::TargetRefused,
            Status::TimedOut => Self::TimedOut,
            Status::NameUnknown => Self::NameUnknown,
            Status::Busy => Self::AtLimit,
            Status::CommandUnknown
            | Status::AddressTypeUnknown
            | Status::VersionUnknown
            | Status::Malformed => Self::BadRequest,
            Status::Ok | Status::General => Self::Other,
        }
    }
}

impl From<&OpenError> for FailReason {
    fn from(error: &OpenError) -> Self {
        match error {
            OpenError::NoAnswer => Self::NoAnswer,
            OpenError::Refused => Self::RefusedByServer,
            OpenError::Closed { .. } => Self::TunnelClosed,
            OpenError::TooManyStreams => Self::AtLimit,
        }
    }
}

/// Counters of one proxy, since it was made.
#[derive(Debug, Default)]
pub struct Stats {
    accepted: AtomicU64,
    active: AtomicU64,
    limit_reached: AtomicU64,
    accept_errors: AtomicU64,
    bytes_up: AtomicU64,
    bytes_down: AtomicU64,
    failed: [AtomicU64; FailReason::ALL.len()],
    streams: Arc<Streams>,
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatsSnapshot {
    /// Connections (forward) or streams (reverse) taken on.
    pub accepted: u64,
    /// Of those, the ones not yet ended.
    pub active: u64,
    /// How often the limit of connections held up a new one.
    pub limit_reached: u64,
    /// How often accepting failed, for example for want of file descriptors.
    pub accept_errors: u64,
    /// Bytes relayed from applications towards targets.
    pub bytes_up: u64,
    /// Bytes relayed from targets towards applications.
    pub bytes_down: u64,
    failed: [u64; FailReason::ALL.len()],
}

impl StatsSnapshot {
    /// Connections that failed for this reason.
    pub fn failed(&self, reason: FailReason) -> u64 {
        self.failed[reason as usize]
    }

    /// Connections that failed for any reason.
    pub fn failed_total(&self) -> u64 {
        self.failed.iter().sum()
    }
}

impl Stats {
    /// All counters now. They are read one after the other, not at one instant.
    pub fn snapshot(&self) -> StatsSnapshot {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StatsSnapshot {
            accepted: load(&self.accepted),
            active: load(&self.active),
            limit_reached: load(&self.limit_reached),
            accept_errors: load(&self.accept_errors),
            bytes_up: load(&self.bytes_up),
            bytes_down: load(&self.bytes_down),
            failed: std::array::from_fn(|index| load(&self.failed[index])),
        }
    }

    /// The connections being relayed.
    pub fn streams(&self) -> &Arc<Streams> {
        &self.streams
    }

    /// A connection of `client` to `target` is relayed until this is dropped.
    pub(crate) fn list(&self, target: &Target, client: &Arc<str>) -> Listed {
        self.streams.list(target, client)
    }

    /// One more connection taken on; it is active until the guard is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> Active {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.active.fetch_add(1, Ordering::Relaxed);
        Active(self.clone())
    }

    pub(crate) fn fail(&self, reason: FailReason) {
        self.failed[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn limit_reached(&self) {
        self.limit_reached.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn accept_error(&self) {
        self.accept_errors.fetch_add(1, Ordering::Relaxed);
    }

    /// The counters of relayed bytes: from applications, towards applications.
    pub(crate) fn bytes(&self) -> (&AtomicU64, &AtomicU64) {
        (&self.bytes_up, &self.bytes_down)
    }
}

/// Keeps a connection counted as active.
#[derive(Debug)]
pub(crate) struct Active(Arc<Stats>);

impl Drop for Active {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_a_counter_of_its_own() {
        let stats = Stats::default();
        for (index, reason) in FailReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index, "{reason}");
            stats.fail(reason);
            assert_eq!(stats.snapshot().failed(reason), 1);
        }
        assert_eq!(stats.snapshot().failed_total(), 16);
    }

    #[test]
    fn a_connection_is_active_until_its_guard_is_dropped() {
        let stats = Arc::new(Stats::default());
        let guard = stats.begin();
        assert_eq!(stats.snapshot().active, 1);
        drop(guard);
        let after = stats.snapshot();
        assert_eq!((after.accepted, after.active), (1, 0));
    }
}
