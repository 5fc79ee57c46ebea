//! The best that a run has kept, when it goes on.

use std::fs;
use std::path::Path;

use burn::tensor::Device;
use plimsoll_train::{Best, Checkpoint, Existing, FitConfig, Job, RunDir, StopFlag};
use plimsoll_types::{EndReason, Event};

use crate::job::{Noisy, tested};
use crate::{alone, check_same, config, last_checkpoint, log, resume, run_with, start, undisturbed};

/// A step and the metric of its validation.
type Scored = (u64, f64);

/// What `best.json` names, and the metrics of the log by their steps.
fn best_and_metrics(path: &Path) -> (Option<Scored>, Vec<Scored>) {
    let text = fs::read_to_string(path.join("checkpoints/best.json")).ok();
    let best = text.map(|it| serde_json::from_str::<Best>(&it).unwrap()).map(|it| (it.step, it.metric));
    let events = RunDir::open(path, Existing::Resume).unwrap().events().unwrap();
    let validated = |it: &Event| if let Event::Validated(it) = it { Some((it.step, it.metric)) } else { None };
    (best, events.iter().filter_map(validated).collect())
}

#[test]
fn a_run_that_goes_on_beyond_its_end_keeps_the_best_of_its_end() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let of = |n_steps| FitConfig { n_steps, validate_every: 100, checkpoint_every: 100, ..config() };
    run_with(&of(13), folder.path(), Existing::Refuse, None, &mut |_, _| ()).0.unwrap();
    let (first, metrics) = best_and_metrics(folder.path());
    assert_eq!(first, metrics.last().copied().filter(|it| it.0 == 13), "the end is to be the best: {metrics:?}");
    // Before the next step, and so whatever comes of the rest.
    let mut fate = |_: usize, stop: &StopFlag| _ = stop.set(2);
    run_with(&of(15), folder.path(), Existing::Resume, None, &mut fate).0.unwrap();
    assert_eq!(best_and_metrics(folder.path()).0, first);
    run_with(&of(15), folder.path(), Existing::Resume, None, &mut |_, _| ()).0.unwrap();
    let (best, metrics) = best_and_metrics(folder.path());
    assert!(metrics.iter().map(|it| it.0).eq([0, 13, 15]), "{metrics:?}");
    assert_eq!(best, metrics.into_iter().min_by(|a, b| a.1.total_cmp(&b.1)));
}

#[test]
fn a_run_that_a_signal_ends_is_validated_once_more_and_goes_on_as_if_it_had_not_been() {
    let _alone = alone();
    let (whole, folder) = (undisturbed(), tempfile::tempdir().unwrap());
    let mut n_validated = 0;
    for at in 0..log(whole.path()).len() - 1 {
        let folder = tempfile::tempdir_in(folder.path()).unwrap();
        let mut signal = |n: usize, stop: &StopFlag| {
            if n == at {
                stop.set(2);
            }
        };
        start(folder.path(), &mut signal);
        let events = RunDir::open(folder.path(), Existing::Resume).unwrap().events().unwrap();
        let [.., Event::Validated(last), Event::Tested(tested), Event::RunEnded(end)] = &events[..] else { continue };
        n_validated += 1;
        assert_eq!(last.step, end.step);
        let (best, metrics) = best_and_metrics(folder.path());
        assert_eq!(best.map(|it| it.0), Some(tested.step));
        assert_eq!(best, metrics.into_iter().min_by(|a, b| a.1.total_cmp(&b.1)), "stopped at event {at}");
        resume(folder.path());
        check_same(folder.path(), whole.path(), &format!("stopped at event {at}"));
    }
    assert!(n_validated > 5, "{n_validated}");
}

/// The test in the log, and what the model of the best checkpoint comes to.
fn test_and_best(path: &Path) -> [(u64, f64); 2] {
    let events = RunDir::open(path, Existing::Resume).unwrap().events().unwrap();
    let tests: Vec<_> = events
        .iter()
        .filter_map(|it| if let Event::Tested(it) = it { Some((it.step, it.metric)) } else { None })
        .collect();
    let [test] = tests[..] else { panic!("{tests:?}") };
    let (best, device) = (Checkpoint::best(path).unwrap(), Device::flex());
    [test, (best.state.step, tested(&best.load_model(Noisy.init(&device)).unwrap(), &device))]
}

#[test]
fn what_is_tested_is_the_model_of_the_best_validation_however_a_run_comes_to_its_end() {
    let _alone = alone();
    let mut is_last = Vec::new();
    for n_steps in 4..12 {
        let folder = tempfile::tempdir().unwrap();
        let of = |n_steps| FitConfig { n_steps, validate_every: 2, ..config() };
        run_with(&of(n_steps), folder.path(), Existing::Refuse, None, &mut |_, _| ()).0.unwrap();
        let [test, best] = test_and_best(folder.path());
        assert_eq!(test, best, "of {n_steps} steps");
        is_last.push(test.0 == n_steps);
        // Once more at the end of what goes on, and at that of a run that has no more to do.
        for n_steps in [n_steps + 2, n_steps + 2] {
            run_with(&of(n_steps), folder.path(), Existing::Resume, None, &mut |_, _| ()).0.unwrap();
            let [test, best] = test_and_best(folder.path());
            assert_eq!(test, best, "gone on to {n_steps} steps");
        }
    }
    assert!(is_last.contains(&true) && is_last.contains(&false), "{is_last:?}");
}

#[test]
fn a_run_whose_best_checkpoint_is_damaged_ends_and_says_that_it_was_not_tested() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let of = |n_steps| FitConfig { n_steps, validate_every: 100, checkpoint_every: 10, ..config() };
    run_with(&of(13), folder.path(), Existing::Refuse, None, &mut |_, _| ()).0.unwrap();
    let other = r#"{"step":10,"metric_name":"error","metric":0.0}"#;
    fs::write(folder.path().join("checkpoints/best.json"), other).unwrap();
    fs::write(folder.path().join("checkpoints/step-00000010/model.bpk"), "").unwrap();
    let (ended, warnings) = run_with(&of(13), folder.path(), Existing::Resume, None, &mut |_, _| ());
    assert_eq!(ended.unwrap(), EndReason::Completed);
    let said = "the best model, of step 10, was not tested: failed to resume ";
    assert!(warnings.iter().any(|it| it.starts_with(said) && it.contains("model.bpk")), "{warnings:?}");
    let events = RunDir::open(folder.path(), Existing::Resume).unwrap().events().unwrap();
    assert!(!events.iter().any(|it| matches!(it, Event::Tested(_))), "{events:?}");
}

#[test]
fn a_best_of_later_than_the_checkpoint_gone_back_to_is_none() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let of = |n_steps| FitConfig { n_steps, validate_every: 100, checkpoint_every: 10, ..config() };
    run_with(&of(13), folder.path(), Existing::Refuse, None, &mut |_, _| ()).0.unwrap();
    assert_eq!(best_and_metrics(folder.path()).0.map(|it| it.0), Some(13));
    fs::remove_file(folder.path().join(last_checkpoint()).join("model.bpk")).unwrap();
    let mut fate = |_: usize, stop: &StopFlag| _ = stop.set(2);
    run_with(&of(15), folder.path(), Existing::Resume, None, &mut fate).0.unwrap();
    assert_ne!(best_and_metrics(folder.path()).0.map(|it| it.0), Some(13));
}
