//! Runs over samples that have lengths: planned or streamed, in steps of so many samples or positions.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor, TensorData};
use plimsoll_policy::{BucketedConfig, PolicyConfig};
use plimsoll_predict::{Platform, PredictorConfig};
use plimsoll_probe::{DeviceKind, TrackingAllocator, open};
use plimsoll_sampler::SampleIndex;
use plimsoll_train::{
    BadSample, BalanceConfig, ControllerConfig, Draw, Existing, FitConfig, Inference, Item, Job, LearningRate, Lengths,
    LoaderConfig, Loss, Metric, Outcome, RunDir, Scaling, Shell, Source, SourceError, StepError, StepUnit, StopFlag,
    TrainError, Unit, Validation, fit, replay,
};
use plimsoll_types::{Bytes, Decided, Decision, EndReason, Event, Fraction, StepDone, StepShape};

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

/// The heap is one for the whole process, so runs that are measured must not overlap.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const N_SAMPLES: u64 = 100;
const WIDTH: usize = 32;
const EDGES: [u32; 4] = [8, 16, 24, 40];
/// In place of a broken sample: every one.
const ALL: u64 = u64::MAX;

/// Rows of numbers, one for each position; their length depends on the id.
struct Rows {
    streamed: bool,
    broken: Option<u64>,
}

struct Row {
    id: u64,
    length: u32,
}

impl Item for Row {
    fn length(&self) -> u32 {
        self.length
    }

    fn bytes(&self) -> Bytes {
        Bytes(16)
    }
}

fn length(id: u64) -> u32 {
    1 + u32::try_from(id * id * 7 % 40).unwrap()
}

/// The rows of a step, padded with zeros, and where each sample begins, with its edge and its length.
#[derive(Default)]
struct Buffer {
    values: Vec<f32>,
    samples: Vec<(usize, usize, u32)>,
}

impl Source for Rows {
    type Item = Row;
    type Buffer = Buffer;

    fn n_samples(&self) -> u64 {
        N_SAMPLES
    }

    fn lengths(&self) -> Lengths {
        if self.streamed {
            return Lengths::Streamed { longest: 40 };
        }
        Lengths::Known(SampleIndex::try_new([(0..N_SAMPLES).map(length).collect::<Vec<_>>()]).unwrap())
    }

    fn read(&self, _epoch: u64, id: u64) -> Result<Row, SourceError> {
        if Some(id) == self.broken || self.broken == Some(ALL) {
            return Err(SourceError { sample_id: id, reason: "rows/7.txt: is gone".to_owned() });
        }
        // Reading takes longer or shorter, so that workers overtake each other.
        std::thread::sleep(std::time::Duration::from_micros(id * 13 % 50));
        Ok(Row { id, length: length(id) })
    }

    fn buffer_bytes(&self, largest: StepShape) -> Bytes {
        Bytes(u64::from(largest.samples) * u64::from(largest.edge) * 4 * WIDTH as u64)
    }

    fn buffer(&self, largest: StepShape) -> Buffer {
        let room = largest.samples as usize * largest.edge as usize * WIDTH;
        Buffer { values: Vec::with_capacity(room), samples: Vec::new() }
    }

    fn collate(&self, draw: &Draw, items: &[Row], buffer: &mut Buffer) -> Result<(), SourceError> {
        let room = buffer.values.capacity();
        buffer.values.clear();
        buffer.samples.clear();
        let mut items = items.iter();
        for part in &draw.parts {
            for (id, row) in part.ids.iter().zip(&mut items) {
                assert!(
                    *id == row.id && row.length <= part.edge,
                    "sample {} of length {} in {part:?}",
                    row.id,
                    row.length
                );
                let start = buffer.values.len();
                buffer.samples.push((start, part.edge as usize, row.length));
                let value = |at: u32| (row.id * 31 + u64::from(at)) as f32 % 17.0 / 17.0;
                let filled = row.length * u32::try_from(WIDTH).unwrap();
                buffer.values.extend((0..filled).map(value));
                buffer.values.resize(start + part.edge as usize * WIDTH, 0.0);
            }
        }
        assert_eq!(buffer.values.capacity(), room, "the buffer grew");
        Ok(())
    }
}

