//! A trained model that answers questions.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use plimsoll_train::{BlankForward, Checkpoint, CheckpointError};
use plimsoll_types::{Extent, StepShape};

use super::album::{Decoded, decoded};
use super::batch::MixedTensors;
use super::job::MultitaskConfig;
use super::loaded::LoadedSample;
use super::model::FusionModel;
use super::question::Question;
use super::signature::Signature;
use super::sizes::{Padded, narrow};
use super::source::SampleBuffer;
use crate::image_file::ImageFile;

/// A model from a checkpoint, on a device.
#[derive(Debug)]
pub struct Recognizer {
    model: FusionModel,
    signature: Signature,
    device: Device,
}

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecognizeError {
    /// An image cannot be used any more.
    #[error("read the images of {question}: {reason}")]
    Image {
        /// The question.
        question: String,
        /// What is wrong.
        reason: String,
    },
    /// The device failed.
    #[error("answer {questions} questions: {reason}")]
    Device {
        /// Questions of the batch.
        questions: usize,
        /// What the device said.
        reason: String,
    },
}

impl Recognizer {
    /// Loads the model of a checkpoint.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::Record`] when it is one of another size.
    pub fn open(
        config: MultitaskConfig,
        signature: Signature,
        checkpoint: &Checkpoint,
        device: Device,
    ) -> Result<Self, CheckpointError> {
        let model = config.model.init(&signature.sizes(), signature.n_words(), config.measure_tasks, &device);
        let model = checkpoint.load_model(model)?;
        Ok(Self { model: model.valid(), signature, device: device.inner() })
    }

    /// Returns what the model takes and gives.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Returns how probable each answer of its task is for each of these questions.
    ///
    /// # Errors
    ///
    /// [`RecognizeError`] names the question.
    ///
    /// # Shapes
    ///
    /// - output: `[n_questions, n_answers]`, where tasks have answers of their own
    pub fn probabilities(&self, questions: &[&Question]) -> Result<Vec<Vec<f32>>, RecognizeError> {
        let loaded = questions.iter().map(|it| self.loaded(it)).collect::<Result<Vec<_>, _>>()?;
        let n = u32::try_from(questions.len()).unwrap_or(u32::MAX);
        let extents = questions.iter().map(|it| it.extent(&self.signature));
        let extent = extents.reduce(Extent::joined).unwrap_or(Extent::new(1));
        let shape = StepShape::of(n, extent);
        let fault = |reason| RecognizeError::Device { questions: questions.len(), reason };
        let values = self.forward(loaded, shape).map_err(fault)?.try_into_data();
        let values: Vec<f32> = values.map_err(|error| fault(error.to_string()))?.iter().collect();
        let rows = values.chunks_exact(values.len() / questions.len().max(1));
        let sizes = self.signature.sizes();
        Ok(questions.iter().zip(rows).map(|(it, row)| row[sizes.outputs_of(it.task)].to_vec()).collect())
    }

    fn loaded(&self, question: &Question) -> Result<LoadedSample, RecognizeError> {
        let sizes = self.signature.sizes();
        let read = |file: &ImageFile| {
            let failed = |reason| RecognizeError::Image { question: question.name.clone(), reason };
            decoded(file, sizes.image).map_err(|fault| failed(fault.to_string()))
        };
        let groups = question.groups.iter().map(|group| group.iter().map(read).collect());
        let groups: Vec<Vec<_>> = groups.collect::<Result<_, _>>()?;
        Ok(LoadedSample::asked(question.task, sizes.image, &groups, question.tokens.clone()))
    }

    /// Returns the probabilities of all answers of all tasks; what is on the host goes before the model runs.
    fn forward(&self, loaded: Vec<LoadedSample>, shape: StepShape) -> Result<Tensor<1>, String> {
        let (sizes, n) = (self.signature.sizes(), loaded.len());
        let mut buffer = SampleBuffer::with_capacity(&sizes, shape);
        buffer.fill(&sizes, &loaded, loaded.iter().map(|_| shape.extent())).map_err(|(_, reason)| reason)?;
        drop(loaded);
        let batch = MixedTensors::of(&buffer, 0..n, &sizes, 0.0, &self.device);
        drop(buffer);
        Ok(self.model.log_probabilities(batch).exp().flatten(0, 1))
    }
}

impl BlankForward for Recognizer {
    /// Does what questions of this shape do, without any.
    fn blank(&self, shape: StepShape) -> Tensor<1> {
        let sizes = self.signature.sizes();
        let Padded { images, words, side } = sizes.image.padded(shape.extent());
        let group = vec![Decoded { size: (narrow(side), narrow(side)), rows: vec![0; 3 * side * side] }; images];
        let blank = || LoadedSample::asked(0, sizes.image, std::slice::from_ref(&group), vec![0; words]);
        let loaded = (0..shape.samples).map(|_| blank()).collect();
        self.forward(loaded, shape).unwrap_or_else(|reason| unreachable!("as many as there is room for: {reason}"))
    }
}
