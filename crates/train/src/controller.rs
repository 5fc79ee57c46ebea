//! Predictor and policy, wired: events in, decisions out.

use plimsoll_plan::PlannedNeed;
use plimsoll_policy::{Policy, PolicyConfig, PolicyError};
use plimsoll_predict::{
    Key, Keys, PartReading, Peak, Phase, Platform, PredictError, Predictor, PredictorConfig, Violation,
};
use plimsoll_types::{
    Attempt, Bytes, Decision, Event, Extent, Features, MicroBatch, Observation, Prediction, Recompute, StepDone,
    StepFailed, StepShape, part_size, share_of_replica,
};
use serde::{Deserialize, Serialize};

use self::gradients::GradientSum;
use self::signal::signal;

mod gradients;
mod signal;
#[cfg(test)]
mod tests;

/// Everything that a decision depends on besides the events; a log carries it in its head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerConfig {
    /// How needs are predicted; a run takes the features of its job.
    pub predictor: PredictorConfig,
    /// How knobs are turned.
    pub policy: PolicyConfig,
    /// Whose activations are recomputed in the backward pass.
    pub recompute: Recompute,
    /// What the steps run on.
    pub platform: Platform,
    /// Whether the device tells exact peaks of the bytes in use, and not merely what is reserved.
    pub exact_peaks: bool,
    /// Batches up to this many samples run other kernels than larger ones; see [`crate::small_batch_regime`].
    pub small_batch: u32,
    /// What a plan says; empty without one.
    pub planned: Vec<PlannedNeed>,
    /// Between how many threads of a CPU what runs at once is divided, if forward passes change nothing in the model.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub replicas: u32,
}

const fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_one(n: &u32) -> bool {
    *n == 1
}

impl ControllerConfig {
    /// Returns these settings with the features that a job names, whatever they were.
    pub(crate) fn with_features(&self, features: Features) -> Self {
        Self { predictor: PredictorConfig { features, ..self.predictor }, ..self.clone() }
    }
}

/// A configuration that makes no controller.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// The predictor refuses.
    #[error("use the settings of the predictor: {0}")]
    Predict(#[from] PredictError),
    /// The policy refuses.
    #[error("use the settings of the policy: {0}")]
    Policy(#[from] PolicyError),
}

/// The largest batch without gradients: more would gain no time, and results wait for the whole batch.
pub const MAX_INFERENCE_BATCH: u32 = 64;

/// The pure core of a run: the same events give the same decisions, live and in a replay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Controller {
    predictor: Predictor,
    policy: Policy,
    keys: Keys,
    /// Whether peaks are of the bytes in use, or else of what is reserved.
    exact_peaks: bool,
    /// What the next step finds in use.
    resident: Bytes,
    /// What its later parts find besides.
    #[serde(default)]
    sum: GradientSum,
    /// How many parts are to fit at once.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    replicas: u32,
}

impl Controller {
    /// Starts without an observation.
    ///
    /// # Errors
    ///
    /// [`ControllerError`] when predictor or policy refuse their configuration.
    pub fn try_new(config: ControllerConfig) -> Result<Self, ControllerError> {
        let ControllerConfig { recompute, platform, small_batch, exact_peaks, replicas, .. } = config;
        let keys = Keys { recompute, platform, small_batch };
        let replicas = replicas.max(1);
        // Where graphs lie beside each other, their common tables grow once more.
        let beside = config.predictor.beside.saturating_mul(replicas.min(2).into());
        let predictor = Predictor::try_new(PredictorConfig { beside, ..config.predictor })?;
        let policy = Policy::try_new(config.policy)?;
        let (resident, sum) = (Bytes::ZERO, GradientSum::default());
        let mut controller = Self { predictor, policy, keys, exact_peaks, resident, sum, replicas };
        controller.plan(&config.planned)?;
        Ok(controller)
    }

    fn plan(&mut self, needs: &[PlannedNeed]) -> Result<(), PredictError> {
        for it in needs.iter().copied() {
            let PlannedNeed { phase, checkpointing, shape, expected, upper, resident, nodes, packed, .. } = it;
            let key = Key { checkpointing, ..self.keys.key(phase, shape) };
            match resident {
                Some(before) => {
                    let part = PartReading { shape, before, peak: Peak::Exact(expected), nodes, packed };
                    self.predictor.observe(key, part)?;
                }
                None => self.predictor.plan(key, shape, Prediction { expected, upper })?,
            }
        }
        Ok(())
    }

