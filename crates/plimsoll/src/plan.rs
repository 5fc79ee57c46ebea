//! What a step would need, before the first one.

use std::cmp::Ordering;
use std::fmt::{Display, Formatter};

use burn::module::Module;
use burn::optim::ModuleOptimizer;
use burn::tensor::{Device, Tensor};
use plimsoll_plan::{BlankProgram, BlankTrials, Fit, PlanError, PlannedCell, Planning, RealSteps};
use plimsoll_predict::Phase;
use plimsoll_step::OptimizerRecovery;
use plimsoll_types::{Bytes, Features, StepShape};

use crate::error::Error;
use crate::own::Own;
use crate::place::{Limits, Place, apart, order, said_of};

/// Plans what optimizer steps of chosen shapes need on a device, before the first of them.
///
/// * `make` makes the model and its optimizer, as the program does.
/// * `blank_batch` makes a batch of so many samples of so long an edge on the device, of any values, such as
///   [`Tensor::zeros`]; a program whose samples are all as large leaves the edge out.
/// * `mean_loss` makes the loss over it, of shape `[1]`.
///
/// On a device with pools steps are rehearsed with every kernel dropped, until they open no more pages, and two real steps
/// correct that: no other thread may use the device meanwhile. The bound has room for one page more, since a loop of one's own
/// may drop what it holds in another order than [`Step`](crate::Step). It has none for the arguments of kernels that Vulkan's
/// runtime keeps from step to step, up to 16 MiB in the end, which `device.memory_cleanup()` returns.
///
/// On a CPU few real steps bound all others, each certain to fit by those before it but for the first, which is one sample of
/// the shortest edge; besides the edges that are asked for, `blank_batch` is given some between them, which grow in steps of
/// their greatest common divisor.
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
/// #     fn loss(&self, x: Tensor<3>) -> Tensor<1> { self.layer.forward(x).powi_scalar(2).mean() }
/// # }
/// # #[global_allocator]
/// # static HEAP: plimsoll::TrackingAllocator = plimsoll::TrackingAllocator::new();
/// # fn main() -> Result<(), plimsoll::Error> {
/// let device = Device::flex().autodiff();
/// let make = || (Net::init(&device), AdamConfig::new().init());
/// let blank_batch = |n, length| Tensor::zeros([n, length, 64], &device);
/// let plan = plimsoll::plan(&device, make, blank_batch, |net, batch| net.loss(batch)).shapes([(8, 128), (4, 512)]).run()?;
/// println!("{plan}");
/// assert!(plan.shapes.iter().all(|it| it.expected <= it.upper));
/// # Ok(())
/// # }
/// ```
pub fn plan<'a, M: Module, B>(
    device: &Device,
    make: impl Fn() -> (M, ModuleOptimizer) + 'a,
    blank_batch: impl Fn(usize, usize) -> B + 'a,
    mean_loss: impl Fn(&M, B) -> Tensor<1> + 'a,
) -> PlanBuilder<'a, M> {
    let own = Own::new(device, make, blank_batch, mean_loss);
    let (devices, recovery) = (vec![(device.clone(), Limits::default())], OptimizerRecovery::Restore);
    PlanBuilder { own, devices, shapes: Vec::new(), effective_batch: None, max_probes: MAX_PROBES, recovery }
}

/// Real steps on a CPU: as many as `plimsoll plan` makes.
const MAX_PROBES: u32 = 8;

/// What is to be planned; see [`plan()`].
pub struct PlanBuilder<'a, M> {
    own: Own<'a, M>,
    /// The first, and others.
    devices: Vec<(Device, Limits)>,
    shapes: Vec<StepShape>,
    effective_batch: Option<u32>,
    max_probes: u32,
    recovery: OptimizerRecovery,
}

