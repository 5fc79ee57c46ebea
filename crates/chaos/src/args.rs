//! The command line.

use std::path::PathBuf;

use crate::Failed;

pub(crate) const USAGE: &str = "write `PROGRAM OUT [--rounds N] [--seed S] [--round K] \
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
    /// Reads the command line; none where somebody asks how it is written.
    pub(crate) fn parse(args: impl Iterator<Item = String>) -> Result<Option<Self>, Failed> {
        let (mut words, mut numbers, mut has_picture) = (Vec::new(), [None; 4], true);
        let names = ["--rounds", "--seed", "--round", "--threads"];
        let mut args = args.collect::<Vec<_>>().into_iter();
        if args.as_slice().iter().any(|it| it == "--help" || it == "-h") {
            return Ok(None);
        }
        while let Some(arg) = args.next() {
            if let Some(at) = names.iter().position(|it| *it == arg) {
                numbers[at] = Some(args.next().and_then(|it| it.parse::<u64>().ok()).ok_or(USAGE)?);
            } else if arg == "--no-picture" {
                has_picture = false;
            } else if arg.starts_with('-') {
                return Err(format!("understand the command line: there is no flag `{arg}`; {USAGE}").into());
            } else {
                words.push(PathBuf::from(arg));
            }
        }
        let Ok([program, out]) = <[PathBuf; 2]>::try_from(words) else {
            return Err(format!("understand the command line: {USAGE}").into());
        };
        let [rounds, seed, round, threads] = numbers;
        Ok(Some(Self {
            program,
            out,
            rounds: rounds.unwrap_or(300),
            seed: seed.unwrap_or(0),
            round,
            threads: usize::try_from(threads.unwrap_or(2).clamp(1, 64))?,
            has_picture: has_picture && round.is_none(),
        }))
    }
}
