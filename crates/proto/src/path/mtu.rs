//! The largest UDP payload that a path carries, found by probing.
//!
//! Algorithm: datagram packetization layer path MTU discovery, [RFC8899] §5. A
//! path starts at a base size that is taken to pass everywhere. Probes, packets
//! padded to the size in question and sent with "don't fragment", look for more:
//! first the largest allowed, then the sizes common in the field, then by
//! halving. A size is given up after several probes of it were lost; that loss
//! says nothing of congestion. Nobody relies on ICMP.
//!
//! A path may shrink later, and then swallows every large packet in silence: a
//! *black hole*. It is told from chance by what gets through, see
//! [`MtuDiscovery::on_lost`].
//!
//! Departures: the number of probes a size is given grows with the path's loss
//! rate, and a search that ended below the ceiling is repeated soon at first.
//! With three tries a size that passes is missed 6 times in 100 at 40 % loss.
//!
//! Units: bytes of UDP payload.

use ctcp_units::{Duration, Instant, PacketNumber, seconds};

/// The size that is taken to pass everywhere: [RFC8899] §5.1.2 and QUIC.
pub(crate) const BASE: u16 = 1200;
/// What an IPv4 path with packets of 1500 bytes carries.
pub(crate) const CEILING_IPV4: u16 = 1472;
/// What an IPv6 path with packets of 1500 bytes carries.
pub(crate) const CEILING_IPV6: u16 = 1452;
/// The most any UDP packet can carry: over IPv6, 65 535 less the UDP header.
pub(crate) const CEILING_MAX: u16 = 65_527;

/// Sizes worth a probe before halving, largest first: Ethernet with jumbo frames
/// over IPv6 (over IPv4 they carry 20 bytes more), Ethernet over IPv4 and IPv6.
const COMMON_SIZES: [u16; 3] = [8_952, CEILING_IPV4, CEILING_IPV6];
/// Halving ends when so few bytes are in question: half a percent of a packet.
const GRAIN: u16 = 8;
/// The least probes for a size; MAX_PROBES of [RFC8899] §5.1.2.
const TRIES_MIN: u32 = 3;
/// The most probes for a size.
const TRIES_MAX: u32 = 12;
/// How unlikely it must be that all probes of a passing size were lost.
const MISS_PROBABILITY: f64 = 1e-3;

/// A finished search is repeated after this long, then after twice that, …
const RAISE_INTERVAL_MIN: Duration = seconds(10);
/// … up to this: PMTU_RAISE_TIMER of [RFC8899] §5.1.1.
const RAISE_INTERVAL_MAX: Duration = seconds(600);

/// How unlikely it must be that chance lost all packets of a run. At 1000
/// packets a second a false alarm in eleven days.
const HOLE_PROBABILITY: f64 = 1e-9;
/// The least losses in a row that can be a black hole.
const HOLE_RUN_MIN: u32 = 6;
/// The most that are waited for.
const HOLE_RUN_MAX: u32 = 64;
/// So long must a run of losses last where nothing at all comes back: outages of
/// a few seconds are common, and no black holes.
const SILENT_SPAN: Duration = seconds(5);
/// So many losses in a row are suspicious: see [`MtuDiscovery::is_suspicious`].
const SUSPICIOUS_RUN: u32 = 3;
/// The next search waits so long after a first black hole, four times that
/// after the next one, …
const HOLE_PAUSE_MIN: Duration = seconds(1);
/// … unless this long has passed without one.
const HOLE_MEMORY: Duration = RAISE_INTERVAL_MAX;

/// Gain of the loss rate that run lengths and tries are judged by.
const LOSS_GAIN: f64 = 1.0 / 128.0;

/// How a path's packet size is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MtuMode {
    /// By probing, up to `ceiling`.
    Probed {
        /// The largest size to try, at most 65 527, which is all that UDP
        /// over IPv6 can carry.
        ceiling: u16,
    },
    /// This size from the first packet on, neither raised nor lowered: where it
    /// is known to pass. Nothing is delivered where it does not.
    Fixed(u16),
}

/// An ordinary packet, not a probe, whose fate became known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MtuPacket {
    /// Its UDP payload in bytes.
    pub(crate) size: u16,
    /// Its number on the path.
    pub(crate) number: PacketNumber,
    /// When it was sent.
    pub(crate) sent_at: Instant,
}

/// Finds the largest size a path carries, and notices when it shrinks.
///
/// Whenever [`poll_probe`](Self::poll_probe) names a size the path sends one
/// probe of it and says so. Probe and ordinary packets are reported apart; what
/// one datagram acknowledges is reported before the losses it reveals.
#[derive(Debug, Clone)]
pub(crate) struct MtuDiscovery {
    mode: MtuMode,
    ceiling: u16,
    base: u16,
    current: u16,
    /// Smallest size known not to pass; one above the ceiling if none is.
    too_big: u16,
    phase: Phase,
    raise_interval: Duration,
    /// Share of ordinary packets lost, without the present run.
    loss: f64,
    /// The newest acknowledged packet above the base size.
    big_acked: Option<MtuPacket>,
    run: Option<Run>,
    /// Black holes found of late.
    hole_count: u32,
    last_hole: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// A size is in question.
    Probing {
        size: u16,
        tries_lost: u32,
        in_flight: bool,
        /// No probe before this.
        due: Instant,
    },
    /// The search is over; it is repeated then, if at all.
    Settled { until: Option<Instant> },
}

