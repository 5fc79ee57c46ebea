//! How far the steps of a mixture are from the shares of its sources.

use plimsoll_sampler::{
    BatchPlanner, EpochEnd, PackBudget, PackConfig, PackPlanner, PaddedBudget, PlanConfig, SampleIndex, Split,
    StepPlanner, StepSize, TaskMix,
};
use plimsoll_types::Fraction;
use proptest::prelude::*;

use crate::common::{cases, chats};

/// Steps of a stretch at most.
const STRETCH: usize = 20;

#[derive(Clone, Debug)]
struct Mixture {
    tasks: Vec<u16>,
    lengths: Vec<u32>,
    shares: Vec<f64>,
    budget: u64,
    window: Option<usize>,
    seed: u64,
}

/// Samples of a source, its shortest length, its longest one beyond that, and its share in any unit.
type Source = (usize, u32, u32, u32);

fn mixture() -> impl Strategy<Value = Mixture> {
    let source = (200usize..2_000, 1u32..200, 1u32..100, 1u32..20);
    let sources = prop::collection::vec(source, 5);
    let window = prop::option::of(200usize..3_000);
    (sources, 3_000u64..12_000, window, any::<u64>()).prop_map(|(sources, budget, window, seed)| {
        let of = |(task, &(n, least, more, _)): (u16, &Source)| {
            (0..u32::try_from(n).unwrap()).map(move |id| (task, least + id.wrapping_mul(2_654_435_761) % more))
        };
        let (tasks, lengths) = (0..).zip(&sources).flat_map(of).unzip();
        let sum: f64 = sources.iter().map(|source| f64::from(source.3)).sum();
        let shares = sources.iter().map(|source| f64::from(source.3) / sum).collect();
        Mixture { tasks, lengths, shares, budget, window, seed }
    })
}

impl Mixture {
    fn planner(&self, diversity_weight: Fraction) -> BatchPlanner<PaddedBudget<1>, 1> {
        let index = SampleIndex::try_new([self.lengths.clone()]).unwrap().with_tasks(self.tasks.clone()).unwrap();
        let shares = Some(self.shares.clone());
        let tasks = TaskMix { shares, ends: EpochEnd::FirstExhausted, diversity_weight, ..TaskMix::default() };
        let config = PlanConfig { seed: self.seed, window: self.window, tasks, ..PlanConfig::default() };
        BatchPlanner::try_new(index, PaddedBudget([self.budget]), config).unwrap()
    }

    /// The most samples by which a source is off its share in any stretch of at most [`STRETCH`] steps of an epoch, and the
    /// samples of the largest batch.
    fn most_off(&self, diversity_weight: Fraction, size: u32) -> (f64, usize) {
        let planner = self.planner(diversity_weight);
        let largest = planner.plan_epoch(0).iter().map(|batch| batch.ids.len()).max().unwrap();
        let mut steps = StepPlanner::try_new(&planner, StepSize::Samples(size)).unwrap();
        let mut sums = vec![vec![0.0; self.shares.len()]];
        loop {
            let step = steps.next_step();
            let mut sum = sums.last().unwrap().clone();
            for id in step.batches.iter().flat_map(|batch| &batch.ids) {
                sum[usize::from(self.tasks[usize::try_from(*id).unwrap()])] += 1.0;
            }
            sums.push(sum);
            if step.ends_epoch {
                break;
            }
        }
        let stretches =
            (0..sums.len()).flat_map(|from| sums[from..].iter().take(STRETCH + 1).map(move |to| (from, to)));
        let off = stretches.map(|(from, to)| self.off(&sums[from], to));
        (off.fold(0.0, f64::max), largest)
    }

    fn off(&self, from: &[f64], to: &[f64]) -> f64 {
        let n: f64 = to.iter().sum::<f64>() - from.iter().sum::<f64>();
        let of = |task: usize| (to[task] - from[task] - self.shares[task] * n).abs();
        (0..self.shares.len()).map(of).fold(0.0, f64::max)
    }
}

