//! Step by step.

mod end;

use std::ops::Range;
use std::sync::Arc;

use burn::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::module::Module;
use burn::optim::ModuleOptimizer;
use burn::tensor::Tensor;
use plimsoll_step::{
    GuardedStep, NextStep, PredictShape, ProgramSteps, Replicas, StepError, StepOutcome, StepRequest, Stopped,
    TrainState,
};
use plimsoll_types::{Prediction, StepShape};

use crate::average::Average;
use crate::done::Done;
use crate::error::Error;
use crate::limits::StepLimits;
use crate::place::Named;
use crate::scale::LossScale;
use crate::sorted::Sorted;

/// A model and its optimizer, whose steps run under a budget; [`step()`](crate::step()) makes one.
///
/// # Why these parts
///
/// A step runs its longest samples first, as many at a time as are certain to fit by what was read before, see
/// [`ProgramNeeds`](plimsoll_step::ProgramNeeds).
/// Before the first step nothing is known: one, two and eight of its longest samples run forward and backward, as far as they
/// fit, and what they need is all that is taken from them.
/// Flex runs other kernels from five samples on: of those, three times what fewer samples need is assumed until eight ran.
/// On a CPU what a batch is made from counts too. A [`Vec`] that doubles as it is filled takes up to three times its content
/// at some sizes, which smaller parts do not show: give it its capacity.
///
/// # What is lost
///
/// On a CPU a step that fails has changed nothing.
/// On a GPU an optimizer's step that runs out of memory fails silently, and takes the weights with it: unless a copy is
/// kept, it shows as [`StepError::Damaged`] in the next step, or in [`Self::is_whole`] before a checkpoint.
///
/// # Statistics of a batch
///
/// What a forward pass changes in a model, such as the running statistics of a batch normalisation, belongs to the step: of
/// passes that are discarded nothing stays.
/// But a layer that looks at all samples of a batch sees those of a part, which are fewer: [`Done::changes_statistics`] says
/// so once, and [`in_one_part`](crate::StepBuilder::in_one_part) forbids it.
///
/// # Several optimizers
///
/// Parameter groups are Burn's own matter. Models that are trained against each other are a [`Step`] each on one device:
/// each finds the other's memory in use.
/// Of passes that are discarded nothing stays in the step's own model; what a loss runs another model for, with gradients,
/// changes that one's running statistics each time, as it does without this crate.
///
/// # Models that need several samples
///
/// One sample may run alone: before the first step, and where no more fit.
/// A model whose loss needs two, or whose shapes do, takes [`micro_batch`](crate::StepBuilder::micro_batch) or
/// [`in_one_part`](crate::StepBuilder::in_one_part); then nothing runs before the first step, and nothing bounds it.
pub struct Step<M> {
    pub(crate) steps: ProgramSteps,
    /// The devices that are measured.
    pub(crate) named: Named,
    /// Whether the model may lie on others since it was looked at.
    pub(crate) may_have_moved: bool,
    pub(crate) state: TrainState<M>,
    pub(crate) scale: Option<LossScale>,
    /// How slowly an average follows the weights.
    pub(crate) decay: Option<f64>,
    pub(crate) average: Option<Average<M>>,
    pub(crate) n_steps: u64,
    pub(crate) n_skipped: u64,
    pub(crate) limits: Option<StepLimits>,
    /// What runs parts at once, where that was asked for.
    pub(crate) replicas: Option<Arc<Replicas>>,
}

