//! Packets per second of one core through one link: offered, queued, delivered.
//!
//! The timed region is `send`, `next_event` and `poll_delivery` of every packet
//! over a filled queue, in virtual time, as the simulator calls them.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ctcp_link::{GilbertElliott, Jitter, Link, LinkConfig, LossModel, Packet};
use ctcp_units::{Instant, LossRate, Rate, micros, millis};

const PACKETS: u64 = 100_000;

/// Offers a packet every 480 µs to a link of 25 Mbit/s, after a burst that fills
/// its queue, and checks that all are accounted for.
fn carry(config: &LinkConfig) -> u64 {
    let mut link = Link::new(config.clone(), 7, Instant::EPOCH).expect("a valid configuration");
    for index in 0..50 {
        link.send(Instant::EPOCH, Packet::new(1500, index));
    }
    let mut sum = 0;
    for index in 50..PACKETS {
        let now = Instant::EPOCH + micros(480 * (index - 49));
        while let Some(event) = link.next_event().filter(|&event| event <= now) {
            while let Some(delivered) = link.poll_delivery(event) {
                sum += delivered.payload;
            }
        }
        link.send(now, Packet::new(1500, index));
    }
    let counters = link.counters();
    assert!(counters.is_conserved() && counters.offered == PACKETS);
    assert!(counters.delivered > PACKETS / 2);
    sum
}

fn bench(c: &mut Criterion) {
    let plain = || LinkConfig::new(Rate::mbit(25), micros(12_500)).queue_bdp(1.0, millis(25));
    let chain =
        GilbertElliott::from_mean_and_burst(LossRate::clamped(0.05), 8.0).expect("possible bursts");
    let bernoulli = LossModel::Bernoulli(LossRate::clamped(0.05));
    let configs = [
        ("plain", plain()),
        ("bernoulli", plain().loss(bernoulli.clone())),
        (
            "gilbert_elliott",
            plain().loss(LossModel::GilbertElliott(chain)),
        ),
        (
            "everything",
            plain()
                .loss(bernoulli.clone())
                .loss_after(bernoulli)
                .jitter(Jitter::Noise {
                    max: millis(30),
                    interval: millis(50),
                })
                .reordering(0.05, millis(5))
                .duplication(0.01)
                .corruption(0.01),
        ),
    ];
    let mut group = c.benchmark_group("link");
    group.throughput(Throughput::Elements(PACKETS));
    for (name, config) in &configs {
        group.bench_function(*name, |b| b.iter(|| carry(black_box(config))));
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
