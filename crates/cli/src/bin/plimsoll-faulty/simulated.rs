//! A device whose memory follows from the shapes that run: the same on every machine.

use std::sync::{Arc, Mutex, MutexGuard};

use plimsoll_probe::{Probe, ProbeError};
use plimsoll_types::{Bytes, MemoryReading, StepShape};
use plimsoll_workloads::HookedPart;

/// The variable that asks for the device.
const VARIABLE: &str = "PLIMSOLL_SIMULATED";

/// What it has, where no capacity is set.
const CAPACITY: Bytes = Bytes::gib(16);

/// The weights, and their gradients.
const WEIGHTS: Bytes = Bytes::mib(24);
/// The two moments of Adam, which the first optimizer's step makes.
const MOMENTS: Bytes = Bytes::mib(48);

/// Micro-batches up to this many samples run other kernels for the gradients, which need less, as on Flex.
const SMALL_BATCH: u32 = 4;

/// Coefficients of `[1, n, n·e, n·e²]` in KiB.
type Need = [u64; 4];

/// What a forward and backward pass needs beside its gradients is the larger of these: at its peak it is in one kernel or
/// in the other.
const TRAINING: [Need; 2] = [[12 << 10, 1 << 10, 96, 12], [32 << 10, 0, 0, 15]];
const INFERENCE: [Need; 2] = [[8 << 10, 256, 24, 2], [2 << 10, 0, 0, 3]];

pub(crate) fn is_wanted() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// The memory of a process.
#[derive(Debug, Default)]
pub(crate) struct SimulatedDevice(Mutex<Memory>);

#[derive(Debug, Default)]
struct Memory {
    held: Held,
    /// What is held once the part that runs has turned out to fit, and how many samples it has.
    after_part: Option<(Held, u32)>,
    /// Readings since that part ran.
    readings: u32,
    peak: Bytes,
    /// Whether the next high-water mark is that of a part.
    is_announced: bool,
    /// Whether a step of blank parts is under way: none of them says that it is the last.
    is_blank: bool,
}

/// What is held between parts, beside the weights.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    has_moments: bool,
    /// Whether parts of a step have left the sum of their gradients.
    has_sum: bool,
}

impl Memory {
    fn in_use(&self) -> Bytes {
        let parts = [(true, WEIGHTS), (self.held.has_moments, MOMENTS), (self.held.has_sum, WEIGHTS)];
        Bytes(parts.iter().filter(|it| it.0).map(|it| it.1.0).sum())
    }

    fn run(&mut self, need: Bytes) {
        self.peak = self.peak.max(self.in_use().saturating_add(need));
    }

    /// Adds the gradients of a part that fits: the first reading after it says whether it does.
    fn settle(&mut self) {
        self.readings += 1;
        if 1 < self.readings
            && let Some((held, _)) = self.after_part.take()
        {
            self.held = held;
        }
    }

    /// Begins a high-water mark: of a part, or of the optimizer's step of blank ones.
    fn reset_peak(&mut self) {
        self.peak = Bytes::ZERO;
        if !std::mem::take(&mut self.is_announced) && std::mem::take(&mut self.is_blank) {
            (self.held, self.after_part) = (Held { has_moments: true, has_sum: false }, None);
        }
    }

    /// Drops what a part that does not fit has made; one sample alone takes its step with it.
    fn give_back(&mut self) {
        if let Some((_, 1)) = self.after_part.take() {
            (self.held.has_sum, self.is_blank) = (false, false);
        }
    }
}

/// Returns what a forward and backward pass of this shape takes at most, besides what was in use before.
fn training(shape: StepShape) -> Bytes {
    let most = most_kib(shape, TRAINING);
    Bytes::kib(if shape.samples <= SMALL_BATCH { most / 2 } else { most }).saturating_add(WEIGHTS)
}

fn most_kib(shape: StepShape, needs: [Need; 2]) -> u64 {
    let (n, e) = (u64::from(shape.samples), u64::from(shape.edge()));
    let features = [1, n, n * e, n * e * e];
    let kib = |need: Need| need.iter().zip(features).map(|(own, of)| own * of).sum::<u64>();
    needs.into_iter().map(kib).max().unwrap_or(0)
}

impl SimulatedDevice {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Begins anew.
    pub(crate) fn forget(&self) {
        *self.memory() = Memory::default();
    }

    pub(crate) fn on_part(&self, part: &HookedPart) {
        let mut memory = self.memory();
        memory.is_blank = part.n_samples.is_none();
        memory.held.has_sum &= part.samples.start > 0 || memory.is_blank;
        memory.run(training(part.shape));
        // The optimizer takes the sum of a whole step.
        let is_last = part.n_samples == Some(part.samples.end);
        let has_moments = memory.held.has_moments || is_last;
        (memory.after_part, memory.readings) = (Some((Held { has_moments, has_sum: !is_last }, part.shape.samples)), 0);
    }

    pub(crate) fn on_forward(&self, shape: StepShape) {
        self.memory().run(Bytes::kib(most_kib(shape, INFERENCE)));
    }
}

