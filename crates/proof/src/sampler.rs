//! How long does it take to plan an epoch, how much is padded, and how well are the samples mixed?
//!
//! [`measure`] plans epochs of generated and of recorded lengths, and returns a [`Row`] for each case.
//!
//! # What is measured
//!
//! * `ns_per_sample`: the processor time, user and system, that one thread takes for `BatchPlanner::plan_epoch`, the
//!   median over several epochs; the clock is that of the thread, so that other programs on the machine lengthen it only
//!   by what they take of caches and memory.
//!   The planner is at hand already: reading the lengths once, which takes 1 ns a sample, is not part of an epoch.
//! * `ratio_to_reference`: that over the time of [`shuffle_sort_fill`], which does the same work in the plain way, on
//!   the same lengths and window, its epochs between those of the planner; `reference_waste` and `reference_mates_kept` are
//!   what that comes to.
//! * `waste`: 1 − Σ length / Σ (batch size × longest), on the axis where it is larger; the lattice's own share beside it.
//!   Batches of one cell are long, so that with edges most of the padding is in `waste`; all of it is
//!   1 − (1 − `waste`) (1 − `lattice_waste`).
//!   `optimum_waste` is the least of all plans with the fewest batches, over the epoch as a whole.
//! * `over_budget`, `not_once`: batches that exceed the budget on an axis, and samples that are missing or come again.
//!   These and the waste are counted from the ids and the lengths alone, not asked of the planner.
//! * `mates_kept`: the share of a batch's pairs that share a batch in the next epoch, each batch counted alike;
//!   `mates_kept_over_pairs` counts each pair alike, so that large batches weigh more.
//! * `task_entropy_ratio`: over accumulation groups of eight batches, against random groups of the same sizes;
//!   `task_entropy_ratio_per_batch` over single batches.
//! * `bytes_per_sample`: the most that the heap held from having the lengths to having an epoch's batches, both
//!   included; 0 when the program does not install `TrackingAllocator`.
//! * [`Packed`]: how full packed rows are and how well they mix, and how long planning and resuming take.
//! * [`Changes`]: an epoch in which the rule changes 400 times, and what a position then takes.
//!
//! * [`Mixture`]: how far steps of five sources are from their shares.
//! * [`Compared`]: the length-bucketed and the packing rules that other tools publish, on the same lengths and budget; their
//!   epochs and ours are planned in turn.
//! * [`Target`]: the figures that are asked of the sampler, and whether they are met.
//!
//! # Not measured
//!
//! The tools themselves: their rules are written anew in `peers`, so that padding, batches and mates are those of the rule, and
//! the time is that of this code. In the tools, most of which are Python, it takes longer.

mod audit;
mod case;
mod changes;
mod compared;
mod cpu;
mod generated;
mod mixture;
mod packed;
mod peers;
mod recorded;
mod reference;
mod report;
mod resume;
mod row;
mod set;
mod suite;
mod target;
mod targets;

pub use self::audit::Audit;
pub use self::case::Case;
pub use self::changes::Changes;
pub use self::compared::{Compared, compared_head};
pub use self::cpu::{CLOCK, cpu_time, process_time};
pub use self::generated::{Tasked, chats, documents, images_and_tokens, speech};
pub use self::mixture::Mixture;
pub use self::packed::Packed;
pub use self::recorded::{Recorded, read_lengths};
pub use self::reference::{Filled, shuffle_sort_fill};
pub use self::report::Report;
pub use self::resume::Resume;
pub use self::row::{Mixing, Padding, Reference, Row, Time, table_head};
pub use self::set::{Set, Setting};
pub use self::suite::{Sizes, measure};
pub use self::target::Target;
