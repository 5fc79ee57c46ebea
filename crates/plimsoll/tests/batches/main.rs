//! Steps and batches over a program's own dataset and batcher.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod axes;
mod epochs;
mod loader;
mod packed;
mod planned;
mod refused;
mod step;
mod threads;

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataset::{Dataset, DatasetError};
use burn::tensor::Device;
use plimsoll::{Batches, BatchesBuilder, TrackingAllocator, batches};

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

/// A text of so many words, and where it is in its dataset.
#[derive(Clone, Debug, PartialEq)]
struct Text {
    at: usize,
    n_words: usize,
}

/// Texts of these lengths.
struct Texts(Vec<usize>);

impl Dataset<Text> for Texts {
    fn get(&self, index: usize) -> Result<Text, DatasetError> {
        Ok(Text { at: index, n_words: self.0[index] })
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// Texts that lie on a device, each padded to the longest.
#[derive(Clone, Debug, PartialEq)]
struct Padded {
    texts: Vec<usize>,
    width: usize,
    device: Device,
}

struct Pad;

impl Batcher<Text, Padded> for Pad {
    fn batch(&self, items: Vec<Text>, device: &Device) -> Padded {
        let width = items.iter().map(|it| it.n_words).max().unwrap();
        Padded { texts: items.iter().map(|it| it.at).collect(), width, device: device.clone() }
    }
}

/// Lengths of 1 to 64 words, in no order.
fn lengths(n: usize) -> Vec<usize> {
    (0..n).map(|it| 1 + it * 7919 % 64).collect()
}

fn of_texts(n: usize) -> BatchesBuilder<Text, Padded> {
    batches(Texts(lengths(n)), Pad).cost(|text: &Text| text.n_words)
}

/// The texts of each step of an epoch.
fn steps(batches: &Batches<Text, Padded>, epoch: usize) -> Vec<Vec<usize>> {
    batches.epoch(epoch).map(|it| it.unwrap().iter().map(|text| text.at).collect()).collect()
}

/// The texts in order, each of which has to be there once.
#[track_caller]
fn assert_each_once(mut texts: Vec<usize>, n: usize) {
    texts.sort_unstable();
    assert_eq!(texts, (0..n).collect::<Vec<_>>());
}
