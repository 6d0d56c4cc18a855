//! Bytes per second of each kernel on packets of 1400 bytes.
//!
//! Throughput counts source bytes times destinations: the multiply-adds done.
//! Everything stays in the first cache level; each result is checked against
//! `naive` before it is timed.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ctcp_gf256::{Kernel, Term};
use ctcp_units::Random;

const LEN: usize = 1400;

/// Packets in one buffer, each at a multiple of 64 bytes in it.
const STRIDE: usize = LEN.next_multiple_of(64);

fn packets(random: &mut Random, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count * STRIDE];
    random.fill(&mut bytes);
    bytes
}

fn terms<'a, const R: usize>(random: &mut Random, sources: &'a [u8]) -> Vec<Term<'a, R>> {
    let sources = sources.chunks(STRIDE);
    let term = |bytes: &'a [u8]| Term {
        coefficients: core::array::from_fn(|_| random.next_u64() as u8),
        bytes: &bytes[..LEN],
    };
    sources.map(term).collect()
}

fn run<const R: usize>(kernel: Kernel, dsts: &mut [u8], terms: &[Term<'_, R>]) {
    let mut parts = dsts.chunks_mut(STRIDE);
    let dsts = core::array::from_fn(|_| &mut parts.next().expect("R packets")[..LEN]);
    kernel.mul_add_terms(dsts, terms);
}

fn fused<const R: usize>(c: &mut Criterion, source_count: usize) {
    let mut random = Random::from_seed(1);
    let sources = packets(&mut random, source_count);
    let terms = terms::<R>(&mut random, &sources);
    let before = packets(&mut random, R);
    let mut expected = before.clone();
    run(Kernel::NAIVE, &mut expected, &terms);

    let mut group = c.benchmark_group(format!("{source_count} sources into {R}"));
    group.throughput(Throughput::Bytes((R * source_count * LEN) as u64));
    for kernel in Kernel::available() {
        let mut dsts = before.clone();
        run(kernel, &mut dsts, &terms);
        assert_eq!(dsts, expected, "{kernel}");
        group.bench_function(BenchmarkId::from_parameter(kernel), |b| {
            b.iter(|| run(kernel, &mut dsts, &terms));
        });
    }
    group.finish();
}

fn one_source(c: &mut Criterion) {
    let mut random = Random::from_seed(2);
    let src = packets(&mut random, 1);
    let mut dst = packets(&mut random, 1);
    let (src, dst) = (&src[..LEN], &mut dst[..LEN]);
    for (name, operation) in [
        ("add", Kernel::add as fn(Kernel, &mut [u8], &[u8])),
        ("multiply-add", |k, dst, src| k.mul_add(dst, 0x53, src)),
        ("multiply", |k, dst, src| k.mul_into(dst, 0x53, src)),
    ] {
        let mut group = c.benchmark_group(name);
        group.throughput(Throughput::Bytes(LEN as u64));
        for kernel in Kernel::available() {
            let (mut ours, mut expected) = (dst.to_vec(), dst.to_vec());
            operation(kernel, &mut ours, src);
            operation(Kernel::NAIVE, &mut expected, src);
            assert_eq!(ours, expected, "{kernel}");
            group.bench_function(BenchmarkId::from_parameter(kernel), |b| {
                b.iter(|| operation(kernel, dst, src));
            });
        }
        group.finish();
    }
}

fn benches(c: &mut Criterion) {
    println!("active kernel: {}", Kernel::active());
    one_source(c);
    fused::<1>(c, 4);
    fused::<1>(c, 8);
    fused::<1>(c, 32);
    fused::<2>(c, 32);
    fused::<4>(c, 8);
    fused::<4>(c, 32);
}

criterion_group! {
    name = kernels;
    config = Criterion::default()
        .warm_up_time(core::time::Duration::from_millis(200))
        .measurement_time(core::time::Duration::from_millis(600));
    targets = benches
}
criterion_main!(kernels);
