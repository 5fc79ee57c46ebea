//! A run that was killed, stopped or damaged ends as one that was not, bit by bit.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../../probe/tests/alone/mod.rs"]
mod alone;

mod best;
mod job;

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};

use alone::alone;
use burn::tensor::Device;
use plimsoll_fixtures::copy_folder;
use plimsoll_monitor::{Progress, encode};
use plimsoll_policy::{FixedConfig, PolicyConfig};
use plimsoll_predict::{Platform, PredictorConfig};
use plimsoll_probe::{DeviceKind, TrackingAllocator, open};
use plimsoll_train::{
    BalanceConfig, Best, Checkpoint, ControllerConfig, Death, EVENTS_FILE, Existing, FitConfig, KnownTooLarge,
    LearningRate, LoaderConfig, OptimizerRecovery, PROCESSES_FILE, Process, RunDir, Scaling, Shell, StopFlag,
    TrainError, UNDONE_FILE, Why, fit,
};
use plimsoll_types::{Bytes, EndReason, Event, Fraction, Knobs, Recompute};
use serde_json::Value;

use job::{N_SAMPLES, Noisy};

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

const N_STEPS: u64 = 13;

fn config() -> FitConfig {
    FitConfig {
        device: "flex".to_owned(),
        seed: 3,
        draws_line: false,
        may_checkpoint: false,
        too_large: KnownTooLarge::default(),
        optimizer_recovery: OptimizerRecovery::Restore,
        deterministic: true,
        n_steps: N_STEPS,
        learning_rate: LearningRate { peak: 0.05, warm_up_steps: 2, final_share: 0.1, scaling: Scaling::None },
        target: Fraction::ONE,
        controller: ControllerConfig {
            predictor: PredictorConfig::default(),
            policy: PolicyConfig::Fixed(FixedConfig::of(Knobs { patch_size: 1, micro_batch_size: 3 })),
            recompute: Recompute::NEVER,
            platform: Platform::default(),
            planned: Vec::new(),
            replicas: 1,
            exact_peaks: true,
            small_batch: 0,
        },
        tasks: BalanceConfig::default(),
        loader: LoaderConfig { workers: 2, ..LoaderConfig::cut(3, 5, 1, Bytes::mib(4)) },
        validate_every: 3,
        validation_share: Fraction::ONE,
        checkpoint_every: 4,
        patience: None,
        keep_checkpoints: 2,
    }
}

/// What happens to a run from outside, told of every event with its number.
type Fate<'a> = &'a mut dyn FnMut(usize, &StopFlag);

/// Runs or goes on, and returns how it ended with the warnings.
fn run_as(
    path: &Path,
    existing: Existing,
    death: Option<&str>,
    fate: Fate<'_>,
) -> (Result<EndReason, TrainError>, Vec<String>) {
    run_with(&config(), path, existing, death, fate)
}

/// As [`run_as`], with other settings.
fn run_with(
    config: &FitConfig,
    path: &Path,
    existing: Existing,
    death: Option<&str>,
    fate: Fate<'_>,
) -> (Result<EndReason, TrainError>, Vec<String>) {
    let mut run_dir = RunDir::open(path, existing).unwrap();
    let (stop, mut n, warnings) = (StopFlag::default(), 0, RefCell::new(Vec::new()));
    let flag = stop.clone();
    let shell = Shell {
        run_dir: &mut run_dir,
        existing,
        device: Device::flex().autodiff(),
        probe: open(DeviceKind::Flex, Some(Bytes::gib(1))).unwrap(),
        stop,
        observer: &mut |_: &Event, _: &Progress| {
            fate(n, &flag);
            n += 1;
        },
        watching: None,
        warn: &mut |warning| warnings.borrow_mut().push(warning.to_owned()),
        death: death.map(|it| Death { what: it.to_owned(), ..Death::default() }),
        plan_sparing: None,
        fleet: Box::new(plimsoll_train::Alone),
        config_text: "",
    };
    let ended = fit(&Noisy, config, shell).map(|outcome| outcome.reason);
    (ended, warnings.take())
}