/// Measures the simulated device.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedProbe {
    device: Arc<SimulatedDevice>,
    capacity: Bytes,
}

impl SimulatedProbe {
    pub(crate) fn new(device: &Arc<SimulatedDevice>, capacity: Option<Bytes>) -> Self {
        Self { device: Arc::clone(device), capacity: capacity.unwrap_or(CAPACITY) }
    }
}

impl Probe for SimulatedProbe {
    fn name(&self) -> String {
        "simulated device".to_owned()
    }

    fn read(&self) -> Result<MemoryReading, ProbeError> {
        let mut memory = self.device.memory();
        memory.settle();
        let in_use = memory.in_use();
        Ok(MemoryReading {
            in_use,
            reserved: in_use,
            peak: memory.peak.max(in_use),
            page: Bytes::ZERO,
            packed: Bytes::ZERO,
        })
    }

    fn announce(&mut self, _shape: StepShape) {
        self.device.memory().is_announced = true;
    }

    fn reset_peak(&mut self) -> Result<(), ProbeError> {
        self.device.memory().reset_peak();
        Ok(())
    }

    fn has_exact_peak(&self) -> bool {
        true
    }

    fn capacity(&self) -> Result<Bytes, ProbeError> {
        Ok(self.capacity)
    }

    fn largest_allocation(&self) -> Result<Bytes, ProbeError> {
        Ok(self.capacity)
    }

    fn cleanup(&mut self) -> Result<(), ProbeError> {
        self.device.memory().give_back();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    fn part(samples: Range<usize>, n_samples: usize) -> HookedPart {
        let n = u32::try_from(samples.len()).unwrap();
        HookedPart { shape: StepShape::new(n, 16), samples, n_samples: Some(n_samples) }
    }

    /// Runs a part as a step does, and returns what was in use before and after it, and its peak.
    fn run(device: &SimulatedDevice, probe: &mut SimulatedProbe, samples: Range<usize>, n: usize) -> [Bytes; 3] {
        probe.reset_peak().unwrap();
        let before = probe.read().unwrap().in_use;
        device.on_part(&part(samples, n));
        let peak = probe.read().unwrap().peak;
        [before, probe.read().unwrap().in_use, peak]
    }

    fn sum(parts: &[Bytes]) -> Bytes {
        Bytes(parts.iter().map(|it| it.0).sum())
    }

    #[test]
    fn a_later_part_has_the_sum_of_gradients_and_the_first_step_leaves_moments() {
        let device = Arc::new(SimulatedDevice::default());
        let mut probe = SimulatedProbe::new(&device, None);
        let mut run = |samples, n| run(&device, &mut probe, samples, n);
        let (need, with_sum) = (training(StepShape::new(8, 16)), sum(&[WEIGHTS, WEIGHTS]));
        assert_eq!(run(0..8, 16), [WEIGHTS, with_sum, sum(&[WEIGHTS, need])]);
        let with_moments = sum(&[WEIGHTS, MOMENTS]);
        assert_eq!(run(8..16, 16), [with_sum, with_moments, sum(&[with_sum, need])]);
        assert_eq!(run(0..8, 8), [with_moments, with_moments, sum(&[with_moments, need])]);
    }

    #[test]
    fn blank_parts_of_a_step_find_the_gradients_of_those_before_them() {
        let device = Arc::new(SimulatedDevice::default());
        let mut probe = SimulatedProbe::new(&device, None);
        let shape = StepShape::new(8, 16);
        let (with_sum, with_moments) = (sum(&[WEIGHTS, WEIGHTS]), sum(&[WEIGHTS, MOMENTS]));
        for found in [[WEIGHTS, with_sum], [with_moments, sum(&[with_moments, WEIGHTS])]] {
            for before in found {
                probe.announce(shape);
                probe.reset_peak().unwrap();
                assert_eq!(probe.read().unwrap().in_use, before);
                device.on_part(&HookedPart { shape, samples: 0..8, n_samples: None });
                assert_eq!(probe.read().unwrap().peak, sum(&[before, training(shape)]));
                assert_eq!(probe.read().unwrap().in_use, sum(&[found[0], WEIGHTS]));
            }
            probe.reset_peak().unwrap();
            assert_eq!(probe.read().unwrap().in_use, with_moments, "the optimizer has taken the sum");
        }
    }

    #[test]
    fn a_part_that_does_not_fit_leaves_what_was_there() {
        let device = Arc::new(SimulatedDevice::default());
        let mut probe = SimulatedProbe::new(&device, None);
        let fail = |probe: &mut SimulatedProbe, samples| {
            device.on_part(&part(samples, 16));
            probe.read().unwrap();
            probe.cleanup().unwrap();
            probe.read().unwrap().in_use
        };
        assert_eq!(fail(&mut probe, 0..8), WEIGHTS);
        assert_eq!(run(&device, &mut probe, 0..4, 16)[1], sum(&[WEIGHTS, WEIGHTS]));
        assert_eq!(fail(&mut probe, 4..16), sum(&[WEIGHTS, WEIGHTS]));
        assert_eq!(fail(&mut probe, 4..5), WEIGHTS, "the step is given up");
    }
}
