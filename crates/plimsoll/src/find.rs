//! The batch size that suits a device.

use std::ops::RangeInclusive;

use burn::module::Module;
use burn::optim::ModuleOptimizer;
use burn::tensor::{Device, Tensor};
use plimsoll_finder::FinderConfig;
use plimsoll_plan::{BlankProgram, BlankTrials, FindError, Finding, FoundBatch, Objective, Timed};
use plimsoll_predict::Phase;
use plimsoll_step::{OptimizerRecovery, SettingError};
use plimsoll_train::survives;
use plimsoll_types::{Bytes, Features, StepShape};

use crate::error::Error;
use crate::own::{Doing, Own};
use crate::place::{Limits, Place, apart, order, said_of};

/// Finds the largest batch that a device has memory to train with, before the program makes its own model.
///
/// `make`, `blank_batch` and `mean_loss` are those of [`plan()`](crate::plan()).
///
/// On a device with pools a dry run says what any batch reserves, with room for what [`plan()`](crate::plan()) allows a loop of
/// one's own, and 3 real steps confirm it: no other thread may use the device meanwhile. On a CPU it takes up to 6 real steps,
/// each bounded by those before it but for the first, which is the smallest batch.
///
/// # Example
///
/// ```
/// # use burn::module::Module;
/// # use burn::nn::{Linear, LinearConfig};
/// # use burn::optim::AdamConfig;
/// # use burn::tensor::{Device, Tensor};
/// # #[derive(Module, Debug)]
/// # struct Net { layer: Linear }
/// # impl Net {
/// #     fn init(device: &Device) -> Self { Self { layer: LinearConfig::new(64, 64).init(device) } }
/// #     fn loss(&self, x: Tensor<2>) -> Tensor<1> { self.layer.forward(x).powi_scalar(2).mean() }
/// # }
/// # #[global_allocator]
/// # static HEAP: plimsoll::TrackingAllocator = plimsoll::TrackingAllocator::new();
/// # fn main() -> Result<(), plimsoll::Error> {
/// let device = Device::flex().autodiff();
/// let make = || (Net::init(&device), AdamConfig::new().init());
/// let blank_batch = |n, _| Tensor::zeros([n, 64], &device);
/// let found = plimsoll::find_batch_size(&device, make, blank_batch, |net, batch| net.loss(batch)).batches(1..=64).run()?;
/// println!("{} at a time, of {} that fit", found.batch(), found.found.largest);
/// # assert_eq!(found.batch(), 64);
/// # Ok(())
/// # }
/// ```
pub fn find_batch_size<'a, M: Module, B>(
    device: &Device,
    make: impl Fn() -> (M, ModuleOptimizer) + 'a,
    blank_batch: impl Fn(usize, usize) -> B + 'a,
    mean_loss: impl Fn(&M, B) -> Tensor<1> + 'a,
) -> FindBuilder<'a, M> {
    let own = Own::new(device, make, blank_batch, mean_loss);
    let (search, recovery) = (Search::default(), OptimizerRecovery::Restore);
    let devices = vec![(device.clone(), None)];
    FindBuilder { own, devices, search, effective_batch: None, objective: Objective::Largest, recovery }
}

/// Finds the largest batch that a model has memory for without gradients, by up to 6 real runs; each is bounded by those
/// before it, but for the first, which is the smallest batch.
///
/// * `model` lies on `device`, and has no gradients: [`Module::valid`] makes one of a model that is trained.
/// * `blank_input` makes the input of so many items of so long an edge, of any values.
/// * `forward` returns all that is read of the results.
///
/// # Example
///
/// ```
/// # use burn::nn::LinearConfig;
/// # use burn::tensor::{Device, Tensor};
/// # #[global_allocator]
/// # static HEAP: plimsoll::TrackingAllocator = plimsoll::TrackingAllocator::new();
/// # fn main() -> Result<(), plimsoll::Error> {
/// let device = Device::flex();
/// let model = LinearConfig::new(64, 64).init(&device);
/// let blank_input = |n, _| Tensor::<2>::zeros([n, 64], &device);
/// let found = plimsoll::find_inference_batch(&device, &model, blank_input, |model, input| model.forward(input));
/// let found = found.capacity(plimsoll::Bytes::gib(1)).batches(1..=256).run()?;
/// println!("{} at a time", found.batch());
/// # Ok(())
/// # }
/// ```
pub fn find_inference_batch<'a, M: Module, B, const D: usize>(
    device: &Device,
    model: &'a M,
    blank_input: impl Fn(usize, usize) -> B + 'a,
    forward: impl Fn(&M, B) -> Tensor<D> + 'a,
) -> InferenceBuilder<'a> {
    let doing = Doing::default();
    let noted = doing.clone();
    let forward = move |shape: StepShape| {
        noted.note(format_args!("make the input of shape {shape}"));
        let input = blank_input(shape.samples as usize, shape.edge() as usize);
        noted.note(format_args!("run the model with an input of shape {shape}"));
        forward(model, input).reshape([-1])
    };
    InferenceBuilder { device: device.clone(), forward: Box::new(forward), doing, search: Search::default() }
}

