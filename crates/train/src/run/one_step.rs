//! One optimizer step: its samples, its parts, and what is made of them.

use std::time::Instant;

use plimsoll_fleet::fingerprint;
use plimsoll_policy::Policy;
use plimsoll_sampler::Worked;
use plimsoll_step::{
    Commit, OptimizerRecovery, RanPart, Rescale, StepError, StepOutcome, StepPart, StepRequest, StepTimes, Update,
};
use plimsoll_types::{Budget, Bytes, Event, MemoryReading, MicroBatch, Prediction, Stage, StepDone, StepFailed};

use super::Run;
use super::recover::Stopped;
use super::shares::cut_between;
use super::under_way::{Samples, UnderWay};
use crate::config::FitConfig;
use crate::error::TrainError;
use crate::fit::Doing;
use crate::job::Job;
use crate::loader::{EndedEpoch, LoaderError, StepUnit};
use crate::stopwatch::Lap;

impl<J: Job> Run<'_, '_, J> {
    /// Runs one optimizer step, learns from it and decides about the next.
    pub(crate) fn one_step(&mut self) -> Result<(), TrainError> {
        let (begun, before) = (Instant::now(), self.journal.booked());
        let _span = tracing::info_span!("step", step = self.step()).entered();
        self.journal.begin(Doing::Step);
        self.seed();
        let rung = self.control.knobs();
        if let Some(agreed) = &self.agreed {
            self.feed.share(agreed)?;
        }
        let samples = self.feed.next(&self.wanted(), self.control.budget().budget, &mut self.journal)?;
        let samples = self.begun(samples)?;
        let request = self.request(&samples)?;
        let mut step = UnderWay { rung, samples, request, begun };
        let done = loop {
            let stopped = match self.attempt(&step)? {
                Ok(outcome) => match self.commit(&step, outcome)? {
                    Ok(done) => break done,
                    Err(stopped) => stopped,
                },
                Err(stopped) => stopped,
            };
            match self.recover(step, stopped)? {
                Some(again) => step = again,
                // The run is at another step now.
                None => return Ok(()),
            }
        };
        self.feed.count(step.samples.draw.n_samples() as u64);
        self.answer(Event::StepDone(done))?;
        self.standing.count_step();
        self.validations.begin_step();
        let UnderWay { samples, .. } = step;
        let (epoch, ends_epoch) = (samples.draw.epoch, samples.ends_epoch);
        self.feed.recycle(samples, &mut self.journal)?;
        let (next, training) = (self.standing.step(), &self.training);
        self.journal.end_step((begun, before), next, self.control.controller(), || training.surroundings(next));
        self.end_epochs(ends_epoch.then(|| EndedEpoch::whole(epoch)))
    }

    /// Logs the epochs that ended before these samples.
    pub(super) fn begun(&mut self, mut samples: Samples<J>) -> Result<Samples<J>, TrainError> {
        self.end_epochs(std::mem::take(&mut samples.ended))?;
        Ok(samples)
    }

    /// Logs epochs that ended with the last step, or after it with none of which a sample was left.
    fn end_epochs(&mut self, epochs: impl IntoIterator<Item = EndedEpoch>) -> Result<(), TrainError> {
        for epoch in epochs {
            let ended = self.feed.end_epoch(epoch, self.step().saturating_sub(1));
            self.journal.log(&[Event::EpochDone(ended)])?;
        }
        Ok(())
    }

    pub(super) fn request(&mut self, samples: &Samples<J>) -> Result<StepRequest, TrainError> {
        let micro_batches = self.own_micro_batches(samples);
        self.training.team().set_samples(fingerprint(&(&samples.draw, &samples.dealt)));
        Ok(StepRequest {
            micro_batches: self.cut_for_replicas(micro_batches)?,
            units: samples.units(self.job.unit()),
            lengths: Vec::new(),
            task_probes: self.job.task_probes(self.training.model()),
            budget: self.control.bound(),
            rescale: Rescale { max_norm: self.job.max_norm(), ..Rescale::default() },
            may_halve: true,
        })
    }

