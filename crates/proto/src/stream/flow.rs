//! How streams share a bounded budget, and what has been said about it.

/// A budget that many streams share and none can exhaust for another.
///
/// Every stream may hold `floor` bytes at any time. What it holds above that
/// comes from a shared part of which it may have as much as is still *free*. One
/// stream alone so reaches half of the shared part, n busy ones 1/(n + 1) of it
/// each, and one that never gives back anything leaves the others a share of the
/// rest and always their floor. (The dynamic threshold of shared-memory
/// switches.) Bound: the shared part and a floor for every stream.
#[derive(Debug)]
pub(super) struct SharedBudget {
    floor: u64,
    free: u64,
}

impl SharedBudget {
    pub(super) const fn new(floor: u64, shared: u64) -> Self {
        Self {
            floor,
            free: shared,
        }
    }

    /// What a stream may come to hold now, bytes; at least the floor. Less than
    /// a stream holds already means: nothing more.
    pub(super) const fn limit(&self) -> u64 {
        self.floor + self.free
    }

    /// A stream that held `before` bytes now holds `after`, within the limit if
    /// that is more.
    pub(super) fn change(&mut self, before: u64, after: u64) {
        self.free += before.saturating_sub(self.floor);
        self.free = self
            .free
            .checked_sub(after.saturating_sub(self.floor))
            .expect("a stream takes at most what is free");
    }

    #[cfg(test)]
    pub(super) const fn free(&self) -> u64 {
        self.free
    }
}

/// A limit that only grows and that the peer must get to know.
#[derive(Debug)]
pub(super) struct Announced {
    value: u64,
    acked: u64,
    is_queued: bool,
}

impl Announced {
    /// A limit the peer knows from the handshake.
    pub(super) const fn known(value: u64) -> Self {
        Self {
            value,
            acked: value,
            is_queued: false,
        }
    }

    /// The newest value: what the peer may rely on.
    pub(super) const fn value(&self) -> u64 {
        self.value
    }

    /// Whether the newest value waits to be sent.
    pub(super) const fn is_queued(&self) -> bool {
        self.is_queued
    }

    /// Raises the limit; true if it has to be queued for sending.
    pub(super) fn raise(&mut self, value: u64) -> bool {
        self.value = self.value.max(value);
        !core::mem::replace(&mut self.is_queued, true)
    }

    /// It is being sent.
    pub(super) fn send(&mut self) -> u64 {
        self.is_queued = false;
        self.value
    }

    /// A packet with `value` was lost; true if it has to be queued again.
    pub(super) fn on_lost(&mut self, value: u64) -> bool {
        let is_missing = value == self.value && self.acked < value && !self.is_queued;
        self.is_queued |= is_missing;
        is_missing
    }

    /// A packet with `value` was acknowledged.
    pub(super) fn on_acked(&mut self, value: u64) {
        self.acked = self.acked.max(value);
    }
}

/// Something said once, with what the peer must get to know of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Notice {
    /// There is nothing to say.
    #[default]
    None,
    /// Waits to be sent.
    Queued,
    /// Sent; neither acknowledged nor lost.
    Sent,
    /// The peer knows.
    Acked,
}

impl Notice {
    /// It is being sent; false if it need not be.
    pub(super) fn say(&mut self) -> bool {
        let is_queued = *self == Self::Queued;
        if is_queued {
            *self = Self::Sent;
        }
        is_queued
    }

    /// A packet with it was lost; true if it has to be queued again.
    pub(super) fn on_lost(&mut self) -> bool {
        let is_missing = *self == Self::Sent;
        if is_missing {
            *self = Self::Queued;
        }
        is_missing
    }
}

/// What the peer lets us send, over all streams.
#[derive(Debug, Default)]
pub(super) struct SendCredit {
    /// Bytes of all streams that may be sent.
    pub(super) max: u64,
    /// Bytes of all streams sent, each offset once.
    pub(super) sent: u64,
}

impl SendCredit {
    pub(super) const fn left(&self) -> u64 {
        self.max.saturating_sub(self.sent)
    }
}

/// What we let the peer send, over all streams.
#[derive(Debug)]
pub(super) struct ReceiveCredit {
    window: u64,
    /// The limit.
    pub(super) announced: Announced,
    /// Highest offsets of all streams, summed.
    pub(super) received: u64,
    /// Of these, bytes read or given up.
    pub(super) consumed: u64,
}

impl ReceiveCredit {
    pub(super) const fn new(window: u64) -> Self {
        Self {
            window,
            announced: Announced::known(window),
            received: 0,
            consumed: 0,
        }
    }

    /// `len` bytes were read or given up; true if the limit has to be queued for
    /// sending. It follows a quarter of the window behind.
    pub(super) fn consume(&mut self, len: u64) -> bool {
        self.consumed += len;
        let limit = self.consumed + self.window;
        limit - self.announced.value() >= self.window.div_ceil(4) && self.announced.raise(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hoarder_leaves_others_half_of_the_rest_and_their_floor() {
        let mut budget = SharedBudget::new(10, 800);
        let mut holds = Vec::new();
        for _ in 0..10 {
            let mut held = 0;
            while held < budget.limit() {
                let after = budget.limit().min(held + 10);
                budget.change(held, after);
                held = after;
            }
            holds.push(held);
        }
        assert!(holds[0].abs_diff(410) <= 10, "{holds:?}");
        assert!(holds[1].abs_diff(210) <= 10, "{holds:?}");
        assert!(holds.iter().all(|held| *held >= 10), "{holds:?}");
        assert!(holds.iter().sum::<u64>() <= 800 + 10 * 10);
        for held in holds {
            budget.change(held, 0);
        }
        assert_eq!(budget.free(), 800);
    }

    #[test]
    fn only_the_newest_value_is_repeated_and_only_until_known() {
        let mut limit = Announced::known(10);
        assert!(limit.raise(20));
        assert!(!limit.raise(30));
        assert_eq!(limit.send(), 30);
        assert!(!limit.on_lost(20));
        assert!(limit.on_lost(30));
        assert!(!limit.on_lost(30));
        assert_eq!(limit.send(), 30);
        limit.on_acked(30);
        assert!(!limit.on_lost(30));
    }

    #[test]
    fn connection_credit_follows_by_quarters() {
        let mut credit = ReceiveCredit::new(100);
        assert!(!credit.consume(24));
        assert!(credit.consume(1));
        assert_eq!(credit.announced.send(), 125);
    }
}
