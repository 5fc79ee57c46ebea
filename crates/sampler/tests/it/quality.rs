//! How good plans are on lengths like those of real data, with the defaults.

use plimsoll_sampler::{
    BatchPlanner, Batches, CapacityRule, Lattice, Objective, PaddedBudget, PlanConfig, PlanReport, SampleIndex,
    StepPlanner, StepSize, rank_correlation,
};
use plimsoll_types::Fraction;

use crate::common::{chats, speech};

type Planner = BatchPlanner<PaddedBudget<1>, 1>;

fn planner(lengths: Vec<u32>, budget: u64, config: PlanConfig<1>) -> Planner {
    BatchPlanner::try_new(SampleIndex::try_new([lengths]).unwrap(), PaddedBudget([budget]), config).unwrap()
}

/// A window of everything, and no mixing within it.
fn least_padding() -> PlanConfig<1> {
    PlanConfig { window: Some(usize::MAX), most_mates_kept: Fraction::ONE, ..PlanConfig::default() }
}

fn measured(planner: &Planner) -> (PlanReport, Batches<1>, f64) {
    let here = planner.plan_epoch(3);
    let report = planner.report(3, &here);
    let kept = report.mates_kept.kept;
    (report, here, kept)
}

/// The share of mates kept when all pairs of all batches count alike.
fn kept_over_pairs(here: &Batches<1>, next: &Batches<1>) -> f64 {
    let mut batch_in_next = vec![0; here.n_samples()];
    for (batch, some) in next.iter().enumerate() {
        for id in some.ids {
            batch_in_next[*id as usize] = batch;
        }
    }
    let (mut kept, mut pairs) = (0u64, 0u64);
    for batch in here.iter() {
        for (index, a) in batch.ids.iter().enumerate() {
            let same = |b: &&u32| batch_in_next[**b as usize] == batch_in_next[*a as usize];
            kept += batch.ids[..index].iter().filter(same).count() as u64;
            pairs += index as u64;
        }
    }
    kept as f64 / pairs as f64
}

#[track_caller]
fn check_defaults(lengths: Vec<u32>, budget: u64, most_waste: f64) {
    let planner = planner(lengths, budget, PlanConfig::default());
    let (report, batches, kept) = measured(&planner);
    assert_eq!((report.n_samples, report.over_budget), (100_000, 0));
    assert!(report.waste[0] <= most_waste, "padding {:.4}", report.waste[0]);
    assert!(report.lattice_waste[0].abs() < f64::EPSILON);
    assert!(kept <= 0.034, "mates kept {kept:.4}");
    let over_pairs = kept_over_pairs(&batches, &planner.plan_epoch(4));
    assert!(over_pairs <= 0.043, "pairs kept {over_pairs:.4}");
    let correlation = rank_correlation(&batches, &planner.plan_epoch(4));
    // The standard error of unrelated orders is 1 / √100 000 = 0.003; batches of similar samples move together.
    assert!(correlation.abs() < 0.05, "rank correlation {correlation:.4}");
}

#[test]
fn speech_is_padded_by_one_percent_at_most_while_mates_part() {
    check_defaults(speech(100_000), 60_000, 0.01);
}

#[test]
fn chats_are_padded_by_four_percent_at_most_while_mates_part() {
    check_defaults(chats(100_000), 32_768, 0.04);
}

#[test]
fn a_window_of_everything_pads_less_than_a_thousandth_for_speech() {
    let (report, ..) = measured(&planner(speech(100_000), 60_000, least_padding()));
    assert!(report.waste[0] < 0.001, "{:?}", report.waste);
    assert!(report.over_lower_bound() < 0.01, "{}", report.over_lower_bound());
}

#[test]
fn the_window_is_the_dial_between_padding_and_mixing() {
    let at = |window| {
        let config = PlanConfig { window: Some(window), most_mates_kept: Fraction::ONE, ..PlanConfig::default() };
        let (report, _, kept) = measured(&planner(chats(50_000), 32_768, config));
        (report.waste[0], kept)
    };
    let [small, middle, large] = [1_000, 8_000, 50_000].map(at);
    assert!(small.0 > 2.0 * middle.0 && middle.0 > 2.0 * large.0, "{small:?} {middle:?} {large:?}");
    assert!(small.1 * 4.0 < middle.1 && middle.1 * 4.0 < large.1, "{small:?} {middle:?} {large:?}");
}

#[test]
fn a_few_samples_are_not_padded_for_the_sake_of_mixing() {
    let report = |config| measured(&planner(chats(1_000), 32_768, config)).0;
    let (default, least) = (report(PlanConfig::default()), report(least_padding()));
    assert!(default.waste[0] < least.waste[0] + 0.05, "{:?}, at least {:?}", default.waste, least.waste);
}

#[test]
fn partial_batches_are_carried_into_the_next_window() {
    let config = PlanConfig { window: Some(100), most_mates_kept: Fraction::ONE, ..PlanConfig::default() };
    let batches = planner(vec![10; 1_050], 600, config).plan_epoch(0);
    // 60 fit; each window leaves some over, of which only the last ones of the epoch make a smaller batch.
    let mut sizes: Vec<_> = batches.iter().map(|batch| batch.ids.len()).collect();
    sizes.sort_unstable();
    assert_eq!((sizes.len(), sizes[0], sizes[1]), (18, 30, 60));
}

