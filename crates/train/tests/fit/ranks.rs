//! Runs that several ranks make together.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;

use burn::store::ModuleRecord;
use burn::tensor::Device;

use plimsoll_policy::{FixedConfig, PolicyConfig};
use plimsoll_probe::{Compartment, DeviceKind, Probe, open_among};
use plimsoll_train::{Existing, FitConfig, InProcess, Job, LoaderConfig, RunDir, TrainError, replay};
use plimsoll_types::{Bytes, EndReason, Event, Knobs, StepDone};

use crate::common::{Ran, alone, flex_with, run, run_in, steps};
use crate::recovery::Faulty;
use crate::tiny::{N_SAMPLES, Net, Tiny, certified, config};

/// What a rank is told.
struct Rank {
    config: FitConfig,
    probe: Box<dyn Probe>,
}

fn roomy(config: FitConfig) -> Rank {
    Rank { config, probe: flex_with(Bytes::gib(1)) }
}

fn of_batches(n_steps: u64, micro_batch_size: u32) -> FitConfig {
    config(n_steps, PolicyConfig::Fixed(FixedConfig::of(Knobs { patch_size: 64, micro_batch_size })))
}

/// Lets ranks make a run together, each on a thread of its own; `stop_after` so many steps a signal comes to the last.
fn run_ranks(ranks: Vec<Rank>, path: &Path, existing: Existing, stop_after: Option<u64>) -> Vec<Ran> {
    let n = u32::try_from(ranks.len()).unwrap();
    let dir = |rank| match rank {
        0 => RunDir::open(path, existing).unwrap(),
        rank => RunDir::of_rank(path, rank, existing).unwrap(),
    };
    let dirs: Vec<_> = (0..n).map(dir).collect();
    let work = |((fleet, dir), (Rank { config, probe }, rank)): ((InProcess, RunDir), (Rank, u32))| {
        let stop_after = stop_after.filter(|_| rank + 1 == n);
        move || {
            Compartment::at(rank as usize).unwrap().enter();
            run_in(dir, (probe, Box::new(fleet)), &Tiny::new(), &config, existing, (stop_after, None))
        }
    };
    thread::scope(|scope| {
        let ranks = InProcess::start(n).into_iter().zip(dirs).zip(ranks.into_iter().zip(0..));
        let ranks: Vec<_> = ranks.map(|it| scope.spawn(work(it))).collect();
        ranks.into_iter().map(|it| it.join().unwrap()).collect()
    })
}

fn weights(path: &Path, step: u64) -> Vec<f32> {
    let path = path.join(format!("checkpoints/step-{step:08}/model.bpk"));
    let net: Net = Tiny::new().init(&Device::flex());
    let net = burn::module::Module::load_record(net, ModuleRecord::load(path).unwrap());
    net.first.weight.val().into_data().iter::<f32>().collect()
}

#[track_caller]
fn assert_close(a: &[f32], b: &[f32]) {
    let (most, largest) = a
        .iter()
        .zip(b)
        .fold((0.0_f32, 0.0_f32), |(most, largest), (a, b)| (most.max((a - b).abs()), largest.max(a.abs())));
    assert!(a.len() == b.len() && most <= 1e-5 * largest, "{most} of {largest}");
}

/// Returns the samples of each epoch that ranks have trained on, in order.
fn epochs(ran: &[Vec<Event>]) -> BTreeMap<u64, Vec<u64>> {
    let mut epochs: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for done in ran.iter().flat_map(|it| steps(it)) {
        epochs.entry(done.epoch).or_default().extend(done.micro_batches.iter().flat_map(|it| it.ids.iter().copied()));
    }
    for ids in epochs.values_mut() {
        ids.sort_unstable();
    }
    epochs
}

/// Every epoch but the last holds every sample exactly once.
#[track_caller]
fn assert_whole_epochs(ran: &[Vec<Event>], least: usize) {
    let mut epochs = epochs(ran);
    let _last = epochs.pop_last();
    assert!(least <= epochs.len(), "{} whole epochs", epochs.len());
    for (epoch, ids) in epochs {
        assert_eq!(ids, (0..N_SAMPLES).collect::<Vec<_>>(), "epoch {epoch}");
    }
}

/// Returns what four ranks have logged of a run.
fn logs(path: &Path) -> Vec<Vec<Event>> {
    let others = (1..4).map(|rank| RunDir::of_rank(path, rank, Existing::Resume));
    let dirs = std::iter::once(RunDir::open(path, Existing::Resume)).chain(others);
    dirs.map(|it| it.unwrap().events().unwrap()).collect()
}

fn events(ran: Vec<Ran>) -> Vec<Vec<Event>> {
    ran.into_iter().map(|it| it.outcome.map_or_else(|error| panic!("{error}"), |_| it.events)).collect()
}

