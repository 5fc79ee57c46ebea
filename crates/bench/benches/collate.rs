//! How fast do samples reach their place in a batch, next to a plain copy of as many bytes?

use std::hint::black_box;

use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput, measurement::WallTime};
use plimsoll_bench::run;
use plimsoll_sampler::{MixedBuffer, MixedConfig, MixedImage, MixedSample, MixedShape};

/// Edges of images.
const EDGES: [u32; 2] = [64, 256];

/// Samples of a mixed batch: 1.1 MiB and 18 MiB at these edges, the latter beyond the second cache.
const N_MIXED: u32 = 16;

/// What they are padded to, but for the edge of the images.
const MIXED: MixedShape = MixedShape { images: 6, height: 0, width: 0, tokens: 64, labels: 64 };

const TOKENS: [u32; 64] = [7; 64];

const LABELS: [i32; 64] = [8; 64];

fn main() {
    run(|criterion: &mut Criterion| {
        let mut group = criterion.benchmark_group("collate_mixed");
        for edge in EDGES {
            mixed(&mut group, "full", edge, edge, |_| MIXED.images);
            mixed(&mut group, "ragged", edge, edge, |sample| 1 + sample % MIXED.images);
            mixed(&mut group, "smaller", edge, edge / 4 * 3, |_| MIXED.images);
        }
        group.finish();
    });
}

/// Collates samples whose images have `own_edge` into a batch of `edge`, next to a plain copy of as many bytes as the
/// samples have: padding is written too, but its bytes do not count.
fn mixed(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, edge: u32, own_edge: u32, n_images: fn(u32) -> u32) {
    let each = 3 * (own_edge as usize).pow(2);
    let n_images: Vec<_> = (0..N_MIXED).map(|sample| n_images(sample) as usize).collect();
    let source: Vec<u8> = (0..=250).cycle().take(each * n_images.iter().sum::<usize>()).collect();
    let image = |pixels| MixedImage { height: own_edge, width: own_edge, pixels };
    let images: Vec<_> = source.chunks(each).map(image).collect();
    let samples = samples(&images, &n_images);
    let n_bytes = source.len() + samples.len() * (size_of_val(&TOKENS) + size_of_val(&LABELS));
    group.throughput(Throughput::Bytes(n_bytes as u64));
    let (plain, mut into) = (vec![1u8; n_bytes], vec![0u8; n_bytes]);
    group.bench_function(BenchmarkId::new(format!("copy_{name}"), edge), |b| {
        b.iter(|| black_box(&mut into).copy_from_slice(black_box(&plain)));
    });
    let cell = MixedShape { height: edge, width: edge, ..MIXED };
    let mut buffer = MixedBuffer::with_capacity(MixedConfig::default(), &[(N_MIXED, cell)]);
    group.bench_function(BenchmarkId::new(name, edge), |b| {
        b.iter(|| {
            buffer.begin(cell);
            for sample in black_box(&samples) {
                buffer.push(sample).expect("room for the sample");
            }
            black_box(buffer.batch());
        });
    });
}

/// Returns samples with so many of the images each.
fn samples<'a>(mut images: &'a [MixedImage<'a>], n_images: &[usize]) -> Vec<MixedSample<'a>> {
    let sample = |(id, &n): (u64, &usize)| {
        let images = images.split_off(..n).expect("images for every sample");
        MixedSample { id, task: 0, images, tokens: &TOKENS, labels: &LABELS, metadata: &[] }
    };
    (0..).zip(n_images).map(sample).collect()
}
