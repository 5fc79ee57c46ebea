//! From the command line to a command, and from what came of it to an exit code.

use std::process::ExitCode;

use clap::Parser;
use plimsoll_probe::TrackingAllocator;

use crate::args::{Cli, Command};
use crate::exit::Interrupted;
use crate::harness::Harness;
use crate::{
    data, exit, find, generate, plan, plan_batches, predict, probe, ranks, replay, report, say, train, upscale,
};

/// Counts what the process allocates, so that the CPU's memory can be measured.
#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

/// Does what the command line of this process asks for, and returns its exit code.
pub fn run(harness: &'static dyn Harness) -> ExitCode {
    let Cli { command, quiet } = Cli::parse();
    if quiet {
        say::quietly();
    }
    let result = match command {
        Command::Train(args) => train::train(&args, harness),
        Command::Plan(args) => plan::plan(&args, harness),
        Command::Find(args) => find::find(&args, harness),
        Command::Generate(args) => generate::run(&args, harness),
        Command::Upscale(args) => upscale::run(&args, harness),
        Command::Predict(args) => predict::run(&args, harness),
        Command::PlanBatches(args) => plan_batches::plan_batches(&args),
        Command::Data(args) => data::data(&args, harness),
        Command::Probe(args) => probe::probe(&args),
        Command::Report(args) => report::report(&args),
        Command::Replay { logs } => replay::replay(&logs),
        Command::Config(args) => args.layers(None).and_then(|it| it.load()).map_err(Into::into).map(|loaded| {
            print!("{}", loaded.to_toml());
            ExitCode::SUCCESS
        }),
    };
    let code = result.unwrap_or_else(|error| {
        match error.downcast_ref::<Interrupted>() {
            Some(interrupted) => eprintln!("{interrupted}"),
            None => eprintln!("error: failed to {}", exit::describe(error.as_ref())),
        }
        ranks::let_others_part();
        ExitCode::from(exit::exit_code(&error))
    });
    if code == ExitCode::SUCCESS && say::has_failed() { ExitCode::FAILURE } else { code }
}
