//! Memory that runs out where it hurts most.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_plan::{PlanError, PlannedNeed};
use plimsoll_predict::Phase;
use plimsoll_probe::{Probe, ProbeError};
use plimsoll_train::{Existing, FitConfig, Incident, OptimizerRecovery, TrainError, replay, replay_incident};
use plimsoll_types::{Bytes, EndReason, Event, MemoryReading, Stage, StepFailed, StepShape};

use crate::common::{Ran, alone, check_epochs, flex_with, run, run_on, run_planned, steps};
use crate::tiny::{N_SAMPLES, Tiny, config, fixed, room_for};

/// The reading after the optimizer's step comes fourth after a part has begun: at its start, after its backward pass,
/// and after its gradients were added there were others.
const AFTER_OPTIMIZER: u64 = 4;

/// A probe that sees too high a peak after chosen optimizer steps.
pub(crate) struct Faulty {
    inner: Box<dyn Probe>,
    reads: AtomicU64,
    n_optimized: AtomicU64,
    /// The optimizer steps that fail, counted from 0 with those that are repeated.
    faults: &'static [u64],
}

impl Faulty {
    pub(crate) fn with(faults: &'static [u64]) -> Box<dyn Probe> {
        let (reads, n_optimized) = (AtomicU64::new(0), AtomicU64::new(0));
        Box::new(Self { inner: flex_with(Bytes::gib(1)), reads, n_optimized, faults })
    }
}

impl Probe for Faulty {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn read(&self) -> Result<MemoryReading, ProbeError> {
        let reading = self.inner.read()?;
        if self.reads.fetch_add(1, Ordering::Relaxed) + 1 != AFTER_OPTIMIZER {
            return Ok(reading);
        }
        let n = self.n_optimized.fetch_add(1, Ordering::Relaxed);
        Ok(if self.faults.contains(&n) { MemoryReading { peak: Bytes::gib(1 << 10), ..reading } } else { reading })
    }

    fn reset_peak(&mut self) -> Result<(), ProbeError> {
        self.reads.store(0, Ordering::Relaxed);
        self.inner.reset_peak()
    }

    fn has_exact_peak(&self) -> bool {
        true
    }

    fn capacity(&self) -> Result<Bytes, ProbeError> {
        self.inner.capacity()
    }

    fn largest_allocation(&self) -> Result<Bytes, ProbeError> {
        self.inner.largest_allocation()
    }

    fn cleanup(&mut self) -> Result<(), ProbeError> {
        self.inner.cleanup()
    }
}

fn recovering(optimizer_recovery: OptimizerRecovery) -> FitConfig {
    FitConfig { optimizer_recovery, ..config(12, fixed()) }
}

fn failures(ran: &Ran) -> Vec<&StepFailed> {
    ran.events.iter().filter_map(|it| if let Event::StepFailed(failed) = it { Some(failed) } else { None }).collect()
}

fn weights(path: &Path) -> Vec<u8> {
    std::fs::read(path.join("checkpoints/step-00000012/weights.safetensors")).unwrap()
}

/// Runs with faults of the optimizer and without, and returns the disturbed one after the comparison.
#[track_caller]
fn check_recovery(recovery: OptimizerRecovery, faults: &'static [u64]) -> Ran {
    let (whole, disturbed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let config = recovering(recovery);
    run(&Tiny::new(), &config, Bytes::gib(1), whole.path(), Existing::Refuse, None).outcome.unwrap();
    let ran = run_on(Faulty::with(faults), &Tiny::new(), &config, disturbed.path(), Existing::Refuse, None);
    assert_eq!(ran.outcome.as_ref().unwrap().reason, EndReason::Completed);
    assert!(weights(whole.path()) == weights(disturbed.path()), "other weights");
    assert_eq!(steps(&ran.events).iter().map(|it| it.step).collect::<Vec<_>>(), (0..12).collect::<Vec<_>>());
    assert_eq!(check_epochs(&ran.events, N_SAMPLES), 3);
    assert!(replay(&ran.events).unwrap().mismatches.is_empty());
    let incident = std::fs::read_to_string(disturbed.path().join("incident-1.json")).unwrap();
    let incident = Incident::parse(&incident).unwrap();
    assert!(incident.failure.starts_with("the optimizer's step ran out of memory"), "{}", incident.failure);
    assert_eq!(replay_incident(&incident).unwrap().mismatches, []);
    ran
}

#[test]
fn an_optimizer_step_out_of_memory_is_taken_again_from_a_copy() {
    let _alone = alone();
    let ran = check_recovery(OptimizerRecovery::Keep, &[2, 7]);
    let failed: Vec<_> = failures(&ran).into_iter().map(|it| (it.step, it.stage)).collect();
    assert_eq!(failed, [(2, Stage::Optimizer), (6, Stage::Optimizer)]);
    assert!(ran.warnings.is_empty());
}

#[test]
fn an_optimizer_step_out_of_memory_sends_the_run_back_to_its_checkpoint() {
    let _alone = alone();
    let ran = check_recovery(OptimizerRecovery::Restore, &[6]);
    // The steps since the checkpoint of step 4 are taken again, and the policy knows from there on.
    assert_eq!(failures(&ran).into_iter().map(|it| (it.step, it.stage)).collect::<Vec<_>>(), [(4, Stage::Optimizer)]);
    assert!(ran.warnings[0].ends_with("went back to its last checkpoint, of step 4"), "{:?}", ran.warnings);
}

#[test]
fn an_optimizer_step_that_fails_twice_ends_the_run_with_the_numbers() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let config = recovering(OptimizerRecovery::Keep);
    let ran = run_on(Faulty::with(&[3, 4]), &Tiny::new(), &config, folder.path(), Existing::Refuse, None);
    let error = ran.outcome.unwrap_err();
    assert!(matches!(error, TrainError::OptimizerNeverFits { step: 3, peak: Some(_), .. }), "{error}");
    let incident = std::fs::read_to_string(folder.path().join("incident-2.json")).unwrap();
    assert_eq!(Incident::parse(&incident).unwrap().failure, error.to_string());
}

