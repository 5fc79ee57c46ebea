//! Whole runs of a tiny job: nothing lost, nothing twice, and the same again.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../common/mod.rs"]
mod common;
mod fragile;
mod ranks;
mod recovery;
mod refusal;
mod replicas;
mod tiny;
mod validation;
mod wide;

use std::path::Path;
use std::sync::Arc;

use burn::module::Module;
use burn::tensor::Device;
use plimsoll_train::{Existing, Job, replay};
use plimsoll_types::{Bytes, Decision, EndReason, Event, Knobs, StepDone};

use common::{alone, check_epochs, flex_with, run, run_on, steps};
use tiny::{N_SAMPLES, Rows, Tiny, certified, config, fixed, room_for};

#[test]
fn a_run_climbs_to_the_largest_rung_that_fits_and_its_log_replays() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let ran = run(&Tiny::new(), &config(40, certified()), room_for(8), folder.path(), Existing::Refuse, None);
    assert_eq!(ran.outcome.unwrap().reason, EndReason::Completed);
    let steps = steps(&ran.events);
    assert_eq!(steps.len(), 40);
    check_epochs(&ran.events, N_SAMPLES);
    assert!(steps.iter().all(|it| it.peak <= it.capacity), "above capacity");
    assert!(steps.iter().skip(1).all(|it| it.upper.is_some_and(|upper| it.peak <= upper)), "above the upper bound");
    let (first, last) = (steps[0].rung, steps[39].rung);
    assert_eq!(first, Knobs { patch_size: 16, micro_batch_size: 2 });
    assert_eq!(last.patch_size, 64, "{last}");
    let adjustments =
        ran.events.iter().filter(|it| matches!(it, Event::Decided(it) if matches!(it.decision, Decision::Move(_))));
    assert!(adjustments.count() <= 6);
    let replayed = replay(&ran.events).unwrap();
    assert_eq!((replayed.decisions, replayed.mismatches.len()), (40, 0));
}

#[test]
fn a_step_above_the_capacity_is_discarded_and_run_again_in_halves() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    // A fixed policy asks for 16 samples at once; there is no room for them.
    let ran = run(&Tiny::new(), &config(6, fixed()), room_for(8), folder.path(), Existing::Refuse, None);
    ran.outcome.unwrap();
    let failures = ran.events.iter().filter(|it| matches!(it, Event::StepFailed(_))).count();
    assert!(failures > 0, "nothing ran out of memory, so nothing is tested");
    let steps = steps(&ran.events);
    check_epochs(&ran.events, N_SAMPLES);
    for done in steps {
        assert!(done.peak <= done.capacity);
        assert!(done.micro_batches.len() > 1 || done.n_samples() < 16, "step {} was not split", done.step);
    }
    assert!(replay(&ran.events).unwrap().mismatches.is_empty());
}

#[test]
fn splitting_changes_neither_samples_nor_losses() {
    let _alone = alone();
    let losses = |room| {
        let folder = tempfile::tempdir().unwrap();
        let ran = run(&Tiny::new(), &config(6, fixed()), room, folder.path(), Existing::Refuse, None);
        ran.outcome.unwrap();
        let row = |it: &&StepDone| (it.micro_batches.iter().flat_map(|it| it.ids.clone()).collect::<Vec<_>>(), it.loss);
        steps(&ran.events).iter().map(row).collect::<Vec<_>>()
    };
    for ((ids, roomy), (same_ids, tight)) in losses(Bytes::gib(1)).into_iter().zip(losses(room_for(8))) {
        assert_eq!(ids, same_ids);
        assert!((roomy - tight).abs() < 1e-5 * roomy.abs().max(1.0), "{roomy} {tight}");
    }
}

#[test]
fn an_interrupted_run_goes_on_where_it_stopped() {
    let _alone = alone();
    let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (job, config, room) = (Tiny::new(), config(12, certified()), Bytes::mib(64));
    let undisturbed = run(&job, &config, room, whole.path(), Existing::Refuse, None);
    let first = run(&job, &config, room, parts.path(), Existing::Refuse, Some(5));
    assert_eq!(first.outcome.unwrap().reason, EndReason::Interrupted);
    let second = run(&job, &config, room, parts.path(), Existing::Resume, None);
    assert_eq!(second.outcome.unwrap().reason, EndReason::Completed);
    let rows =
        |events: &[Event]| steps(events).iter().map(|it| (it.step, it.micro_batches.clone())).collect::<Vec<_>>();
    let ids = |events: &[Event]| -> Vec<_> {
        let flat = |(step, batches): (u64, Vec<plimsoll_types::MicroBatch>)| {
            (step, batches.into_iter().flat_map(|it| it.ids).collect::<Vec<_>>())
        };
        rows(events).into_iter().map(flat).collect()
    };
    assert_eq!(ids(&undisturbed.events), ids(&second.events));
    assert!(replay(&second.events).unwrap().mismatches.is_empty());
}

