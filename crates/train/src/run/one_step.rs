//! One optimizer step: its samples, its parts, and what is made of them.

use std::time::Instant;

use burn::module::Module;
use plimsoll_step::{RanPart, StepError, StepOutcome, StepRequest, StepTimes};
use plimsoll_types::{Budget, Bytes, EpochDone, Event, Knobs, MicroBatch, Prediction, Stage, StepDone, StepFailed};

use super::optimize::Optimized;
use super::{Run, tasks};
use crate::config::FitConfig;
use crate::device::uploaded;
use crate::error::{Misfit, TrainError};
use crate::fit::Doing;
use crate::job::Job;
use crate::loader::{BadSample, StepSamples, StepUnit};
use crate::source::Source;
use crate::stopwatch::Lap;

/// Bytes of Adam's two moments of a parameter.
const MOMENTS: u64 = 8;

impl<J: Job> Run<'_, J> {
    /// Runs one optimizer step, learns from it and decides about the next.
    pub(crate) fn one_step(&mut self) -> Result<(), TrainError> {
        let start = Instant::now();
        self.begin(Doing::Step);
        self.seed();
        let knobs = self.controller.policy().knobs();
        let mut samples = self.next_samples()?;
        self.end_epochs(std::mem::take(&mut samples.ended))?;
        let mut request = self.request(&samples);
        let done = loop {
            self.under_way.clear();
            self.under_way.extend(samples.draw.ids());
            let outcome = match self.run_or_spare(knobs, &mut request, &samples) {
                // An optimizer's step has lost them, and only now does it show.
                Err(TrainError::Step { source: StepError::Damaged, .. }) => return self.go_back(knobs, None),
                Err(error @ TrainError::NeverFits { .. }) => {
                    samples = self.leave_out(samples, error)?;
                    self.end_epochs(std::mem::take(&mut samples.ended))?;
                    request = self.request(&samples);
                    continue;
                }
                outcome => outcome?,
            };
            match self.commit(knobs, &samples, outcome, start)? {
                Optimized::Done(done) => break done,
                Optimized::OutOfMemory { peak, is_back: false } => return self.go_back(knobs, peak),
                Optimized::OutOfMemory { peak, is_back: true } => self.try_again(knobs, peak)?,
            }
        };
        self.epoch_samples += done.n_samples();
        self.answer(Event::StepDone(done))?;
        (self.step, self.validated) = (self.step + 1, false);
        let (epoch, ends_epoch) = (samples.draw.epoch, samples.ends_epoch);
        self.sampled(|loader| loader.recycle(samples))?;
        self.stopwatch.book(Lap::Step, start.elapsed());
        self.stopwatch.end_step();
        self.turn_recorder();
        self.end_epochs(ends_epoch.then_some(epoch))
    }

    /// Logs epochs that ended with the last step, or after it with none of which a sample was left.
    fn end_epochs(&mut self, epochs: impl IntoIterator<Item = u64>) -> Result<(), TrainError> {
        for epoch in epochs {
            let (step, samples) = (self.step.saturating_sub(1), std::mem::take(&mut self.epoch_samples));
            self.log(&[Event::EpochDone(EpochDone { epoch, step, samples })])?;
        }
        Ok(())
    }

    fn request(&self, samples: &StepSamples<<J::Source as Source>::Buffer>) -> StepRequest {
        let policy = self.controller.policy();
        // Where samples are padded, each part is a micro-batch.
        let most = policy.batch_sizes().map_or(policy.knobs().micro_batch_size, |_| u32::MAX);
        StepRequest {
            micro_batches: samples.draw.micro_batches(most),
            units: self.job.unit().of(&samples.lengths),
            lengths: Vec::new(),
            task_probes: self.job.task_probes(self.state.model()),
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
            let outcome = self.below_line(|run| run.run_guarded(request, samples))?;
            let (failures, capacity) = (self.guarded.take_failures(), self.budget.capacity);
            if !failures.is_empty() {
                // What others have taken meanwhile explains them: where it leads lower than they do, it is the only change.
                self.follow_budget()?;
            }
            for attempt in failures.iter().copied() {
                let (step, stage) = (self.step, Stage::MicroBatch);
                self.answer(Event::StepFailed(StepFailed { step, rung, attempt, capacity, stage }))?;
            }
            if !failures.is_empty() && outcome.is_ok() && self.recorder.is_due(self.step) {
                self.record("a micro-batch ran out of memory, and its samples ran again".to_owned())?;
            }
            match outcome {
                Err(TrainError::Step {
                    source: StepError::NeverFits { .. } | StepError::SumNeverFits { .. }, ..
                }) if self.raise_budget()? || self.spare_memory()? => {
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
        let (data, id) = (self.job.source(), self.under_way.get(sample).copied().unwrap_or_default());
        TrainError::NeverFits {
            step,
            source,
            sample: Box::new(Misfit {
                name: data.describe(id),
                smaller: data.smaller(),
                unit: self.job.unit_of_length(),
            }),
            may_skip: !self.config.loader.edges.is_empty() && self.config.loader.bad_sample == BadSample::Fail,
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
        let weights: Vec<_> = self.balance.weights().iter().copied().map(narrowed).collect();
        let batch = |range| uploaded(job.batch(&samples.buffer, range, device), device);
        let mean_loss = |model: &J::Model, range| job.mean_loss(model, batch(range), &weights);
        let to_come = self.to_come();
        let predict = |shape, resident: Bytes| controller.predict(shape, resident.saturating_add(to_come));
        let attempted = self.guarded.attempt(self.state.model(), request, &predict, &mean_loss);
        let outcome = attempted.map_err(|source| TrainError::Step { step: self.step, source })?;
        let StepTimes { probe, check, guard } = outcome.times;
        for (lap, time) in [(Lap::Probe, probe), (Lap::Check, check), (Lap::Guard, guard)] {
            self.stopwatch.book(lap, time);
        }
        Ok(outcome)
    }

    /// Returns what a step leaves in use that earlier ones found there: the moments of Adam, which the first step makes.
    fn to_come(&self) -> Bytes {
        let n_parameters = self.state.model().num_params() as u64;
        if self.step == 0 { Bytes(n_parameters.saturating_mul(MOMENTS)) } else { Bytes::ZERO }
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

    /// Predicts the peak of the part that is expected to reach most, each on top of what it found in use.
    fn predicted(&self, parts: &[RanPart], to_come: Bytes) -> Option<Prediction> {
        let predict = |it: &RanPart| self.controller.predict(it.part.shape(), it.resident.saturating_add(to_come));
        parts.iter().filter_map(predict).max_by_key(|it| it.upper)
    }

    /// Lets the optimizer step, and gathers what happened.
    fn commit(
        &mut self,
        rung: Knobs,
        samples: &StepSamples<<J::Source as Source>::Buffer>,
        outcome: StepOutcome,
        start: Instant,
    ) -> Result<Optimized<StepDone>, TrainError> {
        let learning_rate = self.learning_rate(samples);
        let tasks = tasks::task_steps(&self.balance, &samples.tasks, &outcome);
        let StepOutcome { gradients, loss, gradient_norm, mut parts, resident, peak, .. } = outcome;
        let start_of_prediction = Instant::now();
        let prediction = self.predicted(&parts, self.to_come());
        self.stopwatch.book(Lap::Predict, start_of_prediction.elapsed());
        let reading = match self.optimize(learning_rate, gradients)? {
            Optimized::Done(reading) => reading,
            Optimized::OutOfMemory { peak, is_back } => return Ok(Optimized::OutOfMemory { peak, is_back }),
        };
        tasks::observe(&mut self.balance, &tasks);
        let Budget { capacity, budget } = self.budget;
        let draw = &samples.draw;
        // Where pages are read, those of parts of one edge belong to the step.
        let tells_parts = parts.len() > 1 && (self.guarded.probe().has_exact_peak() || draw.parts.len() > 1);
        // The optimizer's step lies in the window of the last part.
        parts.last_mut().into_iter().for_each(|it| it.peak = it.peak.map(|peak| peak.max(reading.peak)));
        let (ids, n_parts): (Vec<_>, _) = (draw.ids().collect(), parts.len());
        let micro_batch = |it: RanPart| {
            let peak = it.peak.filter(|_| tells_parts);
            let resident = (n_parts > 1).then_some(it.resident);
            MicroBatch {
                resident,
                peak,
                nodes: it.nodes,
                ..MicroBatch::new(ids[it.part.samples].to_vec(), it.part.edge)
            }
        };
        Ok(Optimized::Done(StepDone {
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
}

#[expect(clippy::cast_possible_truncation, reason = "a weight is a small number, and a model has no better ones")]
fn narrowed(weight: f64) -> f32 {
    weight as f32
}
