//! Which packets a link loses for reasons other than its queue.
//!
//! Each process has a generator of its own, so that adding one does not change
//! what another does.

use std::sync::Arc;

use ctcp_units::{Duration, Instant, LossRate, Random};
use thiserror::Error;

use crate::config::ConfigError;

/// One way of losing packets.
#[derive(Debug, Clone, PartialEq)]
pub enum LossModel {
    /// Each packet with the same probability, independently of the others.
    Bernoulli(LossRate),
    /// In bursts: a chain of two states that moves once per packet.
    GilbertElliott(GilbertElliott),
    /// Every `n`-th packet: number `n`, `2n`, … of those that reach the process.
    EveryNth(u64),
    /// Packets in the air during a pulse that comes back.
    Interference(Interference),
    /// Everything within these intervals, in order of time.
    Outages(Vec<Outage>),
    /// Shares that follow each other, again and again.
    Phases(Vec<LossPhase>),
    /// What a recording says, packet by packet.
    Trace(LossTrace),
}

impl LossModel {
    /// The share lost in the long run where it does not depend on time or
    /// traffic; none for interference, outages and phases.
    pub fn mean(&self) -> Option<LossRate> {
        match self {
            Self::Bernoulli(share) => Some(*share),
            Self::GilbertElliott(chain) => Some(chain.mean()),
            Self::EveryNth(n) => Some(LossRate::clamped(1.0 / *n as f64)),
            Self::Trace(trace) => Some(trace.mean()),
            Self::Interference(_) | Self::Outages(_) | Self::Phases(_) => None,
        }
    }

    /// Refuses values that make no sense, by name.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::Bernoulli(_) | Self::Trace(_) => Ok(()),
            Self::GilbertElliott(chain) => chain.validate(),
            Self::EveryNth(0) => Err(ConfigError::EveryZeroth),
            Self::EveryNth(_) => Ok(()),
            Self::Interference(pulses) => pulses.validate(),
            Self::Outages(outages) => validate_outages(outages),
            Self::Phases(phases) => validate_phases(phases),
        }
    }
}

/// Gilbert–Elliott loss: a good and a bad state, each with its own loss rate.
///
/// The packet meets the loss rate of the current state; then the chain moves.
/// It starts in a state drawn from its stationary distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GilbertElliott {
    /// Probability per packet to go from good to bad.
    pub good_to_bad: f64,
    /// Probability per packet to go from bad to good.
    pub bad_to_good: f64,
    /// Share lost in the good state.
    pub loss_good: LossRate,
    /// Share lost in the bad state.
    pub loss_bad: LossRate,
}

impl GilbertElliott {
    /// Gilbert's special case (good loses nothing, bad everything) that loses the
    /// share `mean` in bursts of `burst_packets` on average.
    ///
    /// With L the burst length, the bad state ends with probability 1/L and
    /// begins with p/(L·(1 − p)).
    ///
    /// # Errors
    /// [`ConfigError::BurstTooShort`] if `burst_packets` is below 1, or below
    /// what the mean asks for: at a loss of 3/4 bursts cannot be shorter than 3.
    pub fn from_mean_and_burst(mean: LossRate, burst_packets: f64) -> Result<Self, ConfigError> {
        let share = mean.share();
        let shortest = (share / (1.0 - share)).max(1.0);
        // Not `<`: a burst length of NaN is refused too.
        if !(burst_packets >= shortest && burst_packets.is_finite()) {
            return Err(ConfigError::BurstTooShort {
                burst_packets,
                shortest,
                mean,
            });
        }
        Ok(Self {
            good_to_bad: share / (burst_packets * (1.0 - share)),
            bad_to_good: 1.0 / burst_packets,
            loss_good: LossRate::ZERO,
            loss_bad: LossRate::ONE,
        })
    }

    /// Share of time in the bad state; 0 if the chain never moves.
    pub fn share_bad(&self) -> f64 {
        let moves = self.good_to_bad + self.bad_to_good;
        if moves > 0.0 {
            self.good_to_bad / moves
        } else {
            0.0
        }
    }

    /// The share lost in the long run.
    pub fn mean(&self) -> LossRate {
        let bad = self.share_bad();
        LossRate::clamped(bad * self.loss_bad.share() + (1.0 - bad) * self.loss_good.share())
    }

    fn validate(&self) -> Result<(), ConfigError> {
        for (name, value) in [
            ("good_to_bad", self.good_to_bad),
            ("bad_to_good", self.bad_to_good),
        ] {
            if !(0.0..=1.0).contains(&value) {
                return Err(ConfigError::ShareOutOfRange { name, value });
            }
        }
        Ok(())
    }
}

