//! A job with a wide layer: its gradients take as much as its activations, so that a part is another when it finds some.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use plimsoll_policy::{FixedConfig, PolicyConfig};
use plimsoll_predict::{Keys, PartReading, PredictorConfig};
use plimsoll_probe::{DeviceKind, open};
use plimsoll_sampler::SampleIndex;
use plimsoll_train::{
    Controller, ControllerConfig, Draw, Existing, FitConfig, Goal, Inference, Item, Job, Lengths, LoaderConfig, Loss,
    Metric, Source, SourceError, StepError, Trials, Validation, beside_tensors, small_batch_regime,
};
use plimsoll_types::{Bytes, Event, Extent, Features, Knobs, MicroBatch, Observation, StepDone, StepShape};

use crate::common::{alone, run, steps};
use crate::tiny;

/// Inputs and outputs of the layer.
const WIDTH: usize = 512;

/// Rows of a sample: with them, the outputs of 8 samples take what the gradients of the layer take.
const LONG: u32 = 64;

const N_SAMPLES: u32 = 57;

/// One in six samples is a row longer, so that it has an edge of its own.
const RARE: u32 = 6;

struct Rows;

struct Row {
    length: u32,
}

impl Item for Row {
    fn extent(&self) -> Extent {
        self.length.into()
    }
}

fn length(id: u64) -> u32 {
    LONG + u32::from(id.is_multiple_of(RARE.into()))
}

impl Source for Rows {
    type Item = Row;
    type Buffer = ();

    fn n_samples(&self) -> u64 {
        N_SAMPLES.into()
    }

    fn lengths(&self) -> Lengths {
        Lengths::Known(SampleIndex::try_new([(0..N_SAMPLES.into()).map(length).collect::<Vec<_>>()]).unwrap().into())
    }

    fn buffer_bytes(&self, _largest: StepShape) -> Bytes {
        Bytes::ZERO
    }

    fn buffer(&self, _largest: StepShape) {}

    fn read(&self, _epoch: u64, id: u64) -> Result<Row, SourceError> {
        Ok(Row { length: length(id) })
    }

    fn collate(&self, _draw: &Draw, _items: &[Row], _buffer: &mut ()) -> Result<(), SourceError> {
        Ok(())
    }
}

#[derive(Module, Debug)]
struct Net {
    layer: Linear,
}

struct Wide {
    features: Features,
}

impl Wide {
    const fn new() -> Self {
        Self { features: Features::complete(1) }
    }
}

impl Job for Wide {
    type Source = Rows;
    type Model = Net;
    type Batch = Tensor<2>;

    fn name(&self) -> &'static str {
        "wide"
    }

    fn program(&self) -> String {
        "wide".to_owned()
    }

    fn fingerprint(&self) -> String {
        "wide".to_owned()
    }

    fn features(&self) -> Features {
        self.features
    }

    fn source(&self) -> Arc<Rows> {
        Arc::new(Rows)
    }

    fn init(&self, device: &Device) -> Net {
        Net { layer: LinearConfig::new(WIDTH, WIDTH).init(device) }
    }

    fn batch(&self, _buffer: &(), samples: Range<usize>, device: &Device) -> Tensor<2> {
        // What the rows hold is nothing to memory, and one more of each sample would be little.
        Tensor::ones([samples.len() * LONG as usize, WIDTH], device)
    }

    fn blank_batch(&self, shape: StepShape, device: &Device) -> Tensor<2> {
        Tensor::zeros([(shape.samples * shape.edge()) as usize, WIDTH], device)
    }

    fn mean_loss(&self, net: &Net, rows: Tensor<2>, _task_weights: &[f32]) -> Loss {
        net.layer.forward(rows).powi_scalar(2).mean().into()
    }

    fn blank_forward(&self, net: &Net, shape: StepShape, device: &Device) -> Tensor<1> {
        self.mean_loss(net, self.blank_batch(shape, device), &[]).mean
    }

    fn validate(&self, _: &Net, _: &Device, _: &mut Inference<'_>) -> Result<Option<Validation>, StepError> {
        Ok(Metric { name: "none".to_owned(), value: 0.0, baseline: 0.0, goal: Goal::Highest }.into())
    }
}

fn config(n_steps: u64) -> FitConfig {
    let knobs = Knobs { patch_size: LONG + 1, micro_batch_size: 3 };
    let policy = PolicyConfig::Fixed(FixedConfig { batch_sizes: vec![8, 3], ..FixedConfig::of(knobs) });
    let tiny = tiny::config(n_steps, policy);
    let predictor = PredictorConfig { beside: beside_tensors(DeviceKind::Flex), ..tiny.controller.predictor };
    let small_batch = small_batch_regime(DeviceKind::Flex);
    let loader =
        LoaderConfig { cells: vec![LONG, LONG + 1].into(), ..LoaderConfig::cut(3, 19, LONG + 1, Bytes::mib(4)) };
    FitConfig { controller: ControllerConfig { predictor, small_batch, ..tiny.controller }, loader, ..tiny }
}

/// A part with its bound, where there was one before it.
fn bounded(controller: &Controller, parts: &[PartReading]) -> Vec<(PartReading, Option<Bytes>)> {
    parts.iter().map(|it| (*it, controller.predict(it.shape, it.before).map(|it| it.upper))).collect()
}

