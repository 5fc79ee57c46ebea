//! Steps whose sum, or whose optimizer, runs out of memory by a panic, as `CubeCL` does.

use std::fmt::{Debug, Formatter};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use burn::module::{Devices, Module, ModuleMapper, ModuleVisitor};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use plimsoll_plan::{RealSteps, TrialError};
use plimsoll_predict::Keys;
use plimsoll_step::{GuardedStep, StepRequest};
use plimsoll_train::{Inference, Job, Loss, Source, StepError, Trials, Validation};
use plimsoll_types::{Budget, Bytes, Knobs, StepShape};

use crate::common::{alone, flex_with};
use crate::tiny::Rows;

/// What is done with the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Visit,
    Map,
}

/// Says of each call whether it runs out of memory.
type Fails = Arc<dyn Fn(Call) -> bool + Send + Sync>;

/// A layer that runs out of memory when somebody says so.
#[derive(Clone)]
struct Fragile {
    linear: Linear,
    fails: Fails,
}

impl Fragile {
    fn on(&self, call: Call) {
        assert!(!(self.fails)(call), "can't allocate buffer of size: 4096");
    }

    fn mean_loss(&self, rows: Tensor<2>) -> Loss {
        self.linear.forward(rows).powi_scalar(2).mean().into()
    }
}

impl Debug for Fragile {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        self.linear.fmt(f)
    }
}

impl Module for Fragile {
    fn collect_devices(&self, devices: Devices) -> Devices {
        self.linear.collect_devices(devices)
    }

    fn fork(self, device: &Device) -> Self {
        Self { linear: self.linear.fork(device), ..self }
    }

    fn to_device(self, device: &Device) -> Self {
        Self { linear: self.linear.to_device(device), ..self }
    }

    fn train(self) -> Self {
        Self { linear: self.linear.train(), ..self }
    }

    fn valid(&self) -> Self {
        Self { linear: self.linear.valid(), fails: Arc::clone(&self.fails) }
    }

    fn materialize(self) -> Self {
        Self { linear: self.linear.materialize(), ..self }
    }

    fn visit<V: ModuleVisitor>(&self, visitor: &mut V) {
        self.on(Call::Visit);
        self.linear.visit(visitor);
    }

    fn map<M: ModuleMapper>(self, mapper: &mut M) -> Self {
        self.on(Call::Map);
        Self { linear: self.linear.map(mapper), ..self }
    }
}

struct FragileJob {
    fails: Fails,
}

impl Job for FragileJob {
    type Source = Rows;
    type Model = Fragile;
    type Batch = Tensor<2>;

    fn name(&self) -> &'static str {
        "fragile"
    }

    fn program(&self) -> String {
        "fragile".to_owned()
    }

    fn fingerprint(&self) -> String {
        "fragile".to_owned()
    }

    fn source(&self) -> Arc<Rows> {
        Arc::new(Rows { broken: None, panics: false })
    }

    fn init(&self, device: &Device) -> Fragile {
        Fragile { linear: LinearConfig::new(4, 2).init(device), fails: Arc::clone(&self.fails) }
    }

    fn batch(&self, _buffer: &<Rows as Source>::Buffer, samples: Range<usize>, device: &Device) -> Tensor<2> {
        Tensor::ones([samples.len(), 4], device)
    }

    fn blank_batch(&self, shape: StepShape, device: &Device) -> Tensor<2> {
        Tensor::ones([shape.samples as usize, 4], device)
    }

    fn mean_loss(&self, net: &Fragile, rows: Tensor<2>, _task_weights: &[f32]) -> Loss {
        net.mean_loss(rows)
    }

    fn blank_forward(&self, net: &Fragile, shape: StepShape, device: &Device) -> Tensor<1> {
        net.mean_loss(self.blank_batch(shape, device)).mean
    }

    fn validate(&self, _: &Fragile, _: &Device, _: &mut Inference<'_>) -> Result<Option<Validation>, StepError> {
        unreachable!("no run of it validates")
    }
}

#[test]
fn a_sum_of_gradients_that_does_not_fit_twice_is_blamed_on_no_sample() {
    let _alone = alone();
    // After a forward pass the gradients of a part are gathered first, and added then.
    let n_visits = Arc::new(AtomicU64::new(2));
    let since = Arc::clone(&n_visits);
    let fails = Arc::new(move |call| call == Call::Visit && since.fetch_add(1, Ordering::SeqCst) == 1);
    let device = Device::flex().autodiff();
    let (job, net) = (FragileJob { fails: fails.clone() }, FragileJob { fails }.init(&device));
    let mut guarded = GuardedStep::new(flex_with(Bytes::gib(1)), device.clone());
    let knobs = Knobs { patch_size: 1, micro_batch_size: 2 };
    let request = StepRequest::of_edge(4, knobs, Budget { capacity: Bytes::gib(8), budget: Bytes::gib(8) });
    let mean_loss = |net: &Fragile, samples: Range<usize>| {
        n_visits.store(0, Ordering::SeqCst);
        net.mean_loss(job.blank_batch(StepShape::new(u32::try_from(samples.len()).unwrap(), 1), &device))
    };
    let ran = guarded.attempt(&net, &request, &|_, _| None, &mean_loss);
    let error = ran.err().unwrap();
    assert!(matches!(error, StepError::SumNeverFits { capacity } if capacity == Bytes::gib(8)), "{error}");
    assert!(error.to_string().contains("the sum of their gradients does not (capacity 8.00 GiB)"), "{error}");
}

#[test]
fn a_trial_whose_optimizer_runs_out_of_memory_did_not_fit_and_the_next_begins_anew() {
    let _alone = alone();
    let n_maps = AtomicU64::new(0);
    let fails = Arc::new(move |call| call == Call::Map && n_maps.fetch_add(1, Ordering::SeqCst) == 0);
    let job = FragileJob { fails };
    let mut trials =
        Trials::try_new(&job, Device::flex().autodiff(), Keys::default(), flex_with(Bytes::gib(1))).unwrap();
    let shape = StepShape::new(2, 16);
    let ran = trials.blank(shape);
    assert!(matches!(ran, Err(TrialError::OutOfMemory(failed)) if failed.shape == shape), "{ran:?}");
    assert_eq!(trials.blank(shape).unwrap().shape, shape);
}
