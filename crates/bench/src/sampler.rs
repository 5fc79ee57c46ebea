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
//!   the same lengths and window, its epochs between those of the planner.
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
//! # Not measured
//!
//! Other tools: the reference is ours, and the figures of others are from their own runs.

mod audit;
mod case;
mod changes;
mod cpu;
mod generated;
mod packed;
mod recorded;
mod reference;
mod resume;
mod row;
mod set;
mod suite;

pub use self::audit::Audit;
pub use self::case::Case;
pub use self::changes::Changes;
pub use self::cpu::{CLOCK, cpu_time, process_time};
pub use self::generated::{Tasked, chats, documents, images_and_tokens, speech};
pub use self::packed::Packed;
pub use self::recorded::{Recorded, read_lengths};
pub use self::reference::{Filled, shuffle_sort_fill};
pub use self::resume::Resume;
pub use self::row::{Mixing, Padding, Row, Time, table_head};
pub use self::set::{Set, Setting};
pub use self::suite::{Report, Sizes, measure};
