//! How far does a step divide?
//!
//! [`measure`] deals the optimizer steps of a plan to simulated devices with [`plimsoll_sampler::deal_batches`], as a run does, and
//! returns what each [`Rule`] comes to.
//!
//! # What is measured
//!
//! * [`StepCost`]: what a step takes, from the log of real runs: so much by itself, so much for each micro-batch, and so much
//!   for each padded position.
//! * `deal`: the processor time of dealing one step, in this run, the median over the steps.
//! * [`Exchange`]: the wall time in which real ranks agree, add and take over, as threads and as processes of MPI, in this run.
//! * The lengths: those of a file, of which a million samples are drawn.
//!
//! # What is assumed
//!
//! * [`Class`]: the memory and the speed of cards, and what a position takes of the memory. A card of speed 1 takes for a
//!   position what the measured core does, or a twentieth; the cost of a micro-batch and of a step is the host's, and stays.
//! * Steps are those of a [`StepPlanner`](plimsoll_sampler::StepPlanner) whose batches have as many samples as all devices have room
//!   for together, in one window: that of a run holds fewer samples than a batch of a thousand devices, and mixes lengths.
//! * The first steps, in which [`Speeds`](plimsoll_sampler::Speeds) become known, do not count.
//! * [`Network`]: messages have a latency and a bandwidth, whoever else sends.
//!   Ranks add as `plimsoll_fleet::Mpi` does: in pieces, each rank a share that it gets from all and gives to all, which is
//!   2 (n − 1) messages a piece, and 2 (n − 1) / n of the values.
//!   With a tree in place of the pairs it would be 2 log₂ n messages.
//!
//! # What is counted
//!
//! * `idle`: the mean over the devices of the share of a step in which a device waits for the slowest.
//! * `used`: the padded positions of a device's largest micro-batch over those that it has room for; `least` is that of the
//!   class that uses least.
//! * `ratio`: positions a second over those of the rule that binds all devices by the smallest.
//!
//! # Not simulated
//!
//! Devices that fail, networks that are shared with others, and a reduction that overlaps with the backward pass.

mod cost;
mod exchange;
mod network;
mod report;
mod rule;
mod step;
mod suite;
mod world;

pub use self::cost::{StepCost, Timed};
pub use self::exchange::{Exchange, measure_ranks, measure_threads};
pub use self::network::Network;
pub use self::report::{Cluster, Report, Row};
pub use self::rule::Rule;
pub use self::step::{Stepped, run_step};
pub use self::suite::{Sizes, measure};
pub use self::world::{Class, World, padded};
