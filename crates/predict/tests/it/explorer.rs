//! How a search for the largest batch begins, ends and is refused.

use plimsoll_predict::{Explorer, PredictError, Probe, StopReason};
use plimsoll_types::{Bytes, Prediction, StepShape};

const BUDGET: Bytes = Bytes::mib(1000);

fn explorer(max_trials: u32) -> Explorer {
    let cells = [16, 32].into_iter().flat_map(|edge| (2..=64).map(move |samples| StepShape::new(samples, edge)));
    Explorer::try_new(cells, BUDGET, max_trials).expect("there are cells")
}

/// A prediction of so many MiB for each sample and position.
fn linear(expected: u64, upper: u64) -> impl Fn(StepShape) -> Option<Prediction> + Copy {
    move |shape| {
        let size = |each: u64| Bytes::mib(each * u64::from(shape.samples) * u64::from(shape.edge()));
        Some(Prediction { expected: size(expected), upper: size(upper) })
    }
}

#[test]
fn the_first_trial_is_the_smallest_batch_at_the_longest_edge() {
    assert_eq!(explorer(9).probe(|_| None), Probe::Measure(StepShape::new(2, 32)));
}

#[test]
fn a_first_trial_that_fails_or_does_not_fit_ends_the_search() {
    let first = StepShape::new(2, 32);
    for predict in [(|_| None) as fn(StepShape) -> Option<Prediction>, |shape| linear(40, 40)(shape)] {
        let mut explorer = explorer(9);
        explorer.on_trial_done(first, predict);
        assert_eq!(explorer.probe(predict), Probe::Stop(StopReason::NothingFits));
        assert_eq!(explorer.certified(predict), []);
    }
}

#[test]
fn what_is_known_already_is_not_measured_again() {
    let explorer = explorer(9);
    // Certified: 12 of edge 16 and 6 of edge 32; expected to fit: 62 and 31, the same growth.
    assert_eq!(explorer.probe(linear(1, 5)), Probe::Measure(StepShape::new(6, 32)));
    assert_eq!(explorer.probe(linear(5, 5)), Probe::Stop(StopReason::Converged));
    assert_eq!(explorer.certified(linear(1, 5)), [StepShape::new(12, 16), StepShape::new(6, 32)]);
}

#[test]
fn two_trials_without_progress_end_the_search_and_so_does_the_last_one() {
    let mut explorer = explorer(9);
    let predict = |shape: StepShape| linear(if shape.samples > 6 { 1 } else { 2 }, 5)(shape);
    explorer.on_trial_done(StepShape::new(2, 32), predict);
    assert!(matches!(explorer.probe(predict), Probe::Measure(_)), "the first trial was progress");
    explorer.on_trial_done(StepShape::new(3, 32), predict);
    assert!(matches!(explorer.probe(predict), Probe::Measure(_)), "one without may be chance");
    let mut restored: Explorer = serde_json::from_str(&serde_json::to_string(&explorer).unwrap()).unwrap();
    assert_eq!(restored, explorer);
    restored.on_trial_done(StepShape::new(4, 32), predict);
    assert_eq!(restored.probe(predict), Probe::Stop(StopReason::Converged));
    let mut short = self::explorer(1);
    short.on_trial_done(StepShape::new(2, 32), predict);
    assert_eq!(short.probe(predict), Probe::Stop(StopReason::TrialCap));
}

#[test]
fn what_cannot_be_searched_is_named() {
    let cell = StepShape::new(1, 8);
    for (cells, max_trials, error) in [
        (vec![], 1, PredictError::NoCell("n_cells")),
        (vec![cell], 0, PredictError::NoCell("max_trials")),
        (vec![cell, StepShape::new(0, 8)], 1, PredictError::EmptyShape(StepShape::new(0, 8))),
    ] {
        assert_eq!(Explorer::try_new(cells, BUDGET, max_trials), Err(error));
    }
}
