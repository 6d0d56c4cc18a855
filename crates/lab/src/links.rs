//! From a point's path to the links of the emulator.

use ctcp_link::{
    EcnMarking, GilbertElliott, Interference, Jitter, LinkConfig, LossModel, LossPhase, Outage,
    Position as Place, QueueSize, RateLimit, RateTrace,
};
use ctcp_units::{Duration, LossRate, Rate};

use crate::point::{Loss, Path, Position, Process, RatePhase};

/// Bits of a full packet: what a trace lets go at a time.
const OPPORTUNITY_BITS: u32 = 1500 * 8;

/// Changes of the delay that a run can see; the last one stays.
const RTT_PHASES_MAX: usize = 1000;

/// Both directions of a path.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Links {
    pub(crate) up: LinkConfig,
    pub(crate) down: LinkConfig,
}

/// The links of one hop of a path; the error names what a link does not do.
///
/// The queue is in bytes: one bandwidth-delay product is rate · RTT, the round
/// trip over all hops.
pub(crate) fn of_path(path: &Path) -> Result<Links, String> {
    let rate = Rate::bits_per_second((path.rate_mbit * 1e6).round() as u64);
    let rtt = millis(path.rtt_ms);
    let direction = |loss: &Loss| {
        let delay = rtt / (2 * path.hops.max(1));
        let link = LinkConfig::new(rate, delay).queue_bdp(path.queue_bdp, rtt);
        let place = match loss.position {
            Position::Before => Place::Before,
            Position::After => Place::After,
        };
        let link = models(&loss.process, path)?
            .into_iter()
            .fold(link, |link, model| link.loss_at(place, model));
        link.validate().map_err(|error| error.to_string())?;
        Ok::<_, String>(link)
    };
    let mut down = direction(&path.loss_down)?;
    down.ecn = path.ecn_queue_share.map(|share| EcnMarking {
        threshold: QueueSize::bdp(path.queue_bdp * share, rate, rtt),
        drops_not_capable: false,
    });
    change(&mut down, path)?;
    let mut up = direction(&path.loss_up)?;
    for link in [&mut down, &mut up] {
        change_delay(link, path);
        change_loss(link, path);
        link.validate().map_err(|error| error.to_string())?;
    }
    Ok(Links { up, down })
}

/// What makes the data direction more than a rate, a queue and a loss.
fn change(down: &mut LinkConfig, path: &Path) -> Result<(), String> {
    if let Some(noise) = path.noise {
        down.jitter = Jitter::Noise {
            max: millis(noise.max_ms),
            interval: millis(noise.interval_ms),
        };
    }
    if !path.rate_phases.is_empty() {
        let trace = RateTrace::from_millis(opportunities(&path.rate_phases));
        down.rate = RateLimit::Trace(trace.map_err(|error| error.to_string())?);
    }
    if let Some(burst_bytes) = path.policer_burst_bytes {
        down.rate = RateLimit::Policer {
            rate: Rate::bits_per_second((path.rate_mbit * 1e6).round() as u64),
            burst_bytes,
        };
    }
    Ok(())
}

/// When packets of 1500 bytes may leave, in milliseconds, over one round of the
/// phases.
fn opportunities(phases: &[RatePhase]) -> Vec<u32> {
    let mut times = Vec::new();
    let mut from_ms = 0.0;
    for phase in phases {
        let until_ms = from_ms + phase.for_s * 1e3;
        let gap_ms = f64::from(OPPORTUNITY_BITS) / (phase.rate_mbit * 1e3);
        let count = ((until_ms - from_ms) / gap_ms).floor() as u32;
        times.extend((1..=count).map(|n| (from_ms + f64::from(n) * gap_ms) as u32));
        from_ms = until_ms;
    }
    // The trace begins again at its last time.
    if let Some(last) = times.last_mut() {
        *last = from_ms as u32;
    }
    times
}

