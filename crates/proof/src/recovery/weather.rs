//! What comes and goes besides the steps.

use plimsoll_types::Bytes;

use super::device::CAPACITY;
use crate::finder::Random;

/// What takes memory from a run for a while; lengths of time are in steps of half a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Disturbance {
    /// Nothing.
    Calm,
    /// Another process that takes this share of the capacity, for so many steps on average, as often as not; every
    /// fourth time it comes in the middle of a step.
    CoTenant {
        /// What it takes, as a share of the capacity.
        share: f64,
        /// Mean steps that it stays, and stays away.
        steps: f64,
    },
    /// Work of the run's own process, such as an image that is decoded: up to so much of the capacity for one to three
    /// steps.
    Bursts {
        /// The most that a burst takes, as a share of the capacity.
        share: f64,
        /// Mean steps between two.
        every: f64,
    },
    /// The capacity falls by this share over so many steps, and is all there again for a quarter of them.
    Leak {
        /// The share that is gone at the end.
        share: f64,
        /// Steps until then.
        steps: u64,
    },
    /// The capacity halves for so many steps, and is all there for as many.
    Halves {
        /// Steps of each half.
        steps: u64,
    },
    /// A co-tenant that takes a fifth for 3000 steps, and bursts of a tenth every 900.
    Mixed,
}

/// What one step meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Weather {
    /// The capacity, as it is read before the step.
    pub(super) seen: Bytes,
    /// The capacity that holds in the step.
    pub(super) held: Bytes,
    /// What the process holds besides the step.
    pub(super) burst: Bytes,
    /// Whether something began in the step that could not be seen before.
    pub(super) surprises: bool,
}

impl Weather {
    pub(super) fn is_calm(&self) -> bool {
        self.seen == CAPACITY && self.held == CAPACITY && self.burst == Bytes::ZERO
    }
}

/// The weather, step by step.
#[derive(Clone, Debug)]
pub(super) struct Forecast {
    disturbance: Disturbance,
    random: Random,
    co_tenant: Phase,
    burst: Phase,
}

/// Something that is there or not, for a random time.
#[derive(Clone, Debug, Default)]
struct Phase {
    is_on: bool,
    left: u64,
    size: f64,
}

impl Forecast {
    pub(super) fn new(disturbance: Disturbance, seed: u64) -> Self {
        let [co_tenant, burst] = Default::default();
        Self { disturbance, random: Random::new(seed), co_tenant, burst }
    }

    pub(super) fn next(&mut self, step: u64) -> Weather {
        match self.disturbance {
            Disturbance::Calm => even(1.0),
            Disturbance::CoTenant { share, steps } => self.co_tenant(share, steps),
            Disturbance::Bursts { share, every } => self.bursts(share, every),
            Disturbance::Leak { share, steps } => {
                let at = step % (steps + steps / 4);
                even(if at < steps { 1.0 - share * at as f64 / steps as f64 } else { 1.0 })
            }
            Disturbance::Halves { steps } => even(if step / steps % 2 == 1 { 0.5 } else { 1.0 }),
            Disturbance::Mixed => {
                let tenant = self.co_tenant(0.2, 3000.0);
                let bursts = self.bursts(0.1, 900.0);
                Weather { burst: bursts.burst, surprises: tenant.surprises || bursts.surprises, ..tenant }
            }
        }
    }

    fn co_tenant(&mut self, share: f64, steps: f64) -> Weather {
        let was_on = self.co_tenant.is_on;
        let is_on = self.co_tenant.turn(|_| steps, &mut self.random);
        let comes = is_on && !was_on;
        let hides = comes && self.random.uniform(0.0, 1.0) < 0.25;
        let taken = |is_there: bool| part(if is_there { 1.0 - share } else { 1.0 });
        Weather { seen: taken(is_on && !hides), held: taken(is_on), burst: Bytes::ZERO, surprises: hides }
    }

    fn bursts(&mut self, share: f64, every: f64) -> Weather {
        let was_on = self.burst.is_on;
        let is_on = self.burst.turn(|is_on| if is_on { 1.5 } else { every }, &mut self.random);
        if is_on && !was_on {
            self.burst.size = share * self.random.uniform(0.2, 1.0);
            self.burst.left = self.burst.left.min(3);
        }
        let burst = if is_on { part(self.burst.size) } else { Bytes::ZERO };
        Weather { burst, surprises: is_on && !was_on, ..even(1.0) }
    }
}

impl Phase {
    /// Goes on by a step, and returns whether it is on.
    fn turn(&mut self, mean: impl Fn(bool) -> f64, random: &mut Random) -> bool {
        if self.left == 0 {
            // The first phase is off.
            self.is_on = self.size > 0.0 && !self.is_on;
            self.size = self.size.max(f64::MIN_POSITIVE);
            let steps = -mean(self.is_on) * random.uniform(f64::MIN_POSITIVE, 1.0).ln();
            self.left = (Bytes::from_f64_ceil(steps).0).max(1);
        }
        self.left -= 1;
        self.is_on
    }
}

fn even(share: f64) -> Weather {
    Weather { seen: part(share), held: part(share), burst: Bytes::ZERO, surprises: false }
}

fn part(share: f64) -> Bytes {
    Bytes::from_f64_ceil(CAPACITY.as_f64() * share)
}
