//! The link itself: hands packets from stage to stage at their exact moments.

use std::collections::VecDeque;

use ctcp_units::{Duration, Instant, Random};

use crate::config::{ConfigError, LinkConfig, LossStage, Position};
use crate::counters::LinkCounters;
use crate::delay::DelayLine;
use crate::limiter::Limiter;
use crate::loss::LossProcess;
use crate::packet::{Corruption, Delivered, Ecn, Fate, Packet};

/// Labels of the generators of the parts.
const DELAY: u64 = 1;
const FAULTS: u64 = 2;
const LOSS: u64 = 16;

/// One direction of a link, carrying payloads of type `T`.
///
/// One call after another, each with a `now` no earlier than the last:
/// [`Link::send`] offers a packet; [`Link::poll_delivery`], called until it
/// returns none, gives what has arrived; [`Link::next_event`] says when to poll
/// again. What happens inside happens at its own moment, not at that of the
/// call: polling late or often changes nothing but the time one learns of it.
/// (One exception: what has arrived and was not polled counts as inside for
/// [`LinkConfig::inside_packets_max`].)
///
/// Once its queues have grown to the traffic, the link allocates nothing.
#[derive(Debug)]
pub struct Link<T> {
    config: LinkConfig,
    now: Instant,
    /// Source of the generators of parts that are yet to come.
    random: Random,
    /// One per stage of the configuration, in its order.
    losses: Vec<LossProcess>,
    limiter: Limiter,
    queue: VecDeque<Waiting<T>>,
    line: DelayLine<Arriving<T>>,
    faults: Random,
    /// One more than the place of the last packet delivered of those offered.
    delivered_up_to: u64,
    counters: LinkCounters,
}

/// A packet in the queue.
#[derive(Debug)]
struct Waiting<T> {
    offered: Offered,
    payload: T,
}

/// What a packet takes along through all stages.
#[derive(Debug, Clone, Copy)]
struct Offered {
    at: Instant,
    /// Place among all packets offered, from 0.
    index: u64,
    len_bytes: u32,
    ecn: Ecn,
}

/// A packet behind the rate limiter.
#[derive(Debug)]
struct Arriving<T> {
    offered: Offered,
    is_duplicate: bool,
    corruption: Option<Corruption>,
    payload: T,
}

impl<T: Clone> Link<T> {
    /// A link as configured, empty at `start`. Links made with the same
    /// configuration and seed treat the same packets the same.
    ///
    /// # Errors
    /// A [`ConfigError`] that names the impossible value.
    pub fn new(config: LinkConfig, seed: u64, start: Instant) -> Result<Self, ConfigError> {
        config.validate()?;
        let mut random = Random::from_seed(seed);
        let line = DelayLine::new(&config, random.fork(DELAY), start);
        let faults = random.fork(FAULTS);
        let losses = config
            .losses
            .iter()
            .enumerate()
            .map(|(index, stage)| start_loss(stage, index, &mut random, start))
            .collect();
        Ok(Self {
            limiter: Limiter::new(&config.rate, start),
            config,
            now: start,
            random,
            losses,
            queue: VecDeque::new(),
            line,
            faults,
            delivered_up_to: 0,
            counters: LinkCounters::default(),
        })
    }

    /// The configuration in effect.
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Counts as of the last call with a `now`.
    pub fn counters(&self) -> LinkCounters {
        LinkCounters {
            inside: self.inside() as u64,
            queue_packets: self.queue.len() as u64,
            ..self.counters
        }
    }

    /// Packets inside: waiting, in transmission, or on their way.
    pub fn inside(&self) -> usize {
        self.queue.len() + self.line.len()
    }

