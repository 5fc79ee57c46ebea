//! The job.

use std::ops::Range;
use std::sync::Arc;

use burn::module::{Module, ParamId};
use burn::tensor::{Device, Tensor, TensorData};
use plimsoll_train::{Goal, Inference, Item, Job, Loss, Metric, StepError, Validation, uploaded};
use plimsoll_types::{Extent, Features, StepShape};

use super::augment::Augmentation;
use super::baseline::Constant;
use super::batch::MixedTensors;
use super::fusion_config::FusionConfig;
use super::lines::Asks;
use super::loaded::LoadedSample;
use super::model::FusionModel;
use super::sample::Sample;
use super::samples::Samples;
use super::sizes::{Fit, Sizes};
use super::source::{SampleBuffer, SampleSource};

/// Size and data of the job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MultitaskConfig {
    /// The model.
    pub model: FusionConfig,
    /// The part of every target that all answers of its task share, right or wrong; 0.2 by default, because few images
    /// are soon known by heart, and what is held out then pays for the model's confidence. Validation has none.
    pub label_smoothing: f32,
    /// How images that are trained on differ from epoch to epoch.
    pub augmentation: Augmentation,
    /// Whether the gradient of each task at the last shared layer is measured, which `GradNorm` needs.
    pub measure_tasks: bool,
    /// Seed of what changes from epoch to epoch.
    pub seed: u64,
    /// Whether samples are streamed: how many images and words one has shows only when it is read.
    pub stream: bool,
}

impl MultitaskConfig {
    /// Trains a model of the default size.
    pub fn new(seed: u64) -> Self {
        let (model, augmentation) = (FusionConfig::default(), Augmentation::default());
        Self { model, label_smoothing: 0.2, augmentation, measure_tasks: true, seed, stream: false }
    }
}

/// Tasks on mixed samples.
#[derive(Debug)]
pub struct Multitask {
    config: MultitaskConfig,
    samples: Arc<Samples>,
    source: Arc<SampleSource>,
    tasks: Vec<String>,
}

impl Multitask {
    /// Trains on these samples.
    pub fn new(config: MultitaskConfig, samples: Arc<Samples>) -> Self {
        let MultitaskConfig { augmentation, seed, stream, .. } = config;
        let source = Arc::new(SampleSource::new(Arc::clone(&samples), (augmentation, seed), stream));
        let tasks = samples.tasks().iter().map(|task| task.name.clone()).collect();
        Self { config, samples, source, tasks }
    }

