//! Do it: the shell around the pure core, on Burn.
//!
//! Train is where the clock, the files, the threads and the device are.
//! It wires the step, probe, predict, policy, sampler and monitor into a loop, and offers the pieces one by one:
//!
//! * [`Loader`] draws every sample of an epoch exactly once and collates ahead of need;
//! * [`Controller`] learns from events and decides; [`replay()`] does it again from a log;
//! * [`fit()`] makes a whole run of a [`Job`].
//!
//! # Invariants
//!
//! * Every decision about a training step depends on logged events alone, so that a log can be replayed. What a
//!   validation needed is learned beside the log, and bounds the next validation's batches only.
//! * No decision is taken here: the shell asks the controller.
//! * Files appear whole or not at all.

#![forbid(unsafe_code)]

mod balance;
mod checkpoint;
mod config;
mod controller;
mod device;
mod error;
mod find;
mod fit;
mod hooked;
mod incident;
mod incidents;
mod inference;
mod job;
mod learning_rate;
mod loader;
mod meter;
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
mod trial;
mod validation;
mod workers;

/// What a model is made on, and what [`open_device`] returns.
pub use burn::tensor::Device;
/// What a job and its configuration name of a step.
pub use plimsoll_step::{ForwardPasses, Loss, OptimizerRecovery, StepError, StepPart};

pub use balance::{BalanceConfig, BalanceError, GradNorm, TaskBalance};
pub use checkpoint::{Best, Checkpoint, CheckpointError, RunState};
pub use config::{FitConfig, LongestEdges};
pub use controller::{Controller, ControllerConfig, ControllerError, MAX_INFERENCE_BATCH};
pub use device::{
    DeviceMissing, beside_tensors, describe, device_kind, has_autotune, has_exact_peaks, has_fusion, open_device,
    platform, small_batch_regime, uploaded,
};
pub use error::{Misfit, TrainError};
pub use find::{
    FindError, FindRequest, FoundBatch, Objective, OnTried, OpenProbe, Timed, Tried, find_batch_size,
    find_inference_batch,
};
pub use fit::{Doing, Observer, Outcome, PlanSparing, Shell, Warn, Watching, fit};
pub use hooked::{Hooked, HookedBuffer, HookedPart, HookedSource, Hooks};
pub use incident::{Incident, IncidentError, Surroundings};
pub use inference::{Inference, OF_A_GROUP};
pub use job::{Goal, Job, Metric, Unit, Validation};
pub use learning_rate::{LearningRate, Scaling};
pub use loader::{
    BadSample, HostMemory, Loader, LoaderConfig, LoaderError, LoaderPosition, StepSamples, StepUnit, StreamedPosition,
    USUAL_BUFFERS, Wanted,
};
pub use optimizer::load_optimizer;
pub use planning::{
    BlankForward, OnPlanned, PlanRequest, fingerprint, plan_memory, plan_sparing, sound, sound_forward, sound_one,
};
pub use rehearsal::JobProgram;
pub use replay::{Mismatch, Replay, ReplayError, replay, replay_incident};
pub use resume::{Change, Kept};
pub use run::{Death, Unfit};
pub use run_dir::{CONFIG_FILE, EVENTS_FILE, Existing, PROCESSES_FILE, Process, RunDir, RunDirError, UNDONE_FILE, Why};
pub use signal::StopFlag;
pub use source::{Draw, Item, Lengths, Part, Source, SourceError};
pub use stopwatch::{Lap, Overhead, Stopwatch, Waiting, Work};
pub use trial::{Ran, Trial, TrialError, Trials};
pub use validation::{Amount, ValidationState};
