//! What a job's steps would need on a device.

use burn::tensor::Device;
use plimsoll_plan::{
    Act, Correction, DryRunPlanner, Fingerprint, Fit, MemoryPlan, PlanError, PlannedCell, Pools, ProbePlanner,
    Rehearsed, STEPS, Sweep,
};
use plimsoll_predict::{Key, Phase, Platform, PredictorConfig};
use plimsoll_probe::DeviceKind;
use plimsoll_sampler::Permutation;
use plimsoll_types::{Attempt, Bytes, Fraction, Observation, Prediction, StepShape};

use crate::device::{has_autotune, has_fusion, open_device, platform, small_batch_regime};
use crate::find::OpenProbe;
use crate::job::Job;
use crate::loader::LoaderConfig;
use crate::rehearsal::JobProgram;
use crate::trial::{TrialError, Trials};

/// What is to be planned, and for which device.
#[derive(Clone, Debug)]
pub struct PlanRequest {
    /// The device.
    pub device: DeviceKind,
    /// Whether activations are recomputed in the backward pass.
    pub checkpointing: bool,
    /// The part of the capacity that a step may use.
    pub target: Fraction,
    /// Shapes of micro-batches to train with.
    pub training: Vec<StepShape>,
    /// Shapes of forward passes without gradients.
    pub inference: Vec<StepShape>,
    /// The loader of the run: the samples of an optimizer step, and the host memory that is filled ahead of need.
    pub loader: LoaderConfig,
    /// Bounds, where certified probes plan.
    pub predictor: PredictorConfig,
    /// Most real steps of each phase: all of them where certified probes plan, and 0 or 2 to correct a dry run.
    pub max_real_steps: u32,
    /// Steps of mixed shapes that are planned as a whole.
    pub schedule_steps: u32,
}

/// Real steps of each phase that correct a dry run: of the smallest cell and of the one with the largest allocation.
const CORRECTING_STEPS: u32 = 2;

/// Steps of a trial: the last one is in the steady state, with the optimizer's state in place, and on Flex with thread
/// pools and packing buffers too.
const STEPS_OF_A_TRIAL: usize = 3;

/// Told of what is being planned, and how many cells of how many are done.
pub type OnPlanned<'a> = &'a mut dyn FnMut(Phase, usize, usize);

/// Plans every shape of a request.
///
/// On a device with pools by dry runs, corrected by two real steps of each phase; on others by certified probes.
///
/// # Errors
///
/// [`PlanError`]; see there.
pub fn plan_memory<J: Job>(
    job: &J,
    request: &PlanRequest,
    open_probe: OpenProbe<'_>,
    progress: OnPlanned<'_>,
) -> Result<MemoryPlan, PlanError> {
    let capacity = open_probe()?.capacity()?;
    let device = open_device(request.device, request.checkpointing).map_err(|error| error.0)?;
    let fingerprint = fingerprint(job, request, &device_name(request.device)?);
    let platform = platform(request.device, &fingerprint.device);
    let planning = Planning { job, request, device, platform, open_probe };
    let plan = match request.device {
        DeviceKind::Flex => planning.by_probes(fingerprint, capacity, progress),
        DeviceKind::Vulkan(_) | DeviceKind::Cuda(_) => planning.by_dry_run(fingerprint, capacity, progress),
    }?;
    plan.check()?;
    Ok(plan)
}

/// Returns what decides the memory of a job's steps on a device.
///
/// `device_name` is the name of the probe, without a cap.
pub fn fingerprint<J: Job>(job: &J, request: &PlanRequest, device_name: &str) -> Fingerprint {
    Fingerprint {
        model: job.program(),
        optimizer: "Adam".to_owned(),
        dtype: "f32".to_owned(),
        checkpointing: request.checkpointing,
        effective_batch_size: request.loader.effective_batch_size,
        device: device_name.to_owned(),
        fusion: has_fusion(request.device),
        autotune: has_autotune(request.device),
        versions: Fingerprint::versions(),
    }
}

/// Returns the name of a device, whatever capacity it is made to have.
fn device_name(kind: DeviceKind) -> Result<String, PlanError> {
    Ok(plimsoll_probe::open(kind, None)?.name())
}

struct Planning<'a, J: Job> {
    job: &'a J,
    request: &'a PlanRequest,
    device: Device,
    platform: Platform,
    open_probe: OpenProbe<'a>,
}

