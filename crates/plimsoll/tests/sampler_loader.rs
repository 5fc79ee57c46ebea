//! A data loader that a program writes around the sampler.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[expect(dead_code, reason = "its `main` only shows what the test looks at")]
#[path = "../examples/sampler_loader.rs"]
mod sampler_loader;

use std::sync::Arc;

use burn::data::dataloader::DataLoader;
use burn::data::dataset::Dataset;
use burn::tensor::{Device, Int, Tensor};
use sampler_loader::{MAX_WORDS, Pad, Planned, pairs};

type Loader = Arc<dyn DataLoader<[Tensor<2, Int>; 2]>>;

/// Pairs and words without the padding of an epoch.
#[track_caller]
fn check(loader: &Loader, n_pairs: usize, n_words: [usize; 2]) -> usize {
    let (mut all, mut words, mut n_batches) = (0, [0; 2], 0);
    let mut iter = loader.iter();
    while let Some(batch) = iter.next() {
        for ((side, most), words) in batch.unwrap().iter().zip(MAX_WORDS).zip(&mut words) {
            let [n, longest] = side.dims();
            assert!((n * longest) as u64 <= most, "{n} of {longest} words, at most {most}");
            *words += side.clone().into_data().iter::<i64>().filter(|word| *word != 0).count();
        }
        all = iter.progress().items_processed;
        n_batches += 1;
    }
    assert_eq!((all, words, loader.num_items()), (n_pairs, n_words, n_pairs));
    n_batches
}

#[test]
fn every_pair_comes_once_and_each_side_keeps_its_own_limit() {
    let dataset = pairs(2_000);
    let words = |part: std::ops::Range<usize>| {
        let of = |side: usize| part.clone().map(|id| dataset.get(id).unwrap()[side].len()).sum();
        [of(0), of(1)]
    };
    let device = Device::flex();
    let loader: Loader =
        Arc::new(Planned::try_new(pairs(2_000), Pad, |pair| pair.each_ref().map(Vec::len), &device).unwrap());
    let n_batches = check(&loader, 2_000, words(0..2_000));
    // As many as the words alone would fill, and what padding on two sides takes.
    let least = words(0..2_000).iter().zip(MAX_WORDS).map(|(n, most)| (*n as u64).div_ceil(most)).max().unwrap();
    assert!((n_batches as u64) < 2 * least, "{n_batches} batches, {least} at least");
    check(&loader.slice(500, 900).to_device(&device), 400, words(500..900));
    check(&loader.slice(500, 900).slice(100, 150), 50, words(600..650));
}