impl<M: Module> PlanBuilder<'_, M> {
    /// Plans steps of so many samples, each of such an edge: a length, a side in pixels, or 1 where all are as large.
    #[must_use]
    pub fn shapes(self, shapes: impl IntoIterator<Item = (u32, u32)>) -> Self {
        Self { shapes: shapes.into_iter().map(|(n, edge)| StepShape::new(n, edge)).collect(), ..self }
    }

    /// Takes each shape for a part of an optimizer step of so many samples, whose gradients are accumulated, and not for a
    /// whole step.
    #[must_use]
    pub fn effective_batch(self, n_samples: u32) -> Self {
        Self { effective_batch: Some(n_samples), ..self }
    }

    /// Holds needs against this share of the capacity, above 0 and at most 1; 0.9 by default.
    #[must_use]
    pub fn budget(mut self, share: f64) -> Self {
        self.devices.iter_mut().for_each(|it| it.1.budget = share);
        self
    }

    /// Plans for a device that has no more than this.
    #[must_use]
    pub fn capacity(mut self, capacity: Bytes) -> Self {
        self.devices[0].1.capacity = Some(capacity);
        self
    }

    /// Takes the tensors of a step for combinations of these, over one axis, the edge; see
    /// [`StepBuilder::features`](crate::StepBuilder::features).
    #[must_use]
    pub fn features(mut self, features: Features) -> Self {
        self.devices.iter_mut().for_each(|it| it.1.features = features);
        self
    }

    /// Plans for another device too that parts of the model lie on, up to a capacity where one is given, as
    /// [`StepBuilder::also_on`](crate::StepBuilder::also_on) does.
    ///
    /// Each is planned by itself, and a shape fits where it fits on each; what does not fit on one is not planned for those
    /// after it, a CPU being the first.
    /// What goes from one to the next is read, also where kernels are dropped: a program that reads a value otherwise is not
    /// refused.
    #[must_use]
    pub fn also_on(mut self, device: &Device, capacity: impl Into<Option<Bytes>>) -> Self {
        let limits = Limits { capacity: capacity.into(), ..self.devices[0].1 };
        self.devices.push((device.clone(), limits));
        Self { own: self.own.also_on(device), ..self }
    }

    /// Makes at most so many real steps on a CPU, or a few more where the longest edge takes them; 8 by default.
    #[must_use]
    pub fn max_probes(self, n: u32) -> Self {
        Self { max_probes: n, ..self }
    }

    /// Plans with the copy of weights and moments that [`StepBuilder::keeping_a_copy`](crate::StepBuilder::keeping_a_copy)
    /// keeps.
    #[must_use]
    pub fn keeping_a_copy(self) -> Self {
        Self { recovery: OptimizerRecovery::Keep, ..self }
    }

    /// Plans every shape.
    ///
    /// # Errors
    ///
    /// [`Error::Device`] for a device that has no gradients, or of a kind that is not measured; [`Error::Setting`],
    /// [`Error::NoShapes`], [`Error::EmptyShape`] and [`Error::BeyondStep`] for what cannot be meant; [`Error::NoParameters`],
    /// [`Error::LossIsNotScalar`] and [`Error::Panicked`] for a program that has no step; [`Error::Plan`] with
    /// [`PlanError::ReadsValue`] for one that reads a value while it is planned, which on CUDA nothing tells.
    pub fn run(self) -> Result<Plan, Error> {
        let shapes = self.checked_shapes()?;
        let n_of_step = Error::check_samples(self.effective_batch)?;
        if let Some(shape) = shapes.iter().find(|it| n_of_step.is_some_and(|n| n < it.samples)) {
            return Err(Error::BeyondStep { shape: *shape, n_samples: n_of_step.unwrap_or(0) });
        }
        self.own.named()?;
        let (mut fitting, mut planned) = (shapes.clone(), Vec::new());
        for at in order(&self.devices)? {
            if fitting.is_empty() {
                break;
            }
            let (device, limits) = &self.devices[at];
            let (own, place) = (self.own.measured_on(device), Place::try_new(device, true, *limits)?);
            let run = || self.run_on(&own, &place, &fitting);
            let on = apart((&place, &self.devices), run).map_err(said_of(&place, self.devices.len()))?;
            fitting.retain(|shape| on.shape(*shape).is_some_and(|it| it.fits));
            planned.push((at, on, place.base()?, place));
        }
        for (_, on, before, place) in &mut planned {
            // What planning for the others has left, such as their kernels, steps find in use too.
            on.grow(place.base()?.saturating_sub(*before));
        }
        planned.sort_by_key(|it| it.0);
        Ok(Plan::of(&shapes, planned.into_iter().map(|it| it.1).collect()))
    }

    /// Plans shapes for one of the devices.
    fn run_on(&self, own: &Own<'_, M>, place: &Place, shapes: &[StepShape]) -> Result<PlannedDevice, Error> {
        let n_samples = |shape: StepShape| self.effective_batch.unwrap_or(shape.samples);
        let edges = shapes.iter().map(|it| it.edge());
        let planning = Planning {
            device: place.kind,
            fingerprint: place.fingerprint(std::any::type_name::<M>(), self.effective_batch.unwrap_or(0)),
            capacity: place.capacity,
            target: place.target,
            ladder: Vec::new(),
            lattice: shapes.to_vec(),
            inference: Vec::new(),
            n_samples: &n_samples,
            keys: place.keys,
            predictor: place.predictor,
            shortest: edges.clone().min().unwrap_or(1),
            multiple: edges.fold(0, greatest_common_divisor),
            max_probes: self.max_probes,
            is_corrected: true,
            schedule_steps: 0,
        };
        let program = BlankProgram::new(own.clone(), self.recovery);
        let open_steps = || {
            let trials = BlankTrials::try_new(own.clone(), place.open()?);
            let trials = trials.map_err(|error| PlanError::Step { shape: shapes[0], source: error.into() })?;
            Ok(Box::new(trials.recovering(self.recovery)) as Box<dyn RealSteps + '_>)
        };
        let open_probe = || place.open();
        let run = || Ok(planning.run(&program, (&open_probe, &open_steps), &mut |_, _, _| ())?);
        let plan = own.doing().named(run)?;
        let of = |shape: &StepShape| plan.cell(Phase::Train, *shape).map(PlannedShape::of);
        let shapes = shapes.iter().filter_map(of).collect();
        let (capacity, budget) = (plan.capacity, plan.budget);
        Ok(PlannedDevice { device: place.name().to_owned(), capacity, budget, shapes })
    }

    fn checked_shapes(&self) -> Result<Vec<StepShape>, Error> {
        if self.shapes.is_empty() {
            return Err(Error::NoShapes);
        }
        match self.shapes.iter().find(|it| it.samples == 0 || it.edge() == 0) {
            Some(shape) => Err(Error::EmptyShape { shape: *shape }),
            None => Ok(self.shapes.clone()),
        }
    }
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// What steps of each shape need.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Of each shape that was asked for, in that order; of the tightest device, where there are several: the one that it does
    /// not fit on, or of whose budget it leaves the smallest share.
    pub shapes: Vec<PlannedShape>,
    /// What the first device has.
    pub capacity: Bytes,
    /// What a step may use of it.
    pub budget: Bytes,
    /// The same of each device, in the order in which they were named; those that nothing was left to be planned for are left
    /// out.
    pub devices: Vec<PlannedDevice>,
}

