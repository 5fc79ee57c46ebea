//! Padded plans of random configurations.

use plimsoll_sampler::{
    BatchPlanner, EpochEnd, Lattice, Objective, Oversize, OwnedBatch, PaddedBudget, PlanConfig, PlanError, SampleIndex,
    TaskMix,
};

use super::{N_CASES, below, hold, one_of};
use crate::common::Numbers;

const N_TASKS: usize = 3;
const SHARES: [f64; N_TASKS] = [0.5, 0.25, 0.25];

/// What is planned, and how.
#[derive(Debug)]
struct Case<const AXES: usize> {
    lengths: [Vec<u32>; AXES],
    tasks: Vec<u16>,
    weights: Option<Vec<f64>>,
    edges: [Vec<u32>; AXES],
    budget: [u64; AXES],
    config: PlanConfig<AXES>,
}

fn case<const AXES: usize>(seed: u64) -> Case<AXES> {
    let numbers = &mut Numbers::new(seed.wrapping_mul(0x9e37_79b9));
    let n = 1 + below(numbers, 60);
    // A few samples are longer than any edge, and some than what fits.
    let longest: [u32; AXES] = std::array::from_fn(|_| 1 + below(numbers, 42));
    let lengths = longest.map(|longest| (0..n).map(|_| 1 + below(numbers, longest)).collect());
    let tasks = (0..n).map(|_| u16::try_from(below(numbers, 3)).unwrap()).collect();
    let edges: [Vec<u32>; AXES] = std::array::from_fn(|_| one_of(numbers, &[vec![], vec![7, 20, 40]]));
    let ends = one_of(numbers, &[EpochEnd::AllOnce, EpochEnd::FirstExhausted, EpochEnd::LastExhausted]);
    let drawn_by = below(numbers, 4);
    let weights = (drawn_by == 0).then(|| (0..n).map(|_| f64::from(below(numbers, 4))).collect::<Vec<_>>());
    let weights = weights.filter(|it| it.iter().any(|weight| 0.0 < *weight));
    let shares = (drawn_by == 1 || drawn_by == 2).then(|| SHARES.to_vec());
    let homogeneous = below(numbers, 4) == 0;
    let is_fewest = 1 < AXES || below(numbers, 4) != 0;
    let config = PlanConfig {
        seed,
        window: (below(numbers, 2) == 0).then(|| 1 + below(numbers, 40) as usize),
        most_samples: one_of(numbers, &[u32::MAX, u32::MAX, 7]),
        multiple_of: if is_fewest { 1 + below(numbers, 5) } else { 1 },
        drop_last: is_fewest && below(numbers, 3) == 0,
        lattice: Lattice::try_new(edges.clone()).unwrap(),
        objective: if is_fewest {
            Objective::FewestBatches
        } else {
            Objective::LeastTime { batch_overhead: f64::from(below(numbers, 100)) }
        },
        oversize: one_of(numbers, &[Oversize::Refuse, Oversize::Skip, Oversize::Truncate]),
        tasks: TaskMix {
            ends: if shares.is_some() { ends } else { EpochEnd::AllOnce },
            shares,
            homogeneous,
            ..TaskMix::default()
        },
        ..PlanConfig::default()
    };
    let budget = std::array::from_fn(|_| u64::from(20 + below(numbers, 320)));
    Case { lengths, tasks, weights, edges, budget, config }
}

impl<const AXES: usize> Case<AXES> {
    fn length(&self, id: usize) -> [u32; AXES] {
        self.lengths.each_ref().map(|axis| axis[id])
    }

    /// What samples of these lengths are padded to, if there is such an edge on every axis.
    fn cell(&self, lengths: [u32; AXES]) -> Option<[u32; AXES]> {
        let mut cell = lengths;
        for (edges, length) in self.edges.iter().zip(&mut cell).filter(|(edges, _)| !edges.is_empty()) {
            *length = edges.iter().copied().find(|edge| *length <= *edge)?;
        }
        Some(cell)
    }

    /// How many samples fit, by the budget alone.
    fn capacity(&self, lengths: [u32; AXES]) -> u64 {
        let Some(cell) = self.cell(lengths) else { return 0 };
        let fit = self.budget.iter().zip(cell).map(|(budget, edge)| budget / u64::from(edge)).min().unwrap();
        let fit = fit.min(self.config.most_samples.into());
        let k = u64::from(self.config.multiple_of);
        if fit < k { fit } else { fit - fit % k }
    }

