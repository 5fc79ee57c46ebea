//! Samples that are streamed: how far ahead they are read, and how a run goes on.

use std::sync::Arc;

use plimsoll_train::{BadSample, Existing, RunDir, StepUnit, Unit};
use plimsoll_types::{Bytes, EndReason, Event};

use crate::common::{alone, run};
use crate::job::{N_SAMPLES, Rows, Tiny, tiny};
use crate::{check_epochs, config, fresh, ids, kept};

#[test]
fn an_interrupted_stream_goes_on_with_the_same_steps() {
    let _alone = alone();
    for unit in [StepUnit::Samples, StepUnit::Positions] {
        let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (job, room) = (tiny(true, Unit::Samples), Bytes::mib(64));
        let mut config = config(30, unit, if unit == StepUnit::Samples { 16 } else { 200 });
        (config.deterministic, config.controller.policy) = (true, kept(4));
        let undisturbed = run(&job, &config, room, whole.path(), Existing::Refuse, None);
        run(&job, &config, room, parts.path(), Existing::Refuse, Some(7)).outcome.unwrap();
        // Other workers read in another order.
        config.loader.workers = 1;
        run(&job, &config, room, parts.path(), Existing::Resume, Some(18)).outcome.unwrap();
        let last = run(&job, &config, room, parts.path(), Existing::Resume, None);
        assert!(last.outcome.unwrap().stream.is_some_and(|it| it.samples > 0));
        assert_eq!(ids(&undisturbed.events), ids(&last.events), "{unit:?}");
        check_epochs(&last.events, 2);
    }
}

#[test]
fn each_step_of_a_stream_says_how_far_ahead_its_samples_were_read() {
    let _alone = alone();
    let supplies = |is_streamed| {
        let config = config(20, StepUnit::Samples, 16);
        let ran = fresh(&tiny(is_streamed, Unit::Samples), &config, Bytes::mib(64));
        let of_step = |it: &Event| if let Event::StepDone(done) = it { Some(done.supply) } else { None };
        (ran.events.iter().filter_map(of_step).collect::<Vec<_>>(), config.loader.workers)
    };
    let (streamed, workers) = supplies(true);
    assert_eq!(streamed.len(), 20);
    for supply in &streamed {
        let it = supply.unwrap();
        assert_eq!(it.workers as usize, workers.max(1));
        assert!(0.0 <= it.waited_seconds && (it.buffered_samples == 0) == (it.buffer_fill <= 0.0), "{it:?}");
        assert_eq!(it.buffered_samples == 0, it.buffered_bytes == Bytes::ZERO, "{it:?}");
    }
    assert!(streamed.iter().any(|it| it.is_some_and(|it| 0 < it.buffered_samples)), "nothing was ever held");
    assert!(supplies(false).0.iter().all(Option::is_none), "nothing is streamed");
}

#[test]
fn a_stream_goes_on_without_pending_samples_that_are_gone() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let (job, room) = (tiny(true, Unit::Samples), Bytes::mib(64));
    let mut config = config(20, StepUnit::Samples, 16);
    config.loader.bad_sample = BadSample::Skip;
    run(&job, &config, room, folder.path(), Existing::Refuse, Some(3)).outcome.unwrap();
    let before = RunDir::open(folder.path(), Existing::Resume).unwrap().events().unwrap();
    // One that no step of the first epoch has taken yet.
    let taken: Vec<_> = ids(&before).into_iter().flat_map(|(_, ids)| ids).collect();
    for broken in (0..N_SAMPLES).filter(|id| !taken.contains(id)).take(40).step_by(8) {
        let folder = tempfile::tempdir().unwrap();
        run(&job, &config, room, folder.path(), Existing::Refuse, Some(3)).outcome.unwrap();
        let job = Tiny { rows: Arc::new(Rows::new(true, Some(broken), 1)), ..tiny(true, Unit::Samples) };
        let ran = run(&job, &config, room, folder.path(), Existing::Resume, None);
        assert_eq!(ran.outcome.unwrap().reason, EndReason::Completed);
        let first: Vec<_> = ids(&ran.events).into_iter().filter(|it| it.0 == 0).flat_map(|it| it.1).collect();
        assert!(first.len() as u64 == N_SAMPLES - 1 && !first.contains(&broken), "sample {broken}");
    }
}

#[test]
fn a_stream_that_resumes_and_stops_at_once_loses_nothing() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let (job, room) = (tiny(true, Unit::Samples), Bytes::mib(64));
    let of = |n_steps| config(n_steps, StepUnit::Samples, 16);
    run(&job, &of(9), room, folder.path(), Existing::Refuse, None).outcome.unwrap();
    // The first saves again before it has pushed what was pending.
    for n_steps in [9, 9, 40] {
        run(&job, &of(n_steps), room, folder.path(), Existing::Resume, None).outcome.unwrap();
    }
    check_epochs(&RunDir::open(folder.path(), Existing::Resume).unwrap().events().unwrap(), 4);
}
