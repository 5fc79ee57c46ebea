//! A job of one's own: a model, samples in memory, and a loss.

use std::error::Error;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use plimsoll_probe::{DeviceKind, TrackingAllocator};
use plimsoll_train::{Drawn, Existing, FitConfig, InMemory, Job, Loss, Outcome, RunDir, Shell, fit};

// On a CPU the memory of the program is counted by its allocator.
#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

#[derive(Module, Debug)]
struct Net {
    layer: Linear,
}

struct Regression(Arc<InMemory<[f32; 3]>>);

impl Job for Regression {
    type Source = InMemory<[f32; 3]>;
    type Model = Net;
    type Batch = Tensor<2>;

    fn source(&self) -> Arc<InMemory<[f32; 3]>> {
        Arc::clone(&self.0)
    }

    fn init(&self, device: &Device) -> Net {
        Net { layer: LinearConfig::new(2, 1).init(device) }
    }

    fn batch(&self, drawn: &Drawn<[f32; 3]>, range: Range<usize>, device: &Device) -> Tensor<2> {
        let rows: Vec<f32> = drawn.samples(range).flatten().copied().collect();
        Tensor::<1>::from_floats(rows.as_slice(), device).reshape([-1, 3])
    }

    fn mean_loss(&self, net: &Net, rows: Tensor<2>, _task_weights: &[f32]) -> Loss {
        let (x, y) = (rows.clone().narrow(1, 0, 2), rows.narrow(1, 2, 1));
        (net.layer.forward(x) - y).powi_scalar(2).mean().into()
    }
}

pub(crate) fn train(path: &Path, n_steps: u64) -> Result<Outcome, Box<dyn Error>> {
    let rows = (0_u8..100).map(|i| [f32::from(i) / 100.0, f32::from(i % 7), f32::from(i % 7) * 0.5 - 1.0]);
    let job = Regression(Arc::new(InMemory::of_one_size(rows)));
    let mut run_dir = RunDir::open(path, Existing::Overwrite)?;
    let shell = Shell::open(DeviceKind::Flex, None, &mut run_dir, Existing::Overwrite)?;
    Ok(fit(&job, &FitConfig::of_one_size(DeviceKind::Flex, n_steps, 32)?, shell)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    train(Path::new("runs/own_job"), 200).map(drop)
}
