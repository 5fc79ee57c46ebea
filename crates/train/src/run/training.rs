//! What a step changes: model, optimizer and the balance of the tasks, on their device.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use burn::module::Module;
use burn::optim::ModuleOptimizer;
use burn::tensor::Device;
use plimsoll_fleet::Fleet;
use plimsoll_guard::Guard;
use plimsoll_policy::PolicyConfig;
use plimsoll_predict::{Keys, Phase};
use plimsoll_probe::{Probe, note_work};
use plimsoll_step::{
    Commit, ForwardPasses, GuardedStep, PredictShape, Replicas, StepError, StepOutcome, StepRequest, Team, TrainState,
    Update,
};
use plimsoll_types::{Attempt, Bytes, TaskStep};

use super::tasks;
use crate::balance::TaskBalance;
use crate::checkpoint::Checkpoint;
use crate::config::FitConfig;
use crate::device::{replicas, uploaded};
use crate::error::TrainError;
use crate::incident::Surroundings;
use crate::job::{Job, mean_loss};
use crate::loader::StepSamples;
use crate::source::Source;

/// Bytes of Adam's two moments of a parameter.
const MOMENTS: u64 = 8;

/// Bytes of a parameter that is copied.
const WEIGHT: u64 = 4;

/// The transaction of a run, and what it changes.
pub(super) struct Training<M> {
    guarded: GuardedStep,
    state: TrainState<M>,
    device: Device,
    /// What runs parts at once, where that is asked for.
    replicas: Option<Arc<Replicas>>,
    balance: TaskBalance,
    draws_line: bool,
    /// The first step after model and optimizer were taken from a checkpoint.
    loaded_at: Option<u64>,
}

impl<M: Module> Training<M> {
    /// Begins on a device that was seeded before.
    ///
    /// # Errors
    ///
    /// [`StepError`] when the system has no room for so many threads.
    pub(super) fn try_new(
        (model, optimizer): (M, ModuleOptimizer),
        device: Device,
        (probe, fleet): (Box<dyn Probe>, Box<dyn Fleet>),
        balance: TaskBalance,
        config: &FitConfig,
    ) -> Result<Self, StepError> {
        let replicas = match config.controller.replicas as usize {
            n @ 2.. if config.controller.exact_peaks => Some(replicas(n)?),
            _ => None,
        };
        let (guarded, draws_line) = (GuardedStep::new(probe, device.clone()).in_team(fleet), config.draws_line);
        let guarded = match config.controller.policy {
            PolicyConfig::Bucketed(_) => guarded.of_mixed_shapes(),
            PolicyConfig::Certified(_) | PolicyConfig::Stepwise(_) | PolicyConfig::Fixed(_) => guarded,
        };
        Ok(Self {
            guarded,
            state: TrainState::new(model, optimizer),
            device,
            replicas,
            balance,
            draws_line,
            loaded_at: None,
        })
    }

    /// Takes model and optimizer from a checkpoint.
    pub(super) fn load<J: Job<Model = M>>(
        &mut self,
        job: &J,
        checkpoint: &Checkpoint,
        balance: TaskBalance,
    ) -> Result<(), TrainError> {
        self.guarded.forget_needs();
        let optimizer = job.optimizer();
        // Dropped first, so that there are never two.
        self.state.clear(optimizer.on(&self.device));
        let (model, optimizer) = checkpoint.load(job.init(&self.device), optimizer.on(&self.device))?;
        (self.state, self.balance) = (TrainState::new(model, optimizer), balance);
        self.loaded_at = Some(checkpoint.state.step);
        Ok(())
    }

    /// Takes the model alone from a checkpoint, at the end of a run: no step follows.
    pub(super) fn load_model<J: Job<Model = M>>(&mut self, job: &J, checkpoint: &Checkpoint) -> Result<(), TrainError> {
        let optimizer = || job.optimizer().on(&self.device);
        self.state.clear(optimizer());
        self.state = TrainState::new(checkpoint.load_model(job.init(&self.device))?, optimizer());
        Ok(())
    }

    /// Returns how many parts of a step run side by side; 1 where a forward pass changes the model.
    pub(super) fn n_beside(&self) -> usize {
        self.replicas.as_ref().filter(|_| self.guarded.runs_beside(self.model())).map_or(1, |it| it.count())
    }

    pub(super) fn model(&self) -> &M {
        self.state.model()
    }

    pub(super) fn optimizer(&self) -> &ModuleOptimizer {
        self.state.optimizer()
    }

    pub(super) fn balance(&self) -> &TaskBalance {
        &self.balance
    }

    pub(super) fn probe(&self) -> &dyn Probe {
        self.guarded.probe()
    }

    /// Returns what decides what is done with a step, and what now that one has stopped.
    pub(super) fn guard(&mut self) -> &mut Guard {
        self.guarded.guard()
    }

    /// Returns the ranks that train together.
    pub(super) fn team(&mut self) -> &mut Team {
        self.guarded.team()
    }

    /// Returns which of the ranks this is.
    pub(super) fn rank(&self) -> u32 {
        self.guarded.rank()
    }

    /// Takes over the weights of the first rank.
    pub(super) fn take_over(&mut self) -> Result<(), StepError> {
        if self.team().is_alone() {
            return Ok(());
        }
        let model = self.guarded.take_over(self.state.model().clone())?;
        self.state.set_model(model);
        Ok(())
    }

    /// Refuses to go on where the ranks have come to different weights.
    pub(super) fn check_weights(&mut self) -> Result<(), StepError> {
        self.guarded.check_weights(self.state.model())
    }

