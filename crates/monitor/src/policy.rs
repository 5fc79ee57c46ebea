//! What the log says of the policy that chose the sizes.

use plimsoll_types::{Cells, Decision, Event, Extent, KeepReason, Knobs, part_size};
use serde_json::Value;

use crate::limit::StepSettings;
use crate::run::{Move, Run};

/// A policy, as the head of a log describes it.
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

impl Policy {
    pub(crate) fn of(run: &Run<'_>) -> Self {
        let config: Value = run.start().and_then(|it| serde_json::from_str(&it.controller).ok()).unwrap_or(Value::Null);
        let policy = &config["policy"];
        let number = |value: &Value| value.as_u64().and_then(|it| u32::try_from(it).ok());
        let numbers = |key: &str| policy[key].as_array().into_iter().flatten().filter_map(number).collect();
        Self {
            kind: policy["kind"].as_str().unwrap_or_default().to_owned(),
            patch_max: number(&policy["bounds"]["patch_max"]),
            batch_max: number(&policy["bounds"]["batch_max"]).or_else(|| number(&policy["batch_max"])),
            cells: serde_json::from_value(policy["edges"].clone()).unwrap_or_default(),
            sizes: run
                .moves()
                .filter_map(|(_, it)| it.sizes())
                .last()
                .map_or_else(|| numbers("start"), <[u32]>::to_vec),
            near_target: policy["target"]
                .as_f64()
                .zip(policy["dead_band"].as_f64())
                .map(|(target, band)| target - band),
            max_adjustments: number(&policy["max_adjustments"]),
            replicas: number(&config["replicas"]).unwrap_or(1),
            small_batch: number(&config["small_batch"]).unwrap_or(0),
        }
    }

    /// Returns how many samples a part was to have, in a step of so many and as many as `most` at once.
    pub(crate) fn part_size(&self, n_samples: u64, most: u32) -> u32 {
        let is_divided = self.cells.is_empty() && self.kind != "fixed";
        part_size(n_samples, most, if is_divided { self.replicas } else { 1 }, self.small_batch)
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

impl Run<'_> {
    /// Whether a policy has changed something as often as it may, and keeps what there is.
    pub(crate) fn is_braked(&self, policy: &Policy) -> bool {
        let n_moves = self.moves().count();
        policy.max_adjustments.is_some_and(|most| usize::try_from(most).is_ok_and(|most| most <= n_moves))
    }

    /// Whether the policy had judged the sizes last, and seen no reason to change them.
    pub(crate) fn is_content(&self) -> bool {
        let decided = |it: &Event| if let Event::Decided(it) = it { Some(it.decision.clone()) } else { None };
        let Some(Decision::Keep { reason }) = self.0.iter().rev().find_map(decided) else { return false };
        matches!(reason, KeepReason::HighestCertified | KeepReason::GainTooSmall | KeepReason::InDeadBand)
    }

    /// Whether sizes grew at the last adjustment, or none was made.
    pub(crate) fn has_grown_last(&self) -> bool {
        self.moves().last().is_none_or(|(_, it)| it.is_growth())
    }
}

impl<'a> Move<'a> {
    fn sizes(&self) -> Option<&'a [u32]> {
        if let Self::Sizes(resize) = self { Some(&resize.to) } else { None }
    }
}