/// Runs the passes of a request.
type Passes<'a, M> = &'a dyn Fn(&mut GuardedStep, &M, &StepRequest, PredictShape<'_>) -> Result<StepOutcome, StepError>;

impl<M: Module> Step<M> {
    /// Runs one optimizer step of samples that are all as long.
    ///
    /// `rate` is the learning rate, or what a scheduler of Burn returned; `mean_loss` makes the mean loss over some of the
    /// samples, of shape `[1]`.
    ///
    /// # Errors
    ///
    /// [`Error`]; nothing has happened then, unless the optimizer's step itself failed with no copy to go back to: then the
    /// model is lost, every further step is [`StepError::Damaged`], and [`Self::restore`] puts another in its place.
    pub fn run<T: Clone>(
        &mut self,
        samples: &[T],
        rate: impl Into<ModuleLearningRate>,
        mean_loss: impl Fn(&M, Vec<T>) -> Tensor<1>,
    ) -> Result<Done, Error> {
        self.run_by(samples, |_| 1, rate, mean_loss)
    }

    /// Runs one optimizer step of samples of these lengths, such as their tokens; those of one part are padded to the
    /// longest of it by whoever makes the batch.
    ///
    /// A length that is rounded up when the batch is made, as to a multiple of 8, is given as it is then: a bound from what
    /// ran at one length holds for another only as far as tensors grow with it, as [their features](crate::StepBuilder::features)
    /// say, and not in steps.
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
        rate: impl Into<ModuleLearningRate>,
        mean_loss: impl Fn(&M, Vec<T>) -> Tensor<1>,
    ) -> Result<Done, Error> {
        self.run_sorted(&Sorted::try_new(samples, length)?, rate, mean_loss)
    }

    /// Runs one optimizer step of samples that are sorted.
    pub(crate) fn run_sorted<T: Clone>(
        &mut self,
        sorted: &Sorted<'_, T>,
        rate: impl Into<ModuleLearningRate>,
        mean_loss: impl Fn(&M, Vec<T>) -> Tensor<1>,
    ) -> Result<Done, Error> {
        let loss = |model: &M, part: Range<usize>| sorted.loss(mean_loss(model, sorted.part(part)));
        let passes: Passes<'_, M> = &|guarded, model, request, predict| guarded.attempt(model, request, predict, &loss);
        self.run_passes(sorted, None, passes, &rate.into())
    }

    /// Does what [`Self::run_by`] does, with parts that run side by side on the [replicas](crate::StepBuilder::replicas), as many
    /// at once as are certain to fit together.
    ///
    /// The sum of their gradients is made in the order of the parts, whichever ends first: the same parts come to the same bits,
    /// unless something random is drawn in a forward pass, as by a dropout, whose order is that of the threads.
    /// Parts run one after the other where there is no replica, where forward passes change the model, as those of a batch
    /// normalisation do, and until something is known of their needs.
    ///
    /// The loss may depend on no tensors with gradients but those of the model that `mean_loss` is given, which is a copy: a
    /// graph that two threads share may make both wait for ever.
    ///
    /// # Errors
    ///
    /// As [`Self::run`].
    pub fn run_beside<T: Clone + Sync>(
        &mut self,
        samples: &[T],
        length: impl Fn(&T) -> u32,
        rate: impl Into<ModuleLearningRate>,
        mean_loss: impl Fn(&M, Vec<T>) -> Tensor<1> + Sync,
    ) -> Result<Done, Error> {
        self.run_sorted_beside(&Sorted::try_new(samples, length)?, rate, mean_loss)
    }

    /// Does what [`Self::run_sorted`] does, with parts that run side by side.
    pub(crate) fn run_sorted_beside<T: Clone + Sync>(
        &mut self,
        sorted: &Sorted<'_, T>,
        rate: impl Into<ModuleLearningRate>,
        mean_loss: impl Fn(&M, Vec<T>) -> Tensor<1> + Sync,
    ) -> Result<Done, Error> {
        let loss = |model: &M, part: Range<usize>| sorted.loss(mean_loss(model, sorted.part(part)));
        let replicas = self.replicas.clone();
        let passes: Passes<'_, M> = &|guarded, model, request, predict| match &replicas {
            Some(replicas) => guarded.attempt_beside(model, request, predict, (replicas, &loss)),
            None => guarded.attempt(model, request, predict, &loss),
        };
        self.run_passes(sorted, replicas.as_deref(), passes, &rate.into())
    }

    fn run_passes<T: Clone>(
        &mut self,
        sorted: &Sorted<'_, T>,
        replicas: Option<&Replicas>,
        passes: Passes<'_, M>,
        rate: &ModuleLearningRate,
    ) -> Result<Done, Error> {
        let Sorted { lengths, units, places, .. } = sorted;
        if self.state.is_lost() {
            return Err(StepError::Damaged.into());
        }
        if lengths.is_empty() {
            return Err(Error::NoSamples);
        }
        if std::mem::take(&mut self.may_have_moved) {
            self.named.check(self.state.model()).inspect_err(|_| self.may_have_moved = true)?;
        }
        let (number, loss_scale) = (self.n_steps + self.n_skipped, self.scale.map(|it| it.get()));
        let next = NextStep { number, lengths, units: units.as_deref(), loss_scale, is_whole: false, replicas };
        let mut failures = Vec::new();
        loop {
            let model = self.state.model();
            let ran: Result<_, Stopped> = self.steps.attempt(model, &next, &mut |guarded, request, predict| {
                Ok((passes(guarded, model, request, predict)?, ()))
            });
            failures.extend(self.steps.guarded_mut().take_failures());
            for other in self.steps.guarded_mut().others_mut() {
                failures.extend(other.take_failures());
            }
            let n_values = sorted.n_values();
            if 1 < n_values {
                self.steps.guarded_mut().discard(model);
                return Err(Error::LossIsNotScalar { n_values });
            }
            let done = match ran {
                Ok(ran) => self.commit(ran, rate)?,
                Err(Stopped::Step(StepError::NotFinite { loss: Some(loss), gradient_norm })) => {
                    Some(self.skip(loss, gradient_norm)?)
                }
                Err(Stopped::Step(source)) => {
                    return Err(match source.sample() {
                        Some(at) => Error::Sample { index: places[at], length: lengths[at], source },
                        None => source.into(),
                    });
                }
            };
            if let Some(done) = done {
                return Ok(Done { failures, ..done });
            }
        }
    }

    /// Returns the model.
    ///
    /// # Panics
    ///
    /// After [`StepError::Damaged`], until [`Self::restore`].
    pub fn model(&self) -> &M {
        self.state.model()
    }

    /// Changes the model between two steps, such as by keeping its weights in a range; meanwhile there are two of it.
    ///
    /// The next step refuses a model that lies on a device that is not measured.
    ///
    /// # Panics
    ///
    /// As [`Self::model`].
    pub fn change(&mut self, change: impl FnOnce(M) -> M) {
        let model = self.state.model().clone();
        self.state.set_model(change(model));
        self.may_have_moved = true;
    }

    /// Returns the average of the weights, without gradients; `None` before the first step, or where none is
    /// [asked for](crate::StepBuilder::average).
    pub fn average(&self) -> Option<&M> {
        self.average.as_ref().and_then(Average::model)
    }

    /// Returns what says from here on how many samples fit, such as to a [loader](crate::Batches::loader).
    ///
    /// # Errors
    ///
    /// [`Error::Step`] when memory cannot be measured.
    pub fn limits(&mut self) -> Result<StepLimits, Error> {
        if let Some(limits) = &self.limits {
            return Ok(limits.clone());
        }
        let (resident, budget) = (self.steps.read_in_use()?, self.steps.budget()?.budget);
        Ok(self.limits.insert(StepLimits::new(&self.steps, resident, budget)).clone())
    }

    /// Returns how many steps happened, those of the processes before this one included.
    pub fn n_steps(&self) -> u64 {
        self.n_steps
    }

    /// Returns how many steps were passed over because a multiplied gradient overflowed.
    pub fn n_skipped(&self) -> u64 {
        self.n_skipped
    }

    /// Whether every weight can be read, and every one of the average, as a checkpoint does.
    ///
    /// # Errors
    ///
    /// [`Error::Step`] when the device fails in another way.
    pub fn is_whole(&self) -> Result<bool, Error> {
        let is_whole = |model: &M| self.steps.guarded().weights_are_whole(model);
        Ok(!self.state.is_lost() && is_whole(self.state.model())? && self.average().map_or(Ok(true), is_whole)?)
    }

    /// Goes on with another model and optimizer; what they need is learnt anew, and an average begins anew.
    pub fn restore(&mut self, model: M, optimizer: ModuleOptimizer) {
        self.state = TrainState::new(model, optimizer);
        self.average = None;
        self.may_have_moved = true;
        self.steps.begin_again();
    }

    /// Returns the optimizer.
    pub fn optimizer(&self) -> &ModuleOptimizer {
        self.state.optimizer()
    }

    /// Gives the model back; `None` after [`StepError::Damaged`].
    pub fn into_model(self) -> Option<M> {
        self.state.into_model()
    }

    /// Predicts what a part would reach that begins now, on the first device; `None` before the first step.
    ///
    /// # Errors
    ///
    /// [`Error::Step`] when memory cannot be measured.
    pub fn predict(&self, n_samples: u32, length: u32) -> Result<Option<Prediction>, Error> {
        let shape = StepShape::new(n_samples, length.max(1));
        Ok(self.steps.needs().predict(shape, self.steps.guarded().read()?.in_use))
    }
}
