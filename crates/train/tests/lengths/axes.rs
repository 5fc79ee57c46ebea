//! Runs over samples of two axes.

#[path = "axes/job.rs"]
mod job;

use std::collections::BTreeSet;
use std::path::Path;

use plimsoll_policy::{BucketedConfig, PolicyConfig};
use plimsoll_sampler::cells;
use plimsoll_train::{BadSample, Existing, FitConfig, Job, Loader, LoaderConfig, StepUnit, Wanted, replay};
use plimsoll_types::{Bytes, Cells, Decided, Decision, EndReason, Event, Extent, MicroBatch};

use super::common::{self, Ran, alone, flex_with, needed, run, run_on, steps};
use super::job::HEAVY;
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
fn a_sample_whose_own_cell_does_not_fit_is_named_or_left_out_and_others_are_padded_apart_from_it() {
    let (_alone, room, heavy) = (alone(), Bytes(HEAVY.0 / 2), Extent::try_new(&[4, 21]).unwrap());
    let is_large = |id: &u64| lattice().padded(extent(*id)).covers(heavy);
    let expected: Vec<_> = (0..N_SAMPLES).filter(is_large).collect();
    assert!((1..N_SAMPLES / 2).contains(&(expected.len() as u64)));
    for (streamed, batch_max) in [(false, 1), (true, 1), (false, 4), (true, 4)] {
        let job = Pairs { heavy: Some(heavy), ..pairs(streamed) };
        let mut config = of_pairs(&job, 20, StepUnit::Samples, 16);
        // With batches of four, some are padded to what none of their samples is.
        config.controller.policy = kept(batch_max);
        let of = |config: &FitConfig, room, dir: &Path, existing, stop| {
            run_on(flex_with(room), &job, config, dir, existing, stop)
        };
        let [folder, other, more] = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let failed = of(&config, room, other.path(), Existing::Refuse, None).outcome.unwrap_err().to_string();
        assert!(failed.contains("line ") && failed.contains("`data.bad_sample = \"skip\"` leaves it out"), "{failed}");
        config.loader.bad_sample = BadSample::Skip;
        let first = of(&config, room, folder.path(), Existing::Refuse, Some(3));
        assert!(first.warnings.iter().all(|it| it.contains("and more are left out")), "{:?}", first.warnings);
        let second = of(&config, room, folder.path(), Existing::Resume, None);
        let told = format!("streamed: {streamed}, {batch_max}: {:?}", second.warnings);
        assert!(
            second.warnings[0].contains("left out as before") && second.warnings[0].contains("padded to "),
            "{told}"
        );
        assert_eq!(second.outcome.as_ref().unwrap().reason, EndReason::Completed, "{told}");
        let of_epoch: Vec<_> = steps(&second.events).into_iter().filter(|it| it.epoch == 0).collect();
        let mut skipped: Vec<_> = of_epoch.iter().flat_map(|it| it.skipped.clone()).collect();
        skipped.sort_unstable();
        assert_eq!(skipped, expected, "{told}");
        let trained = of_epoch.iter().flat_map(|it| &it.micro_batches).flat_map(|it| it.ids.clone());
        let all: BTreeSet<_> = trained.chain(skipped).collect();
        assert_eq!(all, (0..N_SAMPLES).collect(), "{told}");
        assert!(steps(&second.events).iter().all(|it| it.peak <= it.capacity), "{told}");
        // With more memory they take part again.
        let ran = of(&config, Bytes(HEAVY.0 * 4), more.path(), Existing::Refuse, None);
        assert!(steps(&ran.events).iter().all(|it| it.skipped.is_empty()), "{told}");
    }
}

#[test]
fn what_is_known_to_be_too_large_never_runs_and_its_smaller_mates_do() {
    let (_alone, heavy) = (alone(), Extent::try_new(&[4, 21]).unwrap());
    for streamed in [false, true] {
        let job = pairs(streamed);
        let mut config = of_pairs(&job, 16, StepUnit::Samples, 16);
        config.controller.policy = kept(4);
        config.loader.bad_sample = BadSample::Skip;
        config.too_large.train = vec![heavy];
        let folder = tempfile::tempdir().unwrap();
        let ran = run(&job, &config, Bytes::mib(256), folder.path(), Existing::Refuse, None);
        ran.outcome.unwrap();
        assert!(batches(&ran.events).all(|it| !it.edges.covers(heavy)), "streamed: {streamed}");
        let of_epoch = steps(&ran.events).into_iter().filter(|it| it.epoch == 0).flat_map(|it| &it.micro_batches);
        let mut trained: Vec<_> = of_epoch.flat_map(|it| it.ids.clone()).collect();
        trained.sort_unstable();
        let is_small = |id: &u64| !lattice().padded(extent(*id)).covers(heavy);
        assert_eq!(trained, (0..N_SAMPLES).filter(is_small).collect::<Vec<_>>(), "streamed: {streamed}");
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
