//! What a run makes of its validations, and sets of them that would take longer than the training.

use std::num::NonZeroU64;
use std::time::Duration;

use burn::tensor::Device;
use plimsoll_monitor::Progress;
use plimsoll_train::{Doing, Existing, FitConfig, RunDir, Shell, StopFlag, fit};
use plimsoll_types::{Bytes, EndReason, Event, Fraction, ItemsMeasured, Validated};

use crate::common::{alone, flex_with, run, run_on};
use crate::tiny::{Tiny, config, fixed};

const N_HELD_OUT: usize = 3000;
const ITEM_TIME: Duration = Duration::from_millis(3);

/// All that is held out takes nine seconds.
fn slow() -> Tiny {
    Tiny { n_held_out: N_HELD_OUT, item_time: ITEM_TIME, ..Tiny::new() }
}

fn tenth(n_steps: u64) -> FitConfig {
    let validation_share = Fraction::try_new(0.1).unwrap();
    FitConfig { validation_share, validate_every: 20, checkpoint_every: 20, ..config(n_steps, fixed()) }
}

fn validations(events: &[Event]) -> Vec<&Validated> {
    events.iter().filter_map(|it| if let Event::Validated(it) = it { Some(it) } else { None }).collect()
}

/// How many items each validation had, of those that had a part.
fn parts(events: &[Event]) -> Vec<u64> {
    validations(events).iter().filter_map(|it| it.part).map(|it| it.n).collect()
}

#[test]
fn a_slow_validation_has_its_share_of_the_run_and_keeps_its_items_when_the_run_goes_on() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let (job, room) = (slow(), Bytes::gib(1));
    let first = run(&job, &tenth(100), room, folder.path(), Existing::Refuse, Some(45));
    assert_eq!(first.outcome.unwrap().reason, EndReason::Interrupted);
    let second = run(&job, &tenth(100), room, folder.path(), Existing::Resume, None);
    assert_eq!(second.outcome.unwrap().reason, EndReason::Completed);
    let parts = parts(&second.events);
    assert_eq!((parts.len(), parts[0]), (6, 64), "a first piece, and one after every twenty steps: {parts:?}");
    // The first that was chosen tells once more what it takes.
    assert!(parts[2..].iter().all(|it| *it == parts[2]), "{parts:?}");
    let all_items = |it: &&Validated| it.part.is_none_or(|it: ItemsMeasured| it.of == N_HELD_OUT as u64);
    assert!(validations(&second.events).iter().all(all_items));
    // Another setting is another part, and the run says so.
    let often = FitConfig { validate_every: 10, ..tenth(120) };
    let third = run_on(flex_with(room), &job, &often, folder.path(), Existing::Resume, None);
    assert_eq!(third.outcome.unwrap().reason, EndReason::Completed);
    let anew =
        "`train.validate_every` is 10, and was 20: the part of the validation set that is measured is chosen anew";
    assert_eq!(third.warnings, [anew]);
}

#[test]
fn a_run_whose_validations_get_no_better_ends_early_and_says_so_however_often_it_was_interrupted() {
    let _alone = alone();
    // Every validation of this job comes to the same: the one before the first step is the best.
    let impatient = FitConfig { validate_every: 10, patience: NonZeroU64::new(2), ..config(60, fixed()) };
    let (job, room) = (Tiny::new(), Bytes::gib(1));
    for interrupted_after in [None, Some(15), Some(20)] {
        let folder = tempfile::tempdir().unwrap();
        let mut ran = run(&job, &impatient, room, folder.path(), Existing::Refuse, interrupted_after);
        if interrupted_after.is_some() {
            assert_eq!(ran.outcome.unwrap().reason, EndReason::Interrupted);
            ran = run(&job, &impatient, room, folder.path(), Existing::Resume, None);
        }
        let outcome = ran.outcome.unwrap();
        assert_eq!((outcome.reason, outcome.step), (EndReason::StoppedEarly, 20), "{interrupted_after:?}");
        let Some(Event::RunEnded(ended)) = ran.events.last() else { panic!("no end in {:?}", ran.events.last()) };
        assert_eq!((ended.reason, ended.step), (EndReason::StoppedEarly, 20));
        // Whoever has more patience goes on.
        let patient = FitConfig { patience: None, ..impatient.clone() };
        let on = run(&job, &patient, room, folder.path(), Existing::Resume, None).outcome.unwrap();
        assert_eq!((on.reason, on.step), (EndReason::Completed, 60));
    }
}

#[test]
fn a_deterministic_run_measures_a_part_that_no_clock_decides() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let job = Tiny { item_time: Duration::ZERO, ..slow() };
    let ran = run(
        &job,
        &FitConfig { deterministic: true, ..tenth(40) },
        Bytes::gib(1),
        folder.path(),
        Existing::Refuse,
        None,
    );
    ran.outcome.unwrap();
    assert_eq!(parts(&ran.events), [512, 512, 512]);
}

#[test]
fn a_fast_set_or_one_that_is_to_be_measured_whole_is() {
    let _alone = alone();
    let whole = FitConfig { validation_share: Fraction::ONE, validate_every: 1, ..tenth(1) };
    for (job, config) in [(Tiny::new(), tenth(40)), (slow(), whole)] {
        let folder = tempfile::tempdir().unwrap();
        let ran = run(&job, &config, Bytes::gib(1), folder.path(), Existing::Refuse, None);
        ran.outcome.unwrap();
        assert_eq!(parts(&ran.events), [0; 0]);
    }
}

#[test]
fn a_validation_shows_how_far_it_is_and_a_signal_ends_it_at_once() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let mut run_dir = RunDir::open(folder.path(), Existing::Refuse).unwrap();
    let (stop, mut n_after, mut shown) = (StopFlag::default(), None, Vec::new());
    let signal = stop.clone();
    let mut watching = |doing: Doing, progress: &Progress| {
        let Some(it) = progress.validating else { return };
        assert_eq!(doing, Doing::Validation);
        shown.push((it.n_done, it.n));
        // No item takes less, the first ones included.
        let (left, least) = (it.seconds_left.unwrap(), ITEM_TIME.as_secs_f64() * (it.n - it.n_done) as f64);
        assert!(least <= left, "{left} s left for {} of {}, at least {least}", it.n - it.n_done, it.n);
        n_after = n_after.map(|n| n + 1);
        if it.n_done > 300 && n_after.is_none() {
            signal.set(15);
            n_after = Some(0);
        }
    };
    let shell = Shell {
        run_dir: &mut run_dir,
        existing: Existing::Refuse,
        device: Device::flex().autodiff(),
        probe: flex_with(Bytes::gib(1)),
        stop,
        observer: &mut |_: &Event, _: &Progress| (),
        watching: Some(&mut watching),
        warn: &mut |_| (),
        death: None,
        plan_sparing: None,
        fleet: Box::new(plimsoll_train::Alone),
        config_text: "",
    };
    let (job, config) = (slow(), FitConfig { validation_share: Fraction::ONE, ..tenth(4) });
    assert_eq!(fit(&job, &config, shell).unwrap().reason, EndReason::Interrupted);
    assert_eq!(n_after, Some(0), "no batch was measured after the signal");
    assert!(shown.is_sorted() && shown.iter().all(|it| it.1 == N_HELD_OUT as u64), "{shown:?}");
}