    /// Offers a packet at `now`.
    pub fn send(&mut self, now: Instant, packet: Packet<T>) -> Fate {
        self.advance(now);
        let now = self.now;
        let index = self.counters.offered;
        self.counters.offered += 1;
        self.counters.offered_bytes += u64::from(packet.len_bytes);
        let offered = Offered {
            at: now,
            index,
            len_bytes: packet.len_bytes,
            ecn: packet.ecn,
        };
        if self
            .config
            .mtu_bytes
            .is_some_and(|mtu_bytes| packet.len_bytes > mtu_bytes)
        {
            self.counters.dropped_too_long += 1;
            return Fate::TooLong;
        }
        if let Some(stage) = self.lost_at(Position::Before, now, now) {
            self.counters.lost_before += 1;
            return Fate::Lost(stage);
        }
        if self.inside() >= self.config.inside_packets_max {
            self.counters.dropped_link_full += 1;
            return Fate::LinkFull;
        }
        if self.limiter.queues() {
            return self.enqueue(offered, packet.payload);
        }
        if !self.limiter.passes(now, packet.len_bytes) {
            self.counters.dropped_queue += 1;
            return Fate::QueueFull;
        }
        self.depart(offered, now, now, packet.payload);
        Fate::Accepted
    }

    /// The next packet that has arrived by `now`, in order of arrival.
    pub fn poll_delivery(&mut self, now: Instant) -> Option<Delivered<T>> {
        self.advance(now);
        let flying = self.line.arrived(self.now)?;
        let Arriving {
            offered,
            is_duplicate,
            corruption,
            payload,
        } = flying.content;
        self.counters.delivered += 1;
        self.counters.delivered_bytes += u64::from(offered.len_bytes);
        if offered.index >= self.delivered_up_to {
            self.delivered_up_to = offered.index + 1;
        } else if !is_duplicate {
            self.counters.reordered += 1;
        }
        Some(Delivered {
            len_bytes: offered.len_bytes,
            ecn: offered.ecn,
            payload,
            sent_at: offered.at,
            due: flying.due,
            is_duplicate,
            corruption,
        })
    }

    /// When to poll again: nothing arrives earlier. Never before the last `now`;
    /// none if nothing is inside that would ever arrive.
    ///
    /// A poll at that moment may still return none, if jitter or a loss process
    /// decides so; then ask again.
    pub fn next_event(&self) -> Option<Instant> {
        let from_queue = match self.queue.is_empty() {
            true => Instant::FAR_FUTURE,
            false => self.limiter.ends() + self.line.shortest(),
        };
        let next = self
            .line
            .next_due()
            .map_or(from_queue, |due| due.min(from_queue));
        (next < Instant::FAR_FUTURE).then_some(next.max(self.now))
    }

    /// Lets happen what happens up to `now`, so that the counters show it.
    pub fn advance(&mut self, now: Instant) {
        debug_assert!(now >= self.now, "time goes back from {} to {now}", self.now);
        self.now = self.now.max(now);
        while !self.queue.is_empty() && self.limiter.ends() <= self.now {
            let Some(Waiting { offered, payload }) = self.queue.pop_front() else {
                return;
            };
            self.counters.queue_bytes -= u64::from(offered.len_bytes);
            let (began, ends) = (self.limiter.began(), self.limiter.ends());
            if let Some(next) = self.queue.front() {
                self.limiter.begin_next(next.offered.len_bytes);
            }
            self.depart(offered, began, ends, payload);
        }
    }

    /// Goes over to another configuration at `now`; what is inside stays.
    ///
    /// Parts that do not change go on as they were: a burst of losses continues,
    /// a trace keeps its place. Parts that do change start anew, their times
    /// counting from `now`. Packets behind the rate limiter arrive as planned;
    /// those waiting leave at the new rate, even if the queue became too short
    /// for them.
    ///
    /// # Errors
    /// A [`ConfigError`] that names the impossible value; then nothing changes.
    pub fn reconfigure(&mut self, now: Instant, config: LinkConfig) -> Result<(), ConfigError> {
        config.validate()?;
        self.advance(now);
        let now = self.now;
        let old = core::mem::replace(&mut self.config, config);
        let config = &self.config;
        if old.rate != config.rate {
            let head = self.queue.front().map(|head| head.offered.len_bytes);
            self.limiter.change(now, &config.rate, head);
        }
        if old.delay != config.delay
            || old.delay_changes != config.delay_changes
            || old.jitter != config.jitter
            || old.keeps_order != config.keeps_order
        {
            self.line.change(config, self.random.fork(DELAY), now);
        }
        self.losses.truncate(config.losses.len());
        for (index, stage) in config.losses.iter().enumerate() {
            if old.losses.get(index) != Some(stage) {
                let process = start_loss(stage, index, &mut self.random, now);
                match self.losses.get_mut(index) {
                    Some(place) => *place = process,
                    None => self.losses.push(process),
                }
            }
        }
        // Without a limit any more, the whole queue leaves now.
        self.advance(now);
        Ok(())
    }

