//! Plans that are what they were: a position that was saved goes on in them.
//!
//! A change that plans otherwise has to refuse the positions of before, and then needs other digests here.

use plimsoll_sampler::{
    BatchPlanner, EpochEnd, Lattice, PackConfig, PackPlanner, PaddedBudget, PlanConfig, SampleIndex, Split, TaskMix,
};
use plimsoll_types::Fraction;

use crate::common::Numbers;

/// Lengths, most of them short; no function of a system's library has a part in them.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to `more`")]
fn lengths(n: usize, least: u32, more: u32) -> Vec<u32> {
    let mut numbers = Numbers::new(u64::from(more));
    let mut cube = || {
        let one = numbers.uniform();
        one * one * one
    };
    (0..n).map(|_| least + (f64::from(more) * cube()) as u32).collect()
}

/// FNV-1a over words.
fn digest(words: impl Iterator<Item = u32>) -> u64 {
    words.fold(0xcbf2_9ce4_8422_2325, |state, word| (state ^ u64::from(word)).wrapping_mul(0x0000_0100_0000_01b3))
}

fn plan<const AXES: usize>(index: &SampleIndex<AXES>, budget: [u64; AXES], config: PlanConfig<AXES>) -> u64 {
    let planner = BatchPlanner::try_new(index.clone(), PaddedBudget(budget), PlanConfig { seed: 7, ..config }).unwrap();
    digest(planner.plan_epoch(3).iter().flat_map(|it| {
        let n = u32::try_from(it.ids.len()).unwrap();
        [n].into_iter().chain(it.longest).chain(it.cell).chain(it.ids.iter().copied())
    }))
}

fn rows(lengths: &[u32], config: PackConfig) -> u64 {
    let planner = PackPlanner::try_new(SampleIndex::try_new([lengths]).unwrap(), config).unwrap();
    digest(planner.plan_epoch(3).iter().flat_map(|row| {
        let pieces = row.iter().flat_map(|piece| [piece.id, piece.start, piece.end]);
        [u32::try_from(row.len()).unwrap()].into_iter().chain(pieces)
    }))
}

#[track_caller]
fn check<const N: usize>(found: [u64; N], expected: [&str; N]) {
    assert_eq!(found.map(|it| format!("{it:016x}")), expected);
}

#[test]
fn plans_on_one_axis_are_what_they_were() {
    let index = SampleIndex::try_new([lengths(40_000, 300, 2_000)]).unwrap();
    let default = PlanConfig::default;
    let lattice = Lattice::try_new([vec![350, 600, 900, 1_300, 1_800, 2_450]]).unwrap();
    let plans = [
        default(),
        PlanConfig { window: Some(3_000), multiple_of: 4, ..default() },
        PlanConfig { lattice, ..default() },
    ];
    check(
        plans.map(|config| plan(&index, [60_000], config)),
        ["1a2118cad827947b", "9a8a269660803535", "4bd831a49a2c6a12"],
    );
}

#[test]
fn plans_of_several_axes_and_tasks_are_what_they_were() {
    let tasks: Vec<u16> = (0..40_000).map(|id| [0, 0, 1, 1, 2][id % 5]).collect();
    let images = lengths(40_000, 1, 8).into_iter().zip(&tasks).map(|(n, task)| if *task == 0 { 1 } else { n });
    let index =
        SampleIndex::try_new([images.collect(), lengths(40_000, 20, 1_500)]).unwrap().with_tasks(tasks).unwrap();
    let default = PlanConfig::default;
    let of = |tasks| PlanConfig { tasks, ..default() };
    let (shares, ends) = (Some(vec![0.2, 0.5, 0.3]), EpochEnd::FirstExhausted);
    let lattice = Lattice::try_new([vec![1, 2, 4, 8], vec![64, 128, 256, 512, 1_024, 2_048]]).unwrap();
    let plans = [
        default(),
        PlanConfig { window: Some(5_000), ..default() },
        PlanConfig { lattice, multiple_of: 2, ..default() },
        of(TaskMix { diversity_weight: Fraction::ONE, ..TaskMix::default() }),
        of(TaskMix { diversity_weight: Fraction::ZERO, ..TaskMix::default() }),
        of(TaskMix { homogeneous: true, ..TaskMix::default() }),
        of(TaskMix { shares, ends, ..TaskMix::default() }),
    ];
    check(
        plans.map(|config| plan(&index, [128, 16_384], config)),
        [
            "0e07b8cef9eef0f7",
            "9d0052b4fcb243bf",
            "aef8b814998f048f",
            "2f7c39cba588658f",
            "2092dc63503eddb5",
            "a8b723a624ce8edf",
            "23b422261bf8f8ee",
        ],
    );
}

#[test]
fn packed_rows_are_what_they_were() {
    let (short, long) = (lengths(40_000, 10, 2_400), lengths(20_000, 16, 60_000));
    let cut = |row_len| PackConfig { split: Split::Cut { overlap: 0 }, seed: 7, ..PackConfig::new(row_len) };
    let found = [
        rows(&short, cut(12_000)),
        rows(&short, PackConfig { window: Some(600), ..cut(4_096) }),
        rows(&long, cut(8_192)),
        rows(&long, PackConfig { row_squares: Some(20_000_000), ..cut(32_768) }),
        rows(&long, PackConfig { split: Split::Cut { overlap: 100 }, ..cut(2_048) }),
    ];
    check(found, ["f733123f18e5526d", "2046887664a5fef1", "ada9f3aad4a11710", "28a6f7486390b376", "026f5899c876fc86"]);
}
