//! Time to encode and decode one generation of packets with 1400 bytes of
//! content, beside two other crates in the same run.
//!
//! Equal work: each decodes to the same bytes from the same packets lost, and
//! each result is checked before anything is timed. What is *not* equal, by the
//! others' design: `rlnc` codes whole blocks, so its systematic packets are unit
//! vectors that pass through its elimination; `reed-solomon-simd` is a fixed-rate
//! block code over GF(2^16) that neither codes prefixes nor tells rank on-line.
//!
//! * `encode`: symbols are in place, the payloads of all repairs are made.
//!   `reed-solomon-simd` has to be handed the symbols for each run (a copy);
//!   `ctcp, with push` does as much.
//! * `decode`: from an empty decoder, all packets that arrive are put in and the
//!   lost symbols are available; `ctcp, coded packets only` starts when the
//!   systematic packets are in.
//!
//! Throughput counts the content of the whole generation.

use core::hint::black_box;

use criterion::{
    BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main,
    measurement::WallTime,
};
use ctcp_gf256::Kernel;
use ctcp_rlnc::{Decoder, Encoder, Insertion, LEN_PREFIX_BYTES, Repair, coefficients};
use ctcp_units::{Random, SymbolId};
use rand::RngCore;
use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};

const CONTENT_LEN: usize = 1400;
const SYMBOL_LEN: usize = CONTENT_LEN + LEN_PREFIX_BYTES;
const FIRST: SymbolId = SymbolId(0);

/// One generation and what happens to it.
struct Case {
    contents: Vec<Vec<u8>>,
    lost: Vec<u8>,
    repairs: Vec<Repair>,
}

impl Case {
    fn new(count: u8, lost_count: u8) -> Self {
        let mut random = Random::from_seed(1);
        let mut contents = vec![vec![0; CONTENT_LEN]; count.into()];
        for content in &mut contents {
            random.fill(content);
        }
        Self {
            contents,
            // Spread over the generation.
            lost: (0..lost_count)
                .map(|i| i * (count / lost_count) + 1)
                .collect(),
            repairs: (0..lost_count.into()).map(Repair::uniform).collect(),
        }
    }

    fn count(&self) -> u8 {
        self.contents.len() as u8
    }

    fn arriving(&self) -> impl Iterator<Item = (u8, &[u8])> {
        let all = (0..).zip(&self.contents);
        all.filter(|(index, _)| !self.lost.contains(index))
            .map(|(index, content)| (index, &content[..]))
    }

    fn encoder(&self, kernel: Kernel) -> Encoder {
        let mut encoder = Encoder::new(FIRST, SYMBOL_LEN).with_kernel(kernel);
        push_all(&mut encoder, &self.contents);
        encoder
    }
}

fn push_all(encoder: &mut Encoder, contents: &[Vec<u8>]) {
    for content in contents {
        encoder.push(content).expect("it fits");
    }
}

fn insert_systematic(decoder: &mut Decoder, case: &Case) {
    for (index, content) in case.arriving() {
        decoder
            .insert_systematic(index, content)
            .expect("an honest packet");
    }
}

fn insert_coded(decoder: &mut Decoder, case: &Case, payloads: &[u8]) {
    for (&repair, payload) in case.repairs.iter().zip(payloads.chunks(SYMBOL_LEN)) {
        let insertion = decoder.insert_coded(repair, case.count(), payload);
        assert_eq!(insertion, Ok(Insertion::Innovative));
    }
    assert!(decoder.is_complete(case.count()));
}

fn ours_encode(group: &mut BenchmarkGroup<'_, WallTime>, case: &Case) {
    let mut out = Vec::new();
    for kernel in Kernel::available() {
        let encoder = case.encoder(kernel);
        group.bench_function(format!("ctcp/{kernel}"), |b| {
            b.iter(|| encoder.encode_many(&case.repairs, case.count(), black_box(&mut out)));
        });
    }
    let mut encoder = case.encoder(Kernel::active());
    group.bench_function("ctcp, with push", |b| {
        b.iter(|| {
            encoder.reset(FIRST, SYMBOL_LEN);
            push_all(&mut encoder, &case.contents);
            encoder.encode_many(&case.repairs, case.count(), black_box(&mut out))
        });
    });
}

fn ours_decode(group: &mut BenchmarkGroup<'_, WallTime>, case: &Case) {
    let mut payloads = Vec::new();
    let encoder = case.encoder(Kernel::active());
    encoder
        .encode_many(&case.repairs, case.count(), &mut payloads)
        .expect("repairs");
    for kernel in Kernel::available() {
        let mut decoder = Decoder::with_kernel(FIRST, SYMBOL_LEN, kernel);
        insert_systematic(&mut decoder, case);
        insert_coded(&mut decoder, case, &payloads);
        for &index in &case.lost {
            let content = decoder.content(index);
            assert_eq!(content, Some(&case.contents[usize::from(index)][..]));
        }
        group.bench_function(format!("ctcp/{kernel}"), |b| {
            b.iter(|| {
                decoder.reset(FIRST, SYMBOL_LEN);
                insert_systematic(&mut decoder, case);
                insert_coded(&mut decoder, case, &payloads);
            });
        });
    }
    group.bench_function("ctcp, coded packets only", |b| {
        b.iter_batched_ref(
            || {
                // Warm memory, as after earlier generations.
                let mut decoder = Decoder::new(FIRST, SYMBOL_LEN);
                insert_systematic(&mut decoder, case);
                insert_coded(&mut decoder, case, &payloads);
                decoder.reset(FIRST, SYMBOL_LEN);
                insert_systematic(&mut decoder, case);
                decoder
            },
            |decoder| insert_coded(decoder, case, &payloads),
            BatchSize::NumIterations(32),
        );
    });
}

