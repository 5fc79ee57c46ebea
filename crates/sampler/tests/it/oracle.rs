//! Plans of random configurations, held against an oracle that knows lengths and budget alone.
//!
//! `PLIMSOLL_ORACLE_CASES` says how many; 10 000 (2.5 s without optimization) unless it is set.

#![expect(clippy::print_stderr, reason = "a test says of what it fails")]

use crate::common::Numbers;
use plimsoll_sampler::{BatchPlanner, Lattice, PaddedBudget, PlanConfig, PlanError, SampleIndex, TaskMix};

const N_CASES: u64 = 10_000;

fn below(numbers: &mut Numbers, n: u32) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below a number of 32 bits")]
    let number = (numbers.uniform() * f64::from(n)) as u32;
    number
}

/// What is planned, and how.
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
        let epoch = self.config.seed % 3;
        let mut seen = vec![false; self.lengths.len()];
        let (mut n_ragged, mut n_whole) = (0, 0);
        for batch in planner.batches(epoch) {
            let n = batch.ids.len() as u64;
            let longest = batch.ids.iter().map(|id| self.lengths[usize::try_from(*id).unwrap()]).max().unwrap();
            assert!(n > 0 && n <= self.capacity(longest), "{n} samples of length {longest}");
            assert!(n * u64::from(batch.cell[0]) <= self.budget && longest <= batch.cell[0], "{batch:?}");
            for id in &batch.ids {
                assert!(!std::mem::replace(&mut seen[usize::try_from(*id).unwrap()], true), "{id} twice");
            }
            if n.is_multiple_of(k) { n_whole += 1 } else { n_ragged += 1 }
        }
        // What is left beyond a multiple of each task, or of all of them.
        let n_lines = if self.config.tasks.homogeneous { 3 } else { 1 };
        assert!(n_ragged <= n_lines, "{n_ragged} ragged batches, {n_whole} multiples of {k}");
        let n_missing = seen.iter().filter(|seen| !**seen).count() as u64;
        if self.config.drop_last {
            assert!(n_ragged == 0, "{n_ragged} ragged batches");
            let most = if k > 1 { k - 1 } else { self.capacity(1) - 1 };
            assert!(n_missing <= n_lines * most, "{n_missing} are missing");
        } else {
            assert_eq!(n_missing, 0);
        }
    }
}

#[test]
fn every_plan_keeps_budget_multiples_and_samples() {
    let n_cases = std::env::var("PLIMSOLL_ORACLE_CASES").map_or(N_CASES, |n| n.parse().unwrap());
    for seed in 0..n_cases {
        let case = case(seed);
        if let Err(panic) = std::panic::catch_unwind(|| case.check()) {
            let Case { lengths, tasks, budget, config } = case;
            eprintln!("case {seed}: {lengths:?} {tasks:?} {budget} {config:?}");
            std::panic::resume_unwind(panic);
        }
    }
}
