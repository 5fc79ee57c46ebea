//! Do one optimizer step, or none.
//!
//! A step is a transaction over a model and its optimizer, [`TrainState`]:
//!
//! * [`GuardedStep::attempt`] runs the forward and backward passes of all samples under a budget, in halves where it must,
//!   and checks what came of them; nothing has happened until then, and what forward passes change is put back otherwise;
//! * [`GuardedStep::commit`] lets the optimizer step, and undoes it where that ran out of memory and a copy was kept;
//! * [`rehearse`] issues the operations of both and reads nothing: what a planner asks for.
//!
//! [`ProgramNeeds`] knows what the steps of a program have shown, and divides those to come; [`ProgramSteps`] runs them by
//! that, one after the other.
//! [`ForwardPasses`] runs passes without gradients on the same device, under the same rules.
//!
//! # Invariants
//!
//! * No files, no epochs, no log, and no policy: a step is told what it may use, and says what it took.
//! * The optimizer steps only after a scalar that depends on every gradient was read, and never on a discarded part.
//! * Live steps, trials and rehearsals issue the same operations in the same order, by the same code; but only a live
//!   one reads its weights while a copy of them is kept.
//!
//! # Example
//!
//! ```
//! use burn::module::Module;
//! use burn::nn::{Linear, LinearConfig};
//! use burn::optim::AdamConfig;
//! use burn::tensor::Device;
//! use plimsoll_step::{Commit, GuardedStep, OptimizerRecovery, StepRequest, TrainState, Update};
//! # use burn::tensor::Tensor;
//! # use plimsoll_types::{Budget, Bytes, Knobs};
//!
//! // On a CPU the memory of the program is counted by its allocator.
//! #[global_allocator]
//! static HEAP: plimsoll_probe::TrackingAllocator = plimsoll_probe::TrackingAllocator::new();
//!
//! # #[derive(Module, Debug)]
//! # struct Net { layer: Linear }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let device = Device::flex().autodiff();
//! # let samples = Tensor::<2>::ones([8, 4], &device);
//! # let net = Net { layer: LinearConfig::new(4, 1).init(&device) };
//! let probe = plimsoll_probe::open(plimsoll_probe::DeviceKind::Flex, None)?;
//! let capacity = probe.capacity()?;
//! let mut step = GuardedStep::new(probe, device);
//! let mut state = TrainState::new(net, AdamConfig::new().init());
//!
//! // Eight samples of one edge, in micro-batches of three, three and two.
//! let knobs = Knobs { patch_size: 4, micro_batch_size: 3 };
//! let request = StepRequest::of_edge(8, knobs, Budget { capacity, budget: capacity });
//! let mean_loss = |net: &Net, part: std::ops::Range<usize>| net.layer.forward(samples.clone().slice([part])).mean().into();
//! let done = step.attempt(state.model(), &request, &|_shape, _resident| None, &mean_loss)?;
//! assert!(done.loss.is_some_and(f64::is_finite));
//! let update = Update { gradients: done.gradients, rate: 1e-3.into(), capacity, recovery: OptimizerRecovery::Keep };
//! assert!(matches!(step.commit(&mut state, update)?, Commit::Done { .. }));
//! # Ok(())
//! # }
//! ```
//!
//! # Sources
//!
//! Gradient accumulation with sample weights: the sum over parts of `n_k / n · ∇l_k` is the gradient of the mean loss.
//! What a failed allocation does in Burn 0.22: `cubecl-runtime` 0.11.3, `server/base.rs`.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod attempt;
mod attempts;
mod beside;
mod commit;
mod drained;
mod elsewhere;
mod error;
mod flat;
mod forward;
mod gradients;
mod graph;
mod guarded;
mod issue;
mod needs;
mod outcome;
mod pages;
mod pass;
mod passes;
mod program;
mod readiness;
mod recovery;
mod replicas;
mod request;
mod rules;
mod running;
mod state;
mod steps;
mod team;
mod unread;
mod weights;

pub use commit::{Commit, ModelOf, Update};
pub use elsewhere::Elsewhere;
pub use error::StepError;
pub use forward::{ForwardPasses, Pass, run_forward};
pub use gradients::{WeightedAccumulator, gradient_bytes, squared_norm};
pub use guarded::GuardedStep;
pub use issue::{Loss, rehearse};
pub use outcome::{StepOutcome, StepTimes};
pub use pass::pass_as;
pub use passes::{MeanGradients, MeanLoss, PredictShape, SharedMeanLoss};
pub use program::{ProgramNeeds, Room, Shown};
pub use readiness::Readiness;
pub use recovery::OptimizerRecovery;
pub use replicas::Replicas;
pub use request::{RanPart, Rescale, StepPart, StepRequest};
pub use rules::{SettingError, StepRules, share_of_capacity};
pub use running::or_put_back;
pub use state::TrainState;
pub use steps::{NextStep, ProgramSteps, Ran, RunPasses, Stopped};
pub use team::Team;