fn start(path: &Path, fate: Fate<'_>) {
    run_as(path, Existing::Refuse, None, fate).0.unwrap();
}

/// Goes on to the end; returns the warnings.
fn resume(path: &Path) -> Vec<String> {
    let (ended, warnings) = run_as(path, Existing::Resume, None, &mut |_, _| ());
    assert_eq!(ended.unwrap(), EndReason::Completed);
    warnings
}

fn undisturbed() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    start(folder.path(), &mut |_, _| ());
    folder
}

/// Runs with a copy of the run directory after every event, and returns the copies.
fn moments(path: &Path, existing: Existing, copies: &Path) -> Vec<PathBuf> {
    let mut moments = Vec::new();
    let mut fate = |n: usize, _: &StopFlag| {
        let moment = copies.join(format!("{n}"));
        // As a kill at this moment would leave it; a checkpoint that gets its name meanwhile moves away from under the copy.
        while copy_folder(path, &moment).is_err() {
            fs::remove_dir_all(&moment).unwrap();
        }
        moments.push(moment);
    };
    run_as(path, existing, None, &mut fate).0.unwrap();
    moments
}

const READINGS: [&str; 10] =
    ["seconds", "supply", "in_use", "reserved", "resident", "peak", "predicted", "upper", "capacity", "budget"];

fn without_readings(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !READINGS.contains(&name.as_str()));
            fields.values_mut().for_each(without_readings);
        }
        Value::Array(items) => items.iter_mut().for_each(without_readings),
        _ => (),
    }
}

/// The events of a run as text, clock and memory aside.
fn log(run_dir: &Path) -> Vec<String> {
    let text = fs::read_to_string(run_dir.join(EVENTS_FILE)).unwrap();
    let line = |line: &str| {
        let mut value = serde_json::from_str(line).unwrap();
        without_readings(&mut value);
        value.to_string()
    };
    text.lines().map(line).collect()
}

fn last_checkpoint() -> String {
    format!("checkpoints/step-{N_STEPS:08}")
}

/// What a run leaves of its model: the checkpoints there are, the best, and the last weights.
fn model(run_dir: &Path) -> (Vec<String>, String, Vec<u8>) {
    let entries = fs::read_dir(run_dir.join("checkpoints")).unwrap();
    let mut names: Vec<_> = entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let best = fs::read_to_string(run_dir.join("checkpoints/best.json")).unwrap();
    (names, best, fs::read(run_dir.join(last_checkpoint()).join("weights.safetensors")).unwrap())
}

#[track_caller]
fn check_same(disturbed: &Path, undisturbed: &Path, how: &str) {
    pretty(&log(disturbed), &log(undisturbed), how);
    assert_eq!(model(disturbed), model(undisturbed), "{how}");
}

#[track_caller]
fn pretty(disturbed: &[String], undisturbed: &[String], how: &str) {
    for (at, (is, should)) in disturbed.iter().zip(undisturbed).enumerate() {
        assert_eq!(is, should, "line {} of the log, {how}", at + 1);
    }
    assert_eq!(disturbed.len(), undisturbed.len(), "{how}");
}

