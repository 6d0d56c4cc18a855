//! Pings of single paths, and what became of each: the answer came, the answer was
//! lost, or the ping was.
//!
//! A ping is a control packet that asks for its acknowledgement at once
//! ([`Connection::ping_path`](crate::Connection::ping_path)). The acknowledgement
//! names what arrived. If a ping is the largest number of one, that is its answer,
//! and a sample of the round trip. If only the answer to a later ping names it, its
//! own answer was lost on the way back. If later packets were answered and it was
//! never named, it was lost on the way out. So each ping tells of both directions.

use core::ops::Range;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ctcp_units::{Duration, Instant, PathId};

use crate::trace::{Trace, TraceEvent};
use crate::wire::AckView;

/// Most pings that are remembered of each path; later ones are not.
pub const PINGS_MAX: usize = 100_000;

/// So many pings back, a fate may still change.
const UNSETTLED_MAX: usize = 1024;

/// What became of a ping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PingFate {
    /// Nothing is known yet.
    Waiting,
    /// It was answered; without a sample if other packets blurred it.
    Answered {
        /// The round trip, less the time that the peer kept it.
        rtt: Option<Duration>,
    },
    /// It arrived, and its answer did not.
    AnswerLost,
    /// It did not arrive.
    Lost,
}

#[derive(Debug)]
struct Ping {
    number: u64,
    sent_at: Instant,
    fate: PingFate,
}

#[derive(Debug, Default)]
struct State {
    paths: BTreeMap<PathId, Vec<Ping>>,
    /// Fates by the ACKs of a packet of which it is not known yet where it came in:
    /// path, place of the ping, fate.
    heard: Vec<(PathId, usize, PingFate)>,
}

/// Listens to the pings of a connection; give it a clone by `set_trace`.
#[derive(Debug, Clone, Default)]
pub struct PingLog(Arc<Mutex<State>>);

/// Losses of one direction in the order of the pings.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PingDirection {
    /// Pings, or answers, that were sent.
    pub sent: usize,
    /// Those that were lost.
    pub lost: usize,
    /// How many were lost in a row, each time.
    pub bursts: Vec<usize>,
}

impl PingDirection {
    fn new(are_lost: impl Iterator<Item = bool>) -> Self {
        let mut report = Self::default();
        let mut was_lost = false;
        for is_lost in are_lost {
            report.sent += 1;
            if is_lost {
                report.lost += 1;
                match report.bursts.last_mut() {
                    Some(burst) if was_lost => *burst += 1,
                    _ => report.bursts.push(1),
                }
            }
            was_lost = is_lost;
        }
        report
    }

    /// Share lost, 0 to 1; 0 of nothing.
    pub fn loss(&self) -> f64 {
        self.lost as f64 / self.sent.max(1) as f64
    }
}

/// The pings of one path.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PingReport {
    /// Pings sent.
    pub sent: usize,
    /// Pings of which nothing is known.
    pub waiting: usize,
    /// Round trips, in the order of the pings.
    pub rtts: Vec<Duration>,
    /// The way out.
    pub out: PingDirection,
    /// The way back.
    pub back: PingDirection,
}

impl PingReport {
    /// Pings that were answered.
    pub const fn answered(&self) -> usize {
        self.back.sent - self.back.lost
    }

    /// The round trip that a share of them, 0 to 1, does not exceed; `None` without
    /// samples.
    pub fn rtt_quantile(&self, share: f64) -> Option<Duration> {
        let mut sorted = self.rtts.clone();
        sorted.sort_unstable();
        let last = sorted.len().checked_sub(1)?;
        let rank = (share * sorted.len() as f64).ceil() as usize;
        Some(sorted[rank.saturating_sub(1).min(last)])
    }

    /// Mean difference between one round trip and the next; `None` below two.
    pub fn jitter(&self) -> Option<Duration> {
        let steps = self.rtts.windows(2).map(|pair| pair[0].abs_diff(pair[1]));
        let count = u32::try_from(self.rtts.len().checked_sub(1)?).ok()?;
        steps.sum::<Duration>().checked_div(count)
    }
}

impl PingLog {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first `count` pings of a path.
    pub fn report(&self, path: PathId, count: usize) -> PingReport {
        let state = self.lock();
        let pings = state.paths.get(&path).map_or(&[][..], Vec::as_slice);
        let fates: Vec<_> = pings.iter().take(count).map(|ping| ping.fate).collect();
        let settled = || fates.iter().filter(|fate| **fate != PingFate::Waiting);
        let arrived = settled().filter(|fate| **fate != PingFate::Lost);
        let rtts = fates.iter().filter_map(|fate| match fate {
            PingFate::Answered { rtt } => *rtt,
            _ => None,
        });
        PingReport {
            sent: fates.len(),
            waiting: fates.len() - settled().count(),
            rtts: rtts.collect(),
            out: PingDirection::new(settled().map(|fate| *fate == PingFate::Lost)),
            back: PingDirection::new(arrived.map(|fate| *fate == PingFate::AnswerLost)),
        }
    }

