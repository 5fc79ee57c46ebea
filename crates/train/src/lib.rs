//! Do it: the shell around the pure core, on Burn.
//!
//! Train is where the clock, the files, the threads and the device are.
//! It wires the step, probe, predict, policy, sampler and monitor into a loop, and offers the pieces one by one:
//!
//! * [`Loader`] draws every sample of an epoch exactly once and collates ahead of need;
//! * [`Controller`] learns from events and decides; [`replay()`] does it again from a log;
//! * [`fit()`] makes a whole run of a [`Job`], alone or as one of several ranks ([`Shell::fleet`]): each with a device, a log
//!   and a controller of its own, which agree on every step before they take it.
//!
//! # A job of one's own
//!
//! A [`Job`] has four methods to write: where samples come from, the model, a batch of some samples, and its loss.
//! [`InMemory`] is a ready source; [`FitConfig::of_one_size`] and [`Shell::open`] have what is usual for the rest.
//! The smallest whole program is `examples/own_job.rs`; in short:
//!
//! ```no_run
//! # use std::{ops::Range, path::Path, sync::Arc};
//! # use burn::{module::Module, nn::{Linear, LinearConfig}, tensor::{Device, Tensor}};
//! # use plimsoll_probe::DeviceKind;
//! # use plimsoll_train::{Drawn, Existing, FitConfig, InMemory, Job, Loss, RunDir, Shell, fit};
//! # #[derive(Module, Debug)]
//! # struct Net { layer: Linear }
//! struct Regression(Arc<InMemory<[f32; 3]>>);
//!
//! impl Job for Regression {
//!     type Source = InMemory<[f32; 3]>;
//!     type Model = Net;
//!     type Batch = Tensor<2>;
//!
//!     fn source(&self) -> Arc<Self::Source> { Arc::clone(&self.0) }
//!     fn init(&self, device: &Device) -> Net { Net { layer: LinearConfig::new(2, 1).init(device) } }
//!     fn batch(&self, drawn: &Drawn<[f32; 3]>, range: Range<usize>, device: &Device) -> Tensor<2> {
//!         let rows: Vec<f32> = drawn.samples(range).flatten().copied().collect();
//!         Tensor::<1>::from_floats(rows.as_slice(), device).reshape([-1, 3])
//!     }
//!     fn mean_loss(&self, net: &Net, rows: Tensor<2>, _task_weights: &[f32]) -> Loss {
//!         let (x, y) = (rows.clone().narrow(1, 0, 2), rows.narrow(1, 2, 1));
//!         (net.layer.forward(x) - y).powi_scalar(2).mean().into()
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let job = Regression(Arc::new(InMemory::of_one_size([[0.5, 1.0, 2.0], [1.0, 3.0, 6.5]])));
//! let mut run_dir = RunDir::open(Path::new("runs/own"), Existing::Overwrite)?;
//! let shell = Shell::open(DeviceKind::Flex, None, &mut run_dir, Existing::Overwrite)?;
//! fit(&job, &FitConfig::of_one_size(DeviceKind::Flex, 200, 32)?, shell)?;
//! # Ok(())
//! # }
//! ```
//!
//! Without a validation no checkpoint is the best; [`Job::validate`] measures one, and [`Job::test`] the best at the end.
//! [`plan_memory`] plans it too: of real samples, unless [`Job::blank_batch`] makes others.
//!
//! # Invariants
//!
//! * Every decision about a training step depends on logged events alone, so that a log can be replayed. What a
//!   validation needed is learned beside the log, and bounds the next validation's batches only.
//! * No decision is taken here: the shell asks the controller.
//! * Files appear whole or not at all.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod ahead;
mod balance;
mod batches;
mod checkpoint;
mod config;
mod controller;
mod device;
mod error;
mod find;
mod first_samples;
mod fit;
mod in_memory;
mod incident;
mod incidents;
mod index;
mod inference;
mod job;
mod learning_rate;
mod loader;
mod meter;
mod names;
mod optimizer;
mod planning;
mod recorder;
mod rehearsal;
mod replay;
mod resume;
mod run;
mod run_dir;
mod signal;
mod source;
mod stopwatch;
mod too_large;
mod trial;
mod validation;
mod workers;

/// What a model is made on, and what [`open_device`] returns.
pub use burn::tensor::Device;
/// The ranks that train together.
pub use plimsoll_fleet::{Alone, Fleet, FleetError, InProcess};
/// What a job and its configuration name of a step.
pub use plimsoll_step::{ForwardPasses, Loss, OptimizerRecovery, StepError, StepPart};

pub use balance::{BalanceConfig, BalanceError, GradNorm, TaskBalance};
pub use batches::{
    BatchLoader, Batches, BatchesBuilder, BatchesError, Epoch, Limits, PackedBuilder, Position, Row, RowPart,
    StepItems, batches, packed_batches,
};
pub use checkpoint::{Best, Checkpoint, CheckpointError, RunState};
pub use config::{FitConfig, KnownTooLarge};
pub use controller::{Controller, ControllerConfig, ControllerError, MAX_INFERENCE_BATCH};
pub use device::{
    DeviceMissing, MEASURED, beside_tensors, compute_alone, computes_in, describe, device_kind, has_autotune,
    has_exact_peaks, has_fusion, n_cores, open_device, platform, program_keys, program_needs, replicas, sent,
    small_batch_regime, survives, told_threads, uploaded, warm_up,
};
pub use error::{Misfit, TrainError};
pub use find::{FindRequest, find_batch_size, find_inference_batch};
pub use fit::{Doing, Observer, Outcome, PlanSparing, Shell, Warn, Watching, fit};
pub use in_memory::{Drawn, InMemory, Length};
pub use incident::{Incident, IncidentError, Surroundings};
pub use index::Index;
pub use inference::{Inference, OF_A_GROUP};
pub use job::{Goal, Job, Metric, Unit, Validation};
pub use learning_rate::{LearningRate, Scaling};
pub use loader::{
    BadSample, CursorPosition, EndedEpoch, HostMemory, Loader, LoaderConfig, LoaderError, LoaderPosition,
    PackedPosition, StepSamples, StepUnit, StreamedPosition, USUAL_BUFFERS, Wanted,
};
pub use optimizer::{Adam, JobOptimizer};
pub use planning::{
    BlankForward, MayRecompute, PlanRequest, Sounded, fingerprint, plan_memory, plan_recomputing, plan_sparing, sound,
    sound_forward, sound_one, tune_ahead,
};
pub use rehearsal::BlankJob;
pub use replay::{Mismatch, Replay, ReplayError, Replaying, replay, replay_incident};
pub use resume::{Change, Kept};
pub use run::{Death, Unfit};
pub use run_dir::{
    CONFIG_FILE, EVENTS_FILE, Existing, PROCESSES_FILE, Process, REFUSAL_FILE, RunDir, RunDirError, UNDONE_FILE, Why,
    folders_of_ranks, last_process, log_files, log_tail, read_log, read_log_file, read_log_with,
};
pub use signal::StopFlag;
pub use source::{Draw, Item, Lengths, NamedSource, Part, Source, SourceError, known_extents};
pub use stopwatch::{Lap, Overhead, Stopwatch, Waiting, Work};
pub use trial::Trials;
pub use validation::{Amount, ValidationState};
