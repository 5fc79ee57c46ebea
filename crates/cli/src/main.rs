//! The `plimsoll` binary: a thin line between a terminal and `plimsoll-train`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line program talks to its terminal")]

mod args;
mod beat;
mod built_in;
mod data;
mod display;
mod exit;
#[cfg(feature = "chaos")]
mod faults;
mod find;
#[cfg(test)]
mod fuzz;
mod generate;
mod go_on;
mod jobs;
mod lengths;
mod load;
mod loading;
mod misfits;
mod nearest;
mod places;
mod plan;
mod plan_batches;
mod predict;
mod prepare;
mod probe;
mod replay;
mod reports;
mod runs;
mod settings;
mod shell;
mod signals;
mod soundings;
#[cfg(unix)]
mod supervise;
mod train;
mod trained;
mod upscale;
mod use_it;
mod values;
mod worker;

use std::process::ExitCode;

use clap::Parser;
use plimsoll_probe::TrackingAllocator;

use crate::args::{Cli, Command};

/// Counts what the process allocates, so that the CPU's memory can be measured.
#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Train(args) => train::train(&args),
        Command::Plan(args) => plan::plan(&args),
        Command::Find(args) => find::find(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Upscale(args) => upscale::run(&args),
        Command::Predict(args) => predict::run(&args),
        Command::PlanBatches(args) => plan_batches::plan_batches(&args),
        Command::Data(args) => data::data(&args),
        Command::Probe => Ok(probe::probe()),
        Command::Replay { logs } => replay::replay(&logs),
        Command::Config(args) => args.layers(None).and_then(|it| it.load()).map_err(Into::into).map(|loaded| {
            print!("{}", loaded.to_toml());
            ExitCode::SUCCESS
        }),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: failed to {}", exit::describe(error.as_ref()));
        ExitCode::from(exit::exit_code(&error))
    })
}