    /// Seeds the device anew, for a step.
    pub(super) fn seed_step(&self, seed: u64, step: u64) {
        self.guarded.seed_step(seed, step);
    }

    /// Returns what is in use.
    pub(super) fn in_use(&self) -> Result<Bytes, StepError> {
        Ok(self.guarded.read()?.in_use)
    }

    /// Does something below the line, where one is drawn: what passes the capacity meanwhile is refused.
    ///
    /// Returns what came of it, and what drawing the line took.
    pub(super) fn below_line<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, StepError>,
    ) -> Result<(T, Duration), StepError> {
        if !self.draws_line {
            return Ok((work(self)?, Duration::ZERO));
        }
        let begun = Instant::now();
        self.guarded.draw_line(true)?;
        let drawn = begun.elapsed();
        let done = work(self);
        note_work(format_args!("what is done between steps"));
        self.guarded.draw_line(false)?;
        Ok((done?, drawn))
    }

    /// Runs the samples of a step forward and backward, as the keys of their shapes say.
    ///
    /// # Errors
    ///
    /// [`StepError`]; nothing of the step has happened then.
    pub(super) fn attempt<J: Job<Model = M>>(
        &mut self,
        job: &J,
        samples: &StepSamples<<J::Source as Source>::Buffer>,
        request: &StepRequest,
        keys: Keys,
        predict: PredictShape<'_>,
    ) -> Result<StepOutcome, StepError> {
        let weights: Vec<_> = self.balance.weights().iter().copied().map(narrowed).collect();
        let attempted = self.below_line(|Self { guarded, state, device, replicas, .. }| {
            let device = &*device;
            let loss = |model: &M, range: Range<usize>| {
                let shape = request.part(&range).shape();
                let batch = |device: &Device| uploaded(job.batch(&samples.buffer, range, device), device);
                mean_loss(job, keys.key(Phase::Train, shape), (model, device), batch, &weights)
            };
            match replicas {
                Some(replicas) => guarded.attempt_beside(state.model(), request, predict, (replicas, &loss)),
                None => guarded.attempt(state.model(), request, predict, &loss),
            }
        });
        let (mut outcome, drawn) = attempted?;
        outcome.times.probe += drawn;
        Ok(outcome)
    }

    /// Returns the parts of the last attempt that ran out of memory; none the second time.
    pub(super) fn take_failures(&mut self) -> Vec<Attempt> {
        self.guarded.take_failures()
    }

    /// Lets the optimizer step.
    pub(super) fn commit(&mut self, update: Update) -> Result<Commit, StepError> {
        let (mut commit, drawn) = self.below_line(|Self { guarded, state, .. }| guarded.commit(state, update))?;
        if let Commit::Done { probe_time, .. } = &mut commit {
            *probe_time += drawn;
        }
        Ok(commit)
    }

    /// Returns what a step leaves in use that earlier ones found there: the moments of Adam, which the first step makes; after a
    /// checkpoint was loaded, these and the weights, which lie in its files until they are first used.
    pub(super) fn to_come(&self, step: u64) -> Bytes {
        let of_parameter = match step {
            0 => MOMENTS,
            _ if self.loaded_at == Some(step) => MOMENTS + WEIGHT,
            _ => return Bytes::ZERO,
        };
        Bytes((self.model().num_params() as u64).saturating_mul(of_parameter))
    }

    /// Gathers what a step showed of its tasks; `tasks` has that of every sample.
    pub(super) fn task_steps(&self, tasks: &[u16], outcome: &StepOutcome) -> Vec<TaskStep> {
        tasks::task_steps(&self.balance, tasks, outcome)
    }

    /// Lets the balance learn from what a step showed.
    pub(super) fn observe(&mut self, steps: &[TaskStep]) {
        tasks::observe(&mut self.balance, steps);
    }

    /// Whether the weights are there, for all that is known: where a failure is never silent, they are.
    pub(super) fn has_weights(&self) -> Result<bool, StepError> {
        Ok(self.probe().has_exact_peak() || self.guarded.weights_are_whole(self.model())?)
    }

    /// Returns to the device what nobody holds any more.
    pub(super) fn clean_up(&mut self) -> Result<(), StepError> {
        self.guarded.give_back()
    }

    /// Ends what is queued, and returns what nobody holds: a dry run would drop the one and count the other.
    pub(super) fn settle(&mut self) -> Result<(), StepError> {
        self.device.sync().map_err(|error| StepError::Device(error.to_string()))?;
        self.clean_up()
    }

    /// Lets the next step begin without what earlier ones, or others, have left reserved.
    pub(super) fn forget_pages(&mut self) {
        self.guarded.forget_pages();
    }

    /// Forgets what single samples were measured to need, where they need less from here on.
    pub(super) fn forget_needs(&mut self) {
        self.guarded.forget_needs();
    }

    /// Lends the model, its device, and what runs it forward alone.
    pub(super) fn forward(&mut self) -> (&M, &Device, ForwardPasses<'_>) {
        (self.state.model(), &self.device, self.guarded.forward_passes())
    }

    /// Looks at the device's memory before a step; what it does not tell is left out.
    pub(super) fn surroundings(&self, step: u64) -> Surroundings {
        let probe = self.probe();
        let read = probe.read().ok();
        Surroundings {
            step,
            capacity: probe.capacity().ok(),
            held_by_others: probe.held_by_others(),
            reserved: read.map(|it| it.reserved),
            page: read.map(|it| it.page),
            largest_allocation: probe.largest_taken(),
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a weight is a small number, and a model has no better ones")]
fn narrowed(weight: f64) -> f32 {
    weight as f32
}
