//! Values that no type refuses.

use std::ops::RangeInclusive;

use plimsoll_policy::LARGEST;
use plimsoll_workloads::multitask::N_HEADS;
use plimsoll_workloads::text::{LEAST_VOCABULARY, MOST_VOCABULARY};

use super::Settings;
use crate::exit::{UserError, user_error};
use crate::values::BatchSize;

/// The most features, channels, heads or words: no product of two overflows, and no model of that size is small.
const MOST: u64 = 1 << 16;

/// The most pixels of a side, more than cameras have; a square of it still counts in 32 bits.
const MOST_PIXELS: u64 = 1 << 13;

/// The most blocks or layers, more than any model has.
const MOST_BLOCKS: u64 = 1 << 10;

/// The most steps and threads.
const MOST_STEPS: u64 = 1 << 32;
const MOST_WORKERS: u64 = 64;

type Range = (&'static str, u64, RangeInclusive<u64>);

impl Settings {
    /// Refuses values that no type refuses.
    pub(crate) fn check(&self) -> Result<(), UserError> {
        for (key, value, allowed) in self.run_ranges().into_iter().chain(self.batch_ranges()).chain(self.job_ranges()) {
            in_range(key, value, &allowed)?;
        }
        self.check_multiples()?;
        let (target, rate, smoothing) =
            (self.memory.target.get(), self.train.learning_rate, self.multitask.label_smoothing);
        if target <= 0.0 {
            return refused("memory.target", target, "above 0 and at most 1");
        }
        if !(rate > 0.0 && rate.is_finite()) {
            return refused("train.learning_rate", rate, "above 0");
        }
        if !(0.0..1.0).contains(&smoothing) {
            return refused("multitask.label_smoothing", smoothing, "from 0 to below 1");
        }
        Ok(())
    }

    fn run_ranges(&self) -> [Range; 8] {
        let any = 1..=u64::MAX;
        let (batch, train) = (&self.batch, &self.train);
        [
            ("batch.effective_batch_size", batch.effective_batch_size.into(), any.clone()),
            ("batch.patch_multiple", batch.patch_multiple.into(), any.clone()),
            ("batch.n_edges", batch.n_edges.into(), any.clone()),
            ("batch.batches_per_step", batch.batches_per_step.into(), any.clone()),
            ("train.steps", train.steps, 1..=MOST_STEPS),
            ("train.validate_every", train.validate_every, any.clone()),
            ("train.checkpoint_every", train.checkpoint_every, any),
            ("data.workers", self.data.workers as u64, 0..=MOST_WORKERS),
        ]
    }

    /// A policy takes no larger micro-batches; what a step takes is held to that where it counts samples too.
    fn batch_ranges(&self) -> impl Iterator<Item = Range> {
        let batch = &self.batch;
        let fixed = if let BatchSize::Fixed(n) = batch.size { Some(n) } else { None };
        let ranges = [
            ("batch.batch_size", fixed),
            ("batch.batch_min", batch.size_min.0),
            ("batch.batch_max", batch.size_max.0),
            ("batch.effective_batch_size", (!self.counts_positions()).then_some(batch.effective_batch_size)),
        ];
        ranges.into_iter().filter_map(|(key, value)| Some((key, value?.into(), 1..=LARGEST.into())))
    }

    fn job_ranges(&self) -> [Range; 15] {
        let (sr, sequence, multitask, text) = (&self.sr, &self.sequence, &self.multitask, &self.text);
        [
            ("sr.channels", sr.channels as u64, 1..=MOST),
            ("sr.validation_tile", sr.validation_tile.into(), 1..=u64::MAX),
            ("sr.crops_per_image", sr.crops_per_image.into(), 1..=u64::MAX),
            ("sequence.heads", sequence.heads as u64, 1..=MOST),
            ("sequence.head_width", sequence.head_width as u64, 1..=MOST),
            ("sequence.blocks", sequence.blocks.into(), 1..=MOST_BLOCKS),
            ("multitask.channels", multitask.channels as u64, 1..=MOST),
            ("multitask.features", multitask.features as u64, 1..=MOST),
            ("multitask.image_size", multitask.image_size.into(), 1..=MOST_PIXELS),
            ("multitask.max_words", multitask.max_words.into(), 1..=MOST),
            ("text.vocabulary", text.vocabulary as u64, LEAST_VOCABULARY as u64..=MOST_VOCABULARY as u64),
            ("text.longest", text.longest.into(), 1..=u64::MAX),
            ("text.layers", text.layers as u64, 1..=MOST_BLOCKS),
            ("text.width", text.width as u64, 1..=MOST),
            ("text.heads", text.heads as u64, 1..=MOST),
        ]
    }

    /// Each head of an attention has as many features.
    fn check_multiples(&self) -> Result<(), UserError> {
        let (width, heads, features) = (self.text.width, self.text.heads, self.multitask.features);
        if !width.is_multiple_of(heads) {
            return refused("text.width", width, &format!("a multiple of `text.heads` ({heads})"));
        }
        if !features.is_multiple_of(N_HEADS) {
            return refused("multitask.features", features, &format!("a multiple of {N_HEADS}"));
        }
        Ok(())
    }
}

fn in_range(key: &str, value: u64, allowed: &RangeInclusive<u64>) -> Result<(), UserError> {
    match (allowed.contains(&value), allowed.start(), *allowed.end()) {
        (true, ..) => Ok(()),
        (false, least, u64::MAX) => refused(key, value, &format!("{least} and more")),
        (false, 0, most) => refused(key, value, &format!("up to {most}")),
        (false, least, most) => refused(key, value, &format!("{least} to {most}")),
    }
}

fn refused(key: &str, value: impl std::fmt::Display, allowed: &str) -> Result<(), UserError> {
    Err(user_error(format!("use the configuration: `{key}` is {value}, allowed is {allowed}")))
}