/// Returns the least room of a few quarters of a MiB in which a run ends well; more is as good.
fn least_room(job: &Tiny, config: &FitConfig) -> Bytes {
    let fits = |quarters: u64| {
        let folder = tempfile::tempdir().unwrap();
        run(job, config, Bytes::kib(256 * quarters), folder.path(), Existing::Refuse, None).outcome.is_ok()
    };
    let (mut below, mut enough) = (3, 160);
    assert!(fits(enough), "a run needs more than 40 MiB");
    while below + 1 < enough {
        let middle = u64::midpoint(below, enough);
        if fits(middle) { enough = middle } else { below = middle }
    }
    Bytes::kib(256 * enough)
}

#[test]
fn gradient_checkpointing_is_switched_on_where_one_sample_does_not_fit_without() {
    let _alone = alone();
    // What they leave behind is much more than all else that a step needs.
    let job = Tiny { n_products: 24, ..Tiny::new() };
    let tried = |room, may_checkpoint| {
        let folder = tempfile::tempdir().unwrap();
        let config = FitConfig { may_checkpoint, ..config(6, fixed()) };
        run(&job, &config, room, folder.path(), Existing::Refuse, None)
    };
    let room = least_room(&job, &FitConfig { may_checkpoint: true, ..config(6, fixed()) });
    let (without, with) = (tried(room, false), tried(room, true));
    assert!(without.outcome.unwrap_err().to_string().contains("one sample alone does not fit"));
    let on = with.events.iter().filter(|it| matches!(it, Event::GradientCheckpointing(_))).count();
    assert_eq!((with.outcome.unwrap().reason, on, steps(&with.events).len()), (EndReason::Completed, 1, 6));
    assert!(replay(&with.events).unwrap().mismatches.is_empty());
}

#[test]
fn steps_that_recompute_activations_are_planned_anew_and_tell_by_themselves_where_the_plan_fails() {
    let _alone = alone();
    let job = Tiny { n_products: 24, ..Tiny::new() };
    let config = FitConfig { may_checkpoint: true, ..config(6, fixed()) };
    // What just fits once need not do so again: how much is held beside a run varies by some hundred bytes.
    let room = least_room(&job, &config).saturating_add(Bytes::kib(64));
    // Of a shape that no step has.
    let (shape, expected) = (StepShape::new(1, 16), Bytes::mib(1));
    let (phase, largest, nodes, packed) = (Phase::Train, Bytes::ZERO, 0, Bytes::ZERO);
    let need = PlannedNeed {
        phase,
        checkpointing: true,
        shape,
        expected,
        upper: expected,
        largest,
        resident: None,
        nodes,
        packed,
    };
    for is_planned in [true, false] {
        let (folder, mut n) = (tempfile::tempdir().unwrap(), 0);
        let mut plan = |_| {
            n += 1;
            if is_planned { Ok(vec![need]) } else { Err(PlanError::NoCell) }
        };
        let (probe, path) = (flex_with(room), folder.path());
        let ran = run_planned(probe, &job, &config, path, Existing::Refuse, None, Some(&mut plan));
        assert_eq!((ran.outcome.unwrap().reason, n), (EndReason::Completed, 1));
        let switched = |it: &Event| if let Event::GradientCheckpointing(it) = it { Some(it.clone()) } else { None };
        let planned = ran.events.iter().find_map(switched).unwrap().planned;
        let planned = planned.map(|it| serde_json::from_str::<Vec<PlannedNeed>>(&it).unwrap());
        assert_eq!(planned, is_planned.then(|| vec![need]));
        let warning = "no plan of steps that recompute activations, the steps will tell: failed to plan: there is no \
                       cell; allow at least one batch size and one edge";
        assert_eq!(ran.warnings, if is_planned { vec![] } else { vec![warning.to_owned()] });
        assert!(replay(&ran.events).unwrap().mismatches.is_empty());
    }
}

#[test]
fn what_led_to_a_failure_is_left_behind() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let ran = run(&Tiny::new(), &config(6, fixed()), room_for(8), folder.path(), Existing::Refuse, None);
    ran.outcome.unwrap();
    let incident = std::fs::read_to_string(folder.path().join("incident-1.json")).unwrap();
    let incident = Incident::parse(&incident).unwrap();
    assert_eq!((incident.step, incident.samples.len()), (0, 16));
    let last = incident.surroundings.last().unwrap();
    assert!(last.capacity.is_some() && last.largest_allocation > Some(Bytes::ZERO), "{last:?}");
    assert!(!folder.path().join("incident-2.json").exists(), "one span of steps is reported once");
    assert!(replay_incident(&incident).unwrap().decisions > 0);
    let other = Incident { version: 7, ..incident };
    let error = Incident::parse(&serde_json::to_string(&other).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), format!("it has version 7, this program reads version {}", Incident::VERSION));
}
