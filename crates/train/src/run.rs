//! A run under way: what it holds, and what it does before, in and between steps.

mod death;
mod guess;
mod optimize;
mod persist;
mod record;
mod sparing;
mod start;
mod tasks;

use std::time::Instant;

use burn::optim::ModuleOptimizer;
use burn::tensor::Device;
use plimsoll_types::{
    Budget, BudgetChanged, Bytes, Decided, EpochDone, Event, Knobs, MicroBatch, Stage, StepDone, StepFailed, StepShape,
    TaskMetric, Validated,
};

use self::optimize::{Committed, Optimized};
use crate::balance::TaskBalance;
use crate::checkpoint::Best;
use crate::config::FitConfig;
use crate::controller::Controller;
use crate::error::TrainError;
use crate::fit::{Observer, Warn};
use crate::inference::Inference;
use crate::job::{Job, Metric, Validation};
use crate::loader::{Loader, StepSamples, StepUnit, Wanted};
use crate::meter::Meter;
use crate::recorder::Recorder;
use crate::run_dir::RunDir;
use crate::signal::StopFlag;
use crate::source::Source;
use crate::step::{GuardedStep, StepError, StepOutcome, StepPart, StepRequest};
use crate::stopwatch::{Lap, Stopwatch};

pub use self::death::Death;
use self::guess::read_budget;

/// A capacity that rises by less than this share of it is no news: what other processes leave moves all the time. A fall
/// always counts.
const LEAST_RISE: f64 = 1.0 / 16.0;

/// How far the seeds of two steps are apart: the odd number nearest to 2^64 divided by the golden ratio, so that the steps
/// of runs with seeds that are near to each other share none.
const SEED_STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;

pub(crate) struct Run<'a, J: Job> {
    job: &'a J,
    config: &'a FitConfig,
    dir: &'a mut RunDir,
    observer: Observer<'a>,
    warn: Warn<'a>,
    device: Device,
    guarded: GuardedStep,
    loader: Loader<J::Source>,
    /// Empty only while the optimizer moves it.
    model: Option<J::Model>,
    optimizer: ModuleOptimizer,
    controller: Controller,
    balance: TaskBalance,
    stopwatch: Stopwatch,
    meter: Meter,
    recorder: Recorder,
    /// The samples of the step under way.
    under_way: Vec<u64>,
    /// The capacity as a process that died of memory found it; the device may say more.
    guess: Option<Bytes>,
    /// The last step whose optimizer ran out of memory.
    recovered: Option<u64>,
    /// How often it has since the last new checkpoint.
    n_recoveries: u32,
    budget: Budget,
    step: u64,
    /// Samples that the epoch has trained on so far.
    epoch_samples: u64,
    /// The last step whose checkpoint is one that an undisturbed run has too.
    saved_step: Option<u64>,
    /// Whether the validation of this step is in the log.
    validated: bool,
    best: Option<Best>,
    seconds_before: f64,
    stop: StopFlag,
}

