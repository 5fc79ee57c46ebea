//! A policy, a predictor and a device, wired as in a run.

use std::error::Error;

use plimsoll_policy::{
    Bounds, BucketedConfig, CapacityWatch, CertifiedConfig, Followed, Policy, PolicyConfig, Signal, StepMeasured,
    StepRefused,
};
use plimsoll_types::{Budget, Bytes, Decision, Knobs, StepShape};
use serde::Serialize;

use super::device::{CAPACITY, RESIDENT, TARGET, reading};
use super::learnt::Learnt;
use super::weather::Weather;
use crate::finder::Random;

/// Lengths of the samples that the bucketed policy has.
const EDGES: [u32; 6] = [64, 96, 128, 192, 256, 384];

/// Micro-batches of a step of several edges.
const PARTS: usize = 4;

/// Which policy runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// One ladder.
    Certified,
    /// A size for each of six edges.
    Bucketed,
}

/// What came of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ran {
    pub(super) out_of_memory: bool,
    pub(super) changes: u32,
    /// Lines of the log besides the step's own.
    pub(super) events: u32,
}

pub(super) struct Rig {
    pub(super) policy: Policy,
    pub(super) learnt: Learnt,
    watch: CapacityWatch,
    budget: Budget,
    noise: f64,
    random: Random,
}

impl Rig {
    pub(super) fn new(kind: Kind, noise: f64, seed: u64) -> Result<Self, Box<dyn Error>> {
        let bounds = Bounds { patch_multiple: 8, batch_max: 96, ..Bounds::default() };
        let config = match kind {
            Kind::Certified => PolicyConfig::Certified(CertifiedConfig { bounds, ..CertifiedConfig::default() }),
            Kind::Bucketed => {
                let edges = EDGES.to_vec();
                PolicyConfig::Bucketed(BucketedConfig {
                    cells: edges.into(),
                    batch_max: 1024,
                    ..BucketedConfig::default()
                })
            }
        };
        let policy = Policy::try_new(config)?;
        let random = Random::new(seed);
        Ok(Self {
            policy,
            learnt: Learnt::new()?,
            watch: CapacityWatch::default(),
            budget: budget(CAPACITY),
            noise,
            random,
        })
    }

    /// What the next step is set to do, for each edge.
    pub(super) fn work(&self) -> Vec<f64> {
        let Knobs { patch_size, micro_batch_size } = self.policy.knobs();
        let of_one = f64::from(micro_batch_size) * f64::from(patch_size) * f64::from(patch_size);
        self.policy.batch_sizes().map_or(vec![of_one], |sizes| sizes.iter().copied().map(f64::from).collect())
    }

    /// Reads the capacity, as before each step and after what failed in one.
    pub(super) fn follow(&mut self, step: u64, seen: Bytes) -> Ran {
        let mut ran = Ran::default();
        let Some(Followed { capacity, is_news }) = self.watch.read(step, seen, self.budget.capacity) else {
            return ran;
        };
        self.budget = budget(capacity);
        if !is_news {
            return ran;
        }
        ran.events += 1;
        self.tell(&mut ran, &Signal::BudgetChanged { step, budget: self.budget });
        ran
    }

    /// Runs a step.
    pub(super) fn step(&mut self, step: u64, weather: &Weather) -> Result<Ran, Box<dyn Error>> {
        let (mut ran, knobs) = (Ran::default(), self.policy.knobs());
        let mut waiting = self.draw();
        let (mut parts, mut failed): (Vec<(StepShape, Bytes)>, Vec<StepShape>) = Default::default();
        let n_asked = waiting.len();
        while let Some(shape) = waiting.pop() {
            let (n, edge) = (shape.samples, shape.edge());
            let is_beyond = failed.last().is_some_and(|it| it.samples <= n && it.edge() <= edge);
            let fits = !is_beyond && self.learnt.predict(shape).is_none_or(|it| it.upper <= self.budget.budget);
            if 1 < n && !fits {
                waiting.extend(halves(n, edge));
                continue;
            }
            let peak = reading(shape, self.noise, weather.burst, &mut self.random);
            if peak <= weather.held {
                parts.push((shape, peak));
                continue;
            }
            failed.push(shape);
            // What others have taken, the device refuses; what the process itself holds is measured.
            if weather.held == weather.seen {
                self.learnt.learn(shape, peak)?;
            }
            waiting.extend(halves(n, edge).filter(|_| 1 < n));
        }
        if !failed.is_empty() {
            ran = self.follow(step, weather.held);
            ran.out_of_memory = true;
        }
        for shape in failed {
            ran.events += 1;
            self.tell(&mut ran, &Signal::OutOfMemory(StepRefused { step, knobs, shape, in_parts: true }));
        }
        self.learn(&parts)?;
        let is_divided = n_asked < parts.len();
        let highest = parts.iter().max_by_key(|it| it.1);
        let (highest, peak) = (highest.map(|it| it.0), highest.map_or(RESIDENT, |it| it.1));
        let measured = StepMeasured { step, knobs, is_divided, highest, peak, budget: self.budget };
        self.tell(&mut ran, &Signal::Done(measured));
        Ok(ran)
    }

    /// Returns the micro-batches of a step.
    fn draw(&mut self) -> Vec<StepShape> {
        match self.policy.batch_sizes() {
            None => vec![self.policy.knobs().shape()],
            Some(sizes) => {
                let random = &mut self.random;
                let cells: Vec<_> = sizes.iter().zip(EDGES).map(|(size, edge)| StepShape::new(*size, edge)).collect();
                let n_edges = u64::try_from(cells.len()).unwrap_or(1);
                let mut at = || usize::try_from(random.next_u64() % n_edges).unwrap_or(0);
                (0..PARTS).map(|_| cells[at()]).collect()
            }
        }
    }

    fn learn(&mut self, parts: &[(StepShape, Bytes)]) -> Result<(), Box<dyn Error>> {
        for (shape, peak) in parts {
            self.learnt.learn(*shape, *peak)?;
        }
        Ok(())
    }

    fn tell(&mut self, ran: &mut Ran, signal: &Signal) {
        let learnt = &self.learnt;
        let decision = self.policy.on_signal(signal, &|shape| learnt.predict(shape));
        ran.changes += u32::from(matches!(decision, Some(Decision::Move(_) | Decision::Resize(_))));
    }
}

fn halves(n: u32, edge: u32) -> impl Iterator<Item = StepShape> {
    [n / 2, n - n / 2].into_iter().map(move |n| StepShape::new(n, edge))
}

fn budget(capacity: Bytes) -> Budget {
    Budget { capacity, budget: Bytes::from_f64_ceil(capacity.as_f64() * TARGET) }
}
