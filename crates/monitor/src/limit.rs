//! Was the memory used well, and what would change that?

use plimsoll_types::{Bytes, Event, Knobs, MoveReason, StepDone};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::run::{Move, Run};
use crate::summary::steady_budget_share;
use crate::text::{share, short};

/// A share of the budget that is as much as steps of whole samples reach.
const WELL_USED: f64 = 0.8;
/// Steps after the last growth in which a policy may still be waiting to grow again.
const STILL_GROWING: u64 = 4;
/// A rate that differs by less than this part is the same.
const SAME_RATE: f64 = 0.05;
/// Steps of a size from which a rate can be told.
const RATED: usize = 3;

/// How the samples of a step are put together, as the configuration says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepSettings {
    /// What the effective batch counts: "samples" or the samples' unit of length.
    pub effective_unit: String,
    /// The micro-batches that a step is made of at least, where samples have lengths.
    pub batches_per_step: Option<u32>,
    /// Whether the effective batch follows the memory, each batch being a step of its own.
    pub is_batch_a_step: bool,
    /// Whether the capacity was set, and the device may have more.
    pub is_capacity_set: bool,
    /// Whether the largest batch was set.
    #[serde(default)]
    pub is_batch_max_set: bool,
}

/// What kept steps from being larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The budget.
    Memory,
    /// A step has no more samples.
    EffectiveBatch,
    /// A step is cut into so many batches at least.
    BatchesPerStep,
    /// The bounds of patch and batch.
    Bounds,
    /// The sizes were given, and never change.
    Fixed,
    /// What a stepwise policy aims at.
    StepwiseTarget,
    /// The run ended while the sizes still grew.
    Length,
    /// The next larger step was not certain to fit, though what was measured was lower.
    Certainty,
}

/// What the log says of the policy.
struct Policy {
    kind: String,
    patch_max: Option<u32>,
    batch_max: Option<u32>,
    edges: Vec<u32>,
    /// The first batch size of each edge, where they are not all one.
    start: Vec<u32>,
    /// The share of the capacity from which a stepwise policy is content.
    near_target: Option<f64>,
}

impl Policy {
    fn of(run: &Run<'_>) -> Self {
        let config: Value = run.start().and_then(|it| serde_json::from_str(&it.controller).ok()).unwrap_or(Value::Null);
        let policy = &config["policy"];
        let number = |value: &Value| value.as_u64().and_then(|it| u32::try_from(it).ok());
        let numbers = |key: &str| policy[key].as_array().into_iter().flatten().filter_map(number).collect();
        Self {
            kind: policy["kind"].as_str().unwrap_or_default().to_owned(),
            patch_max: number(&policy["bounds"]["patch_max"]),
            batch_max: number(&policy["bounds"]["batch_max"]).or_else(|| number(&policy["batch_max"])),
            edges: numbers("edges"),
            start: numbers("start"),
            near_target: policy["target"]
                .as_f64()
                .zip(policy["dead_band"].as_f64())
                .map(|(target, band)| target - band),
        }
    }
}

/// Finds what limited the steps after the last adjustment; `None` where no step was done.
pub(crate) fn limit(run: &Run<'_>, settings: &StepSettings) -> Option<Limit> {
    let share = steady_budget_share(run)?;
    let policy = Policy::of(run);
    if policy.kind == "fixed" {
        return Some(Limit::Fixed);
    }
    if WELL_USED <= share {
        return Some(Limit::Memory);
    }
    let (tail, last) = (run.after_last_move(), run.steps().last()?);
    let n_since = tail.steps().filter(|it| it.committed).count() as u64;
    if run.moves().last().is_none_or(|(_, it)| it.is_growth()) && n_since <= STILL_GROWING {
        return Some(Limit::Length);
    }
    if policy.kind.is_empty() {
        return None;
    }
    if policy.edges.is_empty() { of_cuts(&policy, run, last) } else { Some(of_lengths(&policy, &tail, run, settings)) }
}

fn of_cuts(policy: &Policy, run: &Run<'_>, last: &StepDone) -> Option<Limit> {
    let effective = run.start()?.effective_batch_size;
    let Knobs { patch_size, micro_batch_size } = last.rung;
    let is_top = |most: Option<u32>, is: u32| most.is_none_or(|most| most <= is);
    let is_whole = effective <= micro_batch_size;
    let tops = (is_top(policy.patch_max, patch_size), is_top(policy.batch_max, micro_batch_size));
    Some(match (tops.0, is_whole, tops.1) {
        (true, true, _) => Limit::EffectiveBatch,
        (true, false, true) => Limit::Bounds,
        // It goes up until it is near the target of its own, which need not be the budget.
        _ if policy.near_target.is_some_and(|near| near <= last.peak.share_of(last.capacity)) => Limit::StepwiseTarget,
        _ if policy.kind == "stepwise" && run.moves().last().is_none_or(|(_, it)| it.is_growth()) => Limit::Length,
        // It went down for a shortage, and may not try again.
        _ if policy.kind == "stepwise" => return None,
        _ => Limit::Certainty,
    })
}

