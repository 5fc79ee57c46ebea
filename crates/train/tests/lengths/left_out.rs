//! Samples that are left out because they are too long for the memory.

use std::sync::Arc;

use plimsoll_train::{BadSample, Existing, StepUnit, Unit};
use plimsoll_types::{Bytes, EndReason, StepDone};

use crate::common::{alone, flex_with, run_on, steps};
use crate::job::{HEAVY, N_SAMPLES, Rows, Tiny, length, tiny};
use crate::{config, fresh, kept};

#[test]
fn a_sample_that_alone_does_not_fit_is_named_or_left_out_and_counted() {
    let _alone = alone();
    for streamed in [false, true] {
        let job = Tiny { heavy: Some(40), ..tiny(streamed, Unit::Samples) };
        let room = Bytes(HEAVY.0 / 2);
        let mut config = config(14, StepUnit::Samples, 16);
        let failed = fresh(&job, &config, room).outcome.unwrap_err().to_string();
        let is_long = |id: &u64| 24 < length(*id);
        let named = (0..N_SAMPLES).filter(is_long).any(|id| failed.contains(&format!("rows/{id}.txt at 40 positions")));
        assert!(named && failed.contains("bad_sample = \"skip\""), "{failed}");
        config.loader.bad_sample = BadSample::Skip;
        let folder = tempfile::tempdir().unwrap();
        let mut ran = run_on(flex_with(room), &job, &config, folder.path(), Existing::Refuse, Some(3));
        assert_eq!(ran.warnings.len(), 1, "{:?}", ran.warnings);
        // What goes on knows what does not fit, says so, and does not try it again.
        ran = run_on(flex_with(room), &job, &config, folder.path(), Existing::Resume, None);
        assert!(ran.warnings.len() == 1 && ran.warnings[0].contains("left out as before"), "{:?}", ran.warnings);
        assert_eq!(ran.outcome.unwrap().reason, EndReason::Completed);
        let of_epoch: Vec<_> = steps(&ran.events).into_iter().filter(|it| it.epoch == 0).collect();
        let mut skipped: Vec<_> = of_epoch.iter().flat_map(|it| it.skipped.clone()).collect();
        skipped.sort_unstable();
        assert_eq!(skipped, (0..N_SAMPLES).filter(is_long).collect::<Vec<_>>(), "streamed: {streamed}");
        assert!(of_epoch.iter().all(|it| it.peak <= it.capacity));
        // With more memory they take part again.
        let ran = fresh(&job, &config, Bytes(HEAVY.0 * 4));
        assert!(steps(&ran.events).iter().all(|it| it.skipped.is_empty()));
    }
}

#[test]
fn what_is_known_to_be_too_long_is_not_even_read_where_lengths_are_known() {
    let _alone = alone();
    let is_long = |id: &u64| 24 < length(*id);
    for streamed in [false, true] {
        let broken = (0..N_SAMPLES).find(|id| is_long(id) && id.is_multiple_of(4));
        let job = Tiny { rows: Arc::new(Rows::new(streamed, broken, 1)), ..tiny(streamed, Unit::Samples) };
        let mut config = config(14, StepUnit::Samples, 16);
        config.too_large.train = vec![25.into()];
        // Whoever reads the broken one fails.
        let ran = fresh(&job, &config, Bytes::mib(64));
        ran.outcome.unwrap();
        let of_epoch = steps(&ran.events).into_iter().filter(|it| it.epoch == 0);
        let mut skipped: Vec<_> = of_epoch.flat_map(|it| it.skipped.clone()).collect();
        skipped.sort_unstable();
        assert_eq!(skipped, (0..N_SAMPLES).filter(is_long).collect::<Vec<_>>(), "streamed: {streamed}");
    }
}

#[test]
fn what_a_run_goes_on_without_is_named_once_and_taken_back_where_there_is_much_more_memory() {
    let _alone = alone();
    let long: Vec<_> = (0..N_SAMPLES).filter(|id| 24 < length(*id)).collect();
    for streamed in [false, true] {
        let (job, folder) = (tiny(streamed, Unit::Samples), tempfile::tempdir().unwrap());
        let mut config = config(28, StepUnit::Samples, 16);
        config.loader.bad_sample = BadSample::Skip;
        config.too_large.train = vec![25.into()];
        let first = run_on(flex_with(Bytes::mib(64)), &job, &config, folder.path(), Existing::Refuse, Some(3));
        assert_eq!(first.warnings, [] as [&str; 0], "who began it has said so");
        config.too_large.train = Vec::new();
        // A little more is not worth another try.
        let second = run_on(flex_with(Bytes::mib(66)), &job, &config, folder.path(), Existing::Resume, Some(6));
        let [warning] = &second.warnings[..] else { panic!("{:?}", second.warnings) };
        assert!(warning.contains("left out as before") && warning.contains("longer than 24"), "{warning}");
        // Of a stream those are known that somebody has looked at.
        let known: Vec<_> = long.iter().filter(|id| !streamed || id.is_multiple_of(4)).collect();
        let named = known[..3].iter().map(|id| format!("rows/{id}.txt")).collect::<Vec<_>>().join(", ");
        let counted = format!("{} samples longer than 24, {named} and {} more", known.len(), known.len() - 3);
        assert!(warning.contains(&counted), "{warning}");
        let is_long = |it: &&StepDone| it.micro_batches.iter().any(|it| 24 < it.edges.edge());
        assert!(!steps(&second.events).iter().any(is_long), "streamed: {streamed}");
        let third = run_on(flex_with(Bytes::mib(512)), &job, &config, folder.path(), Existing::Resume, None);
        assert_eq!(third.warnings, [] as [&str; 0], "streamed: {streamed}");
        assert!(steps(&third.events).iter().any(is_long), "streamed: {streamed}");
    }
}

#[test]
fn what_is_known_to_be_too_long_never_runs_and_its_shorter_mates_do() {
    let _alone = alone();
    for streamed in [false, true] {
        let mut config = config(14, StepUnit::Samples, 16);
        config.controller.policy = kept(4);
        config.loader.bad_sample = BadSample::Skip;
        config.too_large.train = vec![25.into()];
        let ran = fresh(&tiny(streamed, Unit::Samples), &config, Bytes::mib(64));
        ran.outcome.unwrap();
        let of_epoch: Vec<_> = steps(&ran.events).into_iter().filter(|it| it.epoch == 0).collect();
        let parts = || of_epoch.iter().flat_map(|it| &it.micro_batches);
        assert!(parts().all(|it| it.shape().edge() <= 24), "streamed: {streamed}");
        let mut trained: Vec<_> = parts().flat_map(|it| it.ids.clone()).collect();
        trained.sort_unstable();
        assert_eq!(trained, (0..N_SAMPLES).filter(|id| length(*id) <= 24).collect::<Vec<_>>(), "streamed: {streamed}");
    }
}