/// Pulses that come back, such as a microwave oven's: every packet whose time on
/// the air touches a pulse is lost.
///
/// After the rate limiter a packet is on the air for as long as its transmission
/// takes; before it, and without a fixed rate, for no longer than an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interference {
    /// From the start of one pulse to the start of the next.
    pub period: Duration,
    /// Length of a pulse.
    pub pulse: Duration,
    /// When the first pulse starts, from when the configuration took effect.
    /// Pulses before it are assumed.
    pub phase: Duration,
}

impl Interference {
    /// A 700 W microwave oven on 50 Hz mains: 9 ms of every 20 ms
    /// ([CC14] Fig. 7).
    pub const MICROWAVE_OVEN: Self = Self {
        period: Duration::from_millis(20),
        pulse: Duration::from_millis(9),
        phase: Duration::ZERO,
    };

    fn validate(&self) -> Result<(), ConfigError> {
        if self.period.is_zero() || self.period.as_nanos() > u128::from(u64::MAX / 4) {
            return Err(ConfigError::InterferencePeriod {
                period: self.period,
            });
        }
        if self.pulse > self.period {
            return Err(ConfigError::PulseTooLong {
                pulse: self.pulse,
                period: self.period,
            });
        }
        Ok(())
    }

    /// Whether `[from, to]` touches a pulse, the first having begun `phase` after
    /// `origin`.
    fn touches(&self, origin: Instant, from: Instant, to: Instant) -> bool {
        let period = self.period.as_nanos() as u64;
        let pulse = self.pulse.as_nanos() as u64;
        let phase = (self.phase.as_nanos() % u128::from(period)) as u64;
        let since_origin = from.saturating_since(origin).as_nanos() as u64;
        let into_period = (since_origin % period + period - phase) % period;
        let on_air = to.saturating_since(from).as_nanos() as u64;
        pulse > 0 && (into_period < pulse || on_air > period - into_period)
    }
}

/// An interval in which everything is lost: from `start` on, up to but not
/// including `end`, both counted from when the configuration took effect.
///
/// Before the rate limiter the moment of the packet's arrival decides, after it
/// the moment its transmission ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    /// The first moment lost.
    pub start: Duration,
    /// The first moment that passes again.
    pub end: Duration,
}

fn validate_outages(outages: &[Outage]) -> Result<(), ConfigError> {
    let mut free_from = Duration::ZERO;
    for (index, outage) in outages.iter().enumerate() {
        if outage.end <= outage.start {
            return Err(ConfigError::OutageEmpty {
                index,
                outage: *outage,
            });
        }
        if outage.start < free_from {
            return Err(ConfigError::OutagesOverlap { index });
        }
        free_from = outage.end;
    }
    Ok(())
}

/// A share lost for a while, each packet by itself. The moment of the packet's
/// arrival decides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LossPhase {
    /// For how long; the first phase begins when the configuration takes effect.
    pub length: Duration,
    /// What is lost meanwhile.
    pub share: LossRate,
}

/// The share at `since_origin`.
fn share_in_phases(phases: &[LossPhase], since_origin: Duration) -> LossRate {
    let period: Duration = phases.iter().map(|phase| phase.length).sum();
    let period_nanos = period.as_nanos().max(1);
    let mut rest = since_origin.as_nanos() % period_nanos;
    for phase in phases {
        let length = phase.length.as_nanos();
        if rest < length {
            return phase.share;
        }
        rest -= length;
    }
    LossRate::ZERO
}

fn validate_phases(phases: &[LossPhase]) -> Result<(), ConfigError> {
    match phases.iter().all(|phase| phase.length.is_zero()) {
        true => Err(ConfigError::PhasesEmpty),
        false => Ok(()),
    }
}

/// Why a text is not a loss trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum LossTraceError {
    /// There is not one decision in it.
    #[error("the loss trace is empty: it needs one 0 (passes) or 1 (lost) per packet")]
    Empty,
    /// A character is neither 0 nor 1.
    #[error(
        "line {line}: `{found}` is neither 0 (the packet passes) nor 1 (it is lost); \
         a comment begins with #"
    )]
    NotADecision {
        /// Counted from 1.
        line: usize,
        /// What stands there.
        found: char,
    },
}

/// A recorded decision for each packet: lost or not. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LossTrace {
    is_lost: Arc<[bool]>,
    repeats: bool,
}

impl LossTrace {
    /// A trace of decisions. At its end it starts over if `repeats`; else
    /// nothing more is lost.
    ///
    /// # Errors
    /// [`LossTraceError::Empty`] without a decision.
    pub fn new(is_lost: Vec<bool>, repeats: bool) -> Result<Self, LossTraceError> {
        if is_lost.is_empty() {
            return Err(LossTraceError::Empty);
        }
        Ok(Self {
            is_lost: is_lost.into(),
            repeats,
        })
    }

