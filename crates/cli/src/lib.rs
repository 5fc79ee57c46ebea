//! The `plimsoll` program: a thin line between a terminal and `plimsoll-train`.
//!
//! All of it is in this library, and each binary of this package is one call of [`run`].
//! `plimsoll` ships; `plimsoll-faulty` is built for tests, and brings a [`Harness`] of its own, which injects faults or
//! simulates a device.
//!
//! # Invariants
//!
//! * Both binaries run the same code, and differ in what their harness answers. No feature changes it, but those that
//!   build a device in, and `autotune`, which changes Burn.
//! * No Burn: what computes is called through `plimsoll-train` and `plimsoll-workloads`.
//! * The process belongs to the program: its allocator is set here, and signals, arguments and terminal are its own.
//!
//! # Example
//!
//! ```no_run
//! let code: std::process::ExitCode = plimsoll_cli::run(&plimsoll_cli::Plain);
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

#[macro_use]
mod say;

mod args;
mod auto_batch;
mod beat;
mod begins;
mod built_in;
mod data;
mod device;
mod display;
mod event_file;
mod exit;
mod find;
#[cfg(test)]
mod fuzz;
mod generate;
mod go_on;
mod harness;
mod jobs;
mod load;
mod loading;
mod misfits;
mod nearest;
mod place;
mod places;
mod plan;
mod plan_batches;
mod predict;
mod prepare;
mod probe;
mod program;
mod ranks;
mod replay;
mod report;
mod runs;
mod scrape;
mod settings;
mod shell;
mod signals;
mod sizes;
mod soundings;
mod step_settings;
#[cfg(unix)]
mod supervise;
mod told;
mod trace;
mod train;
mod trained;
mod upscale;
mod use_it;
mod values;
mod worker;

pub use harness::{Harness, Plain};
pub use program::run;
