//! What a step did for each task.

use plimsoll_step::StepOutcome;
use plimsoll_types::TaskStep;

use crate::balance::TaskBalance;

/// Gathers what a step showed of its tasks; `tasks` has that of every sample.
///
/// A job's loss is the mean over the tasks that the step has, so what a probe measured is that part of the task's own
/// gradient.
pub(super) fn task_steps(balance: &TaskBalance, tasks: &[u16], outcome: &StepOutcome) -> Vec<TaskStep> {
    let count = |task: usize| tasks.iter().filter(|it| usize::from(**it) == task).count();
    let n_present = (0..balance.weights().len()).filter(|task| count(*task) > 0).count();
    let of_task = |(task, weight): (usize, &f64)| {
        let samples = count(task);
        let present = |values: &[f64]| values.get(task).copied().filter(|_| samples > 0);
        TaskStep {
            samples: u32::try_from(samples).unwrap_or(u32::MAX),
            loss: present(&outcome.of_tasks),
            gradient_norm: present(&outcome.task_norms).map(|norm| norm * n_present as f64),
            weight: *weight,
        }
    };
    balance.weights().iter().enumerate().map(of_task).collect()
}

/// Lets the balance learn from what a step showed.
pub(super) fn observe(balance: &mut TaskBalance, steps: &[TaskStep]) {
    let losses: Vec<_> = steps.iter().map(|it| it.loss).collect();
    let norms: Vec<_> = steps.iter().map(|it| it.gradient_norm).collect();
    balance.observe(&losses, &norms);
}
