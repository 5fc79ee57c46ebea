//! A model whose first half lies on a CPU and its second half on a Vulkan device.

#[path = "../../../probe/tests/alone/mod.rs"]
mod alone;

use std::panic::resume_unwind;
use std::thread;

use alone::alone;
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, ModuleOptimizer};
use burn::tensor::{Device, Tensor};
use plimsoll::{Bytes, TrackingAllocator};
use plimsoll_probe::{DeviceKind, ProbeError, open};
use plimsoll_train::open_device;

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

const WIDTH: usize = 64;

/// Rows of a sample.
const ROWS: usize = 256;

/// Runs a test beside no other with a CPU and a Vulkan device, or says why it is skipped.
pub(crate) fn on_both(test: impl FnOnce(&Device, &Device) + Send) {
    let _alone = alone();
    match open(DeviceKind::Vulkan(0), None) {
        Ok(_) => {
            let [cpu, card] = [DeviceKind::Flex, DeviceKind::Vulkan(0)].map(|it| open_device(it).unwrap());
            let run = move || {
                // Kernels are compiled once, on the host, which holds them from then on.
                drop(Net::init(&cpu, &card).loss(8, &cpu, &card).backward());
                card.memory_cleanup();
                test(&cpu, &card);
                card.memory_cleanup();
            };
            thread::scope(|scope| scope.spawn(run).join()).unwrap_or_else(|panic| resume_unwind(panic));
        }
        Err(error @ ProbeError::NoDevice { .. }) => eprintln!("skipped: failed to {error}"),
        Err(error) => panic!("failed to {error}"),
    }
}

/// A first half on one device and a second on another.
#[derive(Module, Debug)]
pub(crate) struct Net {
    pub(crate) first: Linear,
    pub(crate) last: Linear,
}

impl Net {
    pub(crate) fn init(first: &Device, second: &Device) -> Self {
        let layer = |device: &Device| LinearConfig::new(WIDTH, WIDTH).init(device);
        Self { first: layer(first), last: layer(second) }
    }

    pub(crate) fn loss(&self, n_samples: usize, first: &Device, second: &Device) -> Tensor<1> {
        self.loss_of(rows(n_samples, first), second)
    }

    pub(crate) fn loss_of(&self, rows: Tensor<2>, second: &Device) -> Tensor<1> {
        let half = self.first.forward(rows).tanh();
        self.last.forward(half.to_device(second)).tanh().mean()
    }
}

pub(crate) fn rows(n_samples: usize, device: &Device) -> Tensor<2> {
    Tensor::ones([n_samples * ROWS, WIDTH], device)
}

pub(crate) fn adam() -> ModuleOptimizer {
    AdamConfig::new().init()
}

pub(crate) fn reserved(kind: DeviceKind) -> Bytes {
    open(kind, None).unwrap().read().unwrap().reserved
}

/// What a device may hold beyond what it holds now.
pub(crate) fn beyond(kind: DeviceKind, more: Bytes) -> Bytes {
    reserved(kind).saturating_add(more)
}