#[test]
fn samples_that_are_carried_come_first_in_their_cell() {
    let lattice = Lattice::try_new([vec![16]]).unwrap();
    let config = PlanConfig { window: Some(100), lattice, ..PlanConfig::default() };
    let mut epoch = planner((0..1_050).map(|id| id % 16 + 1).collect(), 16 * 60, config).epoch(0);
    let mut before = Vec::new();
    while epoch.next_batch().is_some() {
        let carried = epoch.position().carried().to_vec();
        assert!(carried == before || carried.iter().all(|id| !before.contains(id)), "{before:?} {carried:?}");
        before = carried;
    }
}

#[test]
fn the_time_objective_takes_less_time_and_may_use_more_batches() {
    let time = |batches: &Batches<1>| -> f64 {
        batches.iter().map(|batch| 500.0 + batch.ids.len() as f64 * f64::from(batch.longest[0])).sum()
    };
    let fewest = planner(chats(20_000), 32_768, least_padding()).plan_epoch(0);
    let config = PlanConfig { objective: Objective::LeastTime { batch_overhead: 500.0 }, ..least_padding() };
    let least = planner(chats(20_000), 32_768, config).plan_epoch(0);
    assert!(time(&least) < time(&fewest) && least.len() > fewest.len());
}

#[test]
fn a_lattice_has_a_share_of_its_own() {
    let lattice = Lattice::try_new([vec![256, 512, 1024, 2048, 4096]]).unwrap();
    let lengths = chats(20_000);
    let planner = planner(lengths.clone(), 32_768, PlanConfig { lattice, ..PlanConfig::default() });
    let batches = planner.plan_epoch(0);
    let report = planner.report(0, &batches);
    assert!(batches.iter().all(|batch| batch.cell[0].is_power_of_two() && batch.longest[0] <= batch.cell[0]));
    assert!(batches.iter().all(|batch| batch.ids.len() <= PaddedBudget([32_768]).capacity(batch.cell) as usize));
    let of_cells: u64 = batches.iter().map(|batch| batch.ids.len() as u64 * u64::from(batch.cell[0])).sum();
    let filled = lengths.into_iter().map(f64::from).sum::<f64>() / of_cells as f64;
    assert!(((1.0 - report.waste[0]) * (1.0 - report.lattice_waste[0]) - filled).abs() < 1e-9, "{report:?} {filled}");
    assert!(report.lattice_waste[0] > 0.0, "{report:?}");
}

/// Edges that leave about as many samples in every cell.
fn quantiles(lengths: &[u32], n_edges: usize) -> Lattice<1> {
    let mut sorted = lengths.to_vec();
    sorted.sort_unstable();
    let mut edges: Vec<u32> = (1..=n_edges).map(|edge| sorted[edge * sorted.len() / n_edges - 1]).collect();
    edges.dedup();
    Lattice::try_new([edges]).unwrap()
}

/// The part of the cells that is padding, and the share of mates kept.
fn at_cells(lengths: &[u32], budget: u64, config: PlanConfig<1>) -> (f64, f64) {
    let (report, _, kept) = measured(&planner(lengths.to_vec(), budget, config));
    assert_eq!(report.over_budget, 0);
    (1.0 - (1.0 - report.waste[0]) * (1.0 - report.lattice_waste[0]), kept)
}

#[track_caller]
fn check_cells(lengths: &[u32], budget: u64, most_kept: f64) {
    let lattice = quantiles(lengths, 24);
    let (waste, kept) = at_cells(lengths, budget, PlanConfig { lattice: lattice.clone(), ..PlanConfig::default() });
    let (least, _) = at_cells(lengths, budget, PlanConfig { lattice, ..least_padding() });
    assert!(kept <= most_kept, "mates kept {kept:.4}");
    assert!(waste <= least + 1e-3, "padding {waste:.4}, at least {least:.4}");
}

#[test]
fn samples_of_one_cell_are_mixed_without_padding() {
    check_cells(&chats(100_000), 32_768, 0.02);
    check_cells(&speech(100_000), 60_000, 0.012);
}

#[test]
fn cells_that_are_too_small_to_mix_are_blurred() {
    let lengths = chats(100_000);
    let lattice = Lattice::try_new([(1..=512).map(|edge| 8 * edge).collect()]).unwrap();
    let (waste, kept) = at_cells(&lengths, 32_768, PlanConfig { lattice: lattice.clone(), ..PlanConfig::default() });
    let (_, alone) = at_cells(&lengths, 32_768, PlanConfig { lattice, ..least_padding() });
    assert!(alone > 0.1 && kept <= 0.034 && waste < 0.06, "{alone:.4} {kept:.4}, padding {waste:.4}");
}

#[test]
fn steps_say_how_well_their_epoch_mixes_as_the_planner_does() {
    let planner = planner(speech(3_000), 60_000, PlanConfig::default());
    let mut steps = StepPlanner::try_new(&planner, StepSize::Samples(64)).unwrap();
    for epoch in [0, 1] {
        let expected = planner.report(epoch, &planner.plan_epoch(epoch)).mates_kept;
        assert!(0.0 < expected.kept);
        assert_eq!(steps.mixing(), expected);
        while !steps.next_step().ends_epoch {
            assert_eq!(steps.position().epoch(), epoch);
        }
    }
}
