//! Runs that several ranks make together.

mod go_on;
mod optimizers;

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use burn::store::ModuleRecord;
use burn::tensor::Device;

use plimsoll_policy::{FixedConfig, PolicyConfig};
use plimsoll_probe::{Compartment, DeviceKind, Probe, open_among};
use plimsoll_train::{Death, Existing, FitConfig, InProcess, Job, LoaderConfig, RunDir, TrainError, replay};
use plimsoll_types::{Bytes, EndReason, Event, Knobs, StepDone};

use crate::common::{Ran, alone, flex_with, run, run_in, steps};
use crate::refusal::{Falling, ITEM, Left, Tenant};
use crate::tiny::{Beside, N_SAMPLES, Net, Nothing, Tiny, certified, config, fixed};

/// What a rank is told.
struct Rank<'a> {
    config: FitConfig,
    probe: Box<dyn Probe>,
    /// What happens beside its job.
    beside: Box<dyn Beside + Send + 'a>,
}

/// What a sample takes longer than it does by itself.
struct Pace(Duration);

impl Beside for Pace {
    fn on_part(&self, n_samples: usize) {
        thread::sleep(self.0 * u32::try_from(n_samples).unwrap());
    }
}

fn roomy(config: FitConfig) -> Rank<'static> {
    with(config, flex_with(Bytes::gib(1)))
}

fn with(config: FitConfig, probe: Box<dyn Probe>) -> Rank<'static> {
    Rank { config, probe, beside: Box::new(Nothing) }
}

fn of_batches(n_steps: u64, micro_batch_size: u32) -> FitConfig {
    config(n_steps, PolicyConfig::Fixed(FixedConfig::of(Knobs { patch_size: 64, micro_batch_size })))
}

/// The same in steps of so many samples.
fn in_steps_of(n_samples: u32, config: FitConfig) -> FitConfig {
    FitConfig { loader: LoaderConfig::cut(3, n_samples, 64, Bytes::mib(4)), ..config }
}

/// Opens the folders of so many ranks.
fn dirs(n: usize, path: &Path, existing: Existing) -> Vec<RunDir> {
    let dir = |rank| match rank {
        0 => RunDir::open(path, existing).unwrap(),
        rank => RunDir::of_rank(path, rank, existing).unwrap(),
    };
    (0..u32::try_from(n).unwrap()).map(dir).collect()
}

/// Lets ranks make a run together, each on a thread of its own; `stop_after` so many steps a signal comes to the last.
fn run_ranks(ranks: Vec<Rank<'_>>, path: &Path, existing: Existing, stop_after: Option<u64>) -> Vec<Ran> {
    let dirs = dirs(ranks.len(), path, existing);
    run_ranks_in(ranks, dirs, &Tiny::beside, (existing, None), stop_after)
}

