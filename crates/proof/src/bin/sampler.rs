//! Plans epochs of many samples: `sampler OUT.json [FOLDER OF LENGTH FILES]`.

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

use lexopt::Parser;
use plimsoll_files::write_whole;
use plimsoll_probe::TrackingAllocator;
use plimsoll_proof::sampler::{CLOCK, Report, Sizes, compared_head, measure, read_lengths, table_head};
use plimsoll_proof::words;

/// Counts what the planner holds.
#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

const USAGE: &str = "write `sampler OUT.json [FOLDER OF LENGTH FILES]`";

fn main() -> Result<(), Box<dyn Error>> {
    let Some(args) = words(Parser::from_env(), USAGE)? else {
        return Ok(writeln!(io::stdout(), "{USAGE}")?);
    };
    let mut args = args.into_iter().map(PathBuf::from);
    let out = args.next().ok_or(USAGE)?;
    let recorded = args.next().map(|folder| read_lengths(&folder)).transpose()?.unwrap_or_default();
    let mut stdout = io::stdout();
    writeln!(stdout, "{CLOCK}\n{}", table_head())?;
    let report = measure(Sizes::default(), &recorded, &mut |row| {
        // A terminal that is gone is no reason to stop measuring.
        let _ = writeln!(stdout, "{row}");
    })?;
    publish(&out, &report).map_err(|error| format!("failed to write {}: {error}", out.display()))?;
    for packed in &report.packed {
        writeln!(stdout, "{packed}")?;
    }
    writeln!(stdout, "{}", report.resume)?;
    for changes in &report.changes {
        writeln!(stdout, "{changes}")?;
    }
    for mixture in &report.mixtures {
        writeln!(stdout, "{mixture}")?;
    }
    writeln!(stdout, "\n{}", compared_head())?;
    for peer in &report.peers {
        writeln!(stdout, "{peer}")?;
    }
    writeln!(stdout)?;
    for target in &report.targets {
        writeln!(stdout, "{target}")?;
    }
    Ok(())
}

fn publish(out: &Path, report: &Report) -> io::Result<()> {
    if let Some(folder) = out.parent() {
        fs::create_dir_all(folder)?;
    }
    write_whole(out, serde_json::to_string_pretty(report)?.as_bytes())
}
