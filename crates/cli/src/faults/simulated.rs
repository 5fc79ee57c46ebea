//! A device whose memory follows from the shapes that run: the same on every machine.

use std::sync::{Arc, Mutex, MutexGuard};

use plimsoll_probe::{Probe, ProbeError};
use plimsoll_train::HookedPart;
use plimsoll_types::{Bytes, MemoryReading, StepShape};

/// The variable that asks for the device.
const VARIABLE: &str = "PLIMSOLL_SIMULATED";

/// What it has, where no capacity is set.
const CAPACITY: Bytes = Bytes::gib(16);

/// The weights, and their gradients.
const WEIGHTS: Bytes = Bytes::mib(24);
/// The two moments of Adam, which the first optimizer's step makes.
const MOMENTS: Bytes = Bytes::mib(48);

/// Micro-batches up to this many samples run other kernels, which need less, as on Flex.
const SMALL_BATCH: u64 = 4;

/// Coefficients of `[1, n, n·e, n·e²]` in KiB.
type Need = [u64; 4];

/// What a forward and backward pass needs beside its gradients is the larger of these: at its peak it is in one kernel or
/// in the other.
const TRAINING: [Need; 2] = [[12 << 10, 1 << 10, 96, 12], [32 << 10, 0, 0, 15]];
const INFERENCE: [Need; 2] = [[8 << 10, 256, 24, 2], [2 << 10, 0, 0, 3]];

pub(super) fn is_wanted() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// The memory of a process.
#[derive(Debug, Default)]
pub(super) struct SimulatedDevice(Mutex<Memory>);

#[derive(Debug, Default)]
struct Memory {
    has_moments: bool,
    /// Whether parts of a step have left the sum of their gradients.
    has_sum: bool,
    peak: Bytes,
}

impl Memory {
    fn in_use(&self) -> Bytes {
        let parts = [(true, WEIGHTS), (self.has_moments, MOMENTS), (self.has_sum, WEIGHTS)];
        Bytes(parts.iter().filter(|it| it.0).map(|it| it.1.0).sum())
    }

    fn run(&mut self, shape: StepShape, needs: [Need; 2], gradients: Bytes) {
        let need = need(shape, needs).saturating_add(gradients);
        self.peak = self.peak.max(self.in_use().saturating_add(need));
    }
}

/// Returns what a pass of this shape takes at most, besides what was in use before.
fn need(shape: StepShape, needs: [Need; 2]) -> Bytes {
    let (n, e) = (u64::from(shape.samples), u64::from(shape.edge()));
    let features = [1, n, n * e, n * e * e];
    let kib = |need: Need| need.iter().zip(features).map(|(own, of)| own * of).sum::<u64>();
    let most = needs.into_iter().map(kib).max().unwrap_or(0);
    Bytes((if n <= SMALL_BATCH { most / 2 } else { most }) << 10)
}

impl SimulatedDevice {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Begins anew.
    pub(super) fn forget(&self) {
        *self.memory() = Memory::default();
    }

    pub(super) fn on_part(&self, part: &HookedPart) {
        let mut memory = self.memory();
        memory.has_sum &= part.samples.start > 0;
        memory.run(part.shape, TRAINING, WEIGHTS);
        // The optimizer takes the sum of a whole step.
        let is_last = part.samples.end == part.n_samples;
        memory.has_sum = !is_last;
        memory.has_moments |= is_last;
    }

    pub(super) fn on_forward(&self, shape: StepShape) {
        self.memory().run(shape, INFERENCE, Bytes::ZERO);
    }
}

/// Measures the simulated device.
#[derive(Clone, Debug)]
pub(super) struct SimulatedProbe {
    device: Arc<SimulatedDevice>,
    capacity: Bytes,
}

impl SimulatedProbe {
    pub(super) fn new(device: &Arc<SimulatedDevice>, capacity: Option<Bytes>) -> Self {
        Self { device: Arc::clone(device), capacity: capacity.unwrap_or(CAPACITY) }
    }
}

impl Probe for SimulatedProbe {
    fn name(&self) -> String {
        "simulated device".to_owned()
    }

    fn read(&self) -> Result<MemoryReading, ProbeError> {
        let memory = self.device.memory();
        let in_use = memory.in_use();
        Ok(MemoryReading { in_use, reserved: in_use, peak: memory.peak.max(in_use) })
    }

    fn reset_peak(&mut self) -> Result<(), ProbeError> {
        self.device.memory().peak = Bytes::ZERO;
        Ok(())
    }

    fn has_exact_peak(&self) -> bool {
        true
    }

    fn capacity(&self) -> Result<Bytes, ProbeError> {
        Ok(self.capacity)
    }

    fn page(&self) -> Result<Bytes, ProbeError> {
        Ok(Bytes::ZERO)
    }

    fn largest_allocation(&self) -> Result<Bytes, ProbeError> {
        Ok(self.capacity)
    }

    fn cleanup(&mut self) -> Result<(), ProbeError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(samples: std::ops::Range<usize>, n_samples: usize) -> HookedPart {
        let n = u32::try_from(samples.len()).unwrap();
        HookedPart { shape: StepShape::new(n, 16), samples, n_samples }
    }

    #[test]
    fn a_later_part_has_the_sum_of_gradients_and_the_first_step_leaves_moments() {
        let device = Arc::new(SimulatedDevice::default());
        let mut probe = SimulatedProbe::new(&device, None);
        let mut run = |samples, n| {
            probe.reset_peak().unwrap();
            device.on_part(&part(samples, n));
            let MemoryReading { in_use, peak, .. } = probe.read().unwrap();
            (in_use, peak)
        };
        let need = need(StepShape::new(8, 16), TRAINING).saturating_add(WEIGHTS);
        let sum = |parts: &[Bytes]| Bytes(parts.iter().map(|it| it.0).sum());
        assert_eq!(run(0..8, 16), (sum(&[WEIGHTS, WEIGHTS]), sum(&[WEIGHTS, need])));
        let with_moments = sum(&[WEIGHTS, MOMENTS]);
        assert_eq!(run(8..16, 16), (with_moments, sum(&[WEIGHTS, WEIGHTS, need])));
        assert_eq!(run(0..8, 8), (with_moments, sum(&[with_moments, need])));
    }
}
