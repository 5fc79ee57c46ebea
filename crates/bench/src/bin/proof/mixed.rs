//! Runs of mixed shapes: planned, and real.

use std::time::Instant;

use plimsoll_bench::proof::{MixedRow, draw, first};
use plimsoll_plan::{DryRunPlanner, PlannedCell, Pools, Program};
use plimsoll_predict::{Correction, Phase};
use plimsoll_probe::{DeviceKind, open};
use plimsoll_train::{Job, JobProgram, OptimizerRecovery, Trials, has_fusion, open_device};
use plimsoll_types::{Bytes, StepShape};

use crate::Failed;
use crate::child::loader;
use crate::order::{Plan, Reply, Task};
use crate::spawn::Place;

/// Steps of a run.
const N_STEPS: usize = 200;

/// Shapes that Flex runs fast: batches above 4, and small edges.
const FAST: (u32, u32) = (5, 24);

/// Compares planned and real runs, as drawn and with the largest allocation first.
pub(crate) fn rows(place: &Place, correction: &Correction) -> Result<Vec<MixedRow>, Failed> {
    let drawn = draw(N_STEPS, 0);
    let first_first: Vec<_> = first(&drawn).into_iter().chain(drawn.iter().copied()).collect();
    [(true, first_first), (false, drawn)].into_iter().map(|(first, it)| row(place, correction, first, it)).collect()
}

fn row(place: &Place, correction: &Correction, largest_first: bool, steps: Vec<StepShape>) -> Result<MixedRow, Failed> {
    let Reply::Pools(planned) = place.ask(Task::RehearseRun { steps: steps.clone() })? else { return unexpected() };
    let n_steps = steps.len();
    let Reply::Run { high_water, after, seconds } = place.ask(Task::Run { steps, largest: StepShape::new(0, 0) })?
    else {
        return unexpected();
    };
    let equal = planned.iter().zip(&after).filter(|(planned, real)| planned.reserved == real.reserved).count();
    Ok(MixedRow {
        job: place.job.to_owned(),
        device: place.device.to_string(),
        largest_first,
        n_steps,
        planned_high_water: planned.iter().map(|it| correction.upper(it.booked())).max().unwrap_or_default(),
        measured_high_water: high_water,
        planned_pools: planned.iter().map(|it| it.reserved).max(),
        measured_pools: after.iter().map(|it| it.reserved).max(),
        steps_equal: Some(equal),
        seconds,
    })
}

/// Compares the largest upper bound of the drawn cells with a real run, where there are no pools.
pub(crate) fn probed_row(place: &Place, plan: &Plan, largest: StepShape) -> Result<MixedRow, Failed> {
    let fast = |it: &&PlannedCell| FAST.0 <= it.batch && it.edge <= FAST.1 && it.phase == Phase::Train;
    let cells: Vec<_> = plan.cells.iter().filter(fast).collect();
    if cells.is_empty() {
        return Err("draw steps: no cell of the plan is fast enough".into());
    }
    let steps: Vec<_> = (0..N_STEPS).map(|step| cells[step * 7 % cells.len()].shape()).collect();
    let Reply::Run { high_water, seconds, .. } = place.ask(Task::Run { steps, largest })? else {
        return unexpected();
    };
    Ok(MixedRow {
        job: place.job.to_owned(),
        device: place.device.to_string(),
        largest_first: false,
        n_steps: N_STEPS,
        planned_high_water: cells.iter().filter_map(|it| it.upper_in_use).max().unwrap_or_default(),
        measured_high_water: high_water,
        planned_pools: None,
        measured_pools: None,
        steps_equal: None,
        seconds,
    })
}

fn unexpected<T>() -> Result<T, Failed> {
    Err("get an answer to the question that was asked".into())
}

/// Runs the steps in this process.
pub(crate) fn run<J: Job>(job: &J, kind: DeviceKind, steps: &[StepShape], largest: StepShape) -> Result<Reply, Failed> {
    let (device, start) = (open_device(kind, false)?, Instant::now());
    let seconds = || start.elapsed().as_secs_f64();
    if kind == DeviceKind::Flex {
        let mut trials = Trials::try_new(job, device, open(kind, None)?)?;
        trials.hold_buffers(&loader(largest))?;
        let peaks: Vec<Bytes> =
            steps.iter().map(|it| Ok(trials.train(*it, largest.samples)?.peak)).collect::<Result<_, Failed>>()?;
        return Ok(Reply::Run {
            high_water: peaks.into_iter().max().unwrap_or_default(),
            after: vec![],
            seconds: seconds(),
        });
    }
    let planner = DryRunPlanner::try_open(kind, has_fusion(kind))?;
    let after = run_program(&JobProgram::new(job, device, OptimizerRecovery::Restore), &|| planner.pools(), steps)?;
    let high_water = after.iter().map(Pools::total).max().unwrap_or_default();
    Ok(Reply::Run { high_water, after, seconds: seconds() })
}

/// Runs optimizer steps of one micro-batch each, and returns the pools after each.
fn run_program<P: Program>(program: &P, pools: &dyn Fn() -> Pools, steps: &[StepShape]) -> Result<Vec<Pools>, Failed> {
    let mut state = program.start();
    let mut after = Vec::with_capacity(steps.len());
    for shape in steps {
        let (next, scalar) = program.train(state, &[*shape]);
        state = next;
        // A read waits for the step, as that of a run does.
        scalar.try_into_data().map_err(|error| format!("run a step of shape {shape}: {error}"))?;
        after.push(pools());
    }
    Ok(after)
}
