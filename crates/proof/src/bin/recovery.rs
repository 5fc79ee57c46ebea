//! Simulates long runs under disturbances: `recovery OUT.json [STEPS]`.

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::{fs, io};

use lexopt::{Parser, ValueExt};
use plimsoll_files::write_whole;
use plimsoll_proof::recovery::{Report, cases, simulate, table_head};
use plimsoll_proof::words;

/// Steps of each simulation, unless a number is given.
const N_STEPS: u64 = 1_000_000;

const SEED: u64 = 1;

const USAGE: &str = "write `recovery OUT.json [STEPS]`";

fn main() -> Result<(), Box<dyn Error>> {
    let Some(args) = words(Parser::from_env(), USAGE)? else {
        return Ok(writeln!(io::stdout(), "{USAGE}")?);
    };
    let mut args = args.into_iter();
    let out = PathBuf::from(args.next().ok_or(USAGE)?);
    let n_steps = args.next().map_or(Ok(N_STEPS), |steps| steps.parse())?;
    let mut stdout = io::stdout();
    writeln!(stdout, "{n_steps} steps\n{}", table_head())?;
    let mut report = Report::default();
    for case in cases() {
        let row = simulate(&case, n_steps, SEED)?;
        // A terminal that is gone is no reason to stop.
        let _ = writeln!(stdout, "{row}");
        report.rows.push(row);
    }
    if let Some(folder) = out.parent() {
        fs::create_dir_all(folder)?;
    }
    Ok(write_whole(&out, serde_json::to_string_pretty(&report)?.as_bytes())?)
}
