//! What of a run is worth a line of its own.

use plimsoll_types::{BoundExceeded, Decision, Event, Phase, Stage, StepFailed, Validated};

/// Says what an event changes or measures, in a line that stays on the screen; `unit` is what a length counts, and
/// samples extend along so many axes.
pub fn lasting_line(event: &Event, unit: &str, n_axes: usize) -> Option<String> {
    match event {
        Event::Decided(decided) => match &decided.decision {
            Decision::Move(change) => {
                Some(format!("step {}: {} → {} ({})", decided.step, change.from, change.to, change.reason))
            }
            Decision::Resize(resize) => {
                let resized = resized(&resize.from, &resize.to, n_axes);
                Some(format!("step {}: {resized} ({})", decided.step, resize.reason))
            }
            Decision::Brake { reason } => Some(format!("warning: step {}: {reason}", decided.step)),
            Decision::Keep { .. } => None,
        },
        Event::StepFailed(StepFailed { step, rung, stage: Stage::Process, .. }) => {
            Some(format!("step {step}: the process before this one ran out of memory at {rung}"))
        }
        Event::StepFailed(StepFailed { step, stage: Stage::Optimizer, .. }) => {
            Some(format!("step {step}: the optimizer's step ran out of memory, and is taken again"))
        }
        Event::BoundExceeded(BoundExceeded { step, phase, shape, upper, peak }) => {
            let pass = if *phase == Phase::Infer { " without gradients" } else { "" };
            Some(format!(
                "step {step}: {shape} {unit}{pass} reached {peak}, above its bound of {upper}: every bound has grown by that"
            ))
        }
        Event::GradientCheckpointing(it) => Some(format!(
            "step {}: one sample alone does not fit: gradient checkpointing is {}, for less memory and more time",
            it.step, it.recompute
        )),
        Event::StepFailed(failed) => {
            let peak = failed.attempt.peak.map(|it| format!(" (peak {it}, capacity {})", failed.capacity));
            let shape = failed.attempt.shape;
            Some(format!(
                "step {}: {shape} {unit} ran out of memory{}, and runs again in parts",
                failed.step,
                peak.unwrap_or_default()
            ))
        }
        Event::BudgetChanged(changed) => {
            Some(format!("step {}: the budget is now {}", changed.step, changed.budget.budget))
        }
        Event::Validated(it) => Some(format!("step {}: held out: {}", it.step, measured(it))),
        Event::Tested(it) => Some(format!("test of the model of step {}: {}", it.step, measured(it))),
        _ => None,
    }
}

/// Says how the batches of all cells have changed, from that of the smallest to that of the largest; along one axis these
/// are lengths.
fn resized(from: &[u32], to: &[u32], n_axes: usize) -> String {
    if let ([before], [now]) = (from, to) {
        return format!("batches {} from {before} to {now}", if before < now { "grow" } else { "shrink" });
    }
    let pairs = || from.iter().zip(to);
    let (n_up, n_down) = (pairs().filter(|(a, b)| a < b).count(), pairs().filter(|(a, b)| b < a).count());
    let verb = match (n_up, n_down) {
        (_, 0) => "grow",
        (0, _) => "shrink",
        _ => "change",
    };
    let (n, first, last) = (to.len(), to.first().unwrap_or(&0), to.last().unwrap_or(&0));
    let [cells, smallest, largest] =
        if n_axes <= 1 { ["lengths", "shortest", "longest"] } else { ["cells", "smallest", "largest"] };
    format!("batches {verb} at {} of {n} {cells}: {first} of the {smallest}, {last} of the {largest}", n_up + n_down)
}

/// Says what was measured, of what, and how long it took.
fn measured(Validated { metric_name, metric, baseline, part, seconds, .. }: &Validated) -> String {
    let part = part.map_or_else(String::new, |it| format!(", on {} of {} items", it.n, it.of));
    format!("{metric_name} {metric:.2}, baseline {baseline:.2}{part}, in {seconds:.1} s")
}

#[cfg(test)]
mod tests {
    use super::resized;

    #[test]
    fn a_change_of_many_batches_is_a_sentence() {
        let sentence = |from: &[u32], to: &[u32]| resized(from, to, 1);
        let grown = "batches grow at 2 of 3 lengths: 9 of the shortest, 1 of the longest";
        assert_eq!(sentence(&[8, 4, 1], &[9, 5, 1]), grown);
        assert_eq!(sentence(&[1], &[8]), "batches grow from 1 to 8");
        assert!(sentence(&[8, 4, 1], &[4, 2, 1]).starts_with("batches shrink at 2 of 3 lengths: 4"));
        assert!(sentence(&[8, 4, 1], &[9, 3, 1]).starts_with("batches change at 2 of 3"));
    }

    #[test]
    fn along_several_axes_what_changes_is_of_cells() {
        let grown = "batches grow at 2 of 3 cells: 9 of the smallest, 1 of the largest";
        assert_eq!(resized(&[8, 4, 1], &[9, 5, 1], 2), grown);
    }
}