    /// Reads a `0` (passes) or a `1` (lost) per packet. White space and commas
    /// between them do not count; `#` begins a comment to the end of the line.
    pub fn parse(text: &str, repeats: bool) -> Result<Self, LossTraceError> {
        let mut is_lost = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let decisions = line.split('#').next().unwrap_or("");
            for found in decisions.chars() {
                match found {
                    '0' => is_lost.push(false),
                    '1' => is_lost.push(true),
                    ',' => {}
                    blank if blank.is_whitespace() => {}
                    _ => {
                        let line = index + 1;
                        return Err(LossTraceError::NotADecision { line, found });
                    }
                }
            }
        }
        Self::new(is_lost, repeats)
    }

    /// The share of its packets that the trace loses; zero in the long run if it
    /// does not repeat.
    pub fn mean(&self) -> LossRate {
        if !self.repeats {
            return LossRate::ZERO;
        }
        let lost = self.is_lost.iter().filter(|&&lost| lost).count();
        LossRate::clamped(lost as f64 / self.is_lost.len() as f64)
    }

    fn decide(&self, packet_index: u64) -> bool {
        let len = self.is_lost.len() as u64;
        if packet_index >= len && !self.repeats {
            return false;
        }
        self.is_lost[(packet_index % len) as usize]
    }
}

/// A [`LossModel`] at work.
#[derive(Debug, Clone)]
pub struct LossProcess {
    model: LossModel,
    random: Random,
    /// Times of the model count from here.
    origin: Instant,
    /// Packets that the process has decided on.
    seen: u64,
    /// The state of a Gilbert–Elliott chain.
    is_bad: bool,
    /// Outages that are over.
    outages_past: usize,
}

impl LossProcess {
    /// Starts `model` with `random`; its times count from `origin`.
    ///
    /// # Errors
    /// A [`ConfigError`] that names the impossible value.
    pub fn new(model: LossModel, random: Random, origin: Instant) -> Result<Self, ConfigError> {
        model.validate()?;
        Ok(Self::started(model, random, origin))
    }

    /// Starts a model that has been validated.
    pub(crate) fn started(model: LossModel, mut random: Random, origin: Instant) -> Self {
        let is_bad = match &model {
            LossModel::GilbertElliott(chain) => random.chance(chain.share_bad()),
            _ => false,
        };
        Self {
            model,
            random,
            origin,
            seen: 0,
            is_bad,
            outages_past: 0,
        }
    }

    /// The model at work.
    pub fn model(&self) -> &LossModel {
        &self.model
    }

