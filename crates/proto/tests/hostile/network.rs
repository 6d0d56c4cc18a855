//! Random networks and random limits, each drawn from a seed.

use ctcp_link::{
    EcnMarking, GilbertElliott, Jitter, LinkConfig, LossModel, Outage, QueueSize, Reordering,
};
use ctcp_proto::stream::{Side, StreamsConfig};
use ctcp_proto::{MtuMode, Redundancy, TransportConfig};
use ctcp_units::{Duration, LossRate, Random, Rate, millis, seconds};

/// What both directions are like for a while.
pub(crate) struct Phase {
    pub(crate) span: Duration,
    pub(crate) up: LinkConfig,
    pub(crate) down: LinkConfig,
}

/// One of the values.
pub(crate) fn pick<T: Copy>(random: &mut Random, values: &[T]) -> T {
    values[random.below(values.len() as u64) as usize]
}

fn between(random: &mut Random, low: f64, high: f64) -> f64 {
    low + (high - low) * random.unit()
}

/// Evenly on a logarithmic scale.
fn scaled(random: &mut Random, low: f64, high: f64) -> f64 {
    (between(random, low.ln(), high.ln())).exp()
}

/// The network after the hostile phases, on which everything must complete.
pub(crate) fn good(random: &mut Random) -> LinkConfig {
    let rate = Rate::kbit(between(random, 10_000.0, 50_000.0) as u64);
    let delay = Duration::from_micros(between(random, 100.0, 20_000.0) as u64);
    LinkConfig::new(rate, delay)
}

/// A network through which nothing passes.
pub(crate) fn dead() -> LinkConfig {
    LinkConfig::unlimited(millis(1)).loss(LossModel::Bernoulli(LossRate::ONE))
}

/// Up to four phases, six seconds in all.
pub(crate) fn hostile(random: &mut Random, fixed_mtu: bool) -> Vec<Phase> {
    let count = 1 + random.below(4);
    (0..count)
        .map(|_| {
            let up = link(random, fixed_mtu);
            // Half of the networks are alike both ways but for their luck.
            let down = if random.chance(0.5) {
                up.clone()
            } else {
                link(random, fixed_mtu)
            };
            let span = Duration::from_micros(scaled(random, 50e3, 1.5e6) as u64);
            Phase { span, up, down }
        })
        .collect()
}

fn link(random: &mut Random, fixed_mtu: bool) -> LinkConfig {
    let delay = Duration::from_micros(scaled(random, 50.0, 150e3) as u64);
    let mut config = if random.chance(0.1) {
        LinkConfig::unlimited(delay)
    } else {
        LinkConfig::new(Rate::kbit(scaled(random, 300.0, 100_000.0) as u64), delay)
    };
    config.queue = QueueSize::Packets(scaled(random, 2.0, 300.0) as u64);
    if random.chance(0.7) {
        config = config.loss(loss(random));
    }
    if random.chance(0.2) {
        config = config.loss_after(loss(random));
    }
    config.jitter = match random.below(4) {
        0 => Jitter::Uniform {
            max: Duration::from_micros(scaled(random, 100.0, 60e3) as u64),
        },
        1 => Jitter::Noise {
            max: millis(1 + random.below(40)),
            interval: millis(50),
        },
        _ => Jitter::None,
    };
    config.keeps_order = random.chance(0.7);
    if random.chance(0.3) {
        config.reordering = Some(Reordering {
            share: random.unit() * 0.3,
            extra: Duration::from_micros(scaled(random, 500.0, 100e3) as u64),
        });
    }
    if random.chance(0.3) {
        config.duplication_share = random.unit() * 0.3;
    }
    if random.chance(0.3) {
        config.corruption_share = random.unit() * 0.2;
    }
    if random.chance(0.3) && !fixed_mtu {
        // IP and UDP headers count here; what carries 1200 bytes is taken for
        // granted.
        config = config.mtu(1228 + random.below(280) as u32);
    }
    if random.chance(0.3) {
        config.ecn = Some(EcnMarking {
            threshold: QueueSize::Packets(1 + random.below(20)),
            drops_not_capable: random.chance(0.2),
        });
    }
    config
}

fn loss(random: &mut Random) -> LossModel {
    match random.below(8) {
        0..=3 => LossModel::Bernoulli(LossRate::clamped(random.unit() * 0.4)),
        4 | 5 => {
            let mean = LossRate::clamped(random.unit() * 0.4);
            let burst = scaled(random, 1.0, 30.0);
            LossModel::GilbertElliott(
                GilbertElliott::from_mean_and_burst(mean, burst)
                    .expect("bursts of one or more fit a mean below a half"),
            )
        }
        6 => LossModel::EveryNth(2 + random.below(30)),
        _ => {
            let start = Duration::from_micros(random.below(500_000));
            let end = start + Duration::from_micros(scaled(random, 1e3, 3e6) as u64);
            LossModel::Outages(vec![Outage { start, end }])
        }
    }
}

/// Settings of both ends, tight more often than not.
pub(crate) fn transport(random: &mut Random) -> TransportConfig {
    let max_stream_data = 8192 + random.below(56 << 10);
    let (max_streams, local_streams_max) = (2 + random.below(14), 2 + random.below(14));
    let reserved = (max_streams + local_streams_max) * max_stream_data;
    let mut config = TransportConfig {
        redundancy: pick(
            random,
            &[
                Redundancy::Auto,
                Redundancy::Auto,
                Redundancy::Cc14,
                Redundancy::Mp12,
                Redundancy::TcpCd,
                Redundancy::None,
            ],
        ),
        block_symbols: pick(random, &[1, 2, 5, 16, 32, 32, 32, 64, 255]),
        blocks_max: pick(random, &[1, 2, 7, 64, 4095]),
        window_symbols: pick(random, &[64, 100, 256, 1000, 16_384]),
        idle_timeout: seconds(20),
        keep_alive: pick(random, &[None, Some(seconds(1)), Some(seconds(15))]),
        handshake_timeout: seconds(60),
        is_ecn_enabled: random.chance(0.7),
        ..TransportConfig::default()
    };
    config.mtu = match random.below(4) {
        0 => MtuMode::Fixed(1200 + random.below(273) as u16),
        1 => MtuMode::Probed {
            ceiling: 1200 + random.below(273) as u16,
        },
        _ => MtuMode::Probed { ceiling: 1472 },
    };
    // Half of them the default, the rest any there is.
    config.congestion = match random.chance(0.5) {
        true => "auto".to_owned(),
        false => {
            let names = ctcp_congestion::controllers();
            names[random.below(names.len() as u64) as usize]
                .name
                .to_owned()
        }
    };
    config.streams = StreamsConfig {
        max_data: reserved * 4 / 3 + 8 + random.below(1 << 20),
        max_stream_data,
        stream_window_max: max_stream_data + random.below(1 << 20),
        max_streams,
        local_streams_max,
        send_buffer_floor: 8192 + random.below(8192),
        stream_send_buffer_max: 8192 + random.below(128 << 10),
        send_buffer_bytes_max: 8192 + random.below(256 << 10),
        side: Side::Client,
    };
    config
}
