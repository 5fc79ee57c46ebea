//! What a controller learns of micro-batches.

use plimsoll_policy::PolicyConfig;
use plimsoll_types::{Knobs, MicroBatch};

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
        predicted: None,
        upper: None,
        resident: Bytes(RESIDENT),
        in_use: Bytes(RESIDENT),
        reserved: peak,
        peak,
        capacity: Bytes::gib(1),
        budget: Bytes::gib(1),
        skipped: Vec::new(),
        tasks: Vec::new(),
        loss: 1.0,
        gradient_norm: 1.0,
        learning_rate: 1e-3,
        seconds: 1.0,
        committed: true,
    }
}

fn controller(exact_peaks: bool) -> Controller {
    let config = ControllerConfig {
        predictor: PredictorConfig::default(),
        policy: PolicyConfig::default(),
        checkpointing: false,
        platform: Platform::default(),
        exact_peaks,
        small_batch: 0,
        planned: Vec::new(),
    };
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

#[test]
fn what_a_policy_asks_counts_the_gradients_that_a_step_accumulates() {
    let mut controller = controller(true);
    controller.learn(&Event::StepDone(step(0, &[8, 8]))).unwrap();
    assert_eq!(controller.resident, Bytes(RESIDENT + GRADIENTS));
    controller.learn(&Event::StepDone(step(1, &[8]))).unwrap();
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
