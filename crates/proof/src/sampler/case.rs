//! A set of samples, planned in one way.

use std::hint::black_box;
use std::time::Duration;

use plimsoll_probe::HeapCounters;
use plimsoll_sampler::{BatchPlanner, Batches, PaddedBudget, PlanConfig, PlanReport, SamplerError, task_entropy_ratio};

use super::audit::{Audit, Kept};
use super::cpu::timed;
use super::reference::shuffle_sort_fill;
use super::row::{Mixing, Padding, Reference, Row, Time};
use super::set::{Set, Setting};

/// A set of samples, planned in one way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case<'a, const AXES: usize> {
    /// The samples.
    pub set: &'a Set<AXES>,
    /// Their least waste, where it is known.
    pub optimum_waste: Option<f64>,
    /// How they are planned.
    pub setting: Setting,
    /// Epochs that are timed; at least 1.
    pub n_repeats: usize,
}

type Planner<const AXES: usize> = BatchPlanner<PaddedBudget<AXES>, AXES>;

impl<const AXES: usize> Case<'_, AXES> {
    /// Plans some epochs and says what came of it.
    ///
    /// # Errors
    ///
    /// As [`Set::planner`].
    pub fn row(&self) -> Result<Row, SamplerError> {
        let Set { name, lengths, budget, .. } = self.set;
        let n = lengths[0].len();
        let config = self.setting.config(lengths)?;
        let bytes_per_sample = self.peak_bytes(config.clone())? as f64 / n as f64;
        let window = config.window(n);
        let planner = self.set.planner(config)?;
        let (here, next) = (planner.plan_epoch(0), planner.plan_epoch(1));
        let report = planner.report(0, &here);
        Ok(Row {
            data: name.clone(),
            setting: self.setting.name(),
            n,
            window,
            budget: budget.to_vec(),
            time: self.time(&planner, window),
            reference: self.reference(window),
            padding: self.padding(&report, &here),
            mixing: self.mixing(&report, &here, &next),
            bytes_per_sample,
        })
    }

    /// The most bytes that planning an epoch holds, the lengths among them.
    fn peak_bytes(&self, config: PlanConfig<AXES>) -> Result<usize, SamplerError> {
        let heap = HeapCounters::of_program();
        heap.reset_peak();
        let before = heap.current();
        let batches = self.set.planner(config)?.plan_epoch(0);
        drop(black_box(batches));
        Ok(heap.peak().saturating_sub(before))
    }

    /// Times the planner and the reference in turn.
    fn time(&self, planner: &Planner<AXES>, window: usize) -> Time {
        let Set { lengths, budget, .. } = self.set;
        let (mut ours, mut reference) = (Vec::new(), Vec::new());
        for epoch in (0..).take(self.n_repeats.max(1)) {
            let (batches, time) = timed(|| planner.plan_epoch(epoch));
            ours.push(time);
            drop(black_box(batches));
            let (filled, time) = timed(|| shuffle_sort_fill(lengths, *budget, window, epoch));
            reference.push(time);
            drop(black_box(filled));
        }
        ours.sort_unstable();
        reference.sort_unstable();
        let per_sample = |time: Duration| 1e9 * time.as_secs_f64() / lengths[0].len() as f64;
        let [ns_per_sample, reference_ns_per_sample] = [&ours, &reference].map(|it| per_sample(it[it.len() / 2]));
        Time {
            ns_per_sample,
            ns_per_sample_least: per_sample(ours[0]),
            reference_ns_per_sample,
            ratio_to_reference: ns_per_sample / reference_ns_per_sample,
        }
    }

    /// What the plain way comes to, in epochs of the same window.
    fn reference(&self, window: usize) -> Reference {
        let Set { lengths, budget, .. } = self.set;
        let plan = |epoch| shuffle_sort_fill(lengths, *budget, window, epoch);
        let (here, next) = (plan(0), plan(1));
        let audit = Audit::of(lengths, *budget, here.iter().map(|ids| (ids, [0; AXES])));
        Reference {
            reference_waste: audit.most_waste(),
            reference_batches: audit.n_batches,
            reference_mates_kept: Kept::new(here.iter(), next.iter()).by_batch,
        }
    }

    fn padding(&self, report: &PlanReport, batches: &Batches<AXES>) -> Padding {
        let audit = Audit::new(&self.set.lengths, self.set.budget, batches);
        Padding {
            waste: audit.most_waste(),
            waste_per_axis: audit.waste,
            lattice_waste: report.lattice_waste.iter().copied().fold(0.0, f64::max),
            optimum_waste: self.optimum_waste,
            batches: audit.n_batches,
            lower_bound: report.lower_bound,
            over_budget: audit.over_budget,
            not_once: audit.not_once,
        }
    }

    fn mixing(&self, report: &PlanReport, here: &Batches<AXES>, next: &Batches<AXES>) -> Mixing {
        let tasks = self.set.tasks.as_ref();
        let entropy = |n_batches| tasks.and_then(|tasks| task_entropy_ratio(here, tasks, n_batches));
        Mixing {
            mates_kept: report.mates_kept.kept,
            mates_kept_over_pairs: Kept::new(here.iter().map(|it| it.ids), next.iter().map(|it| it.ids)).over_pairs,
            task_entropy_ratio: entropy(8),
            task_entropy_ratio_per_batch: entropy(1),
        }
    }
}
