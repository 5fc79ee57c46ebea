//! Programs of which no step can be planned: what is wrong, and where. A panic's backtrace takes memory, so that these run
//! in a process of their own.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../probe/tests/alone/mod.rs"]
mod alone;

use alone::alone;
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, ModuleOptimizer};
use burn::tensor::{Device, Tensor};
use plimsoll::{
    Bytes, Error, FindError, FinderError, SettingError, TrackingAllocator, find_batch_size, find_inference_batch, plan,
};

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

#[derive(Module, Debug)]
struct Net {
    layer: Linear,
}

impl Net {
    fn loss(&self, batch: Tensor<2>) -> Tensor<1> {
        self.layer.forward(batch).powi_scalar(2).mean()
    }
}

#[derive(Module, Debug)]
struct Nothing;

fn made(device: &Device) -> (Net, ModuleOptimizer) {
    (Net { layer: LinearConfig::new(8, 8).init(device) }, AdamConfig::new().init())
}

fn blank(n: usize, device: &Device) -> Tensor<2> {
    Tensor::zeros([n, 8], device)
}

/// Holds both ways of asking against what they are to say.
#[track_caller]
fn check<M: Module>(
    make: impl Fn(&Device) -> (M, ModuleOptimizer),
    batch: impl Fn(usize, &Device) -> Tensor<2>,
    loss: impl Fn(&M, Tensor<2>) -> Tensor<1>,
    message: &str,
) {
    let device = Device::flex().autodiff();
    let planned = plan(&device, || make(&device), |n, _| batch(n, &device), &loss).shapes([(3, 1)]).run();
    let found = find_batch_size(&device, || make(&device), |n, _| batch(n, &device), &loss).batches(3..=3).run();
    for error in [planned.unwrap_err(), found.unwrap_err()] {
        let error = error.to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn a_loss_that_is_not_a_scalar_is_refused() {
    let _alone = alone();
    let loss = |net: &Net, batch: Tensor<2>| net.layer.forward(batch).reshape([-1]);
    check(made, blank, loss, "values, one is needed: take the mean over the part's samples");
}

#[test]
fn a_model_without_parameters_is_named() {
    let _alone = alone();
    let make = |_: &Device| (Nothing, AdamConfig::new().init());
    let message = "plan_errors::Nothing: it has no parameters";
    check(make, blank, |_, batch| batch.mean(), message);
}

#[test]
fn a_program_that_panics_is_told_where() {
    let _alone = alone();
    let loss = |_: &Net, _: Tensor<2>| panic!("no such class: 17");
    check(made, blank, loss, "× 1: the program panicked: no such class: 17");
    let batch = |_, _: &Device| panic!("the images are gone");
    check(made, batch, Net::loss, "× 1: the program panicked: the images are gone");
    let make = |_: &Device| -> (Net, ModuleOptimizer) { panic!("no layer") };
    check(make, blank, Net::loss, "make the model: the program panicked: no layer");
    let device = Device::flex();
    let (net, input) = (made(&device).0, |n, _| blank(n, &device));
    let forward = |_: &Net, _: Tensor<2>| -> Tensor<2> { panic!("no weights") };
    let error = find_inference_batch(&device, &net, input, forward).run().unwrap_err().to_string();
    assert_eq!(error, "run the model with an input of shape 1 × 1: the program panicked: no weights");
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_runs() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let make = || -> (Net, ModuleOptimizer) { unreachable!("nothing is to run") };
    let batch = |_, _| -> Tensor<2> { unreachable!("nothing is to run") };
    let plan = |device: &Device| plan(device, make, batch, Net::loss).shapes([(4, 1)]);
    let find = |device: &Device| find_batch_size(device, make, batch, Net::loss);
    assert!(matches!(plan(&device.clone().inner()).run(), Err(Error::Device { .. })));
    assert!(matches!(find(&device.clone().inner()).run(), Err(Error::Device { .. })));
    assert!(matches!(plan(&device).budget(1.5).run(), Err(Error::Setting(SettingError { name: "budget", .. }))));
    assert!(matches!(find(&device).budget(0.0).run(), Err(Error::Setting(SettingError { name: "budget", .. }))));
    assert!(matches!(plan(&device).shapes([]).run(), Err(Error::NoShapes)));
    for no_samples in [plan(&device).effective_batch(0).run().err(), find(&device).effective_batch(0).run().err()] {
        assert!(
            matches!(no_samples, Some(Error::Setting(SettingError { name: "effective_batch", .. }))),
            "{no_samples:?}"
        );
    }
    let beyond = plan(&device).shapes([(32, 1), (64, 1)]).effective_batch(32).run().unwrap_err().to_string();
    assert!(beyond.starts_with("plan a part of shape 64 × 1: its step has 32 samples"), "{beyond}");
    let (model, _) = made(&device);
    let infer = find_inference_batch(&device, &model, |n, _| blank(n, &device), |net, batch| net.layer.forward(batch));
    assert!(matches!(infer.run(), Err(Error::Device { .. })));
    let empty = plan(&device).shapes([(4, 8), (0, 8)]).run().unwrap_err().to_string();
    assert!(empty.starts_with("plan a step of shape 0 × 8: it is empty"), "{empty}");
    for (search, expected) in [
        (find(&device).batches(0..=8), "use `batches` of 0: it is from 1, and no more than the last batch"),
        (
            find(&device).batches(std::ops::RangeInclusive::new(9, 8)),
            "use `batches` of 9: it is from 1, and no more than the last batch",
        ),
        (find(&device).batches(1..=u32::MAX), "use `batches` of 4294967295: it is 1048576 at most"),
        (find(&device).edge(0), "use `edge` of 0: it is from 1 to 1048576"),
        (find(&device).budget(0.05), "use `budget` of 0.05: it is a share of the capacity, from 0.1 to 1"),
    ] {
        assert_eq!(search.run().unwrap_err().to_string(), expected);
    }
}

#[test]
fn a_part_of_a_step_has_no_more_samples_than_the_step() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let find = find_batch_size(&device, || made(&device), |n, _| blank(n, &device), Net::loss).batches(1..=64);
    assert_eq!(find.effective_batch(8).run().unwrap().batch(), 8);
}

#[test]
fn a_batch_that_does_not_fit_is_told_with_what_it_needs() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let wide = |n, _| Tensor::<2>::zeros([n * 1024, 8], &device);
    let search = find_batch_size(&device, || made(&device), wide, Net::loss).capacity(Bytes::kib(64)).batches(8..=64);
    let error = search.run().unwrap_err();
    assert!(matches!(error, Error::Find(FindError::Finder(FinderError::OutOfMemory { .. }))), "{error}");
    assert!(error.to_string().contains("the smallest batch, 8 × 1, runs out of memory"), "{error}");
}
