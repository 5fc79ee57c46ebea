//! `plimsoll plan-batches`.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use plimsoll_sampler::{BatchPlanner, Batches, PaddedBudget, PlanConfig, PlanReport, SampleIndex};

use crate::args::PlanBatchesArgs;
use crate::exit::user_error;
use crate::lengths::read_lengths;

/// A plan of ten million samples is 80 MB: large pieces, few calls.
const BUFFER_BYTES: usize = 1 << 20;

pub(crate) fn plan_batches(args: &PlanBatchesArgs) -> anyhow::Result<ExitCode> {
    check_out(&args.out, &args.lengths)?;
    let lengths = read_lengths(&args.lengths, args.budget)?;
    let window = args.window.map(|it| usize::try_from(it).unwrap_or(usize::MAX));
    let config = PlanConfig { seed: args.seed, window, ..PlanConfig::default() };
    let begun = Instant::now();
    let planner = SampleIndex::try_new([lengths])
        .and_then(|index| BatchPlanner::try_new(index, PaddedBudget([args.budget]), config))
        .map_err(|error| user_error(error.to_string()))?;
    let batches = planner.plan_epoch(args.epoch);
    let elapsed = begun.elapsed();
    write(&batches, &args.out).with_context(|| format!("write {}", args.out.display()))?;
    println!("{}\nplan: {}", table(&planner.report(&batches), elapsed), args.out.display());
    Ok(ExitCode::SUCCESS)
}

/// Refuses what a plan would do harm to.
fn check_out(out: &Path, lengths: &Path) -> anyhow::Result<()> {
    let Ok(there) = fs::metadata(out) else { return Ok(()) };
    let refused = |reason| Err(user_error(format!("write {}: {reason}", out.display())).into());
    if !there.is_file() {
        return refused("it is no file");
    }
    match (fs::canonicalize(out), fs::canonicalize(lengths)) {
        (Ok(out), Ok(lengths)) if out == lengths => refused("it holds the lengths"),
        _ => Ok(()),
    }
}

/// Writes the plan aside and renames it: whoever reads the file never sees half of it.
fn write(batches: &Batches<1>, out: &Path) -> io::Result<()> {
    let mut name = out.as_os_str().to_owned();
    name.push(".new");
    let aside = PathBuf::from(name);
    let written = File::create(&aside).and_then(|file| {
        let mut file = BufWriter::with_capacity(BUFFER_BYTES, file);
        encode(batches, &mut file)?;
        file.flush()
    });
    let published = written.and_then(|()| fs::rename(&aside, out));
    if published.is_err() {
        // What is wrong has been found already; a file that was never made cannot be removed.
        let _ = fs::remove_file(&aside);
    }
    published
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

fn table(report: &PlanReport, elapsed: Duration) -> String {
    let ns_per_sample = 1e9 * elapsed.as_secs_f64() / report.n_samples as f64;
    let rows = [
        ("samples", report.n_samples.to_string()),
        ("batches", report.n_batches.to_string()),
        (
            "lower bound",
            format!("{}, the plan has {:.2} % more", report.lower_bound, 100.0 * report.over_lower_bound()),
        ),
        ("padding", format!("{:.3} %", 100.0 * report.waste[0])),
        ("planning", format!("{:.3} s on the clock, {ns_per_sample:.1} ns a sample", elapsed.as_secs_f64())),
    ];
    rows.map(|(key, value)| format!("{key:<12} {value}")).join("\n")
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
        assert!(write(&planned(&[1], 1), &out).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn neither_a_folder_nor_the_lengths_are_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let lengths = folder.path().join("lengths.txt");
        fs::write(&lengths, "1\n").unwrap();
        let check = |out: &Path| check_out(out, &lengths).map_err(|it| it.to_string());
        assert!(check(folder.path()).unwrap_err().ends_with(": it is no file"));
        assert!(check(&folder.path().join("./lengths.txt")).unwrap_err().ends_with(": it holds the lengths"));
        assert_eq!(check(&folder.path().join("plan")), Ok(()));
    }

    #[test]
    fn the_table_says_what_the_plan_costs() {
        let index = SampleIndex::try_new([vec![5, 1, 6, 1, 2]]).unwrap();
        let planner = BatchPlanner::try_new(index, PaddedBudget([12]), PlanConfig::default()).unwrap();
        let report = planner.report(&planner.plan_epoch(0));
        let expected = "\
samples      5
batches      2
lower bound  2, the plan has 0.00 % more
padding      16.667 %
planning     0.000 s on the clock, 200.0 ns a sample";
        assert_eq!(table(&report, Duration::from_micros(1)), expected);
    }
}
