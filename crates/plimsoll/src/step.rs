//! Step by step.

use std::cell::Cell;
use std::ops::Range;

use burn::module::Module;
use burn::optim::ModuleOptimizer;
use burn::tensor::Tensor;
use plimsoll_predict::{Key, PartReading, Phase, Platform, Predictor};
use plimsoll_step::{
    Commit, GuardedStep, Loss, OptimizerRecovery, RanPart, StepError, StepOutcome, StepPart, StepRequest, TrainState,
    Update,
};
use plimsoll_types::{Attempt, Budget, Bytes, Fraction, Observation, Prediction, StepShape};

use crate::error::Error;

/// A model and its optimizer, whose steps run under a budget; [`step()`](crate::step()) makes one.
///
/// # Why these parts
///
/// A step runs its longest samples first, as many at a time as are certain to fit by what was read before.
/// What a part of `n` samples of length `e` needs is bounded by the [certificate](plimsoll_predict::Certificate) of all
/// readings, for a program whose tensors grow with `1, e, e², n, n·e, n·e²`.
/// Nothing is known before the first step, so its parts have one sample each.
pub struct Step<M> {
    pub(crate) guarded: GuardedStep,
    pub(crate) state: TrainState<M>,
    pub(crate) predictor: Predictor,
    pub(crate) platform: Platform,
    /// Batches up to this many samples run other kernels than larger ones.
    pub(crate) small_batch: u32,
    pub(crate) micro_batch: Option<u32>,
    pub(crate) target: Fraction,
    pub(crate) recovery: OptimizerRecovery,
}

/// What a step did.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// The mean loss over all samples.
    pub loss: f64,
    /// The global norm of the gradient.
    pub gradient_norm: f64,
    /// The parts that ran; a range counts the samples from the longest on.
    pub parts: Vec<StepPart>,
    /// Parts that ran out of memory, and ran again in halves.
    pub failures: Vec<Attempt>,
    /// The high-water mark.
    pub peak: Bytes,
    /// What was not to be exceeded.
    pub budget: Bytes,
}

impl<M: Module> Step<M> {
    /// Runs one optimizer step of samples that are all as long.
    ///
    /// `mean_loss` makes the mean loss over some of the samples, of shape `[1]`.
    ///
    /// # Errors
    ///
    /// [`Error`]; nothing has happened then, but for [`StepError::Damaged`]: an optimizer's step that ran out of memory with
    /// no copy to go back to has lost the model, and [`Self::restore`] puts another in its place.
    pub fn run<T: Clone>(
        &mut self,
        samples: &[T],
        rate: f64,
        mean_loss: impl Fn(&M, Vec<T>) -> Tensor<1>,
    ) -> Result<Done, Error> {
        self.run_by(samples, |_| 1, rate, mean_loss)
    }

    /// Runs one optimizer step of samples of these lengths, such as their tokens; those of one part are padded to the
    /// longest of it by whoever makes the batch.
    ///
    /// # Errors
    ///
    /// As [`Self::run`].
    pub fn run_by<T: Clone>(
        &mut self,
        samples: &[T],
        length: impl Fn(&T) -> u32,
        rate: f64,
        mean_loss: impl Fn(&M, Vec<T>) -> Tensor<1>,
    ) -> Result<Done, Error> {
        let mut sorted: Vec<_> = samples.iter().map(|it| (length(it).max(1), it)).collect();
        // Of as long ones the order stays.
        sorted.sort_by_key(|it| std::cmp::Reverse(it.0));
        let budget = self.budget()?;
        let lengths: Vec<_> = sorted.iter().map(|it| it.0).collect();
        let request = StepRequest {
            micro_batches: self.parts(&lengths, budget)?,
            units: vec![1; samples.len()],
            task_probes: Vec::new(),
            budget,
        };
        let n_values = Cell::new(1);
        let loss_of = |model: &M, part: Range<usize>| {
            let loss = mean_loss(model, sorted[part].iter().map(|(_, sample)| (*sample).clone()).collect());
            n_values.set(n_values.get().max(loss.dims()[0]));
            Loss::from(loss.mean())
        };
        let (keys, predictor) = (self.keys(), &self.predictor);
        let predict = |shape: StepShape, resident| predictor.predict(keys.key(shape), shape, resident);
        let outcome = self.guarded.attempt(self.state.model(), &request, &predict, &loss_of);
        if 1 < n_values.get() {
            return Err(Error::LossIsNotScalar { n_values: n_values.get() });
        }
        self.commit(outcome?, rate, budget)
    }

    /// Returns the model.
    pub fn model(&self) -> &M {
        self.state.model()
    }

    /// Goes on with another model and optimizer, such as those of a checkpoint.
    pub fn restore(&mut self, model: M, optimizer: ModuleOptimizer) {
        self.state = TrainState::new(model, optimizer);
    }

