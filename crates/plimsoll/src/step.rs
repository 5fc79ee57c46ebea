//! Step by step.

use std::cell::Cell;
use std::ops::Range;

use burn::module::Module;
use burn::optim::ModuleOptimizer;
use burn::tensor::Tensor;
use plimsoll_step::{
    Commit, GuardedStep, Loss, OptimizerRecovery, StepError, StepOutcome, StepPart, StepRequest, TrainState, Update,
};
use plimsoll_types::{Attempt, Budget, Bytes, Fraction, Prediction, StepShape};

use crate::error::Error;
use crate::known::Known;

/// A model and its optimizer, whose steps run under a budget; [`step()`](crate::step()) makes one.
///
/// # Why these parts
///
/// A step runs its longest samples first, as many at a time as are certain to fit by what was read before.
/// What a part of `n` samples of length `e` needs is bounded by the [certificate](plimsoll_predict::Certificate) of all
/// readings, for a program whose tensors grow with `1, e, e², n, n·e, n·e²`.
/// Nothing is known before the first step, so its parts have one sample each.
/// Flex runs other kernels from five samples on: of those, three times what fewer samples need is assumed until one ran.
///
/// # What is lost
///
/// On a CPU a step that fails has changed nothing.
/// On a GPU an optimizer's step that runs out of memory fails silently, and takes the weights with it: unless a copy is
/// kept, it shows as [`StepError::Damaged`] in the next step, or in [`Self::is_whole`] before a checkpoint.
pub struct Step<M> {
    pub(crate) guarded: GuardedStep,
    pub(crate) state: TrainState<M>,
    pub(crate) known: Known,
    pub(crate) micro_batch: Option<u32>,
    pub(crate) target: Fraction,
    pub(crate) recovery: OptimizerRecovery,
    pub(crate) by_length: bool,
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
    /// [`Error`]; nothing has happened then, unless the optimizer's step itself failed with no copy to go back to: then the
    /// model is lost, every further step is [`StepError::Damaged`], and [`Self::restore`] puts another in its place.
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
    /// The step's loss is the mean over its samples, or with
    /// [`mean_over_positions`](crate::StepBuilder::mean_over_positions) over all their positions.
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
        if self.state.is_lost() {
            return Err(StepError::Damaged.into());
        }
        let mut sorted: Vec<_> = samples.iter().map(|it| (length(it).max(1), it)).collect();
        // Of as long ones the order stays.
        sorted.sort_by_key(|it| std::cmp::Reverse(it.0));
        let budget = self.budget()?;
        let lengths: Vec<_> = sorted.iter().map(|it| it.0).collect();
        let unit = |length: &u32| if self.by_length { u64::from(*length) } else { 1 };
        let request = StepRequest {
            micro_batches: self.parts(&lengths, budget)?,
            units: lengths.iter().map(unit).collect(),
            lengths,
            task_probes: Vec::new(),
            budget,
        };
        let n_values = Cell::new(1);
        let loss_of = |model: &M, part: Range<usize>| {
            let loss = mean_loss(model, sorted[part].iter().map(|(_, sample)| (*sample).clone()).collect());
            n_values.set(n_values.get().max(loss.dims()[0]));
            Loss::from(loss.mean())
        };
        let known = &self.known;
        let predict = |shape: StepShape, resident| known.predict(shape, resident);
        let attempted = self.guarded.attempt(self.state.model(), &request, &predict, &loss_of);
        let failures = self.guarded.take_failures();
        self.known.learn_failures(&failures)?;
        if 1 < n_values.get() {
            return Err(Error::LossIsNotScalar { n_values: n_values.get() });
        }
        self.commit(attempted?, failures, rate, budget)
    }

    /// Returns the model.
    ///
    /// # Panics
    ///
    /// After [`StepError::Damaged`], until [`Self::restore`].
    pub fn model(&self) -> &M {
        self.state.model()
    }

    /// Whether every weight can be read, as a checkpoint does.
    ///
    /// # Errors
    ///
    /// [`Error::Step`] when the device fails in another way.
    pub fn is_whole(&self) -> Result<bool, Error> {
        Ok(!self.state.is_lost() && self.guarded.weights_are_whole(self.state.model())?)
    }

    /// Goes on with another model and optimizer, such as those of a checkpoint; what they need is learnt anew.
    ///
    /// # Errors
    ///
    /// [`Error::Predict`], which no settings of this crate lead to.
    pub fn restore(&mut self, model: M, optimizer: ModuleOptimizer) -> Result<(), Error> {
        self.state = TrainState::new(model, optimizer);
        Ok(self.known.forget()?)
    }

    /// Returns the optimizer, for a checkpoint.
    pub fn optimizer(&self) -> &ModuleOptimizer {
        self.state.optimizer()
    }

    /// Gives the model back; `None` after [`StepError::Damaged`].
    pub fn into_model(self) -> Option<M> {
        self.state.into_model()
    }

    /// Predicts what a part would reach that begins now; `None` before the first step.
    ///
    /// # Errors
    ///
    /// [`Error::Step`] when memory cannot be measured.
    pub fn predict(&self, n_samples: u32, length: u32) -> Result<Option<Prediction>, Error> {
        let shape = StepShape::new(n_samples, length.max(1));
        Ok(self.known.predict(shape, self.guarded.read()?.in_use))
    }

    fn budget(&self) -> Result<Budget, Error> {
        let capacity = self.guarded.probe().capacity()?;
        Ok(Budget { capacity, budget: capacity.scale(self.target) })
    }

    /// Divides samples of these lengths, the longest first.
    fn parts(&self, lengths: &[u32], Budget { budget, .. }: Budget) -> Result<Vec<StepPart>, Error> {
        let resident = self.guarded.read()?.in_use;
        // Each part but the first finds the gradients of those before it.
        let gradients = Bytes(self.state.model().num_params() as u64 * size_of::<f32>() as u64);
        let (mut parts, mut start) = (Vec::new(), 0);
        while start < lengths.len() {
            let (edge, left) = (lengths[start], lengths.len() - start);
            let found = if start == 0 { resident } else { resident.saturating_add(gradients) };
            let shape = |n: usize| StepShape::new(u32::try_from(n).unwrap_or(u32::MAX), edge);
            let fits = |n: usize| self.known.fits(shape(n), found, budget);
            let n = self.micro_batch.map_or_else(|| most(left, fits), |n| (n.max(1) as usize).min(left));
            parts.push(StepPart { samples: start..start + n, edge });
            start += n;
        }
        if parts.is_empty() { Err(Error::NoSamples) } else { Ok(parts) }
    }

    fn commit(
        &mut self,
        outcome: StepOutcome,
        failures: Vec<Attempt>,
        rate: f64,
        Budget { budget, .. }: Budget,
    ) -> Result<Done, Error> {
        let StepOutcome { gradients, loss, gradient_norm, mut parts, resident, peak, .. } = outcome;
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
        if self.known.learn(&parts, reading.in_use.saturating_sub(resident)).is_err() {
            // The step is done; the next one begins with nothing known.
            self.known.forget()?;
        }
        let (parts, peak) = (parts.into_iter().map(|it| it.part).collect(), peak.max(reading.peak));
        Ok(Done { loss, gradient_norm, parts, failures, peak, budget })
    }
}

/// Returns how many of so many samples fit, one at least.
fn most(n: usize, fits: impl Fn(usize) -> bool) -> usize {
    let (mut least, mut beyond) = (1, n + 1);
    while least + 1 < beyond {
        let middle = least + (beyond - least) / 2;
        if fits(middle) { least = middle } else { beyond = middle }
    }
    least
}