/// No part is above its bound, and once `learnt` none has one that is more than a twentieth above what it takes.
#[track_caller]
fn check_parts(parts: &[(PartReading, Option<Bytes>)], learnt: bool) {
    for (PartReading { shape, before, peak, .. }, upper) in parts {
        let peak = peak.bytes();
        let upper = upper.or((!learnt).then_some(Bytes::MAX)).unwrap();
        assert!(peak <= upper, "{shape} on top of {before} reached {peak}, at most {upper} was said");
        let (need, slack) = (peak.saturating_sub(*before), upper.saturating_sub(peak));
        assert!(!learnt || slack.0 <= need.0 / 20, "{shape} took {need}, and {slack} more were allowed for");
    }
}

#[test]
fn gradients_as_large_as_activations_are_in_the_bound_of_each_part_in_either_order() {
    let _alone = alone();
    for sizes in [[8, 8, 3], [3, 8, 8]] {
        let (job, device) = (Wide::new(), Device::flex().autodiff());
        let mut trials = Trials::try_new(&job, device, Keys::default(), open(DeviceKind::Flex, None).unwrap()).unwrap();
        let mut controller = Controller::try_new(config(0).controller).unwrap();
        for step in 0..6 {
            let ran = trials.blank_parts(&sizes.map(|n| StepShape::new(n, LONG))).unwrap();
            let sum = ran.parts[1].before.saturating_sub(ran.parts[0].before);
            assert!(Bytes::mib(1) <= sum, "only {sum} are accumulated, so nothing is tested");
            check_parts(&bounded(&controller, &ran.parts), 2 < step);
            let told = controller.learn(&Event::StepDone(done(step, &ran.trial, &ran.parts))).unwrap();
            assert_eq!(told, [], "{sizes:?}");
        }
    }
}

fn done(step: u64, trial: &plimsoll_plan::Trial, parts: &[PartReading]) -> StepDone {
    let part = |it: &PartReading| MicroBatch {
        resident: Some(it.before),
        peak: Some(it.peak.bytes()),
        nodes: it.nodes,
        ..MicroBatch::new((0..it.shape.samples.into()).collect(), it.shape.edge())
    };
    StepDone {
        step,
        epoch: 0,
        rung: Knobs { patch_size: LONG, micro_batch_size: 8 },
        micro_batches: parts.iter().map(part).collect(),
        real_positions: None,
        predicted: None,
        upper: None,
        resident: trial.resident,
        in_use: trial.in_use,
        reserved: trial.reserved,
        peak: trial.peak,
        page: Bytes::ZERO,
        packed: Bytes::ZERO,
        capacity: Bytes::gib(1),
        budget: Bytes::gib(1),
        skipped: Vec::new(),
        tasks: Vec::new(),
        loss: 1.0,
        gradient_norm: 1.0,
        learning_rate: 0.0,
        seconds: 1.0,
        waited_seconds: None,
        supply: None,
        committed: true,
    }
}

#[test]
fn a_run_of_large_and_small_parts_keeps_every_peak_below_its_bound() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let ran = run(&Wide::new(), &config(60), Bytes::gib(1), folder.path(), Existing::Refuse, None);
    ran.outcome.unwrap();
    // The optimizer's step lies in the window of the last part, and is as much as all of a small one.
    let is_few = |it: &MicroBatch| it.shape() == StepShape::new(3, LONG + 1);
    let ends_small = |it: &&StepDone| it.micro_batches.len() > 2 && it.micro_batches.last().is_some_and(is_few);
    let n = steps(&ran.events).into_iter().filter(ends_small).count();
    assert!(5 < n, "only {n} steps end with a small part, so nothing is tested");
    let mut controller = Controller::try_new(config(0).controller).unwrap();
    for event in &ran.events {
        assert!(!matches!(event, Event::BoundExceeded(_)), "{event:?}");
        if let Event::StepDone(done) = event
            && 0 < done.step
        {
            check_parts(&bounded(&controller, &parts(done)), false);
        }
        controller.learn(event).unwrap();
    }
}

fn parts(done: &StepDone) -> Vec<PartReading> {
    let part = |it: &MicroBatch| {
        let read = Observation { shape: it.shape(), resident: it.resident?, peak: it.peak? };
        Some(PartReading::of(read, true, Bytes::ZERO).with_nodes(it.nodes))
    };
    done.micro_batches.iter().filter_map(part).collect()
}

#[test]
fn a_job_of_other_axes_than_its_samples_are_padded_along_is_refused_before_its_first_step() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let job = Wide { features: Features::complete(2) };
    let ran = run(&job, &config(3), Bytes::gib(1), folder.path(), Existing::Refuse, None);
    let text = ran.outcome.unwrap_err().to_string();
    assert_eq!(
        text,
        "train `wide`: its features are over 2 axes, and samples are cut or padded along 1; name features of as many"
    );
    assert!(ran.events.is_empty() && is_empty(folder.path()), "something was left behind");
}

fn is_empty(folder: &Path) -> bool {
    !folder.join("checkpoints").exists() && !folder.join("config.toml").exists()
}