/// What is searched for; see [`find_batch_size()`].
pub struct FindBuilder<'a, M> {
    own: Own<'a, M>,
    /// The first, and others, with the capacities of the others.
    devices: Vec<(Device, Option<Bytes>)>,
    search: Search,
    effective_batch: Option<u32>,
    objective: Objective,
    recovery: OptimizerRecovery,
}

/// What is searched for; see [`find_inference_batch()`].
pub struct InferenceBuilder<'a> {
    device: Device,
    forward: Box<dyn Fn(StepShape) -> Tensor<1> + 'a>,
    doing: Doing,
    search: Search,
}

/// The least share of a capacity that a search is made for: below it, what the trials do not show is as much as what they do.
const LEAST_BUDGET: f64 = 0.1;

/// What both have.
#[derive(Clone)]
struct Search {
    limits: Limits,
    edge: u32,
    batches: RangeInclusive<u32>,
}

impl Default for Search {
    fn default() -> Self {
        let FinderConfig { batch_min, batch_max, .. } = FinderConfig::default();
        Self { limits: Limits::default(), edge: 1, batches: batch_min..=batch_max }
    }
}

/// A million samples: more is a typing error, for the finder too.
const MOST: u32 = 1 << 20;

impl Search {
    /// Refuses what makes no sense.
    fn check(&self) -> Result<(), SettingError> {
        let refused = |name, value, wanted| Err(SettingError { name, value, wanted });
        let (start, end) = (*self.batches.start(), *self.batches.end());
        if !(1..=MOST).contains(&self.edge) {
            return refused("edge", self.edge.into(), "from 1 to 1048576");
        }
        if start == 0 || end < start {
            return refused("batches", start.into(), "from 1, and no more than the last batch");
        }
        if MOST < end {
            return refused("batches", end.into(), "1048576 at most");
        }
        if self.limits.budget < LEAST_BUDGET {
            return refused("budget", self.limits.budget, "a share of the capacity, from 0.1 to 1");
        }
        Ok(())
    }

    fn finding<'a>(&self, place: &Place, phase: Phase, n_samples: &'a dyn Fn(StepShape) -> u32) -> Finding<'a> {
        // Without a gradient of weights there is one path only.
        let small_batch = if phase == Phase::Train { place.keys.small_batch } else { 0 };
        Finding {
            device: place.kind,
            capacity: place.capacity,
            keys: place.keys,
            predictor: place.predictor,
            exact_peaks: place.exact_peaks,
            finder: FinderConfig {
                extent: self.edge.into(),
                batch_min: *self.batches.start(),
                batch_max: *self.batches.end(),
                target: place.target,
                small_batch,
                survives: survives(place.kind, place.capacity),
                ..FinderConfig::default()
            },
            phase,
            n_samples,
            host: &|_| Bytes::ZERO,
            objective: Objective::Largest,
        }
    }
}

macro_rules! limits {
    () => {
        /// Aims at this share of the capacity, from 0.1 to 1; 0.9 by default.
        #[must_use]
        pub fn budget(mut self, share: f64) -> Self {
            self.search.limits.budget = share;
            self
        }

        /// Uses no more than this, whatever the device has.
        #[must_use]
        pub fn capacity(mut self, capacity: Bytes) -> Self {
            self.search.limits.capacity = Some(capacity);
            self
        }

        /// Takes the tensors of a step for combinations of these, over one axis, the edge; see
        /// [`StepBuilder::features`](crate::StepBuilder::features).
        #[must_use]
        pub fn features(mut self, features: Features) -> Self {
            self.search.limits.features = features;
            self
        }

        /// Searches for samples of this edge, from 1 to 1048576: the longest, or the largest side in pixels; 1 by default,
        /// where all are as large.
        #[must_use]
        pub fn edge(mut self, edge: u32) -> Self {
            self.search.edge = edge;
            self
        }

        /// Searches among these, from 1 to 1048576 and one at least; 1 to 4096 by default.
        #[must_use]
        pub fn batches(mut self, batches: RangeInclusive<u32>) -> Self {
            self.search.batches = batches;
            self
        }
    };
}

