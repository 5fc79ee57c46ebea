//! The job.

use std::ops::Range;
use std::sync::Arc;

use burn::module::Module;
use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, Tensor, TensorData};
use plimsoll_train::{Goal, Inference, Job, Loss, Metric, StepError, Validation, sent, uploaded};
use plimsoll_types::{Extent, StepShape};

use super::frames::{FrameBuffer, Placed};
use super::model::{Encoder, EncoderConfig};
use super::recording::{Recording, by_length};
use super::recordings::Recordings;
use super::source::RecordingStream;

/// Size and data of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceConfig {
    /// The model.
    pub model: EncoderConfig,
    /// Whether lengths show only when a recording is read; otherwise those of the first look at the files are relied on.
    pub stream: bool,
}

impl Default for SequenceConfig {
    fn default() -> Self {
        Self { model: EncoderConfig::default(), stream: true }
    }
}

/// Classification of sequences.
pub struct SequenceJob {
    config: SequenceConfig,
    recordings: Arc<Recordings>,
    stream: Arc<RecordingStream>,
}

impl SequenceJob {
    /// Trains on these recordings.
    pub fn new(config: SequenceConfig, recordings: Arc<Recordings>) -> Self {
        let stream = Arc::new(RecordingStream::new(Arc::clone(&recordings), config.stream));
        Self { config, recordings, stream }
    }

    /// Returns the accuracy over recordings that are held out.
    fn accuracy(
        &self,
        model: &Encoder,
        held_out: &[Recording],
        device: &Device,
        inference: &mut Inference<'_>,
    ) -> Result<Option<Validation>, StepError> {
        let model = model.valid();
        let (mut n_right, mut n, mut unfit) = (0, 0, None);
        let mut chosen = inference.choose(held_out.len()).into_iter().peekable();
        let (mut begins, mut measured_of) = (0, Vec::new());
        for (mut edge, whole) in by_length(held_out) {
            let ends = begins + whole.len();
            let picks = std::iter::from_fn(|| chosen.next_if(|it| *it < ends));
            let picked: Vec<Recording> = picks.map(|it| whole[it - begins].clone()).collect();
            let mut group = &picked[..];
            begins = ends;
            measured_of.extend(group.iter().map(|it| it.class));
            while !group.is_empty() {
                match self.measured(&model, edge, group, device, inference) {
                    // Those that are as long are left out, and the others are padded to less.
                    Err(error @ StepError::NeverFits { .. }) if self.recordings.may_skip() => {
                        unfit = Some(error);
                        group = &group[..group.partition_point(|it| it.n_frames < edge)];
                        edge = group.last().map_or(1, |it| it.n_frames);
                    }
                    measured => {
                        let (right, read) = measured?;
                        (n_right, n) = (n_right + right, n + read);
                        break;
                    }
                }
            }
        }
        if n == 0 {
            let none = "read recordings that are held out: none can be read any more";
            return Err(unfit.unwrap_or_else(|| StepError::Data(none.to_owned())));
        }
        let (value, baseline) = (100.0 * n_right as f64 / n as f64, 100.0 * self.recordings.majority_of(&measured_of));
        let name = match &self.recordings.group_column {
            Some(column) => format!("accuracy, new `{column}` (%)"),
            None => "accuracy (%)".to_owned(),
        };
        Ok(Metric { name, value, baseline, goal: Goal::Highest }.into())
    }

    /// Returns about how many of these recordings, padded to the edge, the model is right, and how many can be read.
    fn measured(
        &self,
        model: &Encoder,
        edge: u32,
        group: &[Recording],
        device: &Device,
        inference: &mut Inference<'_>,
    ) -> Result<(usize, usize), StepError> {
        let mut is_right = vec![None; group.len()];
        inference.run(group.len(), edge, &mut |range: Range<usize>| {
            is_right[range.clone()].copy_from_slice(&self.tried(model, edge, &group[range], device)?);
            Ok(())
        })?;
        let read = || is_right.iter().flatten();
        Ok((read().filter(|it| **it).count(), read().count()))
    }

    /// Returns whether the model is right about each of these recordings, padded to the edge; `None` for those that are
    /// left out because they cannot be read.
    fn tried(
        &self,
        model: &Encoder,
        edge: u32,
        recordings: &[Recording],
        device: &Device,
    ) -> Result<Vec<Option<bool>>, StepError> {
        let (mut buffer, mut is_read) = (FrameBuffer::default(), Vec::with_capacity(recordings.len()));
        for recording in recordings {
            let failed = |fault| StepError::Data(format!("read {}: {fault}", recording.name));
            let frames = self.recordings.held_out(recording, edge).map_err(failed)?;
            is_read.push(frames.is_some());
            frames.map_or(Ok(()), |frames| buffer.push(&frames, edge)).map_err(failed)?;
        }
        let n_read = is_read.iter().filter(|it| **it).count();
        if n_read == 0 {
            return Ok(vec![None; recordings.len()]);
        }
        let device = device.clone().inner();
        let batch = uploaded(self.batch(&buffer, 0..n_read, &device), &device);
        let scores = model.forward(batch.frames, batch.mask).try_into_data();
        let scores = scores.map_err(StepError::from)?;
        let scores: Vec<_> = scores.iter::<f32>().collect();
        let mut best = scores.chunks_exact(self.recordings.classes.len()).map(highest);
        let is_right =
            |(recording, is_read): (&Recording, bool)| is_read.then(|| best.next() == Some(Some(recording.class)));
        Ok(recordings.iter().zip(is_read).map(is_right).collect())
    }
}

