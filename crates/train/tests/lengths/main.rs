//! Runs over samples that have lengths: planned or streamed, in steps of so many samples or positions.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod axes;
#[path = "../common/mod.rs"]
mod common;
mod job;
mod left_out;
mod multiple;
mod ranks;
mod recomputed;
mod replicas;
mod shares;
mod sources;
mod streams;
mod together;

use std::sync::Arc;

use plimsoll_policy::{BucketedConfig, PolicyConfig};
use plimsoll_predict::{Platform, PredictorConfig};
use plimsoll_probe::DeviceKind;
use plimsoll_sampler::Objective;
use plimsoll_train::{
    BadSample, BalanceConfig, CheckpointError, ControllerConfig, Existing, FitConfig, KnownTooLarge, LearningRate,
    Loader, LoaderConfig, OptimizerRecovery, RunDir, Scaling, StepUnit, TrainError, Unit, Wanted, beside_tensors,
    replay,
};
use plimsoll_types::{Bytes, Decided, Decision, EndReason, Event, Fraction, Recompute, StepDone};

use common::{Ran, alone, needed, run, steps};
use job::{ALL, EDGES, N_SAMPLES, Rows, Tiny, length, tiny};

fn config(n_steps: u64, unit: StepUnit, effective_batch_size: u32) -> FitConfig {
    let loader = LoaderConfig {
        unit,
        cells: EDGES.to_vec().into(),
        workers: 3,
        look_ahead: 32,
        ..LoaderConfig::cut(3, effective_batch_size, 40, Bytes::mib(16))
    };
    FitConfig {
        device: "flex".to_owned(),
        seed: 3,
        deterministic: false,
        draws_line: false,
        may_checkpoint: false,
        too_large: KnownTooLarge::default(),
        optimizer_recovery: OptimizerRecovery::Restore,
        n_steps,
        learning_rate: LearningRate { peak: 1e-3, warm_up_steps: 2, final_share: 0.1, scaling: Scaling::Sqrt },
        target: Fraction::ONE,
        controller: ControllerConfig {
            predictor: PredictorConfig { beside: beside_tensors(DeviceKind::Flex), ..PredictorConfig::default() },
            policy: PolicyConfig::Bucketed(BucketedConfig {
                cells: EDGES.to_vec().into(),
                batch_max: 16,
                ..BucketedConfig::default()
            }),
            recompute: Recompute::NEVER,
            platform: Platform::default(),
            planned: Vec::new(),
            replicas: 1,
            exact_peaks: true,
            small_batch: 0,
        },
        tasks: BalanceConfig::default(),
        loader,
        validate_every: 50,
        validation_share: Fraction::ONE,
        checkpoint_every: 4,
        patience: None,
        keep_checkpoints: 2,
    }
}

fn fresh(job: &Tiny, config: &FitConfig, room: Bytes) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    run(job, config, room, folder.path(), Existing::Refuse, None)
}

/// The ids of each step, in the order in which they ran.
fn ids(events: &[Event]) -> Vec<(u64, Vec<u64>)> {
    let flat = |it: &&StepDone| (it.epoch, it.micro_batches.iter().flat_map(|it| it.ids.clone()).collect());
    steps(events).iter().map(flat).collect()
}

/// More than so many epochs are complete, with every sample exactly once, and every sample fits its edge.
#[track_caller]
fn check_epochs(events: &[Event], n_epochs: usize) {
    assert!(common::check_epochs(events, N_SAMPLES) >= n_epochs, "too few epochs");
    for batch in steps(events).iter().flat_map(|it| &it.micro_batches) {
        assert!(batch.ids.iter().all(|id| length(*id) <= batch.edges.edge()), "{batch:?}");
    }
}

/// Room for some of the batches that the policy may ask for on this machine, but not for all.
fn tight(job: &Tiny) -> Bytes {
    let needed = |batch_max| {
        let mut config = config(8, StepUnit::Samples, 16);
        config.controller.policy = kept(batch_max);
        needed(job, &config)
    };
    // What a thread keeps for its kernels is there from the first run on.
    needed(16);
    Bytes(u64::midpoint(needed(4).0, needed(16).0))
}

/// The policy that begins with these batches, and has no larger ones.
fn kept(batch_max: u32) -> PolicyConfig {
    let start = Some(vec![batch_max; EDGES.len()]);
    PolicyConfig::Bucketed(BucketedConfig {
        cells: EDGES.to_vec().into(),
        batch_max,
        start,
        ..BucketedConfig::default()
    })
}

