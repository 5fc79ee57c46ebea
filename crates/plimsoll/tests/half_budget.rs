//! Examples under half of what their fixed batches need; alone, since the heap is measured.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../probe/tests/alone/mod.rs"]
mod alone;
#[expect(dead_code, reason = "its `main` is Burn's own loop")]
#[path = "../examples/gan.rs"]
mod gan;
#[expect(dead_code, reason = "its `main` is Burn's own loop")]
#[path = "../examples/image.rs"]
mod image;
#[expect(dead_code, reason = "its `main` is Burn's own loop")]
#[path = "../examples/regression.rs"]
mod regression;

use alone::alone;
use burn::module::Module;
use burn::optim::AdamConfig;
use burn::tensor::{Device, Tensor};
use plimsoll::{Bytes, Done, Step, StepBuilder, TrackingAllocator};

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

/// Runs steps of fixed batches, and then as many at half of what these needed: each with all of its samples.
///
/// `steps` runs steps of models that are built by what it is given, and returns what they did, and with how many samples.
fn halve(steps: impl Fn(Build) -> Vec<(Done, usize)>) {
    let peak = |steps: &[(Done, usize)]| steps.iter().map(|it| it.0.peak).max().unwrap();
    let needed = peak(&steps(Build::Whole));
    let half = Bytes(needed.0 / 2);
    let done = steps(Build::Under(half));
    assert!(peak(&done) <= half, "{} of {half}", peak(&done));
    for (done, n_samples) in &done {
        assert_eq!(done.parts.iter().map(|it| it.samples.len()).sum::<usize>(), *n_samples);
    }
    assert!(done.iter().any(|it| 1 < it.0.parts.len()), "nothing had to be divided");
}

/// How a step is built.
#[derive(Clone, Copy)]
enum Build {
    /// With all samples at once.
    Whole,
    /// With no more memory than this.
    Under(Bytes),
}

impl Build {
    fn step<M: Module>(self, builder: StepBuilder<M>) -> Step<M> {
        let builder = builder.budget(1.0);
        let builder = match self {
            Self::Whole => builder.micro_batch(u32::MAX),
            Self::Under(capacity) => builder.capacity(capacity),
        };
        builder.build().unwrap()
    }
}

/// Runs three steps of all samples.
fn run<M: Module, T: Clone>(
    build: Build,
    builder: StepBuilder<M>,
    samples: &[T],
    loss: impl Fn(&M, &[T]) -> Tensor<1>,
) -> Vec<(Done, usize)> {
    let mut step = build.step(builder);
    (0..3).map(|_| (step.run(samples, 1e-3, |model, part| loss(model, &part)).unwrap(), samples.len())).collect()
}

#[test]
fn regression_finishes_and_loses_nothing() {
    let (_alone, device, samples) = (alone(), Device::flex().autodiff(), regression::saddle(128));
    halve(|build| {
        let builder = plimsoll::step(&device, regression::Net::init(&device), AdamConfig::new().init());
        run(build, builder, &samples, |net, part| net.loss(part, &device))
    });
}

#[test]
fn image_classification_finishes_and_loses_nothing() {
    let (_alone, device, samples) = (alone(), Device::flex().autodiff(), image::images(64, 1));
    halve(|build| {
        let builder = plimsoll::step(&device, image::Net::init(&device), AdamConfig::new().init());
        run(build, builder, &samples, |net, part| net.loss(part, &device))
    });
}

#[test]
fn networks_against_each_other_finish_and_lose_nothing() {
    let (_alone, device, real) = (alone(), Device::flex().autodiff(), gan::circle(32_768));
    halve(|build| {
        let builder = |net| plimsoll::step(&device, net, AdamConfig::new().init());
        let mut maker = build.step(builder(gan::Net::init(4, 2, &device)));
        let mut critic = build.step(builder(gan::Net::init(2, 1, &device)));
        let mut all = Vec::new();
        for _ in 0..3 {
            let loss = |critic: &gan::Net, part: Vec<_>| critic.loss_of_critic(&part, maker.model(), &device);
            all.push((critic.run(&real, 1e-3, loss).unwrap(), real.len()));
            // Burn holds the graph of points that were made for the critic until a backward pass through their maker.
            let loss = |maker: &gan::Net, part: Vec<_>| maker.loss_of_maker(part.len(), critic.model(), &device);
            all.push((maker.run(&real, 1e-3, loss).unwrap(), real.len()));
        }
        all
    });
}
