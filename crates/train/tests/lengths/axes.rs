//! Runs over samples of two axes.

#[path = "axes/job.rs"]
mod job;

use std::collections::BTreeSet;

use plimsoll_policy::{BucketedConfig, PolicyConfig};
use plimsoll_sampler::cells;
use plimsoll_train::{Existing, FitConfig, Job, Loader, LoaderConfig, StepUnit, Wanted, replay};
use plimsoll_types::{Bytes, Cells, Decided, Decision, EndReason, Event, MicroBatch};

use super::common::{self, Ran, alone, needed, run, steps};
use super::{config, ids};
use job::{N_SAMPLES, Pairs, extent, pairs};

/// What the samples are padded to.
fn lattice() -> Cells {
    let extents: Vec<_> = (0..N_SAMPLES).map(extent).collect();
    cells(&extents, 12, &[1, 4]).unwrap()
}

fn of_pairs(job: &Pairs, n_steps: u64, unit: StepUnit, effective_batch_size: u32) -> FitConfig {
    let (mut config, cells) = (config(n_steps, unit, effective_batch_size), lattice());
    config.controller.predictor.features = job.features();
    config.controller.policy = bucketed(16, None);
    config.loader = LoaderConfig { largest_extent: *cells.last().unwrap(), cells, ..config.loader };
    config
}

fn bucketed(batch_max: u32, start: Option<Vec<u32>>) -> PolicyConfig {
    PolicyConfig::Bucketed(BucketedConfig { cells: lattice(), batch_max, start, ..BucketedConfig::default() })
}

/// The policy that begins with these batches, and has no larger ones.
fn kept(batch_max: u32) -> PolicyConfig {
    bucketed(batch_max, Some(vec![batch_max; lattice().len()]))
}

fn batches(events: &[Event]) -> impl Iterator<Item = &MicroBatch> {
    steps(events).into_iter().flat_map(|it| &it.micro_batches)
}

/// So many epochs at least hold every sample once, each in a cell of the lattice that holds it.
#[track_caller]
fn check(ran: &Ran, n_epochs: usize) {
    assert!(n_epochs <= common::check_epochs(&ran.events, N_SAMPLES), "too few epochs");
    let lattice = lattice();
    for batch in batches(&ran.events) {
        assert!(lattice.contains(&batch.edges), "{} is no cell of {lattice}", batch.edges);
        assert!(batch.ids.iter().all(|id| batch.edges.covers(extent(*id))), "{batch:?}");
    }
    assert!(replay(&ran.events).unwrap().mismatches.is_empty());
}

#[test]
fn batches_of_every_cell_grow_with_what_is_certain_to_fit() {
    let _alone = alone();
    for streamed in [false, true] {
        check_growth(&pairs(streamed));
    }
}

#[track_caller]
fn check_growth(job: &Pairs) {
    let of = |policy| {
        let mut config = of_pairs(job, 8, StepUnit::Samples, 24);
        config.controller.policy = policy;
        config
    };
    needed(job, &of(kept(16)));
    let room = Bytes(u64::midpoint(needed(job, &of(kept(2))).0, needed(job, &of(kept(16))).0));
    let folder = tempfile::tempdir().unwrap();
    let config = of_pairs(job, 60, StepUnit::Samples, 24);
    let ran = run(job, &config, room, folder.path(), Existing::Refuse, None);
    assert_eq!(ran.outcome.as_ref().unwrap().reason, EndReason::Completed);
    check(&ran, 6);
    let steps = steps(&ran.events);
    assert!(steps.iter().all(|it| it.peak <= it.capacity), "above capacity");
    assert!(steps.iter().skip(2).all(|it| it.upper.is_some_and(|upper| it.peak <= upper)), "above the bound");
    let edges = |axis: usize| batches(&ran.events).map(|it| it.edges.edges()[axis]).collect::<BTreeSet<_>>();
    assert!(1 < edges(0).len() && 1 < edges(1).len(), "{:?} {:?}", edges(0), edges(1));
    let sizes = ran.events.iter().rev().find_map(|event| match event {
        Event::Decided(Decided { decision: Decision::Resize(resize), .. }) => Some(&resize.to),
        _ => None,
    });
    let (sizes, lattice) = (sizes.unwrap(), lattice());
    assert!(sizes.iter().max() > sizes.iter().min() && 1 < sizes[0], "{sizes:?}");
    for (at, cell) in lattice.iter().enumerate() {
        let covering = lattice.iter().zip(sizes).filter(|(it, _)| it.covers(*cell));
        assert!(covering.into_iter().all(|(_, size)| *size <= sizes[at]), "{sizes:?} of {lattice}");
    }
}

#[test]
fn an_interrupted_run_goes_on_with_the_same_draws() {
    let (_alone, room) = (alone(), Bytes::mib(256));
    let units = [(StepUnit::Samples, 16), (StepUnit::Positions, 2000)];
    for (streamed, (unit, size)) in [false, true].into_iter().flat_map(|it| units.map(|unit| (it, unit))) {
        let (job, whole, parts) = (pairs(streamed), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut config = of_pairs(&job, 24, unit, size);
        if streamed {
            // What a stream holds is planned by the sizes of its time.
            (config.deterministic, config.controller.policy) = (true, kept(4));
        }
        let undisturbed = run(&job, &config, room, whole.path(), Existing::Refuse, None);
        let first = run(&job, &config, room, parts.path(), Existing::Refuse, Some(7));
        assert_eq!(first.outcome.unwrap().reason, EndReason::Interrupted);
        // Other workers read in another order.
        config.loader.workers = 1;
        let second = run(&job, &config, room, parts.path(), Existing::Resume, None);
        assert_eq!(ids(&undisturbed.events), ids(&second.events), "streamed: {streamed}, {unit:?}");
        check(&second, 2);
        assert_eq!(second.outcome.unwrap().stream.is_some_and(|it| 0 < it.samples), streamed);
    }
}

#[test]
fn a_sample_counts_as_many_positions_as_the_product_of_its_lengths() {
    let (_alone, job) = (alone(), pairs(false));
    let folder = tempfile::tempdir().unwrap();
    let config = of_pairs(&job, 20, StepUnit::Positions, 2000);
    let ran = run(&job, &config, Bytes::mib(256), folder.path(), Existing::Refuse, None);
    check(&ran, 1);
    let (mut sum, total) = (0, (0..N_SAMPLES).map(|id| extent(id).positions()).sum::<u64>());
    let of_epoch = steps(&ran.events).into_iter().take_while(|it| it.epoch == 0);
    for (at, done) in (1..).zip(of_epoch) {
        let own: u64 = done.micro_batches.iter().flat_map(|it| &it.ids).map(|id| extent(*id).positions()).sum();
        assert_eq!(done.real_positions, Some(own));
        sum += own;
        assert!((2000 * at..2000 * at + 6 * 40).contains(&sum) || sum == total, "step {at}: {sum}");
    }
}

#[test]
fn cells_of_other_axes_than_the_samples_have_are_refused() {
    let config = LoaderConfig { cells: vec![8, 40].into(), ..LoaderConfig::cut(3, 16, 40, Bytes::mib(16)) };
    for streamed in [false, true] {
        let loader = Loader::try_new(&pairs(streamed).source(), None, &Wanted::Batches(vec![1; 2]), &config);
        let Err(error) = loader else { panic!("it was taken") };
        let expected = "plan the steps: samples have lengths along 2 axes, and the cells that they are padded to 1";
        assert_eq!(error.to_string(), expected);
    }
}