#[test]
fn ranks_come_to_the_weights_and_losses_of_one_device() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one");
    let one = run(&Tiny::new(), &of_batches(20, 16), Bytes::gib(1), &path, Existing::Refuse, None);
    one.outcome.unwrap();
    let losses = |events: &[Event]| steps(events).iter().map(|it| it.loss).collect::<Vec<_>>();
    for sizes in [vec![8, 8], vec![12, 4], vec![5, 1, 9, 1]] {
        let name = format!("{sizes:?}");
        let path_of_ranks = folder.path().join(&name);
        let ranks = sizes.iter().map(|size| roomy(of_batches(20, *size))).collect();
        let ran = events(run_ranks(ranks, &path_of_ranks, Existing::Refuse, None));
        assert_close(&weights(&path, 20), &weights(&path_of_ranks, 20));
        for of_rank in &ran {
            for (own, of_one) in losses(of_rank).into_iter().zip(losses(&one.events)) {
                assert!((own - of_one).abs() <= 1e-5 * of_one.abs(), "{own} where one device has {of_one}");
            }
        }
        assert_whole_epochs(&ran, 6);
        // Who holds more takes more: in the first step, of 16 samples, as much as it holds.
        let taken: Vec<_> = ran.iter().map(|it| steps(it)[0].n_samples()).collect();
        assert_eq!(taken, sizes.iter().map(|it| u64::from(*it)).collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn ranks_of_one_heap_measure_each_what_its_own_steps_take() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let taken = |events: &[Event]| {
        let of_step = |it: &&StepDone| it.peak.saturating_sub(it.resident).0;
        steps(events).iter().skip(1).map(of_step).max().unwrap()
    };
    let single = |size: u32| {
        let config = FitConfig { loader: LoaderConfig::cut(3, size, 64, Bytes::mib(4)), ..of_batches(6, size) };
        let path = folder.path().join(format!("single {size}"));
        let ran = run(&Tiny::new(), &config, Bytes::gib(1), &path, Existing::Refuse, None);
        taken(&ran.outcome.map(|_| ran.events).unwrap())
    };
    let expected = [12, 4].map(single);
    let devices = [(DeviceKind::Flex, Some(Bytes::gib(1))); 2];
    let rank =
        |(at, size): (usize, u32)| Rank { config: of_batches(6, size), probe: open_among(&devices, at).unwrap() };
    let ranks = [12, 4].into_iter().enumerate().map(rank).collect();
    let ran = events(run_ranks(ranks, &folder.path().join("ranks"), Existing::Refuse, None));
    for (of_rank, alone) in ran.iter().zip(expected) {
        // What ranks add lies there too, and small blocks count nowhere.
        let own = taken(of_rank);
        assert!((alone * 9 / 10..alone * 2).contains(&own), "{own} where one device takes {alone}");
    }
}

#[test]
fn a_rank_that_runs_out_of_memory_runs_its_share_in_halves_and_the_others_wait() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str, size: u32, capacity: Bytes| {
        let devices = [(DeviceKind::Flex, Some(Bytes::gib(1))), (DeviceKind::Flex, Some(capacity))];
        let rank = |at| Rank { config: of_batches(6, size), probe: open_among(&devices, at).unwrap() };
        events(run_ranks((0..2).map(rank).collect(), &folder.path().join(name), Existing::Refuse, None))
    };
    let peak = |ran: &[Vec<Event>]| steps(&ran[1]).iter().map(|it| it.peak.0).max().unwrap();
    let roomy = run("roomy", 8, Bytes::gib(1));
    let halves = run("halves", 4, Bytes::gib(1));
    let between = Bytes(u64::midpoint(peak(&roomy), peak(&halves)));
    let tight = run("tight", 8, between);
    let failures = |events: &[Event]| events.iter().filter(|it| matches!(it, Event::StepFailed(_))).count();
    assert!(0 < failures(&tight[1]), "nothing ran out of memory, so nothing is tested");
    assert_eq!(failures(&tight[0]), 0);
    let samples = |ran: &[Vec<Event>]| {
        let of_step = |it: &&StepDone| it.micro_batches.iter().flat_map(|it| it.ids.clone()).collect::<Vec<_>>();
        ran.iter().map(|it| steps(it).iter().map(of_step).collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    assert_eq!(samples(&tight), samples(&roomy), "each rank has run its own samples");
    assert!(steps(&tight[1]).iter().all(|it| it.peak <= it.capacity));
    assert_close(&weights(&folder.path().join("roomy"), 6), &weights(&folder.path().join("tight"), 6));
}

#[test]
fn a_rank_whose_share_is_empty_takes_part_all_the_same() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    // Of the eight samples that an epoch of 40 leaves for its last step, the smallest of these gets none.
    let ranks = [300, 300, 1].map(|size| roomy(of_batches(9, size))).into();
    let ran = events(run_ranks(ranks, folder.path(), Existing::Refuse, None));
    assert_eq!(ran.iter().map(|it| steps(it).len()).collect::<Vec<_>>(), [9; 3]);
    assert!(steps(&ran[2]).iter().any(|it| it.micro_batches.is_empty()), "no share was empty");
    assert_whole_epochs(&ran, 2);
    for of_rank in &ran {
        let replayed = replay(of_rank).unwrap();
        assert_eq!(replayed.mismatches.len(), 0);
    }
}

#[test]
fn each_rank_decides_by_its_own_memory_and_all_cut_samples_alike() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let ranks = (0..2).map(|_| roomy(config(30, certified()))).collect();
    let ran = events(run_ranks(ranks, folder.path(), Existing::Refuse, None));
    let edges = |at: usize| steps(&ran[at]).iter().map(|it| it.micro_batches[0].shape().edge()).collect::<Vec<_>>();
    assert_eq!(edges(0), edges(1));
    assert_eq!(edges(0).last(), Some(&64), "there is room for the largest");
    assert_whole_epochs(&ran, 8);
}

