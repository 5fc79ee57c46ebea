//! Whatever happens, a step ends, and nothing is lost on the way.

use proptest::prelude::*;

use super::*;

/// A device on which so many samples fit together, and everything else that may happen to a run.
#[derive(Clone, Debug)]
struct World {
    n_samples: usize,
    micro_batch: usize,
    /// Samples that fit at first, and how much a raised budget and recomputation add.
    limit: usize,
    n_raises: usize,
    may_recompute: bool,
    may_leave_out: bool,
    fails_silently: bool,
    /// A sample that alone needs as much as so many.
    heavy: Option<(usize, usize)>,
    /// What happens next where chance decides, again and again.
    chances: Vec<bool>,
}

#[derive(Debug)]
struct Run {
    world: World,
    guard: Guard,
    left: Vec<usize>,
    n_events: usize,
    n_chances: usize,
    is_lost: bool,
}

impl Run {
    fn chance(&mut self) -> bool {
        self.n_chances += 1;
        self.world.chances[self.n_chances % self.world.chances.len()]
    }

    fn need(&self, part: &Range<usize>) -> usize {
        let weight = |at: usize| match self.world.heavy {
            Some((heavy, needs)) if self.left[at] == heavy => needs,
            _ => 1,
        };
        part.clone().map(weight).sum()
    }

    fn parts(&self) -> Vec<Range<usize>> {
        let n = self.left.len();
        (0..n).step_by(self.world.micro_batch).map(|start| start..n.min(start + self.world.micro_batch)).collect()
    }

    fn means(&self, step: u64) -> Means {
        Means {
            step,
            may_raise_budget: 0 < self.world.n_raises,
            may_recompute: self.world.may_recompute,
            may_leave_out: self.world.may_leave_out,
        }
    }

    /// Takes one step, and says how it ended.
    fn step(&mut self, step: u64) -> Now {
        let (mut tries, mut n_sums, mut n_begun) = (vec![0_usize; self.left.len()], 0, 1);
        let mut now = self.guard.begin(self.parts(), BUDGET, true);
        loop {
            self.n_events += 1;
            assert!(self.n_events < 100_000, "it does not end: {self:?}");
            now = match now {
                Now::Look(part) => self.guard.on(Happened::Seen(of_shape(&part))),
                Now::Run(part) => {
                    part.clone().for_each(|it| tries[it] += 1);
                    let depth = self.world.micro_batch.next_power_of_two().trailing_zeros() as usize + 1;
                    assert!(tries.iter().all(|it| *it <= 4 * depth * n_begun), "{tries:?} in {depth} sizes: {self:?}");
                    let fits = !self.is_lost && self.need(&part) <= self.world.limit;
                    let is_worth_a_retry = self.chance();
                    self.guard.on(if fits { Happened::Ran } else { Happened::Failed(out_of_memory(is_worth_a_retry)) })
                }
                Now::CheckSum => {
                    let ran: Vec<_> = self.guard.ran().iter().cloned().flatten().collect();
                    assert_eq!(ran, (0..self.left.len()).collect::<Vec<_>>(), "samples are lost or run twice");
                    n_sums += 1;
                    let fits = self.chance();
                    self.guard.on(if fits { Happened::SumFits } else { Happened::SumFailed })
                }
                Now::CleanUp => {
                    assert!(n_sums <= 2 * n_begun);
                    self.guard.on(Happened::CleanedUp)
                }
                Now::Update => {
                    if self.chance() || self.chance() {
                        return Now::Update;
                    }
                    if self.world.fails_silently {
                        self.is_lost = true;
                        return Now::Update;
                    }
                    let has_copy = self.chance();
                    self.guard.on(Happened::UpdateFailed { has_copy })
                }
                Now::ReadWeights => {
                    assert!(self.world.fails_silently);
                    self.guard.on(Happened::Weights { are_whole: !self.is_lost })
                }
                Now::Ask(_) => self.guard.on(Happened::Asked(self.means(step))),
                again @ (Now::RaiseBudget | Now::Recompute | Now::LeaveOut(_) | Now::TakeAgain) => {
                    match again {
                        Now::RaiseBudget => {
                            (self.world.n_raises, self.world.limit) = (self.world.n_raises - 1, self.world.limit + 1);
                        }
                        Now::Recompute => (self.world.may_recompute, self.world.limit) = (false, 2 * self.world.limit),
                        Now::LeaveOut(sample) => drop(self.left.remove(sample)),
                        _ => (),
                    }
                    tries = vec![0; self.left.len()];
                    n_begun += 1;
                    if self.left.is_empty() {
                        return Now::Update;
                    }
                    self.guard.begin(self.parts(), BUDGET, true)
                }
                Now::GoBack => {
                    self.is_lost = false;
                    return Now::GoBack;
                }
                Now::GiveUp(reason) => {
                    let means = self.means(step);
                    match &reason {
                        Obstacle::Samples(misfit) => {
                            let at = misfit.sample().unwrap();
                            assert!(self.world.limit < self.need(&(at..at + 1)), "sample {at} fits: {self:?}");
                            assert_eq!(means, Means { step, ..Means::default() }, "something is left: {self:?}");
                        }
                        Obstacle::Sum => assert!(!means.may_raise_budget && !means.may_recompute),
                        Obstacle::Item => panic!("nothing is validated here"),
                        Obstacle::Update { .. } => (),
                    }
                    return Now::GiveUp(reason);
                }
            };
        }
    }
}

