//! The rate limiter: when the packet at the head of the queue has left.
//!
//! One packet is in transmission at a time. Its end is known when it begins and
//! moves only if the rate is changed under way.

use ctcp_units::{Duration, Instant, Rate};

use crate::rate_trace::{OPPORTUNITY_BYTES, RateTrace};

/// A bit that one nanosecond at 1 bit/s would take a billionth of. Counting in
/// this unit keeps a change of rate in mid-packet exact.
const NANOBITS_PER_BYTE: u64 = 8_000_000_000;

/// How fast packets leave the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RateLimit {
    /// At once: there is no queue.
    Unlimited,
    /// One bit after another at a fixed rate. At rate zero nothing leaves until
    /// the link is reconfigured.
    Fixed(Rate),
    /// At the opportunities of a trace, which began when the configuration took
    /// effect.
    Trace(RateTrace),
    /// A token bucket without a queue: a packet passes at once if the bucket
    /// holds its length, and is dropped if not.
    Policer {
        /// How fast the bucket fills.
        rate: Rate,
        /// What it holds, and starts with, in bytes.
        burst_bytes: u64,
    },
}

impl RateLimit {
    /// The rate in the long run; none without a limit.
    pub fn mean(&self) -> Option<Rate> {
        match self {
            Self::Unlimited => None,
            Self::Fixed(rate) | Self::Policer { rate, .. } => Some(*rate),
            Self::Trace(trace) => Some(trace.mean_rate()),
        }
    }
}

/// A [`RateLimit`] at work.
#[derive(Debug)]
pub(crate) struct Limiter {
    kind: Kind,
    /// When the transmission of the head began; of a trace, when it ends.
    began: Instant,
    /// When it ends. Meaningful while the queue is not empty.
    ends: Instant,
}

#[derive(Debug)]
enum Kind {
    Unlimited,
    Fixed {
        rate: Rate,
        /// What was left of the head at `since`, in billionths of a bit.
        nanobits: u128,
        since: Instant,
    },
    Trace {
        trace: RateTrace,
        origin: Instant,
        /// The opportunity that the last packet used.
        index: u64,
        /// Bytes that it left of it.
        spare_bytes: u32,
    },
    Policer {
        rate: Rate,
        depth: u128,
        /// In billionths of a bit.
        tokens: u128,
        filled_at: Instant,
    },
}

impl Kind {
    fn new(limit: &RateLimit, now: Instant) -> Self {
        match limit {
            RateLimit::Unlimited => Self::Unlimited,
            RateLimit::Fixed(rate) => Self::Fixed {
                rate: *rate,
                nanobits: 0,
                since: now,
            },
            RateLimit::Trace(trace) => Self::Trace {
                trace: trace.clone(),
                origin: now,
                index: 0,
                spare_bytes: 0,
            },
            RateLimit::Policer { rate, burst_bytes } => {
                let depth = u128::from(*burst_bytes) * u128::from(NANOBITS_PER_BYTE);
                Self::Policer {
                    rate: *rate,
                    depth,
                    tokens: depth,
                    filled_at: now,
                }
            }
        }
    }
}

fn nanobits(len_bytes: u32) -> u128 {
    u128::from(len_bytes) * u128::from(NANOBITS_PER_BYTE)
}

impl Limiter {
    pub(crate) fn new(limit: &RateLimit, now: Instant) -> Self {
        Self {
            kind: Kind::new(limit, now),
            began: now,
            ends: now,
        }
    }

    /// Whether packets wait in a queue at all.
    pub(crate) fn queues(&self) -> bool {
        !matches!(self.kind, Kind::Unlimited | Kind::Policer { .. })
    }

    /// When the transmission of the head began.
    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// When it ends.
    pub(crate) fn ends(&self) -> Instant {
        self.ends
    }

    /// Whether a limiter without a queue lets a packet pass at `now`.
    pub(crate) fn passes(&mut self, now: Instant, len_bytes: u32) -> bool {
        let Kind::Policer {
            rate,
            depth,
            tokens,
            filled_at,
        } = &mut self.kind
        else {
            return true;
        };
        let filled = (now - *filled_at).as_nanos() * u128::from(rate.as_bits_per_second());
        *filled_at = now;
        *tokens = (*tokens + filled).min(*depth);
        match tokens.checked_sub(nanobits(len_bytes)) {
            Some(rest) => {
                *tokens = rest;
                true
            }
            None => false,
        }
    }

    /// Begins to transmit a packet of `len_bytes` that came to an idle limiter.
    pub(crate) fn begin_idle(&mut self, now: Instant, len_bytes: u32) {
        if let Kind::Trace {
            trace,
            origin,
            index,
            spare_bytes,
        } = &mut self.kind
        {
            // What the past offered is wasted, the rest of the present too.
            *index = trace.first_after(*origin, now);
            *spare_bytes = OPPORTUNITY_BYTES;
        }
        self.begin(now, len_bytes);
    }

    /// Begins to transmit the next packet right after the last one.
    pub(crate) fn begin_next(&mut self, len_bytes: u32) {
        self.begin(self.ends, len_bytes);
    }

    fn begin(&mut self, at: Instant, len_bytes: u32) {
        self.began = at;
        self.ends = match &mut self.kind {
            Kind::Unlimited | Kind::Policer { .. } => at,
            Kind::Fixed {
                rate,
                nanobits: left,
                since,
            } => {
                *left = nanobits(len_bytes);
                *since = at;
                at + time_for(*rate, *left)
            }
            Kind::Trace {
                trace,
                origin,
                index,
                spare_bytes,
            } => {
                if let Some(beyond) = len_bytes.checked_sub(*spare_bytes).filter(|&b| b > 0) {
                    let more = beyond.div_ceil(OPPORTUNITY_BYTES);
                    *index += u64::from(more);
                    *spare_bytes =
                        (u64::from(more) * u64::from(OPPORTUNITY_BYTES) - u64::from(beyond)) as u32;
                } else {
                    *spare_bytes -= len_bytes;
                }
                let ends = trace.time_of(*origin, *index);
                self.began = ends;
                ends
            }
        };
    }