/// Half of each phase's round trip goes to either direction.
fn change_delay(link: &mut LinkConfig, path: &Path) {
    if path.rtt_phases.is_empty() {
        return;
    }
    let mut at = Duration::ZERO;
    for phase in path.rtt_phases.iter().cycle().take(RTT_PHASES_MAX) {
        *link = link.clone().delay_change(at, millis(phase.rtt_ms) / 2);
        at += millis(phase.for_s * 1e3);
    }
}

/// What either direction loses for a while.
fn change_loss(link: &mut LinkConfig, path: &Path) {
    if !path.loss_phases.is_empty() {
        let phases = path.loss_phases.iter().map(|phase| LossPhase {
            length: millis(phase.for_s * 1e3),
            share: LossRate::clamped(phase.loss),
        });
        *link = link.clone().loss(LossModel::Phases(phases.collect()));
    }
    if !path.outages.is_empty() {
        let outages = path.outages.iter().map(|outage| Outage {
            start: millis(outage.from_s * 1e3),
            end: millis((outage.from_s + outage.for_s) * 1e3),
        });
        *link = link.clone().loss(LossModel::Outages(outages.collect()));
    }
}

fn models(process: &Process, path: &Path) -> Result<Vec<LossModel>, String> {
    let share = |value: f64| LossRate::clamped(value);
    Ok(match *process {
        Process::None => vec![],
        Process::Bernoulli { share: 0.0 } => vec![],
        Process::Bernoulli { share: value } => vec![LossModel::Bernoulli(share(value))],
        Process::EveryNth { n } => vec![LossModel::EveryNth(n)],
        Process::GilbertElliott {
            share: value,
            burst_packets,
        } => {
            let chain = GilbertElliott::from_mean_and_burst(share(value), burst_packets);
            let chain = chain.map_err(|error| error.to_string())?;
            vec![LossModel::GilbertElliott(chain)]
        }
        Process::Interference {
            period_ms,
            pulse_ms,
            phy_mbit,
            noise_share,
            retries,
        } => {
            if retries > 0 {
                return Err(format!(
                    "{retries} retries on the air: the emulator sends a frame once; \
                     run this point in the simulator"
                ));
            }
            if (phy_mbit - path.rate_mbit).abs() > 1e-6 * phy_mbit {
                return Err(format!(
                    "frames are on the air at {phy_mbit} Mbit/s while the path has {} Mbit/s: \
                     the emulator knows one rate",
                    path.rate_mbit
                ));
            }
            let pulses = LossModel::Interference(Interference {
                period: millis(period_ms),
                pulse: millis(pulse_ms),
                phase: Duration::ZERO,
            });
            match noise_share > 0.0 {
                true => vec![pulses, LossModel::Bernoulli(share(noise_share))],
                false => vec![pulses],
            }
        }
    })
}

