//! From what the events come to, and what they do not say, to the numbers.

use plimsoll_types::Phase;

use crate::adjustment::adjustments;
use crate::changes::changes;
use crate::facts::RunFacts;
use crate::findings::{findings, much_padding};
use crate::history::History;
use crate::limit::limit;
use crate::median::Median;
use crate::ran::{edge_samples, size_rates};
use crate::ranks::RankReport;
use crate::summary::TrainingReport;
use crate::text::{share, time};
use crate::usage::Usage;
use crate::verdict::verdict;
use crate::work::rate;

/// Seconds from which waiting for samples is told, and the part of the steps' time that is much.
const WORTH_TELLING: f64 = 10.0;
const MUCH: f64 = 0.25;

impl TrainingReport {
    /// Sums a run up.
    pub fn new(history: &History, facts: RunFacts) -> Self {
        let (waiting, settings) = (facts.waiting, facts.step_settings.clone());
        let mut report = Self::summed_up(history, facts);
        report.changes = changes(&report, waiting, &settings);
        report
    }

    fn summed_up(history: &History, facts: RunFacts) -> Self {
        let History { counts, incidents, learning, memory, .. } = history;
        let (start, validation) = (history.start.as_ref(), learning.last());
        let samples_seen = counts.samples + facts.other_ranks.iter().map(|it| it.samples).sum::<u64>();
        let first = (!facts.other_ranks.is_empty()).then(|| RankReport::new(0, history));
        let others = facts.other_ranks.iter().filter(|it| 0 < it.samples);
        let work = history.work.with(others.map(|it| it.work)).work();
        let planned_padding = start.and_then(|it| it.planned_padding);
        let increases = incidents.moves.iter().filter(|(_, it)| it.is_growth()).count() as u64;
        Self {
            version: Self::VERSION,
            changes: Vec::new(),
            verdict: verdict(history, &facts.step_settings),
            findings: findings(history)
                .into_iter()
                .chain(facts.waiting.and_then(waiting))
                .chain(much_padding(work, (planned_padding, history.policy.cells.n_axes()), &facts.step_settings))
                .collect(),
            limit: limit(history, &facts.step_settings),
            job: start.map(|it| it.job.clone()),
            device: start.map(|it| it.device.clone()),
            end: history.end,
            steps: counts.committed,
            steps_given_up: counts.given_up,
            steps_per_point: history.curves.steps_per_point(),
            epochs: counts.epochs,
            samples_seen,
            work,
            planned_padding,
            size_rates: size_rates(history),
            edge_samples: edge_samples(history),
            supply: history.supply.report(),
            foreseen: history.foreseen.report(),
            samples_skipped: counts.skipped,
            dropped: history.dropped.filter(|it| 0 < it.samples),
            capacity_bytes: memory.map(|it| it.capacity),
            budget_bytes: memory.map(|it| it.budget),
            peak_bytes: history.peak(),
            usage: Usage::of(&history.peaks, history.last.as_ref()),
            loading_peak_bytes: facts.loading_peak,
            steady_budget_share: history.tail.shares.value(),
            steady_budget_share_error: history.tail.shares.is_estimate().then_some(Median::ERROR),
            adjustments: incidents.moves.len() as u64,
            increases,
            decreases: incidents.moves.len() as u64 - increases,
            oom_recoveries: counts.oom_recoveries,
            bounds_exceeded: incidents.excesses.len() as u64,
            bounds_exceeded_in_validations: history.n_excesses(Phase::Infer),
            metric_name: validation.map(|it| it.metric_name.clone()),
            metric: validation.map(|it| it.metric),
            baseline: validation.map(|it| it.baseline),
            best_validation: learning.best_validation(),
            last_validation: learning.last_validation(),
            test: learning.tested(),
            last_checkpoint: learning.last_checkpoint(),
            unit_of_length: start.map_or_else(String::new, |it| it.unit_of_length.clone()),
            sources: history.sources.reports(),
            n_axes: history.policy.cells.n_axes() as u64,
            tasks: history.tasks.reports(),
            seconds: facts.seconds,
            samples_per_second: rate(samples_seen, history.seconds.steps),
            overhead_us_per_step: facts.overhead_us_per_step,
            waiting_seconds: facts.waiting.map(|(seconds, _)| seconds),
            waiting_for_ranks: facts.waiting_for_ranks.map(|(_, part)| part),
            ranks: first.into_iter().chain(facts.other_ranks).collect(),
            skipped: facts.skipped_files.len(),
            restarts: facts.restarts,
            undone_steps: facts.undone.len() as u64,
            undone_seconds: facts.undone.iter().map(|it| it.seconds).fold(0.0, |sum, it| sum + it),
            mates_kept: facts.mates_kept,
            data: facts.data,
            skipped_files: facts.skipped_files,
            warnings: facts.warnings,
            decisions: adjustments(history),
            out_dir: facts.out_dir,
        }
    }
}

/// Says so where steps have waited for their samples for a good part of their time.
fn waiting((seconds, part): (f64, f64)) -> Option<String> {
    (WORTH_TELLING <= seconds && MUCH <= part).then(|| {
        format!(
            "Steps waited for their samples for {}, {} of their time, which limited the speed: more `data.workers` read \
             more of them at once, and where images or recordings are decoded anew, a larger `data.store_limit` keeps \
             more of them.",
            time(seconds),
            share(part)
        )
    })
}
