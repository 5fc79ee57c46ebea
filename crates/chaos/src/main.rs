//! Whole trainings under faults: is anything lost?
//!
//! ```text
//! chaos PROGRAM OUT [--rounds N] [--seed S] [--round K] [--threads N] [--no-picture]
//! ```
//!
//! `PROGRAM` is `plimsoll-faulty`: all that `plimsoll` does, under faults that are injected; `OUT` a folder for `chaos.json`,
//! `chaos.md` and the picture.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line program talks to its terminal")]

mod args;
mod audit;
mod damage;
mod images;
mod kind;
mod log;
mod picture;
mod plan;
mod process;
mod references;
mod report;
mod rng;
mod round;
mod rounds;
mod setting;
mod signals;
mod subject;
mod verdict;
mod watch;
mod weights;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::args::Args;

/// Why there are no figures.
type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Where everything is.
#[derive(Debug)]
struct Place {
    program: PathBuf,
    /// Whether the program starts its worker again by itself.
    is_supervised: bool,
    /// Where the runs go.
    work: PathBuf,
    /// Whether somebody has asked for the end.
    stop: Arc<AtomicBool>,
}

fn main() -> ExitCode {
    let args = match Args::parse(lexopt::Parser::from_env()) {
        Ok(None) => {
            println!("{}", args::USAGE);
            return ExitCode::SUCCESS;
        }
        Ok(Some(args)) => Ok(args),
        Err(error) => Err(error),
    };
    match args.and_then(|args| rounds::command(&args)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: failed to {error}");
            ExitCode::FAILURE
        }
    }
}
