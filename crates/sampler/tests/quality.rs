//! How good plans are on lengths like those of real data, with the defaults.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{chats, speech};
use plimsoll_sampler::{
    BatchPlanner, Batches, CapacityRule, Objective, PaddedBudget, PlanConfig, PlanReport, SampleIndex, mates_kept,
    rank_correlation,
};
use plimsoll_types::Fraction;

type Planner = BatchPlanner<PaddedBudget<1>, 1>;

fn planner(lengths: Vec<u32>, budget: u64, config: PlanConfig<1>) -> Planner {
    BatchPlanner::try_new(SampleIndex::try_new([lengths]).unwrap(), PaddedBudget([budget]), config).unwrap()
}

/// A window of everything, and no mixing within it.
fn least_padding() -> PlanConfig<1> {
    PlanConfig { window: Some(usize::MAX), most_mates_kept: Fraction::ONE, ..PlanConfig::default() }
}

fn measured(planner: &Planner) -> (PlanReport, Batches<1>, f64) {
    let (here, next) = (planner.plan_epoch(3), planner.plan_epoch(4));
    (planner.report(&here), here.clone(), mates_kept(&here, &next))
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
fn rows_without_padding_are_nearly_full() {
    let config = PlanConfig { objective: Objective::FewestRows, ..PlanConfig::default() };
    let planner = planner(chats(20_000), 8_192, config);
    let report = planner.report(&planner.plan_epoch(0));
    assert_eq!((report.n_samples, report.over_budget), (20_000, 0));
    assert!(report.over_lower_bound() < 0.002, "{}", report.over_lower_bound());
}

#[test]
fn a_lattice_has_a_share_of_its_own() {
    let lattice = plimsoll_sampler::Lattice::try_new([vec![256, 512, 1024, 2048, 4096]]).unwrap();
    let planner = planner(chats(20_000), 32_768, PlanConfig { lattice, ..PlanConfig::default() });
    let batches = planner.plan_epoch(0);
    let report = planner.report(&batches);
    assert!(batches.iter().all(|batch| batch.cell[0].is_power_of_two() && batch.longest[0] <= batch.cell[0]));
    assert!(batches.iter().all(|batch| batch.ids.len() <= PaddedBudget([32_768]).capacity(batch.cell) as usize));
    assert!(report.lattice_waste[0] > 0.1 && report.waste[0] < 0.2, "{report:?}");
}

#[test]
fn rows_have_new_mates_in_the_next_epoch() {
    let config = PlanConfig { objective: Objective::FewestRows, ..PlanConfig::default() };
    let (.., kept) = measured(&planner(chats(50_000), 8_192, config));
    assert!(kept < 0.04, "{kept}");
}
