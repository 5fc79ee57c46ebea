//! `plimsoll report`.

pub(crate) mod facts;
pub(crate) mod outputs;
mod recorded;
mod watch;

use std::fs;
use std::io::{IsTerminal, stdout};
use std::path::Path;
use std::process::ExitCode;

use plimsoll_files::write_whole;
use plimsoll_monitor::{ComparedRun, Comparison, TrainingReport};

pub(crate) use self::recorded::Recorded;
use crate::args::ReportArgs;
use crate::beat::Beat;
use crate::event_file;
use crate::exit::{UserError, cannot_write, user_error};

pub(crate) fn report(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let [first, others @ ..] = args.runs.as_slice() else {
        return Err(user_error("report: name a run directory").into());
    };
    if let Some(flag) = args.of_one_run().filter(|_| !others.is_empty()) {
        return Err(user_error(format!("report: `{flag}` takes one run, and {} are named", args.runs.len())).into());
    }
    if args.watch {
        return watch::watch(first);
    }
    if others.is_empty() { of_one(args, first) } else { of_several(args) }
}

/// Makes the report of a run again.
fn of_one(args: &ReportArgs, path: &Path) -> anyhow::Result<ExitCode> {
    recorded::check(path)?;
    let out = folder(args.out.as_deref().unwrap_or(path))?;
    let elsewhere = |error| user_error(format!("{error}; `--out DIR` takes another folder"));
    let beat = Beat::start("reading");
    let mut tables = outputs::Tables::begin(out, args.csv).map_err(elsewhere)?;
    let run = Recorded::read(path, &mut |event| tables.hear(event))?;
    beat.clear();
    for note in &run.notes {
        eprintln!("warning: {note}");
    }
    write_event_files(args, std::slice::from_ref(&run))?;
    beat.under_way("report", 0, 0);
    tables.end().map_err(elsewhere)?;
    let report: TrainingReport = outputs::write(out, &run.history, &run.facts, &run.config).map_err(elsewhere)?;
    drop(beat);
    println!("{}", TrainingReport { out_dir: out.display().to_string(), ..report }.to_table(width()).trim_end());
    Ok(ExitCode::SUCCESS)
}

/// Compares runs.
fn of_several(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let beat = Beat::start("reading");
    let mut runs = Vec::with_capacity(args.runs.len());
    for (n_done, path) in args.runs.iter().enumerate() {
        beat.at("runs", n_done, args.runs.len());
        runs.push(Recorded::read(path, &mut |_| ())?);
    }
    drop(beat);
    write_event_files(args, &runs)?;
    let runs: Vec<ComparedRun> = runs.into_iter().map(Recorded::compared).collect();
    let comparison = Comparison::new(&runs);
    if let Some(out) = &args.out {
        let out = folder(out)?;
        for (name, content) in
            [("comparison.html", comparison.to_html(&runs)), ("comparison.json", comparison.to_json())]
        {
            let path = out.join(name);
            write_whole(&path, content.as_bytes()).map_err(|error| cannot_write(&path, &error))?;
            eprintln!("written     {}", path.display());
        }
    }
    println!("{}", comparison.to_table(width()).trim_end());
    Ok(ExitCode::SUCCESS)
}

/// Writes event files where they are asked for.
fn write_event_files(args: &ReportArgs, runs: &[Recorded]) -> Result<(), UserError> {
    for (folder, run) in args.tensorboard.iter().flat_map(|folder| runs.iter().map(move |run| (folder, run))) {
        let file = event_file::of_log(folder, run)?;
        eprintln!("written     {}", file.display());
    }
    Ok(())
}

/// Returns the columns of the terminal; a file or a pipe has as many as are needed.
pub(crate) fn width() -> usize {
    let columns = || terminal_size::terminal_size_of(stdout()).map_or(80, |it| usize::from(it.0.0));
    if stdout().is_terminal() { columns() } else { usize::MAX }
}

/// Makes a folder where there is none.
fn folder(path: &Path) -> Result<&Path, UserError> {
    fs::create_dir_all(path).map_err(|error| cannot_write(path, &error))?;
    Ok(path)
}
