//! Holds plans against real devices: one binary that can be carried to another machine.
//!
//! ```text
//! proof predict OUT.json [--device DEVICE].. [--job JOB].. [--data FOLDER] [--cells N]
//! proof finder OUT.json [--device DEVICE]..
//! proof gpu-check FOLDER [--data FOLDER]
//! proof end-to-end OUT.json TEXT RECORDINGS
//! ```
//!
//! Everything that is planned, or run against a plan, happens in a fresh process of this binary, so that neither the
//! allocator's history nor another plan can help.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line program talks to its terminal")]

mod ahead;
mod args;
mod child;
mod devices;
mod end_to_end;
mod finder;
mod foreign;
mod gpu_check;
mod hold;
mod jobs;
mod memory;
mod mixed;
mod order;
mod predict;
mod product;
mod publish;
mod spawn;
mod whole;

use std::process::ExitCode;

use lexopt::Parser;
use plimsoll_probe::TrackingAllocator;

use crate::args::Command;

/// Why there are no figures.
type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Counts what the process allocates, so that the CPU's memory can be measured.
#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: failed to {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failed> {
    match Command::parse(Parser::from_env())? {
        Command::Help => {
            println!("{}", args::USAGE);
            Ok(())
        }
        Command::Child(order) => child::answer(&order),
        Command::Predict(request) => predict::command(&request),
        Command::Finder { out, devices } => finder::command(&out, &devices),
        Command::GpuCheck { folder, data, whole } => gpu_check::command(&folder, data.as_deref(), whole),
        Command::EndToEnd { out, text, recordings } => end_to_end::command(&out, &text, &recordings),
    }
}
