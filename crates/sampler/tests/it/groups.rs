//! Samples that stay together.

use plimsoll_sampler::{Groups, IndexError, Lattice, Oversize, PackConfig, PaddedBudget, Piece, PlanConfig, Split};
use proptest::prelude::*;

const BUDGET: u64 = 400;

proptest! {
    #[test]
    fn groups_come_whole_once_an_epoch_and_within_the_budget(
        samples in prop::collection::vec((1u32..40, 0u32..40), 1..200), has_edges: bool, most_samples in 10u32..60
    ) {
        let (lengths, group_of): (Vec<u32>, Vec<u32>) = samples.into_iter().unzip();
        let groups = Groups::try_new(&lengths, &group_of).unwrap();
        let edges = if has_edges { vec![10, 20, 40] } else { vec![] };
        let lattice = Lattice::try_new([edges]).unwrap();
        let config = PlanConfig { lattice, most_samples, oversize: Oversize::Skip, ..PlanConfig::default() };
        let Ok(planner) = groups.planner(PaddedBudget([BUDGET]), config) else { return Ok(()) };
        let mut seen = vec![false; lengths.len()];
        for batch in planner.batches(1).map(|batch| groups.samples(&batch)) {
            prop_assert!(batch.ids.len() as u64 * u64::from(batch.cell[0]) <= BUDGET);
            prop_assert!(batch.ids.len() <= most_samples as usize);
            for at in batch.ids.iter().map(|id| usize::try_from(*id).unwrap()) {
                prop_assert!(lengths[at] <= batch.cell[0] && !seen[at]);
                seen[at] = true;
                let mates = (0..).zip(&group_of).filter(|(_, group)| **group == group_of[at]);
                prop_assert!(mates.into_iter().all(|(mate, _)| batch.ids.contains(&mate)));
            }
        }
        let skipped = planner.oversize().map(|(group, _)| groups.members(group).len()).sum::<usize>();
        prop_assert_eq!(seen.iter().filter(|it| !**it).count(), skipped);
    }

    #[test]
    fn groups_lie_together_in_rows(samples in prop::collection::vec((1u32..9, 0u32..30), 1..200)) {
        let (lengths, group_of): (Vec<u32>, Vec<u32>) = samples.into_iter().unzip();
        let groups = Groups::try_new(&lengths, &group_of).unwrap();
        let Ok(planner) = groups.pack_planner(PackConfig::new(100)) else { return Ok(()) };
        let rows = groups.rows(&planner.plan_epoch(0));
        let mut ids: Vec<u32> = rows.iter().flatten().map(|piece| piece.id).collect();
        for row in rows.iter() {
            prop_assert!(row.iter().all(|piece| (piece.start, piece.end) == (0, lengths[piece.id as usize])));
            prop_assert!(row.iter().map(Piece::len).sum::<u32>() <= 100);
        }
        let n_runs = ids.chunk_by(|a, b| group_of[*a as usize] == group_of[*b as usize]).count();
        prop_assert_eq!(n_runs, groups.len());
        ids.sort_unstable();
        prop_assert!(ids.into_iter().eq(0..u32::try_from(lengths.len()).unwrap()));
    }
}

#[test]
fn what_does_not_stay_together_is_refused_by_name() {
    let groups = Groups::try_new(&[10, 30, 20, 30], &[7, 9, 7, 9]).unwrap();
    assert_eq!((groups.len(), groups.members(0), groups.members(1)), (2, &[0, 2][..], &[1, 3][..]));
    let refused = |budget, config| groups.planner(PaddedBudget([budget]), config).unwrap_err().to_string();
    let message = "group samples: group 9 has 2 samples, the longest of length 30, and 1 of these fit together";
    assert_eq!(refused(59, PlanConfig::default()), message);
    let truncate = PlanConfig { oversize: Oversize::Truncate, ..PlanConfig::default() };
    assert_eq!(refused(100, truncate), "group samples: `oversize` is truncate, groups stay whole");
    let multiple = PlanConfig { multiple_of: 4, ..PlanConfig::default() };
    assert_eq!(refused(100, multiple), "group samples: `multiple_of` is above 1, groups stay whole");
    let error = groups.pack_planner(PackConfig::new(59)).unwrap_err().to_string();
    let message = "group samples: group 9 has length 60 in all, a row has room for 59; set a longer `row_len`";
    assert_eq!(error, message);
    let cut = PackConfig { split: Split::Cut { overlap: 0 }, ..PackConfig::new(20) };
    let error = groups.pack_planner(cut).unwrap_err().to_string();
    assert_eq!(error, "group samples: `split` is cut, groups stay whole");
    let error = Groups::try_new(&[1, 2], &[0]).unwrap_err();
    assert_eq!(error, IndexError::GroupCount { groups: 1, n_samples: 2 });
    assert_eq!(error.to_string(), "group samples: there are 1 numbers of groups for 2 samples");
}

#[test]
fn groups_of_few_sizes_leave_little_empty() {
    let group_of: Vec<u32> = (0..5_000u32).flat_map(|group| (0..2 + group % 3).map(move |_| group)).collect();
    let lengths: Vec<u32> = (0..group_of.len()).map(|id| 100 + u32::try_from(id * 7919 % 81).unwrap()).collect();
    let groups = Groups::try_new(&lengths, &group_of).unwrap();
    let planner = groups.planner(PaddedBudget([8_192]), PlanConfig::default()).unwrap();
    let batches: Vec<_> = planner.batches(0).map(|batch| groups.samples(&batch)).collect();
    let total: u64 = lengths.iter().map(|length| u64::from(*length)).sum();
    let filled = total as f64 / (batches.len() as u64 * 8_192) as f64;
    assert!(filled > 0.8, "{filled} of the budget, in {} batches", batches.len());
}
