//! Groups of padded samples that stay together.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use plimsoll_probe::Compartment;
use plimsoll_train::{
    Existing, InProcess, Loader, LoaderConfig, LoaderError, LoaderPosition, RunDir, Source, StepUnit, Unit, Wanted,
};
use plimsoll_types::{Bytes, EndReason, Event};
use proptest::prelude::*;

use crate::common::{alone, flex_with, run_in, steps};
use crate::job::{EDGES, N_SAMPLES, Rows, Tiny, length, tiny};
use crate::{config, kept};

fn of_three() -> Arc<Rows> {
    Arc::new(Rows::new(false, None, 3))
}

fn settings(unit: StepUnit, size: u32) -> LoaderConfig {
    config(1, unit, size).loader
}

/// Each group of three is in one step of each epoch as a whole.
#[track_caller]
fn assert_together(steps_of: &BTreeMap<(u64, u64), BTreeSet<u64>>) {
    for ((epoch, step), ids) in steps_of {
        for id in ids {
            let group = id / 3 * 3..(id / 3 * 3 + 3).min(N_SAMPLES);
            assert!(group.into_iter().all(|mate| ids.contains(&mate)), "epoch {epoch}, step {step}: {id} is alone");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever the memory has room for and however often the run goes on, in buffers that never grow.
    #[test]
    fn every_sample_comes_once_and_a_group_in_one_step(
        unit in prop::sample::select(vec![
            StepUnit::Samples,
            StepUnit::Positions,
            StepUnit::Batch,
            StepUnit::BatchOfPositions,
        ]),
        size in 4u32..40,
        room in prop::collection::vec(1u32..20, 1..20),
        resumed in prop::collection::btree_set(0usize..40, 0..6),
    ) {
        let counts_positions = matches!(unit, StepUnit::Positions | StepUnit::BatchOfPositions);
        let config = settings(unit, if counts_positions { 20 * size + 120 } else { size });
        let most_padded = config.largest(&of_three().lengths()).positions();
        let wanted = |at: usize| Wanted::Batches(EDGES.map(|edge| (room[at % room.len()] * 8 / edge).max(1)).to_vec());
        let mut loader = Loader::try_new(&of_three(), None, &wanted(0), &config).unwrap();
        let (mut taken, mut counts) = (BTreeMap::new(), Vec::new());
        for at in 0.. {
            let step = loader.next(&wanted(at)).unwrap();
            let ids: BTreeSet<u64> = step.draw.ids().collect();
            prop_assert_eq!(ids.len(), step.draw.n_samples());
            let padded: u64 = step.draw.parts.iter().map(|it| it.ids.len() as u64 * it.extent.positions()).sum();
            prop_assert!(padded <= most_padded, "{} of {}", padded, most_padded);
            let positions: u64 = ids.iter().map(|id| u64::from(length(*id))).sum();
            counts.push(if unit == StepUnit::Positions { positions } else { ids.len() as u64 });
            taken.insert((step.draw.epoch, at as u64), ids);
            let ends = step.ends_epoch && step.draw.epoch == 1;
            loader.recycle(step).unwrap();
            if ends {
                break;
            }
            if resumed.contains(&at) {
                let saved = serde_json::to_string(loader.position()).unwrap();
                let position: LoaderPosition = serde_json::from_str(&saved).unwrap();
                loader = Loader::try_new(&of_three(), Some(position), &wanted(at), &config).unwrap();
            }
        }
        assert_together(&taken);
        for epoch in 0..2 {
            let of_epoch: Vec<_> = taken.iter().filter(|it| it.0.0 == epoch).flat_map(|it| it.1).copied().collect();
            prop_assert_eq!(of_epoch.len() as u64, N_SAMPLES);
            prop_assert_eq!(of_epoch.into_iter().collect::<BTreeSet<_>>().len() as u64, N_SAMPLES);
        }
        let within = |n: &u64| n.abs_diff(u64::from(config.effective_batch_size));
        let (most, n_of_epoch) = (if unit == StepUnit::Positions { 119 } else { 2 }, counts.len() / 4);
        prop_assert!(matches!(unit, StepUnit::Batch | StepUnit::BatchOfPositions) || counts[..n_of_epoch].iter().all(|n| within(n) <= most), "{:?}", counts);
    }
}

/// Lets ranks go on with a run until a signal comes to the last of them.
fn go_on(path: &Path, n_ranks: u32, existing: Existing, stop_after: Option<u64>) -> Vec<EndReason> {
    let mut config = config(24, StepUnit::Samples, 16);
    config.controller.policy = kept(4);
    let config = &config;
    let dir = |rank| match rank {
        0 => RunDir::open(path, existing).unwrap(),
        rank => RunDir::of_rank(path, rank, existing).unwrap(),
    };
    thread::scope(|scope| {
        let spawn = |(fleet, rank)| {
            let (dir, probe, stop_after) =
                (dir(rank), flex_with(Bytes::gib(1)), stop_after.filter(|_| rank + 1 == n_ranks));
            scope.spawn(move || {
                Compartment::at(rank as usize).unwrap().enter();
                let job = Tiny { rows: of_three(), ..tiny(false, Unit::Samples) };
                run_in(dir, (probe, Box::new(fleet)), &job, config, (existing, None), (stop_after, None))
            })
        };
        let ranks: Vec<_> = InProcess::start(n_ranks).into_iter().zip(0..).map(spawn).collect();
        ranks.into_iter().map(|it| it.join().unwrap().outcome.unwrap().reason).collect()
    })
}

#[test]
fn groups_stay_whole_where_a_run_goes_on_in_mid_epoch_with_other_numbers_of_ranks() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let mut existing = Existing::Refuse;
    for (n_ranks, stop_after) in [(2, Some(4)), (1, Some(10)), (3, None)] {
        let expected = if stop_after.is_some() { EndReason::Interrupted } else { EndReason::Completed };
        assert_eq!(go_on(folder.path(), n_ranks, existing, stop_after), vec![expected; n_ranks as usize]);
        existing = Existing::Resume;
    }
    let others = (1..3).map(|rank| RunDir::of_rank(folder.path(), rank, Existing::Resume).unwrap());
    let dirs = [RunDir::open(folder.path(), Existing::Resume).unwrap()].into_iter().chain(others);
    let logs: Vec<Vec<Event>> = dirs.map(|it| it.events().unwrap()).collect();
    let (mut taken, mut n_samples) = (BTreeMap::<_, BTreeSet<u64>>::new(), BTreeMap::<u64, u64>::new());
    for done in logs.iter().flat_map(|it| steps(it)) {
        let ids = done.micro_batches.iter().flat_map(|it| &it.ids).copied();
        taken.entry((done.epoch, done.step)).or_default().extend(ids);
        *n_samples.entry(done.epoch).or_default() += done.n_samples();
    }
    assert_together(&taken);
    let whole: Vec<_> = n_samples.iter().filter(|(epoch, _)| **epoch < 3).collect();
    assert!(whole.len() == 3 && whole.iter().all(|(_, n)| **n == N_SAMPLES), "{n_samples:?}");
    let of_epoch = |epoch| taken.iter().filter(move |it| it.0.0 == epoch);
    for epoch in 0..3 {
        let ids: BTreeSet<_> = of_epoch(epoch).flat_map(|it| it.1).collect();
        assert_eq!(ids.len() as u64, N_SAMPLES, "epoch {epoch}");
        let n_steps = of_epoch(epoch).count();
        let sizes: Vec<_> = of_epoch(epoch).map(|it| it.1.len()).take(n_steps - 1).collect();
        assert!(
            sizes.iter().all(|n| (14..=18).contains(n)),
            "steps of 16, and less than a group more or less: {sizes:?}"
        );
    }
}

#[test]
fn groups_that_make_no_steps_are_refused() {
    let refused = |config: &LoaderConfig| match Loader::try_new(&of_three(), None, &Wanted::Batches(vec![4; 4]), config)
    {
        Ok(_) => panic!("{config:?} is accepted"),
        Err(error) => error,
    };
    let above = refused(&settings(StepUnit::Samples, 2)).to_string();
    assert_eq!(above, "group samples: group 0 has 3 samples, a step takes 2; set larger steps");
    let mut shares = settings(StepUnit::Samples, 16);
    shares.tasks.shares = Some(vec![1.0]);
    assert!(matches!(refused(&shares), LoaderError::GroupedTasks));
}
