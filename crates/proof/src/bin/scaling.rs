//! Divides steps among many devices: `scaling OUT.json LENGTHS RUN..`.

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

use lexopt::Parser;
use plimsoll_files::write_whole;
use plimsoll_monitor::decode;
use plimsoll_proof::sampler::read_lengths;
use plimsoll_proof::scaling::{Exchange, Row, Sizes, StepCost, Timed, measure, measure_threads};
use plimsoll_proof::words;

/// Values of a bias, of a small model and of the gradients of a transformer of 40 MB.
const N_VALUES: [usize; 3] = [1_000, 1_000_000, 10_000_000];

/// Numbers of ranks that are measured.
const N_RANKS: [u32; 2] = [2, 4];

const USAGE: &str = "write `scaling OUT.json FOLDER_OF_LENGTH_FILES EVENTS.jsonl..`, or `scaling rank` under mpirun";

const ALIKE: &str = "tell what a step, a micro-batch and a position take: the steps of these logs are too much alike; name logs \
                     of runs with micro-batches of several sizes, and steps of several";

fn main() -> Result<(), Box<dyn Error>> {
    let Some(args) = words(Parser::from_env(), USAGE)? else {
        return Ok(writeln!(io::stdout(), "{USAGE}")?);
    };
    if args.first().is_some_and(|it| it == "rank") {
        return processes::rank();
    }
    let mut args = args.into_iter().map(PathBuf::from);
    let (out, lengths) = (args.next().ok_or(USAGE)?, args.next().ok_or(USAGE)?);
    let mut steps = Vec::new();
    for path in args {
        steps.extend(timed(&path).map_err(|error| format!("failed to read {}: {error}", path.display()))?);
    }
    if steps.is_empty() {
        return Err(USAGE.into());
    }
    let cost = StepCost::fit(&steps).ok_or(ALIKE)?;
    let mut stdout = io::stdout();
    writeln!(stdout, "of {} steps: {cost}", steps.len())?;
    let exchanges = exchanges(&mut stdout)?;
    writeln!(stdout, "{}", Row::HEAD)?;
    let report = measure(&Sizes::default(), &read_lengths(&lengths)?, cost, exchanges, &mut |row| {
        // A terminal that is gone is no reason to stop.
        let _ = writeln!(stdout, "{row}");
    })?;
    write!(stdout, "{report}")?;
    if let Some(folder) = out.parent() {
        fs::create_dir_all(folder)?;
    }
    Ok(write_whole(&out, serde_json::to_string(&report)?.as_bytes())?)
}

/// Returns the steps of a run's log.
fn timed(path: &Path) -> Result<Vec<Timed>, Box<dyn Error>> {
    Ok(Timed::of(&decode(&fs::read_to_string(path)?)?.events))
}

/// Measures threads, and processes where they can be started.
fn exchanges(stdout: &mut io::Stdout) -> Result<Vec<Exchange>, Box<dyn Error>> {
    let mut exchanges = N_RANKS.map(|it| measure_threads(it, &N_VALUES)).into_iter().collect::<Result<Vec<_>, _>>()?;
    for n_ranks in N_RANKS {
        match processes::measure(n_ranks) {
            Ok(it) => exchanges.push(it),
            Err(why) => writeln!(stdout, "{n_ranks} processes are left out: {why}")?,
        }
    }
    Ok(exchanges)
}

#[cfg(feature = "mpi")]
mod processes {
    use std::env;
    use std::error::Error;
    use std::io::{self, Write};
    use std::process::Command;

    use plimsoll_fleet::{Fleet, Mpi};
    use plimsoll_proof::scaling::{Exchange, measure_ranks};

    use super::N_VALUES;

    /// Measures as one of the ranks; the first says what came of it.
    pub(super) fn rank() -> Result<(), Box<dyn Error>> {
        let mut fleet = Mpi::join()?;
        let exchange = measure_ranks(&mut fleet, "processes", &N_VALUES)?;
        if fleet.rank() == 0 {
            writeln!(io::stdout(), "{}", serde_json::to_string(&exchange)?)?;
        }
        fleet.leave();
        Ok(())
    }

    /// Starts so many ranks of this program.
    pub(super) fn measure(n_ranks: u32) -> Result<Exchange, Box<dyn Error>> {
        let mut command = Command::new("mpirun");
        command.args(["-n", &n_ranks.to_string()]).arg(env::current_exe()?).arg("rank");
        // Open MPI starts no more ranks than there are cores, and none for root, unless it is told to.
        for name in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"] {
            command.env(name, "1");
        }
        let output = command.output()?;
        let said = |it: &[u8]| String::from_utf8_lossy(it).trim().to_owned();
        if !output.status.success() {
            return Err(format!("mpirun ends with {}: {}", output.status, said(&output.stderr)).into());
        }
        Ok(serde_json::from_str(&said(&output.stdout))?)
    }
}

#[cfg(not(feature = "mpi"))]
mod processes {
    use std::error::Error;

    use plimsoll_proof::scaling::Exchange;

    const NOT_BUILT: &str = "this program was built without the feature `mpi`";

    pub(super) fn rank() -> Result<(), Box<dyn Error>> {
        Err(NOT_BUILT.into())
    }

    pub(super) fn measure(_n_ranks: u32) -> Result<Exchange, Box<dyn Error>> {
        Err(NOT_BUILT.into())
    }
}