/// The same in folders that are open, with a job of their own, and after a death.
fn run_ranks_in<'a, J: Job>(
    ranks: Vec<Rank<'a>>,
    dirs: Vec<RunDir>,
    job: &(impl Fn(Box<dyn Beside + Send + 'a>) -> J + Sync),
    (existing, death): (Existing, Option<&Death>),
    stop_after: Option<u64>,
) -> Vec<Ran> {
    let n = u32::try_from(ranks.len()).unwrap();
    let work = |((fleet, dir), (Rank { config, probe, beside }, rank)): ((InProcess, RunDir), (Rank<'a>, u32))| {
        let (stop_after, death) = (stop_after.filter(|_| rank + 1 == n), death.cloned());
        move || {
            Compartment::at(rank as usize).unwrap().enter();
            run_in(dir, (probe, Box::new(fleet)), &job(beside), &config, (existing, death), (stop_after, None))
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
fn assert_close(a: &[f32], b: &[f32], what: &str) {
    let (most, largest) = a
        .iter()
        .zip(b)
        .fold((0.0_f32, 0.0_f32), |(most, largest), (a, b)| (most.max((a - b).abs()), largest.max(a.abs())));
    assert!(a.len() == b.len() && most <= 1e-5 * largest, "{what}: {most} of {largest}");
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
        assert_close(&weights(&path, 20), &weights(&path_of_ranks, 20), &name);
        for of_rank in &ran {
            for (own, of_one) in losses(of_rank).into_iter().zip(losses(&one.events)) {
                assert!((own - of_one).abs() <= 1e-5 * of_one.abs(), "{own} where one device has {of_one}");
            }
        }
        assert_whole_epochs(&ran, 6);
        // While nobody knows how fast each is they take equal shares, in micro-batches that each holds.
        for (of_rank, size) in ran.iter().zip(&sizes) {
            let first = steps(of_rank)[0];
            assert_eq!(first.n_samples(), 16 / sizes.len() as u64, "{name}");
            assert!(first.micro_batches.iter().all(|it| it.ids.len() <= *size as usize), "{name}");
        }
    }
}

/// Runs twenty steps of 16 samples on two ranks, one of which takes three times as long for each, and returns how many of the last
/// 16 steps each has run.
fn paced(path: &Path, is_deterministic: bool) -> [u64; 2] {
    let rank = |ms| Rank {
        beside: Box::new(Pace(Duration::from_millis(ms))),
        ..roomy(FitConfig { deterministic: is_deterministic, ..of_batches(20, 4) })
    };
    let ran = events(run_ranks(vec![rank(3), rank(9)], path, Existing::Refuse, None));
    assert_whole_epochs(&ran, 6);
    let of_rank = |at: usize| steps(&ran[at]).iter().skip(4).map(|it| it.n_samples()).sum();
    [of_rank(0), of_rank(1)]
}

#[test]
fn a_slower_rank_takes_less_of_each_step_and_the_weights_are_those_of_one_device() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    run(&Tiny::new(), &of_batches(20, 16), Bytes::gib(1), &one, Existing::Refuse, None).outcome.unwrap();
    let [fast, slow] = paced(&two, false);
    assert!((slow * 2..slow * 5).contains(&fast), "{fast} and {slow}, where three quarters and one are even");
    assert_close(&weights(&one, 20), &weights(&two, 20), "weights");
}

#[test]
fn no_clock_has_a_say_in_who_takes_what_of_a_deterministic_run() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let [fast, slow] = paced(folder.path(), true);
    assert_eq!(fast, slow);
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
        let config = in_steps_of(size, of_batches(6, size));
        let path = folder.path().join(format!("single {size}"));
        let ran = run(&Tiny::new(), &config, Bytes::gib(1), &path, Existing::Refuse, None);
        taken(&ran.outcome.map(|_| ran.events).unwrap())
    };
    let expected = [12, 4].map(single);
    let devices = [(DeviceKind::Flex, Some(Bytes::gib(1))); 2];
    let rank = |(at, size): (usize, u32)| {
        // Enough of them for a full micro-batch of each, whoever is faster.
        with(in_steps_of(40, of_batches(6, size)), open_among(&devices, at).unwrap())
    };
    let ranks = [12, 4].into_iter().enumerate().map(rank).collect();
    let ran = events(run_ranks(ranks, &folder.path().join("ranks"), Existing::Refuse, None));
    for (of_rank, alone) in ran.iter().zip(expected) {
        // What ranks add lies there too, and small blocks count nowhere.
        let own = taken(of_rank);
        assert!((alone * 9 / 10..alone * 2).contains(&own), "{own} where one device takes {alone}");
    }
}

/// Two ranks that count apart what they take, the second with another capacity.
fn of_one_heap(size: u32, capacity: Bytes) -> [Rank<'static>; 2] {
    let devices = [(DeviceKind::Flex, Some(Bytes::gib(1))), (DeviceKind::Flex, Some(capacity))];
    [0, 1].map(|at| with(of_batches(6, size), open_among(&devices, at).unwrap()))
}

/// Returns a capacity in which the second rank has room for four samples at once, and not for eight.
fn enough_for_halves(folder: &Path) -> Bytes {
    let peak = |size: u32| {
        let path = folder.join(format!("batches of {size}"));
        let ran = events(run_ranks(of_one_heap(size, Bytes::gib(1)).into(), &path, Existing::Refuse, None));
        steps(&ran[1]).iter().map(|it| it.peak.0).max().unwrap()
    };
    Bytes(u64::midpoint(peak(8), peak(4)))
}

#[test]
fn a_rank_that_runs_out_of_memory_runs_its_share_in_halves_and_the_others_wait() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str, capacity: Bytes| {
        events(run_ranks(of_one_heap(8, capacity).into(), &folder.path().join(name), Existing::Refuse, None))
    };
    let enough_for_halves = enough_for_halves(folder.path());
    run("roomy", Bytes::gib(1));
    let tight = run("tight", enough_for_halves);
    let failures = |events: &[Event]| events.iter().filter(|it| matches!(it, Event::StepFailed(_))).count();
    assert!(0 < failures(&tight[1]), "nothing ran out of memory, so nothing is tested");
    assert_eq!(failures(&tight[0]), 0);
    assert_whole_epochs(&tight, 1);
    assert!(steps(&tight[1]).iter().all(|it| it.peak <= it.capacity));
    assert_close(&weights(&folder.path().join("roomy"), 6), &weights(&folder.path().join("tight"), 6), "weights");
}

