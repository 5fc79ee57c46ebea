//! Was the memory used well, and what would change that?

use plimsoll_types::{Bytes, Knobs};

use crate::adjustment::adjustments;
use crate::history::History;
use crate::levers::{Levers, listed};
use crate::limit::{Limit, WELL_USED, is_cut_by_memory, limit};
use crate::step_settings::{ChosenBy, StepSettings};
use crate::tail::Last;
use crate::text::share;

/// Says in words whether the memory was used well, and what would change that.
pub(crate) fn verdict(history: &History, settings: &StepSettings) -> Option<String> {
    let tail = history.tail_that_ran();
    let (used, start, last) = (tail.shares.value()?, history.start.as_ref()?, tail.last.as_ref()?);
    let reached = format!("steps reached {} of the budget of {}", share(used), last.budget);
    if history.tail.last.is_none() {
        return Some(changed_last(history, &reached));
    }
    let Some(limit) = limit(history, settings) else { return Some(format!("In the steady state {reached}.")) };
    let levers = Levers { policy: &history.policy, settings, start, last };
    let unused = if WELL_USED <= used { "The memory was used well" } else { "Memory was not the limit" };
    Some(match limit {
        Limit::Memory if is_cut_by_memory(tail, settings) => halved(last, settings, &reached),
        Limit::Memory => {
            format!(
                "The memory was used well, and was the limit: {reached}.{}{}",
                more_capacity(settings, "may let steps grow"),
                history.gains.told()
            )
        }
        Limit::EffectiveBatch | Limit::Fixed => {
            format!("{unused}: {reached}. {}{}", levers.told(limit, used < WELL_USED), enough(history, last))
        }
        Limit::BatchesPerStep => {
            let (parts, effective) = (settings.batches_per_step.unwrap_or(1), levers.effective());
            format!(
                "{unused}: {reached}. The limit was {effective}, which `batch.batches_per_step = {parts}` cuts into at \
                 least {parts} micro-batches though there was room for larger ones. With 1 a micro-batch may hold all of \
                 it; a larger `batch.effective_batch_size` takes more memory, and changes what is learnt.{}",
                enough(history, last)
            )
        }
        Limit::Bounds => {
            format!(
                "{unused}: {reached}. {}{}{}",
                levers.told(limit, used < WELL_USED),
                enough(history, last),
                history.gains.told()
            )
        }
        Limit::StepwiseTarget => format!(
            "The memory was used in part: {reached}. The limit was `policy.stepwise_target`, near which sizes no longer \
             grow; a higher one lets them."
        ),
        Limit::Adjustments => {
            let used = if WELL_USED <= used { "well" } else { "in part" };
            let most = history.policy.max_adjustments.map_or_else(String::new, |it| format!(" = {it}"));
            format!(
                "The memory was used {used}: {reached}. The limit was `policy.max_adjustments{most}`: sizes had changed as \
                 often as they may, and stay. With more of them, or with `policy.kind = \"certified\"`, they may grow."
            )
        }
        Limit::Length => format!(
            "The run ended before its sizes had settled: {reached}. More `train.steps` may let them grow.{}",
            history.gains.told()
        ),
        Limit::Certainty => format!(
            "The memory was used in part: {reached}. The limit was what is certain: the next larger step was not sure to \
             fit by its upper bound.{}",
            history.gains.told()
        ),
    })
}

/// Says what is known where no step was done since the last change.
fn changed_last(history: &History, reached: &str) -> String {
    // Of many lengths only the ends are named, which may be as they were.
    let change = adjustments(history).pop().map(|it| (it.from.to_string(), it.to.to_string())).filter(|(a, b)| a != b);
    let change = change.map_or_else(String::new, |(from, to)| format!(", from {from} to {to}"));
    format!(
        "The run ended as its sizes changed{change}: {reached} before that. More `train.steps` would show what the new \
         sizes reach."
    )
}

/// Says what ran in place of micro-batches that did not fit.
fn halved(last: &Last, settings: &StepSettings, reached: &str) -> String {
    let Knobs { patch_size, micro_batch_size } = last.rung;
    let asked = match settings.chosen_by {
        ChosenBy::BatchSize => format!("`batch.batch_size = {micro_batch_size}`"),
        ChosenBy::Search => format!("The batch of {micro_batch_size} that `batch.batch_size = \"auto\"` found"),
        ChosenBy::FixedPolicy => format!("The batch of {micro_batch_size} that `policy.kind = \"fixed\"` keeps"),
        ChosenBy::Policy | ChosenBy::Plan => format!("A batch of {micro_batch_size}"),
    };
    let helps = match settings.chosen_by {
        ChosenBy::BatchSize | ChosenBy::Search => {
            " `batch.batch_size = \"adaptive\"` with `policy.kind = \"certified\"` finds sizes that fit."
        }
        ChosenBy::FixedPolicy => " `policy.kind = \"certified\"` finds sizes that fit.",
        ChosenBy::Policy | ChosenBy::Plan => "",
    };
    format!(
        "Memory was the limit: {reached}. {asked} did not fit at patch {patch_size}, and steps ran as {}.{helps}{}",
        ran(last),
        more_capacity(settings, "may let larger ones run")
    )
}

/// Tells the micro-batches of a step: all of a few, else how many of which sizes.
fn ran(Last { sizes, .. }: &Last) -> String {
    let (n, least, most) = (sizes.len(), sizes.iter().min().unwrap_or(&0), sizes.iter().max().unwrap_or(&0));
    match n {
        _ if least == most => format!("{n} micro-batches of {most}"),
        0..=NAMED => format!("micro-batches of {}", listed(&sizes.iter().map(ToString::to_string).collect::<Vec<_>>())),
        _ => format!("{n} micro-batches of {least} to {most}"),
    }
}

/// Micro-batches of a step of which each is named.
const NAMED: usize = 8;

/// Names the capacity as what would help, where the device may have more.
fn more_capacity(settings: &StepSettings, brings: &str) -> String {
    if settings.is_capacity_set { format!(" A larger `memory.capacity` {brings}.") } else { String::new() }
}

/// Returns the capacity that the same run was measured to need, where it is far below what there is.
fn enough(history: &History, last: &Last) -> String {
    let (Some(peak), target) = (history.peak(), last.budget.as_f64() / last.capacity.as_f64()) else {
        return String::new();
    };
    let enough = Bytes::from_f64_ceil(peak.as_f64() / target).shown_up();
    if !target.is_finite() || last.capacity <= enough.saturating_mul(2) {
        return String::new();
    }
    format!(" A capacity of {enough} would have held all that was measured.")
}
