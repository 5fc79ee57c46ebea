//! The work of a fresh process.

use burn::tensor::Device;
use plimsoll_finder::{FinderConfig, Found};
use plimsoll_plan::{
    Act, BlankProgram, DryRunPlanner, MemoryPlan, Objective, PlanError, PlannedCell, RealSteps, STEPS,
};
use plimsoll_predict::{Dtype, Keys, Phase, Platform, PredictorConfig};
use plimsoll_probe::{DeviceKind, Probe, open};
use plimsoll_proof::plans::Group;
use plimsoll_train::{
    BlankJob, FindRequest, Job, OptimizerRecovery, PlanRequest, Trials, beside_tensors, computes_in, find_batch_size,
    has_autotune, open_device, plan_memory,
};
use plimsoll_types::{Bytes, Extent, Fraction, Recompute};

use crate::jobs::{OnJob, loader, with_job};
use crate::order::{Cell, Order, Plan, Reply, Steps, Task};
use crate::{Failed, hold, memory, mixed};

/// Plans that are timed once the kernels are compiled; the least counts, since other programs can only add to it.
const TIMED_PLANS: u32 = 2;

/// Does what it is asked, and prints the answer as one line.
pub(crate) fn answer(order: &Order) -> Result<(), Failed> {
    let data = order.data.as_deref();
    if order.dtype != Dtype::F32 && !computes_in(order.device, order.dtype)? {
        return Err(format!("compute in {}: {} has no such numbers", order.dtype, order.device).into());
    }
    let reply = match &order.task {
        Task::Open => Reply::Open { name: open(order.device, None)?.name() },
        Task::Memory { shape } => with_job(&order.job, data, memory::Watched { device: order.device, shape: *shape })?,
        Task::Hold { spare } => hold::hold(order.device, *spare)?,
        _ => with_job(&order.job, data, order)?,
    };
    println!("{}", serde_json::to_string(&reply)?);
    Ok(())
}

impl OnJob for &Order {
    type Out = Reply;

    fn run<J: Job>(self, job: &J) -> Result<Reply, Failed> {
        Ok(match &self.task {
            Task::Open | Task::Memory { .. } | Task::Hold { .. } => return Err("do what needs no job".into()),
            Task::Plan { group, max_real_steps } => Reply::Plan(self.plan(job, group, *max_real_steps)?),
            Task::Find { extent, batch_max, capacity } => Reply::Find(self.find(job, *extent, *batch_max, *capacity)?),
            Task::RehearseRun { steps } => {
                let acts: Vec<_> = steps.iter().map(|parts| Act::Train(parts.clone())).collect();
                Reply::Pools(self.planner()?.rehearse(&self.program(job)?, &acts)?.after)
            }
            Task::Cell(steps) => Reply::Cell(self.cell(job, *steps)?),
            Task::Run { steps, largest } => {
                mixed::run(job, (self.open_device()?, self.keys()), self.device, steps, *largest)?
            }
        })
    }
}

impl Order {
    fn plan<J: Job>(&self, job: &J, group: &Group, max_real_steps: u32) -> Result<Plan, Failed> {
        let plan = |max_real_steps| -> Result<MemoryPlan, PlanError> {
            plan_memory(job, &self.request(group, max_real_steps), &|| self.open_probe(), &mut |_, _, _| ())
        };
        let first = plan(max_real_steps)?;
        let mut planning_ms = times(&first.cells);
        if self.keeps_pools() {
            planning_ms.fill(f64::INFINITY);
            for _ in 0..TIMED_PLANS {
                let again = times(&plan(0)?.cells);
                planning_ms.iter_mut().zip(again).for_each(|(least, time)| *least = least.min(time));
            }
        }
        let (training, inference) = (first.training_correction, first.inference_correction);
        Ok(Plan { cells: first.cells, training, inference, features: job.features(), planning_ms })
    }

