//! HyStart++: slow start ends when the delay grows, before the queue is full.
//!
//! Algorithm: [RFC9406] §4, with its constants. When the smallest RTT of a
//! round exceeds that of the round before by an eighth (4 to 16 ms), growth
//! falls to a quarter (conservative slow start); if the delay stays for five
//! rounds slow start is over, if it goes back it was noise and slow start
//! resumes.

use ctcp_units::{Duration, millis};

use crate::event::AckEvent;
use crate::round::Round;

const SAMPLES_NEEDED: u32 = 8;
const THRESHOLD_MIN: Duration = millis(4);
const THRESHOLD_MAX: Duration = millis(16);
const THRESHOLD_DIVISOR: u32 = 8;
const GROWTH_DIVISOR: f64 = 4.0;
const CONSERVATIVE_ROUNDS: u32 = 5;

/// What to do with the packets of one ACK.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Verdict {
    /// Grow as slow start does.
    Grow,
    /// Grow by so many times less.
    GrowSlowly(f64),
    /// Slow start is over.
    Exit,
}

/// The state of one slow start.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct HyStart {
    round: Round,
    smallest: Option<Duration>,
    smallest_before: Option<Duration>,
    sample_count: u32,
    conservative: Option<Conservative>,
}

/// Conservative slow start.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Conservative {
    baseline: Duration,
    round_count: u32,
}

impl HyStart {
    /// Takes in an ACK of slow start.
    pub(crate) fn on_ack(&mut self, ack: &AckEvent) -> Verdict {
        if self.round.begins_with(ack) {
            self.smallest_before = self.smallest.take();
            self.sample_count = 0;
            if let Some(conservative) = &mut self.conservative {
                conservative.round_count += 1;
                if conservative.round_count >= CONSERVATIVE_ROUNDS {
                    return Verdict::Exit;
                }
            }
        }
        if let Some(sample) = ack.rtt_sample {
            self.smallest = Some(
                self.smallest
                    .map_or(sample, |smallest| smallest.min(sample)),
            );
            self.sample_count += 1;
        }
        self.judge();
        match self.conservative {
            None => Verdict::Grow,
            Some(_) => Verdict::GrowSlowly(GROWTH_DIVISOR),
        }
    }

    fn judge(&mut self) {
        let Some(smallest) = self.smallest else {
            return;
        };
        if self.sample_count < SAMPLES_NEEDED {
            return;
        }
        match (self.conservative, self.smallest_before) {
            (Some(conservative), _) if smallest < conservative.baseline => {
                self.conservative = None;
            }
            (None, Some(before)) => {
                let threshold = (before / THRESHOLD_DIVISOR).clamp(THRESHOLD_MIN, THRESHOLD_MAX);
                if smallest >= before + threshold {
                    self.conservative = Some(Conservative {
                        baseline: smallest,
                        round_count: 0,
                    });
                }
            }
            _ => {}
        }
    }
}
