//! What cannot be, and what it is called.

use std::io;

use burn::data::dataloader::DataLoader;
use burn::data::dataloader::batcher::Batcher;
use burn::data::dataset::{Dataset, DatasetError};
use burn::tensor::Device;
use plimsoll::{BatchesBuilder, batches};

use super::{Pad, Padded, Text, Texts, of_texts};

#[track_caller]
fn refused(builder: BatchesBuilder<Text, Padded>, message: &str) {
    assert_eq!(builder.build().err().unwrap().to_string(), message);
}

#[test]
fn what_makes_no_batches_is_refused_by_name() {
    refused(of_texts(0), "make batches: the dataset has no samples");
    refused(of_texts(9).effective_batch(0), "make batches: `effective_batch` is 0, it must be at least 1");
    refused(of_texts(9).effective_cost(0), "make batches: `effective_cost` is 0, it must be at least 1");
    refused(of_texts(9).groups_per_step(0), "make batches: `groups_per_step` is 0, it must be at least 1");
    refused(of_texts(9).workers(0), "make batches: `workers` is 0, it must be at least 1");
    let cost = "a cost is from 1 to 4294967295";
    refused(of_texts(9).cost(|it| usize::from(it.at != 4)), &format!("make batches: sample 4 costs 0, {cost}"));
    refused(of_texts(3).costs(vec![1, 2]), "make batches: there are 2 costs for 3 samples");
    refused(of_texts(2).costs(vec![1, 1 << 32]), &format!("make batches: sample 1 costs 4294967296, {cost}"));
}

#[test]
fn a_slice_that_makes_no_batches_says_why_instead_of_its_first_batch() {
    let weighted = of_texts(60).weights((0..60).map(|at| f64::from(u8::from(30 <= at))).collect()).effective_batch(10);
    let small = of_texts(60).effective_batch(20).drop_last();
    let weights = "index the samples: the weights sum to 0, the sum must be a number above 0";
    let left_out = "make batches: 10 samples make no whole step, and `drop_last` leaves out what is none; a smaller \
                    `effective_batch` or `effective_cost` would do";
    for (builder, why) in [(weighted, weights), (small, left_out)] {
        let loader = builder.build().unwrap().loader(4, &Device::flex());
        let slice = loader.slice(20, 30);
        let mut iter = slice.iter();
        let message = iter.next().unwrap().unwrap_err().to_string();
        assert_eq!(message, format!("slice a loader from sample 20 to 30: {why}"));
        assert!(iter.next().is_none());
        assert_eq!((iter.progress().items_processed, iter.progress().items_total, slice.num_items()), (0, 10, 10));
        // Another epoch, another device and a part of it say it as well, and nothing is still nothing.
        for other in [slice.to_device(&Device::flex()), slice.slice(2, 4)] {
            assert_eq!(other.iter().next().unwrap().unwrap_err().to_string(), message);
        }
        assert_eq!((slice.slice(10, 12).iter().count(), slice.iter().count()), (0, 1));
    }
}

/// Texts of which some cannot be read.
struct Broken {
    unreadable: usize,
    panics: usize,
}

impl Dataset<Text> for Broken {
    fn get(&self, index: usize) -> Result<Text, DatasetError> {
        assert!(index != self.panics, "no such text");
        if index == self.unreadable {
            return Err(DatasetError::new(io::Error::other("the disk is gone")));
        }
        Ok(Text { at: index, n_words: 3 })
    }

    fn len(&self) -> usize {
        50
    }
}

fn broken(unreadable: usize, panics: usize) -> BatchesBuilder<Text, Padded> {
    batches(Broken { unreadable, panics }, Pad).effective_batch(10).workers(3)
}

const UNREADABLE: &str = "read sample 17: the disk is gone";
const PANICKED: &str = "read sample 23: it panicked: no such text";

#[test]
fn a_sample_that_cannot_be_read_is_named_when_its_cost_is_asked_for() {
    // Of several the first.
    refused(broken(17, 23).cost(|it: &Text| it.n_words), UNREADABLE);
    refused(broken(40, 23).cost(|it: &Text| it.n_words), PANICKED);
    let price = |it: &Text| if it.at == 8 { panic!("no price") } else { it.n_words };
    refused(broken(99, 99).cost(price), "read sample 8: it panicked: no price");
}

#[test]
fn a_sample_that_cannot_be_read_ends_its_epoch_before_its_step() {
    for (unreadable, panics, message) in [(17, 99, UNREADABLE), (99, 23, PANICKED)] {
        let batches = broken(unreadable, panics).build().unwrap();
        let mut epoch = batches.epoch(0);
        let mut n_taken = 0;
        let error = loop {
            match epoch.next().unwrap() {
                Ok(step) => n_taken += step.len(),
                Err(error) => break error,
            }
        };
        assert_eq!(error.to_string(), message);
        assert!(epoch.next().is_none());
        assert_eq!(epoch.position().n_taken(), n_taken);
        // The position is that of the step that failed, which may be tried again.
        let again = batches.resume(epoch.position()).unwrap().next().unwrap().err().unwrap();
        assert_eq!(again.to_string(), message);
        let loader = batches.loader(4, &Device::flex());
        let mut iter = loader.iter();
        let failed = iter.find_map(Result::err).unwrap();
        assert_eq!(failed.to_string(), message);
        assert!(iter.next().is_none());
    }
}

/// Loses texts, or panics.
struct Careless {
    panics: bool,
}

impl Batcher<Text, Padded> for Careless {
    fn batch(&self, items: Vec<Text>, device: &Device) -> Padded {
        assert!(!self.panics, "a text of no words");
        Padded { texts: items.iter().skip(1).map(|it| it.at).collect(), width: 1, device: device.clone() }
    }
}

#[test]
fn a_batcher_that_panics_or_loses_samples_is_told_with_the_samples() {
    let made = |panics| {
        let batches = batches(Texts(vec![1, 2, 3]), Careless { panics }).effective_batch(3);
        let batches = batches.cost(|it: &Text| it.n_words).rows(|batch| batch.texts.len()).build().unwrap();
        batches.loader(2, &Device::flex())
    };
    let error = |panics| made(panics).iter().next().unwrap().unwrap_err().to_string();
    assert_eq!(error(true), "batch 2 samples: the batcher panicked: a text of no words, of the indices 2, 1");
    assert_eq!(error(false), "batch 2 samples: the batcher has made a batch of 1, of the indices 2, 1");
    // The batch is not handed out, and comes again.
    let loader = made(true);
    let mut iter = loader.iter();
    assert!(iter.next().unwrap().is_err() && iter.next().is_none());
    assert_eq!((iter.progress().items_processed, loader.position().unwrap().n_taken()), (0, 0));
}

#[test]
fn a_sample_that_does_not_fit_alone_is_named_with_its_cost() {
    let batches = of_texts(100).effective_batch(10).build().unwrap();
    let loader = batches.loader(|cost: u32| 60 / cost as usize, &Device::flex());
    let failed = loader.iter().find_map(Result::err).unwrap().to_string();
    let expected = super::lengths(100).into_iter().enumerate().filter(|(_, it)| 60 < *it).map(|(at, cost)| {
        format!("batch sample {at}: it costs {cost}, and a batch of it alone does not fit into the budget")
    });
    assert!(expected.into_iter().any(|it| it == failed), "{failed}");
}
