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
use plimsoll_monitor::{ComparedRun, Comparison, TrainingReport, steps_csv};

pub(crate) use self::recorded::Recorded;
use crate::args::ReportArgs;
use crate::beat::Beat;
use crate::event_file;
use crate::exit::{UserError, user_error};

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
    let beat = Beat::start("reading");
    let mut runs = Vec::with_capacity(args.runs.len());
    for (n_done, path) in args.runs.iter().enumerate() {
        beat.at("runs", n_done, args.runs.len());
        runs.push(Recorded::read(path)?);
    }
    drop(beat);
    if let Some(folder) = &args.tensorboard {
        for run in &runs {
            let file = event_file::of_log(folder, run)?;
            eprintln!("written     {}", file.display());
        }
    }
    match <[Recorded; 1]>::try_from(runs) {
        Ok([run]) => of_one(args, &run),
        Err(runs) => of_several(args, runs),
    }
}

/// Makes the report of a run again.
fn of_one(args: &ReportArgs, run: &Recorded) -> anyhow::Result<ExitCode> {
    for note in &run.notes {
        eprintln!("warning: {note}");
    }
    let out = folder(args.out.as_deref().unwrap_or(&run.path))?;
    let beat = Beat::start("report");
    let report: TrainingReport = outputs::write(out, &run.events, &run.facts, &run.config)
        .map_err(|error| user_error(format!("{error}; `--out DIR` takes another folder")))?;
    if args.csv {
        let path = out.join("steps.csv");
        write_whole(&path, steps_csv(&run.events).as_bytes()).map_err(|error| cannot_write(&path, &error))?;
    }
    drop(beat);
    println!("{}", TrainingReport { out_dir: out.display().to_string(), ..report }.to_table().trim_end());
    Ok(ExitCode::SUCCESS)
}

/// Compares runs.
fn of_several(args: &ReportArgs, runs: Vec<Recorded>) -> anyhow::Result<ExitCode> {
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

/// Returns the columns of the terminal; a file or a pipe has as many as are needed.
fn width() -> usize {
    let columns = || terminal_size::terminal_size_of(stdout()).map_or(80, |it| usize::from(it.0.0));
    if stdout().is_terminal() { columns() } else { usize::MAX }
}

/// Makes a folder where there is none.
fn folder(path: &Path) -> Result<&Path, UserError> {
    fs::create_dir_all(path).map_err(|error| cannot_write(path, &error))?;
    Ok(path)
}

pub(crate) fn cannot_write(path: &Path, error: &std::io::Error) -> UserError {
    user_error(format!("write {}: {error}", path.display()))
}