impl<M: Module> FindBuilder<'_, M> {
    limits!();

    /// Searches on another device too that parts of the model lie on, up to a capacity where one is given, as
    /// [`StepBuilder::also_on`](crate::StepBuilder::also_on) does: the batch is one that fits on each, and
    /// [`FoundBatch::tightest`] names the device that decides.
    #[must_use]
    pub fn also_on(mut self, device: &Device, capacity: impl Into<Option<Bytes>>) -> Self {
        self.devices.push((device.clone(), capacity.into()));
        Self { own: self.own.also_on(device), ..self }
    }

    /// Takes a batch for a part of an optimizer step of so many samples, whose gradients are accumulated, and not for a
    /// whole step.
    #[must_use]
    pub fn effective_batch(self, n_samples: u32) -> Self {
        Self { effective_batch: Some(n_samples), ..self }
    }

    /// Times the batches that fit, and takes the one with the most samples per second.
    #[must_use]
    pub fn fastest(self) -> Self {
        Self { objective: Objective::Throughput, ..self }
    }

    /// Counts the copy of weights and moments that [`StepBuilder::keeping_a_copy`](crate::StepBuilder::keeping_a_copy)
    /// keeps.
    #[must_use]
    pub fn keeping_a_copy(self) -> Self {
        Self { recovery: OptimizerRecovery::Keep, ..self }
    }

    /// Searches.
    ///
    /// # Errors
    ///
    /// [`Error::Find`] when the smallest batch does not fit, with what it needs and what there is; otherwise those of
    /// [`PlanBuilder::run`](crate::PlanBuilder::run).
    pub fn run(self) -> Result<FoundBatch, Error> {
        self.search.check()?;
        self.own.named()?;
        let mut search = self.search.clone();
        if let Some(n) = Error::check_samples(self.effective_batch)? {
            // A part of a step has no more samples than the step.
            search.batches = (*search.batches.start()).min(n)..=(*search.batches.end()).min(n);
        }
        let limits = |at: usize| match at {
            0 => search.limits,
            at => Limits { capacity: self.devices[at].1, ..search.limits },
        };
        let devices: Vec<_> = self.devices.iter().enumerate().map(|(at, it)| (it.0.clone(), limits(at))).collect();
        let (order, mut tightest) = (order(&devices)?, None::<FoundBatch>);
        for (nth, at) in order.iter().enumerate() {
            // The fastest is sought once it is known what fits on the others.
            let is_last = nth + 1 == order.len();
            let objective = if is_last { self.objective } else { Objective::Largest };
            let (device, limits) = &devices[*at];
            let place = Place::try_new(device, true, *limits)?;
            let found = apart((&place, &devices), || self.run_on(device, &place, &search, objective))?;
            search.batches = *search.batches.start()..=found.found.batch;
            tightest = Some(match tightest {
                Some(it) if it.found.batch <= found.found.batch && objective == Objective::Largest => it,
                Some(it) if it.found.batch <= found.found.batch => FoundBatch { tightest: it.tightest, ..found },
                _ => found,
            });
        }
        let Some(found) = tightest else { unreachable!("there is a first device") };
        Ok(found)
    }

    /// Searches on one of the devices.
    fn run_on(
        &self,
        device: &Device,
        place: &Place,
        search: &Search,
        objective: Objective,
    ) -> Result<FoundBatch, Error> {
        let said = said_of(place, self.devices.len());
        let n_samples = |shape: StepShape| self.effective_batch.unwrap_or(shape.samples);
        let finding = Finding { objective, ..search.finding(place, Phase::Train, &n_samples) };
        let own = self.own.measured_on(device);
        let trials = BlankTrials::try_new(own.clone(), place.open()?).map_err(FindError::from)?;
        let (mut trials, program) = (trials.recovering(self.recovery), BlankProgram::new(own.clone(), self.recovery));
        let found = own.doing().named(|| Ok(finding.run(&program, &mut trials, &mut |_| ())?)).map_err(said)?;
        let tightest = (1 < self.devices.len()).then(|| place.name().to_owned());
        Ok(FoundBatch { tightest, ..found })
    }
}

impl InferenceBuilder<'_> {
    limits!();

    /// Searches.
    ///
    /// # Errors
    ///
    /// [`Error::Find`] when the smallest batch does not fit, with what it needs and what there is; [`Error::Device`], for a
    /// device with gradients too, [`Error::Setting`] and [`Error::Panicked`].
    pub fn run(self) -> Result<FoundBatch, Error> {
        self.search.check()?;
        let place = Place::try_new(&self.device, false, self.search.limits)?;
        let finding = self.search.finding(&place, Phase::Infer, &|shape| shape.samples);
        let mut probe = place.open()?;
        let search = || Ok(finding.run_forward(&mut *probe, &*self.forward, &mut |_| ())?);
        let found = self.doing.named(search)?;
        let (timed, tightest) = (Timed::default(), None);
        Ok(FoundBatch { found, winner: None, n_plans: 0, n_repeated: 0, timed, tightest })
    }
}
