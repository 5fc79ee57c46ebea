//! Runs that never happened, the same at every call.

use plimsoll_types::{
    Attempt, Budget, Bytes, Change, CheckpointSaved, Decided, Decision, EndReason, EpochDone, Event, Goal, Knobs,
    MicroBatch, MoveReason, RunEnded, RunStarted, SCHEMA_VERSION, Stage, StepDone, StepFailed, StepShape, Validated,
};

pub(crate) const MEMORY: Budget = Budget { capacity: Bytes::mib(192), budget: Bytes(181_193_932) };
const SAMPLES: u32 = 16;

pub(crate) const fn knobs(patch_size: u32, micro_batch_size: u32) -> Knobs {
    Knobs { patch_size, micro_batch_size }
}

pub(crate) fn started(n_steps: u64) -> Event {
    Event::RunStarted(RunStarted {
        schema_version: SCHEMA_VERSION,
        job: "sr".into(),
        device: "flex (avx2, 8 threads)".into(),
        seed: 7,
        effective_batch_size: SAMPLES,
        n_steps,
        tasks: Vec::new(),
        sources: Vec::new(),
        unit_of_length: "pixels".into(),
        planned_padding: None,
        knobs: knobs(16, 4),
        budget: MEMORY,
        controller: "{}".into(),
    })
}

pub(crate) fn step(step: u64, rung: Knobs) -> StepDone {
    let noise = (step * 2_654_435_761 % 1000) as f64 / 1000.0;
    let resident = Bytes::mib(24);
    let activations = Bytes(u64::from(rung.micro_batch_size * rung.patch_size.pow(2)) * 8_400);
    let peak = resident.saturating_add(activations).saturating_add(Bytes(step * 7919 % 2_000_000));
    let ids: Vec<u64> = (0..SAMPLES.into()).map(|it| step * u64::from(SAMPLES) + it).collect();
    StepDone {
        step,
        epoch: step / 100,
        rung,
        micro_batches: ids
            .chunks(rung.micro_batch_size as usize)
            .map(|it| MicroBatch::new(it.to_vec(), rung.patch_size))
            .collect(),
        real_positions: None,
        predicted: (step > 0).then_some(peak),
        upper: (step > 0).then(|| peak.saturating_add(Bytes::mib(2))),
        resident,
        in_use: resident.saturating_add(Bytes(step * 104_729 % 3_000_000)),
        reserved: peak.saturating_add(Bytes::mib(1)),
        peak,
        page: Bytes::ZERO,
        packed: Bytes::ZERO,
        capacity: MEMORY.capacity,
        budget: MEMORY.budget,
        skipped: Vec::new(),
        tasks: Vec::new(),
        loss: (0.04 + 0.5 / (1.0 + 0.08 * step as f64)) * (0.8 + 0.4 * noise),
        gradient_norm: 1.0 + noise,
        learning_rate: 1e-3,
        seconds: 0.25,
        waited_seconds: None,
        supply: None,
        committed: true,
    }
}

pub(crate) fn moved(step: u64, from: Knobs, to: Knobs, reason: MoveReason) -> Event {
    Event::Decided(Decided { step, decision: Decision::Move(Change { from, to, reason }) })
}

pub(crate) fn failed(step: u64, rung: Knobs, peak: Option<Bytes>) -> Event {
    let shape = StepShape::new(rung.micro_batch_size, rung.patch_size);
    Event::StepFailed(StepFailed {
        step,
        rung,
        attempt: Attempt { peak, ..Attempt::new(shape, Bytes::mib(24)) },
        capacity: MEMORY.capacity,
        stage: Stage::MicroBatch,
    })
}

pub(crate) fn validated(step: u64) -> Event {
    Event::Validated(Validated {
        step,
        metric_name: "PSNR (dB)".into(),
        metric: 31.5 - 5.0 / (1.0 + 0.02 * step as f64),
        baseline: 28.25,
        goal: Some(Goal::Highest),
        part: None,
        others: Vec::new(),
        tasks: Vec::new(),
        peak: Bytes::mib(64),
        seconds: 1.5,
    })
}

/// Six steps with an adjustment, a checkpoint and a recovery.
pub(crate) fn small() -> Vec<Event> {
    let (low, high) = (knobs(16, 4), knobs(32, 8));
    let certified = MoveReason::Certified { upper: Bytes::mib(120), limit: MEMORY.budget };
    let mut events = vec![started(6), Event::StepDone(step(0, low)), Event::StepDone(step(1, low))];
    events.extend([moved(1, low, high, certified), Event::StepDone(step(2, high)), validated(3)]);
    events.push(Event::CheckpointSaved(CheckpointSaved { step: 3, path: "checkpoints/3".into() }));
    events.extend([failed(3, high, Some(Bytes::mib(200))), Event::StepDone(step(3, high))]);
    events.extend([Event::StepDone(step(4, high)), Event::StepDone(StepDone { committed: false, ..step(5, high) })]);
    events.extend([validated(6), Event::EpochDone(EpochDone { epoch: 0, step: 5, samples: 96, dropped: 0 })]);
    events.push(Event::RunEnded(RunEnded { step: 6, reason: EndReason::Completed, seconds: 4.5 }));
    events
}

/// A run that grows twice at its start, and settles.
pub(crate) fn settled(n_steps: u64) -> Vec<Event> {
    let rung = |step: u64| [knobs(16, 4), knobs(32, 4), knobs(48, 7)][usize::from(3 <= step) + usize::from(8 <= step)];
    let mut events = vec![started(n_steps)];
    for n in 0..n_steps {
        events.push(Event::StepDone(step(n, rung(n))));
        if rung(n) != rung(n + 1) {
            let reason = MoveReason::Certified { upper: Bytes::mib(160), limit: MEMORY.budget };
            events.push(moved(n, rung(n), rung(n + 1), reason));
        }
    }
    events
}

/// A run that climbs the ladder, falls once and settles, with a validation every 50 steps.
pub(crate) fn long(n_steps: u64) -> Vec<Event> {
    let rungs = [(0, knobs(16, 4)), (40, knobs(32, 4)), (90, knobs(48, 8)), (330, knobs(48, 6)), (420, knobs(48, 7))];
    let at = |step: u64| rungs.iter().rfind(|it| it.0 <= step).unwrap_or(&rungs[0]).1;
    let mut events = vec![started(n_steps), validated(0)];
    for n in 0..n_steps {
        if n == 329 {
            events.push(failed(n, at(n), Some(Bytes::mib(207))));
        }
        events.push(Event::StepDone(step(n, at(n))));
        if at(n) != at(n + 1) {
            let reason = match n {
                329 => MoveReason::OutOfMemory { count: 1 },
                _ => MoveReason::Certified { upper: Bytes::mib(160), limit: MEMORY.budget },
            };
            events.push(moved(n, at(n), at(n + 1), reason));
        }
        if (n + 1) % 50 == 0 {
            events.push(validated(n + 1));
        }
    }
    events
}
