//! What the log says of the policy that chose the sizes.

use plimsoll_types::{Cells, Extent, Knobs, MicroBatch, RunStarted, part_size};
use serde_json::Value;

use crate::step_settings::StepSettings;

/// A policy, as the head of a log describes it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Policy {
    pub(crate) kind: String,
    pub(crate) patch_max: Option<u32>,
    pub(crate) batch_max: Option<u32>,
    /// What samples that have lengths are padded to.
    pub(crate) cells: Cells,
    /// The batch size of each cell, where samples have lengths: of the first step, until one is chosen.
    sizes: Vec<u32>,
    /// The share of the capacity from which a stepwise policy is content.
    pub(crate) near_target: Option<f64>,
    /// As often as a stepwise policy may change something.
    pub(crate) max_adjustments: Option<u32>,
    /// Between how many threads the samples are divided that run at once.
    replicas: u32,
    /// Batches up to this size are avoided, where they need not be.
    small_batch: u32,
}

impl Default for Policy {
    /// One of which nothing is said.
    fn default() -> Self {
        Self {
            kind: String::new(),
            patch_max: None,
            batch_max: None,
            cells: Cells::default(),
            sizes: Vec::new(),
            near_target: None,
            max_adjustments: None,
            replicas: 1,
            small_batch: 0,
        }
    }
}

impl Policy {
    pub(crate) fn of(start: &RunStarted) -> Self {
        let config: Value = serde_json::from_str(&start.controller).unwrap_or(Value::Null);
        let policy = &config["policy"];
        let number = |value: &Value| value.as_u64().and_then(|it| u32::try_from(it).ok());
        let numbers = |key: &str| policy[key].as_array().into_iter().flatten().filter_map(number).collect();
        Self {
            kind: policy["kind"].as_str().unwrap_or_default().to_owned(),
            patch_max: number(&policy["bounds"]["patch_max"]),
            batch_max: number(&policy["bounds"]["batch_max"]).or_else(|| number(&policy["batch_max"])),
            cells: serde_json::from_value(policy["edges"].clone()).unwrap_or_default(),
            sizes: numbers("start"),
            near_target: policy["target"]
                .as_f64()
                .zip(policy["dead_band"].as_f64())
                .map(|(target, band)| target - band),
            max_adjustments: number(&policy["max_adjustments"]),
            replicas: number(&config["replicas"]).unwrap_or(1),
            small_batch: number(&config["small_batch"]).unwrap_or(0),
        }
    }

    /// Hears of other batch sizes.
    pub(crate) fn resize(&mut self, sizes: &[u32]) {
        sizes.clone_into(&mut self.sizes);
    }

    /// Returns how many samples a part was to have, in a step of so many and as many as `most` at once.
    pub(crate) fn part_size(&self, n_samples: u64, most: u32) -> u32 {
        let is_divided = self.cells.is_empty() && self.kind != "fixed";
        part_size(n_samples, most, if is_divided { self.replicas } else { 1 }, self.small_batch)
    }

    /// Whether two micro-batches that follow one another may be pieces of one that replicas share.
    pub(crate) fn may_be_of_one(&self, one: &MicroBatch, next: &MicroBatch) -> bool {
        1 < self.replicas && one.edges == next.edges
    }

    /// Returns how many samples of this extent a micro-batch may have in the end, where samples have lengths.
    pub(crate) fn allowed(&self, extent: Extent) -> Option<u32> {
        let at = self.cells.at(extent)?;
        if self.sizes.is_empty() { Some(1) } else { self.sizes.get(at).copied() }
    }

    /// Whether every cell has the largest batch in the end.
    pub(crate) fn is_all_at_bound(&self) -> bool {
        let at_bound = |size: &u32| self.batch_max.is_some_and(|bound| bound <= *size);
        !self.sizes.is_empty() && self.sizes.iter().all(at_bound)
    }

    /// Returns how many samples of the last cell a micro-batch may have, and that cell, where that is less than the largest.
    pub(crate) fn fewer(&self) -> Option<(u32, Extent)> {
        let (cell, size) = (*self.cells.last()?, *self.sizes.last()?);
        self.batch_max.is_some_and(|bound| size < bound).then_some((size, cell))
    }

    /// Whether samples are cut to the largest patch, and a micro-batch has all that a step has, or as many as it may.
    pub(crate) fn tops(&self, knobs: Knobs, effective: u32, settings: &StepSettings) -> Tops {
        let is_top = |most: Option<u32>, is: u32| most.is_none_or(|most| most <= is);
        Tops {
            patch: is_top(self.patch_max.or(settings.patch_max.map(|it| it.most)), knobs.patch_size),
            whole: effective <= knobs.micro_batch_size,
            batch: is_top(self.batch_max.or(settings.batch_max.map(|it| it.most)), knobs.micro_batch_size),
        }
    }
}

/// What of a cut step cannot be larger.
#[derive(Clone, Copy)]
pub(crate) struct Tops {
    /// The patch is as large as it may be.
    pub(crate) patch: bool,
    /// A micro-batch has all that a step has.
    pub(crate) whole: bool,
    /// A micro-batch is as large as it may be.
    pub(crate) batch: bool,
}

impl Tops {
    /// Whether nothing can grow, however much memory there is.
    pub(crate) const fn is_all(self) -> bool {
        self.patch && (self.whole || self.batch)
    }
}
