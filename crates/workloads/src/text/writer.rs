//! A trained model that writes on.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use plimsoll_finder::{FinderConfig, Found};
use plimsoll_probe::{DeviceKind, Probe};
use plimsoll_train::{Checkpoint, CheckpointError, FindError, Tried, find_inference_batch};
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

    /// Does what writing texts of this shape does, without prompts; see [`blank_generation`].
    ///
    /// # Shapes
    ///
    /// - output: `[n_values]`
    pub fn blank(&self, shape: StepShape) -> Tensor<1> {
        blank_generation(&self.model, shape, &self.device)
    }

    /// Finds how many texts of `finder.edge` positions can be written at a time.
    ///
    /// # Errors
    ///
    /// [`FindError::Finder`] when not even one fits, with the numbers.
    pub fn find_batch(
        &self,
        device: DeviceKind,
        finder: FinderConfig,
        probe: &mut dyn Probe,
        on_tried: &mut dyn FnMut(&Tried),
    ) -> Result<Found, FindError> {
        let mut blank = |shape| self.blank(shape);
        find_inference_batch(device, finder, probe, &mut blank, on_tried)
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