#[derive(Module, Debug)]
struct Net {
    first: Linear,
    second: Linear,
}

struct Tiny {
    rows: Arc<Rows>,
    unit: Unit,
}

fn tiny(streamed: bool, unit: Unit) -> Tiny {
    Tiny { rows: Arc::new(Rows { streamed, broken: None }), unit }
}

/// Rows of shape `[batch_size, edge, WIDTH]`, and weights that make a sum over positions the mean that is asked for.
type Batch = (Tensor<3>, Tensor<3>);

impl Job for Tiny {
    type Source = Rows;
    type Model = Net;
    type Batch = Batch;

    fn name(&self) -> &'static str {
        "tiny"
    }

    fn program(&self) -> String {
        "tiny".to_owned()
    }

    fn fingerprint(&self) -> String {
        "tiny".to_owned()
    }

    fn source(&self) -> Arc<Rows> {
        Arc::clone(&self.rows)
    }

    fn unit(&self) -> Unit {
        self.unit
    }

    fn init(&self, device: &Device) -> Net {
        Net { first: LinearConfig::new(WIDTH, 512).init(device), second: LinearConfig::new(512, 1).init(device) }
    }

    fn batch(&self, buffer: &Buffer, samples: Range<usize>, device: &Device) -> Batch {
        let of = &buffer.samples[samples];
        let (n, edge) = (of.len(), of[0].1);
        assert!(of.iter().all(|it| it.1 == edge), "samples of one micro-batch have one edge");
        let values = buffer.values[of[0].0..of[0].0 + n * edge * WIDTH].to_vec();
        let positions: u32 = of.iter().map(|it| it.2).sum();
        let weight = |length: u32| match self.unit {
            Unit::Samples => 1.0 / (n as f32 * length as f32),
            Unit::Positions => 1.0 / positions as f32,
        };
        let row = |length: u32| (0..edge).map(move |at| if at < length as usize { weight(length) } else { 0.0 });
        let weights: Vec<f32> = of.iter().flat_map(|it| row(it.2)).collect();
        let tensor = |values, shape: [usize; 3]| Tensor::from_data(TensorData::new(values, shape), device);
        (tensor(values, [n, edge, WIDTH]), tensor(weights, [n, edge, 1]))
    }

    fn blank_batch(&self, shape: StepShape, device: &Device) -> Batch {
        let (n, edge) = (shape.samples as usize, shape.edge as usize);
        (Tensor::zeros([n, edge, WIDTH], device), Tensor::zeros([n, edge, 1], device))
    }

    fn mean_loss(&self, net: &Net, (rows, weights): Batch, _task_weights: &[f32]) -> Loss {
        let target = rows.clone().mean_dim(2);
        let output = net.second.forward(relu(net.first.forward(rows)));
        ((output - target).powi_scalar(2) * weights).sum().into()
    }

    fn blank_forward(&self, net: &Net, shape: StepShape, device: &Device) -> Tensor<1> {
        self.mean_loss(net, self.blank_batch(shape, device), &[]).mean
    }

    fn validate(&self, _net: &Net, _device: &Device, _inference: &mut Inference<'_>) -> Result<Validation, StepError> {
        Ok(Metric { name: "nothing".to_owned(), value: 0.0, baseline: 0.0 }.into())
    }
}

fn config(n_steps: u64, unit: StepUnit, effective_batch_size: u32) -> FitConfig {
    let loader = LoaderConfig {
        unit,
        edges: EDGES.to_vec(),
        workers: 3,
        look_ahead: 32,
        ..LoaderConfig::cut(3, effective_batch_size, 40, Bytes::mib(16))
    };
    FitConfig {
        device: "flex".to_owned(),
        seed: 3,
        n_steps,
        learning_rate: LearningRate { peak: 1e-3, warm_up_steps: 2, final_share: 0.1, scaling: Scaling::Sqrt },
        target: Fraction::ONE,
        controller: ControllerConfig {
            predictor: PredictorConfig::default(),
            policy: PolicyConfig::Bucketed(BucketedConfig {
                edges: EDGES.to_vec(),
                batch_max: 16,
                ..BucketedConfig::default()
            }),
            checkpointing: false,
            platform: Platform::default(),
            planned: Vec::new(),
            small_batch: 0,
        },
        tasks: BalanceConfig::default(),
        loader,
        validate_every: 50,
        checkpoint_every: 4,
        keep_checkpoints: 2,
    }
}

