//! Padded samples that several ranks run together.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;

use plimsoll_probe::Compartment;
use plimsoll_train::{BadSample, Existing, FitConfig, InProcess, RunDir, StepUnit, Unit};
use plimsoll_types::{Bytes, Event, StepDone};

use crate::common::{Ran, alone, flex_with, run_in, steps};
use crate::job::{Rows, Tiny, length, tiny};
use crate::{config, kept};

/// Runs as two ranks, each with rows of its own; returns of each what it ran, and what it has read, by epoch and id.
fn run_together(config: &FitConfig, rows: &(dyn Fn() -> Rows + Sync)) -> Vec<(Ran, Vec<(u64, u64)>)> {
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
                let job = Tiny { rows: Arc::new(rows()), ..tiny(false, Unit::Positions) };
                let ran = run_in(dir, (probe, Box::new(fleet)), &job, config, (Existing::Refuse, None), (None, None));
                let read = job.rows.read.lock().unwrap().clone();
                (ran, read)
            })
        };
        let ranks: Vec<_> = ranks.map(spawn).collect();
        ranks.into_iter().map(|it| it.join().unwrap()).collect()
    })
}

fn planned() -> Rows {
    Rows::new(false, None, 1)
}

/// What each micro-batch ran, by epoch and id.
fn samples_run(ran: &Ran) -> BTreeSet<(u64, u64)> {
    let of_step = |it: &&StepDone| {
        let epoch = it.epoch;
        it.micro_batches.iter().flat_map(|it| it.ids.clone()).map(move |id| (epoch, id)).collect::<Vec<_>>()
    };
    steps(&ran.events).iter().flat_map(of_step).collect()
}

#[test]
fn each_rank_reads_the_samples_that_it_runs() {
    let _alone = alone();
    let mut config = config(20, StepUnit::Samples, 16);
    // Without a clock nothing that is planned is dealt anew.
    (config.controller.policy, config.deterministic) = (kept(4), true);
    let ranks = run_together(&config, &planned);
    let [first, second] = [0, 1].map(|rank| ranks[rank].1.iter().copied().collect::<BTreeSet<_>>());
    assert!(first.is_disjoint(&second));
    for (ran, read) in &ranks {
        assert!(ran.outcome.is_ok() && steps(&ran.events).iter().all(|it| it.loss.is_finite()), "{:?}", ran.outcome);
        let (run, read_once) = (samples_run(ran), read.iter().copied().collect::<BTreeSet<_>>());
        assert_eq!(read_once.len(), read.len(), "once each");
        assert!(20 < run.len() && run.is_subset(&read_once), "{} run", run.len());
        // The steps that were read ahead when the run ended, of 16 samples each.
        assert!(read.len() <= run.len() + 4 * 16, "{} read, {} run", read.len(), run.len());
    }
}

#[test]
fn where_samples_may_be_left_out_when_they_are_read_each_rank_reads_all() {
    let _alone = alone();
    let mut config = config(12, StepUnit::Samples, 16);
    (config.controller.policy, config.loader.bad_sample) = (kept(4), BadSample::Skip);
    let ranks = run_together(&config, &|| Rows::new(false, Some(7), 1));
    let run: Vec<_> = ranks.iter().map(|(ran, _)| samples_run(ran)).collect();
    for (ran, read) in &ranks {
        assert!(ran.outcome.is_ok(), "{:?}", ran.outcome);
        let read: BTreeSet<_> = read.iter().copied().collect();
        assert!(run.iter().all(|it| it.is_subset(&read)));
        assert_eq!(steps(&ran.events).iter().map(|it| it.skipped.len()).sum::<usize>(), 2, "in two epochs");
    }
}

#[test]
fn the_rank_that_cannot_read_its_sample_names_it_and_the_other_ends_too() {
    let _alone = alone();
    let mut config = config(12, StepUnit::Samples, 16);
    config.controller.policy = kept(4);
    let ranks = run_together(&config, &|| Rows::new(false, Some(7), 1));
    let errors: Vec<_> = ranks.into_iter().map(|(ran, _)| ran.outcome.err().unwrap().to_string()).collect();
    assert_eq!(errors.iter().filter(|it| it.contains("rows/7.txt: is gone")).count(), 1, "{errors:?}");
}

#[test]
fn a_sample_that_is_not_what_other_ranks_take_it_for_is_named() {
    let _alone = alone();
    let mut config = config(12, StepUnit::Samples, 16);
    config.controller.policy = kept(4);
    let ranks = run_together(&config, &|| Rows { mistaken: Some(7), ..planned() });
    let errors: Vec<_> = ranks.into_iter().map(|(ran, _)| ran.outcome.err().unwrap().to_string()).collect();
    let expected = "read sample 7: it is of 24, with 24 positions that count, of task 0, and ranks that do not read it take it \
                    for one of 40, with 40 positions that count, of task 0";
    assert!(errors.iter().any(|it| it.contains(expected)), "{errors:?}");
}

#[test]
fn each_rank_tells_the_lengths_of_the_samples_that_it_has_run_itself() {
    let _alone = alone();
    let mut config = config(20, StepUnit::Samples, 16);
    config.controller.policy = kept(4);
    for (of_rank, _) in run_together(&config, &planned) {
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
    for (of_rank, _) in run_together(&config, &planned) {
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
