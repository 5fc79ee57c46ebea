//! How fast do the pixels of a crop reach their place, next to a plain copy of as many bytes?

use std::hint::black_box;

use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput, measurement::WallTime};
use plimsoll_bench::run;
use plimsoll_workloads::sr::crop::{Orientation, place_crop};

/// A small input, and the target of a large one; 12 KiB and 192 KiB, both within the second cache of a server's core.
const EDGES: [u32; 2] = [64, 256];

const TRANSPOSED: Orientation = Orientation { transpose: true, flip_x: false, flip_y: false };

fn main() {
    run(|criterion: &mut Criterion| {
        let mut group = criterion.benchmark_group("crops");
        for edge in EDGES {
            group.throughput(Throughput::Bytes(3 * u64::from(edge).pow(2)));
            copy(&mut group, edge);
            place(&mut group, "identity", edge, Orientation::IDENTITY);
            place(&mut group, "transposed", edge, TRANSPOSED);
        }
        group.finish();
    });
}

fn copy(group: &mut BenchmarkGroup<'_, WallTime>, edge: u32) {
    let (source, mut into) = crop(edge);
    group.bench_function(BenchmarkId::new("copy", edge), |b| {
        b.iter(|| black_box(&mut into).copy_from_slice(black_box(&source)));
    });
}

fn place(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, edge: u32, orientation: Orientation) {
    let (source, mut into) = crop(edge);
    group.bench_function(BenchmarkId::new(name, edge), |b| {
        b.iter(|| place_crop(black_box(&source), edge, black_box(orientation), black_box(&mut into)));
    });
}

/// Returns a crop, and a place for it.
fn crop(edge: u32) -> (Vec<u8>, Vec<u8>) {
    let source: Vec<u8> = (0..=250).cycle().take(3 * (edge as usize).pow(2)).collect();
    let into = vec![0; source.len()];
    (source, into)
}