/// Packets above the base size, lost one after another: none of their size that
/// was sent after the first of them has been acknowledged.
#[derive(Debug, Clone, Copy)]
struct Run {
    first: MtuPacket,
    last_sent_at: Instant,
    smallest: u16,
    count: u32,
    /// The oldest acknowledged packet that is smaller and was sent after the
    /// first lost one.
    smaller_passed: Option<PacketNumber>,
    /// A packet sent after that one was lost too.
    lost_after_smaller: bool,
}

impl MtuDiscovery {
    /// A path at its base size, or at the size the user fixed.
    pub(crate) fn new(mode: MtuMode) -> Self {
        let (ceiling, base) = match mode {
            MtuMode::Probed { ceiling } => {
                let ceiling = ceiling.min(CEILING_MAX);
                (ceiling, BASE.min(ceiling))
            }
            MtuMode::Fixed(size) => (size, size),
        };
        let mut new = Self {
            mode,
            ceiling,
            base,
            current: base,
            too_big: ceiling.saturating_add(1),
            phase: Phase::Settled { until: None },
            raise_interval: RAISE_INTERVAL_MIN,
            loss: 0.0,
            big_acked: None,
            run: None,
            hole_count: 0,
            last_hole: Instant::EPOCH,
        };
        new.search(Instant::EPOCH);
        new
    }

    /// The path leads over a new address: it starts afresh. What becomes of
    /// packets and probes sent before is not to be reported any more.
    pub(crate) fn reset(&mut self) {
        *self = Self::new(self.mode);
    }

    /// The largest size known to pass, in bytes of UDP payload.
    pub(crate) const fn current(&self) -> u16 {
        self.current
    }

    /// The size to probe at `now`, if one is due. It stays due until
    /// [`on_probe_sent`](Self::on_probe_sent).
    pub(crate) fn poll_probe(&mut self, now: Instant) -> Option<u16> {
        if let Phase::Settled { until: Some(until) } = self.phase
            && now >= until
        {
            self.too_big = self.ceiling.saturating_add(1);
            self.search(now);
        }
        match self.phase {
            Phase::Probing {
                size,
                in_flight: false,
                due,
                ..
            } if now >= due => Some(size),
            _ => None,
        }
    }

