//! A whole run of the multitask job: it learns all tasks, balances them, and goes on where it stopped.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../probe/tests/alone/mod.rs"]
mod alone;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use alone::alone;
use burn::tensor::Device;
use plimsoll_fixtures::copy_folder;
use plimsoll_policy::{BucketedConfig, PolicyConfig};
use plimsoll_predict::{Platform, PredictorConfig};
use plimsoll_probe::{DeviceKind, TrackingAllocator, open};
use plimsoll_sampler::cells;
use plimsoll_train::{
    BalanceConfig, ControllerConfig, Existing, FitConfig, Job, KnownTooLarge, LearningRate, LoaderConfig,
    OptimizerRecovery, RunDir, Scaling, Shell, Source, StopFlag, fit,
};
use plimsoll_types::{Bytes, Event, Fraction, Recompute, StepDone, Validated};
use plimsoll_workloads::Room;
use plimsoll_workloads::multitask::{Multitask, MultitaskConfig, Samples, SamplesConfig};

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

/// The most cells of images and words.
const MOST_CELLS: u32 = 9;

fn config(job: &Multitask, n_steps: u64) -> FitConfig {
    let extents: Vec<_> = job.source().lengths().index().unwrap().iter().collect();
    let cells = cells(&extents, MOST_CELLS, &[1, 1]).unwrap();
    let bucketed = BucketedConfig { cells: cells.clone(), batch_max: 16, ..BucketedConfig::default() };
    FitConfig {
        device: "flex".to_owned(),
        seed: 3,
        deterministic: false,
        draws_line: false,
        may_checkpoint: false,
        too_large: KnownTooLarge::default(),
        optimizer_recovery: OptimizerRecovery::Restore,
        n_steps,
        learning_rate: LearningRate { peak: 1e-3, warm_up_steps: 10, final_share: 0.1, scaling: Scaling::None },
        target: Fraction::ONE,
        controller: ControllerConfig {
            predictor: PredictorConfig { features: job.features(), ..PredictorConfig::default() },
            policy: PolicyConfig::Bucketed(bucketed),
            recompute: Recompute::NEVER,
            platform: Platform::default(),
            planned: Vec::new(),
            replicas: 1,
            exact_peaks: true,
            small_batch: 0,
        },
        tasks: BalanceConfig::GradNorm { alpha: 1.5, learning_rate: 0.025 },
        loader: LoaderConfig {
            largest_extent: *cells.last().unwrap(),
            cells,
            ..LoaderConfig::cut(3, 32, 1, Bytes::mib(16))
        },
        validate_every: 1000,
        validation_share: Fraction::ONE,
        checkpoint_every: 1000,
        patience: None,
        keep_checkpoints: 1,
    }
}

fn run(job: &Multitask, path: &Path, existing: Existing, n_steps: u64, stop_after: Option<u64>) -> Vec<Event> {
    let mut run_dir = RunDir::open(path, existing).unwrap();
    let (probe, stop) = (open(DeviceKind::Flex, Some(Bytes::mib(256))).unwrap(), StopFlag::default());
    let signal = stop.clone();
    let mut observer = |event: &Event, _: &_| {
        if matches!(event, Event::StepDone(done) if Some(done.step + 1) == stop_after) {
            signal.set(2);
        }
    };
    let device = Device::flex().autodiff();
    let shell = Shell {
        run_dir: &mut run_dir,
        existing,
        device,
        probe,
        stop,
        observer: &mut observer,
        watching: None,
        warn: &mut |warning| panic!("{warning}"),
        death: None,
        plan_sparing: None,
        fleet: Box::new(plimsoll_train::Alone),
        config_text: "",
    };
    fit(job, &config(job, n_steps), shell).unwrap();
    run_dir.events().unwrap()
}

fn steps(events: &[Event]) -> Vec<&StepDone> {
    events.iter().filter_map(|event| if let Event::StepDone(done) = event { Some(done) } else { None }).collect()
}

fn last_validation(events: &[Event]) -> &Validated {
    events.iter().rev().find_map(|event| if let Event::Validated(it) = event { Some(it) } else { None }).unwrap()
}

