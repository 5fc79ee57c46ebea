//! Was the memory used well, and what would change that?

use plimsoll_types::{Bytes, Knobs, StepDone};

use crate::adjustment::adjustments;
use crate::gain::gain;
use crate::levers::{Levers, listed};
use crate::limit::{ChosenBy, Limit, StepSettings, WELL_USED, is_cut_by_memory, limit};
use crate::policy::Policy;
use crate::run::Run;
use crate::text::share;
use crate::usage::median_share;

/// Says in words whether the memory was used well, and what would change that.
pub(crate) fn verdict(run: &Run<'_>, settings: &StepSettings) -> Option<String> {
    let tail = run.after_last_move_that_ran();
    let (used, start, last) = (median_share(&tail)?, run.start()?, tail.committed().last()?);
    let reached = format!("steps reached {} of the budget of {}", share(used), last.budget);
    if run.after_last_move().committed().next().is_none() {
        return Some(changed_last(run, &reached));
    }
    let Some(limit) = limit(run, settings) else { return Some(format!("In the steady state {reached}.")) };
    let policy = Policy::of(run);
    let levers = Levers { policy: &policy, settings, start, last };
    let unused = if WELL_USED <= used { "The memory was used well" } else { "Memory was not the limit" };
    Some(match limit {
        Limit::Memory if is_cut_by_memory(&policy, &tail, settings) => halved(last, settings, &reached),
        Limit::Memory => {
            format!(
                "The memory was used well, and was the limit: {reached}.{}{}",
                more_capacity(settings, "may let steps grow"),
                gain(run)
            )
        }
        Limit::EffectiveBatch | Limit::Fixed => {
            format!("{unused}: {reached}. {}{}", levers.told(limit, used < WELL_USED), enough(run, last))
        }
        Limit::BatchesPerStep => {
            let (parts, effective) = (settings.batches_per_step.unwrap_or(1), levers.effective());
            format!(
                "{unused}: {reached}. The limit was {effective}, which `batch.batches_per_step = {parts}` cuts into at \
                 least {parts} micro-batches though there was room for larger ones. With 1 a micro-batch may hold all of \
                 it; a larger `batch.effective_batch_size` takes more memory, and changes what is learnt.{}",
                enough(run, last)
            )
        }
        Limit::Bounds => {
            format!("{unused}: {reached}. {}{}{}", levers.told(limit, used < WELL_USED), enough(run, last), gain(run))
        }
        Limit::StepwiseTarget => format!(
            "The memory was used in part: {reached}. The limit was `policy.stepwise_target`, near which sizes no longer \
             grow; a higher one lets them."
        ),
        Limit::Adjustments => {
            let used = if WELL_USED <= used { "well" } else { "in part" };
            let most = policy.max_adjustments.map_or_else(String::new, |it| format!(" = {it}"));
            format!(
                "The memory was used {used}: {reached}. The limit was `policy.max_adjustments{most}`: sizes had changed as \
                 often as they may, and stay. With more of them, or with `policy.kind = \"certified\"`, they may grow."
            )
        }
        Limit::Length => format!(
            "The run ended before its sizes had settled: {reached}. More `train.steps` may let them grow.{}",
            gain(run)
        ),
        Limit::Certainty => format!(
            "The memory was used in part: {reached}. The limit was what is certain: the next larger step was not sure to \
             fit by its upper bound.{}",
            gain(run)
        ),
    })
}

/// Says what is known where no step was done since the last change.
fn changed_last(run: &Run<'_>, reached: &str) -> String {
    // Of many lengths only the ends are named, which may be as they were.
    let change = adjustments(run).pop().map(|it| (it.from.to_string(), it.to.to_string())).filter(|(a, b)| a != b);
    let change = change.map_or_else(String::new, |(from, to)| format!(", from {from} to {to}"));
    format!(
        "The run ended as its sizes changed{change}: {reached} before that. More `train.steps` would show what the new \
         sizes reach."
    )
}

/// Says what ran in place of micro-batches that did not fit.
fn halved(last: &StepDone, settings: &StepSettings, reached: &str) -> String {
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
fn ran(step: &StepDone) -> String {
    let sizes: Vec<u32> = step.micro_batches.iter().map(|it| it.shape().samples).collect();
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
