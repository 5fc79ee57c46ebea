//! What is planned, and what is real: the figures of `cargo xtask bench predict` and `cargo xtask gpu-check`.
//!
//! Here is what needs no Burn: which cells are planned and run, what their figures add up to, and how that is written.
//! The binary `proof` (feature `devices`) runs the plans and the steps, each in a fresh process.
//!
//! # What is compared
//!
//! * `reserved`, on devices that keep pools: what the tensors' pools hold after three steps of a shape in a fresh
//!   process, against the plan of that shape. Both count whole pages, so that they are equal to the byte or a page apart.
//! * `total`, on the same devices: with what the runtime keeps beside the pools (staging buffers, arguments of kernels).
//!   A dry run fills none of it and it grows from step to step, so that the plan has an upper bound of it, from two real
//!   steps.
//! * `in_use`, on Flex: the peak of the heap in the third step, against the expected value and the upper bound of the
//!   plan.
//!   The bound is violated when the peak is more than 1 % above it.
//! * Mixed runs of 200 steps in one process. On devices that keep pools each step has one to three parts, whose shapes and
//!   order are drawn at random, every page is kept, and what they hold is compared with the high-water mark that was
//!   planned for the run as a whole; on Flex the parts are planned cells, each peak is compared with the bound that was
//!   asked for before it, and the high-water mark with the largest of these bounds.
//!
//! A table of [`Targets`] says which of these figures are good enough.

mod cell;
mod gpu;
mod groups;
mod mixed;
mod product;
mod report;
mod section;
mod summary;
mod sweep;
mod targets;

pub use self::cell::{CellRow, Judged};
pub use self::gpu::GpuReport;
pub use self::groups::{Edges, Group, pooled_groups, probed_groups, thin};
pub use self::mixed::{MixedRow, PartsHeld, draw, first};
pub use self::product::ProductRun;
pub use self::report::{Device, Missing, Report};
pub use self::section::{Content, Figure, Judgement, Precision, Section};
pub use self::summary::{AboveResident, Errors, Figures, Planning, Summary};
pub use self::sweep::Sweep;
pub use self::targets::{JobTargets, Reached, Target, Targets, Verdict};