proptest! {
    #![proptest_config(cases(128))]

    // Of 700 such mixtures, half were off by 0.73 of the largest batch at most, and the worst by 1.76; none of 12 000 by 2.
    #[test]
    fn twenty_steps_keep_the_shares_to_two_batches(mixture in mixture(), size in 4u32..60) {
        let (off, largest) = mixture.most_off(TaskMix::default().diversity_weight, size);
        prop_assert!(off < 2.0 * largest as f64, "off by {} samples, the largest batch has {}", off, largest);
    }
}

#[test]
fn twenty_steps_of_full_diversity_keep_the_shares_to_three_samples() {
    let tasks: Vec<u16> = (0..20_000).map(|id| [0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 4][id % 11]).collect();
    let (lengths, shares) = (chats(tasks.len()), vec![0.4, 0.25, 0.2, 0.1, 0.05]);
    for (window, size) in [(None, 64), (None, 256), (Some(2_000), 64), (Some(2_000), 256)] {
        let (tasks, lengths, shares) = (tasks.clone(), lengths.clone(), shares.clone());
        let mixture = Mixture { tasks, lengths, shares, budget: 32_768, window, seed: 3 };
        let (off, _) = mixture.most_off(Fraction::ONE, size);
        assert!(off < 3.0 + 1e-6, "off by {off} samples, window {window:?}, {size} samples a step");
    }
}

/// Packed rows of a mixture.
fn rows_of(mixture: &Mixture, ends: EpochEnd, row_len: u32) -> PackPlanner {
    let index = SampleIndex::try_new([mixture.lengths.clone()]).unwrap().with_tasks(mixture.tasks.clone()).unwrap();
    let config = PackConfig { split: Split::Cut { overlap: 0 }, seed: mixture.seed, ..PackConfig::new(row_len) };
    let shares = Some(mixture.shares.clone());
    let mix = TaskMix { shares, ends, normalize_shares: true, ..TaskMix::default() };
    PackPlanner::try_mixed(index, PackConfig { window: mixture.window, ..config }, &mix).unwrap()
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn packed_rows_have_every_sample_as_often_as_shares_say_and_go_on_anywhere(
        mixture in mixture(), row_len in 20u32..3_000, end in 0usize..3, part in 0.0..1.0
    ) {
        let ends = [EpochEnd::AllOnce, EpochEnd::FirstExhausted, EpochEnd::LastExhausted][end];
        let planner = rows_of(&mixture, ends, row_len);
        let rows = planner.plan_epoch(1);
        let (mut n_of, mut positions) = (vec![0_u64; mixture.tasks.len()], vec![0_u64; mixture.tasks.len()]);
        for piece in rows.iter().flatten() {
            n_of[piece.id as usize] += u64::from(piece.start == 0);
            positions[piece.id as usize] += u64::from(piece.len());
        }
        for ((n, positions), length) in n_of.iter().zip(positions).zip(&mixture.lengths) {
            prop_assert_eq!(positions, n * u64::from(*length));
        }
        for (task, plan) in planner.task_plans().unwrap().into_iter().enumerate() {
            let of_task: Vec<u64> = (0..n_of.len()).filter(|id| usize::from(mixture.tasks[*id]) == task).map(|id| n_of[id]).collect();
            prop_assert_eq!(of_task.iter().sum::<u64>(), plan.n_samples);
            // None comes again before all others have come as often.
            let (least, most) = (of_task.iter().min().unwrap_or(&0), of_task.iter().max().unwrap_or(&0));
            prop_assert!(most - least <= 1);
        }
        let one = PackBudget { rows: 1, squares: u64::MAX };
        let mut epoch = planner.epoch(1);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of the rows")]
        let n_before = (part * rows.len() as f64) as usize;
        (0..n_before).for_each(|_| drop(epoch.next_batch(&one).unwrap()));
        let saved = serde_json::to_string(&epoch.position()).unwrap();
        let mut resumed = planner.resume(&serde_json::from_str(&saved).unwrap()).unwrap();
        for row in rows.iter().skip(n_before) {
            let found = resumed.next_batch(&one).unwrap().unwrap();
            prop_assert_eq!(found.get(0), Some(row));
        }
        prop_assert!(resumed.next_batch(&one).unwrap().is_none());
    }
}

