//! A trained model that names what it reads.

use std::path::Path;

use burn::module::Module;
use burn::tensor::activation::softmax;
use burn::tensor::{Device, Tensor};
use plimsoll_train::{BlankForward, Checkpoint, CheckpointError};
use plimsoll_types::StepShape;

use super::fault::Fault;
use super::form::{Form, Seen};
use super::frames::{FrameBuffer, Frames};
use super::job::padded;
use super::model::{Encoder, EncoderConfig};
use super::signature::Signature;

/// A model from a checkpoint, on a device.
pub struct Classifier {
    model: Encoder,
    signature: Signature,
    form: Form,
    device: Device,
}

/// Why files cannot be told apart.
#[derive(Debug, thiserror::Error)]
pub enum ClassifyError {
    /// A file cannot be used any more.
    #[error("read the file at place {0} of its batch: {1}")]
    File(usize, Fault),
    /// The device failed.
    #[error("run the model over {files} files: {reason}")]
    Device {
        /// Files of the batch.
        files: usize,
        /// What the device said.
        reason: String,
    },
}

impl Classifier {
    /// Loads the model of a checkpoint.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::Record`] when it is one of another size.
    pub fn open(
        config: EncoderConfig,
        signature: Signature,
        checkpoint: &Checkpoint,
        device: Device,
    ) -> Result<Self, CheckpointError> {
        let form = signature.form();
        let model = config.init(form.n_values(), signature.labels.len(), &device);
        let model = checkpoint.load_model(model)?;
        Ok(Self { model: model.valid(), signature, form, device: device.inner() })
    }

    /// Returns the labels, in the order of [`Self::probabilities`].
    pub fn labels(&self) -> &[String] {
        &self.signature.labels
    }

    /// Looks at a file, and returns how many of its frames are read.
    ///
    /// # Errors
    ///
    /// [`Fault`] says why it cannot be used.
    pub fn look(&self, path: &Path) -> Result<u32, Fault> {
        Ok(self.form.n_frames(Seen::look(path)?)?.min(self.signature.longest()))
    }

    /// Returns how probable each label is for each of these files, each with its frames when it was looked at.
    ///
    /// # Errors
    ///
    /// [`ClassifyError`] tells the file.
    ///
    /// # Shapes
    ///
    /// - output: `[n_files, n_labels]`
    pub fn probabilities(&self, files: &[(&Path, u32)]) -> Result<Vec<Vec<f32>>, ClassifyError> {
        let read = |(at, (path, most)): (usize, &(&Path, u32))| {
            let read = self.form.read(path, self.signature.longest()).map(|it| self.framed(it));
            let read = read.and_then(|it| match it.length() {
                found if *most < found => Err(Fault::Grown { found, most: *most }),
                _ => Ok(it),
            });
            read.map_err(|fault| ClassifyError::File(at, fault))
        };
        let read: Vec<_> = files.iter().enumerate().map(read).collect::<Result<_, _>>()?;
        let fault = |reason: String| ClassifyError::Device { files: files.len(), reason };
        let probabilities = self.forward(read).try_into_data();
        let probabilities: Vec<f32> = probabilities.map_err(|it| fault(it.to_string()))?.iter().collect();
        Ok(probabilities.chunks_exact(self.labels().len()).map(<[f32]>::to_vec).collect())
    }

    fn framed(&self, values: Vec<f32>) -> Frames {
        Frames::new(values, self.form.n_values(), 0)
    }

    /// Returns the probabilities of all labels; what is on the host goes before the model runs.
    fn forward(&self, read: Vec<Frames>) -> Tensor<1> {
        let edge = read.iter().map(Frames::length).max().unwrap_or(1);
        let mut buffer = FrameBuffer::default();
        for frames in &read {
            buffer.push(frames, edge).unwrap_or_else(|_| unreachable!("none is longer than the longest"));
        }
        let n = read.len();
        drop(read);
        let (samples, values) = buffer.range(0..n);
        let (frames, mask) = padded(samples, values, self.form.n_values(), &self.device);
        drop(buffer);
        softmax(self.model.forward(frames, mask), 1).flatten(0, 1)
    }
}

impl BlankForward for Classifier {
    /// Does what a batch of this shape does, without files.
    fn blank(&self, shape: StepShape) -> Tensor<1> {
        let silence = || self.framed(vec![0.0; shape.edge() as usize * self.form.n_values()]);
        let silence = (0..shape.samples).map(|_| silence()).collect();
        self.forward(silence)
    }
}
