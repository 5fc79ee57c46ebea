//! A run in two dozen numbers.

use plimsoll_types::{Budget, Bytes, EndReason, Event, Phase, StepDone};
use serde::{Deserialize, Serialize};

use crate::adjustment::{Adjustment, adjustments};
use crate::change::{SettingChange, changes};
use crate::facts::{Restart, RunFacts};
use crate::learning::{ValidationReport, best_validation, findings, last_validation, test};
use crate::limit::{Limit, limit};
use crate::metrics::{failures_by_step, rate};
use crate::ranks::RankReport;
use crate::run::Run;
use crate::task::{TaskReport, task_reports};
use crate::text::{share, time};
use crate::usage::{Usage, steady_budget_share};
use crate::verdict::verdict;
use crate::work::{Work, much_padding};

/// Seconds from which waiting for samples is told, and the part of the steps' time that is much.
const WORTH_TELLING: f64 = 10.0;
const MUCH: f64 = 0.25;

/// What came of a run; what the events do not say is `None`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainingReport {
    /// [`TrainingReport::VERSION`] of the writer; reports that do not say are of version 1.
    #[serde(default = "first_version")]
    pub version: u32,
    /// Whether the memory was used well, and what would change that, in words.
    #[serde(default)]
    pub verdict: Option<String>,
    /// The changes that would help most, each with what speaks for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<SettingChange>,
    /// What the validations warn of, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
    /// What kept steps from being larger.
    #[serde(default)]
    pub limit: Option<Limit>,
    /// Name of the job.
    pub job: Option<String>,
    /// The device.
    pub device: Option<String>,
    /// Why the run ended; `None` when it was killed.
    pub end: Option<EndReason>,
    /// Steps that the optimizer took.
    pub steps: u64,
    /// Steps that were given up.
    pub steps_given_up: u64,
    /// Epochs that ended.
    pub epochs: u64,
    /// Samples of the committed steps.
    pub samples_seen: u64,
    /// What of the work was real, where samples are padded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// Samples that could not be read and were left out, counted each time.
    #[serde(default)]
    pub samples_skipped: u64,
    /// The capacity at the end.
    pub capacity_bytes: Option<Bytes>,
    /// The budget at the end.
    pub budget_bytes: Option<Bytes>,
    /// The highest mark of a step or validation, without the attempts that ran out of memory.
    pub peak_bytes: Option<Bytes>,
    /// Peaks of training and validation apart, and what is in use.
    #[serde(default, flatten)]
    pub usage: Usage,
    /// High-water mark of the process while it loaded its data.
    #[serde(default)]
    pub loading_peak_bytes: Option<Bytes>,
    /// Median of peak over budget in the committed steps after the last adjustment.
    pub steady_budget_share: Option<f64>,
    /// Changes of the knobs or batch sizes.
    pub adjustments: u64,
    /// Those that took more memory.
    #[serde(default)]
    pub increases: u64,
    /// Those that took less.
    #[serde(default)]
    pub decreases: u64,
    /// Steps that ran out of memory and were committed all the same.
    pub oom_recoveries: u64,
    /// Micro-batches that reached more than their upper bound, those of validations included.
    #[serde(default, skip_serializing_if = "plimsoll_types::is_zero")]
    pub bounds_exceeded: u64,
    /// Those of validations.
    #[serde(default, skip_serializing_if = "plimsoll_types::is_zero")]
    pub bounds_exceeded_in_validations: u64,
    /// Name of the metric, with its unit.
    pub metric_name: Option<String>,
    /// The metric of the last validation.
    pub metric: Option<f64>,
    /// The trivial baseline's metric on the same samples.
    pub baseline: Option<f64>,
    /// The validation that was best.
    #[serde(default)]
    pub best_validation: Option<ValidationReport>,
    /// The last validation.
    #[serde(default)]
    pub last_validation: Option<ValidationReport>,
    /// The test of the best model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<ValidationReport>,
    /// The checkpoint that was written last.
    #[serde(default)]
    pub last_checkpoint: Option<String>,
    /// What the edge of a shape counts.
    #[serde(default)]
    pub unit_of_length: String,
    /// What came of each task, where the samples have any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskReport>,
    /// Wall time of the run in seconds.
    pub seconds: f64,
    /// Samples of the committed steps by the time of all steps.
    pub samples_per_second: Option<f64>,
    /// Time that Plimsoll itself took per step, in microseconds.
    pub overhead_us_per_step: Option<f64>,
    /// What the steps of the last process waited for their samples, in seconds.
    #[serde(default)]
    pub waiting_seconds: Option<f64>,
    /// What they waited for other ranks, and to add what these have made, as a part of their time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for_ranks: Option<f64>,
    /// What came of each rank, where there are several; what is said of memory elsewhere is of the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<RankReport>,
    /// How many input files could not be used.
    pub skipped: usize,
    /// The deaths after which the run was taken up again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restarts: Vec<Restart>,
    /// Steps that were done again, whatever undid them.
    #[serde(default, skip_serializing_if = "plimsoll_types::is_zero")]
    pub undone_steps: u64,
    /// What the steps took that were done again, in seconds; nothing where there are none.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub undone_seconds: f64,
    /// Input files that could not be used, each with the reason.
    pub skipped_files: Vec<String>,
    /// What the user should know.
    pub warnings: Vec<String>,
    /// Every change of the knobs or batch sizes, with its reason.
    pub decisions: Vec<Adjustment>,
    /// The run directory.
    pub out_dir: String,
}

