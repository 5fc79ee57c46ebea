//! Whether a round went as it must.

use crate::Failed;
use crate::audit::{Audit, audit, audit_epochs};
use crate::kind::Kind;
use crate::log::{self, RunLog};
use crate::plan::Plan;
use crate::references::Undisturbed;
use crate::round::Course;
use crate::setting::{CHECKPOINT_EVERY, Mode};
use crate::weights::Weights;

/// What a round showed.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) course: Course,
    pub(crate) audit: Audit,
    /// Whether weights and events are those of the undisturbed run, where they must be.
    pub(crate) is_identical: Option<bool>,
    /// How far the weights are from those of the undisturbed run, where they may differ.
    pub(crate) distance: Option<f64>,
    pub(crate) problems: Vec<String>,
}

/// Compares a run with the undisturbed one.
pub(crate) fn judge(plan: &Plan, course: Course, undisturbed: &Undisturbed, tolerance: f64) -> Verdict {
    let mut verdict =
        Verdict { audit: Audit::default(), is_identical: None, distance: None, problems: Vec::new(), course };
    verdict.problems.extend(verdict.course.trouble.clone());
    if verdict.problems.is_empty()
        && let Err(error) = compare(&mut verdict, plan, undisturbed, tolerance)
    {
        verdict.problems.push(format!("failed to {error}"));
    }
    verdict
}

fn compare(verdict: &mut Verdict, plan: &Plan, undisturbed: &Undisturbed, tolerance: f64) -> Result<(), Failed> {
    let (log, weights) = (RunLog::of_run(&verdict.course.run)?, Weights::of_run(&verdict.course.run)?);
    let audit = if plan.setting.has_given_steps() { audit } else { audit_epochs };
    verdict.audit = audit(&log, &undisturbed.log);
    let problems = &mut verdict.problems;
    problems.extend(verdict.audit.problems.iter().cloned());
    if verdict.audit.lost + verdict.audit.repeated > 0 {
        problems.push(format!("{} samples lost, {} repeated", verdict.audit.lost, verdict.audit.repeated));
    }
    if !weights.are_finite() {
        problems.push("a weight is not finite".to_owned());
    }
    if plan.setting.mode == Mode::Deterministic {
        let difference = log.first_difference(&undisturbed.log);
        let is_same = weights.is_identical(&undisturbed.weights);
        verdict.is_identical = Some(is_same && difference.is_none());
        if !is_same {
            problems.push(format!("the weights differ, by {:.1e}", weights.distance(&undisturbed.weights)));
        }
        problems.extend(difference.map(|it| format!("the events differ: {it}")));
    } else if plan.setting.has_given_steps() {
        let distance = weights.distance(&undisturbed.weights);
        verdict.distance = Some(distance);
        if distance.is_nan() || tolerance < distance {
            problems.push(format!("the weights differ by {distance:.1e}, more than {tolerance:.1e}"));
        }
    }
    // Each damaged checkpoint sends the run back by one more, and so does one that was on its way to the disk.
    let is_damage = |it: &&(Kind, u64)| it.0 == Kind::DamagedCheckpoint;
    let most = CHECKPOINT_EVERY * (2 + verdict.course.faults.iter().filter(is_damage).count() as u64);
    if let Some(undone) = log::undone_steps(&verdict.course.run)?.into_iter().find(|it| most < *it) {
        problems.push(format!("{undone} steps were undone at once, more than {most}"));
    }
    if !problems.is_empty() {
        let faults: Vec<_> = verdict.course.faults.iter().map(|it| it.0.name()).collect();
        problems.push(format!("its faults were {}", faults.join(", ")));
    }
    Ok(())
}