fn millis(value: f64) -> Duration {
    Duration::from_nanos((value * 1e6).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::point::{LossPhase as Phase, Noise, Outage as Gap, RttPhase};
    use crate::testbed::test_support;

    fn path(process: Process) -> Path {
        Path {
            loss_down: Loss {
                position: Position::After,
                process,
            },
            ..test_support::path()
        }
    }

    #[test]
    fn losses_in_phases_and_outages_are_in_both_directions() {
        let mut path = path(Process::None);
        path.loss_phases = [(10.0, 0.0), (5.0, 0.2)]
            .map(|(for_s, loss)| Phase { for_s, loss })
            .into();
        path.outages = vec![Gap {
            from_s: 8.0,
            for_s: 20.0,
        }];
        let links = of_path(&path).expect("possible");
        for link in [&links.up, &links.down] {
            let [phases, outages] = &link.losses[..] else {
                panic!("{:?}", link.losses);
            };
            let LossModel::Phases(phases) = &phases.model else {
                panic!("{phases:?}");
            };
            assert_eq!(phases[1].length, Duration::from_secs(5));
            assert_eq!(phases[1].share, LossRate::clamped(0.2));
            let outage = Outage {
                start: Duration::from_secs(8),
                end: Duration::from_secs(28),
            };
            assert_eq!(outages.model, LossModel::Outages(vec![outage]));
        }
    }

    #[test]
    fn a_rate_in_phases_has_the_mean_of_its_phases_and_the_queue_of_its_first() {
        let mut path = path(Process::None);
        path.rate_phases = [(10.0, 25.0), (10.0, 5.0)]
            .map(|(for_s, rate_mbit)| RatePhase { for_s, rate_mbit })
            .into();
        let links = of_path(&path).expect("possible");
        let RateLimit::Trace(trace) = &links.down.rate else {
            panic!("{:?} is no trace", links.down.rate);
        };
        assert_eq!(trace.period(), Duration::from_secs(20));
        let mean = trace.mean_rate().as_bits_per_second() as f64;
        assert!((mean / 15e6 - 1.0).abs() < 1e-3, "{mean} bit/s");
        assert_eq!(links.down.queue, QueueSize::Bytes(78_125));
        assert_eq!(links.up.rate, RateLimit::Fixed(Rate::mbit(25)));
    }

    #[test]
    fn round_trips_in_phases_change_both_directions_by_half() {
        let mut path = path(Process::None);
        path.rtt_phases = [(15.0, 40.0), (15.0, 70.0)]
            .map(|(for_s, rtt_ms)| RttPhase { for_s, rtt_ms })
            .into();
        let links = of_path(&path).expect("possible");
        for link in [&links.up, &links.down] {
            let second = link.delay_changes[1];
            assert_eq!(second.at, Duration::from_secs(15));
            assert_eq!(second.delay, Duration::from_millis(35));
            assert_eq!(link.delay_changes[2].delay, Duration::from_millis(20));
        }
    }

    #[test]
    fn a_policer_and_noise_are_in_the_data_direction_alone() {
        let mut path = path(Process::None);
        path.policer_burst_bytes = Some(64_000);
        path.noise = Some(Noise {
            max_ms: 30.0,
            interval_ms: 50.0,
        });
        let links = of_path(&path).expect("possible");
        assert!(matches!(
            links.down.rate,
            RateLimit::Policer {
                burst_bytes: 64_000,
                ..
            }
        ));
        assert!(matches!(links.down.jitter, Jitter::Noise { .. }));
        assert_eq!(links.up.jitter, Jitter::None);
        assert_eq!(links.up.rate, RateLimit::Fixed(Rate::mbit(25)));
    }

    #[test]
    fn a_path_has_half_its_round_trip_each_way_and_its_queue_in_bytes() {
        let links = of_path(&path(Process::Bernoulli { share: 0.01 })).expect("possible");
        assert_eq!(links.up.delay, Duration::from_micros(12_500));
        assert_eq!(links.down.delay, Duration::from_micros(12_500));
        assert_eq!(links.down.queue, QueueSize::Bytes(78_125));
        assert_eq!(links.down.rate, RateLimit::Fixed(Rate::mbit(25)));
        assert!(links.up.losses.is_empty());
        assert_eq!(links.down.losses.len(), 1);
        assert_eq!(links.down.losses[0].position, Place::After);
    }

    #[test]
    fn frames_that_are_sent_again_on_the_air_are_refused_by_name() {
        let oven = |retries, phy_mbit| Process::Interference {
            period_ms: 20.0,
            pulse_ms: 9.0,
            phy_mbit,
            noise_share: 0.01,
            retries,
        };
        let links = of_path(&path(oven(0, 25.0))).expect("possible");
        assert_eq!(links.down.losses.len(), 2);
        let error = of_path(&path(oven(3, 25.0))).expect_err("impossible");
        assert!(error.contains("3 retries"), "{error}");
        let error = of_path(&path(oven(0, 11.0))).expect_err("impossible");
        assert!(error.contains("11 Mbit/s"), "{error}");
    }

    #[test]
    fn bursts_that_cannot_be_are_refused() {
        let process = Process::GilbertElliott {
            share: 0.75,
            burst_packets: 1.0,
        };
        let error = of_path(&path(process)).expect_err("impossible");
        assert!(error.contains("burst"), "{error}");
    }
}