impl TrainingReport {
    /// Version of the layout; raised by every change that an older reader would misread.
    pub const VERSION: u32 = 2;

    /// Sums a run up.
    pub fn new(events: &[Event], facts: RunFacts) -> Self {
        let run = Run::new(events);
        let (waiting, settings) = (facts.waiting, facts.step_settings.clone());
        let mut report = Self::summed_up(&run, facts);
        report.changes = changes(&report, waiting, &settings);
        report
    }

    fn summed_up(run: &Run<'_>, facts: RunFacts) -> Self {
        let (start, memory, validation) = (run.start(), final_budget(run), run.validations().last());
        let own: u64 = run.steps().filter(|it| it.committed).map(StepDone::n_samples).sum();
        let samples_seen = own + facts.other_ranks.iter().map(|it| it.samples).sum::<u64>();
        let first = (!facts.other_ranks.is_empty()).then(|| RankReport::new(0, run.0));
        let ((increases, decreases), work) = (directions(run), Work::of(run.committed()));
        Self {
            version: Self::VERSION,
            changes: Vec::new(),
            verdict: verdict(run, &facts.step_settings),
            findings: findings(run)
                .into_iter()
                .chain(facts.waiting.and_then(waiting))
                .chain(much_padding(work, &facts.step_settings))
                .collect(),
            limit: limit(run, &facts.step_settings),
            job: start.map(|it| it.job.clone()),
            device: start.map(|it| it.device.clone()),
            end: end_reason(run),
            steps: count(run.steps().filter(|it| it.committed)),
            steps_given_up: count(run.steps().filter(|it| !it.committed)),
            epochs: count(run.0.iter().filter(|it| matches!(it, Event::EpochDone(_)))),
            samples_seen,
            work,
            samples_skipped: run.steps().map(|it| it.skipped.len() as u64).sum(),
            capacity_bytes: memory.map(|it| it.capacity),
            budget_bytes: memory.map(|it| it.budget),
            peak_bytes: run.peak(),
            usage: Usage::of(run),
            loading_peak_bytes: facts.loading_peak,
            steady_budget_share: steady_budget_share(run),
            adjustments: count(run.moves()),
            increases,
            decreases,
            oom_recoveries: oom_recoveries(run),
            bounds_exceeded: count(run.excesses()),
            bounds_exceeded_in_validations: count(run.excesses().filter(|it| it.phase == Phase::Infer)),
            metric_name: validation.map(|it| it.metric_name.clone()),
            metric: validation.map(|it| it.metric),
            baseline: validation.map(|it| it.baseline),
            best_validation: best_validation(run),
            last_validation: last_validation(run),
            test: test(run),
            last_checkpoint: run.last_checkpoint(),
            unit_of_length: start.map_or_else(String::new, |it| it.unit_of_length.clone()),
            tasks: task_reports(run),
            seconds: facts.seconds,
            samples_per_second: rate(samples_seen, run.steps().map(|it| it.seconds).sum()),
            overhead_us_per_step: facts.overhead_us_per_step,
            waiting_seconds: facts.waiting.map(|(seconds, _)| seconds),
            waiting_for_ranks: facts.waiting_for_ranks.map(|(_, part)| part),
            ranks: first.into_iter().chain(facts.other_ranks).collect(),
            skipped: facts.skipped_files.len(),
            restarts: facts.restarts,
            undone_steps: facts.undone.len() as u64,
            undone_seconds: facts.undone.iter().map(|it| it.seconds).fold(0.0, |sum, it| sum + it),
            skipped_files: facts.skipped_files,
            warnings: facts.warnings,
            decisions: adjustments(run),
            out_dir: facts.out_dir,
        }
    }
}

/// Says so where steps have waited for their samples for a good part of their time.
fn waiting((seconds, part): (f64, f64)) -> Option<String> {
    (WORTH_TELLING <= seconds && MUCH <= part).then(|| {
        format!(
            "Steps waited for their samples for {}, {} of their time, which limited the speed: more `data.workers` read \
             more of them at once, and where images are decoded anew, a larger `data.store_limit` keeps more of them.",
            time(seconds),
            share(part)
        )
    })
}

const fn first_version() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_nothing(seconds: &f64) -> bool {
    *seconds <= 0.0
}

fn count(items: impl Iterator) -> u64 {
    items.count() as u64
}

/// Counts the changes that took more memory, and those that took less.
fn directions(run: &Run<'_>) -> (u64, u64) {
    let n = |is: bool| run.moves().filter(|(_, it)| it.is_growth() == is).count() as u64;
    (n(true), n(false))
}

fn final_budget(run: &Run<'_>) -> Option<Budget> {
    run.0.iter().rev().find_map(|event| match event {
        Event::RunStarted(it) => Some(it.budget),
        Event::BudgetChanged(it) => Some(it.budget),
        Event::StepDone(it) => Some(Budget { capacity: it.capacity, budget: it.budget }),
        _ => None,
    })
}

fn end_reason(run: &Run<'_>) -> Option<EndReason> {
    let last = run.0.iter().rev().find(|it| matches!(it, Event::RunEnded(_) | Event::StepDone(_)));
    if let Some(Event::RunEnded(end)) = last { Some(end.reason) } else { None }
}

fn oom_recoveries(run: &Run<'_>) -> u64 {
    let failed = failures_by_step(run);
    count(run.steps().filter(|it| it.committed && failed.contains_key(&it.step)))
}
