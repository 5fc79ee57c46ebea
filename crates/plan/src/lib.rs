//! What would this step need on that device?
//!
//! A planner takes the user's own step as a [`Program`] and says, for each shape, what the device's allocator would
//! reserve, before the first real step:
//!
//! * [`DryRunPlanner`] (`CubeCL` devices) issues the step with every kernel dropped and every page only booked, so that
//!   the real allocator answers, in milliseconds a shape and beyond the size of the device;
//! * [`ProbePlanner`] (devices without pools, such as Flex) runs few real steps, each certified to fit by those before
//!   it, and bounds all other shapes by a certificate.
//!
//! Both make the cells of a [`MemoryPlan`], which is written to `memory_plan.json` and reused while its [`Fingerprint`]
//! is that of the run. Of several devices each has its own, and a [`FleetPlan`] says what they take together.
//!
//! What is asked for is asked over a program and whoever runs a real step of it, [`RealSteps`]:
//!
//! * [`Planning`] makes a whole plan, with dry runs that few real steps correct, and what a run of mixed shapes holds;
//! * [`Sounding`] approaches a shape in real steps of which each is certain to fit, as a run without a plan begins;
//! * [`Finding`] wires the finder to dry runs, or to real steps that bound each other;
//! * [`fastest`] says whose activations to recompute, by how fast [real steps](DryRunPlanner::pace) of both kinds are.
//!
//! A model, its loss and what makes its batches are enough for both sides: of a [`Blank`] step, [`BlankProgram`] is what is
//! rehearsed, and [`BlankTrials`] runs it.
//!
//! # Invariants
//!
//! * Nothing is trained: a rehearsal makes a model and an optimizer of its own, in buffers that nobody else holds, and
//!   drops them. What lives on the device before is the same afterwards, bit for bit.
//! * No job, no loader and no files of a run: whoever has those runs the real steps.
//! * One dry run at a time. `CubeCL`'s switch is process-wide and drops the launches of *every* thread, so planning
//!   belongs before the data workers start, or into a process of its own.
//! * A plan is written whole or not at all, and never used for another program.
//!
//! # Example
//!
//! ```
//! use plimsoll_plan::micro_batches;
//! use plimsoll_types::StepShape;
//!
//! // A step of 32 samples in micro-batches of 26 is planned with its ragged part, and with the gradients that it adds.
//! let [full, ragged] = [26, 6].map(|n| StepShape::new(n, 64));
//! assert_eq!(micro_batches(full, 32), [full, ragged]);
//! ```
//!
//! # What a dry run shows, and what it does not
//!
//! * **Shown**: pages and their sizes, buffers of exact size, the largest allocation; equal to those of real steps in
//!   every cell measured (`docs/measured/`).
//! * **Not shown**: what the runtime keeps beside the pools for itself (staging buffers, arguments of kernels), which
//!   real steps add ([`Correction`](plimsoll_predict::Correction)), and on CUDA the driver's context, which the probe leaves out of the capacity.
//! * **Never fits**: an allocation beyond the device's page limit fails silently and is left out of every figure. It
//!   shows as a largest allocation below the least that it can be, given smaller batches ([`Fit::NeverFits`]).
//! * **A value that is read** is garbage. On Vulkan the read shows in the runtime's staging buffers and is refused; CUDA
//!   does not report its own, so that it stays unseen there.
//!
//! # Sources
//!
//! `dry_run.rs` of cubecl-runtime 0.11.3; `memory_management` of cubecl-server 0.11.3.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod act;
mod apart;
mod blank;
mod cell;
#[cfg(any(feature = "vulkan", feature = "cuda"))]
mod dry_run;
#[cfg(not(any(feature = "vulkan", feature = "cuda")))]
#[path = "no_dry_run.rs"]
mod dry_run;
mod error;
mod file;
mod find;
mod fingerprint;
mod fleet;
mod limit;
mod pace;
mod plan;
mod planning;
mod pools;
mod probes;
mod program;
mod real;
mod rehearsal;
mod schedule;
mod sounding;
mod sweep;
mod trials;

pub use act::Act;
pub use blank::{Blank, BlankProgram};
pub use cell::{Fit, PlannedCell, PlannedNeed, micro_batches};
pub use dry_run::DryRunPlanner;
pub use error::{CHECKPOINTING_WAS_TRIED, PlanError};
pub use file::PLAN_FILE;
pub use find::{FindError, Finding, FoundBatch, Objective, OnTried, Timed, Tried};
pub use fingerprint::Fingerprint;
pub use fleet::{FleetPlan, PLAN_VERSION, Together};
pub use pace::{Compared, Pace, fastest};
pub use plan::MemoryPlan;
pub use planning::{OnPlanned, PlanPart, Planning};
pub use pools::{Pages, Pools};
pub use probes::{Measure, ProbePlanner};
pub use program::Program;
pub use real::{OpenProbe, OpenSteps, RealSteps, Trial, TrialError};
pub use rehearsal::Rehearsal;
pub use schedule::Schedule;
pub use sounding::{Aim, Enough, Sounding};
pub use sweep::{InRun, NSamples, OnProgress, Rehearsed, STEPS, Sweep};
pub use trials::{BlankTrials, Ran};
