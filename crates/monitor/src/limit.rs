//! What kept steps from being larger?

use serde::{Deserialize, Serialize};

use crate::history::History;
use crate::policy::Tops;
use crate::step_settings::{ChosenBy, Origin, StepSettings};
use crate::tail::{Last, Tail};

/// A share of the budget that is as much as steps of whole samples reach.
pub(crate) const WELL_USED: f64 = 0.8;
/// Steps after the last growth in which a policy may still be waiting to grow again.
const STILL_GROWING: u64 = 4;

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
pub(crate) fn limit(history: &History, settings: &StepSettings) -> Option<Limit> {
    let History { policy, tail, .. } = history;
    let Some(last) = &tail.last else {
        let has_grown = history.incidents.moves.last().is_some_and(|(_, it)| it.is_growth());
        return (0 < history.counts.committed && has_grown).then_some(Limit::Length);
    };
    let share = tail.shares.value()?;
    if is_cut_by_memory(tail, settings) {
        return Some(Limit::Memory);
    }
    let effective = history.start.as_ref()?.effective_batch_size;
    let tops = policy.tops(last.rung, effective, settings);
    if policy.kind == "fixed" {
        return Some(of_fixed(tops, settings));
    }
    let is_of_lengths = !policy.cells.is_empty();
    if is_of_lengths && policy.is_all_at_bound() {
        return Some(filled(tail, settings).unwrap_or_else(|| at_bound(history, settings)));
    }
    // Of one that cannot grow, memory is not the limit however full it is.
    if !policy.kind.is_empty() && !is_of_lengths && tops.is_all() {
        return Some(if tops.whole { Limit::EffectiveBatch } else { Limit::Bounds });
    }
    if history.is_braked() {
        return Some(Limit::Adjustments);
    }
    if WELL_USED <= share {
        return Some(Limit::Memory);
    }
    if let Some(limit) = filled(tail, settings) {
        return Some(limit);
    }
    if history.has_grown_last() && tail.n_committed <= STILL_GROWING && !history.is_content {
        return Some(Limit::Length);
    }
    match (policy.kind.is_empty(), is_of_lengths) {
        (true, _) => None,
        (_, true) if tail.is_mostly_at_bound() => Some(at_bound(history, settings)),
        (_, true) => Some(Limit::Certainty),
        (_, false) => of_cuts(history, last),
    }
}

/// Whether most steps ran as parts of the micro-batches that were asked for: these did not fit.
pub(crate) fn is_cut_by_memory(tail: &Tail, settings: &StepSettings) -> bool {
    settings.batches_per_step.is_none() && tail.is_mostly_halved()
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

fn of_cuts(history: &History, last: &Last) -> Option<Limit> {
    // It goes up until it is near the target of its own, which need not be the budget.
    if history.policy.near_target.is_some_and(|near| near <= last.peak.share_of(last.capacity)) {
        return Some(Limit::StepwiseTarget);
    }
    match history.policy.kind.as_str() {
        "stepwise" if history.has_grown_last() => Some(Limit::Length),
        // It went down for a shortage, and may not try again.
        "stepwise" => None,
        _ => Some(Limit::Certainty),
    }
}

/// Where samples have lengths, batches that are smaller than the policy allows were limited by how a step is filled.
fn filled(tail: &Tail, settings: &StepSettings) -> Option<Limit> {
    let parts = settings.batches_per_step.filter(|it| 1 < *it && !settings.is_batch_a_step);
    let limit = if parts.is_some() { Limit::BatchesPerStep } else { Limit::EffectiveBatch };
    tail.is_mostly_smaller().then_some(limit)
}

/// Finds what the bound of batches comes from: where a step is cut into parts, or has no more samples, nobody has set it.
fn at_bound(history: &History, settings: &StepSettings) -> Limit {
    if matches!(settings.chosen_by, ChosenBy::BatchSize | ChosenBy::Search) {
        return Limit::Fixed;
    }
    if settings.batch_max.is_some_and(|it| it.origin == Origin::Set) {
        return Limit::Bounds;
    }
    let start = history.start.as_ref().filter(|_| settings.effective_unit == "samples");
    let effective = start.map(|it| it.effective_batch_size);
    if settings.batches_per_step.is_some_and(|it| 1 < it) && !settings.is_batch_a_step {
        Limit::BatchesPerStep
    } else if effective.is_some_and(|it| Some(it) <= history.policy.batch_max) {
        Limit::EffectiveBatch
    } else {
        Limit::Bounds
    }
}
