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

const N_SAMPLES: usize = 6;
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
        Ok(MemoryReading { in_use: Bytes(1), reserved: Bytes(2), peak: Bytes(2) })
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

    fn page(&self) -> Result<Bytes, ProbeError> {
        Ok(Bytes::mib(2))
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

/// Takes a step in micro-batches of some size, of which it is known that they need so much, and returns what it asked for.
fn taken(is_exact: bool, micro_batch_size: u32, upper: Option<Bytes>) -> (StepOutcome, Vec<Range<usize>>) {
    let device = Device::flex().autodiff();
    let values: Vec<f32> = (0..N_SAMPLES * WIDTH).map(|at| (at % 5) as f32 - 2.0).collect();
    let samples = Tensor::<1>::from_floats(&*values, &device).reshape([N_SAMPLES, WIDTH]);
    let mut net = Net { layer: LinearConfig::new(WIDTH, 2).with_bias(false).init(&device) };
    let weight = Tensor::<1>::from_floats([0.5, -1.0, 0.25, 2.0, -0.5, 1.0, 0.0, 3.0], &device);
    net.layer.weight = burn::module::Param::from_tensor(weight.reshape([WIDTH, 2]));
    let mut step = GuardedStep::new(Box::new(Card { is_exact }), device);
    let request = StepRequest::of_edge(N_SAMPLES, Knobs { patch_size: 1, micro_batch_size }, ROOM);
    let asked = RefCell::new(Vec::new());
    let mean_loss = |net: &Net, part: Range<usize>| {
        asked.borrow_mut().push(part.clone());
        let surprise = net.layer.forward(samples.clone().slice([part])).powi_scalar(2).mean();
        Loss { of_tasks: Some(surprise.clone().inner() * 3.0), mean: surprise }
    };
    let predict = |_: StepShape, _: Bytes| upper.map(|upper| Prediction { expected: upper, upper });
    let outcome = step.attempt(&net, &request, &predict, &mean_loss).unwrap();
    (outcome, asked.into_inner())
}

fn told(outcome: &StepOutcome) -> (Option<f64>, f64, Vec<f64>) {
    (outcome.loss, outcome.gradient_norm, outcome.of_tasks.clone())
}

#[test]
fn a_step_of_one_part_that_is_known_to_fit_waits_for_the_device_once() {
    let fits = Some(Bytes::mib(1));
    let (exact, _) = taken(true, 6, fits);
    for (is_exact, micro_batch_size, upper, expected) in [
        (false, 6, fits, 1),
        // Nothing is known of it yet.
        (false, 6, None, 2),
        // Each part says whether it ran.
        (false, 3, fits, 3),
        // There it is nothing to wait for.
        (true, 6, fits, 2),
    ] {
        let (outcome, asked) = taken(is_exact, micro_batch_size, upper);
        assert_eq!(outcome.times.n_reads, expected, "{micro_batch_size} of {upper:?}");
        assert_eq!(asked.len(), N_SAMPLES / micro_batch_size as usize);
        if micro_batch_size == 6 {
            assert_eq!(told(&outcome), told(&exact), "{upper:?}");
        }
    }
}
