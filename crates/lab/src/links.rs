//! From a point's path to the links of the emulator.

use ctcp_link::{
    EcnMarking, GilbertElliott, Interference, LinkConfig, LossModel, Position as Place, QueueSize,
};
use ctcp_units::{Duration, LossRate, Rate};

use crate::point::{Loss, Path, Position, Process};

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
    down.validate().map_err(|error| error.to_string())?;
    Ok(Links {
        up: direction(&path.loss_up)?,
        down,
    })
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
    use ctcp_link::{QueueSize, RateLimit};

    fn path(process: Process) -> Path {
        Path {
            rate_mbit: 25.0,
            rtt_ms: 25.0,
            queue_bdp: 1.0,
            mtu_bytes: 1500,
            loss_down: Loss {
                position: Position::After,
                process,
            },
            loss_up: Loss {
                position: Position::Before,
                process: Process::None,
            },
            hops: 1,
            ecn_queue_share: None,
        }
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