/// What steps of each shape need on one device.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedDevice {
    /// Its name: the kind, and what it calls itself.
    pub device: String,
    /// What there is.
    pub capacity: Bytes,
    /// What a step may use of it.
    pub budget: Bytes,
    /// Of each shape that fits on the devices before it.
    pub shapes: Vec<PlannedShape>,
}

/// What steps of one shape need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedShape {
    /// Samples that run at once.
    pub samples: u32,
    /// How long each is.
    pub edge: u32,
    /// What the program is expected to hold at the peak of a step, model and optimizer included; without meaning where one
    /// tensor is larger than the device serves.
    pub expected: Bytes,
    /// Upper bound of that.
    pub upper: Bytes,
    /// Whether the upper bound is within the budget.
    pub fits: bool,
}

impl PlannedShape {
    fn of(cell: &PlannedCell) -> Self {
        let PlannedCell { batch: samples, extent, reserved: expected, upper, fit, .. } = *cell;
        Self { samples, edge: extent.edge(), expected, upper, fits: fit == Fit::Fits }
    }

    fn is_of(&self, shape: StepShape) -> bool {
        (self.samples, self.edge) == (shape.samples, shape.edge())
    }
}

impl Plan {
    /// Puts together what was planned for each device.
    fn of(shapes: &[StepShape], devices: Vec<PlannedDevice>) -> Self {
        let [capacity, budget] = devices.first().map_or([Bytes::ZERO; 2], |it| [it.capacity, it.budget]);
        let mut plan = Self { shapes: Vec::new(), capacity, budget, devices };
        let decides = |shape: &StepShape| plan.decides(shape.samples, shape.edge()).map(|it| it.1);
        plan.shapes = shapes.iter().filter_map(decides).collect();
        plan
    }