    /// Goes over to another limit at `now`. `head_len_bytes` is the packet in
    /// transmission, if there is one.
    ///
    /// Between two fixed rates the rest of that packet goes at the new one; with
    /// any other pair its transmission starts over.
    pub(crate) fn change(&mut self, now: Instant, limit: &RateLimit, head_len_bytes: Option<u32>) {
        if let (
            Kind::Fixed {
                rate,
                nanobits: left,
                since,
            },
            RateLimit::Fixed(new_rate),
        ) = (&mut self.kind, limit)
        {
            let sent = (now - *since).as_nanos() * u128::from(rate.as_bits_per_second());
            *left = left.saturating_sub(sent);
            *since = now;
            *rate = *new_rate;
            self.ends = now + time_for(*new_rate, *left);
            return;
        }
        self.kind = Kind::new(limit, now);
        match head_len_bytes {
            Some(len_bytes) => self.begin_idle(now, len_bytes),
            None => (self.began, self.ends) = (now, now),
        }
    }
}

/// Time for so many billionths of a bit, rounded up to whole nanoseconds.
fn time_for(rate: Rate, nanobits: u128) -> Duration {
    let bits_per_second = rate.as_bits_per_second();
    if bits_per_second == 0 {
        return Duration::MAX;
    }
    // Division by a 128-bit number costs several times that by one of 64, and
    // every packet of a real link fits.
    let nanos = match u64::try_from(nanobits) {
        Ok(small) => small.div_ceil(bits_per_second),
        Err(_) => u64::try_from(nanobits.div_ceil(u128::from(bits_per_second))).unwrap_or(u64::MAX),
    };
    Duration::from_nanos(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctcp_units::{micros, millis, seconds};

    fn at(span: Duration) -> Instant {
        Instant::EPOCH + span
    }

    #[test]
    fn a_packet_takes_its_length_over_the_rate_rounded_up() {
        let mut limiter = Limiter::new(&RateLimit::Fixed(Rate::mbit(25)), at(millis(0)));
        limiter.begin_idle(at(millis(1)), 1500);
        assert_eq!(limiter.ends(), at(micros(1480)));
        limiter.begin_next(1);
        assert_eq!(limiter.ends(), at(Duration::from_nanos(1_480_320)));

        let third = Rate::bits_per_second(3);
        let mut slow = Limiter::new(&RateLimit::Fixed(third), at(millis(0)));
        slow.begin_idle(at(millis(0)), 1);
        assert_eq!(slow.ends(), at(Duration::from_nanos(2_666_666_667)));
        slow.begin_idle(at(millis(0)), u32::MAX);
        assert_eq!(
            slow.ends() - at(millis(0)),
            third.time_for_bytes(u64::from(u32::MAX))
        );
    }

    #[test]
    fn a_change_of_rate_applies_to_the_rest_of_the_packet() {
        let mut limiter = Limiter::new(&RateLimit::Fixed(Rate::mbit(12)), at(millis(0)));
        limiter.begin_idle(at(millis(0)), 1500);
        assert_eq!(limiter.ends(), at(millis(1)));
        // A quarter has gone; the rest takes 4 × 0.75 ms at a quarter of the rate.
        limiter.change(
            at(micros(250)),
            &RateLimit::Fixed(Rate::mbit(3)),
            Some(1500),
        );
        assert_eq!(limiter.ends(), at(micros(3250)));
        // Halted at half a packet, and taken up again much later.
        limiter.change(at(micros(1250)), &RateLimit::Fixed(Rate::ZERO), Some(1500));
        assert_eq!(limiter.ends(), Instant::FAR_FUTURE);
        limiter.change(
            at(seconds(9)),
            &RateLimit::Fixed(Rate::mbit(12)),
            Some(1500),
        );
        assert_eq!(limiter.ends(), at(seconds(9)) + micros(500));
    }

    #[test]
    fn an_opportunity_carries_several_small_packets_and_a_long_one_needs_several() {
        let trace = RateTrace::from_millis(vec![10, 20, 30, 40]).unwrap();
        let mut limiter = Limiter::new(&RateLimit::Trace(trace), at(millis(0)));
        limiter.begin_idle(at(millis(3)), 700);
        assert_eq!(limiter.ends(), at(millis(10)));
        limiter.begin_next(800);
        assert_eq!(limiter.ends(), at(millis(10)));
        limiter.begin_next(1);
        assert_eq!(limiter.ends(), at(millis(20)));
        limiter.begin_next(3001);
        assert_eq!(limiter.ends(), at(millis(40)));
        // Idle: what is left of the opportunity at 40 ms is wasted.
        limiter.begin_idle(at(millis(40)), 1);
        assert_eq!(limiter.ends(), at(millis(50)));
    }

    #[test]
    fn a_policer_passes_its_burst_and_then_its_rate() {
        let limit = RateLimit::Policer {
            rate: Rate::mbit(12),
            burst_bytes: 3000,
        };
        let mut limiter = Limiter::new(&limit, at(millis(0)));
        let mut passes = |span| limiter.passes(at(span), 1500);
        assert!(passes(millis(0)) && passes(millis(0)) && !passes(millis(0)));
        assert!(!passes(micros(999)));
        assert!(passes(millis(1)));
        assert!(!passes(millis(1)));
        assert!(passes(seconds(1)) && passes(seconds(1)) && !passes(seconds(1)));
    }
}
