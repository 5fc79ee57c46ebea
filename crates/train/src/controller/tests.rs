//! What a controller learns of micro-batches.

use plimsoll_policy::{Bounds, CertifiedConfig, PolicyConfig};
use plimsoll_types::{Attempt, Budget, BudgetChanged, Change, Extent, Knobs, MicroBatch, MoveReason, Recompute, Stage};

use super::*;

const MIB: u64 = 1 << 20;

/// Bytes of the gradients, as many as the activations of 8 samples.
const GRADIENTS: u64 = 80 * MIB;

const RESIDENT: u64 = 100 * MIB;

/// What a micro-batch takes above what it finds: its activations, and gradients of its own that are then added.
fn need(shape: StepShape) -> u64 {
    10 * MIB * u64::from(shape.samples) + GRADIENTS
}

/// A step of parts of these sizes: the first finds no gradients, the others those of the ones before.
fn step(step: u64, sizes: &[u32]) -> StepDone {
    let part = |(at, n): (usize, &u32)| {
        let resident = RESIDENT + if at == 0 { 0 } else { GRADIENTS };
        let peak = Some(Bytes(resident + need(StepShape::new(*n, 32))));
        MicroBatch { resident: Some(Bytes(resident)), peak, ..MicroBatch::new((0..u64::from(*n)).collect(), 32) }
    };
    let micro_batches: Vec<_> = sizes.iter().enumerate().map(part).collect();
    let peak = micro_batches.iter().filter_map(|it| it.peak).max().unwrap_or_default();
    StepDone {
        step,
        epoch: 0,
        rung: Knobs { patch_size: 32, micro_batch_size: 8 },
        micro_batches,
        real_positions: None,
        predicted: None,
        upper: None,
        resident: Bytes(RESIDENT),
        in_use: Bytes(RESIDENT),
        reserved: peak,
        peak,
        page: Bytes::ZERO,
        packed: Bytes::ZERO,
        capacity: Bytes::gib(1),
        budget: Bytes::gib(1),
        skipped: Vec::new(),
        tasks: Vec::new(),
        loss: 1.0,
        gradient_norm: 1.0,
        learning_rate: 1e-3,
        seconds: 1.0,
        waited_seconds: None,
        supply: None,
        committed: true,
    }
}

fn config(exact_peaks: bool) -> ControllerConfig {
    ControllerConfig {
        predictor: PredictorConfig::default(),
        policy: PolicyConfig::default(),
        recompute: Recompute::NEVER,
        platform: Platform::default(),
        exact_peaks,
        small_batch: 0,
        planned: Vec::new(),
        replicas: 1,
    }
}

fn controller(exact_peaks: bool) -> Controller {
    controller_of(config(exact_peaks))
}

fn controller_of(config: ControllerConfig) -> Controller {
    Controller::try_new(config).unwrap()
}

#[test]
fn a_shape_has_one_need_whether_gradients_have_been_accumulated_before_it_or_not() {
    for sizes in [[8, 8, 3], [3, 8, 8]] {
        let mut controller = controller(true);
        for at in 0..3 {
            assert_eq!(controller.learn(&Event::StepDone(step(at, &sizes))).unwrap(), [], "{sizes:?}");
        }
        for n in [3, 8] {
            let shape = StepShape::new(n, 32);
            let above = |resident: u64| controller.predict(shape, Bytes(resident)).unwrap().upper.0 - resident;
            assert!(above(RESIDENT) >= need(shape) && above(RESIDENT) <= need(shape) + need(shape) / 50, "{sizes:?}");
            assert_eq!(above(RESIDENT), above(RESIDENT + GRADIENTS));
        }
    }
}

/// Runs a step that takes all its samples at the knobs of the policy, and returns what was decided after it.
fn take(controller: &mut Controller, at: u64, n_samples: u32, budget: Bytes) -> Option<Decision> {
    let rung = controller.policy().knobs();
    let whole = (0..n_samples / rung.micro_batch_size).map(|_| rung.micro_batch_size);
    let sizes: Vec<_> = whole.chain(Some(n_samples % rung.micro_batch_size).filter(|it| 0 < *it)).collect();
    let done = Event::StepDone(StepDone { rung, budget, capacity: budget, ..step(at, &sizes) });
    assert_eq!(controller.learn(&done).unwrap(), [], "step {at}");
    controller.decide(&done)
}