#[test]
fn a_run_that_was_killed_after_any_event_ends_as_an_undisturbed_one() {
    let _alone = alone();
    let (folder, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let moments = moments(folder.path(), Existing::Refuse, copies.path());
    assert!(moments.len() > 25, "{} events", moments.len());
    for (n, moment) in moments.iter().enumerate() {
        let path = moment.join(EVENTS_FILE);
        let log = fs::read_to_string(&path).unwrap();
        let cut_short = if n % 2 == 0 { "" } else { "{\"event\":\"step_do" };
        fs::write(&path, log + cut_short).unwrap();
        // The first checkpoint may be on its way to the disk still.
        let begins_again = !Checkpoint::is_any(moment);
        let warnings = resume(moment);
        assert_eq!(warnings.len(), usize::from(begins_again), "{warnings:?}");
        check_same(moment, folder.path(), &format!("killed after event {n}"));
    }
}

#[test]
fn a_run_that_was_killed_again_and_again_ends_as_an_undisturbed_one() {
    let _alone = alone();
    let whole = undisturbed();
    let n_events = log(whole.path()).len();
    for first in (0..n_events).step_by(6) {
        let (folder, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut killed = moments(folder.path(), Existing::Refuse, copies.path())[first].clone();
        for again in [2, 9, 1] {
            let copies = tempfile::tempdir_in(copies.path()).unwrap().keep();
            let moments = moments(&killed, Existing::Resume, &copies);
            killed = moments.get(again).unwrap_or(&moments[0]).clone();
        }
        resume(&killed);
        check_same(&killed, whole.path(), &format!("killed after event {first} and three times more"));
        let processes = fs::read_to_string(killed.join(PROCESSES_FILE)).unwrap();
        assert_eq!(processes.lines().count(), 5, "{processes}");
    }
}

#[test]
fn a_run_that_a_signal_stopped_at_any_event_ends_as_an_undisturbed_one() {
    let _alone = alone();
    let whole = undisturbed();
    for at in 0..log(whole.path()).len() - 1 {
        let folder = tempfile::tempdir().unwrap();
        let mut signal = |n: usize, stop: &StopFlag| {
            if n == at {
                stop.set(2);
            }
        };
        start(folder.path(), &mut signal);
        resume(folder.path());
        check_same(folder.path(), whole.path(), &format!("stopped at event {at}"));
    }
}

#[test]
fn a_damaged_last_checkpoint_costs_the_steps_since_the_one_before() {
    let _alone = alone();
    let whole = undisturbed();
    let (names, _, _) = model(whole.path());
    for (n, name) in
        ["model.bpk", "optimizer.bpk", "state.json", "weights.safetensors", "checksums.json"].iter().enumerate()
    {
        let folder = tempfile::tempdir().unwrap();
        copy_folder(whole.path(), folder.path()).unwrap();
        let path = folder.path().join(last_checkpoint()).join(name);
        let content = fs::read(&path).unwrap();
        fs::write(&path, &content[..n * content.len() / 5]).unwrap();
        let warnings = resume(folder.path());
        assert!(warnings.len() == 1 && warnings[0].contains(&last_checkpoint()), "{warnings:?}");
        pretty(&log(folder.path()), &log(whole.path()), name);
        let (_, best, weights) = model(folder.path());
        assert_eq!((best, weights), (model(whole.path()).1, model(whole.path()).2), "{names:?}");
    }
}

#[test]
fn where_every_checkpoint_is_damaged_nothing_is_touched() {
    let _alone = alone();
    let whole = undisturbed();
    let log = fs::read_to_string(whole.path().join(EVENTS_FILE)).unwrap();
    for entry in fs::read_dir(whole.path().join("checkpoints")).unwrap().map(Result::unwrap) {
        drop(fs::remove_file(entry.path().join("state.json")));
    }
    let text = run_as(whole.path(), Existing::Resume, None, &mut |_, _| ()).0.unwrap_err().to_string();
    assert!(text.contains("none of its checkpoints is whole") && text.contains(&last_checkpoint()), "{text}");
    assert_eq!(fs::read_to_string(whole.path().join(EVENTS_FILE)).unwrap(), log);
}

#[test]
fn the_last_checkpoints_and_the_best_are_kept() {
    let _alone = alone();
    let whole = undisturbed();
    let events = RunDir::open(whole.path(), Existing::Resume).unwrap().events().unwrap();
    let validations = events.iter().filter_map(|it| if let Event::Validated(it) = it { Some(it) } else { None });
    let lowest = validations.min_by(|a, b| a.metric.total_cmp(&b.metric)).unwrap();
    let (names, best, _) = model(whole.path());
    let best: Best = serde_json::from_str(&best).unwrap();
    assert_eq!((best.step, best.metric.to_bits()), (lowest.step, lowest.metric.to_bits()));
    assert!(names.contains(&format!("step-{:08}", best.step)), "{names:?}");
    let saved = events.iter().filter_map(|it| if let Event::CheckpointSaved(it) = it { Some(it.step) } else { None });
    let mut kept: Vec<_> = saved.collect::<Vec<_>>().into_iter().rev().take(2).chain([best.step]).collect();
    kept.sort_unstable();
    kept.dedup();
    let kept = kept.into_iter().map(|step| format!("step-{step:08}"));
    assert_eq!(names, ["best.json".to_owned()].into_iter().chain(kept).collect::<Vec<_>>());
}

#[test]
fn each_process_says_why_it_began_and_what_it_does_again() {
    let _alone = alone();
    let (folder, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let moments = moments(folder.path(), Existing::Refuse, copies.path());
    let of_step = |it: &PathBuf| fs::read_to_string(it.join(EVENTS_FILE)).unwrap().matches("step_done").count();
    let killed = moments.iter().find(|it| of_step(it) == 7).unwrap();
    run_as(killed, Existing::Resume, Some("SIGKILL"), &mut |_, _| ()).0.unwrap();
    let text = fs::read_to_string(killed.join(PROCESSES_FILE)).unwrap();
    let processes: Vec<Process> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let pid = std::process::id();
    let first =
        Process { process: 1, pid, step: 0, why: Why::Started, undone_steps: 0, machines: Vec::new(), oom_kills: None };
    let why = Why::AfterDeath { death: "SIGKILL".to_owned() };
    let from = processes[1].step;
    assert_eq!(
        processes,
        [
            first,
            Process { process: 2, pid, step: from, why, undone_steps: 7 - from, machines: Vec::new(), oom_kills: None }
        ]
    );
    // What was saved last may not have been written yet; what was saved before it has.
    assert!((3..7).contains(&from), "{from}");
    let undone = fs::read_to_string(killed.join(UNDONE_FILE)).unwrap();
    assert_eq!(undone.matches("step_done").count() as u64, 7 - from);
}

#[test]
fn every_sample_comes_once_in_every_epoch() {
    let _alone = alone();
    let whole = undisturbed();
    let events = RunDir::open(whole.path(), Existing::Resume).unwrap().events().unwrap();
    let steps = events.iter().filter_map(|it| if let Event::StepDone(it) = it { Some(it) } else { None });
    let mut first: Vec<_> =
        steps.filter(|it| it.epoch == 0).flat_map(|it| &it.micro_batches).flat_map(|it| it.ids.clone()).collect();
    first.sort_unstable();
    assert_eq!(first, (0..N_SAMPLES).collect::<Vec<_>>());
    assert_eq!(
        events.iter().map(encode).collect::<String>(),
        fs::read_to_string(whole.path().join(EVENTS_FILE)).unwrap()
    );
}

/// Names the run directory to the process that has the limit.
#[cfg(unix)]
const LIMITED: &str = "PLIMSOLL_TEST_LIMITED_RUN";

#[cfg(unix)]
#[test]
fn a_disk_that_is_full_at_any_moment_loses_no_checkpoint() {
    let _alone = alone();
    if let Some(path) = std::env::var_os(LIMITED) {
        let ended = run_as(Path::new(&path), Existing::Refuse, None, &mut |_, _| ()).0;
        panic!("ended with {:?}", ended.map_err(|error| error.to_string()));
    }
    let whole = undisturbed();
    let mut n_cut = 0;
    for blocks in 1..12 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        // A file that would grow beyond the limit cannot be written to, as on a disk that is full.
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\"");
        let mut limited = std::process::Command::new("sh");
        limited.args(["-c", &script, "sh"]).arg(std::env::current_exe().unwrap());
        limited.args(["--exact", "a_disk_that_is_full_at_any_moment_loses_no_checkpoint"]).env(LIMITED, &path);
        let output = String::from_utf8(limited.output().unwrap().stdout).unwrap();
        assert!(output.contains("ended with Err") && output.contains("too large"), "{blocks} blocks: {output}");
        assert!(!path.join("checkpoints/unfinished").exists());
        if path.exists() {
            n_cut += 1;
            let warnings = resume(&path);
            assert!(warnings.is_empty(), "{blocks} blocks: {warnings:?}");
        } else {
            start(&path, &mut |_, _| ());
        }
        check_same(&path, whole.path(), &format!("with files of at most {blocks} blocks"));
    }
    assert!(n_cut > 1, "the limits were all below the first step");
}