    /// How many pings have left on a path.
    pub fn sent(&self, path: PathId) -> usize {
        self.lock().paths.get(&path).map_or(0, Vec::len)
    }

    /// The paths that were pinged.
    pub fn paths(&self) -> Vec<PathId> {
        self.lock().paths.keys().copied().collect()
    }
}

impl State {
    fn sent(&mut self, now: Instant, path: PathId, number: u64) {
        let pings = self.paths.entry(path).or_default();
        if pings.len() < PINGS_MAX {
            pings.push(Ping {
                number,
                sent_at: now,
                fate: PingFate::Waiting,
            });
        }
    }

    fn hear(&mut self, now: Instant, ack: &AckView<'_>) {
        let Some(pings) = self.paths.get(&ack.path) else {
            return;
        };
        for at in unsettled(pings) {
            let ping = &pings[at];
            let is_open = matches!(ping.fate, PingFate::Waiting | PingFate::Lost);
            if !is_open || !ack.ranges.iter().any(|range| range.contains(&ping.number)) {
                continue;
            }
            let largest = ack.ranges.largest();
            let next = pings.get(at + 1).map_or(u64::MAX, |ping| ping.number);
            let fate = if largest == ping.number {
                let rtt = (now - ping.sent_at).saturating_sub(ack.delay);
                PingFate::Answered { rtt: Some(rtt) }
            } else if largest < next {
                PingFate::Answered { rtt: None }
            } else {
                PingFate::AnswerLost
            };
            self.heard.push((ack.path, at, fate));
        }
    }

    /// What was heard came in by this path.
    fn settle(&mut self, via: PathId) {
        for (path, at, fate) in core::mem::take(&mut self.heard) {
            let ping = self
                .paths
                .get_mut(&path)
                .and_then(|pings| pings.get_mut(at));
            if let Some(ping) = ping {
                ping.fate = match fate {
                    // Half of the way was another path's.
                    PingFate::Answered { .. } if via != path => PingFate::Answered { rtt: None },
                    fate => fate,
                };
            }
        }
    }

    fn lost(&mut self, path: PathId, number: u64) {
        let Some(pings) = self.paths.get_mut(&path) else {
            return;
        };
        let among = unsettled(pings);
        let ping = pings[among].iter_mut().find(|ping| ping.number == number);
        if let Some(ping) = ping.filter(|ping| ping.fate == PingFate::Waiting) {
            ping.fate = PingFate::Lost;
        }
    }
}

fn unsettled(pings: &[Ping]) -> Range<usize> {
    pings.len().saturating_sub(UNSETTLED_MAX)..pings.len()
}

impl Trace for PingLog {
    fn on_event(&mut self, now: Instant, event: &TraceEvent<'_>) {
        let mut state = self.lock();
        match *event {
            TraceEvent::Ping { path, number } => state.sent(now, path, number),
            TraceEvent::Ack(ack) => state.hear(now, ack),
            TraceEvent::Received { path, .. } => state.settle(path),
            TraceEvent::Lost { path, number, .. } => state.lost(path, number),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctcp_units::millis;

    #[test]
    fn losses_in_a_row_are_one_burst() {
        let lost = |text: &str| PingDirection::new(text.chars().map(|c| c == 'x'));
        assert_eq!(lost("").loss(), 0.0);
        assert_eq!(lost("....").bursts, Vec::<usize>::new());
        let report = lost("xx.x..xxx");
        assert_eq!((report.sent, report.lost), (9, 6));
        assert_eq!(report.bursts, [2, 1, 3]);
        assert_eq!(lost("xxxx").bursts, [4]);
    }

    #[test]
    fn quantiles_are_samples_and_jitter_is_the_mean_step() {
        let report = PingReport {
            rtts: [10, 30, 20, 50].map(millis).to_vec(),
            ..PingReport::default()
        };
        let quantile = |share| report.rtt_quantile(share).map(|rtt| rtt.as_millis());
        assert_eq!(quantile(0.0), Some(10));
        assert_eq!(quantile(0.5), Some(20));
        assert_eq!(quantile(0.75), Some(30));
        assert_eq!(quantile(0.95), Some(50));
        assert_eq!(quantile(1.0), Some(50));
        assert_eq!(report.jitter(), Some(millis(20)));
        let none = PingReport::default();
        assert_eq!((none.rtt_quantile(0.5), none.jitter()), (None, None));
        let one = PingReport {
            rtts: vec![millis(7)],
            ..none
        };
        assert_eq!(
            (one.rtt_quantile(0.95), one.jitter()),
            (Some(millis(7)), None)
        );
    }
}
