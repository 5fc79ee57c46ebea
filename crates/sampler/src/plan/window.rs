//! From the samples of a window to batches.

use super::batches::{Batches, Span};
use super::config::{Objective, PlanConfig};
use super::entry::Entry;
use super::fill::longest_first;
use super::fit::Fit;
use super::least_time::least_time;
use super::line::Line;
use super::mix::mixed;
use super::narrow::narrow;
use super::order::keep_shares;
use super::spare::Spare;
use super::tasks::Tasks;
use crate::CapacityRule;
use crate::hash::Rng;

/// Room for one window, used again for the next.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Window<const AXES: usize> {
    /// The samples to be planned, which planning puts in order.
    pub(super) entries: Vec<Entry<AXES>>,
    /// What became of them.
    pub(super) batches: Batches<AXES>,
    /// The greatest share of a batch's pairs that share a batch in another epoch, of those that share a window.
    pub(super) reachable: f64,
    pub(super) spare: Spare<AXES>,
}

impl<const AXES: usize> Default for Window<AXES> {
    fn default() -> Self {
        Self { entries: Vec::new(), batches: Batches::default(), reachable: 0.0, spare: Spare::default() }
    }
}

/// How windows are planned.
#[derive(Clone, Copy)]
pub(super) struct Recipe<'a, R, const AXES: usize> {
    pub(super) config: &'a PlanConfig<AXES>,
    pub(super) fit: &'a Fit<R, AXES>,
    pub(super) tasks: Option<Tasks<'a>>,
    /// The axes from the one with the fewest lengths to the one with the most.
    pub(super) axes: &'a [usize],
    /// The share of an epoch that is in one window.
    pub(super) window_share: f64,
}

impl<R: CapacityRule<AXES>, const AXES: usize> Recipe<'_, R, AXES> {
    /// Divides the window's entries into batches in random order, of one task each where that is asked for.
    pub(super) fn plan(&self, window: &mut Window<AXES>, rng: &mut Rng) {
        let Window { entries, batches, reachable, spare } = window;
        batches.clear();
        batches.ids.reserve_exact(entries.len());
        let mut kept = 0.0;
        if let Some(tasks) = self.tasks.filter(|_| self.config.tasks.homogeneous) {
            // Each task has neighbours and batches of its own.
            for mut of_task in tasks.entries(entries) {
                let mut more = Batches::default();
                kept += self.plan_line(&mut of_task, &mut more, spare, rng) * more.len() as f64;
                batches.append(&more);
            }
        } else {
            kept = self.plan_line(entries, batches, spare, rng) * batches.len() as f64;
        }
        *reachable = kept / (batches.len() as f64).max(1.0);
        rng.shuffle(&mut batches.spans);
        if let Some(tasks) = self.mixing() {
            keep_shares(batches, tasks);
        }
    }

    /// Puts entries into a line and fills batches from it; returns the greatest share of pairs that meet again, of those
    /// whose samples are in one window again.
    fn plan_line(
        &self,
        entries: &mut [Entry<AXES>],
        out: &mut Batches<AXES>,
        spare: &mut Spare<AXES>,
        rng: &mut Rng,
    ) -> f64 {
        if entries.is_empty() {
            return 0.0;
        }
        let (lattice, most_kept) = (&self.fit.lattice, self.config.most_mates_kept.get() / self.window_share);
        let per_batch = self.per_batch(entries);
        let Self { axes, fit, window_share, .. } = *self;
        let capacity = |lengths| fit.capacity(lengths);
        let line = Line { axes, per_batch, capacity: &capacity, lattice, most_kept, window_share };
        let reachable = line.arrange(entries, spare.of(entries.len()), rng);
        self.fill(entries, out, &mut spare.numbers);
        reachable
    }

    fn fill(&self, entries: &[Entry<AXES>], out: &mut Batches<AXES>, room: &mut Vec<u32>) {
        let mix = &self.config.tasks;
        match (self.config.objective, self.mixing()) {
            (Objective::LeastTime { batch_overhead }, _) => least_time(entries, batch_overhead, self.fit, out),
            (Objective::FewestBatches, Some(tasks)) if !mix.homogeneous => {
                mixed(entries, tasks, mix.diversity_weight, self.fit, room, out);
            }
            (Objective::FewestBatches, _) => longest_first(entries, self.fit, out),
        }
    }

    /// The tasks, when they are to be mixed.
    fn mixing(&self) -> Option<Tasks<'_>> {
        self.tasks.filter(|tasks| tasks.n > 1 && self.config.tasks.diversity_weight.get() > 0.0)
    }

    /// About how many samples a batch holds, by a look at some of them.
    fn per_batch(&self, entries: &[Entry<AXES>]) -> f64 {
        if AXES == 1 {
            return 1.0;
        }
        let some = entries.iter().step_by(entries.len().div_ceil(64));
        let n = some.len() as f64;
        n / some.map(|entry| 1.0 / f64::from(self.fit.capacity(entry.lengths).max(1))).sum::<f64>()
    }
}

impl<const AXES: usize> Window<AXES> {
    /// Leaves out the batches that are not full, or no multiple where that is asked for.
    pub(super) fn drop_ragged(&mut self, multiple_of: u32) {
        let is_whole = |span: &Span<AXES>| multiple_of > 1 && (span.end - span.start).is_multiple_of(multiple_of);
        self.batches.spans.retain(|span| !span.partial || is_whole(span));
    }

    /// Takes back the batches that may still get more samples, up to a number of samples: first what is no multiple.
    pub(super) fn take_partial(&mut self, multiple_of: u32, most: usize, carried: &mut Vec<u32>) {
        let Batches { ids, spans } = &mut self.batches;
        let mut take = |may_be_whole: bool| {
            spans.retain(|span| {
                let of_span = &ids[span.start as usize..span.end as usize];
                let may = may_be_whole || !narrow(of_span.len()).is_multiple_of(multiple_of);
                let carry = span.partial && may && carried.len() + of_span.len() <= most;
                if carry {
                    carried.extend_from_slice(of_span);
                }
                !carry
            });
        };
        take(false);
        take(true);
    }
}
