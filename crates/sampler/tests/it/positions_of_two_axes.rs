//! What a position of samples over two axes holds, whatever happened before it.

use plimsoll_sampler::{BatchPlanner, Lattice, PaddedBudget, PlanConfig, PlanPosition, SampleIndex};

use crate::common::{Numbers, chats};

type Planner = BatchPlanner<PaddedBudget<2>, 2>;

/// The most bytes of a position, as JSON.
const MOST_BYTES: usize = 4096;

/// Samples of 1 to 16 images with a text.
fn index(n: usize) -> SampleIndex<2> {
    let images = (0..n).map(|at| u32::try_from(at * 7 % 16).unwrap() + 1).collect();
    SampleIndex::try_new([images, chats(n)]).unwrap()
}

fn planner(index: &SampleIndex<2>, images: u64, config: &PlanConfig<2>) -> Planner {
    BatchPlanner::try_new(index.clone(), PaddedBudget([images, 512 * images]), config.clone()).unwrap()
}

/// Goes through an epoch with a change of the rule after so many batches and a few resumptions; every sample comes once,
/// and every position is small.
#[track_caller]
fn check_changes(index: &SampleIndex<2>, config: &PlanConfig<2>, every: usize) {
    let mut numbers = Numbers::new(11);
    let mut number = |below: f64| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number from 0")]
        let number = (numbers.uniform() * below) as u64;
        number
    };
    let mut images = 64;
    let mut epoch = planner(index, images, config).epoch(2);
    let (mut seen, mut largest) = (vec![false; index.n_samples()], 0);
    for n_batches in 1.. {
        let Some(batch) = epoch.next_batch() else { break };
        for id in batch.ids {
            assert!(!std::mem::replace(&mut seen[*id as usize], true), "{id} comes twice");
        }
        let changes = n_batches % every == 0;
        if changes {
            images = 16 + number(200.0);
            epoch = epoch.hand_over(&planner(index, images, config)).unwrap();
        }
        if changes || number(20.0) == 0 {
            let saved = serde_json::to_string(&epoch.position()).unwrap();
            largest = largest.max(saved.len());
            if number(8.0) == 0 {
                let position: PlanPosition = serde_json::from_str(&saved).unwrap();
                epoch = planner(index, images, config).resume(&position).unwrap();
                assert_eq!(epoch.position(), position);
            }
        }
    }
    assert!(seen.into_iter().all(|seen| seen), "samples are lost");
    assert!(largest <= MOST_BYTES, "{largest} bytes");
}

#[test]
fn changes_in_an_epoch_over_two_axes_keep_a_position_small() {
    let edges = Lattice::try_new([vec![1, 2, 4, 8, 16], vec![64, 128, 256, 512, 1024, 2048, 4096]]).unwrap();
    check_changes(&index(30_000), &PlanConfig::default(), 97);
    check_changes(&index(100_000), &PlanConfig { lattice: edges, ..PlanConfig::default() }, 997);
}

#[test]
fn a_change_after_every_batch_over_two_axes_keeps_a_position_small() {
    check_changes(&index(3_000), &PlanConfig::default(), 1);
}