    /// The lengths that a sample is planned with, cut on the last axis first; none where it is left out.
    fn planned(&self, id: usize) -> Option<[u32; AXES]> {
        let mut lengths = self.length(id);
        if self.capacity(lengths) > 0 {
            return Some(lengths);
        }
        if self.config.oversize != Oversize::Truncate {
            return None;
        }
        for axis in (0..AXES).rev() {
            let fits = |length: &u32| {
                let mut cut = lengths;
                cut[axis] = *length;
                self.capacity(cut) > 0
            };
            lengths[axis] = (1..=lengths[axis]).rev().find(fits).unwrap_or(1);
            if self.capacity(lengths) > 0 {
                return Some(lengths);
            }
        }
        None
    }

    fn joined(lengths: impl Iterator<Item = [u32; AXES]>) -> [u32; AXES] {
        lengths.fold([1; AXES], |longest, of| std::array::from_fn(|axis| of[axis].max(longest[axis])))
    }

    /// Why there can be no plan, as far as lengths and budget say.
    fn is_refused(&self, error: &PlanError) -> bool {
        let all = || 0..self.tasks.len();
        let oversize = || all().filter(|id| self.capacity(self.length(*id)) == 0);
        let planned = all().filter_map(|id| self.planned(id));
        match error {
            PlanError::Oversize { id, .. } => {
                self.config.oversize == Oversize::Refuse && oversize().next() == usize::try_from(*id).ok()
            }
            PlanError::NothingFits { .. } => planned.count() == 0,
            PlanError::MultipleAboveBudget { multiple, .. } => {
                self.capacity(Self::joined(planned)) < u64::from(*multiple)
            }
            _ => false,
        }
    }

    #[track_caller]
    fn check(&self) {
        let mut index = SampleIndex::try_new(self.lengths.clone()).unwrap().with_tasks(self.tasks.clone()).unwrap();
        if let Some(weights) = &self.weights {
            index = index.with_weights(weights).unwrap();
        }
        let planner = match BatchPlanner::try_new(index, PaddedBudget(self.budget), self.config.clone()) {
            Err(error) => return assert!(self.is_refused(&error), "{error}"),
            Ok(planner) => planner,
        };
        let n_oversize = (0..self.tasks.len()).filter(|id| self.capacity(self.length(*id)) == 0).count();
        assert!(n_oversize == 0 || self.config.oversize != Oversize::Refuse);
        assert_eq!(planner.n_oversize(), n_oversize);
        let longest = Self::joined((0..self.tasks.len()).filter_map(|id| self.planned(id)));
        assert!(self.config.multiple_of == 1 || u64::from(self.config.multiple_of) <= self.capacity(longest));
        let batches: Vec<_> = planner.batches(self.epoch()).collect();
        self.check_budget(&batches);
        self.check_samples(&batches);
        self.check_resumed(&planner, &batches);
    }

    fn epoch(&self) -> u64 {
        self.config.seed % 3
    }

    /// No batch is above the budget, and each is of one task where that is asked for.
    #[track_caller]
    fn check_budget(&self, batches: &[OwnedBatch<AXES>]) {
        for batch in batches {
            let n = batch.ids.len() as u64;
            let ids = || batch.ids.iter().map(|id| usize::try_from(*id).unwrap());
            let longest = Self::joined(ids().map(|id| self.planned(id).unwrap()));
            assert!(n > 0 && n <= self.capacity(longest), "{n} samples of {longest:?}");
            for ((edge, longest), budget) in batch.cell.iter().zip(longest).zip(self.budget) {
                assert!(n * u64::from(*edge) <= budget && longest <= *edge, "{batch:?}");
            }
            let is_mixed = ids().any(|id| self.tasks[id] != self.tasks[ids().next().unwrap()]);
            assert!(!is_mixed || !self.config.tasks.homogeneous, "{batch:?}");
        }
    }

