//! Runs of mixed shapes: planned, and real.

use std::time::Instant;

use burn::tensor::Device;
use plimsoll_plan::{BlankProgram, DryRunPlanner, PlannedCell, Pools, Program, RealSteps};
use plimsoll_predict::{Correction, Key, Keys, PartReading, Peak, Phase, Platform, Predictor, PredictorConfig, Source};
use plimsoll_probe::{DeviceKind, open};
use plimsoll_proof::plans::{MixedRow, PartsHeld, draw, first};
use plimsoll_train::{BlankJob, Job, OptimizerRecovery, Trials, beside_tensors, small_batch_regime};
use plimsoll_types::{Bytes, StepShape};

use crate::Failed;
use crate::jobs::{edges, loader};
use crate::order::{Plan, Reply, Task};
use crate::spawn::Place;

/// Steps of a run.
const N_STEPS: usize = 200;

/// Shapes that Flex runs fast: batches above 4, and small edges.
const FAST: (u32, u32) = (5, 24);

/// Compares planned and real runs, as drawn and with the largest allocation first.
pub(crate) fn rows(place: &Place, correction: &Correction) -> Result<Vec<MixedRow>, Failed> {
    let drawn = draw(N_STEPS, edges(place.job), 0);
    let first_first: Vec<_> = first(&drawn).map(|it| vec![it]).into_iter().chain(drawn.iter().cloned()).collect();
    [(true, first_first), (false, drawn)].into_iter().map(|(first, it)| row(place, correction, first, it)).collect()
}

fn row(
    place: &Place,
    correction: &Correction,
    largest_first: bool,
    steps: Vec<Vec<StepShape>>,
) -> Result<MixedRow, Failed> {
    let Reply::Pools(planned) = place.ask(Task::RehearseRun { steps: steps.clone() })? else { return unexpected() };
    let n_steps = steps.len();
    let Reply::Run { high_water, after, seconds, .. } =
        place.ask(Task::Run { steps, largest: StepShape::new(0, 0) })?
    else {
        return unexpected();
    };
    let equal = planned.iter().zip(&after).filter(|(planned, real)| planned.reserved == real.reserved).count();
    Ok(MixedRow {
        job: place.job.to_owned(),
        device: place.device.to_string(),
        checkpointing: place.checkpointing,
        largest_first,
        n_steps,
        planned_high_water: planned.iter().map(|it| correction.upper(it.booked())).max().unwrap_or_default(),
        measured_high_water: high_water,
        planned_pools: planned.iter().map(|it| it.reserved).max(),
        measured_pools: after.iter().map(|it| it.reserved).max(),
        steps_equal: Some(equal),
        parts: None,
        seconds,
    })
}

/// Compares the peak of each part of a real run with the bound that was asked for before it, where there are no pools:
/// by what the plan has run, and then by what each step showed, as a run learns.
pub(crate) fn probed_row(place: &Place, plan: &Plan, largest: StepShape) -> Result<MixedRow, Failed> {
    let longest = edges(place.job).of(FAST.1);
    let fast = |it: &&PlannedCell| FAST.0 <= it.batch && longest.covers(it.extent) && it.phase == Phase::Train;
    let cells: Vec<_> = plan.cells.iter().filter(fast).map(PlannedCell::shape).collect();
    if cells.is_empty() {
        return Err("draw steps: no cell of the plan is fast enough".into());
    }
    let part = |step: usize, at: usize| cells[(step * 7 + at * (1 + step % 3)) % cells.len()];
    let steps: Vec<Vec<_>> = (0..N_STEPS).map(|step| (0..=step % 3).map(|at| part(step, at)).collect()).collect();
    let Reply::Run { high_water, parts, seconds, .. } = place.ask(Task::Run { steps: steps.clone(), largest })? else {
        return unexpected();
    };
    let (uppers, held) = hold(plan, &steps, &parts)?;
    Ok(MixedRow {
        job: place.job.to_owned(),
        device: place.device.to_string(),
        checkpointing: place.checkpointing,
        largest_first: false,
        n_steps: N_STEPS,
        planned_high_water: uppers,
        measured_high_water: high_water,
        planned_pools: None,
        measured_pools: None,
        steps_equal: None,
        parts: Some(held),
        seconds,
    })
}