#[test]
fn batches_grow_with_what_is_certain_to_fit_and_every_sample_comes_once() {
    let _alone = alone();
    for streamed in [false, true] {
        let job = tiny(streamed, Unit::Samples);
        let ran = fresh(&job, &config(60, StepUnit::Samples, 16), tight(&job));
        assert_eq!(ran.outcome.unwrap().reason, EndReason::Completed);
        check_epochs(&ran.events, 6);
        let steps = steps(&ran.events);
        let per_epoch: Vec<_> = steps.iter().take(7).map(|it| it.n_samples()).collect();
        assert_eq!(per_epoch, [16, 16, 16, 16, 16, 16, 4], "streamed: {streamed}");
        assert!(steps[0].micro_batches.iter().all(|it| it.ids.len() == 1));
        let mut resizes = ran.events.iter().rev().filter_map(|event| match event {
            Event::Decided(Decided { decision: Decision::Resize(resize), .. }) => Some(&resize.to),
            _ => None,
        });
        let sizes = resizes.next().unwrap();
        assert!(sizes[0] > sizes[3] && sizes[3] > 1, "{sizes:?}");
        let batches = || steps.iter().flat_map(|it| &it.micro_batches);
        assert!(batches().any(|it| it.edges.edge() == 40 && it.ids.len() > 1), "nothing grew");
        assert!(steps.iter().all(|it| it.peak <= it.capacity), "above capacity");
        assert!(steps.iter().skip(2).all(|it| it.upper.is_some_and(|upper| it.peak <= upper)), "above the bound");
        assert!(replay(&ran.events).unwrap().mismatches.is_empty());
    }
}

#[test]
fn steps_of_positions_take_as_many_on_average() {
    let _alone = alone();
    for streamed in [false, true] {
        let ran = fresh(&tiny(streamed, Unit::Positions), &config(60, StepUnit::Positions, 200), Bytes::mib(64));
        ran.outcome.unwrap();
        check_epochs(&ran.events, 3);
        let total: u32 = (0..N_SAMPLES).map(length).sum();
        let taken = |ids: &[u64]| ids.iter().map(|id| length(*id)).sum::<u32>();
        let mut sum = 0;
        for (at, (_, ids)) in ids(&ran.events).iter().take_while(|(epoch, _)| *epoch == 0).enumerate() {
            sum += taken(ids);
            let (least, most) = (200 * (u32::try_from(at).unwrap() + 1), 200 * (u32::try_from(at).unwrap() + 1) + 40);
            assert!((least..most).contains(&sum) || sum == total, "step {at}: {sum}");
        }
    }
}

#[test]
fn neither_the_memory_nor_the_workers_change_what_a_step_of_one_unit_computes() {
    let _alone = alone();
    let job = tiny(false, Unit::Samples);
    let run = |room, workers| {
        let mut config = config(5, StepUnit::Samples, 16);
        config.controller.policy = kept(16);
        config.loader.workers = workers;
        fresh(&job, &config, room).events
    };
    let is_resize = |it: &Event| matches!(it, Event::Decided(Decided { decision: Decision::Resize(_), .. }));
    let losses = |events: &[Event]| steps(events).iter().map(|it| it.loss).collect::<Vec<_>>();
    // Room for what the sizes are thought to need after the first step of a thread, which also takes what its kernels keep.
    let (small, large) = (Bytes::mib(256), Bytes::gib(1));
    let one = run(small, 1);
    for other in [&one, &run(small, 3), &run(large, 1), &run(large, 3)] {
        // Sizes that change divide anew what is left of an epoch.
        assert!(!other.iter().any(is_resize), "the sizes have changed");
        assert_eq!(ids(&one), ids(other));
        assert_eq!(losses(&one), losses(other));
    }
}

#[test]
fn a_batch_is_a_step_where_the_effective_batch_may_vary_and_the_rate_follows() {
    let _alone = alone();
    let ran = fresh(&tiny(false, Unit::Samples), &config(150, StepUnit::Batch, 16), Bytes::mib(64));
    ran.outcome.unwrap();
    check_epochs(&ran.events, 2);
    let steps = steps(&ran.events);
    assert!(steps.iter().all(|it| it.micro_batches.len() == 1));
    let rate = LearningRate { peak: 1e-3, warm_up_steps: 2, final_share: 0.1, scaling: Scaling::None };
    for done in steps {
        let expected = rate.at(done.step, 150) * (done.n_samples() as f64 / 16.0).sqrt();
        assert!((done.learning_rate - expected).abs() < 1e-12, "step {}", done.step);
    }
}