/// Returns the bound of the highest part of a step at a rung.
fn at_rung(controller: &Controller, samples: u32) -> u64 {
    let shape = StepShape::new(samples, 32);
    controller.predict(shape, controller.resident.saturating_add(controller.sum.beside(shape))).unwrap().upper.0
}

fn certified() -> Controller {
    let bounds = Bounds { patch_min: 32, patch_max: 32, patch_multiple: 32, batch_min: 4, batch_max: 16 };
    let policy = CertifiedConfig { bounds, warm_up_steps: 3, cooldown_steps: 3, min_samples: 3, ..Default::default() };
    controller_of(ControllerConfig { policy: PolicyConfig::Certified(policy), ..config(true) })
}

/// Returns the bound that a move to a rung was certified by.
#[track_caller]
fn certified_by(decision: Option<Decision>) -> (u32, Bytes) {
    match decision {
        Some(Decision::Move(Change { to, reason: MoveReason::Certified { upper, .. }, .. })) => {
            (to.micro_batch_size, upper)
        }
        other => panic!("no way up: {other:?}"),
    }
}

#[test]
fn the_sum_of_gradients_is_for_rungs_that_divide_a_step_and_for_no_others() {
    let mut controller = controller(true);
    controller.learn(&Event::StepDone(step(0, &[16]))).unwrap();
    let whole = at_rung(&controller, 16);
    controller.learn(&Event::StepDone(step(1, &[8, 8]))).unwrap();
    let half = at_rung(&controller, 8);
    assert!(RESIDENT + GRADIENTS + need(StepShape::new(8, 32)) <= half);
    assert_eq!(at_rung(&controller, 16), whole);
    // What a sum takes is known from then on, whatever runs, and an epoch may end with fewer samples.
    for sizes in [&[16][..], &[7]] {
        controller.learn(&Event::StepDone(step(2, sizes))).unwrap();
        assert_eq!((at_rung(&controller, 8), at_rung(&controller, 16)), (half, whole));
    }
    // Parts of several edges are several parts, however many samples fit.
    let mut mixed = step(3, &[8, 8]);
    mixed.micro_batches[1].edges = Extent::new(16);
    controller.learn(&Event::StepDone(mixed)).unwrap();
    assert_eq!(at_rung(&controller, 16), whole + GRADIENTS);
}

#[test]
fn a_run_goes_in_one_move_across_the_border_where_steps_are_divided_both_ways() {
    let mut controller = certified();
    let wide = Bytes(420 * MIB);
    let decisions = (0..40).filter_map(|at| take(&mut controller, at, 16, wide));
    let (to, upper) = certified_by(decisions.filter(|it| matches!(it, Decision::Move(_))).last());
    // In one part there is no sum beside it, and with one it would not fit; the bound may be from few samples yet.
    let whole = RESIDENT + need(StepShape::new(16, 32));
    assert!(to == 16 && upper <= wide && wide.0 <= whole + GRADIENTS, "{to} {upper}");
    // There is less, for good: what runs in parts then fits with its sum.
    let narrow = Bytes(335 * MIB);
    let budget = Budget { capacity: narrow, budget: narrow };
    let down = controller.decide(&Event::BudgetChanged(BudgetChanged { step: 40, budget }));
    assert!(matches!(down, Some(Decision::Move(_))), "{down:?}");
    let rung = controller.policy().knobs();
    for at in 40..300 {
        take(&mut controller, at, 16, narrow);
        assert_eq!(controller.policy().knobs(), rung, "step {at}");
    }
    let needed = RESIDENT + GRADIENTS + need(rung.shape());
    assert!(needed <= narrow.0 && narrow.0 <= needed + 40 * MIB, "{rung}");
    // And back, once the last growth is old.
    let back: Vec<_> = (300..400).filter_map(|at| take(&mut controller, at, 16, wide)).collect();
    let (to, again) = certified_by(back.into_iter().rev().find(|it| matches!(it, Decision::Move(_))));
    assert!(to == 16 && again <= upper, "{to} {again}");
}