    /// Searches with the whole capacity and no reduction, as the rules that it is compared with.
    fn find<J: Job>(&self, job: &J, extent: Extent, batch_max: u32, capacity: Bytes) -> Result<Found, Failed> {
        let (target, batch_reduction) = (Fraction::ONE, Fraction::ZERO);
        let request = FindRequest {
            device: self.device,
            recompute: Recompute::NEVER,
            dtype: self.dtype,
            optimizer_recovery: OptimizerRecovery::Restore,
            finder: FinderConfig { extent, batch_max, target, batch_reduction, ..FinderConfig::default() },
            phase: Phase::Train,
            loader: None,
            objective: Objective::Largest,
            sounded: None,
        };
        let open_probe = || Ok(open(self.device, Some(capacity))?);
        Ok(find_batch_size(job, &request, &open_probe, &mut |_| ())?.found)
    }

    fn cell<J: Job>(&self, job: &J, steps: Steps) -> Result<Cell, Failed> {
        let Steps { phase, shape, n_samples, count, largest } = steps;
        if has_autotune(self.device) {
            // As a run does before its first step.
            self.planner()?.rehearse(&self.program(job)?, &vec![Act::of(phase, shape, n_samples); STEPS])?;
        }
        let mut trials = Trials::try_new(job, self.open_device()?, self.keys(), self.open_probe()?)?;
        if let Some(largest) = largest {
            trials.hold_buffers(&loader(largest))?;
        }
        if phase == Phase::Infer && !self.keeps_pools() {
            // As in a run, and in a plan without pools: beside the optimizer's state.
            trials.train(shape.with_samples(1), 1)?;
        }
        let mut last = trials.run(phase, shape, n_samples)?;
        for _ in 1..count {
            last = trials.run(phase, shape, n_samples)?;
        }
        let pools = if self.keeps_pools() { Some(self.planner()?.pools(&self.open_device()?)) } else { None };
        let (resident, reserved, peak, seconds) = (last.resident, last.reserved, last.peak, last.seconds);
        Ok(Cell { resident, reserved, peak, seconds, pools })
    }

    fn keeps_pools(&self) -> bool {
        self.device != DeviceKind::Flex
    }

    fn recompute(&self) -> Recompute {
        if self.checkpointing { Recompute::ALWAYS } else { Recompute::NEVER }
    }

    fn keys(&self) -> Keys {
        Keys { recompute: self.recompute(), platform: self.platform(), ..Keys::default() }
    }

    fn platform(&self) -> Platform {
        Platform { dtype: self.dtype, ..Platform::default() }
    }

    fn open_device(&self) -> Result<Device, Failed> {
        Ok(open_device(self.device)?)
    }

    fn open_probe(&self) -> Result<Box<dyn Probe>, PlanError> {
        Ok(open(self.device, None)?)
    }

    fn planner(&self) -> Result<DryRunPlanner, PlanError> {
        DryRunPlanner::try_open(self.device)
    }

    fn program<'a, J: Job>(&self, job: &'a J) -> Result<BlankProgram<BlankJob<'a, J>>, Failed> {
        let blank = BlankJob::new(job, self.open_device()?, self.keys());
        Ok(BlankProgram::new(blank, OptimizerRecovery::Restore))
    }

    fn request(&self, group: &Group, max_real_steps: u32) -> PlanRequest {
        PlanRequest {
            device: self.device,
            recompute: self.recompute(),
            dtype: self.dtype,
            optimizer_recovery: OptimizerRecovery::Restore,
            target: Fraction::ONE,
            ladder: group.training.clone(),
            lattice: Vec::new(),
            inference: group.inference.clone(),
            loader: loader(group.largest()),
            predictor: PredictorConfig { beside: beside_tensors(self.device), ..PredictorConfig::default() },
            max_probes: max_real_steps,
            is_corrected: 0 < max_real_steps,
            schedule_steps: 0,
        }
    }
}

fn times(cells: &[PlannedCell]) -> Vec<f64> {
    cells.iter().map(|it| it.planning_ms).collect()
}