/// Copies padded recordings to a device, and the mask that tells frames from padding.
///
/// # Shapes
///
/// - output: `[batch_size, edge, n_values]` and `[batch_size, edge, 1]`
pub(super) fn padded(samples: &[Placed], values: &[f32], n_values: usize, device: &Device) -> (Tensor<3>, Tensor<3>) {
    let (n, edge) = (samples.len(), values.len() / (samples.len() * n_values));
    let ones = |n: usize, of: usize| (0..of).map(move |at| f32::from(u8::from(at < n)));
    let mask: Vec<f32> = samples.iter().flat_map(|it| ones(it.n_frames, edge)).collect();
    let frames = sent(TensorData::new(values.to_vec(), [n, edge, n_values]), device);
    (frames, sent(TensorData::new(mask, [n, edge, 1]), device))
}

/// Returns the first of the highest scores.
fn highest(scores: &[f32]) -> Option<usize> {
    (0..scores.len()).rev().max_by(|a, b| scores[*a].total_cmp(&scores[*b]))
}

/// Padded sequences and their classes.
///
/// # Shapes
///
/// - `frames`: `[batch_size, edge, n_values]`
/// - `mask`: `[batch_size, edge, 1]`, 1 where there is a frame and 0 where there is padding
/// - `classes`: `[batch_size, n_classes]`, 1 at the class and 0 elsewhere
#[derive(Debug)]
pub struct LabelledFrames {
    frames: Tensor<3>,
    mask: Tensor<3>,
    classes: Tensor<2>,
}

impl Job for SequenceJob {
    type Source = RecordingStream;
    type Model = Encoder;
    type Batch = LabelledFrames;

    fn name(&self) -> &'static str {
        "sequence"
    }

    fn program(&self) -> String {
        let EncoderConfig { heads, head_width, blocks } = self.config.model;
        let (n_values, n_classes) = (self.recordings.n_values(), self.recordings.classes.len());
        format!("sequence of {n_values} values to {n_classes} classes with {blocks} blocks of {heads} × {head_width}")
    }

    fn fingerprint(&self) -> String {
        let recordings = &self.recordings;
        format!("{} on {} recordings, checksum {:016x}", self.program(), recordings.train.len(), recordings.checksum())
    }

    fn source(&self) -> Arc<RecordingStream> {
        Arc::clone(&self.stream)
    }

    fn init(&self, device: &Device) -> Encoder {
        self.config.model.init(self.recordings.n_values(), self.recordings.classes.len(), device)
    }

    fn unit_of_length(&self) -> &'static str {
        "frames"
    }

    fn batch(&self, buffer: &FrameBuffer, samples: Range<usize>, device: &Device) -> LabelledFrames {
        let (samples, values) = buffer.range(samples);
        let (n_values, n_classes) = (self.recordings.n_values(), self.recordings.classes.len());
        let (frames, mask) = padded(samples, values, n_values, device);
        let one_hot = |class| (0..n_classes).map(move |at| f32::from(u8::from(at == class)));
        let classes: Vec<f32> = samples.iter().flat_map(|it| one_hot(it.class)).collect();
        let classes = sent(TensorData::new(classes, [samples.len(), n_classes]), device);
        LabelledFrames { frames, mask, classes }
    }

    fn blank_batch(&self, shape: StepShape, device: &Device) -> LabelledFrames {
        let (samples, edge) = (shape.samples as usize, shape.edge() as usize);
        LabelledFrames {
            frames: Tensor::zeros([samples, edge, self.recordings.n_values()], device),
            mask: Tensor::ones([samples, edge, 1], device),
            classes: Tensor::zeros([samples, self.recordings.classes.len()], device),
        }
    }

    /// The cross entropy.
    fn mean_loss(&self, model: &Encoder, batch: LabelledFrames, _task_weights: &[f32]) -> Loss {
        let n_samples = batch.classes.dims()[0];
        let scores = model.forward(batch.frames, batch.mask);
        ((log_softmax(scores, 1) * batch.classes).sum() / -(n_samples as f64)).into()
    }

    fn blank_forward(&self, model: &Encoder, shape: StepShape, device: &Device) -> Tensor<1> {
        let LabelledFrames { frames, mask, .. } = uploaded(self.blank_batch(shape, device), device);
        model.forward(frames, mask).flatten(0, 1)
    }

    fn describe_validation(&self, extent: Extent) -> String {
        let fits = self.recordings.all_held_out().filter(|it| it.n_frames <= extent.edge());
        let longest = fits.max_by_key(|it| it.n_frames);
        let name = longest.map_or_else(String::new, ToString::to_string);
        format!("{name}, held out, which a lower `data.longest` cuts or skips, as `data.outside` says")
    }

    fn validate(
        &self,
        model: &Encoder,
        device: &Device,
        inference: &mut Inference<'_>,
    ) -> Result<Option<Validation>, StepError> {
        self.accuracy(model, &self.recordings.validation, device, inference)
    }

    fn has_test(&self) -> bool {
        !self.recordings.test.is_empty()
    }

    fn test(
        &self,
        model: &Encoder,
        device: &Device,
        inference: &mut Inference<'_>,
    ) -> Result<Option<Validation>, StepError> {
        self.accuracy(model, &self.recordings.test, device, inference)
    }
}