/// Takes memory away when so many parts have begun.
struct Taking {
    left: Left,
    to: Bytes,
    parts: AtomicUsize,
}

impl Beside for Taking {
    fn on_part(&self, _n_samples: usize) {
        if self.parts.fetch_add(1, Ordering::SeqCst) == 2 {
            self.left.set(self.to);
        }
    }
}

#[test]
fn a_rank_that_has_less_memory_from_some_step_on_goes_on_with_what_it_has() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let (left, to) = (Left::all(), enough_for_halves(folder.path()));
    let [first, mut second] = of_one_heap(8, Bytes::gib(1));
    second.probe = Box::new(Falling { inner: second.probe, left: left.clone() });
    second.beside = Box::new(Taking { left, to, parts: AtomicUsize::new(0) });
    let ran = events(run_ranks(vec![first, second], &folder.path().join("falling"), Existing::Refuse, None));
    assert_whole_epochs(&ran, 1);
    let of_second = steps(&ran[1]);
    assert_eq!(of_second.len(), 6);
    assert!(of_second.iter().any(|it| it.capacity == to), "it did not fall");
    assert!(of_second.iter().all(|it| it.capacity != to || it.peak <= it.capacity));
    assert_close(
        &weights(&folder.path().join("batches of 8"), 6),
        &weights(&folder.path().join("falling"), 6),
        "weights",
    );
}

#[test]
fn ranks_whose_validations_get_no_better_all_end_early() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let impatient = || FitConfig { validate_every: 10, patience: NonZeroU64::new(2), ..of_batches(60, 8) };
    let ran = run_ranks((0..2).map(|_| roomy(impatient())).collect(), folder.path(), Existing::Refuse, None);
    for of_rank in ran {
        let outcome = of_rank.outcome.unwrap();
        assert_eq!((outcome.reason, outcome.step), (EndReason::StoppedEarly, 20));
    }
}

#[test]
fn a_validation_that_does_not_fit_on_the_first_rank_ends_the_others_too() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let tenant = Tenant::after(0, 2);
    let seldom = || FitConfig { validate_every: 2, ..config(10, fixed()) };
    let probe = Box::new(Falling { inner: flex_with(Bytes(ITEM.0 * 3 / 2)), left: tenant.left.clone() });
    let first = Rank { config: seldom(), probe, beside: Box::new(&tenant) };
    let ran = run_ranks(vec![first, roomy(seldom())], folder.path(), Existing::Refuse, None);
    let errors: Vec<_> = ran.iter().map(|it| it.outcome.as_ref().unwrap_err().to_string()).collect();
    assert!(matches!(ran[0].outcome, Err(TrainError::Validation { step: 4, .. })), "{errors:?}");
    assert!(errors[1].contains("rank 0"), "{errors:?}");
    assert_eq!(ran.iter().map(|it| steps(&it.events).len()).collect::<Vec<_>>(), [4, 4]);
}

#[test]
fn a_rank_whose_share_is_empty_takes_part_all_the_same() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let ranks = (0..3).map(|_| roomy(in_steps_of(2, of_batches(45, 2)))).collect();
    let ran = events(run_ranks(ranks, folder.path(), Existing::Refuse, None));
    assert_eq!(ran.iter().map(|it| steps(it).len()).collect::<Vec<_>>(), [45; 3]);
    let empty = |of_rank: &Vec<Event>| steps(of_rank).iter().filter(|it| it.micro_batches.is_empty()).count();
    assert!(45 <= ran.iter().map(empty).sum::<usize>(), "two samples for three");
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
    let edge = |it: &StepDone| it.micro_batches.first().map(|it| it.shape().edge());
    let edges: Vec<_> = steps(&ran[0]).iter().zip(steps(&ran[1])).map(|(a, b)| (edge(a), edge(b))).collect();
    assert!(edges.iter().all(|(a, b)| a.is_none() || b.is_none() || a == b), "{edges:?}");
    assert!(edges.contains(&(Some(64), Some(64))), "there is room for the largest: {edges:?}");
    assert_whole_epochs(&ran, 8);
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