    /// Returns the optimizer, for a checkpoint.
    pub fn optimizer(&self) -> &ModuleOptimizer {
        self.state.optimizer()
    }

    /// Gives the model back.
    pub fn into_model(self) -> M {
        self.state.model().clone()
    }

    /// Predicts what a part would reach that begins now; `None` before the first step.
    ///
    /// # Errors
    ///
    /// [`Error::Step`] when memory cannot be measured.
    pub fn predict(&self, n_samples: u32, length: u32) -> Result<Option<Prediction>, Error> {
        let shape = StepShape::new(n_samples, length.max(1));
        Ok(self.predictor.predict(self.keys().key(shape), shape, self.guarded.read()?.in_use))
    }

    fn budget(&self) -> Result<Budget, Error> {
        let capacity = self.guarded.probe().capacity()?;
        Ok(Budget { capacity, budget: capacity.scale(self.target) })
    }

    fn keys(&self) -> Keys {
        Keys { platform: self.platform, small_batch: self.small_batch }
    }

    /// Divides samples of these lengths, the longest first.
    fn parts(&self, lengths: &[u32], budget: Budget) -> Result<Vec<StepPart>, Error> {
        let (mut parts, mut start) = (Vec::new(), 0);
        while start < lengths.len() {
            let (edge, left) = (lengths[start], lengths.len() - start);
            let n = match self.micro_batch {
                Some(n) => (n.max(1) as usize).min(left),
                None => self.certain(edge, left, budget)?,
            };
            parts.push(StepPart { samples: start..start + n, edge });
            start += n;
        }
        if parts.is_empty() { Err(Error::NoSamples) } else { Ok(parts) }
    }

    /// Returns how many samples of this length are certain to fit, one at least.
    fn certain(&self, edge: u32, most: usize, budget: Budget) -> Result<usize, Error> {
        let (mut least, mut beyond) = (1, most + 1);
        while least + 1 < beyond {
            let middle = least + (beyond - least) / 2;
            let predicted = self.predict(u32::try_from(middle).unwrap_or(u32::MAX), edge)?;
            let fits = predicted.is_some_and(|it| it.upper <= budget.budget);
            if fits { least = middle } else { beyond = middle }
        }
        Ok(least)
    }

    fn commit(&mut self, outcome: StepOutcome, rate: f64, budget: Budget) -> Result<Done, Error> {
        let StepOutcome { gradients, loss, gradient_norm, mut parts, resident, peak, .. } = outcome;
        let failures = self.guarded.take_failures();
        // An update that is there is good, whatever it took; the next step knows it.
        let update = Update { gradients, rate, capacity: Bytes::MAX, recovery: self.recovery };
        let reading = match self.guarded.commit(&mut self.state, update)? {
            Commit::Done { reading, .. } => reading,
            Commit::OutOfMemory { is_back: true, .. } => {
                self.guarded.give_back()?;
                return Err(StepError::OutOfMemory("the optimizer's step".to_owned()).into());
            }
            Commit::OutOfMemory { is_back: false, .. } => return Err(StepError::Damaged.into()),
        };
        // The optimizer's step lies in the window of the last part.
        parts.last_mut().into_iter().for_each(|it| it.peak = it.peak.map(|peak| peak.max(reading.peak)));
        self.learn(&parts, &failures, reading.in_use.saturating_sub(resident))?;
        let (parts, peak) = (parts.into_iter().map(|it| it.part).collect(), peak.max(reading.peak));
        Ok(Done { loss, gradient_norm, parts, failures, peak, budget: budget.budget })
    }

    /// Learns what each part needed, of a step that kept so much.
    fn learn(&mut self, parts: &[RanPart], failures: &[Attempt], kept: Bytes) -> Result<(), Error> {
        let (keys, is_exact) = (self.keys(), self.guarded.probe().has_exact_peak());
        let read = |shape: StepShape, resident, peak: Option<Bytes>, nodes| {
            let read = PartReading::of(Observation { shape, resident, peak: peak? }, is_exact);
            Some((keys.key(shape), read.with_nodes(nodes)))
        };
        let failed: Vec<_> = failures.iter().filter_map(|it| read(it.shape, it.resident, it.peak, it.nodes)).collect();
        self.predictor.observe_step(&failed, Bytes::ZERO)?;
        let ran: Vec<_> = parts.iter().filter_map(|it| read(it.part.shape(), it.resident, it.peak, it.nodes)).collect();
        self.predictor.observe_step(&ran, kept)?;
        Ok(())
    }
}

/// What the keys of a program have in common.
#[derive(Clone, Copy)]
struct Keys {
    platform: Platform,
    small_batch: u32,
}

impl Keys {
    fn key(self, shape: StepShape) -> Key {
        let regime = u16::from(shape.samples <= self.small_batch);
        Key { phase: Phase::Train, checkpointing: false, platform: self.platform, regime }
    }
}
