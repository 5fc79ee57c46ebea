//! How a step is to be run.

use burn::module::Module;
use burn::optim::ModuleOptimizer;
use burn::tensor::Device;
use plimsoll_probe::open;
use plimsoll_step::{Elsewhere, GuardedStep, OptimizerRecovery, ProgramSteps, SettingError, StepRules, TrainState};
use plimsoll_train::{compute_alone, has_exact_peaks, program_needs, replicas};
use plimsoll_types::{Bytes, Features};

use crate::error::Error;
use crate::place::{Named, measured};
use crate::scale::LossScale;
use crate::step::Step;

/// Runs the steps of a model and its optimizer under a budget; both lie on `device`, which has gradients, or on others that
/// are named by [`also_on`](StepBuilder::also_on).
pub fn step<M: Module>(device: &Device, model: M, optimizer: ModuleOptimizer) -> StepBuilder<M> {
    StepBuilder {
        device: device.clone(),
        model,
        optimizer,
        rules: StepRules::default(),
        capacity: None,
        features: Features::default(),
        scale: None,
        average: None,
        replicas: 1,
        others: Vec::new(),
    }
}

/// How a step is to be run; see [`step()`].
pub struct StepBuilder<M> {
    device: Device,
    model: M,
    optimizer: ModuleOptimizer,
    rules: StepRules,
    capacity: Option<Bytes>,
    features: Features,
    scale: Option<LossScale>,
    average: Option<f64>,
    replicas: usize,
    others: Vec<(Device, Option<Bytes>)>,
}

impl<M: Module> StepBuilder<M> {
    /// Aims at this share of the capacity, above 0 and at most 1; 0.9 by default.
    #[must_use]
    pub fn budget(mut self, share: f64) -> Self {
        self.rules.budget = share;
        self
    }

    /// Uses no more than this, whatever the device has.
    #[must_use]
    pub fn capacity(self, capacity: Bytes) -> Self {
        Self { capacity: Some(capacity), ..self }
    }

    /// Takes the tensors of a part for combinations of these, over one axis, the length of a sample; by default they have a size
    /// of their own or so much for each sample, each of which may grow with the length and with its square.
    ///
    /// What grows faster, such as a volume with its side, has bounds that do not hold, unless it says so by
    /// [`Features::powers`]`(3)`, or gives its voxels as its length.
    /// Where nothing grows faster than the length, `Features::powers(1)` bounds tighter, so that more samples run at a time.
    #[must_use]
    pub fn features(self, features: Features) -> Self {
        Self { features, ..self }
    }

    /// Measures another device too that parts of the model lie on, such as its second half, up to a capacity where one is given.
    ///
    /// Each has readings, bounds and a budget of its own: a part of a step runs where it is certain to fit on each, and runs in
    /// halves where it did not fit on one of them.
    /// The loss may lie on any of them; the capacity of the first is that of [`Self::capacity`].
    /// A forward pass brings what it needs from one to the next itself, by [`Tensor::to_device`](burn::tensor::Tensor::to_device).
    #[must_use]
    pub fn also_on(mut self, device: &Device, capacity: impl Into<Option<Bytes>>) -> Self {
        self.others.push((device.clone(), capacity.into()));
        self
    }

    /// Takes the loss for a mean over all positions of a part's samples, such as their tokens, and not over the samples: each
    /// then counts in the step's mean as its length.
    #[must_use]
    pub fn mean_over_positions(mut self) -> Self {
        self.rules.by_length = true;
        self
    }

    /// Runs parts of so many samples, from 1, in halves where they do not fit, instead of as many as are certain to fit.
    #[must_use]
    pub fn micro_batch(mut self, n_samples: u32) -> Self {
        self.rules.micro_batch = Some(n_samples);
        self
    }

    /// Runs every step in one part, or not at all: for a model in which a sample's result depends on the samples beside it,
    /// as under a batch normalisation, where that is to stay so.
    ///
    /// A step that does not fit is [`StepError::NotDivided`](crate::StepError::NotDivided).
    #[must_use]
    pub fn in_one_part(mut self) -> Self {
        self.rules.may_divide = false;
        self
    }