    /// Returns every way in which held-out samples are shown: those whose order is asked for both ways.
    fn shown<'a>(&self, held_out: &'a [Sample]) -> Vec<Shown<'a>> {
        let ways =
            |sample: &Sample| if self.samples.asks(sample) == Asks::Order { &[false, true][..] } else { &[false] };
        let shown =
            |sample: &'a Sample| ways(sample).iter().map(move |exchanged| Shown { sample, exchanged: *exchanged });
        held_out.iter().flat_map(shown).collect()
    }

    /// Measures all held-out samples, or a part of each task and number of images.
    fn measured(
        &self,
        model: &FusionModel,
        held_out: &[Sample],
        device: &Device,
        inference: &mut Inference<'_>,
    ) -> Result<Option<Validation>, StepError> {
        let all = self.shown(held_out);
        let shown = chosen(&all, inference);
        let scores = self.scores(&model.valid(), &shown, device, inference)?;
        let measured: Vec<&Sample> = match shown.len() {
            n if n == all.len() => held_out.iter().collect(),
            _ => shown.iter().map(|it| it.sample).collect(),
        };
        let of_task = |(task, name): (u16, &String)| self.of_task((task, name), &measured, &scores);
        let (tasks, others): (Vec<_>, Vec<_>) = (0..).zip(&self.tasks).map(of_task).unzip();
        // Of a part, and of what is tested on, a rare task may have none.
        let is_there = |task: u16| measured.iter().any(|it| it.task == task);
        let there = || (0..).zip(&tasks).filter(|(task, _)| is_there(*task));
        let value = there().map(|(_, it)| it.value / it.baseline).sum::<f64>() / there().count() as f64;
        let of_several = if tasks.len() == 1 { "" } else { ", mean of the tasks" };
        let name = format!("loss over baseline{of_several}");
        let metric = Metric { name, value, baseline: 1.0, goal: Goal::Lowest };
        Ok(Some(Validation { metric, tasks, others }))
    }

    /// Returns the loss of a task, and its accuracy.
    fn of_task(&self, (task, name): (u16, &String), measured: &[&Sample], scores: &[(u16, Score)]) -> (Metric, Metric) {
        let of_task = || scores.iter().filter(|(it, _)| *it == task).map(|(_, score)| score);
        let (n, constant) = (of_task().count() as f64, Constant::of(&self.samples, measured, task));
        let n_right = of_task().filter(|it| it.is_right).count() as f64;
        let loss = Metric {
            name: "cross-entropy (nats)".to_owned(),
            value: of_task().map(|it| it.nats).sum::<f64>() / n,
            baseline: constant.nats,
            goal: Goal::Lowest,
        };
        let accuracy = Metric {
            name: format!("accuracy of `{name}` (%)"),
            value: 100.0 * n_right / n,
            baseline: constant.accuracy,
            goal: Goal::Highest,
        };
        (loss, accuracy)
    }

    /// Returns the task of each of these samples, and how the model does in it.
    fn scores(
        &self,
        model: &FusionModel,
        shown: &[Shown<'_>],
        device: &Device,
        inference: &mut Inference<'_>,
    ) -> Result<Vec<(u16, Score)>, StepError> {
        let mut scores = Vec::with_capacity(shown.len());
        for group in shown.chunk_by(|a, b| a.sample.n_images() == b.sample.n_images()) {
            let mut of_group = vec![Score::default(); group.len()];
            let extents = group.iter().map(|it| self.samples.extent(it.sample));
            let extent = extents.reduce(Extent::joined).unwrap_or_else(|| unreachable!("a group has samples"));
            inference.run(group.len(), extent, &mut |range| {
                of_group[range.clone()].copy_from_slice(&self.forward(model, (&group[range], extent), device)?);
                Ok(())
            })?;
            scores.extend(group.iter().map(|it| it.sample.task).zip(of_group));
        }
        Ok(scores)
    }

    /// Returns how the model does in each of these samples, which all have as many images, padded to this.
    fn forward(
        &self,
        model: &FusionModel,
        (shown, extent): (&[Shown<'_>], Extent),
        device: &Device,
    ) -> Result<Vec<Score>, StepError> {
        let failed = |error: &dyn std::fmt::Display| StepError::Data(format!("read held-out samples: {error}"));
        let load = |it: &Shown<'_>| LoadedSample::held_out(&self.samples, it.sample, it.exchanged);
        let loaded: Result<Vec<_>, _> = shown.iter().map(load).collect();
        let loaded = loaded.map_err(|error| failed(&error))?;
        let shape = StepShape::of(u32::try_from(shown.len()).unwrap_or(u32::MAX), extent);
        let sizes = self.samples.sizes();
        let mut buffer = SampleBuffer::with_capacity(&sizes, shape);
        let filled = buffer.fill(&sizes, &loaded, shown.iter().map(|_| extent));
        filled.map_err(|(_, reason)| failed(&reason))?;
        let device = device.clone().inner();
        let batch = MixedTensors::of(&buffer, 0..shown.len(), &sizes, 0.0, &device);
        let known = model.log_probabilities(uploaded(batch, &device)).try_into_data().map_err(StepError::from)?;
        let known: Vec<f64> = known.iter().collect();
        let rows = known.chunks_exact(known.len() / shown.len());
        Ok(rows.zip(&loaded).map(|(row, it)| Score::of(&row[sizes.outputs_of(it.task())], it.label())).collect())
    }
}

/// Returns what the tensors of a step grow with where images keep their shapes: samples with the square of their words, and
/// with their images and the planes of each; and what there is once for a batch, with words and with one plane.
fn features_of_shaped() -> Features {
    let (of_batch, of_samples) = (
        [[0, 0, 0], [0, 1, 0], [0, 2, 0], [0, 0, 1], [0, 0, 2]],
        [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 2, 0], [1, 0, 1], [1, 0, 2]],
    );
    let with = |samples: u8| move |[images, words, side]: [u8; 3]| [samples, images, words, side];
    let all: Vec<_> = of_batch.map(with(0)).into_iter().chain(of_samples.map(with(1))).collect();
    let all: Vec<&[u8]> = all.iter().map(|it| &it[..]).collect();
    Features::try_new(&all).unwrap_or_else(|error| unreachable!("eleven that differ: {error}"))
}

/// Chooses which samples are measured, and puts those of as many images together.
fn chosen<'a>(all: &[Shown<'a>], inference: &mut Inference<'_>) -> Vec<Shown<'a>> {
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|it| (all[*it].sample.n_images(), all[*it].sample.task));
    let mut chosen: Vec<_> = inference.choose(all.len()).into_iter().map(|at| order[at]).collect();
    chosen.sort_unstable_by_key(|at| (all[*at].sample.n_images(), *at));
    chosen.into_iter().map(|at| all[at]).collect()
}

/// How a model does in a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Score {
    /// Cross-entropy.
    nats: f64,
    /// Whether no answer is more probable than the right one, and none before it as probable.
    is_right: bool,
}

