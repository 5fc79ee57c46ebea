//! What kept steps from being larger?

use plimsoll_types::{MicroBatch, StepDone};
use serde::{Deserialize, Serialize};

use crate::policy::{Policy, Tops};
use crate::run::Run;
use crate::usage::steady_budget_share;

/// A share of the budget that is as much as steps of whole samples reach.
pub(crate) const WELL_USED: f64 = 0.8;
/// Steps after the last growth in which a policy may still be waiting to grow again.
const STILL_GROWING: u64 = 4;

/// How the samples of a step are put together, as the configuration says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepSettings {
    /// What the effective batch counts: "samples" or the samples' unit of length.
    pub effective_unit: String,
    /// The micro-batches that a step is made of at least, where samples have lengths.
    pub batches_per_step: Option<u32>,
    /// Whether samples are padded to as many edges as `batch.n_edges` allows, so that more of them would pad less.
    #[serde(default)]
    pub lacks_edges: bool,
    /// Whether the effective batch follows the memory, each batch being a step of its own.
    pub is_batch_a_step: bool,
    /// Whether the capacity was set, and the device may have more.
    pub is_capacity_set: bool,
    /// Who chose the sizes.
    #[serde(default)]
    pub chosen_by: ChosenBy,
    /// The largest patch, where samples are cut.
    #[serde(default)]
    pub patch_max: Option<Bound>,
    /// The largest batch.
    #[serde(default)]
    pub batch_max: Option<Bound>,
}

/// Who chose the sizes of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChosenBy {
    /// A policy that follows the memory.
    #[default]
    Policy,
    /// `batch.batch_size`, which is a number.
    BatchSize,
    /// The search that `batch.batch_size = "auto"` asks for.
    Search,
    /// `policy.kind = "fixed"`, which keeps them at their bounds.
    FixedPolicy,
    /// A plan alone, since the run is deterministic.
    Plan,
}

/// A bound of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// The largest value.
    pub most: u32,
    /// Where it comes from.
    pub origin: Origin,
}

/// Where a bound comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The configuration says it.
    Set,
    /// The preset of the capacity.
    Preset,
    /// The samples allow no more, or the step that they fill: no larger bound would help.
    Data,
}

/// What kept steps from being larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The budget.
    Memory,
    /// A step has no more samples; where these are cut, the largest patch is in use as well.
    EffectiveBatch,
    /// A step is cut into so many batches at least.
    BatchesPerStep,
    /// The bounds of patch and batch.
    Bounds,
    /// The sizes were given, and never change.
    Fixed,
    /// What a stepwise policy aims at.
    StepwiseTarget,
    /// A stepwise policy had changed the sizes as often as it may.
    Adjustments,
    /// The run ended while the sizes still grew.
    Length,
    /// The next larger step was not certain to fit, though what was measured was lower.
    Certainty,
}

/// Finds what limited the steps after the last adjustment; `None` where no step was done.
pub(crate) fn limit(run: &Run<'_>, settings: &StepSettings) -> Option<Limit> {
    let (policy, tail) = (Policy::of(run), run.after_last_move());
    let Some(last) = tail.committed().last() else {
        let has_grown = run.moves().last().is_some_and(|(_, it)| it.is_growth());
        return run.committed().last().filter(|_| has_grown).map(|_| Limit::Length);
    };
    let share = steady_budget_share(run)?;
    if is_cut_by_memory(&policy, &tail, settings) {
        return Some(Limit::Memory);
    }
    let effective = run.start()?.effective_batch_size;
    let tops = policy.tops(last.rung, effective, settings);
    if policy.kind == "fixed" {
        return Some(of_fixed(tops, settings));
    }
    let is_of_lengths = !policy.cells.is_empty();
    if is_of_lengths && policy.is_all_at_bound() {
        return Some(filled(&policy, &tail, settings).unwrap_or_else(|| at_bound(&policy, run, settings)));
    }
    // Of one that cannot grow, memory is not the limit however full it is.
    if !policy.kind.is_empty() && !is_of_lengths && tops.is_all() {
        return Some(if tops.whole { Limit::EffectiveBatch } else { Limit::Bounds });
    }
    if run.is_braked(&policy) {
        return Some(Limit::Adjustments);
    }
    if WELL_USED <= share {
        return Some(Limit::Memory);
    }
    if let Some(limit) = filled(&policy, &tail, settings) {
        return Some(limit);
    }
    let n_since = tail.committed().count() as u64;
    if run.has_grown_last() && n_since <= STILL_GROWING && !run.is_content() {
        return Some(Limit::Length);
    }
    match (policy.kind.is_empty(), is_of_lengths) {
        (true, _) => None,
        (_, true) if mostly(&policy, &tail, |_, most| policy.batch_max.is_some_and(|bound| bound <= most)) => {
            Some(at_bound(&policy, run, settings))
        }
        (_, true) => Some(Limit::Certainty),
        (_, false) => of_cuts(&policy, run, last),
    }
}