/// Returns the largest bound of any part, and how the parts compare with theirs.
fn hold(plan: &Plan, steps: &[Vec<StepShape>], parts: &[PartReading]) -> Result<(Bytes, PartsHeld), Failed> {
    let beside = beside_tensors(DeviceKind::Flex);
    let mut predictor =
        Predictor::try_new(PredictorConfig { beside, features: plan.features, ..PredictorConfig::default() })?;
    let key = |shape: StepShape| Key {
        phase: Phase::Train,
        checkpointing: false,
        platform: Platform::default(),
        regime: u16::from(shape.samples <= small_batch_regime(DeviceKind::Flex)),
    };
    for it in plan.cells.iter().filter(|it| it.phase == Phase::Train && it.source == Source::Memo) {
        let (shape, before, peak) = (it.shape(), it.resident, Peak::Exact(it.reserved));
        predictor.observe(key(shape), PartReading { shape, before, peak, nodes: it.nodes, packed: it.packed })?;
    }
    let (mut uppers, mut slacks, mut n_above) = (Bytes::ZERO, Vec::new(), 0);
    let mut rest = parts;
    for n in steps.iter().map(Vec::len) {
        let (step, later) = rest.split_at_checked(n).ok_or("read every part of a step")?;
        rest = later;
        for it in step {
            let Some(bound) = predictor.predict(key(it.shape), it.shape, it.before) else { continue };
            let peak = it.peak.bytes();
            uppers = uppers.max(bound.upper);
            if bound.upper < peak {
                eprintln!("{} needed {peak}, at most {} was said", it.shape, bound.upper);
                n_above += 1;
            }
            slacks.push(bound.upper.share_of(peak) - 1.0);
        }
        let readings: Vec<_> = step.iter().map(|it| (key(it.shape), *it)).collect();
        predictor.observe_step(&readings, Bytes::ZERO)?;
    }
    slacks.sort_by(f64::total_cmp);
    let slack_median = slacks.get(slacks.len() / 2).copied().unwrap_or_default();
    Ok((uppers, PartsHeld { n_bounded: slacks.len(), n_above, slack_median }))
}

fn unexpected<T>() -> Result<T, Failed> {
    Err("get an answer to the question that was asked".into())
}

/// Runs the steps in this process.
pub(crate) fn run<J: Job>(
    job: &J,
    (device, keys): (Device, Keys),
    kind: DeviceKind,
    steps: &[Vec<StepShape>],
    largest: StepShape,
) -> Result<Reply, Failed> {
    let start = Instant::now();
    let seconds = || start.elapsed().as_secs_f64();
    if kind == DeviceKind::Flex {
        let mut trials = Trials::try_new(job, device, keys, open(kind, None)?)?;
        trials.hold_buffers(&loader(largest))?;
        let (mut high_water, mut parts) = (Bytes::ZERO, Vec::new());
        // As before a run: what the first steps of a process make and keep is no need of a part.
        for _ in 0..2 {
            steps.iter().flatten().min().map(|it| trials.blank(*it)).transpose()?;
        }
        for step in steps {
            let ran = trials.blank_parts(step)?;
            high_water = high_water.max(ran.trial.peak);
            parts.extend(ran.parts);
        }
        return Ok(Reply::Run { high_water, after: Vec::new(), parts, seconds: seconds() });
    }
    let planner = DryRunPlanner::try_open(kind)?;
    let blank = BlankJob::new(job, device.clone(), keys);
    let after = run_program(&BlankProgram::new(blank, OptimizerRecovery::Restore), &|| planner.pools(&device), steps)?;
    let high_water = after.iter().map(Pools::total).max().unwrap_or_default();
    Ok(Reply::Run { high_water, after, parts: Vec::new(), seconds: seconds() })
}

/// Runs optimizer steps, and returns the pools after each.
fn run_program<P: Program>(
    program: &P,
    pools: &dyn Fn() -> Pools,
    steps: &[Vec<StepShape>],
) -> Result<Vec<Pools>, Failed> {
    let mut state = program.start();
    let mut after = Vec::with_capacity(steps.len());
    for parts in steps {
        let (next, scalar) = program.train(state, parts);
        state = next;
        // A read waits for the step, as that of a run does.
        scalar.try_into_data().map_err(|error| format!("run a step of {parts:?}: {error}"))?;
        after.push(pools());
    }
    Ok(after)
}
