//! What is amiss with the learning of a run, and with its padding.

use plimsoll_types::{ItemsMeasured, Validated};

use crate::history::History;
use crate::learning::Judged;
use crate::step_settings::StepSettings;
use crate::text::{counted, share, short};
use crate::work::{MUCH, Work};

/// A validation is clearly worse than another when it has lost this part of what that had gained on the baseline.
const CLEARLY: f64 = 0.1;
/// And when it is off by this part of the value itself: less is noise.
const VISIBLY: f64 = 0.01;
/// Says what the validations warn of, one sentence each.
pub(crate) fn findings(history: &History) -> Vec<String> {
    let learning = &history.learning;
    let (Some(last), Some(whole)) = (&learning.last_of_series, learning.last()) else { return Vec::new() };
    let best = learning.best();
    let mut findings = Vec::new();
    findings.extend(has_failed(best, &last.validated).or_else(|| has_overfitted(best, last)));
    // A model that no step has trained has nothing to have learnt.
    findings.extend(has_learnt_nothing(best, &last.validated).filter(|_| 0 < last.validated.step));
    let n_done = history.n_done();
    if whole.step < n_done {
        let are = if n_done == 1 { "is" } else { "are" };
        findings.push(format!(
            "The last validation is of step {}, and {} {are} done.",
            whole.step,
            counted(n_done, "step")
        ));
    }
    if let Some(ItemsMeasured { n, of }) = whole.part {
        findings.push(format!(
            "The model was validated on {n} of the {of} items that are held out, always the same; \
             `train.validation_share = 1.0` takes all of them."
        ));
    }
    findings
}

fn has_failed(best: Option<&Judged>, last: &Validated) -> Option<String> {
    let best = best.map(|it| &it.validated).filter(|it| it.step < last.step && !last.metric.is_finite())?;
    let name = &last.metric_name;
    Some(format!(
        "The model of the last validation is lost: {name} {} at step {}, {} at step {}; a lower `train.learning_rate` may help.",
        short(last.metric),
        last.step,
        short(best.metric),
        best.step
    ))
}

/// The last validation is clearly worse than the best.
fn has_overfitted(best: Option<&Judged>, last: &Judged) -> Option<String> {
    let Judged { validated: best, checkpoint, loss: then } =
        best.filter(|it| it.validated.step < last.validated.step)?;
    let Judged { validated: last, loss: now, .. } = last;
    let loss = (last.metric - best.metric).abs();
    let gained = (best.metric - best.baseline).abs();
    if loss <= CLEARLY * gained || loss <= VISIBLY * best.metric.abs() {
        return None;
    }
    let name = &last.metric_name;
    let kept = checkpoint.as_ref().map_or_else(String::new, |it| format!("; `{it}` holds the better one"));
    let what = format!(
        "{name} was {} at step {}, and is {} at step {}",
        short(best.metric),
        best.step,
        short(last.metric),
        last.step
    );
    Some(match (then, now) {
        (Some(then), Some(now)) if now < then => format!(
            "Overfitting: {what}, while the training loss fell from {} to {}{kept}. Fewer steps or more data would help.",
            short(*then),
            short(*now)
        ),
        _ => format!("The model got worse: {what}{kept}."),
    })
}

/// Not even the best validation is better than the baseline.
fn has_learnt_nothing(best: Option<&Judged>, last: &Validated) -> Option<String> {
    let (goal, best) = (last.goal?, best.map_or(last, |it| &it.validated));
    if goal.prefers(best.metric, best.baseline) {
        let is_below = goal.prefers(last.baseline, last.metric);
        return is_below.then(|| {
            let (name, value, baseline) = (&last.metric_name, short(last.metric), short(last.baseline));
            format!(
                "On what was held out the last model is worse than the baseline: {name} {value}, baseline {baseline}."
            )
        });
    }
    let (name, value, baseline) = (&best.metric_name, short(best.metric), short(best.baseline));
    Some(format!(
        "On what was held out the model is no better than the baseline, not even at its best: {name} {value} at step {}, \
         baseline {baseline}.",
        best.step
    ))
}

/// Warns of padding that is worth a change, or above what was planned.
pub(crate) fn much_padding(
    work: Option<Work>,
    (planned, n_axes): (Option<f64>, usize),
    settings: &StepSettings,
) -> Option<String> {
    let work = work?;
    let is_much = MUCH <= work.padding;
    let why = match planned.filter(|_| work.is_above(planned)) {
        _ if is_much && settings.lacks_edges => "a larger `batch.n_edges` pads less".to_owned(),
        Some(planned) if 1 < n_axes => format!(
            "the cells alone make it {}, and micro-batches mix samples of several cells where there are few of each",
            share(planned)
        ),
        Some(planned) => format!(
            "the edges alone make it {}, and micro-batches mix lengths of several edges where there are few samples of each",
            share(planned)
        ),
        None if is_much => "there are edges enough, but too few samples of each length to fill micro-batches that are \
                            well mixed"
            .to_owned(),
        None => return None,
    };
    Some(format!("{} of the positions were padding, which is computed like all else: {why}.", share(work.padding)))
}