impl<J: Job> Planning<'_, J> {
    fn shapes(&self, phase: Phase) -> &[StepShape] {
        match phase {
            Phase::Train => &self.request.training,
            Phase::Infer => &self.request.inference,
        }
    }

    fn by_probes(
        &self,
        fingerprint: Fingerprint,
        capacity: Bytes,
        progress: OnPlanned<'_>,
    ) -> Result<MemoryPlan, PlanError> {
        let (budget, request) = (capacity.scale(self.request.target), self.request);
        let planner = ProbePlanner { predictor: request.predictor, budget, max_trials: request.max_real_steps };
        let mut trials = self.trials()?;
        let mut cells = Vec::new();
        for phase in [Phase::Train, Phase::Infer] {
            let mut n_done = 0;
            let mut measure = |shape| {
                progress(phase, n_done, request.max_real_steps as usize);
                n_done += 1;
                steady(&mut trials, phase, shape, request.loader.effective_batch_size)
            };
            let key = |shape| self.key(phase, shape);
            if !self.shapes(phase).is_empty() {
                cells.extend(planner.plan(phase, self.shapes(phase), &key, &mut measure)?);
            }
        }
        Ok(MemoryPlan::new(fingerprint, capacity, request.target, cells))
    }

    fn by_dry_run(
        &self,
        fingerprint: Fingerprint,
        capacity: Bytes,
        progress: OnPlanned<'_>,
    ) -> Result<MemoryPlan, PlanError> {
        let planner = DryRunPlanner::try_open(self.request.device, has_fusion(self.request.device))?;
        let program = JobProgram::new(self.job, self.device.clone());
        let budget = capacity.scale(self.request.target);
        let mut plan = MemoryPlan::new(fingerprint, capacity, self.request.target, Vec::new());
        for phase in [Phase::Train, Phase::Infer] {
            if self.shapes(phase).is_empty() {
                continue;
            }
            let mut on_cell = |n_done, n| progress(phase, n_done, n);
            let effective = self.request.loader.effective_batch_size;
            let mut sweep = Sweep::try_new(&planner, &program, phase)?;
            let mut rehearsed = sweep.cells(self.shapes(phase), effective, &mut on_cell)?;
            let correction = self.correction(&planner, phase, &rehearsed, budget)?;
            for Rehearsed { cell, steady, spare, .. } in &mut rehearsed {
                cell.reserved = correction.expected(steady);
                cell.upper = correction.upper(steady).saturating_add(*spare);
            }
            plan.cells.extend(rehearsed.into_iter().map(|it| it.cell));
            match phase {
                Phase::Train => plan.training_correction = correction,
                Phase::Infer => plan.inference_correction = correction,
            }
        }
        let mut plan = plan.under(capacity, self.request.target);
        self.plan_mixture(&planner, &program, &mut plan)?;
        Ok(plan)
    }

    /// Runs real steps of the smallest cell and of the one with the largest allocation, each on a stream of its own.
    fn correction(
        &self,
        planner: &DryRunPlanner,
        phase: Phase,
        rehearsed: &[Rehearsed],
        budget: Bytes,
    ) -> Result<Correction, PlanError> {
        let mut correction = Correction::default();
        if self.request.max_real_steps < CORRECTING_STEPS {
            return Ok(correction);
        }
        let may_run = |it: &&Rehearsed| it.cell.fit == Fit::Fits && it.cell.reserved <= budget;
        let smallest = rehearsed.iter().filter(may_run).min_by_key(|it| it.cell.reserved);
        let largest = rehearsed.iter().filter(may_run).max_by_key(|it| (it.cell.largest_allocation, it.cell.reserved));
        let n_samples = self.request.loader.effective_batch_size;
        let mut done = None;
        for it in smallest.into_iter().chain(largest) {
            if done.replace(it.cell.shape()) != Some(it.cell.shape()) {
                let real = self.alone(planner, phase, it.cell.shape(), n_samples)?;
                correction.observe(it.cell.shape(), &it.steady, &real);
            }
        }
        Ok(correction)
    }

    /// Runs as many real steps as a rehearsal does, on a stream of their own, and returns what the pools hold then.
    fn alone(
        &self,
        planner: &DryRunPlanner,
        phase: Phase,
        shape: StepShape,
        n_samples: u32,
    ) -> Result<Pools, PlanError> {
        let ran = planner.idle_stream().executes(|| {
            let mut trials = self.trials()?;
            for _ in 0..STEPS {
                trials.run(phase, shape, n_samples).map_err(|it| failed(shape, &it))?;
            }
            Ok(planner.pools())
        });
        (self.open_probe)()?.cleanup()?;
        ran
    }

    /// Plans what fits once more, as a run finds it: after the largest allocation; and a run of mixed shapes.
    fn plan_mixture(
        &self,
        planner: &DryRunPlanner,
        program: &JobProgram<'_, J>,
        plan: &mut MemoryPlan,
    ) -> Result<(), PlanError> {
        let effective = self.request.loader.effective_batch_size;
        let firsts = [Phase::Infer, Phase::Train].map(|phase| plan.first(phase).map(|it| (phase, it.shape())));
        let before: Vec<Act> =
            firsts.into_iter().flatten().map(|(phase, shape)| Act::of(phase, shape, effective)).collect();
        let corrections = [plan.training_correction.clone(), plan.inference_correction.clone()];
        let budget = plan.budget;
        for cell in plan.cells.iter_mut().filter(|it| it.fit == Fit::Fits) {
            let (pools, spare) = planner.after(program, &before, &Act::of(cell.phase, cell.shape(), effective))?;
            let [training, inference] = &corrections;
            let correction = if cell.phase == Phase::Train { training } else { inference };
            let (expected, upper) = (correction.expected(&pools), correction.upper(&pools).saturating_add(spare));
            cell.in_run = Some(Prediction { expected, upper }).filter(|it| it.upper <= budget);
        }
        let fitting: Vec<_> = plan.of(Phase::Train).filter(|it| it.fit == Fit::Fits).map(PlannedCell::shape).collect();
        let Some((_, first)) = firsts[1] else { return Ok(()) };
        let drawn = draw(&fitting, self.request.schedule_steps);
        if !drawn.is_empty() {
            plan.schedule = Some(planner.schedule(program, &drawn, first, effective, &corrections[0])?);
        }
        Ok(())
    }

    fn trials(&self) -> Result<Trials<'_, J>, PlanError> {
        let none = StepShape::new(0, 0);
        let trials = Trials::try_new(self.job, self.device.clone(), (self.open_probe)()?);
        let mut trials = trials.map_err(|it| failed(none, &it))?;
        let held = trials.hold_buffers(&self.request.loader);
        held.map_err(|it| PlanError::Step { shape: self.request.loader.largest(), reason: it.to_string() })?;
        Ok(trials)
    }

    fn key(&self, phase: Phase, shape: StepShape) -> Key {
        // Without a gradient of weights there is one path only.
        let small = shape.samples <= small_batch_regime(self.request.device);
        let regime = u16::from(small && phase == Phase::Train);
        Key { phase, checkpointing: self.request.checkpointing, platform: self.platform, regime }
    }
}