#[test]
fn a_run_learns_all_tasks_balances_them_and_goes_on_where_it_stopped() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let config = SamplesConfig::new(plimsoll_fixtures::dir().join("multitask"), Room::boundless(folder.path()));
    let samples = Samples::read(&config).unwrap();
    let job = Multitask::new(MultitaskConfig::new(3), Arc::new(samples));
    let run_dir = folder.path().join("run");
    run(&job, &run_dir, Existing::Refuse, 150, Some(60));
    let events = run(&job, &run_dir, Existing::Resume, 150, None);
    let steps = steps(&events);
    assert_eq!(steps.len(), 150);
    for done in &steps {
        assert_eq!(done.tasks.iter().map(|it| u64::from(it.samples)).sum::<u64>(), done.n_samples());
        assert!((done.tasks.iter().map(|it| it.weight).sum::<f64>() - 3.0).abs() < 1e-6, "step {}", done.step);
        let is_measured = |it: &plimsoll_types::TaskStep| it.loss.is_some() && it.gradient_norm.is_some();
        assert!(done.tasks.iter().all(|it| (it.samples > 0) == is_measured(it)), "{:?}", done.tasks);
        // The loss of a step is the mean over its tasks of their weighted losses.
        let present: Vec<_> = done.tasks.iter().filter_map(|it| Some(it.weight * it.loss?)).collect();
        let mean = present.iter().sum::<f64>() / present.len() as f64;
        assert!((mean / done.loss - 1.0).abs() < 1e-4, "step {}: {mean} {}", done.step, done.loss);
    }
    let weights = |step: usize| steps[step].tasks.iter().map(|it| it.weight).collect::<Vec<_>>();
    assert_eq!(weights(0), [1.0; 3]);
    // One step moves a weight little; begun anew, all would be 1 again.
    let moved = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(moved(&weights(60), &weights(59)) < 0.5 * moved(&weights(60), &[1.0; 3]), "{:?}", weights(60));
    let validated = last_validation(&events);
    for task in &validated.tasks {
        assert!(task.metric < 0.8 * task.baseline, "{}: {} of {}", task.metric_name, task.metric, task.baseline);
    }
    assert!(validated.tasks.len() == 3 && validated.metric < 0.8);
}

#[test]
fn a_folder_with_one_task_or_two_trains_and_validates_these_alone() {
    let _alone = alone();
    for kept in [&["single"][..], &["pair"], &["subject", "pair"]] {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        copy_folder(&plimsoll_fixtures::dir().join("multitask"), &data).unwrap();
        let list = data.join("samples.jsonl");
        let is_kept = |line: &&str| kept.iter().any(|task| line.contains(&format!("\"{task}\"")));
        let lines: Vec<_> = fs::read_to_string(&list).unwrap().lines().filter(is_kept).map(str::to_owned).collect();
        fs::write(&list, lines.join("\n")).unwrap();
        let samples = Samples::read(&SamplesConfig::new(data, Room::boundless(folder.path()))).unwrap();
        let job = Multitask::new(MultitaskConfig::new(3), Arc::new(samples));
        let events = run(&job, &folder.path().join("run"), Existing::Refuse, 12, None);
        let steps = steps(&events);
        assert_eq!(steps.len(), 12);
        for done in steps {
            let weights = done.tasks.iter().map(|it| it.weight).sum::<f64>();
            assert!(done.tasks.len() == kept.len() && (weights - kept.len() as f64).abs() < 1e-6, "{:?}", done.tasks);
        }
        let validated = last_validation(&events);
        assert_eq!(validated.tasks.len(), kept.len());
        assert!(
            validated.metric.is_finite() && validated.tasks.iter().all(|it| it.metric.is_finite()),
            "{validated:?}"
        );
    }
}

/// A copy of the drawings whose texts have 5 to 11 words, whatever the number of images.
fn with_longer_texts(folder: &Path) -> Samples {
    let data = folder.join("data");
    copy_folder(&plimsoll_fixtures::dir().join("multitask"), &data).unwrap();
    let list = data.join("samples.jsonl");
    let longer = |(at, line): (usize, &str)| {
        line.replace("\"text\": \"", &format!("\"text\": \"{}", "rather ".repeat(at * 5 % 7)))
    };
    let lines: Vec<_> = fs::read_to_string(&list).unwrap().lines().enumerate().map(longer).collect();
    fs::write(&list, lines.join("\n")).unwrap();
    Samples::read(&SamplesConfig::new(data, Room::boundless(folder))).unwrap()
}

#[test]
fn texts_are_padded_to_the_words_of_their_cell_and_an_interrupted_run_draws_the_same() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let job = Multitask::new(MultitaskConfig::new(3), Arc::new(with_longer_texts(folder.path())));
    let [whole, parts] = ["whole", "parts"].map(|it| folder.path().join(it));
    let undisturbed = run(&job, &whole, Existing::Refuse, 16, None);
    run(&job, &parts, Existing::Refuse, 16, Some(6));
    let events = run(&job, &parts, Existing::Resume, 16, None);
    let drawn = |events: &[Event]| {
        let of_step = |it: &StepDone| it.micro_batches.iter().map(|it| (it.edges, it.ids.clone())).collect();
        steps(events).into_iter().map(of_step).collect::<Vec<Vec<_>>>()
    };
    assert_eq!(drawn(&undisturbed), drawn(&events));
    let index = job.source().lengths().index().unwrap();
    let (mut words, mut times) = (BTreeSet::new(), BTreeMap::<(u64, u64), u32>::new());
    for done in steps(&events) {
        assert!(done.peak <= done.capacity, "step {}", done.step);
        assert!(done.step < 2 || done.upper.is_some_and(|upper| done.peak <= upper), "step {}", done.step);
        for batch in &done.micro_batches {
            assert!(batch.ids.iter().all(|id| batch.edges.covers(index.get(*id).unwrap())), "{batch:?}");
            words.insert(batch.edges.edges()[1]);
            batch.ids.iter().for_each(|id| *times.entry((done.epoch, *id)).or_default() += 1);
        }
    }
    assert!(1 < words.len() && words.last().is_some_and(|most| *most < 24), "{words:?}");
    assert!(times.values().all(|n| *n == 1) && times.len() as u64 > 2 * job.source().n_samples());
}
