//! Memory-aware training for any Burn program.
//!
//! [`step()`] takes a model and an optimizer, and runs each optimizer step in as few parts as are certain to fit: the same
//! samples, the same gradient, below the line. Model, loss, data, optimizer, schedule and loop stay the program's own.
//!
//! # Invariants
//!
//! * The parts of a step change what it needs, not what it does: its gradient is that of the mean over all its samples.
//! * A step happens with all its samples, or not at all.
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

#![forbid(unsafe_code)]

mod builder;
mod error;
mod known;
mod step;

pub use builder::{StepBuilder, step};
pub use error::Error;
pub use plimsoll_predict::PredictError;
pub use plimsoll_probe::{ProbeError, TrackingAllocator};
pub use plimsoll_step::{StepError, StepPart};
pub use plimsoll_types::{Attempt, Bytes, Prediction};
pub use step::{Done, Step};
