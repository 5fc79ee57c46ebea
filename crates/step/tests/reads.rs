//! How often a step waits for the device.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::cell::RefCell;
use std::ops::Range;

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use plimsoll_probe::{Probe, ProbeError};
use plimsoll_step::{GuardedStep, Loss, StepOutcome, StepRequest};
use plimsoll_types::{Budget, Bytes, Knobs, MemoryReading, Prediction, StepShape};

const N_SAMPLES: u32 = 6;
const WIDTH: usize = 4;
const ROOM: Budget = Budget { capacity: Bytes::gib(1), budget: Bytes::gib(1) };

/// A device whose failures are silent, or one that is exact.
struct Card {
    is_exact: bool,
}

impl Probe for Card {
    fn name(&self) -> String {
        "card".into()
    }

    fn read(&self) -> Result<MemoryReading, ProbeError> {
        Ok(MemoryReading {
            in_use: Bytes(1),
            reserved: Bytes(2),
            peak: Bytes(2),
            page: Bytes::ZERO,
            packed: Bytes::ZERO,
        })
    }

    fn reset_peak(&mut self) -> Result<(), ProbeError> {
        Ok(())
    }

    fn has_exact_peak(&self) -> bool {
        self.is_exact
    }

    fn capacity(&self) -> Result<Bytes, ProbeError> {
        Ok(ROOM.capacity)
    }

    fn largest_allocation(&self) -> Result<Bytes, ProbeError> {
        Ok(ROOM.capacity)
    }

    fn cleanup(&mut self) -> Result<(), ProbeError> {
        Ok(())
    }
}

#[derive(Module, Debug)]
struct Net {
    layer: Linear,
}

/// Takes a step in micro-batches of some size, of which it is known what the one that begins with a sample needs, and returns
/// what it asked for.
fn taken(
    is_exact: bool,
    micro_batch_size: u32,
    upper: impl Fn(usize) -> Option<Bytes>,
) -> (StepOutcome, Vec<Range<usize>>) {
    let device = Device::flex().autodiff();
    let values: Vec<f32> = (0..N_SAMPLES as usize * WIDTH).map(|at| (at % 5) as f32 - 2.0).collect();
    let samples = Tensor::<1>::from_floats(&*values, &device).reshape([N_SAMPLES as usize, WIDTH]);
    let mut net = Net { layer: LinearConfig::new(WIDTH, 2).with_bias(false).init(&device) };
    let weight = Tensor::<1>::from_floats([0.5, -1.0, 0.25, 2.0, -0.5, 1.0, 0.0, 3.0], &device);
    net.layer.weight = burn::module::Param::from_tensor(weight.reshape([WIDTH, 2]));
    let mut step = GuardedStep::new(Box::new(Card { is_exact }), device);
    let request = StepRequest::of_edge(N_SAMPLES as usize, Knobs { patch_size: 1, micro_batch_size }, ROOM);
    let asked = RefCell::new(Vec::new());
    let mean_loss = |net: &Net, part: Range<usize>| {
        asked.borrow_mut().push(part.clone());
        let surprise = net.layer.forward(samples.clone().slice([part])).powi_scalar(2).mean();
        Loss { of_tasks: Some(surprise.clone().inner() * 3.0), mean: surprise }
    };
    // What runs next begins after all that has.
    let begun = || asked.borrow().last().map_or(0, |it| it.end);
    let predict = |_: StepShape, _: Bytes| upper(begun()).map(|upper| Prediction { expected: upper, upper });
    let outcome = step.attempt(&net, &request, &predict, &mean_loss).unwrap();
    (outcome, asked.into_inner())
}

fn told(outcome: &StepOutcome) -> (Option<f64>, f64, Vec<f64>) {
    (outcome.loss, outcome.gradient_norm, outcome.of_tasks.clone())
}

#[test]
fn a_step_whose_parts_are_known_to_fit_waits_for_the_device_once() {
    let fits = Some(Bytes::mib(1));
    for micro_batch_size in [6, 3, 2] {
        let n_parts = N_SAMPLES / micro_batch_size;
        let (exact, _) = taken(true, micro_batch_size, |_| fits);
        // There it is nothing to wait for.
        assert_eq!(exact.times.n_reads, n_parts + 1);
        let from_the_middle = |at: usize| fits.filter(|_| at < 3);
        for (upper, expected) in [
            (&(|_| fits) as &dyn Fn(usize) -> Option<Bytes>, 1),
            // Nothing is known of them yet: each says whether it ran.
            (&|_| None, n_parts + 1),
            (&from_the_middle, 1 + u32::from(micro_batch_size < 6)),
        ] {
            let (outcome, asked) = taken(false, micro_batch_size, upper);
            assert_eq!(outcome.times.n_reads, expected, "{micro_batch_size}");
            assert_eq!(asked.len(), n_parts as usize);
            let (loss, norm, of_tasks) = told(&exact);
            let (now, norm_now, of_tasks_now) = told(&outcome);
            // Losses are added in the order in which they are read.
            assert!((now.unwrap() - loss.unwrap()).abs() < 1e-12, "{now:?} of {loss:?}");
            assert!((of_tasks_now[0] - of_tasks[0]).abs() < 1e-12, "{of_tasks_now:?} of {of_tasks:?}");
            assert_eq!(norm_now.to_bits(), norm.to_bits());
        }
    }
}