struct Ran {
    outcome: Result<Outcome, TrainError>,
    events: Vec<Event>,
}

/// Runs the job; `stop_after` steps a signal arrives.
fn run(job: &Tiny, config: &FitConfig, room: Bytes, path: &Path, existing: Existing, stop_after: Option<u64>) -> Ran {
    let mut run_dir = RunDir::open(path, existing).unwrap();
    let stop = StopFlag::default();
    let in_use = open(DeviceKind::Flex, None).unwrap().read().unwrap().in_use;
    let probe = open(DeviceKind::Flex, Some(in_use.saturating_add(room))).unwrap();
    let signal = stop.clone();
    let mut observer = |event: &Event, _: &plimsoll_monitor::Progress| {
        if let Event::StepDone(done) = event
            && Some(done.step + 1) == stop_after
        {
            signal.set(2);
        }
    };
    let device = Device::flex().autodiff();
    let shell =
        Shell { run_dir: &mut run_dir, existing, device, probe, stop, observer: &mut observer, config_text: "" };
    let outcome = fit(job, config, shell);
    Ran { outcome, events: run_dir.events().unwrap() }
}

fn fresh(job: &Tiny, config: &FitConfig, room: Bytes) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    run(job, config, room, folder.path(), Existing::Refuse, None)
}

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

fn steps(events: &[Event]) -> Vec<&StepDone> {
    events.iter().filter_map(|event| if let Event::StepDone(done) = event { Some(done) } else { None }).collect()
}

/// The ids of each step, in the order in which they ran.
fn ids(events: &[Event]) -> Vec<(u64, Vec<u64>)> {
    let flat = |it: &&StepDone| (it.epoch, it.micro_batches.iter().flat_map(|it| it.ids.clone()).collect());
    steps(events).iter().map(flat).collect()
}

/// Every epoch that is complete holds every sample exactly once, and every sample fits its edge.
#[track_caller]
fn check_epochs(events: &[Event], n_epochs: usize) {
    let mut epochs: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (epoch, ids) in ids(events) {
        epochs.entry(epoch).or_default().extend(ids);
    }
    let last = epochs.keys().max().copied().unwrap();
    assert!(epochs.len() > n_epochs, "only {} epochs", epochs.len());
    for (epoch, mut ids) in epochs.into_iter().filter(|(epoch, _)| *epoch < last) {
        ids.sort_unstable();
        assert_eq!(ids, (0..N_SAMPLES).collect::<Vec<_>>(), "epoch {epoch}");
    }
    for batch in steps(events).iter().flat_map(|it| &it.micro_batches) {
        assert!(batch.ids.iter().all(|id| length(*id) <= batch.edge), "{batch:?}");
    }
}

/// Room for some of the batches that the policy may ask for, but not for all.
const TIGHT: Bytes = Bytes::kib(3800);