    /// Keeps a copy of weights and moments while the optimizer steps: where that runs out of memory, the step is taken again
    /// from it, once, and is an error then that has changed nothing.
    #[must_use]
    pub fn keeping_a_copy(mut self) -> Self {
        self.rules.recovery = OptimizerRecovery::Keep;
        self
    }

    /// Shortens a gradient whose global norm, over all parameters, is above this, which is above 0.
    ///
    /// Clipping by value or by the norm of each tensor is a setting of Burn's optimizers.
    #[must_use]
    pub fn max_norm(mut self, norm: f64) -> Self {
        self.rules.max_norm = Some(norm);
        self
    }

    /// Multiplies losses before the backward pass, for gradients of 16 bits, and passes over steps that overflow.
    #[must_use]
    pub fn loss_scale(self, scale: LossScale) -> Self {
        Self { scale: Some(scale), ..self }
    }

    /// Keeps an exponential moving average of the weights, which moves by `1 - decay` of the way at each step; `decay` is
    /// above 0 and below 1. It has the precision of the weights: of 16 bits, those of a decay near 1 do not move. See
    /// [`Step::average`].
    #[must_use]
    pub fn average(self, decay: f64) -> Self {
        Self { average: Some(decay), ..self }
    }

    /// Seeds the device before each step from this and the step's number, so that what is random in a step, such as a dropout,
    /// is the same after [`Step::load`], where the parts are the same.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.rules.seed = Some(seed);
        self
    }

    /// Starts so many threads of a CPU, from 1, for [`Step::run_beside`] to divide a step between; on another device there are
    /// none.
    ///
    /// With as many as there are cores a step takes about half as long on two of them: the kernels of small models are too
    /// small to be divided themselves.
    /// The thread that builds the step computes alone from then on, whatever it computes: the others have cores of their own.
    #[must_use]
    pub fn replicas(mut self, n: usize) -> Self {
        self.replicas = n;
        self
    }

    /// Opens what measures the device.
    ///
    /// # Errors
    ///
    /// [`Error::Device`] for a device that has no gradients, is of a kind that is not measured, or is named twice, and for one
    /// that the model lies on and nobody has named; [`Error::Setting`]; [`Error::Predict`] for features over several axes;
    /// [`Error::NoParameters`]; [`Error::Probe`] when a driver is missing; [`Error::Step`] when the system has no room for
    /// threads.
    pub fn build(self) -> Result<Step<M>, Error> {
        let Self { device, model, optimizer, rules, capacity, features, scale, average, replicas: n_replicas, others } =
            self;
        let kind = measured(&device, true)?;
        rules.check()?;
        scale.as_ref().map_or(Ok(()), LossScale::check)?;
        let refused = |name, value, wanted| Err(SettingError { name, value, wanted }.into());
        if let Some(decay) = average.filter(|it| !(0.0 < *it && *it < 1.0)) {
            return refused("average", decay, "a decay above 0 and below 1");
        }
        if n_replicas == 0 {
            return refused("replicas", 0.0, "a number of threads from 1");
        }
        let named = Named::try_new([&device].into_iter().chain(others.iter().map(|it| &it.0)))?;
        named.check(&model)?;
        if model.num_params() == 0 {
            return Err(Error::NoParameters { model: std::any::type_name::<M>() });
        }
        let probe = open(kind, capacity)?;
        let replicas = match n_replicas {
            n @ 2.. if has_exact_peaks(kind) => {
                compute_alone();
                Some(replicas(n)?)
            }
            _ => None,
        };
        let known = program_needs(kind, &device, &*probe, features)?;
        let mut guarded = GuardedStep::new(probe, device);
        for (device, capacity) in others {
            let kind = measured(&device, true)?;
            let probe = open(kind, capacity)?;
            let known = program_needs(kind, &device, &*probe, features)?;
            guarded = guarded.also_on(Elsewhere::new(probe, device, known));
        }
        let steps = ProgramSteps::try_new(guarded, known, rules)?;
        let (state, decay) = (TrainState::new(model, optimizer), average);
        let (average, n_steps, n_skipped, limits) = (None, 0, 0, None);
        let may_have_moved = false;
        Ok(Step { steps, named, may_have_moved, state, scale, decay, average, n_steps, n_skipped, limits, replicas })
    }
}