impl<J: Job> Run<'_, J> {
    pub(crate) fn step(&self) -> u64 {
        self.step
    }

    /// Notices before a step when there is more or less memory than before.
    pub(crate) fn follow_budget(&mut self) -> Result<(), TrainError> {
        let (guarded, config, guess) = (&self.guarded, self.config, self.guess);
        let budget = self.stopwatch.time(Lap::Probe, || read_budget(guarded, config, guess))?;
        let (was, now) = (self.budget.capacity.as_f64(), budget.capacity.as_f64());
        if was <= now && now < was * (1.0 + LEAST_RISE) {
            return Ok(());
        }
        self.budget = budget;
        if self.config.deterministic {
            return Ok(());
        }
        self.answer(Event::BudgetChanged(BudgetChanged { step: self.step, budget }))
    }

    /// Runs one optimizer step, learns from it and decides about the next.
    pub(crate) fn one_step(&mut self) -> Result<(), TrainError> {
        let start = Instant::now();
        self.seed();
        let (knobs, wanted) = (self.controller.policy().knobs(), wanted(&self.controller));
        let samples = self.stopwatch.time(Lap::Sampler, || self.loader.next(&wanted))?;
        self.under_way.clear();
        self.under_way.extend(samples.draw.ids());
        let mut request = self.request(&samples);
        let done = loop {
            let outcome = match self.run_or_spare(knobs, &mut request, &samples) {
                // An optimizer's step has lost them, and only now does it show.
                Err(TrainError::Step { source: StepError::Damaged, .. }) => return self.go_back(knobs, None),
                outcome => outcome?,
            };
            match self.commit(knobs, &samples, outcome, start)? {
                Committed::Done(done) => break done,
                Committed::OutOfMemory { peak, is_back: false } => return self.go_back(knobs, peak),
                Committed::OutOfMemory { peak, is_back: true } => self.try_again(knobs, peak)?,
            }
        };
        self.epoch_samples += done.n_samples();
        self.answer(Event::StepDone(done))?;
        (self.step, self.validated) = (self.step + 1, false);
        let (epoch, ends_epoch) = (samples.draw.epoch, samples.ends_epoch);
        self.stopwatch.time(Lap::Sampler, || self.loader.recycle(samples))?;
        self.stopwatch.book(Lap::Step, start.elapsed());
        self.stopwatch.end_step();
        self.turn_recorder();
        if ends_epoch {
            let samples = std::mem::take(&mut self.epoch_samples);
            self.log(&[Event::EpochDone(EpochDone { epoch, step: self.step - 1, samples })])?;
        }
        Ok(())
    }

    /// Returns what bounds a step: nothing, where readings are only logged.
    fn bound(&self) -> Budget {
        if self.config.deterministic { Budget::UNBOUNDED } else { self.budget }
    }

    fn request(&self, samples: &StepSamples<<J::Source as Source>::Buffer>) -> StepRequest {
        let policy = self.controller.policy();
        // Where samples are padded, each part is a micro-batch.
        let most = policy.batch_sizes().map_or(policy.knobs().micro_batch_size, |_| u32::MAX);
        StepRequest {
            micro_batches: samples.draw.micro_batches(most),
            units: self.job.unit().of(&samples.lengths),
            task_probes: self.job.task_probes(present(self.model.as_ref())),
            budget: self.bound(),
        }
    }

    /// Runs a step, with gradient checkpointing where one sample alone does not fit without.
    fn run_or_spare(
        &mut self,
        rung: Knobs,
        request: &mut StepRequest,
        samples: &StepSamples<<J::Source as Source>::Buffer>,
    ) -> Result<StepOutcome, TrainError> {
        loop {
            let outcome = self.run_guarded(request, samples);
            let failures = self.guarded.take_failures();
            for attempt in failures.iter().copied() {
                let (step, capacity, stage) = (self.step, self.budget.capacity, Stage::MicroBatch);
                self.answer(Event::StepFailed(StepFailed { step, rung, attempt, capacity, stage }))?;
            }
            if !failures.is_empty() && outcome.is_ok() && self.recorder.is_due(self.step) {
                self.record("a micro-batch ran out of memory, and its samples ran again".to_owned())?;
            }
            match outcome {
                Err(TrainError::Step { source: StepError::NeverFits { .. }, .. })
                    if self.raise_guess()? || self.spare_memory()? =>
                {
                    self.follow_budget()?;
                    request.budget = self.bound();
                }
                Err(TrainError::Step { step, source: source @ StepError::NeverFits { .. } }) => {
                    return Err(self.never_fits(step, source, request));
                }
                outcome => return outcome,
            }
        }
    }

    /// Says all there is to say of a sample that does not fit.
    fn never_fits(&self, step: u64, source: StepError, request: &StepRequest) -> TrainError {
        let sample = source.sample().unwrap_or(0);
        TrainError::NeverFits {
            step,
            source,
            sample: self.under_way.get(sample).copied().unwrap_or_default(),
            edge: request.edge_of(sample),
            largest_allocation: self.guarded.probe().largest_taken(),
            is_checkpointing: self.controller.is_checkpointing(),
        }
    }

    fn run_guarded(
        &mut self,
        request: &StepRequest,
        samples: &StepSamples<<J::Source as Source>::Buffer>,
    ) -> Result<StepOutcome, TrainError> {
        let (job, device, controller) = (self.job, &self.device, &self.controller);
        let model = present(self.model.as_ref());
        let weights: Vec<_> = self.balance.weights().iter().copied().map(narrowed).collect();
        let mean_loss =
            |model: &J::Model, range| job.mean_loss(model, job.batch(&samples.buffer, range, device), &weights);
        let predict = |shape, resident| controller.predict(shape, resident);
        let outcome = self.guarded.run(model, request, &predict, &mean_loss, &mut self.stopwatch);
        outcome.map_err(|source| TrainError::Step { step: self.step, source })
    }

    /// Returns the learning rate of a step; where the effective batch varies, it may follow.
    fn learning_rate(&self, samples: &StepSamples<<J::Source as Source>::Buffer>) -> f64 {
        let FitConfig { learning_rate, n_steps, loader, .. } = self.config;
        let rate = learning_rate.at(self.step, *n_steps);
        let taken = match loader.unit {
            StepUnit::Samples | StepUnit::Positions => return rate,
            StepUnit::Batch => samples.draw.n_samples() as f64,
            StepUnit::BatchOfPositions => samples.lengths.iter().copied().map(f64::from).sum(),
        };
        rate * learning_rate.scaling.factor(taken / f64::from(loader.effective_batch_size))
    }

    /// Returns the shape that a step is predicted by: its rung, or the largest of its parts where they have edges of
    /// their own.
    fn largest(&self, rung: Knobs, parts: &[(StepPart, Option<Bytes>)]) -> StepShape {
        let padded = self.controller.policy().batch_sizes().map(|_| parts.iter().map(|(part, _)| part.shape()));
        let upper = |shape: &StepShape| self.controller.predict(*shape, Bytes::ZERO).map(|it| it.upper);
        padded.and_then(|shapes| shapes.max_by_key(upper)).unwrap_or(rung.shape())
    }

    /// Lets the optimizer step, and gathers what happened.
    fn commit(
        &mut self,
        rung: Knobs,
        samples: &StepSamples<<J::Source as Source>::Buffer>,
        outcome: StepOutcome,
        start: Instant,
    ) -> Result<Committed, TrainError> {
        let learning_rate = self.learning_rate(samples);
        let tasks = tasks::task_steps(&self.balance, &samples.tasks, &outcome);
        let StepOutcome { gradients, loss, gradient_norm, parts, resident, peak, .. } = outcome;
        let shape = self.largest(rung, &parts);
        let prediction = self.stopwatch.time(Lap::Predict, || self.controller.predict(shape, resident));
        let reading = match self.optimize(learning_rate, gradients)? {
            Optimized::Done(reading) => reading,
            Optimized::OutOfMemory { peak, is_back } => return Ok(Committed::OutOfMemory { peak, is_back }),
        };
        tasks::observe(&mut self.balance, &tasks);
        let Budget { capacity, budget } = self.budget;
        let draw = &samples.draw;
        let (ids, tells_parts): (Vec<_>, _) = (draw.ids().collect(), draw.parts.len() > 1);
        let micro_batch = |(part, peak): (StepPart, Option<Bytes>)| {
            let peak = peak.filter(|_| tells_parts);
            MicroBatch { ids: ids[part.samples].to_vec(), edge: part.edge, peak }
        };
        Ok(Committed::Done(StepDone {
            step: self.step,
            epoch: draw.epoch,
            rung,
            micro_batches: parts.into_iter().map(micro_batch).collect(),
            predicted: prediction.map(|it| it.expected),
            upper: prediction.map(|it| it.upper),
            resident,
            in_use: reading.in_use,
            reserved: reading.reserved,
            peak: peak.max(reading.peak),
            capacity,
            budget,
            skipped: samples.skipped.clone(),
            tasks,
            loss,
            gradient_norm,
            learning_rate,
            seconds: start.elapsed().as_secs_f64(),
            committed: true,
        }))
    }

    /// Validates, unless a signal asks for the end meanwhile.
    fn validate(&mut self) -> Result<(), TrainError> {
        let start = Instant::now();
        self.seed();
        let model = present(self.model.as_ref());
        let inference = Inference::new(self.guarded.probe_mut(), &mut self.controller, self.budget, self.stop.clone());
        let mut inference = inference.deterministic(self.config.deterministic);
        let validation = self.job.validate(model, &self.device, &mut inference);
        let peak = inference.peak();
        let Validation { metric, tasks } = match validation {
            Err(StepError::Interrupted) => return Ok(()),
            // Lost weights fit nowhere.
            Err(StepError::NeverFits { .. }) if !self.has_weights()? => {
                return self.go_back(self.controller.policy().knobs(), None);
            }
            Err(StepError::NeverFits { .. }) if self.raise_guess()? => {
                self.follow_budget()?;
                return self.validate();
            }
            validation => validation.map_err(|source| TrainError::Validation { step: self.step, source })?,
        };
        let tasks = tasks.into_iter().map(|Metric { name, value, baseline, .. }| TaskMetric {
            metric_name: name,
            metric: value,
            baseline,
        });
        self.log(&[Event::Validated(Validated {
            step: self.step,
            metric_name: metric.name.clone(),
            metric: metric.value,
            baseline: metric.baseline,
            tasks: tasks.collect(),
            peak,
            seconds: start.elapsed().as_secs_f64(),
        })])?;
        self.validated = true;
        self.keep_best(&metric)
    }

    /// Seeds the device anew, so that what is random in a step is the same after a resumption.
    fn seed(&self) {
        self.device.seed(self.config.seed.wrapping_add(self.step.wrapping_mul(SEED_STRIDE)));
    }

    /// Learns from an event and decides, and logs both the event and the decision.
    fn answer(&mut self, event: Event) -> Result<(), TrainError> {
        let controller = &mut self.controller;
        if !self.config.deterministic {
            self.stopwatch.time(Lap::Predict, || controller.learn(&event))?;
        }
        match self.stopwatch.time(Lap::Policy, || controller.decide(&event)) {
            Some(decision) => self.log(&[event, Event::Decided(Decided { step: self.step, decision })]),
            None => self.log(&[event]),
        }
    }

    fn log(&mut self, events: &[Event]) -> Result<(), TrainError> {
        let (dir, meter, observer) = (&mut *self.dir, &mut self.meter, &mut *self.observer);
        let recorder = &mut self.recorder;
        self.stopwatch.time(Lap::Monitor, || {
            dir.log(events)?;
            for event in events {
                recorder.note(event);
                meter.update(event);
                observer(event, meter.progress());
            }
            Ok(())
        })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a weight is a small number, and a model has no better ones")]
fn narrowed(weight: f64) -> f32 {
    weight as f32
}

fn present<M>(model: Option<&M>) -> &M {
    model.unwrap_or_else(|| unreachable!("only the optimizer takes it, and gives it back"))
}

/// What the next step is to be filled with.
fn wanted(controller: &Controller) -> Wanted {
    match controller.policy().batch_sizes() {
        Some(sizes) => Wanted::Batches(sizes.to_vec()),
        None => Wanted::Edge(controller.policy().knobs().patch_size),
    }
}

/// What must be equal for a checkpoint to fit.
fn fingerprint<J: Job>(job: &J, config: &FitConfig) -> String {
    let loader = &config.loader;
    let size = format!("{:?}", loader.step_size()).to_lowercase();
    let (job, seed) = (job.fingerprint(), config.seed);
    let seed = if config.deterministic { format!("seed {seed}, deterministic") } else { format!("seed {seed}") };
    match loader.edges.as_slice() {
        [] => format!("{job}, effective batch of {size}, {seed}"),
        edges => format!("{job}, effective batch of {size}, edges {edges:?}, {:?}, {seed}", loader.tasks),
    }
}
