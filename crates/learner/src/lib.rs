//! The same under Burn's `Learner`.
//!
//! [`strategy()`] makes a [`GuardedStrategy`] for an untouched `SupervisedTraining`: model, optimizer, schedule, metrics,
//! dashboard, checkpoints, early stopping and interrupter stay Burn's and a program's own, and each optimizer step runs in as
//! few micro-batches as are certain to fit.
//!
//! # Invariants
//!
//! * No decision of its own: what fits is known by [`ProgramNeeds`](plimsoll_step::ProgramNeeds), and what happens to a part that
//!   does not fit is a matter of [`GuardedStep`](plimsoll_step::GuardedStep).
//! * Weights that were lost reach neither a validation nor a checkpoint: on a device that fails silently they are read after the
//!   last step of each epoch.
//! * The only crate that builds Burn's training.
//!
//! # Example
//!
//! ```no_run
//! # use burn::data::dataloader::batcher::Batcher;
//! # use burn::data::dataset::InMemDataset;
//! # use burn::module::Module;
//! # use burn::nn::{Linear, LinearConfig};
//! # use burn::tensor::Tensor;
//! # use burn::train::{InferenceStep, RegressionOutput, TrainOutput, TrainStep};
//! use burn::data::dataloader::DataLoaderBuilder;
//! use burn::optim::AdamConfig;
//! use burn::tensor::Device;
//! use burn::train::metric::LossMetric;
//! use burn::train::{Learner, SupervisedTraining, TrainingStrategy};
//! use plimsoll_learner::{BySamples, strategy};
//! use plimsoll_train::batches;
//!
//! // On a CPU the memory of the program is counted by its allocator; a GPU needs none.
//! #[global_allocator]
//! static HEAP: plimsoll_probe::TrackingAllocator = plimsoll_probe::TrackingAllocator::new();
//!
//! # #[derive(Module, Debug)]
//! # struct Net { layer: Linear }
//! # impl TrainStep for Net {
//! #     type Input = Tensor<2>;
//! #     type Output = RegressionOutput;
//! #     fn step(&self, points: Tensor<2>) -> TrainOutput<RegressionOutput> {
//! #         let item = InferenceStep::step(self, points);
//! #         TrainOutput::new(self, item.loss.backward(), item)
//! #     }
//! # }
//! # impl InferenceStep for Net {
//! #     type Input = Tensor<2>;
//! #     type Output = RegressionOutput;
//! #     fn step(&self, points: Tensor<2>) -> RegressionOutput {
//! #         let output = self.layer.forward(points.clone());
//! #         let loss = (output.clone() - points.clone()).powi_scalar(2).mean();
//! #         RegressionOutput::new(loss, output, points)
//! #     }
//! # }
//! # struct Points;
//! # impl Batcher<[f32; 2], Tensor<2>> for Points {
//! #     fn batch(&self, items: Vec<[f32; 2]>, device: &Device) -> Tensor<2> {
//! #         Tensor::<1>::from_floats(items.concat().as_slice(), device).reshape([items.len(), 2])
//! #     }
//! # }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = Device::flex().autodiff();
//! # let points = || InMemDataset::new(vec![[0.5; 2]; 256]);
//! # let net = Net { layer: LinearConfig::new(2, 2).init(&device) };
//! let guarded = strategy(&device).budget(0.9).build()?;
//! let train = guarded.loader(batches(points(), Points).effective_batch(64).build()?);
//! let valid = DataLoaderBuilder::new(Points).batch_size(64).build(points());
//! let result = SupervisedTraining::new("/tmp/points", train, valid)
//!     .metric_train_numeric(BySamples::new(LossMetric::new()))
//!     .metric_train_numeric(guarded.metrics().measured_peak())
//!     .with_training_strategy(TrainingStrategy::Custom(guarded))
//!     .launch(Learner::new(net, AdamConfig::new().init(), 1e-3));
//! if let Some(error) = result.error {
//!     eprintln!("{error}");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Sources
//!
//! The order of events is that of `SingleDeviceTrainingStrategy` in burn-train 0.22.1.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod attempt;
mod batches;
mod builder;
mod by_samples;
mod epoch;
mod error;
mod figures;
mod metrics;
mod plan;
mod steps;
mod strategy;

pub use builder::{StrategyBuilder, strategy};
pub use by_samples::BySamples;
pub use error::{At, LearnerError};
pub use metrics::{StepMetric, StepMetrics};
pub use strategy::GuardedStrategy;
