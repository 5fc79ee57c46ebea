//! Simulated devices: a budget, and a model whose need follows from its shape.

use plimsoll_predict::{Booked, page_for};
use plimsoll_types::{Bytes, Fraction};

use super::oracle::{Outcome, Pool, Reading, Setting};
use super::random::Random;

/// Largest batch that a rule may try; the best batch is smaller on every device.
pub const MAX_BATCH: u32 = 2048;

/// Below this the granularity of batches hides how good a rule is.
const LEAST_BEST: u32 = 64;

/// A step needs up to 2 % more or less than its mean.
pub const NOISE: f64 = 0.02;

/// Budgets in GiB: from a small part of a card to the largest card.
const BUDGETS: (f64, f64) = (1.0, 192.0);

/// Bytes of a float.
const F32: f64 = 4.0;

/// A simulated device with a model on it.
///
/// # What a step takes
///
/// In use are `resident + constant + a·B + b·B·L + c·B·L²` bytes, for `B` samples of edge `L`.
/// The allocator reserves whole pages, each for the largest tensor and 1 MiB more, in whole MiB, and on half of the
/// devices one page more than that, as a runtime's queue does.
/// What is reserved above the resident bytes is multiplied by `1 + e` in each step, with `e` drawn anew between -0.02
/// and 0.02, each value equally likely: the noise comes from outside of the allocator's pages, and what is resident has
/// none.
/// The step runs out of memory when this is above the budget.
/// A dry run tells the pages without the additional one and without the noise.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulated {
    /// What a step may use.
    budget: Bytes,
    edge: u32,
    /// Parameters and optimizer state.
    resident: f64,
    /// What a step needs whatever its batch: gradients, and workspaces of kernels.
    constant: f64,
    /// Bytes per sample, per position and per pair of positions.
    coefficients: [f64; 3],
    /// The largest tensor that grows with the batch, in bytes per sample.
    tensor: f64,
    /// The largest tensor that does not.
    weight: f64,
    held_pages: u64,
}

impl Simulated {
    /// Draws budgets and models until the best batch is at least 64 and below the largest that may be tried.
    pub fn random(random: &mut Random) -> Self {
        loop {
            let budget = Bytes::from_f64_ceil(random.log_uniform(BUDGETS.0, BUDGETS.1) * Bytes::gib(1).as_f64());
            let device = Self { budget, ..model(random) };
            // Pages make the need dip here and there, so that the first of these conditions does not imply the second.
            if device.reserved(MAX_BATCH) > budget && device.reserved(LEAST_BEST) <= budget {
                return device;
            }
        }
    }

    /// Returns what a rule is told of the device.
    ///
    /// # Panics
    ///
    /// Never: the noise is a fraction.
    pub fn setting(&self) -> Setting {
        let noise = Fraction::try_new(NOISE).expect("2 % is a fraction");
        Setting { budget: self.budget, edge: self.edge, batch_max: MAX_BATCH, noise }
    }

    /// Returns the largest batch whose need without noise is within the budget.
    pub fn best(&self) -> u32 {
        (1..=MAX_BATCH).rev().find(|batch| self.reserved(*batch) <= self.budget).unwrap_or(0)
    }

    /// Whether the noise can lift a step of this batch above the budget.
    pub fn may_fail(&self, batch: u32) -> bool {
        self.budget < self.taken(batch, NOISE)
    }

    /// Runs a step.
    pub fn step(&self, batch: u32, random: &mut Random) -> Outcome {
        let peak = self.taken(batch, random.uniform(-NOISE, NOISE));
        if self.budget < peak {
            return Outcome::OutOfMemory;
        }
        let pool = Pool { reserved: self.reserved(batch), largest: self.largest(batch) };
        Outcome::Fitted(Reading { resident: Bytes::from_f64_ceil(self.resident), peak, pool: Some(pool) })
    }

    /// Plans a step.
    pub fn plan(&self, batch: u32) -> Booked {
        let page = page_for(self.largest(batch));
        Booked { reserved: page.saturating_mul(self.in_use(batch).0.div_ceil(page.0)), page, auxiliary: Bytes::ZERO }
    }

    fn taken(&self, batch: u32, noise: f64) -> Bytes {
        let above = self.reserved(batch).as_f64() - self.resident;
        Bytes::from_f64_ceil(self.resident + above * (1.0 + noise))
    }

    fn reserved(&self, batch: u32) -> Bytes {
        let Booked { reserved, page, .. } = self.plan(batch);
        reserved.saturating_add(page.saturating_mul(self.held_pages))
    }

    fn in_use(&self, batch: u32) -> Bytes {
        let (n, e) = (f64::from(batch), f64::from(self.edge));
        let activations: f64 =
            self.coefficients.iter().zip([n, n * e, n * e * e]).map(|(bytes, count)| bytes * count).sum();
        Bytes::from_f64_ceil(self.resident + self.constant + activations)
    }

