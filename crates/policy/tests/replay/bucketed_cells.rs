//! The bucketed policy over cells of two axes.

use plimsoll_policy::{BucketedConfig, Policy, PolicyConfig, Predict, Signal, StepMeasured};
use plimsoll_types::{Bytes, Cells, Decision, Extent, Prediction, StepShape};
use proptest::prelude::*;

use crate::scene::{self, budget_changed, policy, whole};

const BATCH_MAX: u32 = 20;

fn extent(edges: &[u32]) -> Extent {
    Extent::try_new(edges).unwrap()
}

/// A lattice of two axes; of `[8, 2]` and `[1, 16]` neither covers the other.
fn lattice() -> Cells {
    [[1, 4], [8, 2], [8, 4], [1, 16], [8, 16], [32, 4], [32, 16]].iter().map(|it| extent(it)).collect()
}

/// What happens in a step, or before it.
#[derive(Clone, Copy, Debug)]
enum Input {
    /// A micro-batch of a cell makes a peak of so many thousandths of the budget.
    Done { cell: usize, peak: u64 },
    /// A micro-batch of a cell fails as often, and is halved each time.
    Fails { cell: usize, splits: u32 },
    /// There is so much from here on.
    Budget { bytes: u64 },
}

fn inputs(n_cells: usize) -> impl Strategy<Value = Vec<Input>> {
    let input = prop_oneof![
        12 => (0..n_cells, 0u64..1050).prop_map(|(cell, peak)| Input::Done { cell, peak }),
        2 => (0..n_cells, 1u32..4).prop_map(|(cell, splits)| Input::Fails { cell, splits }),
        1 => (300u64..5000).prop_map(|bytes| Input::Budget { bytes }),
    ];
    prop::collection::vec(input, 1..200)
}

/// A need that grows along both axes, with a term that the second one squares.
fn need(shape: StepShape) -> u64 {
    let (n, edges) = (u64::from(shape.samples), shape.edges());
    let [a, b] = [edges[0], edges.get(1).copied().unwrap_or(1)].map(u64::from);
    100 + 2 * n * a + n * b * b / 4
}

#[expect(clippy::unnecessary_wraps, reason = "a policy asks through this signature")]
fn exact(shape: StepShape) -> Option<Prediction> {
    Some(Prediction { expected: Bytes(need(shape)), upper: Bytes(need(shape)) })
}

/// A policy that is told of steps, and what it has decided.
struct Driven {
    policy: Policy,
    cells: Cells,
    step: u64,
    budget: u64,
}

impl Driven {
    fn new(cells: Cells) -> Self {
        let config = BucketedConfig { cells: cells.clone(), batch_max: BATCH_MAX, ..BucketedConfig::default() };
        Self { policy: policy(PolicyConfig::Bucketed(config)), cells, step: 0, budget: 1000 }
    }

    fn sizes(&self) -> Vec<u32> {
        self.policy.batch_sizes().unwrap().to_vec()
    }

    fn hear(&mut self, input: Input, predict: Predict<'_>) -> Vec<Decision> {
        let shape =
            |it: &Self, cell: usize, split: u32| StepShape::of((it.sizes()[cell] >> split).max(1), it.cells[cell]);
        let done = |it: &Self, shape, peak| {
            let measured = scene::measured(it.step, it.policy.knobs(), peak, whole(it.budget));
            Signal::Done(StepMeasured { highest: Some(shape), ..measured })
        };
        let signals = match input {
            Input::Budget { bytes } => {
                self.budget = bytes;
                vec![budget_changed(self.step, whole(bytes))]
            }
            Input::Done { cell, peak } => vec![done(self, shape(self, cell, 0), peak * self.budget / 1000)],
            Input::Fails { cell, splits } => {
                let failed = |split| scene::refused(self.step, self.policy.knobs(), shape(self, cell, split));
                let mut signals: Vec<_> = (0..splits).map(failed).collect();
                signals.push(done(self, shape(self, cell, splits), self.budget));
                signals
            }
        };
        self.step += u64::from(!matches!(input, Input::Budget { .. }));
        signals.iter().filter_map(|it| self.policy.on_signal(it, predict)).collect()
    }
}

#[test]
fn a_failure_closes_its_cell_and_all_that_cover_it_and_no_others() {
    let mut driven = Driven::new(lattice());
    driven.budget = 100_000;
    for _ in 0..5 {
        driven.hear(Input::Done { cell: 0, peak: 1 }, &exact);
    }
    assert_eq!(driven.sizes(), [BATCH_MAX; 7]);
    driven.hear(Input::Fails { cell: 2, splits: 1 }, &exact);
    for _ in 0..20 {
        driven.hear(Input::Done { cell: 0, peak: 1 }, &exact);
    }
    // 17 of `[8, 4]`, as of `[8, 16]`, `[32, 4]` and `[32, 16]`; the others keep what they had.
    assert_eq!(driven.sizes(), [20, 20, 17, 20, 17, 17, 17]);
}

proptest! {
    #[test]
    fn sizes_fall_from_a_cell_to_those_that_cover_it_and_none_is_raised_above_the_budget(inputs in inputs(7)) {
        let mut driven = Driven::new(lattice());
        for input in inputs {
            let before = driven.sizes();
            driven.hear(input, &exact);
            let (after, cells) = (driven.sizes(), driven.cells.clone());
            for (at, cell) in cells.iter().enumerate() {
                let covering = cells.iter().zip(&after).filter(|(it, _)| it.covers(*cell));
                prop_assert!(covering.clone().all(|(_, size)| *size <= after[at]), "{after:?}");
                prop_assert!((1..=BATCH_MAX).contains(&after[at]));
                let fits = need(StepShape::of(after[at], *cell)) as f64 <= 0.985 * driven.budget as f64;
                prop_assert!(after[at] <= before[at] || fits, "{cell}: {before:?}, {after:?}");
            }
        }
    }

    #[test]
    fn a_second_axis_of_one_edge_changes_no_decision(inputs in inputs(4)) {
        let edges = vec![8, 16, 40, 64];
        let mut one = Driven::new(edges.clone().into());
        let mut two = Driven::new(edges.iter().map(|edge| extent(&[*edge, 1])).collect());
        for input in inputs {
            prop_assert_eq!(one.hear(input, &exact), two.hear(input, &exact));
        }
        prop_assert_eq!(one.sizes(), two.sizes());
    }
}
