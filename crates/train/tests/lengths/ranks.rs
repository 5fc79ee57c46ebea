//! Padded samples that several ranks run together.

use std::thread;

use plimsoll_probe::Compartment;
use plimsoll_train::{Existing, InProcess, RunDir, StepUnit, Unit};
use plimsoll_types::{Bytes, StepDone};

use crate::common::{alone, flex_with, run_in, steps};
use crate::job::{length, tiny};
use crate::{config, kept};

#[test]
fn each_rank_tells_the_lengths_of_the_samples_that_it_has_run_itself() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(20, StepUnit::Samples, 16);
    config.controller.policy = kept(4);
    let dirs = [
        RunDir::open(folder.path(), Existing::Refuse).unwrap(),
        RunDir::of_rank(folder.path(), 1, Existing::Refuse).unwrap(),
    ];
    let probes = [(); 2].map(|()| flex_with(Bytes::gib(1)));
    let config = &config;
    let ran: Vec<_> = thread::scope(|scope| {
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
    });
    for of_rank in ran {
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