fn worlds() -> impl Strategy<Value = World> {
    let sizes = (1_usize..40, 1_usize..20, 1_usize..20, 0_usize..4);
    let heavy = prop::option::of((0_usize..40, 1_usize..40));
    let means = (any::<bool>(), any::<bool>(), any::<bool>());
    (sizes, means, heavy, prop::collection::vec(any::<bool>(), 1..40)).prop_map(|(sizes, means, heavy, chances)| {
        let ((n_samples, micro_batch, limit, n_raises), (may_recompute, may_leave_out, fails_silently)) =
            (sizes, means);
        World { n_samples, micro_batch, limit, n_raises, may_recompute, may_leave_out, fails_silently, heavy, chances }
    })
}

proptest! {
    #[test]
    fn whatever_happens_a_step_ends_with_all_its_samples_or_with_nothing_left_to_be_done(world in worlds()) {
        let (left, guard) = ((0..world.n_samples).collect(), Guard::new(world.fails_silently));
        let may_leave_out = world.may_leave_out;
        let mut run = Run { world, guard, left, n_events: 0, n_chances: 0, is_lost: false };
        let (n_samples, mut n_back) = (run.left.len(), 0);
        for step in 0..6 {
            match run.step(step) {
                Now::GiveUp(_) => break,
                Now::GoBack => n_back += 1,
                _ => (),
            }
            prop_assert!(n_back <= MOST_RECOVERIES);
            prop_assert!(may_leave_out || run.left.len() == n_samples);
        }
    }

    #[test]
    fn samples_are_conserved_in_order_and_tries_are_bounded(
        sizes in prop::collection::vec(0usize..70, 1..6),
        limit in 1usize..40,
    ) {
        let mut start = 0;
        let parts: Vec<_> = sizes.iter().map(|n| { start += n; start - n..start }).collect();
        let (mut guard, mut tries) = (Guard::default(), vec![0usize; start]);
        let now = run(&mut guard, parts, unknown, |part| {
            part.clone().for_each(|it| tries[it] += 1);
            if part.len() <= limit { Ok(()) } else { Err(out_of_memory(false)) }
        });
        prop_assert_eq!(now, Now::CheckSum);
        let ran = guard.ran();
        prop_assert_eq!(ran.iter().cloned().flatten().collect::<Vec<_>>(), (0..start).collect::<Vec<_>>());
        prop_assert!(ran.iter().all(|part| part.len() <= limit));
        let total: f64 = ran.iter().map(|part| weight(part.len() as u64, start as u64)).sum();
        prop_assert!(start == 0 || (total - 1.0).abs() < 1e-9);
        let depth = sizes.iter().max().unwrap().max(&1).next_power_of_two().trailing_zeros() as usize;
        prop_assert!(tries.iter().all(|it| *it <= depth + 1));
    }
}