#[test]
fn a_failure_before_the_first_step_tells_what_is_resident_and_a_later_one_may_have_found_a_sum() {
    let mut controller = controller(true);
    let failed = |resident| {
        let attempt = Attempt::new(StepShape::new(8, 32), Bytes(resident));
        let rung = Knobs { patch_size: 32, micro_batch_size: 8 };
        Event::StepFailed(StepFailed { step: 1, rung, attempt, capacity: Bytes::gib(1), stage: Stage::MicroBatch })
    };
    controller.learn(&failed(RESIDENT)).unwrap();
    assert_eq!(controller.resident, Bytes(RESIDENT));
    controller.learn(&Event::StepDone(step(0, &[8, 8]))).unwrap();
    controller.learn(&failed(RESIDENT + GRADIENTS)).unwrap();
    assert_eq!(controller.resident, Bytes(RESIDENT));
}

#[test]
fn reserved_bytes_bound_a_shape_that_has_neither_run_nor_been_planned_and_leave_room_for_pages() {
    let mut controller = controller(false);
    controller.learn(&Event::StepDone(step(0, &[8]))).unwrap();
    let above = |samples, part: u64| {
        let upper = controller.predict(StepShape::new(samples, 32), Bytes(RESIDENT)).unwrap().upper.0;
        upper.saturating_sub(RESIDENT) * 100 / part
    };
    let needs = [8, 16].map(|it| need(StepShape::new(it, 32)));
    assert!((100..105).contains(&above(8, needs[0])), "it has run");
    // Twice the samples need at most twice as much, which is more than they do, and half of that for pages.
    assert!((150..160).contains(&above(16, 2 * needs[0])), "this has not: {}", above(16, needs[1]));
}

#[test]
fn what_pages_hold_after_a_step_of_several_parts_counts_the_gradients_that_it_accumulates() {
    let mut controller = controller(false);
    let mut done = step(0, &[8, 8, 3]);
    // Parts of one edge share their pages, which show the largest of them.
    for it in &mut done.micro_batches {
        it.peak = None;
    }
    controller.learn(&Event::StepDone(done.clone())).unwrap();
    let upper = |resident| controller.predict(StepShape::new(8, 32), Bytes(resident)).unwrap().upper;
    assert!(upper(RESIDENT) >= done.peak);
    assert_eq!(upper(RESIDENT), upper(RESIDENT + GRADIENTS), "they are in its reading");
    assert!(upper(RESIDENT + 2 * GRADIENTS) > upper(RESIDENT), "and nothing beyond them is");
}

#[test]
fn a_reading_above_its_bound_is_told_also_of_a_step_that_keeps_much() {
    let mut controller = controller(true);
    let clean = step(0, &[8]);
    controller.learn(&Event::StepDone(clean.clone())).unwrap();
    let peak = Bytes(2 * clean.peak.0);
    let micro_batches = vec![MicroBatch { peak: Some(peak), ..clean.micro_batches[0].clone() }];
    let keeps = StepDone { step: 1, micro_batches, peak, in_use: Bytes(RESIDENT + 50 * MIB), ..clean };
    let told = controller.learn(&Event::StepDone(keeps)).unwrap();
    assert_eq!((told.len(), told[0].peak, controller.n_violations()), (1, peak, 1));
    // What it keeps is there before the next one.
    assert!(controller.predict(StepShape::new(8, 32), Bytes(RESIDENT + 50 * MIB)).unwrap().upper >= peak);
}

#[test]
fn a_validation_above_its_bound_is_returned_and_learnt() {
    let mut controller = controller(true);
    let observation = |n, peak| {
        PartReading::of(
            Observation { shape: StepShape::new(n, 32), resident: Bytes(RESIDENT), peak: Bytes(peak) },
            true,
            Bytes::ZERO,
        )
    };
    assert_eq!(
        controller.learn_inference(observation(4, RESIDENT + 40 * MIB), Bytes::ZERO).unwrap(),
        None,
        "nothing was known"
    );
    assert_eq!(controller.learn_inference(observation(4, RESIDENT + 40 * MIB), Bytes::ZERO).unwrap(), None);
    let beside = controller.learn_inference(observation(4, RESIDENT + 60 * MIB), Bytes::mib(20)).unwrap();
    assert_eq!(beside, None, "a loader that begins meanwhile keeps what it takes");
    let exceeded = controller.learn_inference(observation(4, RESIDENT + 60 * MIB), Bytes::ZERO).unwrap().unwrap();
    assert_eq!((exceeded.shape, exceeded.peak), (StepShape::new(4, 32), Bytes(RESIDENT + 60 * MIB)));
    assert!(Bytes(RESIDENT + 40 * MIB) <= exceeded.upper && exceeded.upper < exceeded.peak, "{exceeded:?}");
    assert_eq!(
        (
            controller.n_violations(),
            controller.learn_inference(observation(4, RESIDENT + 60 * MIB), Bytes::ZERO).unwrap()
        ),
        (1, None)
    );
}