    /// Returns the device that decides whether so many samples of this edge fit, and what they need there, of a shape that was
    /// asked for.
    pub fn tightest(&self, samples: u32, edge: u32) -> Option<&PlannedDevice> {
        self.decides(samples, edge).map(|it| it.0)
    }

    fn decides(&self, samples: u32, edge: u32) -> Option<(&PlannedDevice, PlannedShape)> {
        let shape = StepShape::new(samples, edge);
        let planned = |on| PlannedDevice::shape(on, shape).map(|it| (on, it));
        let left = |(on, it): &(&PlannedDevice, PlannedShape)| (it.fits, 1.0 - it.upper.share_of(on.budget));
        self.devices.iter().filter_map(planned).min_by(|a, b| left(a).partial_cmp(&left(b)).unwrap_or(Ordering::Equal))
    }

    /// Returns the most samples of this edge that fit, of the shapes that were asked for.
    pub fn largest(&self, edge: u32) -> Option<u32> {
        self.shapes.iter().filter(|it| it.edge == edge && it.fits).map(|it| it.samples).max()
    }
}

impl PlannedDevice {
    /// Counts what the program holds more by now, whatever the shape.
    fn grow(&mut self, more: Bytes) {
        for it in &mut self.shapes {
            (it.expected, it.upper) = (it.expected.saturating_add(more), it.upper.saturating_add(more));
            it.fits &= it.upper <= self.budget;
        }
    }

    fn shape(&self, shape: StepShape) -> Option<PlannedShape> {
        self.shapes.iter().find(|it| it.is_of(shape)).copied()
    }
}

impl Display for Plan {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        if let [first, second, others @ ..] = &*self.devices {
            write!(f, "{}: {first}\n{}: {second}", first.device, second.device)?;
            return others.iter().try_for_each(|it| write!(f, "\n{}: {it}", it.device));
        }
        written(f, (self.budget, self.capacity), &self.shapes)
    }
}

impl Display for PlannedDevice {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        written(f, (self.budget, self.capacity), &self.shapes)
    }
}

fn written(f: &mut Formatter<'_>, (budget, capacity): (Bytes, Bytes), shapes: &[PlannedShape]) -> std::fmt::Result {
    write!(f, "budget {budget} of {capacity}")?;
    for PlannedShape { samples, edge, expected, upper, fits } in shapes {
        let fits = if *fits { "fits" } else { "does not fit" };
        write!(f, "\n{samples} × {edge}: {expected} expected, at most {upper}: {fits}")?;
    }
    Ok(())
}