#[test]
fn batches_grow_with_what_is_certain_to_fit_and_every_sample_comes_once() {
    let _alone = alone();
    for streamed in [false, true] {
        let ran = fresh(&tiny(streamed, Unit::Samples), &config(60, StepUnit::Samples, 16), TIGHT);
        assert_eq!(ran.outcome.unwrap().reason, EndReason::Completed);
        check_epochs(&ran.events, 6);
        let steps = steps(&ran.events);
        let per_epoch: Vec<_> = steps.iter().take(7).map(|it| it.n_samples()).collect();
        assert_eq!(per_epoch, [16, 16, 16, 16, 16, 16, 4], "streamed: {streamed}");
        assert!(steps[0].micro_batches.iter().all(|it| it.ids.len() == 1));
        let mut resizes = ran.events.iter().rev().filter_map(|event| match event {
            Event::Decided(Decided { decision: Decision::Resize(resize), .. }) => Some(&resize.to),
            _ => None,
        });
        let sizes = resizes.next().unwrap();
        assert!(sizes[0] > sizes[3] && sizes[3] > 1, "{sizes:?}");
        let batches = || steps.iter().flat_map(|it| &it.micro_batches);
        assert!(batches().any(|it| it.edge == 40 && it.ids.len() > 1), "nothing grew");
        assert!(steps.iter().all(|it| it.peak <= it.capacity), "above capacity");
        assert!(steps.iter().skip(2).all(|it| it.upper.is_some_and(|upper| it.peak <= upper)), "above the bound");
        assert!(replay(&ran.events).unwrap().mismatches.is_empty());
    }
}

#[test]
fn steps_of_positions_take_as_many_on_average() {
    let _alone = alone();
    for streamed in [false, true] {
        let ran = fresh(&tiny(streamed, Unit::Positions), &config(60, StepUnit::Positions, 200), Bytes::mib(64));
        ran.outcome.unwrap();
        check_epochs(&ran.events, 3);
        let total: u32 = (0..N_SAMPLES).map(length).sum();
        let taken = |ids: &[u64]| ids.iter().map(|id| length(*id)).sum::<u32>();
        let mut sum = 0;
        for (at, (_, ids)) in ids(&ran.events).iter().take_while(|(epoch, _)| *epoch == 0).enumerate() {
            sum += taken(ids);
            let (least, most) = (200 * (u32::try_from(at).unwrap() + 1), 200 * (u32::try_from(at).unwrap() + 1) + 40);
            assert!((least..most).contains(&sum) || sum == total, "step {at}: {sum}");
        }
    }
}

#[test]
fn neither_the_memory_nor_the_workers_change_what_a_step_of_one_unit_computes() {
    let _alone = alone();
    let job = tiny(false, Unit::Samples);
    let kept = |batch_max, workers| {
        let mut config = config(5, StepUnit::Samples, 16);
        let start = Some(vec![batch_max; EDGES.len()]);
        let policy = BucketedConfig { edges: EDGES.to_vec(), batch_max, start, ..BucketedConfig::default() };
        config.controller.policy = PolicyConfig::Bucketed(policy);
        config.loader.workers = workers;
        fresh(&job, &config, Bytes::mib(64)).events
    };
    let (one, three) = (kept(16, 1), kept(16, 3));
    assert_eq!(ids(&one), ids(&three));
    let losses = |events: &[Event]| steps(events).iter().map(|it| it.loss).collect::<Vec<_>>();
    assert_eq!(losses(&one), losses(&three));
}

#[test]
fn a_batch_is_a_step_where_the_effective_batch_may_vary_and_the_rate_follows() {
    let _alone = alone();
    let ran = fresh(&tiny(false, Unit::Samples), &config(150, StepUnit::Batch, 16), Bytes::mib(64));
    ran.outcome.unwrap();
    check_epochs(&ran.events, 2);
    let steps = steps(&ran.events);
    assert!(steps.iter().all(|it| it.micro_batches.len() == 1));
    let rate = LearningRate { peak: 1e-3, warm_up_steps: 2, final_share: 0.1, scaling: Scaling::None };
    for done in steps {
        let expected = rate.at(done.step, 150) * (done.n_samples() as f64 / 16.0).sqrt();
        assert!((done.learning_rate - expected).abs() < 1e-12, "step {}", done.step);
    }
}

#[test]
fn an_interrupted_run_goes_on_with_the_same_steps_where_they_are_planned() {
    let _alone = alone();
    let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (job, config, room) = (tiny(false, Unit::Positions), config(20, StepUnit::Positions, 200), Bytes::mib(64));
    let undisturbed = run(&job, &config, room, whole.path(), Existing::Refuse, None);
    let first = run(&job, &config, room, parts.path(), Existing::Refuse, Some(7));
    assert_eq!(first.outcome.unwrap().reason, EndReason::Interrupted);
    let second = run(&job, &config, room, parts.path(), Existing::Resume, None);
    assert_eq!(second.outcome.unwrap().reason, EndReason::Completed);
    assert_eq!(ids(&undisturbed.events), ids(&second.events));
    assert!(replay(&second.events).unwrap().mismatches.is_empty());
}