    /// Learns from an event, without deciding anything, and returns the readings that were above their bounds.
    ///
    /// # Errors
    ///
    /// [`PredictError`] when a step's reading makes no sense, such as a shape that holds nothing.
    pub fn learn(&mut self, event: &Event) -> Result<Vec<Violation>, PredictError> {
        match event {
            Event::StepDone(done) => {
                self.resident = done.in_use;
                self.sum.observe(done);
                self.predictor.note_packed(done.packed);
                self.predictor.observe_step(&self.parts(done), done.in_use.saturating_sub(done.resident))
            }
            Event::StepFailed(StepFailed { attempt, .. }) => {
                // A part that failed may have found the gradients of others; what steps leave is known from the first on.
                if self.resident == Bytes::ZERO {
                    self.resident = attempt.resident;
                }
                let Attempt { shape, resident, peak, page, nodes, .. } = *attempt;
                let part = peak.map(|peak| self.part(Observation { shape, resident, peak }, page, nodes));
                self.predictor.observe_step(part.as_slice(), Bytes::ZERO)
            }
            Event::GradientCheckpointing(switched) => {
                // What was seen without says nothing of steps with it, nor does what was planned: those have other keys.
                self.keys.recompute = self.keys.recompute.or(switched.recompute);
                // A plan that cannot be read is as good as none.
                let planned = switched.planned.as_deref().and_then(|it| serde_json::from_str::<Vec<_>>(it).ok());
                self.plan(&planned.unwrap_or_default())?;
                Ok(Vec::new())
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Returns what each micro-batch showed, where that was measured, or else what the step showed of the largest.
    fn parts(&self, done: &StepDone) -> Vec<(Key, PartReading)> {
        if done.micro_batches.iter().all(|it| it.peak.is_none()) {
            if done.micro_batches.iter().any(|it| it.shares_pages) {
                return Vec::new();
            }
            let part = |shape: StepShape| {
                // The pages are those of all parts of the shape, some of which began with the gradients of others.
                let of_shape = || done.micro_batches.iter().filter(|it| it.shape() == shape);
                let resident = of_shape().filter_map(|it| it.resident).max().unwrap_or(done.resident);
                let nodes = of_shape().map(|it| it.nodes).max().unwrap_or_default();
                self.part(Observation { shape, resident, peak: done.peak }, done.page, nodes)
            };
            return done.largest_shape().map(part).into_iter().collect();
        }
        let part = |it: &MicroBatch| {
            let resident = it.resident.unwrap_or(done.resident);
            Some(self.part(Observation { shape: it.shape(), resident, peak: it.peak? }, done.page, it.nodes))
        };
        done.micro_batches.iter().filter_map(part).collect()
    }

    fn part(&self, read: Observation, page: Bytes, nodes: u64) -> (Key, PartReading) {
        (self.keys.key(Phase::Train, read.shape), PartReading::of(read, self.exact_peaks, page).with_nodes(nodes))
    }

    /// Answers an event, after [`Self::learn`] has seen it.
    pub fn decide(&mut self, event: &Event) -> Option<Decision> {
        let shared = self.shared();
        let Self { policy, predictor, keys, resident, sum, replicas, .. } = self;
        let predict = |shape: StepShape| {
            let before = resident.saturating_add(sum.beside(shape));
            // What runs at once is the knob where samples are cut; where they are padded, it is as many parts.
            let (part, n) = match shared {
                Some(replicas) => {
                    let share = share_of_replica(shape.samples, replicas, keys.small_batch);
                    (shape.with_samples(share), shape.samples.div_ceil(share))
                }
                None => (shape, *replicas),
            };
            Some(predictor.predict(keys.key(Phase::Train, part), part, before)?.of_many(n, before))
        };
        let parts = |n_samples, most| part_size(n_samples, most, shared.unwrap_or(1), keys.small_batch);
        policy.on_signal(&signal(event, &parts)?, &predict)
    }

    /// Predicts a part of a training step that begins with `resident` bytes in use.
    pub fn predict(&self, shape: StepShape, resident: Bytes) -> Option<Prediction> {
        self.predictor.predict(self.keys.key(Phase::Train, shape), shape, resident)
    }

    /// Returns how many readings were above their bound.
    pub fn n_violations(&self) -> u64 {
        self.predictor.n_violations()
    }

    /// Returns the largest certified batch of a forward pass without gradients, or 1 while nothing is known.
    pub fn inference_batch(&self, extent: Extent, resident: Bytes, budget: Bytes) -> u32 {
        let fits = |n: &u32| {
            let shape = StepShape::of(*n, extent);
            let prediction = self.predictor.predict(self.keys.key(Phase::Infer, shape), shape, resident);
            prediction.is_some_and(|it| it.upper <= budget)
        };
        (2..=MAX_INFERENCE_BATCH).take_while(fits).last().unwrap_or(1)
    }

    /// Returns the largest batch of a forward pass without gradients that the plan has found to fit, or 1 without any.
    pub fn planned_inference_batch(&self, extent: Extent) -> u32 {
        let is_planned = |n: &u32| {
            let shape = StepShape::of(*n, extent);
            self.predictor.is_planned(self.keys.key(Phase::Infer, shape), shape)
        };
        (2..=MAX_INFERENCE_BATCH).take_while(is_planned).last().unwrap_or(1)
    }

    /// Learns from a forward pass without gradients, after which so much more was in use as `kept` says, and returns the
    /// reading if it was above its bound.
    ///
    /// # Errors
    ///
    /// As [`Self::learn`].
    pub fn learn_inference(&mut self, read: PartReading, kept: Bytes) -> Result<Option<Violation>, PredictError> {
        let key = self.keys.key(Phase::Infer, read.shape);
        Ok(self.predictor.observe_step(&[(key, read)], kept)?.pop())
    }

    /// Returns between how many replicas the samples are divided that run at once, where samples are cut and their number is
    /// this controller's to choose.
    fn shared(&self) -> Option<u32> {
        let is_chosen = self.policy.batch_sizes().is_none() && !matches!(self.policy, Policy::Fixed(_));
        is_chosen.then_some(self.replicas)
    }

    /// Returns the most samples of a part, in a step of so many: where samples are padded, each micro-batch is one.
    pub(crate) fn part_size(&self, n_samples: usize) -> u32 {
        if self.policy.batch_sizes().is_some() {
            return u32::MAX;
        }
        let (most, replicas) = (self.policy.knobs().micro_batch_size, self.shared().unwrap_or(1));
        part_size(n_samples as u64, most, replicas, self.keys.small_batch)
    }

    /// Returns what the keys of all shapes have in common: how their passes compute, and on what.
    pub fn keys(&self) -> Keys {
        self.keys
    }

    /// Returns whose activations are recomputed in the backward pass.
    pub fn recompute(&self) -> Recompute {
        self.keys.recompute
    }

    /// Returns the policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }
}
