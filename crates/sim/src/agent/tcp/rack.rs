//! Losses found by time, and a probe when the tail goes silent ([RFC8985]),
//! an option.
//!
//! A transmission is lost once a later one has arrived and its own answer is
//! overdue by a quarter of the least round trip. Transmissions wait in the order they
//! were sent, so that each is looked at once; a lost retransmission is found
//! too. The probe repeats the last segment after two round trips of silence.
//!
//! Departure: the reordering window does not adapt.

use std::collections::VecDeque;

use ctcp_units::{Duration, Instant, millis};

use super::RttEstimator;
use super::scoreboard::{Losses, News, Scoreboard};

/// Margin for a delayed ACK when only one segment is out ([RFC8985] §7.2).
const DELAYED_ACK: Duration = millis(200);

/// State of RACK and TLP; without effect if not enabled.
#[derive(Debug)]
pub(crate) struct Rack {
    is_enabled: bool,
    /// Transmissions in the order of time: sequence, number, moment.
    sent: VecDeque<(u64, u64, Instant)>,
    /// Number of the newest transmission known to have arrived.
    newest_arrived: Option<u64>,
    /// Latest round trip, and a quarter of the least.
    rtt: Duration,
    window: Duration,
    reordering_at: Option<Instant>,
    probe_at: Option<Instant>,
    is_probing: bool,
}

impl Rack {
    pub(crate) fn new(is_enabled: bool) -> Self {
        Self {
            is_enabled,
            sent: VecDeque::new(),
            newest_arrived: None,
            rtt: Duration::ZERO,
            window: Duration::ZERO,
            reordering_at: None,
            probe_at: None,
            is_probing: false,
        }
    }

    pub(crate) fn on_sent(
        &mut self,
        now: Instant,
        sequence: u64,
        number: u64,
        rtt: &RttEstimator,
        outstanding: u64,
    ) {
        if !self.is_enabled {
            return;
        }
        self.sent.push_back((sequence, number, now));
        self.probe_at = rtt.srtt().map(|srtt| {
            let margin = match outstanding {
                1 => DELAYED_ACK,
                _ => millis(2),
            };
            now + srtt * 2 + margin
        });
    }

    pub(crate) fn on_news(&mut self, news: &News, rtt: &RttEstimator) {
        if let Some(newest) = &news.newest {
            self.newest_arrived = self.newest_arrived.max(Some(newest.number));
            self.is_probing = false;
        }
        self.rtt = rtt.latest();
        self.window = rtt.minimum().unwrap_or_default() / 4;
    }

    pub(crate) fn clear(&mut self) {
        self.sent.clear();
        self.reordering_at = None;
        self.probe_at = None;
    }

    /// Marks what was sent too long before what has arrived.
    pub(crate) fn find_losses(
        &mut self,
        now: Instant,
        board: &mut Scoreboard,
        losses: &mut Losses,
    ) {
        self.reordering_at = None;
        let Some(newest) = self.newest_arrived else {
            return;
        };
        while let Some(&(sequence, number, at)) = self.sent.front() {
            let is_out = board
                .get(sequence)
                .is_some_and(|one| !one.is_sacked && one.number == number);
            if is_out {
                if number >= newest {
                    break;
                }
                let due = at + self.rtt + self.window;
                if due > now {
                    self.reordering_at = Some(due);
                    break;
                }
                board.mark_lost(sequence, losses);
            }
            self.sent.pop_front();
        }
        if board.outstanding() == 0 {
            self.probe_at = None;
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        [self.reordering_at, self.probe_at]
            .into_iter()
            .flatten()
            .min()
    }

    pub(crate) fn reordering_due(&mut self, now: Instant) -> bool {
        self.reordering_at.is_some_and(|at| at <= now)
    }

    /// Whether a probe is due now; it is due once per silence.
    pub(crate) fn probe_due(&mut self, now: Instant) -> bool {
        if self.probe_at.is_none_or(|at| at > now) {
            return false;
        }
        self.probe_at = None;
        self.is_probing = true;
        true
    }

    pub(crate) fn take_probe(&mut self) -> bool {
        core::mem::take(&mut self.is_probing)
    }
}