impl Score {
    /// Looks at the logarithms of how probable each answer is.
    fn of(known: &[f64], answer: usize) -> Self {
        let best = (0..known.len()).rev().max_by(|a, b| known[*a].total_cmp(&known[*b]));
        Self { nats: -known[answer], is_right: best == Some(answer) }
    }
}

/// A held-out sample, as it is or with its groups exchanged.
#[derive(Clone, Copy)]
struct Shown<'a> {
    sample: &'a Sample,
    exchanged: bool,
}

impl Job for Multitask {
    type Source = SampleSource;
    type Model = FusionModel;
    type Batch = MixedTensors;

    fn name(&self) -> &'static str {
        "multitask"
    }

    fn program(&self) -> String {
        let FusionConfig { channels, features, has_places } = self.config.model;
        let Sizes { image: Fit { side, keeps_shape }, words, outputs } = self.samples.sizes();
        let outputs: Vec<_> = outputs.iter().map(ToString::to_string).collect();
        let (n_ids, probes) = (self.samples.n_words(), if self.config.measure_tasks { ", probed" } else { "" });
        let pooled = if has_places && !keeps_shape { "" } else { ", pooled," };
        let images = if keeps_shape { "images of sizes of their own up to" } else { "images of" };
        format!(
            "multitask of {channels} channels{pooled} and {features} features on {images} {side} px, {words} of {n_ids} \
             words and tasks of {} answers, cross-entropy{probes}",
            outputs.join(", ")
        )
    }

    fn fingerprint(&self) -> String {
        let samples = &self.samples;
        format!("{} on {} samples, checksum {:016x}", self.program(), samples.train.len(), samples.checksum())
    }

    fn source(&self) -> Arc<SampleSource> {
        Arc::clone(&self.source)
    }

    fn init(&self, device: &Device) -> FusionModel {
        self.config.model.init(&self.samples.sizes(), self.samples.n_words(), self.config.measure_tasks, device)
    }

    fn features(&self) -> Features {
        if self.samples.sizes().image.keeps_shape { features_of_shaped() } else { Features::complete(2) }
    }

    fn unit_of_length(&self) -> &'static str {
        self.samples.sizes().unit()
    }

    fn describe_validation(&self, extent: Extent) -> String {
        format!("a sample of {extent} {}, held out", self.unit_of_length())
    }

    fn tasks(&self) -> &[String] {
        &self.tasks
    }

    fn task_probes(&self, model: &FusionModel) -> Vec<ParamId> {
        model.probes()
    }

    fn batch(&self, buffer: &SampleBuffer, samples: Range<usize>, device: &Device) -> MixedTensors {
        MixedTensors::of(buffer, samples, &self.samples.sizes(), self.config.label_smoothing, device)
    }

    fn blank_batch(&self, shape: StepShape, device: &Device) -> MixedTensors {
        MixedTensors::blank(shape, &self.samples.sizes(), device)
    }

    fn mean_loss(&self, model: &FusionModel, batch: MixedTensors, task_weights: &[f32]) -> Loss {
        let (shares, n_tasks) = (batch.shares.clone(), batch.n_tasks);
        let device = shares.device();
        let of_tasks = (model.losses(batch) * shares).mean_dim(0);
        let weights = TensorData::new(task_weights.to_vec(), [1, task_weights.len()]);
        let mean = (of_tasks.clone() * Tensor::from_data(weights, &device)).sum() / n_tasks;
        Loss { mean, of_tasks: Some(of_tasks.squeeze_dim::<1>(0).inner()) }
    }

    fn blank_forward(&self, model: &FusionModel, shape: StepShape, device: &Device) -> Tensor<1> {
        model.log_probabilities(uploaded(self.blank_batch(shape, device), device)).flatten(0, 1)
    }

    fn validate(
        &self,
        model: &FusionModel,
        device: &Device,
        inference: &mut Inference<'_>,
    ) -> Result<Option<Validation>, StepError> {
        self.measured(model, &self.samples.validation, device, inference)
    }

    fn has_test(&self) -> bool {
        !self.samples.test.is_empty()
    }

    fn test(
        &self,
        model: &FusionModel,
        device: &Device,
        inference: &mut Inference<'_>,
    ) -> Result<Option<Validation>, StepError> {
        self.measured(model, &self.samples.test, device, inference)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_right_where_it_is_the_first_of_the_most_probable() {
        let score = |answer| Score::of(&[-2.0, -0.5, -0.5], answer);
        assert_eq!([0, 1, 2].map(|answer| score(answer).is_right), [false, true, false]);
        let off = [2.0, 0.5, 0.5].into_iter().zip(0..).map(|(nats, answer)| score(answer).nats - nats);
        assert!(off.into_iter().all(|it: f64| it.abs() < 1e-12));
    }
}