    fn largest(&self, batch: u32) -> Bytes {
        Bytes::from_f64_ceil((self.tensor * f64::from(batch)).max(self.weight))
    }
}

/// Draws a model, with a budget of zero.
fn model(random: &mut Random) -> Simulated {
    let (parameters, model) = match random.multiple(1, 0, 2) {
        0 => convolutional(random),
        1 => attention(random),
        _ => recurrent(random),
    };
    // Adam keeps two moments for each parameter; a gradient is as large as its parameter.
    let workspace = random.log_uniform(1.0, 256.0) * Bytes::mib(1).as_f64();
    let held_pages = u64::from(random.multiple(1, 0, 1));
    Simulated { resident: 3.0 * parameters, constant: parameters + workspace, held_pages, ..model }
}

/// Residual blocks on square patches; a kernel may unfold its input.
fn convolutional(random: &mut Random) -> (f64, Simulated) {
    let [channels, blocks, edge] = [random.multiple(16, 1, 16), random.multiple(1, 4, 32), random.multiple(8, 3, 16)];
    let (channels, blocks) = (f64::from(channels), f64::from(blocks));
    let (kept, unfolded) = (random.uniform(3.0, 8.0), f64::from(1 << random.multiple(1, 0, 2)));
    let weight = F32 * 9.0 * channels * channels;
    let coefficients = [F32 * 1000.0, F32 * channels * 8.0, F32 * channels * blocks * kept];
    let tensor = F32 * channels * f64::from(edge).powi(2) * unfolded;
    (2.0 * blocks * weight, of(edge, coefficients, tensor, weight))
}

/// A transformer that keeps its attention maps, with a head over a vocabulary.
fn attention(random: &mut Random) -> (f64, Simulated) {
    let (heads, layers) = (f64::from(random.multiple(1, 2, 24)), f64::from(random.multiple(1, 2, 24)));
    let (vocabulary, edge) = (f64::from(random.multiple(1000, 1, 32)), random.multiple(64, 1, 16));
    let (width, weight) = (64.0 * heads, F32 * vocabulary * 64.0 * heads);
    let coefficients = [F32 * width, F32 * (17.0 * width * layers + 2.0 * vocabulary), F32 * 2.5 * heads * layers];
    let tensor = F32 * f64::from(edge) * vocabulary.max(heads * f64::from(edge));
    (F32 * 12.0 * width * width * layers + weight, of(edge, coefficients, tensor, weight))
}

/// Stacked recurrent layers over a long sequence.
fn recurrent(random: &mut Random) -> (f64, Simulated) {
    let (width, layers) = (f64::from(random.multiple(64, 1, 16)), f64::from(random.multiple(1, 1, 6)));
    let (edge, kept) = (random.multiple(50, 1, 20), random.uniform(8.0, 14.0));
    let weight = F32 * 4.0 * width * width;
    let coefficients = [F32 * 2.0 * width * layers, F32 * kept * width * layers, 0.0];
    (2.0 * layers * weight, of(edge, coefficients, F32 * 4.0 * width * f64::from(edge), weight))
}

const fn of(edge: u32, coefficients: [f64; 3], tensor: f64, weight: f64) -> Simulated {
    let (budget, held_pages) = (Bytes::ZERO, 0);
    Simulated { budget, edge, resident: 0.0, constant: 0.0, coefficients, tensor, weight, held_pages }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_takes_whole_pages_and_up_to_two_per_cent_of_noise() {
        let mib = Bytes::mib(1).as_f64();
        let tensors = of(8, [2.0 * mib, 0.0, 0.0], mib, 0.0);
        let model = Simulated { resident: 100.0 * mib, constant: 7.0 * mib, budget: Bytes::mib(1000), ..tensors };
        // 100 + 7 + 2 · 9 = 125 MiB in pages of 10.
        assert_eq!(model.plan(9), Booked { reserved: Bytes::mib(130), page: Bytes::mib(10), ..Booked::default() });
        let real = Simulated { held_pages: 1, ..model };
        let mut random = Random::new(1);
        for _ in 0..100 {
            let Outcome::Fitted(reading) = real.step(9, &mut random) else { panic!("140 of 1000 MiB") };
            assert_eq!(reading.pool, Some(Pool { reserved: Bytes::mib(140), largest: Bytes::mib(9) }));
            assert!((139.2..=140.8 + 1e-6).contains(&(reading.peak.as_f64() / mib)), "{}", reading.peak);
        }
    }

    #[test]
    fn the_best_batch_is_the_largest_that_fits_without_noise() {
        let mut random = Random::new(2);
        for _ in 0..20 {
            let device = Simulated::random(&mut random);
            let best = device.best();
            assert!((LEAST_BEST..MAX_BATCH).contains(&best), "{device:?}");
            assert!(device.reserved(best) <= device.budget && device.budget < device.reserved(best + 1), "{device:?}");
            assert!(device.may_fail(best + 1) && !device.may_fail(1));
        }
    }
}
