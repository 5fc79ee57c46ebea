//! The job.

use std::ops::Range;
use std::sync::Arc;

use burn::module::{Module, ParamId};
use burn::tensor::{Device, Tensor, TensorData};
use plimsoll_train::{Goal, Inference, Job, Loss, Metric, StepError, Validation, uploaded};
use plimsoll_types::StepShape;

use super::augment::Augmentation;
use super::baseline::baseline;
use super::batch::{MixedTensors, Sizes};
use super::lines::Task;
use super::model::{FusionConfig, FusionModel};
use super::samples::{Sample, Samples};
use super::source::{LoadedSample, SampleBuffer, SampleSource};

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
}

impl MultitaskConfig {
    /// Trains a model of the default size.
    pub fn new(seed: u64) -> Self {
        let (model, augmentation) = (FusionConfig::default(), Augmentation::default());
        Self { model, label_smoothing: 0.2, augmentation, measure_tasks: true, seed }
    }
}

/// Up to three tasks on mixed samples.
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
        let source = Arc::new(SampleSource::new(Arc::clone(&samples), config.augmentation, config.seed));
        let tasks = samples.tasks().iter().map(|task| task.to_string()).collect();
        Self { config, samples, source, tasks }
    }

    /// Chooses which held-out samples are measured: all, or a part of each task and number of images.
    fn chosen(&self, inference: &mut Inference<'_>) -> Vec<Shown<'_>> {
        let mut shown: Vec<_> = self.samples.held_out.iter().flat_map(Shown::all).collect();
        shown.sort_by_key(|it| it.sample.n_images());
        let mut order: Vec<usize> = (0..shown.len()).collect();
        order.sort_by_key(|it| (shown[*it].sample.n_images(), shown[*it].sample.task));
        let mut chosen: Vec<_> = inference.choose(shown.len()).into_iter().map(|at| order[at]).collect();
        chosen.sort_unstable();
        let mut shown: Vec<_> = shown.into_iter().map(Some).collect();
        chosen.into_iter().filter_map(|at| shown[at].take()).collect()
    }

    /// Returns the loss of each of these samples in its task.
    fn held_out_losses(
        &self,
        model: &FusionModel,
        shown: &[Shown<'_>],
        device: &Device,
        inference: &mut Inference<'_>,
    ) -> Result<Vec<(Task, f64)>, StepError> {
        let mut losses = Vec::with_capacity(shown.len());
        for group in shown.chunk_by(|a, b| a.sample.n_images() == b.sample.n_images()) {
            let mut of_group = vec![0.0; group.len()];
            inference.run(group.len(), group[0].sample.n_images(), &mut |range| {
                of_group[range.clone()].copy_from_slice(&self.forward(model, &group[range], device)?);
                Ok(())
            })?;
            losses.extend(group.iter().map(|it| it.sample.task).zip(of_group));
        }
        Ok(losses)
    }

    /// Returns the loss of each of these samples, which all have as many images.
    fn forward(&self, model: &FusionModel, shown: &[Shown<'_>], device: &Device) -> Result<Vec<f64>, StepError> {
        let failed = |error: &dyn std::fmt::Display| StepError::Data(format!("read held-out samples: {error}"));
        let load = |it: &Shown<'_>| LoadedSample::held_out(&self.samples, it.sample, it.exchanged);
        let loaded: Result<Vec<_>, _> = shown.iter().map(load).collect();
        let loaded = loaded.map_err(|error| failed(&error))?;
        let edge = shown[0].sample.n_images();
        let shape = StepShape::new(u32::try_from(shown.len()).unwrap_or(u32::MAX), edge);
        let sizes = self.samples.sizes();
        let mut buffer = SampleBuffer::with_capacity(sizes, shape);
        let filled = buffer.fill(sizes, &loaded, shown.iter().map(|_| edge));
        filled.map_err(|(_, reason)| failed(&reason))?;
        let device = device.clone().inner();
        let batch = MixedTensors::of(&buffer, 0..shown.len(), sizes, 0.0, &device);
        let losses = model.losses(uploaded(batch, &device)).sum_dim(1).try_into_data();
        Ok(losses.map_err(StepError::from)?.iter().collect())
    }
}

/// A held-out sample, as it is or with its groups exchanged.
struct Shown<'a> {
    sample: &'a Sample,
    exchanged: bool,
}

impl<'a> Shown<'a> {
    /// A pair is shown both ways.
    fn all(sample: &'a Sample) -> Vec<Self> {
        let ways: &[bool] = if sample.task == Task::Pair { &[false, true] } else { &[false] };
        ways.iter().map(|exchanged| Self { sample, exchanged: *exchanged }).collect()
    }
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
        let Sizes { image, words, subjects, tasks } = self.samples.sizes();
        let of =
            if tasks.len() < Task::ALL.len() { format!(", {} alone", self.tasks.join(" and ")) } else { String::new() };
        let (n_ids, probes) = (self.samples.n_words(), if self.config.measure_tasks { ", probed" } else { "" });
        let pooled = if has_places { "" } else { ", pooled," };
        format!(
            "multitask of {channels} channels{pooled} and {features} features on images of {image} px, {words} of {n_ids} \
             words and {subjects} subjects, cross-entropy{probes}{of}"
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
        self.config.model.init(self.samples.sizes(), self.samples.n_words(), self.config.measure_tasks, device)
    }

    fn unit_of_length(&self) -> &'static str {
        "images"
    }

    fn tasks(&self) -> &[String] {
        &self.tasks
    }

    fn task_probes(&self, model: &FusionModel) -> Vec<ParamId> {
        model.probes()
    }

    fn batch(&self, buffer: &SampleBuffer, samples: Range<usize>, device: &Device) -> MixedTensors {
        MixedTensors::of(buffer, samples, self.samples.sizes(), self.config.label_smoothing, device)
    }

    fn blank_batch(&self, shape: StepShape, device: &Device) -> MixedTensors {
        MixedTensors::blank(shape, self.samples.sizes(), device)
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
        model.losses(uploaded(self.blank_batch(shape, device), device)).sum_dim(1).squeeze_dim(1)
    }

    fn validate(
        &self,
        model: &FusionModel,
        device: &Device,
        inference: &mut Inference<'_>,
    ) -> Result<Option<Validation>, StepError> {
        let shown = self.chosen(inference);
        let losses = self.held_out_losses(&model.valid(), &shown, device, inference)?;
        let n_all = self.samples.held_out.iter().flat_map(Shown::all).count();
        let measured: Vec<&Sample> = match shown.len() {
            n if n == n_all => self.samples.held_out.iter().collect(),
            _ => shown.iter().map(|it| it.sample).collect(),
        };
        let metric = |task: Task| {
            let of_task = losses.iter().filter(|(it, _)| *it == task).map(|(_, loss)| loss);
            let value = of_task.clone().sum::<f64>() / of_task.count() as f64;
            let (name, baseline) = ("cross-entropy (nats)".to_owned(), baseline(&self.samples, &measured, task));
            Metric { name, value, baseline, goal: Goal::Lowest }
        };
        let tasks: Vec<_> = self.samples.tasks().iter().map(metric).collect();
        // Of a part, a rare task may have none.
        let ratios = || tasks.iter().map(|it| it.value / it.baseline).filter(|it| shown.len() == n_all || !it.is_nan());
        let value = ratios().sum::<f64>() / ratios().count() as f64;
        let of_several = if tasks.len() == 1 { "" } else { ", mean of the tasks" };
        let name = format!("loss over baseline{of_several}");
        let metric = Metric { name, value, baseline: 1.0, goal: Goal::Lowest };
        Ok(Some(Validation { metric, tasks }))
    }
}
