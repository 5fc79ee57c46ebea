//! The command line.

use std::path::PathBuf;

use lexopt::Arg::{Long, Short, Value};
use lexopt::{Parser, ValueExt};

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
    pub(crate) fn parse(args: Parser) -> Result<Option<Self>, Failed> {
        Self::read(args).map_err(|error| format!("understand the command line: {error}; {USAGE}").into())
    }

    fn read(mut args: Parser) -> Result<Option<Self>, lexopt::Error> {
        let (mut words, mut has_picture) = (Vec::new(), true);
        let (mut rounds, mut seed, mut round, mut threads) = (300, 0, None, 2);
        while let Some(arg) = args.next()? {
            match arg {
                Long("help") | Short('h') => return Ok(None),
                Long("rounds") => rounds = args.value()?.parse()?,
                Long("seed") => seed = args.value()?.parse()?,
                Long("round") => round = Some(args.value()?.parse()?),
                Long("threads") => threads = args.value()?.parse()?,
                Long("no-picture") => has_picture = false,
                Value(word) => words.push(PathBuf::from(word)),
                Long(_) | Short(_) => return Err(arg.unexpected()),
            }
        }
        let [program, out] = <[PathBuf; 2]>::try_from(words).map_err(|_| "it names two files")?;
        Ok(Some(Self {
            program,
            out,
            rounds,
            seed,
            round,
            threads: usize::clamp(threads, 1, 64),
            has_picture: has_picture && round.is_none(),
        }))
    }
}
