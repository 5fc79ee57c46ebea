//! `plimsoll plan-batches`.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use plimsoll_files::write_whole_with;
use plimsoll_sampler::{BatchPlanner, Batches, Mixing, PaddedBudget, PlanConfig, PlanError, PlanReport, SampleIndex};
use serde::Serialize;

use crate::args::PlanBatchesArgs;
use crate::beat::Beat;
use crate::exit::user_error;
use crate::lengths::read_lengths;
use crate::places::check_writable;

/// A plan of ten million samples is 80 MB: large pieces, few calls.
const BUFFER_BYTES: usize = 1 << 20;

/// What is said of a plan, and how long it took.
#[derive(Debug, Serialize)]
struct Said {
    #[serde(flatten)]
    report: PlanReport,
    planning_seconds: f64,
}

pub(crate) fn plan_batches(args: &PlanBatchesArgs) -> anyhow::Result<ExitCode> {
    check_out(&args.out, &args.lengths)?;
    if let Some(report) = &args.report {
        check_out(report, &args.lengths)?;
        if is_same_file(report, &args.out) {
            return Err(user_error(format!("write {}: it is to hold the plan", report.display())).into());
        }
    }
    let beat = Beat::start("planning");
    let lengths = read_lengths(&args.lengths, args.budget)?;
    let window = args.window.map(|it| usize::try_from(it).unwrap_or(usize::MAX));
    let config = PlanConfig { seed: args.seed, window, ..PlanConfig::default() };
    let begun = Instant::now();
    let planner = SampleIndex::try_new([lengths])
        .map_err(PlanError::from)
        .and_then(|index| BatchPlanner::try_new(index, PaddedBudget([args.budget]), config))
        .map_err(|error| user_error(error.to_string()))?;
    let batches = planner.plan_epoch(args.epoch);
    let elapsed = begun.elapsed();
    write(&args.out, |file| encode(&batches, file))?;
    let said = Said { report: planner.report(args.epoch, &batches), planning_seconds: elapsed.as_secs_f64() };
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
fn check_out(out: &Path, lengths: &Path) -> anyhow::Result<()> {
    check_writable(out)?;
    match (fs::canonicalize(out), fs::canonicalize(lengths)) {
        (Ok(place), Ok(lengths)) if place == lengths => {
            Err(user_error(format!("write {}: it holds the lengths", out.display())).into())
        }
        _ => Ok(()),
    }
}

fn write(out: &Path, content: impl FnOnce(&mut BufWriter<&mut File>) -> io::Result<()>) -> anyhow::Result<()> {
    let written = write_whole_with(out, |file| {
        let mut file = BufWriter::with_capacity(BUFFER_BYTES, file);
        content(&mut file)?;
        file.flush()
    });
    written.with_context(|| format!("write {}", out.display()))
}

/// The ids in the order of the batches, then where each batch begins and the last one ends.
fn encode(batches: &Batches<1>, out: &mut impl Write) -> io::Result<()> {
    for id in batches.iter().flat_map(|batch| batch.ids) {
        out.write_all(&u64::from(*id).to_le_bytes())?;
    }
    let mut end = 0u64;
    out.write_all(&end.to_le_bytes())?;
    for batch in batches.iter() {
        end += batch.ids.len() as u64;
        out.write_all(&end.to_le_bytes())?;
    }
    Ok(())
}

impl Said {
    fn table(&self) -> String {
        let Self { report, planning_seconds } = self;
        let ns_per_sample = 1e9 * planning_seconds / report.n_samples as f64;
        let more = percent(report.over_lower_bound(), 2);
        let rows = [
            ("samples", report.n_samples.to_string()),
            ("batches", report.n_batches.to_string()),
            ("lower bound", format!("{}, the plan has {more} more", report.lower_bound)),
            ("padding", percent(report.waste[0], 3)),
            ("mates kept", mates(&report.mates_kept)),
            ("planning", format!("{planning_seconds:.3} s on the clock, {ns_per_sample:.1} ns a sample")),
        ];
        rows.map(|(key, value)| format!("{key:<12} {value}")).join("\n")
    }
}

/// The share of a batch's pairs that meet again, what was wanted, and what these lengths keep at most.
fn mates(Mixing { wanted, reachable, kept }: &Mixing) -> String {
    let [kept, wanted, reachable] = [*kept, wanted.get(), reachable.get()].map(|share| percent(share, 2));
    format!("{kept} in the next epoch; {wanted} wanted, at most {reachable} with these lengths")
}

fn percent(share: f64, n_digits: usize) -> String {
    format!("{:.n_digits$} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(lengths: &[u32], budget: u64) -> Batches<1> {
        let index = SampleIndex::try_new([lengths]).unwrap();
        BatchPlanner::try_new(index, PaddedBudget([budget]), PlanConfig::default()).unwrap().plan_epoch(0)
    }

    #[test]
    fn a_plan_is_ids_and_then_offsets() {
        let batches = planned(&[5, 1, 6, 1, 2], 12);
        let mut bytes = Vec::new();
        encode(&batches, &mut bytes).unwrap();
        let numbers: Vec<u64> = bytes.chunks(8).map(|it| u64::from_le_bytes(it.try_into().unwrap())).collect();
        let (ids, offsets) = numbers.split_at(5);
        assert_eq!((offsets.len(), offsets[0], offsets[2]), (3, 0, 5));
        let mut batch: Vec<_> = ids[..usize::try_from(offsets[1]).unwrap()].to_vec();
        batch.sort_unstable();
        assert!(batch == [0, 2] || batch == [1, 3, 4], "{batch:?}");
    }

    #[test]
    fn a_plan_that_cannot_be_written_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("plan");
        fs::create_dir(&out).unwrap();
        assert!(write(&out, |file| encode(&planned(&[1], 1), file)).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn neither_a_folder_nor_the_lengths_are_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let lengths = folder.path().join("lengths.txt");
        fs::write(&lengths, "1\n").unwrap();
        let check = |out: &Path| check_out(out, &lengths).map_err(|it| it.to_string());
        assert!(check(folder.path()).unwrap_err().ends_with(": it is a folder"));
        assert!(check(&folder.path().join("./lengths.txt")).unwrap_err().ends_with(": it holds the lengths"));
        assert_eq!(check(&folder.path().join("plan")), Ok(()));
    }

    #[test]
    fn the_table_says_what_the_plan_costs() {
        let index = SampleIndex::try_new([vec![5, 1, 6, 1, 2]]).unwrap();
        let planner = BatchPlanner::try_new(index, PaddedBudget([12]), PlanConfig::default()).unwrap();
        let batches = planner.plan_epoch(0);
        let said = Said { report: planner.report(0, &batches), planning_seconds: 1e-6 };
        let expected = "\
samples      5
batches      2
lower bound  2, the plan has 0.00 % more
padding      16.667 %
mates kept   100.00 % in the next epoch; 3.00 % wanted, at most 100.00 % with these lengths
planning     0.000 s on the clock, 200.0 ns a sample";
        assert_eq!(said.table(), expected);
        let json = serde_json::to_value(&said).unwrap();
        assert_eq!((&json["n_batches"], &json["mates_kept"]["wanted"]), (&2.into(), &0.03.into()));
        assert!(json["mates_kept"]["kept"].is_f64() && json["mates_kept"]["reachable"].is_f64(), "{json}");
    }
}
