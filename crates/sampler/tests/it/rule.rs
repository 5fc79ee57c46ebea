//! What a capacity rule is asked, and what becomes of one that does not keep its word.

use plimsoll_sampler::{
    BatchPlanner, CapacityRule, Objective, Oversize, PlanConfig, PlanError, SampleIndex, StepPlanner, StepSize,
};

const LONGEST: u32 = 300;

/// A rule by table, which knows nothing beyond the longest sample, and nothing of an empty one.
fn table([length]: [u32; 1]) -> u32 {
    assert!((1..=LONGEST).contains(&length), "asked for length {length}");
    100_000 / (length * length)
}

fn planner<R: CapacityRule<1>>(
    rule: R,
    lengths: Vec<u32>,
    config: PlanConfig<1>,
) -> Result<BatchPlanner<R, 1>, PlanError> {
    BatchPlanner::try_new(SampleIndex::try_new([lengths])?, rule, config)
}

#[test]
fn a_rule_is_never_asked_beyond_the_longest_sample() {
    for objective in [Objective::FewestBatches, Objective::LeastTime { batch_overhead: 9.0 }] {
        let config = PlanConfig { objective, ..PlanConfig::default() };
        let planner = planner(table, (1..=LONGEST).collect(), config).unwrap();
        let batches = planner.plan_epoch(0);
        let report = planner.report(0, &batches);
        assert_eq!((report.over_budget, report.n_samples), (0, u64::from(LONGEST)));
        assert!(planner.lower_bound() <= report.n_batches);
        assert_eq!(planner.safe_batch_sizes(), [1]);
    }
}

#[test]
fn samples_that_are_cut_or_skipped_do_not_ask_for_more_either() {
    let tight = |lengths: [u32; 1]| table(lengths).saturating_sub(3);
    for oversize in [Oversize::Truncate, Oversize::Skip] {
        let config = PlanConfig { oversize, ..PlanConfig::default() };
        let planner = planner(tight, (1..=LONGEST).collect(), config).unwrap();
        assert_eq!(planner.report(0, &planner.plan_epoch(0)).over_budget, 0);
    }
}

#[test]
fn a_rule_that_allows_more_of_a_longer_sample_is_refused_by_name() {
    // Has no room for middling lengths.
    let rule = |[length]: [u32; 1]| if (100..200).contains(&length) { 0 } else { 1000 / length };
    let error = planner(rule, vec![40, 150, 250, 90], PlanConfig::default()).err().unwrap();
    let message = "plan batches: the capacity rule allows 0 samples of length 150 and 4 of length 250 on axis 0, it \
                   must not allow more of a longer one";
    assert_eq!(error.to_string(), message);
    // Lengths that no sample has are nobody's business.
    assert!(planner(rule, vec![40, 250, 90], PlanConfig::default()).is_ok());
}

#[test]
fn a_rule_that_is_not_monotone_on_one_of_two_axes_is_refused() {
    let rule = |[images, tokens]: [u32; 2]| if images == 2 { 1 } else { 1000 / tokens };
    let index = SampleIndex::try_new([vec![1, 2, 3], vec![10, 10, 10]]).unwrap();
    let error = BatchPlanner::try_new(index, rule, PlanConfig::default()).err().unwrap();
    let message = "plan batches: the capacity rule allows 1 samples of length 2 and 100 of length 3 on axis 0, it must \
                   not allow more of a longer one";
    assert_eq!(error.to_string(), message);
}

#[test]
fn a_change_to_such_a_rule_changes_nothing() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Table(u32);
    impl CapacityRule<1> for Table {
        fn capacity(&self, [length]: [u32; 1]) -> u32 {
            if length == self.0 { 1 } else { 900 / length }
        }
    }
    let planner = planner(Table(0), (1..=90).collect(), PlanConfig::default()).unwrap();
    let mut steps = StepPlanner::try_new(&planner, StepSize::Samples(7)).unwrap();
    steps.next_step();
    let before = steps.clone();
    assert!(steps.change(Table(30)).is_err());
    assert_eq!(steps, before);
}

#[test]
fn a_rule_that_breaks_its_word_where_nobody_looked_ends_no_epoch() {
    // Every other of 100 000 lengths is looked at, and the others have no room.
    let rule = |[length]: [u32; 1]| if length % 2 == 1 { 0 } else { 200_000 / length };
    for objective in [Objective::FewestBatches, Objective::LeastTime { batch_overhead: 9.0 }] {
        let config = PlanConfig { objective, ..PlanConfig::default() };
        let planner = planner(rule, (1..=100_000).collect(), config).unwrap();
        let report = planner.report(0, &planner.plan_epoch(0));
        assert!(report.n_samples == 100_000 && report.over_budget > 0, "{report:?}");
        assert!(report.lower_bound <= report.n_batches, "{report:?}");
    }
}
