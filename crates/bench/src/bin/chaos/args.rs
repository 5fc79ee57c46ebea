//! The command line.

use std::path::PathBuf;

use crate::Failed;

const USAGE: &str = "understand the command line: write `PROGRAM OUT [--rounds N] [--seed S] [--round K] \
                     [--threads N] [--no-picture]`";

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Args {
    pub(crate) program: PathBuf,
    pub(crate) out: PathBuf,
    pub(crate) rounds: u64,
    pub(crate) seed: u64,
    /// The one round to run.
    pub(crate) round: Option<u64>,
    /// Rounds at a time.
    pub(crate) threads: usize,
    pub(crate) has_picture: bool,
}

impl Args {
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, Failed> {
        let (mut words, mut numbers) = (Vec::new(), [None; 4]);
        let names = ["--rounds", "--seed", "--round", "--threads"];
        let mut has_picture = true;
        while let Some(arg) = args.next() {
            if let Some(at) = names.iter().position(|it| *it == arg) {
                numbers[at] = Some(args.next().and_then(|it| it.parse::<u64>().ok()).ok_or(USAGE)?);
            } else if arg == "--no-picture" {
                has_picture = false;
            } else {
                words.push(PathBuf::from(arg));
            }
        }
        let Ok([program, out]) = <[PathBuf; 2]>::try_from(words) else { return Err(USAGE.into()) };
        let [rounds, seed, round, threads] = numbers;
        Ok(Self {
            program,
            out,
            rounds: rounds.unwrap_or(300),
            seed: seed.unwrap_or(0),
            round,
            threads: usize::try_from(threads.unwrap_or(2).clamp(1, 64))?,
            has_picture: has_picture && round.is_none(),
        })
    }
}