/// Where samples have lengths, batches that are smaller than the policy allows were limited by how a step is filled.
fn of_lengths(policy: &Policy, tail: &Run<'_>, run: &Run<'_>, settings: &StepSettings) -> Limit {
    let sizes = run.moves().filter_map(|(_, it)| it.sizes()).last().unwrap_or(&policy.start);
    let allowed = |edge: u32| {
        let at = policy.edges.iter().position(|it| edge <= *it)?;
        if sizes.is_empty() { Some(1) } else { sizes.get(at).copied() }
    };
    let batches = || tail.steps().filter(|it| it.committed).flat_map(|it| &it.micro_batches);
    let shape_is = |is: &dyn Fn(u32, u32) -> bool| {
        let n = batches().filter(|it| allowed(it.edges.edge()).is_some_and(|most| is(it.shape().samples, most)));
        batches().count() < 2 * n.count()
    };
    if shape_is(&|n, most| n < most) {
        let parts = settings.batches_per_step.filter(|it| 1 < *it && !settings.is_batch_a_step);
        return if parts.is_some() { Limit::BatchesPerStep } else { Limit::EffectiveBatch };
    }
    if shape_is(&|_, most| policy.batch_max.is_some_and(|bound| bound <= most)) {
        return at_bound(policy, run, settings);
    }
    Limit::Certainty
}

/// Finds what the bound of batches comes from: where a step is cut into parts, or has no more samples, nobody has set it.
fn at_bound(policy: &Policy, run: &Run<'_>, settings: &StepSettings) -> Limit {
    if settings.is_batch_max_set {
        return Limit::Bounds;
    }
    let effective = run.start().filter(|_| settings.effective_unit == "samples").map(|it| it.effective_batch_size);
    if settings.batches_per_step.is_some_and(|it| 1 < it) && !settings.is_batch_a_step {
        Limit::BatchesPerStep
    } else if effective.is_some_and(|it| Some(it) <= policy.batch_max) {
        Limit::EffectiveBatch
    } else {
        Limit::Bounds
    }
}

/// Says in words whether the memory was used well, and what would change that.
pub(crate) fn verdict(run: &Run<'_>, settings: &StepSettings) -> Option<String> {
    let used = steady_budget_share(run)?;
    let (start, last) = (run.start()?, run.steps().last()?);
    let (budget, has_lengths) = (last.budget, !Policy::of(run).edges.is_empty());
    let sizes = sizes(last.rung, &start.unit_of_length, has_lengths);
    let bounds = if has_lengths {
        "The limit was the bound of the sizes, `batch.batch_max`"
    } else {
        "The limits were the bounds of the sizes, `batch.patch_max` and `batch.batch_max`"
    };
    let reached = format!("steps reached {} of the budget of {budget}", share(used));
    let unit = if settings.effective_unit.is_empty() { "samples" } else { &settings.effective_unit };
    let effective = format!("the effective batch of {} {unit}", start.effective_batch_size);
    let Some(limit) = limit(run, settings) else { return Some(format!("In the steady state {reached}.")) };
    let unused = if WELL_USED <= used { "The memory was used well" } else { "Memory was not the limit" }.to_owned()
        + ": "
        + &reached;
    let would_do = enough(run, last);
    let learning = "takes more memory, and changes what is learnt";
    Some(match limit {
        Limit::Memory => {
            let more = if settings.is_capacity_set { " A larger `memory.capacity` may let steps grow." } else { "" };
            format!("The memory was used well, and was the limit: {reached}.{more}{}", gain(run))
        }
        Limit::EffectiveBatch => format!(
            "{unused}. The limit was {effective}: a micro-batch holds all that a step has. A larger \
             `batch.effective_batch_size` {learning}.{would_do}"
        ),
        Limit::BatchesPerStep => {
            let parts = settings.batches_per_step.unwrap_or(1);
            format!(
                "{unused}. The limit was {effective}, which `batch.batches_per_step = {parts}` cuts into at least \
                 {parts} micro-batches though there was room for larger ones. With 1 a micro-batch may hold all of \
                 it; a larger `batch.effective_batch_size` {learning}.{would_do}"
            )
        }
        Limit::Bounds => format!(
            "{unused}. {bounds}: {sizes} is the largest that {} allow{}.{would_do}{}",
            if has_lengths { "it" } else { "they" },
            if has_lengths { "s" } else { "" },
            gain(run)
        ),
        Limit::Fixed => format!(
            "{unused}. The sizes were given and never change: {sizes}. A larger `batch.batch_size` takes more, and \
             \"adaptive\" finds how much fits.{would_do}"
        ),
        Limit::StepwiseTarget => format!(
            "The memory was used in part: {reached}. The limit was `policy.stepwise_target`, near which sizes no longer \
             grow; a higher one lets them."
        ),
        Limit::Length => format!(
            "The run ended before its sizes had settled: {reached}. More `train.steps` would let them grow.{}",
            gain(run)
        ),
        Limit::Certainty => format!(
            "The memory was used in part: {reached}. The limit was what is certain: the next larger step was not sure to \
             fit by its upper bound.{}",
            gain(run)
        ),
    })
}