#[test]
fn an_interrupted_run_goes_on_with_the_same_steps_where_they_are_planned() {
    let _alone = alone();
    let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (job, config, room) = (tiny(false, Unit::Positions), config(20, StepUnit::Positions, 200), Bytes::mib(64));
    let undisturbed = run(&job, &config, room, whole.path(), Existing::Refuse, None);
    let first = run(&job, &config, room, parts.path(), Existing::Refuse, Some(7));
    assert_eq!(first.outcome.unwrap().reason, EndReason::Interrupted);
    let second = run(&job, &config, room, parts.path(), Existing::Resume, None);
    assert_eq!(second.outcome.unwrap().reason, EndReason::Completed);
    assert_eq!(ids(&undisturbed.events), ids(&second.events));
    assert!(replay(&second.events).unwrap().mismatches.is_empty());
}

#[test]
fn a_run_goes_on_with_the_rule_that_it_began_with() {
    let _alone = alone();
    let config = || config(20, StepUnit::Samples, 16);
    for streamed in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (job, room) = (tiny(streamed, Unit::Samples), Bytes::mib(64));
        run(&job, &config(), room, folder.path(), Existing::Refuse, Some(7)).outcome.unwrap();
        let goes_on = |change: &dyn Fn(&mut LoaderConfig)| {
            let mut config = config();
            change(&mut config.loader);
            run(&job, &config, room, folder.path(), Existing::Resume, None).outcome
        };
        for (key, change) in [
            (
                "batch.batches_per_step",
                &(|it: &mut LoaderConfig| it.batches_per_step = 2) as &dyn Fn(&mut LoaderConfig),
            ),
            ("batch.effective_batch_size", &|it| it.effective_batch_size = 15),
            ("batch.effective_unit", &|it| it.unit = StepUnit::Batch),
            ("batch.n_edges", &|it| it.cells = vec![40].into()),
            ("tasks.homogeneous", &|it| it.tasks.homogeneous = true),
            ("tasks.shares", &|it| it.tasks.shares = Some(vec![1.0])),
        ] {
            let error = goes_on(change).unwrap_err();
            if streamed && key == "tasks.shares" {
                // A stream refuses shares whatever went before.
                assert!(error.to_string().contains("`shares` are for epochs"), "{error}");
                continue;
            }
            let TrainError::Checkpoint(CheckpointError::Changed { change, .. }) = error else { panic!("{error}") };
            assert_eq!(change.key, key);
        }
        let ended = goes_on(&|it| (it.workers, it.look_ahead, it.buffer_limit) = (1, 16, Bytes::mib(20)));
        assert_eq!(ended.unwrap().reason, EndReason::Completed);
        check_epochs(&RunDir::open(folder.path(), Existing::Resume).unwrap().events().unwrap(), 2);
    }
}

#[test]
fn the_number_of_workers_does_not_change_the_steps_of_a_policy_that_resizes() {
    let _alone = alone();
    let of = |workers| {
        let mut config = config(30, StepUnit::Samples, 16);
        config.loader.workers = workers;
        ids(&fresh(&tiny(false, Unit::Samples), &config, Bytes::gib(1)).events)
    };
    assert_eq!(of(1), of(4));
}

#[test]
fn steps_without_a_readable_sample_are_passed_over_unless_there_is_no_other() {
    let _alone = alone();
    for streamed in [false, true] {
        let mut config = config(300, StepUnit::Batch, 16);
        config.controller.policy = kept(1);
        config.loader.bad_sample = BadSample::Skip;
        let broken = |broken| Tiny { rows: Arc::new(Rows::new(streamed, broken, 1)), ..tiny(streamed, Unit::Samples) };
        let ran = fresh(&broken(Some(7)), &config, Bytes::mib(64));
        ran.outcome.unwrap();
        let skipped: Vec<_> = steps(&ran.events).iter().flat_map(|it| it.skipped.clone()).collect();
        assert!(skipped.len() >= 3 && skipped.iter().all(|id| *id == 7), "{skipped:?}");
        let samples = |event: &Event| if let Event::EpochDone(done) = event { Some(done.samples) } else { None };
        let epochs: Vec<_> = ran.events.iter().filter_map(samples).collect();
        assert!(epochs.iter().all(|n| *n <= N_SAMPLES), "{epochs:?}");
        let none = fresh(&broken(Some(ALL)), &config, Bytes::mib(64));
        let text = none.outcome.unwrap_err().to_string();
        assert!(text.contains("none of 100 samples in a row can be read"), "{text}");
    }
}

