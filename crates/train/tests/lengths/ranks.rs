//! Padded samples that several ranks run together.

use std::thread;

use plimsoll_probe::Compartment;
use plimsoll_train::{Existing, FitConfig, InProcess, RunDir, StepUnit, Unit};
use plimsoll_types::{Bytes, Event, StepDone};

use crate::common::{Ran, alone, flex_with, run_in, steps};
use crate::job::{length, tiny};
use crate::{config, kept};

/// Runs as two ranks.
fn run_together(config: &FitConfig) -> Vec<Ran> {
    let folder = tempfile::tempdir().unwrap();
    let dirs = [
        RunDir::open(folder.path(), Existing::Refuse).unwrap(),
        RunDir::of_rank(folder.path(), 1, Existing::Refuse).unwrap(),
    ];
    let probes = [(); 2].map(|()| flex_with(Bytes::gib(1)));
    thread::scope(|scope| {
        let ranks = InProcess::start(2).into_iter().zip(dirs).zip(probes).zip(0..);
        let spawn = |(((fleet, dir), probe), rank)| {
            scope.spawn(move || {
                Compartment::at(rank).unwrap().enter();
                let job = tiny(false, Unit::Samples);
                run_in(dir, (probe, Box::new(fleet)), &job, config, (Existing::Refuse, None), (None, None))
            })
        };
        let ranks: Vec<_> = ranks.map(spawn).collect();
        ranks.into_iter().map(|it| it.join().unwrap()).collect()
    })
}

#[test]
fn each_rank_tells_the_lengths_of_the_samples_that_it_has_run_itself() {
    let _alone = alone();
    let mut config = config(20, StepUnit::Samples, 16);
    config.controller.policy = kept(4);
    for of_rank in run_together(&config) {
        of_rank.outcome.unwrap();
        let done = steps(&of_rank.events);
        assert_eq!(done.len(), 20);
        for it in done {
            let own = it.micro_batches.iter().flat_map(|it| &it.ids).map(|id| u64::from(length(*id))).sum();
            assert_eq!(it.real_positions, Some(own), "step {}", it.step);
            assert!(own <= StepDone::padded_positions(it), "step {}", it.step);
        }
    }
}

#[test]
fn each_rank_runs_multiples_of_what_batches_are_multiples_of() {
    let _alone = alone();
    let mut config = config(20, StepUnit::Batch, 16);
    (config.controller.policy, config.loader.multiple_of) = (kept(5), 4);
    let (mut n_ragged, mut n_epochs) = (0, 0);
    for of_rank in run_together(&config) {
        of_rank.outcome.unwrap();
        let sizes: Vec<_> =
            steps(&of_rank.events).iter().flat_map(|it| &it.micro_batches).map(|it| it.ids.len()).collect();
        assert!(sizes.contains(&4), "{sizes:?}");
        n_ragged += sizes.iter().filter(|it| !it.is_multiple_of(4)).count();
        n_epochs = 1 + of_rank.events.iter().filter(|it| matches!(it, Event::EpochDone(_))).count();
    }
    // What is left of an epoch is one batch.
    assert!(n_ragged <= n_epochs, "{n_ragged} in {n_epochs} epochs");
}
