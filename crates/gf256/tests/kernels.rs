//! Every kernel that this machine can run gives the bytes of `naive`, over all
//! short lengths and offsets, every factor, and lengths of real packets, and
//! writes nothing beside its destination.

use ctcp_gf256::{Kernel, Term};
use ctcp_units::Random;

/// Past the longest tile of every kernel, and the register after it.
const LEN_MAX: usize = if cfg!(miri) { 70 } else { 330 };
const SHORT_LEN_MAX: usize = if cfg!(miri) { 40 } else { 130 };
const OFFSETS: usize = if cfg!(miri) { 2 } else { 17 };

fn random() -> Random {
    let seed = std::env::var("CTCP_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    println!("CTCP_SEED={seed}");
    Random::from_seed(seed)
}

fn random_bytes(random: &mut Random, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    bytes
}

/// Runs `operation` on `kernel` and on `naive` inside the same surroundings
/// and compares destination and surroundings.
fn compare(kernel: Kernel, surroundings: &[u8], what: &str, operation: impl Fn(Kernel, &mut [u8])) {
    let mut ours = surroundings.to_vec();
    let mut expected = surroundings.to_vec();
    operation(kernel, &mut ours);
    operation(Kernel::NAIVE, &mut expected);
    assert_eq!(ours, expected, "{kernel}: {what}");
}

#[test]
fn every_kernel_agrees_with_naive_over_all_short_lengths_and_offsets() {
    let mut random = random();
    let around = random_bytes(&mut random, LEN_MAX + 2 * OFFSETS);
    let source = random_bytes(&mut random, LEN_MAX + 2 * OFFSETS);
    for kernel in Kernel::available() {
        for len in 0..=SHORT_LEN_MAX {
            for offset in 0..OFFSETS {
                let c = random.next_u64() as u8;
                let from = (offset * 5) % OFFSETS;
                let (dst, src) = (offset..offset + len, &source[from..from + len]);
                let what = format!("{len} bytes from {from} to {offset}, factor {c}");
                compare(kernel, &around, &what, |k, bytes| {
                    k.add(&mut bytes[dst.clone()], src);
                });
                compare(kernel, &around, &what, |k, bytes| {
                    k.mul(&mut bytes[dst.clone()], c);
                });
                compare(kernel, &around, &what, |k, bytes| {
                    k.mul_into(&mut bytes[dst.clone()], c, src);
                });
                compare(kernel, &around, &what, |k, bytes| {
                    k.mul_add(&mut bytes[dst.clone()], c, src);
                });
            }
        }
    }
}

#[test]
fn every_kernel_agrees_with_naive_for_every_factor() {
    let mut random = random();
    let around = random_bytes(&mut random, 256);
    let source: Vec<u8> = (0..=255).collect();
    let step = if cfg!(miri) { 37 } else { 1 };
    for kernel in Kernel::available() {
        for c in (0..=255).step_by(step) {
            let what = format!("factor {c}");
            compare(kernel, &around, &what, |k, dst| k.mul_add(dst, c, &source));
            compare(kernel, &around, &what, |k, dst| k.mul_into(dst, c, &source));
            compare(kernel, &source, &what, |k, dst| k.mul(dst, c));
        }
    }
}

/// `R` destinations side by side in one buffer, each with a gap behind it.
fn fused<const R: usize>(kernel: Kernel, random: &mut Random, len: usize, source_lens: &[usize]) {
    const GAP: usize = 3;
    let around = random_bytes(random, R * (len + GAP) + GAP);
    let sources: Vec<Vec<u8>> = source_lens
        .iter()
        .map(|&source_len| random_bytes(random, source_len))
        .collect();
    let terms: Vec<Term<'_, R>> = sources
        .iter()
        .map(|bytes| Term {
            coefficients: core::array::from_fn(|_| random.next_u64() as u8),
            bytes,
        })
        .collect();
    let what = format!("{R} sums of {len} bytes, sources of {source_lens:?}");
    compare(kernel, &around, &what, |k, bytes| {
        let mut parts = bytes[GAP..].chunks_mut(len + GAP);
        let dsts = core::array::from_fn(|_| &mut parts.next().expect("R parts")[..len]);
        k.mul_add_terms(dsts, &terms);
    });
}

#[test]
fn fused_sums_agree_with_naive_over_all_short_lengths() {
    let mut random = random();
    for kernel in Kernel::available() {
        for len in 0..=LEN_MAX {
            let source_count = random.below(7) as usize;
            let lens = vec![len; source_count];
            fused::<1>(kernel, &mut random, len, &lens);
            fused::<2>(kernel, &mut random, len, &lens);
            fused::<3>(kernel, &mut random, len, &lens);
            fused::<4>(kernel, &mut random, len, &lens);
        }
    }
}

#[test]
fn short_sources_count_as_if_zeros_followed() {
    let mut random = random();
    let rounds = if cfg!(miri) { 3 } else { 300 };
    for kernel in Kernel::available() {
        for _ in 0..rounds {
            let len = random.below(LEN_MAX as u64) as usize;
            let lens: Vec<usize> = (0..random.below(70))
                .map(|_| match random.below(3) {
                    0 => len,
                    1 => len / 2,
                    _ => random.below(len as u64 + 1) as usize,
                })
                .collect();
            fused::<1>(kernel, &mut random, len, &lens);
            fused::<4>(kernel, &mut random, len, &lens);
        }
    }
}

#[test]
fn packets_of_every_usual_length_agree_with_naive() {
    let mut random = random();
    let lens: &[usize] = if cfg!(miri) {
        &[257]
    } else {
        &[512, 1200, 1380, 1400, 1402, 1424, 1472, 8972]
    };
    for kernel in Kernel::available() {
        for &len in lens {
            fused::<1>(kernel, &mut random, len, &[len; 32]);
            fused::<2>(kernel, &mut random, len, &[len; 33]);
            fused::<3>(kernel, &mut random, len, &[len; 5]);
            fused::<4>(kernel, &mut random, len, &[len; 8]);
        }
    }
}

#[test]
fn a_copy_shorter_than_its_place_is_followed_by_zeros() {
    for kernel in Kernel::available() {
        let mut dst = [9; 40];
        kernel.mul_into(&mut dst, 1, &[7; 33]);
        assert_eq!(dst[..33], [7; 33], "{kernel}");
        assert_eq!(dst[33..], [0; 7], "{kernel}");
    }
}