    /// Decides on the next packet, on the air from `from` to `to`.
    ///
    /// Neither moment may be earlier than those of the packet before.
    pub fn takes(&mut self, from: Instant, to: Instant) -> bool {
        let packet_index = self.seen;
        self.seen += 1;
        match &self.model {
            LossModel::Bernoulli(share) => self.random.chance(share.share()),
            LossModel::GilbertElliott(chain) => {
                let (loss, leave) = if self.is_bad {
                    (chain.loss_bad, chain.bad_to_good)
                } else {
                    (chain.loss_good, chain.good_to_bad)
                };
                let is_lost = self.random.chance(loss.share());
                self.is_bad ^= self.random.chance(leave);
                is_lost
            }
            LossModel::EveryNth(n) => self.seen.is_multiple_of(*n),
            LossModel::Interference(pulses) => pulses.touches(self.origin, from, to),
            LossModel::Outages(outages) => {
                let since_origin = to.saturating_since(self.origin);
                let rest = &outages[self.outages_past..];
                self.outages_past += rest.iter().take_while(|o| o.end <= since_origin).count();
                outages
                    .get(self.outages_past)
                    .is_some_and(|outage| outage.start <= since_origin)
            }
            LossModel::Phases(phases) => {
                let share = share_in_phases(phases, from.saturating_since(self.origin));
                self.random.chance(share.share())
            }
            LossModel::Trace(trace) => trace.decide(packet_index),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctcp_units::{micros, millis};

    fn process(model: LossModel) -> LossProcess {
        LossProcess::new(model, Random::from_seed(1), Instant::EPOCH).unwrap()
    }

    fn takes_at(process: &mut LossProcess, at: Duration) -> bool {
        process.takes(Instant::EPOCH + at, Instant::EPOCH + at)
    }

    #[test]
    fn every_third_packet_is_the_third_and_the_sixth() {
        let mut every = process(LossModel::EveryNth(3));
        let lost: Vec<bool> = (0..7)
            .map(|_| takes_at(&mut every, Duration::ZERO))
            .collect();
        assert_eq!(lost, [false, false, true, false, false, true, false]);
    }

    #[test]
    fn an_outage_begins_at_its_start_and_is_over_at_its_end() {
        let mut outages = process(LossModel::Outages(vec![
            Outage {
                start: millis(10),
                end: millis(20),
            },
            Outage {
                start: millis(30),
                end: millis(31),
            },
        ]));
        for (at, lost) in [(9, false), (10, true), (19, true), (20, false)] {
            assert_eq!(takes_at(&mut outages, millis(at)), lost, "{at} ms");
        }
        for (at, lost) in [(30, true), (31, false), (99, false)] {
            assert_eq!(takes_at(&mut outages, millis(at)), lost, "{at} ms");
        }
    }

    #[test]
    fn phases_follow_each_other_and_begin_again() {
        let phase = |length, share| LossPhase {
            length: millis(length),
            share,
        };
        let phases = vec![phase(10, LossRate::ZERO), phase(5, LossRate::ONE)];
        let mut process = process(LossModel::Phases(phases));
        for (at, lost) in [(0, false), (9, false), (10, true), (14, true), (15, false)] {
            assert_eq!(takes_at(&mut process, millis(at)), lost, "{at} ms");
        }
        for (at, lost) in [(24, false), (25, true), (30, false), (1_000_017, true)] {
            assert_eq!(takes_at(&mut process, millis(at)), lost, "{at} ms");
        }
        for nothing in [vec![], vec![phase(0, LossRate::ONE)]] {
            let refused = LossModel::Phases(nothing).validate();
            assert_eq!(refused, Err(ConfigError::PhasesEmpty));
        }
    }

    #[test]
    fn a_packet_is_lost_if_its_time_on_the_air_touches_a_pulse() {
        let mut oven = process(LossModel::Interference(Interference::MICROWAVE_OVEN));
        let on_air = |oven: &mut LossProcess, from: u64, to: u64| {
            oven.takes(Instant::EPOCH + micros(from), Instant::EPOCH + micros(to))
        };
        assert!(on_air(&mut oven, 0, 0));
        assert!(on_air(&mut oven, 8_999, 9_500));
        assert!(!on_air(&mut oven, 9_000, 9_000));
        assert!(!on_air(&mut oven, 9_000, 20_000));
        assert!(on_air(&mut oven, 9_000, 20_001));
        // A 1500-byte frame at 1 Mbit/s takes 12 ms: it never fits the gap.
        for start in (40_000..60_000).step_by(100) {
            assert!(on_air(&mut oven, start, start + 12_000));
        }
    }

    #[test]
    fn a_phase_shifts_the_pulses() {
        let mut pulses = process(LossModel::Interference(Interference {
            period: millis(10),
            pulse: millis(1),
            phase: millis(4),
        }));
        for (at, lost) in [(3, false), (4, true), (5, false), (14, true), (24, true)] {
            assert_eq!(takes_at(&mut pulses, millis(at)), lost, "{at} ms");
        }
    }

    #[test]
    fn a_trace_ends_or_repeats() {
        let once = LossTrace::parse("0 1 # the second\n1", false).unwrap();
        let mut process_once = process(LossModel::Trace(once));
        let lost: Vec<bool> = (0..6)
            .map(|_| takes_at(&mut process_once, Duration::ZERO))
            .collect();
        assert_eq!(lost, [false, true, true, false, false, false]);

        let again = LossTrace::new(vec![true, false], true).unwrap();
        assert_eq!(again.mean(), LossRate::clamped(0.5));
        let mut process_again = process(LossModel::Trace(again));
        let lost: Vec<bool> = (0..4)
            .map(|_| takes_at(&mut process_again, Duration::ZERO))
            .collect();
        assert_eq!(lost, [true, false, true, false]);
    }

    #[test]
    fn trace_errors_name_the_line_and_the_character() {
        assert_eq!(
            LossTrace::parse(" # nothing", true),
            Err(LossTraceError::Empty)
        );
        assert_eq!(
            LossTrace::parse("01\n02", true),
            Err(LossTraceError::NotADecision {
                line: 2,
                found: '2'
            })
        );
    }

    #[test]
    fn impossible_bursts_and_intervals_are_refused_by_name() {
        for (mean, burst) in [(0.05, 0.5), (0.75, 2.9), (0.05, f64::NAN), (1.0, 8.0)] {
            assert!(matches!(
                GilbertElliott::from_mean_and_burst(LossRate::clamped(mean), burst),
                Err(ConfigError::BurstTooShort { .. })
            ));
        }
        assert!(GilbertElliott::from_mean_and_burst(LossRate::clamped(0.75), 3.0).is_ok());
        assert_eq!(
            LossModel::EveryNth(0).validate(),
            Err(ConfigError::EveryZeroth)
        );
        let outage = Outage {
            start: millis(5),
            end: millis(5),
        };
        assert_eq!(
            LossModel::Outages(vec![outage]).validate(),
            Err(ConfigError::OutageEmpty { index: 0, outage })
        );
    }
}