    /// Puts a packet into the queue, if there is room.
    fn enqueue(&mut self, mut offered: Offered, payload: T) -> Fate {
        let packets = self.queue.len() as u64 + 1;
        let bytes = self.counters.queue_bytes + u64::from(offered.len_bytes);
        if self.config.queue.is_exceeded_by(packets, bytes) {
            self.counters.dropped_queue += 1;
            return Fate::QueueFull;
        }
        if let Some(marking) = self.config.ecn
            && marking.threshold.is_exceeded_by(packets, bytes)
        {
            if offered.ecn.is_capable() {
                self.counters.marked += u64::from(offered.ecn != Ecn::Ce);
                offered.ecn = Ecn::Ce;
            } else if marking.drops_not_capable {
                self.counters.dropped_queue += 1;
                return Fate::QueueFull;
            }
        }
        if self.queue.is_empty() {
            self.limiter.begin_idle(offered.at, offered.len_bytes);
        }
        self.queue.push_back(Waiting { offered, payload });
        let counters = &mut self.counters;
        counters.queue_bytes = bytes;
        counters.queue_bytes_max = counters.queue_bytes_max.max(bytes);
        counters.queue_packets_max = counters.queue_packets_max.max(packets);
        Fate::Accepted
    }

    /// A packet has left the rate limiter, its transmission having begun at
    /// `began` and ended at `ends`.
    fn depart(&mut self, offered: Offered, began: Instant, ends: Instant, payload: T) {
        let waited = began - offered.at;
        let counters = &mut self.counters;
        counters.departed += 1;
        counters.departed_bytes += u64::from(offered.len_bytes);
        counters.queueing_delay_sum = counters.queueing_delay_sum.saturating_add(waited);
        counters.queueing_delay_max = counters.queueing_delay_max.max(waited);
        if self.lost_at(Position::After, began, ends).is_some() {
            self.counters.lost_after += 1;
            return;
        }
        // A full link does not grow by duplication.
        let is_copied = happens(&mut self.faults, self.config.duplication_share)
            && self.inside() + 1 < self.config.inside_packets_max;
        if is_copied {
            self.counters.duplicated += 1;
            self.set_out(offered, ends, false, payload.clone());
        }
        self.set_out(offered, ends, is_copied, payload);
    }

    fn set_out(&mut self, offered: Offered, at: Instant, is_duplicate: bool, payload: T) {
        let held_back = match self.config.reordering {
            Some(reordering) if happens(&mut self.faults, reordering.share) => reordering.extra,
            _ => Duration::ZERO,
        };
        let corruption = happens(&mut self.faults, self.config.corruption_share)
            .then(|| Corruption::from_seed(self.faults.next_u64()));
        self.counters.corrupted += u64::from(corruption.is_some());
        let arriving = Arriving {
            offered,
            is_duplicate,
            corruption,
            payload,
        };
        self.line.set_out(at, held_back, arriving);
    }

    /// The first process on this side of the limiter that takes a packet on the
    /// air from `from` to `to`; those behind it do not see the packet.
    fn lost_at(&mut self, position: Position, from: Instant, to: Instant) -> Option<usize> {
        let stages = self.config.losses.iter().zip(&mut self.losses);
        for (index, (stage, process)) in stages.enumerate() {
            if stage.position == position && process.takes(from, to) {
                self.counters.lost_by_stage[index] += 1;
                return Some(index);
            }
        }
        None
    }
}

fn start_loss(stage: &LossStage, index: usize, random: &mut Random, now: Instant) -> LossProcess {
    let own = random.fork(LOSS + index as u64);
    LossProcess::started(stage.model.clone(), own, now)
}

/// A draw only where there is something to decide.
fn happens(random: &mut Random, share: f64) -> bool {
    share > 0.0 && random.chance(share)
}
