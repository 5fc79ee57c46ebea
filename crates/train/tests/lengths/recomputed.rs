//! Samples whose activations are recomputed because they are too long for the memory.

use plimsoll_train::{Existing, StepUnit, Unit, replay};
use plimsoll_types::{Bytes, EndReason, Event, Recompute};

use crate::common::{alone, run, steps};
use crate::job::{HEAVY, Tiny, tiny};
use crate::{config, fresh, kept};

/// Whose activations are recomputed from some step on, each time that more are.
fn switches(events: &[Event]) -> Vec<Recompute> {
    let switched = |it: &Event| if let Event::GradientCheckpointing(it) = it { Some(it.recompute) } else { None };
    events.iter().filter_map(switched).collect()
}

#[test]
fn only_what_is_padded_to_the_edge_of_a_sample_that_does_not_fit_is_recomputed_and_nothing_else_changes() {
    let _alone = alone();
    let job = Tiny { heavy: Some(40), may_spare: true, ..tiny(false, Unit::Samples) };
    let mut config = config(14, StepUnit::Samples, 16);
    config.may_checkpoint = true;
    // Sizes that do not change divide steps alike.
    config.controller.policy = kept(1);
    let losses = |events: &[Event]| steps(events).iter().map(|it| it.loss).collect::<Vec<_>>();
    let whole = fresh(&job, &config, Bytes(HEAVY.0 * 4)).events;
    assert!(switches(&whole).is_empty());
    let (folder, room) = (tempfile::tempdir().unwrap(), Bytes(HEAVY.0 / 2));
    run(&job, &config, room, folder.path(), Existing::Refuse, Some(7)).outcome.unwrap();
    let ran = run(&job, &config, room, folder.path(), Existing::Resume, None);
    assert_eq!(ran.outcome.unwrap().reason, EndReason::Completed);
    // The edge before it is 24. The run that goes on knows it from the first.
    assert_eq!(switches(&ran.events), [Recompute::from(25)]);
    assert_eq!(losses(&ran.events), losses(&whole));
    assert!(steps(&ran.events).iter().all(|it| it.skipped.is_empty() && it.peak <= it.capacity));
    assert!(replay(&ran.events).unwrap().mismatches.is_empty());
}
