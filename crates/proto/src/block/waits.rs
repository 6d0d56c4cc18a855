//! How long a receiver waited for what was lost.
//!
//! *In order*: a symbol that is missing while later ones are known to have been
//! sent holds these back; one entry for each time the lowest missing symbol
//! arrives, counted from when it was the lowest and known to be missing.
//! *Decoding*: one entry for each symbol that only decoding brought, counted from
//! the arrival that showed that its generation misses something.

use ctcp_units::{Duration, Instant, SymbolId};

use crate::DelayHistogram;

/// The waits of one receiver.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    in_order: DelayHistogram,
    decode: DelayHistogram,
    /// Every symbol below has been sent, as arrivals show.
    sent_below: SymbolId,
    /// Since when the lowest missing symbol is known to be missing.
    stuck_since: Option<Instant>,
}

impl Waits {
    /// An arrival shows that all symbols below `end` have been sent.
    pub(crate) fn note_sent(&mut self, end: SymbolId) {
        self.sent_below = self.sent_below.max(end);
    }

    /// After an arrival: the lowest missing symbol was `before` and is `base`.
    pub(crate) fn on_base(&mut self, now: Instant, before: SymbolId, base: SymbolId) {
        let is_stuck = base < self.sent_below;
        if base > before
            && let Some(since) = self.stuck_since.take()
        {
            self.in_order.record(now - since);
        }
        if is_stuck {
            self.stuck_since.get_or_insert(now);
        } else {
            self.stuck_since = None;
        }
    }

    /// Symbols were given up: a wait for them has no end worth telling.
    pub(crate) fn on_abandoned(&mut self) {
        self.stuck_since = None;
    }

    /// Decoding brought a symbol that was missed for so long.
    pub(crate) fn on_recovered(&mut self, missed_for: Duration) {
        self.decode.record(missed_for);
    }

    /// Waits for the lowest missing symbol.
    pub(crate) const fn in_order(&self) -> &DelayHistogram {
        &self.in_order
    }

    /// Waits for decoding.
    pub(crate) const fn decode(&self) -> &DelayHistogram {
        &self.decode
    }
}