    /// How often the samples of each task come in an epoch, all together.
    fn quotas(&self) -> [u64; N_TASKS] {
        let size = |task: usize| self.tasks.iter().filter(|it| usize::from(**it) == task).count() as u64;
        let sizes: [u64; N_TASKS] = std::array::from_fn(size);
        let credits = || (0..N_TASKS).filter(|task| 0 < sizes[*task]).map(|task| sizes[task] as f64 / SHARES[task]);
        let credit = match self.config.tasks.ends {
            EpochEnd::AllOnce => return sizes,
            EpochEnd::FirstExhausted => credits().fold(f64::INFINITY, f64::min),
            EpochEnd::LastExhausted => credits().fold(0.0, f64::max),
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most some hundreds")]
        let quota = |task: usize| if sizes[task] == 0 { 0 } else { ((SHARES[task] * credit).round() as u64).max(1) };
        std::array::from_fn(quota)
    }

    /// Each sample comes as often as it is to, but for what is left beyond a multiple of each task, or of all of them.
    #[track_caller]
    fn check_samples(&self, batches: &[OwnedBatch<AXES>]) {
        let mut seen = vec![0u64; self.tasks.len()];
        batches.iter().flat_map(|batch| &batch.ids).for_each(|id| seen[usize::try_from(*id).unwrap()] += 1);
        let k = u64::from(self.config.multiple_of);
        let n_ragged = batches.iter().filter(|batch| !(batch.ids.len() as u64).is_multiple_of(k)).count() as u64;
        let n_lines = if self.config.tasks.homogeneous { N_TASKS as u64 } else { 1 };
        assert!(n_ragged <= n_lines, "{n_ragged} ragged batches of {}", batches.len());
        assert!(n_ragged == 0 || !self.config.drop_last, "{n_ragged} ragged batches");
        // What is too long is drawn, and left out.
        let left_out: Vec<_> = (0..seen.len()).map(|id| self.planned(id).is_none()).collect();
        assert!(!seen.iter().zip(&left_out).any(|(seen, is_out)| *is_out && 0 < *seen));
        let most = if k > 1 { k - 1 } else { self.capacity([1; AXES]) - 1 };
        let may_drop = if self.config.drop_last { n_lines * most } else { 0 };
        match &self.weights {
            Some(weights) => {
                assert!(seen.iter().zip(weights).all(|(seen, weight)| *seen == 0 || 0.0 < *weight), "{seen:?}");
                let (n, all) = (seen.iter().sum::<u64>(), seen.len() as u64);
                assert!(n <= all && (left_out.contains(&true) || all - may_drop.min(all) <= n), "{n} of {all}");
            }
            None => self.check_quotas(&seen, &left_out, may_drop),
        }
    }

    #[track_caller]
    fn check_quotas(&self, seen: &[u64], left_out: &[bool], may_drop: u64) {
        let mut n_missing = 0;
        for (task, quota) in (0..).zip(self.quotas()) {
            let own = || (0..seen.len()).filter(|id| usize::from(self.tasks[*id]) == task);
            let size = own().count() as u64;
            if size == 0 {
                continue;
            }
            // A task comes round by round: no sample comes again before all others have come.
            let (least, most) = (quota / size, quota.div_ceil(size));
            let kept = || own().filter(|id| !left_out[*id]).map(|id| seen[id]);
            assert!(kept().all(|n| n <= most && least <= n + may_drop), "{least} to {most} times: {seen:?}");
            let may_come = kept().count() as u64;
            let at_least = (quota / size) * may_come + (quota % size).saturating_sub(size - may_come);
            n_missing += at_least.saturating_sub(kept().sum());
            assert!(kept().sum::<u64>() <= quota, "{quota} of task {task}: {seen:?}");
        }
        assert!(n_missing <= may_drop, "{n_missing} are missing: {seen:?}");
    }

    /// An epoch that is interrupted somewhere goes on with the same batches.
    #[track_caller]
    fn check_resumed(&self, planner: &BatchPlanner<PaddedBudget<AXES>, AXES>, batches: &[OwnedBatch<AXES>]) {
        let n_before = usize::try_from(self.config.seed).unwrap() % (batches.len() + 1);
        let mut epoch = planner.epoch(self.epoch());
        assert_eq!(epoch.by_ref().take(n_before).count(), n_before);
        let saved = serde_json::to_string(&epoch.position()).unwrap();
        let resumed = planner.resume(&serde_json::from_str(&saved).unwrap()).unwrap();
        assert!(resumed.eq(batches[n_before..].iter().cloned()), "resumed after {n_before} batches");
    }
}

#[test]
fn every_plan_of_one_axis_keeps_budget_multiples_samples_and_positions() {
    hold(N_CASES / 2, case::<1>, Case::check);
}

#[test]
fn every_plan_of_two_axes_keeps_budget_multiples_samples_and_positions() {
    hold(N_CASES / 2, case::<2>, Case::check);
}
