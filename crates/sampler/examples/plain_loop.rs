//! Feeds a plain loop with batches of generated utterances, and says how good the plan is.

#![expect(clippy::print_stdout, reason = "an example says what came of it")]

use plimsoll_sampler::{Admit, AdmitCounts, BatchPlanner, Oversize, PaddedBudget, PlanConfig, SamplerError};

/// Frames of 10 ms, some 40 utterances.
const MAX_FRAMES: u64 = 60_000;

fn main() -> Result<(), SamplerError> {
    // Frames of 100 000 utterances, each the sum of three numbers: some are too short, and some above 24 s.
    let mixed = |number: u32| number.wrapping_mul(2_654_435_761) ^ number.wrapping_mul(40_503) >> 15;
    let part = |number: u32| (mixed(mixed(number)) >> 8) % 840;
    let frames: Vec<u32> = (0..100_000u32).map(|id| part(3 * id) + part(3 * id + 1) + part(7 * id + 2)).collect();
    let admit = Admit { shortest: 150, longest: 2_400, too_short: Oversize::Skip, too_long: Oversize::Truncate };
    let admitted = admit.all(&frames)?;
    let AdmitCounts { too_short, empty, truncated, .. } = admitted.counts;
    println!("{too_short} too short, {empty} empty, {truncated} cut");

    let config = PlanConfig { seed: 1, multiple_of: 4, drop_last: true, ..PlanConfig::default() };
    let planner = BatchPlanner::try_new(admitted.index, PaddedBudget([MAX_FRAMES]), config)?;
    let mut n_frames = 0;
    for batch in planner.batches(0) {
        // A program reads these utterances, whose ids `admitted.ids` has by their places, pads each to `batch.cell[0]`
        // frames, and trains with them.
        n_frames +=
            batch.ids.iter().filter_map(|place| planner.index().get(*place)).map(|it| u64::from(it[0])).sum::<u64>();
    }
    let report = planner.report(0, &planner.plan_epoch(0));
    println!("{n_frames} frames in {} batches, of which {} would do at least", report.n_batches, report.lower_bound);
    println!("padding {:.2} %, {} dropped", 100.0 * report.waste[0], report.dropped);
    println!("{:.2} % of the mates meet again in the next epoch", 100.0 * report.mates_kept.kept);
    Ok(())
}
