//! A trained model that writes on.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use plimsoll_train::{BlankForward, Checkpoint, CheckpointError};
use plimsoll_types::StepShape;

use super::generate::{GenerateError, Generation, Prompt, blank_generation, generate};
use super::model::{Gpt, GptConfig};

/// A model from a checkpoint, on a device.
#[derive(Debug)]
pub struct Writer {
    model: Gpt,
    device: Device,
}

impl Writer {
    /// Loads the model of a checkpoint.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::Record`] when it is one of another size.
    pub fn open(
        config: GptConfig,
        vocabulary: usize,
        checkpoint: &Checkpoint,
        device: Device,
    ) -> Result<Self, CheckpointError> {
        let model = checkpoint.load_model(config.init(vocabulary, &device))?;
        Ok(Self { model: model.valid(), device: device.inner() })
    }

    /// Writes on from some prompts at once; see [`generate`].
    ///
    /// # Errors
    ///
    /// [`GenerateError`] names the prompt.
    pub fn write(&self, prompts: &[Prompt], generation: &Generation) -> Result<Vec<Vec<u16>>, GenerateError> {
        generate(&self.model, prompts, generation, &self.device)
    }
}

impl BlankForward for Writer {
    /// Does what writing texts of this shape does, without prompts; see [`blank_generation`].
    fn blank(&self, shape: StepShape) -> Tensor<1> {
        blank_generation(&self.model, shape, &self.device)
    }
}
