//! Asking again until an answer comes.

use ctcp_units::{Duration, Instant, seconds};

/// First wait for an answer ([RFC6298] §2.1), doubled with each, and the longest.
const PATIENCE: Duration = seconds(1);
const PATIENCE_MAX: Duration = seconds(60);

/// When what a client says is to be said again.
#[derive(Debug)]
pub(crate) struct Request {
    repeat_at: Option<Instant>,
    patience: Duration,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            repeat_at: None,
            patience: PATIENCE,
        }
    }
}

impl Request {
    /// Something new is to be said, now.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.patience = PATIENCE;
        self.repeat_at = Some(now);
    }

    /// It has been said: waits for an answer, longer each time.
    pub(crate) fn said(&mut self, now: Instant) {
        self.repeat_at = Some(now + self.patience);
        self.patience = (self.patience * 2).min(PATIENCE_MAX);
    }

    /// It has been heard.
    pub(crate) fn answered(&mut self) {
        self.repeat_at = None;
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.repeat_at.is_some_and(|at| at <= now)
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.repeat_at
    }
}
