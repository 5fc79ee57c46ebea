//! Plans of random configurations, held against an oracle that knows lengths and budget alone.
//!
//! 100 000 cases of each kind, or 25 000 in `cargo xtask check --quick`, which sets `PROPTEST_CASES` to 64; with
//! `PROPTEST_CASES=25600` it is ten million.

#![expect(clippy::print_stderr, reason = "a test says of what it fails")]

mod rows;

use std::fmt::Debug;
use std::mem::replace;
use std::panic::{RefUnwindSafe, catch_unwind, resume_unwind};

use plimsoll_sampler::{BatchPlanner, Lattice, OwnedBatch, PaddedBudget, PlanConfig, PlanError, SampleIndex, TaskMix};

use crate::common::{Numbers, cases};

const N_CASES: u32 = 100_000;

fn below(numbers: &mut Numbers, n: u32) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below a number of 32 bits")]
    let number = (numbers.uniform() * f64::from(n)) as u32;
    number
}

/// Checks the cases of as many seeds, and shows the one that fails.
fn hold<C: Debug + RefUnwindSafe>(case: fn(u64) -> C, check: fn(&C)) {
    for seed in 0..u64::from(cases(N_CASES).cases) {
        let case = case(seed);
        if let Err(panic) = catch_unwind(|| check(&case)) {
            eprintln!("case {seed}: {case:?}");
            resume_unwind(panic);
        }
    }
}

/// What is planned, and how.
#[derive(Debug)]
struct Case {
    lengths: Vec<u32>,
    tasks: Vec<u16>,
    budget: u64,
    config: PlanConfig<1>,
}

fn case(seed: u64) -> Case {
    let mut numbers = Numbers::new(seed.wrapping_mul(0x9e37_79b9));
    let n = 1 + below(&mut numbers, 60);
    let longest = 1 + below(&mut numbers, 40);
    let lengths: Vec<u32> = (0..n).map(|_| 1 + below(&mut numbers, longest)).collect();
    let tasks = (0..n).map(|_| u16::try_from(below(&mut numbers, 3)).unwrap()).collect();
    let edges = if below(&mut numbers, 2) == 0 { vec![] } else { vec![7, 20, 40] };
    let shares = (below(&mut numbers, 2) == 0).then(|| vec![0.5, 0.25, 0.25]);
    let homogeneous = below(&mut numbers, 4) == 0;
    let config = PlanConfig {
        seed,
        window: (below(&mut numbers, 2) == 0).then(|| 1 + below(&mut numbers, 40) as usize),
        multiple_of: 1 + below(&mut numbers, 5),
        drop_last: below(&mut numbers, 3) == 0,
        lattice: Lattice::try_new([edges]).unwrap(),
        tasks: TaskMix { shares, homogeneous, ..TaskMix::default() },
        ..PlanConfig::default()
    };
    Case { lengths, tasks, budget: u64::from(40 + below(&mut numbers, 300)), config }
}

impl Case {
    /// How many samples fit, by the budget alone.
    fn capacity(&self, length: u32) -> u64 {
        let edge = if self.config.lattice == Lattice::default() { length } else { self.edge(length) };
        self.budget / u64::from(edge)
    }

    fn edge(&self, length: u32) -> u32 {
        self.config.lattice.cell([length]).unwrap()[0]
    }

    #[track_caller]
    fn check(&self) {
        let index = SampleIndex::try_new([self.lengths.clone()]).unwrap().with_tasks(self.tasks.clone()).unwrap();
        let longest = self.lengths.iter().copied().max().unwrap();
        let k = u64::from(self.config.multiple_of);
        let planner = match BatchPlanner::try_new(index, PaddedBudget([self.budget]), self.config.clone()) {
            Err(PlanError::MultipleAboveBudget { .. }) => return assert!(self.capacity(longest) < k),
            planner => planner.unwrap(),
        };
        assert!(k <= self.capacity(longest));
        let batches: Vec<_> = planner.batches(self.epoch()).collect();
        self.check_budget(&batches);
        self.check_samples(&batches);
        self.check_resumed(&planner, &batches);
    }

    fn epoch(&self) -> u64 {
        self.config.seed % 3
    }

    #[track_caller]
    fn check_budget(&self, batches: &[OwnedBatch<1>]) {
        for batch in batches {
            let n = batch.ids.len() as u64;
            let longest = batch.ids.iter().map(|id| self.lengths[usize::try_from(*id).unwrap()]).max().unwrap();
            assert!(n > 0 && n <= self.capacity(longest), "{n} samples of length {longest}");
            assert!(n * u64::from(batch.cell[0]) <= self.budget && longest <= batch.cell[0], "{batch:?}");
        }
    }

    /// Each sample comes once, but for what is left beyond a multiple of each task, or of all of them.
    #[track_caller]
    fn check_samples(&self, batches: &[OwnedBatch<1>]) {
        let mut seen = vec![false; self.lengths.len()];
        for id in batches.iter().flat_map(|batch| &batch.ids) {
            assert!(!replace(&mut seen[usize::try_from(*id).unwrap()], true), "{id} twice");
        }
        let k = u64::from(self.config.multiple_of);
        let n_ragged = batches.iter().filter(|batch| !(batch.ids.len() as u64).is_multiple_of(k)).count() as u64;
        let n_lines = if self.config.tasks.homogeneous { 3 } else { 1 };
        assert!(n_ragged <= n_lines, "{n_ragged} ragged batches of {}", batches.len());
        let n_missing = seen.iter().filter(|seen| !**seen).count() as u64;
        if self.config.drop_last {
            assert!(n_ragged == 0, "{n_ragged} ragged batches");
            let most = if k > 1 { k - 1 } else { self.capacity(1) - 1 };
            assert!(n_missing <= n_lines * most, "{n_missing} are missing");
        } else {
            assert_eq!(n_missing, 0);
        }
    }

    /// An epoch that is interrupted somewhere goes on with the same batches.
    #[track_caller]
    fn check_resumed(&self, planner: &BatchPlanner<PaddedBudget<1>, 1>, batches: &[OwnedBatch<1>]) {
        let n_before = usize::try_from(self.config.seed).unwrap() % (batches.len() + 1);
        let mut epoch = planner.epoch(self.epoch());
        assert_eq!(epoch.by_ref().take(n_before).count(), n_before);
        let saved = serde_json::to_string(&epoch.position()).unwrap();
        let resumed = planner.resume(&serde_json::from_str(&saved).unwrap()).unwrap();
        assert!(resumed.eq(batches[n_before..].iter().cloned()), "resumed after {n_before} batches");
    }
}

#[test]
fn every_plan_keeps_budget_multiples_samples_and_positions() {
    hold(case, Case::check);
}
