//! Runs whose steps are divided between threads of one CPU.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Mutex;
use std::thread::{self, ThreadId};

use burn::module::Module;
use burn::tensor::Device;
use plimsoll_policy::{FixedConfig, PolicyConfig};
use plimsoll_train::{ControllerConfig, Existing, FitConfig, Job, replay};
use plimsoll_types::{Bytes, EndReason, Knobs};

use crate::common::{alone, check_epochs, run, steps};
use crate::tiny::{Beside, N_SAMPLES, Tiny, certified, config, room_for};

/// Notes which threads make batches.
#[derive(Default)]
struct Threads(Mutex<HashSet<ThreadId>>);

impl Beside for Threads {
    fn on_part(&self, _n_samples: usize) {
        self.0.lock().unwrap().insert(thread::current().id());
    }
}

fn divided(n_steps: u64, policy: PolicyConfig, replicas: u32) -> FitConfig {
    let config = config(n_steps, policy);
    FitConfig { controller: ControllerConfig { replicas, ..config.controller }, ..config }
}

/// Always parts of four samples.
fn fours() -> PolicyConfig {
    PolicyConfig::Fixed(FixedConfig::of(Knobs { patch_size: 64, micro_batch_size: 4 }))
}

fn weights(job: &impl Job<Model = crate::tiny::Net>, path: &Path, step: u64) -> Vec<u32> {
    let path = path.join(format!("checkpoints/step-{step:08}/model.bpk"));
    let net = job.init(&Device::flex()).load_record(burn::store::ModuleRecord::load(path).unwrap());
    net.first.weight.val().into_data().iter::<f32>().map(f32::to_bits).collect()
}

#[test]
fn replicas_share_the_memory_and_every_sample_comes_once() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let job = Tiny::beside(Threads::default());
    // Each replica keeps for matrix products what the second cache of a core holds.
    let room = room_for(8).saturating_add(Bytes::mib(3 * 4));
    let ran = run(&job, &divided(40, certified(), 3), room, folder.path(), Existing::Refuse, None);
    assert_eq!(ran.outcome.unwrap().reason, EndReason::Completed);
    let steps = steps(&ran.events);
    check_epochs(&ran.events, N_SAMPLES);
    assert!(steps.iter().all(|it| it.peak <= it.capacity), "above capacity");
    assert!(steps.iter().skip(1).all(|it| it.upper.is_some_and(|upper| it.peak <= upper)), "above the upper bound");
    // That of the run is one of them, and alone in the first steps.
    assert_eq!(job.beside.0.lock().unwrap().len(), 3);
    assert!(steps[39].micro_batches.len() >= 3, "one at least for each");
    assert!(replay(&ran.events).unwrap().mismatches.is_empty());
}

#[test]
fn any_number_of_replicas_comes_to_the_same_weights_and_may_change_when_a_run_goes_on() {
    let _alone = alone();
    let (job, room) = (Tiny::new(), Bytes::gib(1));
    let whole = tempfile::tempdir().unwrap();
    run(&job, &divided(12, fours(), 1), room, whole.path(), Existing::Refuse, None).outcome.unwrap();
    let one_by_one = weights(&job, whole.path(), 12);
    for replicas in [2, 4] {
        let parts = tempfile::tempdir().unwrap();
        let first = run(&job, &divided(12, fours(), replicas), room, parts.path(), Existing::Refuse, Some(5));
        assert_eq!(first.outcome.unwrap().reason, EndReason::Interrupted);
        let second = run(&job, &divided(12, fours(), replicas - 1), room, parts.path(), Existing::Resume, None);
        assert_eq!(second.outcome.unwrap().reason, EndReason::Completed);
        assert!(weights(&job, parts.path(), 12) == one_by_one, "other weights with {replicas} replicas");
        assert!(replay(&second.events).unwrap().mismatches.is_empty());
    }
}
