//! Links with any mix of properties, drawn at random.

use ctcp_link::{
    GilbertElliott, Interference, Jitter, LinkConfig, LossModel, LossTrace, Outage, Position,
    QueueSize, RateLimit, RateTrace,
};
use ctcp_units::{Duration, LossRate, Random, Rate, micros, millis};

fn span(random: &mut Random, most: Duration) -> Duration {
    Duration::from_nanos(random.below(most.as_nanos() as u64 + 1))
}

fn random_rate(random: &mut Random) -> RateLimit {
    let rate = Rate::kbit(100 + random.below(50_000));
    match random.below(6) {
        0 => RateLimit::Unlimited,
        1 => RateLimit::Policer {
            rate,
            burst_bytes: 1500 + random.below(60_000),
        },
        2 => {
            let mut millis: Vec<u32> = (0..1 + random.below(40))
                .map(|_| random.below(30) as u32)
                .collect();
            millis.push(30);
            millis.sort_unstable();
            RateLimit::Trace(RateTrace::from_millis(millis).expect("sorted and not empty"))
        }
        _ => RateLimit::Fixed(rate),
    }
}

fn random_queue(random: &mut Random) -> QueueSize {
    if random.chance(0.5) {
        QueueSize::Bytes(1500 + random.below(100_000))
    } else {
        QueueSize::Packets(1 + random.below(60))
    }
}

fn random_loss(random: &mut Random) -> LossModel {
    let share = LossRate::clamped(random.unit() * 0.4);
    match random.below(6) {
        0 => LossModel::Bernoulli(share),
        1 => LossModel::GilbertElliott(
            GilbertElliott::from_mean_and_burst(share, 1.0 + random.unit() * 20.0)
                .expect("bursts of 1 and more give a loss below 1/2"),
        ),
        2 => LossModel::EveryNth(1 + random.below(30)),
        3 => {
            let period = micros(1 + random.below(30_000));
            LossModel::Interference(Interference {
                period,
                pulse: period / 3,
                phase: span(random, millis(100)),
            })
        }
        4 => {
            let start = span(random, millis(200));
            LossModel::Outages(vec![Outage {
                start,
                end: start + micros(1) + span(random, millis(50)),
            }])
        }
        _ => {
            let decisions = (0..50).map(|_| random.chance(0.1)).collect();
            LossModel::Trace(LossTrace::new(decisions, random.chance(0.5)).expect("50 decisions"))
        }
    }
}

fn random_jitter(random: &mut Random) -> Jitter {
    let max = span(random, millis(30));
    match random.below(4) {
        0 => Jitter::None,
        1 => Jitter::Uniform { max },
        2 => Jitter::Normal {
            mean: max,
            deviation: max / 3,
        },
        _ => Jitter::Noise {
            max,
            interval: millis(50),
        },
    }
}

/// A link with any mix of properties.
pub(crate) fn config(random: &mut Random) -> LinkConfig {
    let mut config = LinkConfig::unlimited(span(random, millis(50)))
        .rate(random_rate(random))
        .queue(random_queue(random))
        .jitter(random_jitter(random));
    for _ in 0..random.below(4) {
        let position = if random.chance(0.5) {
            Position::Before
        } else {
            Position::After
        };
        config = config.loss_at(position, random_loss(random));
    }
    if random.chance(0.3) {
        config = config.ecn_threshold(random_queue(random));
    }
    if random.chance(0.3) {
        config = config.reordering(random.unit() * 0.2, span(random, millis(20)));
    }
    if random.chance(0.3) {
        config = config
            .duplication(random.unit() * 0.3)
            .corruption(random.unit() * 0.3);
    }
    if random.chance(0.3) {
        config = config.lets_overtake();
    }
    if random.chance(0.3) {
        config = config
            .delay_change(millis(40), span(random, millis(50)))
            .delay_change(millis(90), span(random, millis(50)));
    }
    if random.chance(0.2) {
        config = config.mtu(1400);
    }
    if random.chance(0.1) {
        config.inside_packets_max = 1 + random.below(40) as usize;
    }
    config
}