    /// Cuts micro-batches where replicas would wait for one another, if samples are padded and their sizes those of a policy.
    fn cut_for_replicas(&self, parts: Vec<StepPart>) -> Result<Vec<StepPart>, TrainError> {
        let (n, multiple_of) = (self.training.n_beside(), self.config.loader.multiple_of);
        let is_bucketed = matches!(self.control.controller().policy(), Policy::Bucketed(_));
        if n <= 1 || !is_bucketed || self.feed.keeps_groups() {
            return Ok(parts);
        }
        Ok(cut_between(n, parts, multiple_of).map_err(LoaderError::from)?)
    }

    /// Runs the parts of a step, and answers those that ran out of memory.
    fn attempt(&mut self, step: &UnderWay<J>) -> Result<Result<StepOutcome, Stopped>, TrainError> {
        let (control, to_come) = (&self.control, self.training.to_come(self.standing.step()));
        let predict = |shape, resident: Bytes| control.predict(shape, resident.saturating_add(to_come));
        let (keys, begun) = (control.controller().keys(), Instant::now());
        let outcome = self.training.attempt(self.job, &step.samples, &step.request, keys, &predict);
        let took = begun.elapsed();
        let (failures, capacity) = (self.training.take_failures(), self.control.budget().capacity);
        if !failures.is_empty() {
            // What others have taken meanwhile explains them: where it leads lower than they do, it is the only change.
            self.follow_budget()?;
        }
        for attempt in failures.iter().copied() {
            let failed = StepFailed { step: self.step(), rung: step.rung, attempt, capacity, stage: Stage::MicroBatch };
            self.answer(Event::StepFailed(failed))?;
        }
        if !failures.is_empty() && outcome.is_ok() && self.journal.owes_report(self.standing.step()) {
            self.record("a micro-batch ran out of memory, and its samples ran again".to_owned())?;
        }
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(StepError::Apart { standing, .. }) => return Ok(Err(Stopped::Apart(standing))),
            Err(error) if self.training.guard().is_stopped() => return Ok(Err(Stopped::Attempt(error))),
            Err(error) => return Err(self.failed(error)),
        };
        let StepTimes { probe, check, guard, ranks, .. } = outcome.times;
        let positions = outcome.parts.iter().map(|it| it.part.shape().positions()).sum();
        self.worked = Worked { positions, took: took.saturating_sub(ranks) };
        let passes = took.saturating_sub(probe + check + guard + ranks);
        for (lap, time) in
            [(Lap::Probe, probe), (Lap::Check, check), (Lap::Guard, guard), (Lap::Ranks, ranks), (Lap::Passes, passes)]
        {
            self.journal.book(lap, time);
        }
        Ok(Ok(outcome))
    }

    /// Returns the learning rate of a step; where the effective batch varies, it may follow.
    fn learning_rate(&self, samples: &Samples<J>) -> f64 {
        let FitConfig { learning_rate, n_steps, loader, .. } = self.config;
        let rate = learning_rate.at(self.step(), *n_steps);
        let taken = match loader.unit {
            StepUnit::Samples | StepUnit::Positions => return rate,
            StepUnit::Batch => samples.draw.n_samples() as f64,
            StepUnit::BatchOfPositions => samples.extents.iter().map(|it| it.positions() as f64).sum(),
        };
        rate * learning_rate.scaling.factor(taken / f64::from(loader.effective_batch_size))
    }

    /// Predicts the peak of the part that is expected to reach most, or of the parts that ran side by side, each on top of what
    /// they found in use.
    fn predicted(&self, parts: &[RanPart]) -> Option<Prediction> {
        let to_come = self.training.to_come(self.step());
        let alone = |it: &RanPart| self.control.predict(it.part.shape(), it.resident.saturating_add(to_come));
        let of_part = |it: &RanPart| it.beside.or_else(|| alone(it));
        parts.iter().filter_map(of_part).max_by_key(|it| it.upper)
    }

    /// Lets the optimizer step, and gathers what happened.
    fn commit(
        &mut self,
        step: &UnderWay<J>,
        mut outcome: StepOutcome,
    ) -> Result<Result<StepDone, Stopped>, TrainError> {
        let tasks = self.training.task_steps(&step.samples.tasks, &outcome);
        let start_of_prediction = Instant::now();
        let prediction = self.predicted(&outcome.parts);
        self.journal.book(Lap::Predict, start_of_prediction.elapsed());
        let update = Update {
            gradients: std::mem::take(&mut outcome.gradients),
            rate: self.learning_rate(&step.samples).into(),
            capacity: self.control.bound().capacity,
            // What others have committed cannot be taken again here alone.
            recovery: if self.agreed.is_none() { self.config.optimizer_recovery } else { OptimizerRecovery::Restore },
        };
        let begun = Instant::now();
        match self.training.commit(update).map_err(|it| self.failed(it))? {
            Commit::Done { reading, probe_time, check_time } => {
                let passes = begun.elapsed().saturating_sub(probe_time + check_time);
                self.journal.book(Lap::Probe, probe_time);
                self.journal.book(Lap::Check, check_time);
                self.journal.book(Lap::Passes, passes);
                self.training.observe(&tasks);
                let supply = self.feed.supply();
                Ok(Ok(StepDone { tasks, supply, ..self.done(step, outcome, reading, prediction) }))
            }
            Commit::OutOfMemory { peak, .. } => Ok(Err(Stopped::Update { peak })),
        }
    }

    /// Says what a step did; its tasks and its supply come on top.
    fn done(
        &self,
        UnderWay { rung, samples, begun, .. }: &UnderWay<J>,
        outcome: StepOutcome,
        reading: MemoryReading,
        prediction: Option<Prediction>,
    ) -> StepDone {
        let StepOutcome { loss, gradient_norm, mut parts, resident, in_use, peak, times, .. } = outcome;
        let Budget { capacity, budget } = self.control.budget();
        let (draw, is_padded) = (&samples.draw, !self.config.loader.cells.is_empty());
        // Where pages are read, those of parts of one edge belong to the step.
        let tells_parts = parts.len() > 1 && (self.training.probe().has_exact_peak() || draw.parts.len() > 1);
        parts.last_mut().into_iter().for_each(|it| it.follow(in_use, reading.peak));
        let (ids, rows, n_parts): (Vec<_>, Vec<_>, _) = (draw.ids().collect(), draw.rows().collect(), parts.len());
        let is_packed = draw.parts.iter().any(|it| it.packed.is_some());
        let samples_of = |it: &RanPart| {
            let own = &rows[it.part.samples.clone()];
            own.first().map_or(0, |row| row.start)..own.last().map_or(0, |row| row.end)
        };
        let own_extents = parts.iter().flat_map(|it| &samples.extents[samples_of(it)]);
        let real_positions = is_padded.then(|| own_extents.map(|it| it.positions()).sum());
        let micro_batch = |it: RanPart| {
            let peak = it.peak.filter(|_| tells_parts);
            let resident = (n_parts > 1).then_some(it.resident);
            let samples = samples_of(&it);
            MicroBatch {
                rows: is_packed.then_some(it.part.shape().samples),
                resident,
                shares_pages: it.peak.is_none() && it.beside.is_some(),
                peak,
                nodes: it.nodes,
                ..MicroBatch::new(ids[samples].to_vec(), it.part.extent)
            }
        };
        StepDone {
            step: self.step(),
            epoch: draw.epoch,
            rung: *rung,
            micro_batches: parts.into_iter().map(micro_batch).collect(),
            real_positions,
            predicted: prediction.map(|it| it.expected),
            upper: prediction.map(|it| it.upper),
            resident,
            in_use: reading.in_use,
            reserved: reading.reserved,
            peak: peak.max(reading.peak),
            page: reading.page,
            packed: reading.packed,
            capacity,
            budget,
            skipped: samples.skipped.clone(),
            tasks: Vec::new(),
            loss: loss.unwrap_or(f64::NAN),
            gradient_norm,
            learning_rate: self.learning_rate(samples),
            seconds: begun.elapsed().as_secs_f64(),
            waited_seconds: self.agreed.is_some().then_some(times.ranks.as_secs_f64()),
            supply: None,
            committed: true,
        }
    }
}