/// Whether most steps ran as parts of the micro-batches that were asked for: these did not fit.
pub(crate) fn is_cut_by_memory(policy: &Policy, tail: &Run<'_>, settings: &StepSettings) -> bool {
    let is_cut = |it: &&StepDone| settings.batches_per_step.is_none() && is_halved(it, policy);
    2 * tail.committed().filter(is_cut).count() > tail.committed().count()
}

/// Whether two micro-batches that follow one another would have been one, had it fitted; one that is smaller because samples
/// could not be read is none.
fn is_halved(step: &StepDone, policy: &Policy) -> bool {
    let whole = u64::from(policy.part_size(step.n_rows(), step.rung.micro_batch_size));
    let rows = |it: &MicroBatch| u64::from(it.shape().samples);
    let of_one = |pair: &[MicroBatch]| rows(&pair[0]) + rows(&pair[1]) + step.skipped.len() as u64 <= whole;
    step.micro_batches.windows(2).any(of_one)
}

/// Of sizes that never change, those that are as large as they can be are limited by what bounds them.
const fn of_fixed(tops: Tops, settings: &StepSettings) -> Limit {
    let is_cut = settings.batches_per_step.is_none();
    match settings.chosen_by {
        ChosenBy::Policy => Limit::Fixed,
        _ if is_cut && tops.patch && tops.whole => Limit::EffectiveBatch,
        ChosenBy::FixedPolicy if is_cut => Limit::Bounds,
        _ => Limit::Fixed,
    }
}

fn of_cuts(policy: &Policy, run: &Run<'_>, last: &StepDone) -> Option<Limit> {
    // It goes up until it is near the target of its own, which need not be the budget.
    if policy.near_target.is_some_and(|near| near <= last.peak.share_of(last.capacity)) {
        return Some(Limit::StepwiseTarget);
    }
    match policy.kind.as_str() {
        "stepwise" if run.has_grown_last() => Some(Limit::Length),
        // It went down for a shortage, and may not try again.
        "stepwise" => None,
        _ => Some(Limit::Certainty),
    }
}

/// Where samples have lengths, batches that are smaller than the policy allows were limited by how a step is filled.
fn filled(policy: &Policy, tail: &Run<'_>, settings: &StepSettings) -> Option<Limit> {
    let parts = settings.batches_per_step.filter(|it| 1 < *it && !settings.is_batch_a_step);
    let limit = if parts.is_some() { Limit::BatchesPerStep } else { Limit::EffectiveBatch };
    mostly(policy, tail, |n, most| n < most).then_some(limit)
}

/// Whether most micro-batches are so, by the number of their samples and how many they might have.
fn mostly(policy: &Policy, tail: &Run<'_>, is: impl Fn(u32, u32) -> bool) -> bool {
    let batches = || tail.committed().flat_map(|it| &it.micro_batches);
    let is_so = |it: &&MicroBatch| policy.allowed(it.edges).is_some_and(|most| is(it.shape().samples, most));
    batches().count() < 2 * batches().filter(is_so).count()
}

/// Finds what the bound of batches comes from: where a step is cut into parts, or has no more samples, nobody has set it.
fn at_bound(policy: &Policy, run: &Run<'_>, settings: &StepSettings) -> Limit {
    if matches!(settings.chosen_by, ChosenBy::BatchSize | ChosenBy::Search) {
        return Limit::Fixed;
    }
    if settings.batch_max.is_some_and(|it| it.origin == Origin::Set) {
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