/// Names the sizes of a step: a patch and a batch, or the longest samples and how many of them.
fn sizes(knobs: Knobs, unit: &str, has_lengths: bool) -> String {
    let (Knobs { patch_size, micro_batch_size }, unit) = (knobs, if unit.is_empty() { "positions" } else { unit });
    if has_lengths { format!("batch {micro_batch_size} of {patch_size} {unit}") } else { knobs.to_string() }
}

/// Returns the capacity that the same run was measured to need, where it is far below what there is.
fn enough(run: &Run<'_>, last: &StepDone) -> String {
    let (Some(peak), target) = (run.peak(), last.budget.as_f64() / last.capacity.as_f64()) else {
        return String::new();
    };
    let enough = Bytes::from_f64_ceil(peak.as_f64() / target).shown_up();
    if !target.is_finite() || last.capacity <= enough.saturating_mul(2) {
        return String::new();
    }
    format!(" A capacity of {enough} would have held all that was measured.")
}

/// Says what larger micro-batches have brought, as far as it was measured: the rate of the last size against the first.
fn gain(run: &Run<'_>) -> String {
    let rates = rates(run);
    let (Some(first), Some(last)) = (rates.first(), rates.last()) else { return String::new() };
    let (small, large) = (first.0.micro_batch_size, last.0.micro_batch_size);
    // A larger patch is another amount of work.
    if small >= large || first.0.patch_size != last.0.patch_size {
        return String::new();
    }
    let ratio = last.1 / first.1;
    let rate = format!("{} samples per second at batch {small}, {} at {large}", short(first.1), short(last.1));
    let settled = if ratio > 1.0 + SAME_RATE {
        "Larger micro-batches were faster"
    } else if ratio < 1.0 - SAME_RATE {
        "Larger micro-batches were slower"
    } else {
        "Larger micro-batches were no faster"
    };
    format!(" {settled}: {rate}.")
}

/// Returns the samples per second of each size in order, its first step left out.
fn rates(run: &Run<'_>) -> Vec<(Knobs, f64)> {
    let steps: Vec<_> = run.steps().filter(|it| it.committed).collect();
    let of_size = |alike: &[&StepDone]| {
        let settled = &alike[1..];
        let seconds: f64 = settled.iter().map(|it| it.seconds).sum();
        let samples: u64 = settled.iter().map(|it| it.n_samples()).sum();
        (RATED <= settled.len() && 0.0 < seconds).then(|| (alike[0].rung, samples as f64 / seconds))
    };
    steps.chunk_by(|a, b| a.rung == b.rung).filter_map(of_size).collect()
}

impl<'a> Move<'a> {
    fn sizes(&self) -> Option<&'a [u32]> {
        if let Self::Sizes(resize) = self { Some(&resize.to) } else { None }
    }

    /// Whether more memory is taken than before.
    pub(crate) const fn is_growth(&self) -> bool {
        matches!(self.reason(), MoveReason::Certified { .. } | MoveReason::PeakTooLow { .. })
    }
}

/// Counts the changes that took more memory, and those that took less.
pub(crate) fn directions(run: &Run<'_>) -> (u64, u64) {
    let n = |is: bool| run.moves().filter(|(_, it)| it.is_growth() == is).count() as u64;
    (n(true), n(false))
}

/// Memory over the run, as statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The highest mark of a step.
    pub training_peak_bytes: Option<Bytes>,
    /// The highest mark of a validation.
    pub validation_peak_bytes: Option<Bytes>,
    /// The mean of the steps' high-water marks.
    pub average_peak_bytes: Option<Bytes>,
    /// In use after the last step.
    pub current_bytes: Option<Bytes>,
    /// Reserved after the last step.
    pub current_reserved_bytes: Option<Bytes>,
}

impl Usage {
    pub(crate) fn of(run: &Run<'_>) -> Self {
        let peaks: Vec<Bytes> = run.steps().map(|it| it.peak).collect();
        let sum: f64 = peaks.iter().map(|it| it.as_f64()).sum();
        let last = run.0.iter().rev().find_map(|it| if let Event::StepDone(it) = it { Some(it) } else { None });
        Self {
            training_peak_bytes: peaks.iter().max().copied(),
            validation_peak_bytes: run.validations().map(|it| it.peak).max(),
            average_peak_bytes: last.map(|_| Bytes::from_f64_ceil(sum / peaks.len() as f64)),
            current_bytes: last.map(|it| it.in_use),
            current_reserved_bytes: last.map(|it| it.reserved),
        }
    }
}