#[test]
fn tables_that_may_double_are_in_the_bound_of_a_longer_edge_and_not_in_that_of_what_was_read() {
    // So many nodes fill their tables: one position more, and these may be twice as large.
    let (shape, nodes) = (StepShape::new(8, 32), 120_000);
    let done = step(0, &[8]);
    let told = |peak| {
        let micro_batches = vec![MicroBatch { nodes, peak, ..done.micro_batches[0].clone() }];
        Event::StepDone(StepDone { micro_batches, ..done.clone() })
    };
    let attempt = Attempt { peak: Some(done.peak), nodes, ..Attempt::new(shape, Bytes(RESIDENT)) };
    let (rung, capacity, stage) = (done.rung, done.capacity, Stage::MicroBatch);
    let failed = Event::StepFailed(StepFailed { step: 0, rung, attempt, capacity, stage });
    let (phase, expected, largest, resident) = (Phase::Train, done.peak, Bytes::ZERO, Some(Bytes(RESIDENT)));
    let planned = vec![PlannedNeed {
        phase,
        checkpointing: false,
        shape,
        expected,
        upper: expected,
        largest,
        resident,
        nodes,
        packed: Bytes::ZERO,
    }];
    let mut controllers = vec![controller_of(ControllerConfig { planned, ..config(true) })];
    for event in [told(Some(done.peak)), told(None), failed] {
        let mut controller = controller(true);
        let read: Event = serde_json::from_str(&serde_json::to_string(&event).unwrap()).unwrap();
        controller.learn(&read).unwrap();
        controllers.push(controller);
    }
    for controller in controllers {
        let above = |shape| controller.predict(shape, Bytes(RESIDENT)).unwrap().upper.0 - RESIDENT;
        assert!((need(shape)..=need(shape) + need(shape) / 50).contains(&above(shape)));
        assert!(need(shape) + 16 * MIB <= above(StepShape::new(8, 33)));
    }
}

#[test]
fn a_step_among_pages_of_other_shapes_teaches_nothing_of_its_own() {
    let told = |shares_pages| {
        let done = step(0, &[2]);
        let micro_batches = vec![MicroBatch { shares_pages, peak: None, ..done.micro_batches[0].clone() }];
        let event = Event::StepDone(StepDone { micro_batches, peak: Bytes::gib(1), ..done });
        let mut controller = controller(false);
        controller.learn(&serde_json::from_str(&serde_json::to_string(&event).unwrap()).unwrap()).unwrap();
        controller.predict(StepShape::new(2, 32), Bytes(RESIDENT))
    };
    assert_eq!(told(true), None);
    assert!(told(false).is_some_and(|it| Bytes::gib(1) <= it.upper), "what is reserved is its own");
}

#[test]
fn what_an_event_says_of_pages_is_in_the_bound_of_what_is_reserved() {
    let (done, page) = (step(0, &[2]), Bytes::mib(5));
    let (shape, rung, capacity) = (StepShape::new(2, 32), done.rung, done.capacity);
    let attempt = Attempt { peak: Some(done.peak), page, ..Attempt::new(shape, Bytes(RESIDENT)) };
    let failed = StepFailed { step: 0, rung, attempt, capacity, stage: Stage::MicroBatch };
    for event in [Event::StepDone(StepDone { page, ..done.clone() }), Event::StepFailed(failed)] {
        let mut controller = controller(false);
        controller.learn(&serde_json::from_str(&serde_json::to_string(&event).unwrap()).unwrap()).unwrap();
        let upper = controller.predict(shape, Bytes(RESIDENT)).unwrap().upper;
        assert_eq!(upper, Bytes(Bytes::from_f64_ceil(done.peak.as_f64() * 1.02).0 + page.0));
    }
}