#[test]
fn an_interrupted_stream_loses_no_sample_and_repeats_none() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let (job, config, room) = (tiny(true, Unit::Samples), config(40, StepUnit::Samples, 16), Bytes::mib(64));
    run(&job, &config, room, folder.path(), Existing::Refuse, Some(9)).outcome.unwrap();
    run(&job, &config, room, folder.path(), Existing::Resume, Some(17)).outcome.unwrap();
    let last = run(&job, &config, room, folder.path(), Existing::Resume, None);
    assert!(last.outcome.unwrap().stream.is_some_and(|it| it.samples > 0));
    check_epochs(&last.events, 4);
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

#[test]
fn the_number_of_workers_does_not_change_the_steps_of_a_policy_that_resizes() {
    let _alone = alone();
    let of = |workers| {
        let mut config = config(30, StepUnit::Samples, 16);
        config.loader.workers = workers;
        ids(&fresh(&tiny(false, Unit::Samples), &config, Bytes::gib(1)).events)
    };
    assert_eq!(of(1), of(4));
}

#[test]
fn steps_without_a_readable_sample_are_passed_over_unless_there_is_no_other() {
    let _alone = alone();
    for streamed in [false, true] {
        let mut config = config(300, StepUnit::Batch, 16);
        let start = Some(vec![1; EDGES.len()]);
        let policy = BucketedConfig { edges: EDGES.to_vec(), batch_max: 1, start, ..BucketedConfig::default() };
        config.controller.policy = PolicyConfig::Bucketed(policy);
        config.loader.bad_sample = BadSample::Skip;
        let broken = |broken| Tiny { rows: Arc::new(Rows { streamed, broken }), unit: Unit::Samples };
        let ran = fresh(&broken(Some(7)), &config, Bytes::mib(64));
        ran.outcome.unwrap();
        let skipped: Vec<_> = steps(&ran.events).iter().flat_map(|it| it.skipped.clone()).collect();
        assert!(skipped.len() >= 3 && skipped.iter().all(|id| *id == 7), "{skipped:?}");
        let samples = |event: &Event| if let Event::EpochDone(done) = event { Some(done.samples) } else { None };
        let epochs: Vec<_> = ran.events.iter().filter_map(samples).collect();
        assert!(epochs.iter().all(|n| *n <= N_SAMPLES), "{epochs:?}");
        let none = fresh(&broken(Some(ALL)), &config, Bytes::mib(64));
        let text = none.outcome.unwrap_err().to_string();
        assert!(text.contains("none of 100 samples in a row can be read"), "{text}");
    }
}

#[test]
fn a_sample_that_cannot_be_read_ends_the_run_or_is_left_out_and_counted() {
    let _alone = alone();
    for streamed in [false, true] {
        let job = Tiny { rows: Arc::new(Rows { streamed, broken: Some(7) }), unit: Unit::Samples };
        let mut config = config(14, StepUnit::Samples, 16);
        let failed = fresh(&job, &config, Bytes::mib(64));
        assert_eq!(failed.outcome.unwrap_err().to_string(), "read sample 7: rows/7.txt: is gone");
        config.loader.bad_sample = BadSample::Skip;
        let ran = fresh(&job, &config, Bytes::mib(64));
        ran.outcome.unwrap();
        let of_epoch: Vec<_> = steps(&ran.events).into_iter().filter(|it| it.epoch == 0).collect();
        assert_eq!(of_epoch.iter().flat_map(|it| it.skipped.clone()).collect::<Vec<_>>(), [7]);
        assert_eq!(of_epoch.iter().map(|it| it.n_samples()).sum::<u64>(), N_SAMPLES - 1);
    }
}
