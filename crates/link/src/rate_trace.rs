//! A rate that varies as a recorded trace says.
//!
//! Format: that of mahimahi's `mm-link`. One line is one opportunity to deliver
//! 1500 bytes, at so many milliseconds from the start; a moment with several
//! opportunities repeats its line. At the end the trace starts over, shifted by
//! its last time. Bytes are what counts: one opportunity carries several small
//! packets, a long packet needs several opportunities, and an opportunity that
//! finds the queue empty is wasted.
//!
//! Departure: empty lines and lines that begin with `#` are skipped.

use std::sync::Arc;

use ctcp_units::{Duration, Instant, Rate};
use thiserror::Error;

/// Bytes that one opportunity delivers.
pub const OPPORTUNITY_BYTES: u32 = 1500;

const NANOS_PER_MILLI: u64 = 1_000_000;

/// Why a text is not a rate trace.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RateTraceError {
    /// There is not one opportunity in it.
    #[error("the trace is empty: it needs one line per 1500-byte delivery, each a time in ms")]
    Empty,
    /// A line is not a whole number of milliseconds.
    #[error("line {line}: `{text}` is not a whole number of milliseconds (0 to 4294967295)")]
    NotMillis {
        /// Counted from 1.
        line: usize,
        /// What stands there, at most its first 40 characters.
        text: String,
    },
    /// A time is earlier than the one before it.
    #[error("line {line}: {millis} ms comes after {previous} ms; times may repeat but not go back")]
    GoesBack {
        /// Counted from 1.
        line: usize,
        /// The time there.
        millis: u32,
        /// The time before it.
        previous: u32,
    },
    /// All opportunities are at 0 ms, so that the trace would repeat without
    /// time passing.
    #[error("the last time of the trace is 0 ms: it is the length of the trace and must be more")]
    NoLength,
}

/// Delivery opportunities of 1500 bytes each, repeated for ever.
///
/// Cheap to clone: the times are shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateTrace {
    /// Never empty, never going back, the last above 0.
    millis: Arc<[u32]>,
}

impl RateTrace {
    /// Reads a trace in mahimahi's format.
    pub fn parse(text: &str) -> Result<Self, RateTraceError> {
        let mut millis = Vec::new();
        let mut previous = 0;
        for (index, line) in text.lines().enumerate() {
            let trimmed = line.trim();
            if trimmed.is_empty() || trimmed.starts_with('#') {
                continue;
            }
            let line = index + 1;
            let time = trimmed
                .parse::<u32>()
                .map_err(|_| RateTraceError::NotMillis {
                    line,
                    text: trimmed.chars().take(40).collect(),
                })?;
            if time < previous {
                return Err(RateTraceError::GoesBack {
                    line,
                    millis: time,
                    previous,
                });
            }
            previous = time;
            millis.push(time);
        }
        Self::checked(millis)
    }

    /// A trace of opportunities at these times, in milliseconds from its start.
    ///
    /// Errors name the index, counted from 1, as the line.
    pub fn from_millis(millis: Vec<u32>) -> Result<Self, RateTraceError> {
        for (index, pair) in millis.windows(2).enumerate() {
            if pair[1] < pair[0] {
                return Err(RateTraceError::GoesBack {
                    line: index + 2,
                    millis: pair[1],
                    previous: pair[0],
                });
            }
        }
        Self::checked(millis)
    }

    fn checked(millis: Vec<u32>) -> Result<Self, RateTraceError> {
        match millis.last() {
            None => Err(RateTraceError::Empty),
            Some(0) => Err(RateTraceError::NoLength),
            Some(_) => Ok(Self {
                millis: millis.into(),
            }),
        }
    }

    /// Time after which the trace repeats.
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.period_nanos())
    }

    /// Opportunities in one period.
    pub fn opportunity_count(&self) -> usize {
        self.millis.len()
    }

    /// The rate over a whole period.
    pub fn mean_rate(&self) -> Rate {
        let bytes = self.millis.len() as u64 * u64::from(OPPORTUNITY_BYTES);
        Rate::from_bytes_in(bytes, self.period())
    }

    fn period_nanos(&self) -> u64 {
        u64::from(self.millis[self.millis.len() - 1]) * NANOS_PER_MILLI
    }

    /// When opportunity `index`, counted from 0 over all repetitions, comes if
    /// the trace began at `origin`.
    pub(crate) fn time_of(&self, origin: Instant, index: u64) -> Instant {
        let count = self.millis.len() as u64;
        let into_period = u64::from(self.millis[(index % count) as usize]) * NANOS_PER_MILLI;
        let nanos = (index / count)
            .saturating_mul(self.period_nanos())
            .saturating_add(into_period);
        origin + Duration::from_nanos(nanos)
    }

    /// The first opportunity later than `now`.
    pub(crate) fn first_after(&self, origin: Instant, now: Instant) -> u64 {
        let elapsed = now.as_nanos().saturating_sub(origin.as_nanos());
        let count = self.millis.len() as u64;
        let period = self.period_nanos();
        let into_period = elapsed % period;
        let passed = self
            .millis
            .partition_point(|&millis| u64::from(millis) * NANOS_PER_MILLI <= into_period);
        elapsed / period * count + passed as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctcp_units::millis;

    #[test]
    fn a_trace_repeats_shifted_by_its_last_time() {
        let trace = RateTrace::parse("# two a ms\n0\n3\n3\n\n10\n").unwrap();
        assert_eq!(trace.opportunity_count(), 4);
        assert_eq!(trace.period(), millis(10));
        assert_eq!(trace.mean_rate(), Rate::kbit(4800));
        let origin = Instant::from_nanos(500);
        let times: Vec<_> = (0..9)
            .map(|index| (trace.time_of(origin, index) - origin).as_millis())
            .collect();
        assert_eq!(times, [0, 3, 3, 10, 10, 13, 13, 20, 20]);
    }

    #[test]
    fn the_first_opportunity_after_a_moment_is_later_than_it() {
        let trace = RateTrace::from_millis(vec![0, 3, 3, 10]).unwrap();
        let origin = Instant::from_nanos(7);
        for nanos in (0..45_000_000).step_by(250_000) {
            let now = origin + Duration::from_nanos(nanos);
            let index = trace.first_after(origin, now);
            assert!(trace.time_of(origin, index) > now);
            assert!(index == 0 || trace.time_of(origin, index - 1) <= now);
        }
    }

    #[test]
    fn one_line_with_1_is_a_packet_each_millisecond() {
        let trace = RateTrace::parse("1").unwrap();
        assert_eq!(trace.mean_rate(), Rate::mbit(12));
    }

    #[test]
    fn errors_name_the_line() {
        assert_eq!(RateTrace::parse("\n# none\n"), Err(RateTraceError::Empty));
        assert_eq!(RateTrace::parse("0\n0"), Err(RateTraceError::NoLength));
        assert_eq!(
            RateTrace::parse("1\n2.5\n"),
            Err(RateTraceError::NotMillis {
                line: 2,
                text: "2.5".into()
            })
        );
        assert_eq!(
            RateTrace::parse("4\n\n3\n"),
            Err(RateTraceError::GoesBack {
                line: 3,
                millis: 3,
                previous: 4
            })
        );
        assert!(RateTrace::parse("-1").is_err());
        assert!(RateTrace::parse("4294967296").is_err());
    }
}
