//! What a run goes on with is read onto the device of the run, and onto no other.
#![cfg(all(feature = "vulkan", target_os = "linux"))]
#![expect(clippy::print_stderr, reason = "a test that is skipped says why")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../resume/job.rs"]
mod job;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use plimsoll_monitor::Progress;
use plimsoll_policy::{FixedConfig, PolicyConfig};
use plimsoll_predict::{Platform, PredictorConfig};
use plimsoll_probe::{DeviceKind, ProbeError, TrackingAllocator, open};
use plimsoll_train::{
    BalanceConfig, ControllerConfig, Existing, FitConfig, KnownTooLarge, LearningRate, LoaderConfig, OptimizerRecovery,
    RunDir, Scaling, Shell, StopFlag, fit, open_device,
};
use plimsoll_types::{Bytes, EndReason, Event, Fraction, Knobs, Recompute};

use job::{N_SAMPLES, Noisy};

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

fn config(device: DeviceKind) -> FitConfig {
    FitConfig {
        device: device.to_string(),
        seed: 3,
        draws_line: false,
        may_checkpoint: false,
        too_large: KnownTooLarge::default(),
        optimizer_recovery: OptimizerRecovery::Restore,
        deterministic: false,
        n_steps: 4,
        learning_rate: LearningRate { peak: 0.05, warm_up_steps: 2, final_share: 0.1, scaling: Scaling::None },
        target: Fraction::ONE,
        controller: ControllerConfig {
            predictor: PredictorConfig::default(),
            policy: PolicyConfig::Fixed(FixedConfig::of(Knobs { patch_size: 1, micro_batch_size: 5 })),
            recompute: Recompute::NEVER,
            platform: Platform::default(),
            planned: Vec::new(),
            replicas: 1,
            exact_peaks: device == DeviceKind::Flex,
            small_batch: 0,
        },
        tasks: BalanceConfig::default(),
        loader: LoaderConfig::cut(3, 5, 1, Bytes::mib(4)),
        validate_every: N_SAMPLES,
        validation_share: Fraction::ONE,
        checkpoint_every: 2,
        patience: None,
        keep_checkpoints: 2,
    }
}

/// Runs until a signal after the second step, or goes on to the end; `None` where there is no such device.
fn run(device: DeviceKind, path: &Path, existing: Existing) -> Option<EndReason> {
    let probe = match open(device, None) {
        Ok(probe) => probe,
        Err(error @ ProbeError::NoDevice { .. }) => {
            eprintln!("skipped: failed to {error}");
            return None;
        }
        Err(error) => panic!("failed to {error}"),
    };
    let mut run_dir = RunDir::open(path, existing).unwrap();
    let stop = StopFlag::default();
    let flag = stop.clone();
    let shell = Shell {
        run_dir: &mut run_dir,
        existing,
        device: open_device(device).unwrap(),
        probe,
        stop,
        observer: &mut |event: &Event, _: &Progress| {
            if matches!(event, Event::StepDone(done) if done.step == 1) {
                flag.set(2);
            }
        },
        watching: None,
        warn: &mut |warning| panic!("{warning}"),
        death: None,
        plan_sparing: None,
        fleet: Box::new(plimsoll_train::Alone),
        config_text: "",
    };
    Some(fit(&Noisy, &config(device), shell).unwrap().reason)
}

/// Returns the names of the threads that serve allocators of `CubeCL`: each device name has its own.
fn allocators() -> BTreeSet<String> {
    let threads = fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = threads.filter_map(|it| fs::read_to_string(it.path().join("comm")).ok());
    names.map(|it| it.trim().to_owned()).filter(|it| it.starts_with("DSD-")).collect()
}

/// Trains in two halves, and returns the allocators after each.
fn in_two_halves(device: DeviceKind) -> Option<[BTreeSet<String>; 2]> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    assert_eq!(run(device, &path, Existing::Refuse)?, EndReason::Interrupted);
    let first = allocators();
    assert_eq!(run(device, &path, Existing::Resume)?, EndReason::Completed);
    Some([first, allocators()])
}

#[test]
fn no_second_allocator_opens_when_a_run_goes_on() {
    let [first, second] = in_two_halves(DeviceKind::Flex).unwrap();
    assert_eq!((first, second), (BTreeSet::new(), BTreeSet::new()), "the CPU needs none");
    let Some([first, second]) = in_two_halves(DeviceKind::Vulkan(0)) else { return };
    assert_eq!(first.len(), 1, "{first:?}");
    assert_eq!(first, second);
}
