//! Whether a path is heard of: silence noticed, and its end.
//!
//! Silence counts from the last acknowledgement of the path's packets, or from
//! the first packet that asked for one after all others were accounted for. After
//! a probe timeout of it the path is *degraded*: what it carries may as well go
//! out on others. After three round trips, 250 ms at least, it is *down*. The
//! first acknowledgement of one of its packets makes it active again.

use ctcp_units::{Duration, Instant, millis};

use super::Path;

/// A path is down after three round trips of silence, at least this.
const DOWN_SPAN_MIN: Duration = millis(250);
/// Round trips of it.
const DOWN_ROUNDS: u32 = 3;
/// With fewer packets on their way, chance may have lost them all: silence must
/// last two probe timeouts.
const EVIDENCE: u64 = 3;

/// An end that sends nothing but questions has no more than these on their way.
const QUESTIONS: u64 = 8;

/// What may be expected of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathState {
    /// In use.
    Active,
    /// Silent for longer than it ever should be: spared if there are others.
    Degraded,
    /// Silent for long: only probes go out until one is answered.
    Down,
    /// The peer has not proven yet that it can be reached.
    Probing,
}

impl core::fmt::Display for PathState {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Active => "active",
            Self::Degraded => "degraded",
            Self::Down => "down",
            Self::Probing => "probing",
        })
    }
}

/// The silence of one path.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watch {
    since: Instant,
    /// Of a validated path.
    state: PathState,
}

impl Watch {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            since: now,
            state: PathState::Active,
        }
    }

    /// A packet that asks for an acknowledgement leaves, none is on its way.
    pub(super) fn begin(&mut self, now: Instant) {
        self.since = self.since.max(now);
    }

    /// A packet of the path was acknowledged.
    pub(super) fn on_progress(&mut self, now: Instant) {
        self.since = now;
        self.state = PathState::Active;
    }
}

impl Path {
    /// What may be expected of it.
    pub(crate) const fn state(&self) -> PathState {
        if self.is_validated {
            self.watch.state
        } else {
            PathState::Probing
        }
    }

    /// When silence will have lasted so long that the state changes.
    pub(super) fn silence_deadline(&self) -> Option<Instant> {
        let open = self.ledger.eliciting_open();
        if open == 0 || !self.is_validated {
            return None;
        }
        let timeout = self.probe_timeout();
        let span = match self.watch.state {
            PathState::Active if open >= EVIDENCE => timeout,
            PathState::Active => timeout * 2,
            PathState::Degraded => DOWN_SPAN_MIN
                .max(self.srtt() * DOWN_ROUNDS)
                .max(timeout * 2),
            PathState::Down | PathState::Probing => return None,
        };
        // Packets that come in tell that half of it lives: the few questions or their
        // answers may have been lost by chance.
        let is_heard = self.last_received > self.watch.since + timeout;
        let is_weak = is_heard && open <= QUESTIONS;
        Some(self.watch.since + span * (1 + u32::from(is_weak)))
    }

    /// The state after the silence up to `now`, if that is news.
    pub(crate) fn poll_silence(&mut self, now: Instant) -> Option<PathState> {
        if self.silence_deadline()? > now {
            return None;
        }
        self.watch.state = match self.watch.state {
            PathState::Active => PathState::Degraded,
            _ => PathState::Down,
        };
        // Asks for a sign of life; when the next one is due, the probe timeout
        // says.
        self.probes_due = self.probes_due.max(1);
        Some(self.watch.state)
    }

    /// Since when nothing tells whether the peer hears this end on the path, while
    /// symbols came from there; none if an answer is being waited for.
    pub(crate) fn unheard_since(&self) -> Option<Instant> {
        let since = self.last_progress.max(self.last_asked);
        (self.ledger.eliciting_open() == 0 && self.last_symbol > since).then_some(since)
    }

    /// The driver cannot send on it: silence need not be waited for.
    pub(crate) fn suspect(&mut self) -> Option<PathState> {
        let is_news = self.is_validated && self.watch.state == PathState::Active;
        is_news.then(|| {
            self.watch.state = PathState::Degraded;
            self.probes_due = self.probes_due.max(1);
            self.watch.state
        })
    }
}