/// Hands a coding vector to an encoder that insists on drawing it.
struct Given<'a>(&'a [u8]);

impl RngCore for Given<'_> {
    fn next_u32(&mut self) -> u32 {
        0
    }

    fn next_u64(&mut self) -> u64 {
        0
    }

    fn fill_bytes(&mut self, dst: &mut [u8]) {
        dst.copy_from_slice(self.0);
    }
}

/// One byte less than the contents: the crate adds an end mark.
fn rlnc_encoder(case: &Case) -> (Vec<u8>, rlnc::full::Encoder) {
    let mut data = case.contents.concat();
    data.pop();
    let encoder = rlnc::full::Encoder::new(data.clone(), case.contents.len()).expect("a block");
    (data, encoder)
}

fn coding_vectors(case: &Case) -> Vec<Vec<u8>> {
    let mut vectors = vec![vec![0; case.contents.len()]; case.repairs.len()];
    for (vector, &repair) in vectors.iter_mut().zip(&case.repairs) {
        coefficients(FIRST, repair, vector).expect("a repair");
    }
    vectors
}

fn rlnc_encode(group: &mut BenchmarkGroup<'_, WallTime>, case: &Case) {
    let (_, encoder) = rlnc_encoder(case);
    let mut piece = vec![0; encoder.get_full_coded_piece_byte_len()];
    let vectors = coding_vectors(case);
    group.bench_function("crate rlnc", |b| {
        b.iter(|| {
            for vector in &vectors {
                encoder.code_with_buf(&mut Given(vector), black_box(&mut piece))?;
            }
            Ok::<(), rlnc::RLNCError>(())
        });
    });
}

fn rlnc_decode(group: &mut BenchmarkGroup<'_, WallTime>, case: &Case) {
    let (data, encoder) = rlnc_encoder(case);
    let units = case.arriving().map(|(index, _)| {
        let mut unit = vec![0; case.contents.len()];
        unit[usize::from(index)] = 1;
        unit
    });
    let vectors = units.chain(coding_vectors(case));
    let pieces: Vec<_> = vectors
        .map(|vector| encoder.code(&mut Given(&vector)))
        .collect();
    let decode = || {
        let piece_len = encoder.get_piece_byte_len();
        let mut decoder = rlnc::full::Decoder::new(piece_len, pieces.len()).expect("a block");
        for piece in &pieces {
            decoder.decode(piece).expect("innovative");
        }
        decoder.get_decoded_data().expect("complete")
    };
    assert_eq!(decode(), data);
    group.bench_function("crate rlnc", |b| b.iter(decode));
}

fn rs_payloads(case: &Case) -> Vec<Vec<u8>> {
    let mut encoder = ReedSolomonEncoder::new(case.contents.len(), case.repairs.len(), CONTENT_LEN)
        .expect("supported");
    for content in &case.contents {
        encoder.add_original_shard(content).expect("a shard");
    }
    let encoded = encoder.encode().expect("all shards are there");
    encoded.recovery_iter().map(<[u8]>::to_vec).collect()
}

fn rs_encode(group: &mut BenchmarkGroup<'_, WallTime>, case: &Case) {
    let (count, repair_count) = (case.contents.len(), case.repairs.len());
    let mut encoder = ReedSolomonEncoder::new(count, repair_count, CONTENT_LEN).expect("supported");
    group.bench_function("crate reed-solomon-simd", |b| {
        b.iter(|| {
            for content in &case.contents {
                encoder.add_original_shard(content).expect("a shard");
            }
            black_box(encoder.encode().expect("all shards are there"));
        });
    });
}

fn rs_decode(group: &mut BenchmarkGroup<'_, WallTime>, case: &Case) {
    let (count, repair_count) = (case.contents.len(), case.repairs.len());
    let payloads = rs_payloads(case);
    let mut decoder = ReedSolomonDecoder::new(count, repair_count, CONTENT_LEN).expect("supported");
    let mut decode = |check: bool| {
        for (index, content) in case.arriving() {
            decoder
                .add_original_shard(index.into(), content)
                .expect("a shard");
        }
        for (index, payload) in payloads.iter().enumerate() {
            decoder.add_recovery_shard(index, payload).expect("a shard");
        }
        let decoded = black_box(decoder.decode().expect("enough shards"));
        if check {
            for &index in &case.lost {
                let restored = decoded.restored_original(index.into());
                assert_eq!(restored, Some(&case.contents[usize::from(index)][..]));
            }
        }
    };
    decode(true);
    group.bench_function("crate reed-solomon-simd", |b| b.iter(|| decode(false)));
}

fn benches(c: &mut Criterion) {
    println!("active kernel: {}", Kernel::active());
    for (count, lost_count) in [(32, 2), (32, 8), (128, 8)] {
        let case = Case::new(count, lost_count);
        let bytes = Throughput::Bytes(u64::from(count) * CONTENT_LEN as u64);

        let name = format!("N={count}, encode {lost_count} repairs");
        let mut group = c.benchmark_group(name);
        group.throughput(bytes.clone());
        ours_encode(&mut group, &case);
        rlnc_encode(&mut group, &case);
        rs_encode(&mut group, &case);
        group.finish();

        let mut group = c.benchmark_group(format!("N={count}, decode {lost_count} losses"));
        group.throughput(bytes);
        ours_decode(&mut group, &case);
        rlnc_decode(&mut group, &case);
        rs_decode(&mut group, &case);
        group.finish();
    }
}

criterion_group! {
    name = codes;
    config = Criterion::default()
        .warm_up_time(core::time::Duration::from_millis(200))
        .measurement_time(core::time::Duration::from_millis(800));
    targets = benches
}
criterion_main!(codes);
