//! Memory-aware training for any Burn program.
//!
//! Model, loss, data, optimizer, schedule and loop stay the program's own. Each of these is useful alone:
//!
//! * [`step()`] takes a model and an optimizer, and runs each optimizer step in as few parts as are certain to fit: the same
//!   samples, the same gradient, below the line;
//! * [`batches`] makes the samples of such steps out of Burn's `Dataset` and `Batcher`, of alike lengths together, each once
//!   an epoch, and gives them to loops of others as Burn's `DataLoader`;
//! * [`plan()`] says what steps would need before one is run, [`find_batch_size`] and [`find_inference_batch`] which batch is
//!   the largest that fits;
//! * `learner`, with the feature of that name, does the same under Burn's own `Learner`, with metrics for its dashboard.
//!
//! # Invariants
//!
//! * The parts of a step change what it needs, not what it does: its gradient is that of the mean over all its samples.
//! * A step happens with all its samples, or not at all; what an optimizer's step may lose says [`Step`].
//! * Of several samples, only as many run at a time as are certain to fit by what earlier steps have shown; what a program
//!   asks for with [`StepBuilder::micro_batch`] runs, and in halves where it does not fit.
//!
//! # Example
//!
//! ```
//! # use burn::module::Module;
//! # use burn::nn::{Linear, LinearConfig};
//! # use burn::tensor::Tensor;
//! use burn::optim::AdamConfig;
//! use burn::tensor::Device;
//!
//! # #[derive(Module, Debug)]
//! # struct Net { layer: Linear }
//! # impl Net { fn loss(&self, x: Tensor<2>) -> Tensor<1> { self.layer.forward(x).powi_scalar(2).mean() } }
//! # fn batch(rows: Vec<[f32; 4]>, device: &Device) -> Tensor<2> {
//! #     Tensor::<1>::from_floats(rows.concat().as_slice(), device).reshape([rows.len(), 4])
//! # }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // On a CPU the memory of the program is counted by its allocator; a GPU needs none.
//! #[global_allocator]
//! static HEAP: plimsoll::TrackingAllocator = plimsoll::TrackingAllocator::new();
//!
//! let device = Device::flex().autodiff();
//! # let model = Net { layer: LinearConfig::new(4, 1).init(&device) };
//! # let rows = vec![[0.5; 4]; 32];
//! let mut step = plimsoll::step(&device, model, AdamConfig::new().init()).budget(0.9).build()?;
//! for samples in rows.chunks(16) {
//!     let done = step.run(samples, 1e-3, |model, part| model.loss(batch(part, &device)))?;
//!     println!("loss {:.4} in {} parts, peak {}", done.loss, done.parts.len(), done.peak);
//! }
//! let model = step.into_model().expect("no step has failed");
//! # Ok(())
//! # }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod average;
mod batches;
mod builder;
mod checkpoint;
mod done;
mod error;
mod find;
mod limits;
mod own;
mod place;
mod plan;
mod scale;
mod sorted;
mod step;

pub use builder::{StepBuilder, step};
pub use done::{Done, OnDevice};
pub use error::Error;
pub use find::{FindBuilder, InferenceBuilder, find_batch_size, find_inference_batch};
pub use limits::StepLimits;
pub use plan::{Plan, PlanBuilder, PlannedDevice, PlannedShape, plan};
pub use plimsoll_finder::{FinderError, Found, Limit, Winner};
pub use plimsoll_guard::GuardError;
/// Burn's `Learner` under a budget.
#[cfg(feature = "learner")]
pub use plimsoll_learner as learner;
pub use plimsoll_plan::{FindError, FoundBatch, PlanError, Timed, TrialError};
pub use plimsoll_predict::PredictError;
pub use plimsoll_probe::{ProbeError, TrackingAllocator, count_beside};
pub use plimsoll_sampler::{
    Admit, AdmitCounts, EpochEnd, Objective, Oversize, PackedRows, Piece, SamplerError, TaskMix,
};
pub use plimsoll_step::{SettingError, StepError, StepPart};
pub use plimsoll_train::{
    BatchLoader, Batches, BatchesBuilder, BatchesError, Epoch, Limits, PackedBuilder, Position, Row, RowPart,
    StepItems, batches, packed_batches,
};
pub use plimsoll_types::{Attempt, Bytes, Extent, Features, FeaturesError, Fraction, Prediction, StepShape};
pub use scale::LossScale;
pub use step::Step;

/// What most programs name.
pub mod prelude {
    #[cfg(feature = "learner")]
    pub use crate::learner::{BySamples, strategy};
    pub use crate::{
        Batches, Bytes, Done, LossScale, Plan, Step, TrackingAllocator, batches, find_batch_size, find_inference_batch,
        plan, step,
    };
}
