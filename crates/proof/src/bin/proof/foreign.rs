//! Models that nobody here tunes: written with Burn's own modules, as its users write them.

mod job;
mod lstm;
mod noise;
mod normalised;
mod unet;
mod vit;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use plimsoll_types::Features;

pub(crate) use self::job::ForeignJob;
pub(crate) use self::lstm::SequenceModel;
pub(crate) use self::normalised::NormalisedNet;
pub(crate) use self::unet::UNet;
pub(crate) use self::vit::VisionTransformer;

/// A model with a loss over samples of one edge.
pub(crate) trait Foreign: Module {
    /// Short name of the model.
    const NAME: &'static str;

    /// Creates it.
    fn init(device: &Device) -> Self;

    /// Names what its tensors are combinations of, as whoever wrote it would.
    fn features() -> Features {
        Features::complete(1)
    }

    /// Returns the dimensions of one sample.
    fn sample(edge: usize) -> Vec<usize>;

    /// Returns what is read of a forward pass.
    ///
    /// # Shapes
    ///
    /// - `samples`: `[batch_size, n_values]`, where a sample's values have the dimensions of [`Self::sample`]
    /// - output: `[n_outputs]`
    fn outputs(&self, samples: Tensor<2>, edge: usize) -> Tensor<1>;

    /// Returns the mean loss over the samples.
    ///
    /// # Shapes
    ///
    /// - `samples`: as above
    /// - output: `[1]`
    fn loss(&self, samples: Tensor<2>, edge: usize) -> Tensor<1>;
}
