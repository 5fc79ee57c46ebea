//! Searches as they went, step by step.

use plimsoll_finder::{Finder, FinderConfig, Limit, Outcome, Search, Source};
use plimsoll_types::{Bytes, Fraction, Prediction, StepShape};

fn finder(survives: bool) -> Finder {
    let batch_reduction = Fraction::ZERO;
    let config =
        FinderConfig { extent: 8.into(), small_batch: 4, survives, batch_reduction, ..FinderConfig::default() };
    Finder::try_new(config, Bytes(1000)).unwrap()
}

fn measured(peak: u64) -> Outcome {
    Outcome::Measured { resident: Bytes(100), peak: Bytes(peak) }
}

/// Replays trials without any bound, and returns the next batch.
#[track_caller]
fn next(trials: &[(u32, Outcome)]) -> Search {
    let mut finder = finder(true);
    for (batch, outcome) in trials {
        let wanted = finder.search(Source::Probe(&|_| None)).unwrap();
        assert_eq!(wanted, Search::Try { batch: *batch, upper: None });
        finder.on_trial(*batch, *outcome).unwrap();
    }
    finder.search(Source::Probe(&|_| None)).unwrap()
}

#[test]
fn small_batches_are_tried_only_when_the_others_are_too_much() {
    let too_much = [measured(950), Outcome::OutOfMemory, measured(1200)];
    for outcome in too_much {
        assert_eq!(next(&[(5, outcome)]), Search::Try { batch: 1, upper: None });
    }
    let Search::Found(found) = next(&[(5, measured(800))]) else { panic!("nothing bounds more") };
    assert_eq!((found.largest, found.upper, found.is_measured, found.limit), (5, Bytes(800), true, Limit::Bound));
}

#[test]
fn the_reason_names_the_other_kernels_where_all_small_batches_fit() {
    let mut finder = finder(true);
    let bound =
        |shape: StepShape| Some(Prediction { expected: Bytes(500), upper: Bytes(500) }).filter(|_| shape.samples < 5);
    finder.on_trial(5, Outcome::OutOfMemory).unwrap();
    finder.on_trial(1, measured(300)).unwrap();
    let Ok(Search::Found(found)) = finder.search(Source::Probe(&bound)) else { panic!("it is over") };
    assert_eq!((found.largest, found.limit, found.n_out_of_memory), (4, Limit::OtherKernels, 1));
    assert!(!found.is_measured && found.upper == Bytes(500));
    assert_eq!(
        (found.start, found.peak, found.current, found.per_sample),
        (Bytes(100), Bytes(300), Bytes(100), Bytes(200))
    );
}

#[test]
fn a_bound_that_fails_counts_no_more_and_the_rest_is_halved() {
    let mut finder = finder(true);
    let upper = |batch| if batch <= 1000 { Bytes(800) } else { Bytes(2000) };
    let bound = |it: StepShape| Some(Prediction { expected: Bytes(500), upper: upper(it.samples) });
    let mut tried = vec![];
    let found = loop {
        match finder.search(Source::Probe(&bound)).unwrap() {
            Search::Found(found) => break found,
            Search::Try { batch, .. } => {
                tried.push(batch);
                finder.on_trial(batch, if batch <= 900 { measured(500) } else { Outcome::OutOfMemory }).unwrap();
            }
        }
    };
    assert_eq!(tried, [5, 1000, 502, 751, 875, 937]);
    assert_eq!((found.largest, found.limit, found.n_out_of_memory), (875, Limit::Trials, 2));
}

#[test]
fn a_smallest_batch_that_does_not_fit_is_an_error_with_what_it_was_measured_to_need() {
    let mut failed = finder(true);
    failed.on_trial(5, Outcome::OutOfMemory).unwrap();
    failed.on_trial(1, measured(901)).unwrap();
    let message = "find a batch size: the smallest batch, 1 × 8, was measured to need 901 B, and 900 B may be used";
    assert_eq!(failed.search(Source::Probe(&|_| None)).unwrap_err().to_string(), message);
    let mut failed = finder(true);
    failed.on_trial(5, measured(2000)).unwrap();
    failed.on_trial(1, Outcome::OutOfMemory).unwrap();
    let message = "find a batch size: the smallest batch, 1 × 8, runs out of memory, and 900 B may be used";
    assert_eq!(failed.search(Source::Probe(&|_| None)).unwrap_err().to_string(), message);
}

#[test]
fn a_trial_that_says_nothing_is_refused() {
    let mut finder = finder(false);
    let nothing = Outcome::Measured { resident: Bytes(7), peak: Bytes(7) };
    let error = finder.on_trial(1, nothing).unwrap_err();
    assert_eq!(error.to_string(), "find a batch size: `peak` is 7 B, allowed is any size above the resident 7 B");
    assert_eq!(
        finder.on_trial(0, nothing).unwrap_err().to_string(),
        "find a batch size: `batch` is 0, allowed is 1 to 4096"
    );
    assert!(Finder::try_new(FinderConfig::default(), Bytes::ZERO).is_err());
    assert_eq!(finder.search(Source::Probe(&|_| None)), Ok(Search::Try { batch: 1, upper: None }));
}