    /// When [`poll_probe`](Self::poll_probe) next has something to say by the
    /// mere passing of time.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        match self.phase {
            Phase::Probing { in_flight, due, .. } => (!in_flight).then_some(due),
            Phase::Settled { until } => until,
        }
    }

    /// A probe of `size` has left.
    pub(crate) fn on_probe_sent(&mut self, size: u16) {
        if let Phase::Probing {
            size: wanted,
            in_flight,
            ..
        } = &mut self.phase
            && *wanted == size
        {
            *in_flight = true;
        }
    }

    /// A probe of `size` was acknowledged, be it one given up long ago.
    pub(crate) fn on_probe_acked(&mut self, now: Instant, size: u16) {
        if self.run.is_some_and(|run| size >= run.smallest) {
            self.end_run();
        }
        if size <= self.current || size > self.ceiling {
            return;
        }
        self.current = size;
        if self.too_big <= size {
            self.too_big = self.ceiling.saturating_add(1);
        }
        self.search(now);
    }

    /// A probe of `size` was declared lost. This is no sign of congestion.
    pub(crate) fn on_probe_lost(&mut self, now: Instant, size: u16) {
        let tries = self.tries();
        let Phase::Probing {
            size: wanted,
            tries_lost,
            in_flight,
            ..
        } = &mut self.phase
        else {
            return;
        };
        if *wanted != size || !*in_flight {
            return;
        }
        *in_flight = false;
        *tries_lost += 1;
        if *tries_lost >= tries {
            self.too_big = size;
            self.search(now);
        }
    }

    /// An ordinary packet was acknowledged.
    pub(crate) fn on_acked(&mut self, packet: &MtuPacket) {
        self.count_packet(false);
        if packet.size > self.base
            && self
                .big_acked
                .is_none_or(|newest| newest.number < packet.number)
        {
            self.big_acked = Some(*packet);
        }
        let Some(run) = &mut self.run else { return };
        if packet.number < run.first.number {
            return;
        }
        if packet.size >= run.smallest {
            self.end_run();
        } else {
            let oldest = run.smaller_passed.unwrap_or(packet.number);
            run.smaller_passed = Some(oldest.min(packet.number));
        }
    }

    /// An ordinary packet was declared lost. Answers whether that uncovers a
    /// black hole: then the path is back at its base size, packets above it are
    /// void, and the search begins anew after a while.
    ///
    /// Chance loses packets of all sizes, a black hole large ones only. So what
    /// counts is a run of lost packets above the base size, none of which was
    /// followed by a delivered one of its size, longer than chance would make it
    /// at this path's loss rate. Bursts and outages make such runs as well.
    /// Hence one of two more things is asked for: that a smaller packet was
    /// delivered in the midst of the run, or, where nothing at all comes back,
    /// that it lasts [`SILENT_SPAN`].
    pub(crate) fn on_lost(&mut self, now: Instant, packet: &MtuPacket) -> bool {
        if packet.size > self.current {
            // Sent before a fall: the verdict is known.
            return false;
        }
        if packet.size <= self.base || self.was_passed_by(packet) {
            self.count_packet(true);
            return false;
        }
        let run = self.run.get_or_insert(Run {
            first: *packet,
            last_sent_at: packet.sent_at,
            smallest: packet.size,
            count: 0,
            smaller_passed: None,
            lost_after_smaller: false,
        });
        if packet.number < run.first.number {
            run.first = *packet;
        }
        run.count += 1;
        run.smallest = run.smallest.min(packet.size);
        run.last_sent_at = run.last_sent_at.max(packet.sent_at);
        if run
            .smaller_passed
            .is_some_and(|passed| passed < packet.number)
        {
            run.lost_after_smaller = true;
        }
        let is_silent_for_long = run.last_sent_at - run.first.sent_at >= SILENT_SPAN;
        let is_telling = run.lost_after_smaller || is_silent_for_long;
        let is_hole = is_telling && run.count >= hole_run(self.loss);
        if is_hole {
            self.fall(now);
        }
        is_hole
    }

    /// Several large packets in a row were lost and none came through since.
    ///
    /// A path that must now send something to be acknowledged, a probe timeout
    /// say, does well to keep it at the base size: it gets through a black hole,
    /// and [`on_lost`](Self::on_lost) can tell.
    pub(crate) fn is_suspicious(&self) -> bool {
        self.run.is_some_and(|run| run.count >= SUSPICIOUS_RUN)
    }

    /// Chooses the next size in question, or settles.
    fn search(&mut self, now: Instant) {
        self.phase = match self.next_size() {
            Some(size) => Phase::Probing {
                size,
                tries_lost: 0,
                in_flight: false,
                due: now,
            },
            None => self.settled(now),
        };
    }

    fn next_size(&self) -> Option<u16> {
        if self.current >= self.ceiling {
            return None;
        }
        if self.too_big > self.ceiling {
            return Some(self.ceiling);
        }
        if self.too_big - self.current <= GRAIN {
            return None;
        }
        let in_question = |size: &u16| (self.current + 1..self.too_big).contains(size);
        let common = COMMON_SIZES.into_iter().find(in_question);
        Some(common.unwrap_or(self.current + (self.too_big - self.current) / 2))
    }

    fn settled(&mut self, now: Instant) -> Phase {
        if self.current >= self.ceiling {
            return Phase::Settled { until: None };
        }
        let until = Some(now + self.raise_interval);
        self.raise_interval = (self.raise_interval * 2).min(RAISE_INTERVAL_MAX);
        Phase::Settled { until }
    }

    fn fall(&mut self, now: Instant) {
        if now - self.last_hole > HOLE_MEMORY {
            self.hole_count = 0;
        }
        let pause = HOLE_PAUSE_MIN * 4_u32.pow(self.hole_count.min(5));
        self.hole_count += 1;
        self.last_hole = now;
        self.current = self.base;
        self.too_big = self.ceiling.saturating_add(1);
        self.raise_interval = RAISE_INTERVAL_MIN;
        self.run = None;
        self.big_acked = None;
        self.phase = Phase::Settled {
            until: Some(now + pause.min(RAISE_INTERVAL_MAX)),
        };
    }

    /// Whether a packet at least as large, sent later, is known to have passed.
    fn was_passed_by(&self, packet: &MtuPacket) -> bool {
        self.big_acked
            .is_some_and(|big| big.number > packet.number && big.size >= packet.size)
    }

    /// The run was chance: its losses are losses like others.
    fn end_run(&mut self) {
        if let Some(run) = self.run.take() {
            for _ in 0..run.count.min(HOLE_RUN_MAX) {
                self.count_packet(true);
            }
        }
    }

    fn count_packet(&mut self, is_lost: bool) {
        self.loss += LOSS_GAIN * (f64::from(u8::from(is_lost)) - self.loss);
    }

    /// Probes that a size is given.
    fn tries(&self) -> u32 {
        events_until(MISS_PROBABILITY, self.loss).clamp(TRIES_MIN, TRIES_MAX)
    }
}

/// Losses in a row that are no chance at a loss rate of `loss`, which is an
/// estimate: a quarter and five points are added for its error and for bursts.
fn hole_run(loss: f64) -> u32 {
    events_until(HOLE_PROBABILITY, 1.25 * loss + 0.05).clamp(HOLE_RUN_MIN, HOLE_RUN_MAX)
}

/// The least n with `each`^n ≤ `probability`.
fn events_until(probability: f64, each: f64) -> u32 {
    if each <= 0.0 {
        return 1;
    }
    if each >= 1.0 {
        return u32::MAX;
    }
    // The cast saturates.
    (probability.ln() / each.ln()).ceil() as u32
}

#[cfg(test)]
mod tests;