/// Runs steps of one shape until they are in the steady state, and returns what the last showed.
///
/// A step that ran out of memory with a known peak shows as much as one that ran.
fn steady<J: Job>(
    trials: &mut Trials<'_, J>,
    phase: Phase,
    shape: StepShape,
    n: u32,
) -> Result<Observation, PlanError> {
    let mut ran = trials.run(phase, shape, n);
    for _ in 1..STEPS_OF_A_TRIAL {
        ran = ran.and_then(|_| trials.run(phase, shape, n));
    }
    match ran {
        Ok(trial) => Ok(trial.observation()),
        Err(TrialError::OutOfMemory(Attempt { resident, peak: Some(peak), .. })) => {
            Ok(Observation { shape, resident, peak })
        }
        Err(error) => Err(failed(shape, &error)),
    }
}

fn failed(shape: StepShape, error: &TrialError) -> PlanError {
    PlanError::Step { shape, reason: error.to_string() }
}

/// Draws shapes evenly: each as often as the others, in an order that depends on nothing.
fn draw(shapes: &[StepShape], n_steps: u32) -> Vec<StepShape> {
    let n = shapes.len() as u64;
    if n == 0 {
        return Vec::new();
    }
    let round = |at: u64| Permutation::new(n, 0, at / n).at(at % n);
    let drawn = (0..u64::from(n_steps)).map(round);
    drawn.filter_map(|at| shapes.get(usize::try_from(at).ok()?).copied()).collect()
}
