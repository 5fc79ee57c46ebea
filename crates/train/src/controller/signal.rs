//! What a policy needs to know of an event.

use plimsoll_policy::{Signal, StepMeasured, StepRefused};
use plimsoll_types::{Budget, BudgetChanged, Event, MicroBatch, Stage, StepDone, StepFailed, StepShape};

/// Returns how many samples a part has, of so many in a step and at once.
pub(super) type PartSize<'a> = &'a dyn Fn(u64, u32) -> u32;

/// Returns what an event tells a policy; most tell it nothing.
pub(super) fn signal(event: &Event, part_size: PartSize<'_>) -> Option<Signal> {
    Some(match event {
        Event::StepDone(done) if done.committed => Signal::Done(measured(done, part_size)),
        Event::StepFailed(StepFailed { step, rung, attempt, stage, .. }) => {
            let in_parts = match stage {
                Stage::MicroBatch => true,
                Stage::Optimizer | Stage::Process => false,
            };
            Signal::OutOfMemory(StepRefused { step: *step, knobs: *rung, shape: attempt.shape, in_parts })
        }
        Event::BudgetChanged(BudgetChanged { step, budget }) => Signal::BudgetChanged { step: *step, budget: *budget },
        Event::GradientCheckpointing(switched) => Signal::Checkpointing(switched.recompute),
        _ => return None,
    })
}

fn measured(done: &StepDone, part_size: PartSize<'_>) -> StepMeasured {
    let StepDone { step, rung, peak, capacity, budget, .. } = *done;
    let budget = Budget { capacity, budget };
    StepMeasured { step, knobs: rung, is_divided: is_divided(done, part_size), highest: highest(done), peak, budget }
}

/// Whether the step ran in more micro-batches than its samples need at the knobs that were asked for.
fn is_divided(done: &StepDone, part_size: PartSize<'_>) -> bool {
    let size = part_size(done.n_rows(), done.rung.micro_batch_size).max(1);
    done.n_rows().div_ceil(size.into()) < done.micro_batches.len() as u64
}

/// Returns the micro-batch with the highest peak, or the largest where none was measured.
fn highest(done: &StepDone) -> Option<StepShape> {
    let measured = done.micro_batches.iter().filter(|it| it.peak.is_some()).max_by_key(|it| it.peak);
    measured.map(MicroBatch::shape).or(done.largest_shape())
}

#[cfg(test)]
mod tests {
    use plimsoll_types::part_size;
    use plimsoll_types::{Bytes, EpochDone, Knobs};

    use super::*;

    fn done(parts: &[(usize, Option<u64>)]) -> StepDone {
        let micro_batch =
            |(n, peak): &(usize, Option<u64>)| MicroBatch { peak: peak.map(Bytes), ..MicroBatch::new(vec![0; *n], 16) };
        StepDone {
            step: 7,
            epoch: 0,
            rung: Knobs { patch_size: 16, micro_batch_size: 5 },
            micro_batches: parts.iter().map(micro_batch).collect(),
            real_positions: None,
            predicted: None,
            upper: None,
            resident: Bytes::ZERO,
            in_use: Bytes(10),
            reserved: Bytes(30),
            peak: Bytes(20),
            page: Bytes::ZERO,
            packed: Bytes::ZERO,
            capacity: Bytes(100),
            budget: Bytes(90),
            skipped: Vec::new(),
            tasks: Vec::new(),
            loss: 1.0,
            gradient_norm: 1.0,
            learning_rate: 0.001,
            seconds: 1.0,
            waited_seconds: None,
            supply: None,
            committed: true,
        }
    }

    #[test]
    fn a_step_in_more_parts_than_its_knobs_ask_for_was_divided() {
        let divided = |parts: &[usize]| {
            let parts: Vec<_> = parts.iter().map(|n| (*n, None)).collect();
            measured(&done(&parts), &|_, most| most).is_divided
        };
        assert!(!divided(&[5, 5, 2]) && !divided(&[5]) && !divided(&[3]));
        assert!(divided(&[3, 2, 5]) && divided(&[2, 1]));
    }

    #[test]
    fn a_step_whose_parts_replicas_share_is_divided_only_beyond_that() {
        let on_two = |parts: &[usize]| {
            let parts: Vec<_> = parts.iter().map(|n| (*n, None)).collect();
            is_divided(&done(&parts), &|n, most| part_size(n, most, 2, 0))
        };
        // The knobs of these steps ask for five at once.
        assert!(!on_two(&[3, 2]) && !on_two(&[2, 2, 2, 2]) && on_two(&[1, 1, 1, 2]));
    }

    #[test]
    fn the_micro_batch_of_the_peak_is_the_one_that_was_measured_highest_or_else_the_largest() {
        let highest = |parts: &[(usize, Option<u64>)]| measured(&done(parts), &|_, most| most).highest;
        assert_eq!(highest(&[(5, Some(10)), (2, Some(20)), (4, Some(15))]), Some(StepShape::new(2, 16)));
        assert_eq!(highest(&[(4, None), (5, None), (2, None)]), Some(StepShape::new(5, 16)));
        assert_eq!(highest(&[]), None);
    }

    #[test]
    fn only_committed_steps_failed_steps_and_the_memory_of_a_step_are_for_a_policy() {
        let given_up = StepDone { committed: false, ..done(&[(5, None)]) };
        for event in
            [Event::StepDone(given_up), Event::EpochDone(EpochDone { epoch: 0, step: 9, samples: 1, dropped: 0 })]
        {
            assert_eq!(signal(&event, &|_, most| most), None);
        }
        assert!(signal(&Event::StepDone(done(&[])), &|_, most| most).is_some());
    }
}
