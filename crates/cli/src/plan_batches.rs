//! `plimsoll plan-batches`.

mod groups;
mod lengths;
mod list;
mod plan;
mod said;

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use plimsoll_files::write_whole_with;

use self::plan::plan;
use crate::args::{Format, PlanBatchesArgs};
use crate::beat::Beat;
use crate::exit::user_error;
use crate::places::check_writable;

/// A plan of ten million samples is 80 MB: large pieces, few calls.
const BUFFER_BYTES: usize = 1 << 20;

pub(crate) fn plan_batches(args: &PlanBatchesArgs) -> anyhow::Result<ExitCode> {
    let mut inputs: Vec<&Path> = vec![&args.lengths];
    inputs.extend([&args.tasks, &args.weights, &args.groups].into_iter().flatten().map(PathBuf::as_path));
    for out in [Some(&args.out), args.report.as_ref()].into_iter().flatten() {
        check_out(out, &inputs)?;
    }
    if let Some(report) = args.report.as_ref().filter(|report| is_same_file(report, &args.out)) {
        return Err(user_error(format!("write {}: it is to hold the plan", report.display())).into());
    }
    let beat = Beat::start("planning");
    let (list, said) = plan(args)?;
    write(&args.out, |mut file| match args.format {
        Format::Binary => list.binary(&mut file),
        Format::Json => list.json(args.ranks, &mut file),
    })?;
    if let Some(report) = &args.report {
        write(report, |file| Ok(serde_json::to_writer_pretty(&mut *file, &said)?))?;
    }
    drop(beat);
    println!("{}\nplan: {}", said.table(), args.out.display());
    Ok(ExitCode::SUCCESS)
}

/// Whether two names are of one file, which need not be there yet.
fn is_same_file(a: &Path, b: &Path) -> bool {
    let place = |path: &Path| {
        let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some((fs::canonicalize(folder).ok()?, path.file_name()?.to_owned()))
    };
    a == b || place(a).is_some_and(|it| Some(it) == place(b))
}

/// Refuses what a plan would do harm to.
fn check_out(out: &Path, inputs: &[&Path]) -> anyhow::Result<()> {
    check_writable(out)?;
    let place = fs::canonicalize(out).ok();
    if place.is_some() && inputs.iter().any(|it| fs::canonicalize(it).ok() == place) {
        return Err(user_error(format!("write {}: it holds what is planned", out.display())).into());
    }
    Ok(())
}

fn write(out: &Path, content: impl FnOnce(&mut BufWriter<&mut File>) -> io::Result<()>) -> anyhow::Result<()> {
    let written = write_whole_with(out, |file| {
        let mut file = BufWriter::with_capacity(BUFFER_BYTES, file);
        content(&mut file)?;
        file.flush()
    });
    written.with_context(|| format!("write {}", out.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_cannot_be_written_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("plan");
        fs::create_dir(&out).unwrap();
        assert!(write(&out, |file| file.write_all(b"plan")).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn neither_a_folder_nor_the_lengths_are_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let lengths = folder.path().join("lengths.txt");
        fs::write(&lengths, "1\n").unwrap();
        let check = |out: &Path| check_out(out, &[&lengths]).map_err(|it| it.to_string());
        assert!(check(folder.path()).unwrap_err().ends_with(": it is a folder"));
        assert!(check(&folder.path().join("./lengths.txt")).unwrap_err().ends_with(": it holds what is planned"));
        assert_eq!(check(&folder.path().join("plan")), Ok(()));
    }
}