#[test]
fn a_run_goes_on_with_other_numbers_of_ranks() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let mut existing = Existing::Refuse;
    for (n, stop_after) in [(4, Some(6)), (2, Some(13)), (1, Some(17)), (3, None)] {
        let ranks = (0..n).map(|_| roomy(of_batches(24, 4))).collect();
        let ran = run_ranks(ranks, &path, existing, stop_after);
        let reasons: Vec<_> = ran.iter().map(|it| it.outcome.as_ref().unwrap().reason).collect();
        let expected = if stop_after.is_some() { EndReason::Interrupted } else { EndReason::Completed };
        assert_eq!(reasons, vec![expected; n]);
        existing = Existing::Resume;
    }
    assert_whole_epochs(&logs(&path), 7);
    let one = folder.path().join("one");
    let undisturbed = run(&Tiny::new(), &of_batches(24, 16), Bytes::gib(1), &one, Existing::Refuse, None);
    undisturbed.outcome.unwrap();
    assert_close(&weights(&one, 24), &weights(&path, 24));
}

#[test]
fn what_ranks_did_after_the_last_checkpoint_is_undone_on_all_of_them_whatever_their_number() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let four = |n_steps| (0..4).map(|_| roomy(of_batches(n_steps, 4))).collect();
    events(run_ranks(four(10), path, Existing::Refuse, None));
    // As if all had been killed before the checkpoint of step 10 had its name.
    std::fs::remove_dir_all(path.join("checkpoints/step-00000010")).unwrap();
    let two = (0..2).map(|_| roomy(of_batches(24, 4))).collect();
    events(run_ranks(two, path, Existing::Resume, None));
    assert_whole_epochs(&logs(path), 7);
}

#[test]
fn a_rank_that_joined_after_the_checkpoint_has_its_steps_undone_too() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let seldom = |n_steps| FitConfig { checkpoint_every: 100, validate_every: 100, ..of_batches(n_steps, 4) };
    let ranks = |n, n_steps| (0..n).map(|_| roomy(seldom(n_steps))).collect();
    events(run_ranks(ranks(2, 10), path, Existing::Refuse, None));
    events(run_ranks(ranks(4, 15), path, Existing::Resume, None));
    // As if all had been killed before the checkpoint of step 15 had its name.
    std::fs::remove_dir_all(path.join("checkpoints/step-00000015")).unwrap();
    events(run_ranks(ranks(4, 24), path, Existing::Resume, None));
    assert_whole_epochs(&logs(path), 7);
}

#[test]
fn all_ranks_go_back_where_the_optimizer_of_one_runs_out_of_memory() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    // The seventh optimizer's step of the second rank.
    let ranks = vec![roomy(of_batches(12, 8)), Rank { config: of_batches(12, 8), probe: Faulty::with(&[6]) }];
    let ran = run_ranks(ranks, folder.path(), Existing::Refuse, None);
    let warned = ran[1].warnings.iter().any(|it| it.contains("went back to its last checkpoint"));
    assert!(warned, "{:?}", ran[1].warnings);
    let ran = events(ran);
    for of_rank in &ran {
        assert_eq!(steps(of_rank).iter().map(|it| it.step).collect::<Vec<_>>(), (0..12).collect::<Vec<_>>());
    }
    assert_whole_epochs(&ran, 3);
}

#[test]
fn ranks_that_were_told_otherwise_are_refused_by_the_key_before_the_first_step() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let other = FitConfig { seed: 4, ..of_batches(12, 8) };
    let longer = FitConfig { n_steps: 13, ..of_batches(12, 8) };
    for (at, (config, key)) in
        [(other, "`seed` is 4 on rank 1, and 3 on rank 0"), (longer, "`train.steps` is 13 on rank 1")]
            .into_iter()
            .enumerate()
    {
        let path = folder.path().join(at.to_string());
        let mut ran = run_ranks(vec![roomy(of_batches(12, 8)), roomy(config)], &path, Existing::Refuse, None);
        let error = ran.pop().unwrap().outcome.unwrap_err();
        assert!(matches!(error, TrainError::OtherRanks { .. }) && error.to_string().contains(key), "{error}");
        let error = ran.pop().unwrap().outcome.unwrap_err();
        assert!(matches!(error, TrainError::RefusedRank { rank: 1 }), "{error}");
    }
}