#[test]
fn a_resumed_run_has_the_weights_of_an_undisturbed_one() {
    let _alone = alone();
    let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (job, config, room) = (Tiny::new(), config(12, fixed()), Bytes::gib(1));
    run(&job, &config, room, whole.path(), Existing::Refuse, None).outcome.unwrap();
    run(&job, &config, room, parts.path(), Existing::Refuse, Some(7)).outcome.unwrap();
    run(&job, &config, room, parts.path(), Existing::Resume, None).outcome.unwrap();
    let weights = |path: &Path| {
        let record = burn::store::ModuleRecord::load(path.join("checkpoints/step-00000012/model.bpk")).unwrap();
        let net = job.init(&Device::flex()).load_record(record);
        net.first.weight.val().into_data().iter::<f32>().collect::<Vec<_>>()
    };
    assert_eq!(weights(whole.path()), weights(parts.path()));
}

#[test]
fn a_capacity_below_what_one_sample_needs_is_refused_with_the_need() {
    let _alone = alone();
    // What a sample needs beside the process differs a little from run to run: the first capacity that has no step.
    let refused = (0..60).find_map(|it| {
        let (folder, capacity) = (tempfile::tempdir().unwrap(), Bytes::kib(1800 - 25 * it));
        // The smallest patches need less than the optimizer does.
        let probe = flex_with(capacity);
        let ran = run_on(probe, &Tiny::new(), &config(3, fixed()), folder.path(), Existing::Refuse, None);
        ran.outcome.err().filter(|_| steps(&ran.events).is_empty())
    });
    let text = refused.unwrap().to_string();
    for part in ["one sample alone does not fit: needs", "a capacity of", "sample ", " positions", "largest allocation"]
    {
        assert!(text.contains(part), "`{part}` is not in `{text}`");
    }
}

#[test]
fn a_run_that_resumes_with_less_memory_steps_down_and_one_with_other_settings_is_refused() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let (job, much, little) = (Tiny::new(), room_for(16), room_for(4));
    run(&job, &config(20, certified()), much, folder.path(), Existing::Refuse, Some(12)).outcome.unwrap();
    let changed = run(&job, &config(20, fixed()), much, folder.path(), Existing::Resume, None);
    let text = changed.outcome.unwrap_err().to_string();
    assert!(text.contains("`policy.kind` or `batch.batch_size` was certified"), "{text}");
    let tight = run(&job, &config(20, certified()), little, folder.path(), Existing::Resume, None);
    tight.outcome.unwrap();
    let steps = steps(&tight.events);
    let (before, after) = (steps[11].rung, steps[19].rung);
    assert!(after.shape().samples < before.shape().samples, "{before} {after}");
    assert!(steps[19].micro_batches.iter().all(|it| it.shape().samples <= after.micro_batch_size));
    assert!(replay(&tight.events).unwrap().mismatches.is_empty());
}

#[test]
fn a_sample_that_cannot_be_read_names_its_file() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let job = Tiny { rows: Arc::new(Rows { broken: Some(7), panics: false }), ..Tiny::new() };
    let ran = run(&job, &config(12, fixed()), Bytes::gib(1), folder.path(), Existing::Refuse, None);
    assert_eq!(ran.outcome.unwrap_err().to_string(), "read sample 7: rows/7.txt: is gone");
}

#[test]
fn a_worker_that_panics_is_an_error_and_no_shorter_epoch() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let job = Tiny { rows: Arc::new(Rows { broken: None, panics: true }), ..Tiny::new() };
    let ran = run(&job, &config(12, fixed()), Bytes::gib(1), folder.path(), Existing::Refuse, None);
    let text = ran.outcome.unwrap_err().to_string();
    assert_eq!(text, "collate a step: a worker panicked: a worker of this test panics");
}