#[test]
fn an_epoch_that_ends_with_steps_of_which_no_sample_is_left_ends_all_the_same() {
    let _alone = alone();
    for streamed in [false, true] {
        let mut config = config(150, StepUnit::Batch, 16);
        config.controller.policy = kept(4);
        config.loader.bad_sample = BadSample::Skip;
        config.too_large.train = vec![25.into()];
        let ran = fresh(&tiny(streamed, Unit::Samples), &config, Bytes::mib(64));
        ran.outcome.unwrap();
        let ended = |event: &Event| if let Event::EpochDone(it) = event { Some((it.epoch, it.samples)) } else { None };
        let epochs: Vec<_> = ran.events.iter().filter_map(ended).collect();
        let n = (0..N_SAMPLES).filter(|id| length(*id) <= 24).count() as u64;
        assert!(epochs.len() >= 6, "{epochs:?}");
        assert_eq!(epochs, (0..).map(|epoch| (epoch, n)).take(epochs.len()).collect::<Vec<_>>(), "{streamed}");
    }
}

#[test]
fn what_makes_no_whole_step_is_counted_at_the_end_of_its_epoch() {
    let _alone = alone();
    for streamed in [false, true] {
        let mut config = config(20, StepUnit::Samples, 16);
        config.loader.drop_last = true;
        let ran = fresh(&tiny(streamed, Unit::Samples), &config, Bytes::mib(64));
        ran.outcome.unwrap();
        let ended =
            |event: &Event| if let Event::EpochDone(it) = event { Some((it.samples, it.dropped)) } else { None };
        // Six steps of 16 and four samples that make none.
        assert_eq!(ran.events.iter().filter_map(ended).collect::<Vec<_>>(), [(96, 4); 3], "streamed: {streamed}");
    }
}

#[test]
fn padded_batches_are_arranged_as_is_asked_for() {
    let padded = |set: fn(&mut LoaderConfig)| {
        let mut config = LoaderConfig { batches_per_step: 2, ..config(1, StepUnit::Samples, 24).loader };
        set(&mut config);
        let (rows, wanted) = (Arc::new(Rows::new(false, None, 1)), Wanted::Batches(vec![12; 4]));
        let mut loader = Loader::try_new(&rows, None, &wanted, &config).unwrap();
        let mut padded = 0;
        loop {
            let step = loader.next(&wanted).unwrap();
            padded += step.draw.parts.iter().map(|it| it.ids.len() as u64 * it.extent.positions()).sum::<u64>();
            let ends_epoch = step.ends_epoch;
            loader.recycle(step).unwrap();
            if ends_epoch {
                return padded;
            }
        }
    };
    let apart = |it: &mut LoaderConfig| it.most_mates_kept = Fraction::ONE;
    let usual = padded(|_| ());
    // Each sample in its own cell, which is the least; many batches at any price are few, and pad more.
    let least: u64 =
        (0..N_SAMPLES).map(|id| EDGES.iter().find(|it| length(id) <= **it).copied().unwrap()).map(u64::from).sum();
    assert_eq!(padded(|it| it.objective = Objective::LeastTime { batch_overhead: 0.0 }), least);
    assert!(least < padded(|it| it.objective = Objective::LeastTime { batch_overhead: 1e6 }));
    assert!(padded(apart) <= usual && least < usual);
    assert!(usual < padded(|it| it.window = Some(12)), "arranged twelve at a time, each batch has all lengths");
}

#[test]
fn a_sample_that_cannot_be_read_ends_the_run_or_is_left_out_and_counted() {
    let _alone = alone();
    for streamed in [false, true] {
        let job = Tiny { rows: Arc::new(Rows::new(streamed, Some(7), 1)), ..tiny(streamed, Unit::Samples) };
        let mut config = config(14, StepUnit::Samples, 16);
        let failed = fresh(&job, &config, Bytes::mib(64));
        assert_eq!(failed.outcome.unwrap_err().to_string(), "read sample 7: rows/7.txt: is gone");
        config.loader.bad_sample = BadSample::Skip;
        let ran = fresh(&job, &config, Bytes::mib(64));
        ran.outcome.unwrap();
        let of_epoch: Vec<_> = steps(&ran.events).into_iter().filter(|it| it.epoch == 0).collect();
        assert_eq!(of_epoch.iter().flat_map(|it| it.skipped.clone()).collect::<Vec<_>>(), [7]);
        assert_eq!(of_epoch.iter().map(|it| it.n_samples()).sum::<u64>(), N_SAMPLES - 1);
    }
}