#[test]
fn rows_keep_the_shares_of_five_sources_until_one_has_no_more() {
    let tasks: Vec<u16> = (0..20_000).map(|id| [0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 4][id % 11]).collect();
    let (lengths, shares) = (chats(tasks.len()), vec![0.4, 0.25, 0.2, 0.1, 0.05]);
    for window in [None, Some(300), Some(2_000)] {
        let (tasks, lengths, shares) = (tasks.clone(), lengths.clone(), shares.clone());
        let mixture = Mixture { tasks, lengths, shares, budget: 32_768, window, seed: 3 };
        let rows = rows_of(&mixture, EpochEnd::FirstExhausted, 8_192).plan_epoch(0);
        let largest = rows.iter().map(<[_]>::len).max().unwrap();
        let (mut sums, mut sum) = (vec![vec![0.0; 5]], vec![0.0; 5]);
        for piece in rows.iter().map(|row| row.iter().filter(|it| it.start == 0)) {
            piece.for_each(|it| sum[usize::from(mixture.tasks[it.id as usize])] += 1.0);
            sums.push(sum.clone());
        }
        let stretches =
            (0..sums.len()).flat_map(|from| sums[from..].iter().take(STRETCH + 1).map(move |to| (from, to)));
        let off = stretches.map(|(from, to)| mixture.off(&sums[from], to)).fold(0.0, f64::max);
        assert!(off < largest as f64, "off by {off} samples, the largest row has {largest}, window {window:?}");
    }
}

/// How many draws in a row there can be at most, up to `enough`, of which no stretch of at most [`STRETCH`] is off a share by
/// more than a sample: every order is tried. Shares are whole numbers, and so is what a source is off, times their sum.
fn most_draws(shares: &[i32], enough: usize) -> usize {
    fn go_on(shares: &[i32], off: &mut Vec<Vec<i32>>, enough: usize) -> usize {
        let sum: i32 = shares.iter().sum();
        let n_drawn = off.len() - 1;
        let mut most = n_drawn;
        for source in 0..shares.len() {
            if most == enough {
                break;
            }
            let mut next: Vec<i32> = off[n_drawn].iter().zip(shares).map(|(off, share)| off - share).collect();
            next[source] += sum;
            let keeps = |from: &Vec<i32>| from.iter().zip(&next).all(|(from, to)| (to - from).abs() <= sum);
            if off.iter().rev().take(STRETCH).all(keeps) {
                off.push(next);
                most = most.max(go_on(shares, off, enough));
                off.pop();
            }
        }
        most
    }
    go_on(shares, &mut vec![vec![0; shares.len()]], enough)
}

#[test]
fn no_draw_keeps_every_stretch_of_five_sources_to_one_sample() {
    // Steps of one sample each, and nothing that sorts: even so, a stretch of 19 steps at most is off by more.
    assert_eq!(most_draws(&[6, 5, 4, 3, 2], 200), 18);
    assert_eq!(most_draws(&[10, 6, 4, 3, 2], 200), 17);
    // Other shares have such an order.
    assert_eq!(most_draws(&[16, 8, 4, 2, 1], 200), 200);
}

#[test]
fn steps_within_a_batch_cannot_have_the_shares_of_sources_that_differ_in_length() {
    let tasks: Vec<u16> = (0..4_000).map(|id| id % 2).collect();
    let lengths = tasks.iter().map(|task| 10 + 990 * u32::from(*task)).collect();
    let mixture = Mixture { tasks, lengths, shares: vec![0.5; 2], budget: 10_000, window: None, seed: 3 };
    let (off, _) = mixture.most_off(TaskMix::default().diversity_weight, 1);
    // Hundreds of short samples fill a batch: twenty steps of one sample each within it are off by half of them.
    assert_eq!(off.to_string(), "10");
}
