//! Does what went down come back up?
//!
//! [`simulate`] lets a policy with the real predictor run for so many steps on a simulated device, under a
//! [`Disturbance`] that comes and goes, and returns a [`Row`].
//!
//! # The device
//!
//! A step's need follows from its shape by a fixed program: the maximum of three linear functions of `1`, `n`, `n·e` and
//! `n·e²`, above what is resident, times `1 + noise·u` with `u` drawn anew for each micro-batch between 0 and 1.
//! A micro-batch that reads more than there is fails, and runs again in halves, as under the guard; the guard's preflight
//! divides what is predicted not to fit.
//! The capacity is read before each step and after one that failed, and a step may use nine tenths of it; what falls within
//! a step is seen only afterwards.
//! A failure shows how much was read where the device has an exact peak, and nothing where an allocation was refused
//! because another process had taken the memory.
//!
//! # What is counted
//!
//! * `late`, `slowest`: disturbances that ended, and were followed by calm, after which the run was not back within 2 %
//!   of what it does undisturbed in 200 steps; and the most steps that any took.
//!   The measure is `n·e²` of the rung, or the mean over all edges of the batch's share of the undisturbed one.
//! * `out_of_memory`, `foreseeable`: steps that ran out of memory, and those among them in which nothing began that could
//!   not be seen before the step.
//! * `changes_per_1000`, `most_changes`: changes of knobs or sizes, on average and in the worst thousand steps, wherever
//!   these begin.
//! * `share`: the mean over all steps of the undisturbed work that the run was set to do.
//! * `state_early`, `state_most`: bytes of policy and predictor as they are written into a checkpoint, after a tenth of
//!   the steps and at most.
//! * `events_per_1000`: lines of the log besides those of the steps.

mod case;
mod device;
mod learnt;
mod report;
mod rig;
mod weather;

pub use self::case::{Case, cases};
pub use self::report::{Report, Row, simulate, table_head};
pub use self::rig::Kind;
pub use self::weather::Disturbance;
