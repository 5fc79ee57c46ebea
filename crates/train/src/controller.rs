//! Predictor and policy, wired: events in, decisions out.

use std::collections::BTreeMap;

use plimsoll_plan::PlannedNeed;
use plimsoll_policy::{Policy, PolicyConfig, PolicyError};
use plimsoll_predict::{Key, Phase, Platform, PredictError, Predictor, PredictorConfig};
use plimsoll_types::{Bytes, Decision, Event, Features, Observation, Prediction, StepDone, StepShape};
use serde::{Deserialize, Serialize};

use self::planned::Planned;
use self::signal::signal;

mod planned;
mod signal;

/// Everything that a decision depends on besides the events; a log carries it in its head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerConfig {
    /// How needs are predicted; a run takes the features of its job.
    pub predictor: PredictorConfig,
    /// How knobs are turned.
    pub policy: PolicyConfig,
    /// Whether gradient checkpointing is on.
    pub checkpointing: bool,
    /// What the steps run on.
    #[serde(default)]
    pub platform: Platform,
    /// Batches up to this many samples run other kernels than larger ones; see [`crate::small_batch_regime`].
    pub small_batch: u32,
    /// What a plan says; empty without one.
    #[serde(default)]
    pub planned: Vec<PlannedNeed>,
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
    #[error(transparent)]
    Predict(#[from] PredictError),
    /// The policy refuses.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

/// A step that keeps more than one part in so many of what it needed reads too much to learn from: the rounding margin of
/// the predictor is as large.
const KEPT_SHARE: u64 = 100;

/// The largest batch without gradients: more would gain no time, and results wait for the whole batch.
const MAX_INFERENCE_BATCH: u32 = 64;

/// The pure core of a run: the same events give the same decisions, live and in a replay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Controller {
    predictor: Predictor,
    plan: Planned,
    policy: Policy,
    keys: Keys,
    resident: Bytes,
    /// Keys whose only step read too much, to be forgotten at the next clean one.
    provisional: Vec<Key>,
    /// For each edge of steps of several, the most samples that were learned from.
    fullest: BTreeMap<u32, u32>,
}

impl Controller {
    /// Starts without an observation.
    ///
    /// # Errors
    ///
    /// [`ControllerError`] when predictor or policy refuse their configuration.
    pub fn try_new(config: ControllerConfig) -> Result<Self, ControllerError> {
        let (mut predictor, keys) = (Predictor::try_new(config.predictor)?, Keys::of(&config));
        for PlannedNeed { phase, shape, expected: peak, resident, .. } in config.planned.iter().copied() {
            if let Some(resident) = resident {
                predictor.observe(keys.key(phase, shape), Observation { shape, resident, peak })?;
            }
        }
        Ok(Self {
            predictor,
            plan: Planned::try_new(&config.planned)?,
            keys,
            policy: Policy::try_new(config.policy)?,
            resident: Bytes::ZERO,
            provisional: Vec::new(),
            fullest: BTreeMap::new(),
        })
    }

    /// Learns from an event, without deciding anything.
    ///
    /// # Errors
    ///
    /// [`PredictError`] when a step's reading makes no sense, such as a peak below what was resident.
    pub fn learn(&mut self, event: &Event) -> Result<(), PredictError> {
        let (observations, kept) = match event {
            Event::StepDone(done) => {
                self.resident = done.in_use;
                (self.observations(done), done.in_use.saturating_sub(done.resident))
            }
            Event::StepFailed(failed) => {
                let attempt = failed.attempt;
                self.resident = attempt.resident;
                let observation = |peak| Observation { shape: attempt.shape, resident: attempt.resident, peak };
                (attempt.peak.map(observation).into_iter().collect(), Bytes::ZERO)
            }
            Event::GradientCheckpointing(_) => {
                // What was seen without says nothing of steps with it, nor does what was planned.
                self.keys.checkpointing = true;
                self.plan = Planned::try_new(&[])?;
                self.provisional.clear();
                self.fullest.clear();
                return Ok(());
            }
            _ => return Ok(()),
        };
        // A step that stayed inside what was resident, or whose peak nobody measured, teaches nothing.
        let taught: Vec<_> = observations.into_iter().filter(|it| it.resident < it.peak).collect();
        if taught.is_empty() { Ok(()) } else { self.observe(&taught, kept) }
    }

    /// Returns what each micro-batch showed that there is to learn, where that was measured, or else what the step showed
    /// of the largest.
    ///
    /// Batches of many sizes show little that the fullest of their edge does not, but for those above their bound.
    fn observations(&self, done: &StepDone) -> Vec<Observation> {
        let resident = done.resident;
        let observation = |shape, peak| Observation { shape, resident, peak };
        if done.micro_batches.iter().all(|it| it.peak.is_none()) {
            return done.largest_shape().map(|it| observation(it, done.peak)).into_iter().collect();
        }
        let parts = done.micro_batches.iter().filter_map(|it| Some(observation(it.shape(), it.peak?)));
        let teaches = |it: &Observation| {
            let is_fullest = self.fullest.get(&it.shape.edge()).is_none_or(|most| *most <= it.shape.samples);
            is_fullest || self.predict(it.shape, it.resident).is_none_or(|bound| bound.upper < it.peak)
        };
        parts.filter(teaches).collect()
    }

    /// Learns what the micro-batches of a step needed, of which it kept some for good.
    ///
    /// The first step of a process creates the optimizer's state, thread pools and work space that stay. Its reading is
    /// too high by what it kept: safe, but wrong for ever after, since a certificate keeps the highest reading of a
    /// shape. So such a reading serves only while nothing else is known, and is forgotten at the next clean one.
    fn observe(&mut self, observations: &[Observation], kept: Bytes) -> Result<(), PredictError> {
        let need = observations.iter().map(|it| it.peak.saturating_sub(it.resident)).max().unwrap_or(Bytes::ZERO);
        let keeps_much = need < kept.saturating_mul(KEPT_SHARE);
        if !keeps_much {
            for key in std::mem::take(&mut self.provisional) {
                self.predictor.forget(key);
                self.fullest.clear();
            }
        }
        let mut first = Vec::new();
        for it in observations.iter().copied() {
            if self.plan.covers(Phase::Train, it.shape) {
                self.plan.observe(Phase::Train, it)?;
                continue;
            }
            let key = self.keys.key(Phase::Train, it.shape);
            if keeps_much && !first.contains(&key) {
                if self.predictor.n_observations(key) > 0 {
                    continue;
                }
                first.push(key);
            }
            self.predictor.observe(key, it)?;
            let most = self.fullest.entry(it.shape.edge()).or_default();
            *most = it.shape.samples.max(*most);
        }
        self.provisional.extend(first);
        Ok(())
    }

    /// Answers an event, after [`Self::learn`] has seen it.
    pub fn decide(&mut self, event: &Event) -> Option<Decision> {
        let (predictor, plan, keys, resident) = (&self.predictor, &self.plan, self.keys, self.resident);
        let predict = |shape: StepShape| predict(predictor, plan, keys.key(Phase::Train, shape), shape, resident);
        self.policy.on_signal(&signal(event)?, &predict)
    }

    /// Predicts a training step that begins with `resident` bytes in use.
    pub fn predict(&self, shape: StepShape, resident: Bytes) -> Option<Prediction> {
        predict(&self.predictor, &self.plan, self.keys.key(Phase::Train, shape), shape, resident)
    }

    /// Returns the largest certified batch of a forward pass without gradients, or 1 while nothing is known.
    pub fn inference_batch(&self, edge: u32, resident: Bytes, budget: Bytes) -> u32 {
        let fits = |n: &u32| {
            let shape = StepShape::new(*n, edge);
            let prediction = predict(&self.predictor, &self.plan, self.keys.key(Phase::Infer, shape), shape, resident);
            prediction.is_some_and(|it| it.upper <= budget)
        };
        (2..=MAX_INFERENCE_BATCH).take_while(fits).last().unwrap_or(1)
    }

    /// Returns the largest batch of a forward pass without gradients that the plan has found to fit, or 1 without any.
    pub fn planned_inference_batch(&self, edge: u32) -> u32 {
        let is_planned = |n: &u32| self.plan.predict(Phase::Infer, StepShape::new(*n, edge)).is_some();
        (2..=MAX_INFERENCE_BATCH).take_while(is_planned).last().unwrap_or(1)
    }

    /// Learns from a forward pass without gradients.
    ///
    /// # Errors
    ///
    /// As [`Self::learn`].
    pub fn learn_inference(&mut self, observation: Observation) -> Result<(), PredictError> {
        if self.plan.covers(Phase::Infer, observation.shape) {
            return self.plan.observe(Phase::Infer, observation);
        }
        self.predictor.observe(self.keys.key(Phase::Infer, observation.shape), observation).map(drop)
    }

    /// Whether activations are recomputed in the backward pass.
    pub fn is_checkpointing(&self) -> bool {
        self.keys.checkpointing
    }

    /// Returns the policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }
}

/// A plan comes first: it knows the pages, which no bound from other shapes does.
fn predict(predictor: &Predictor, plan: &Planned, key: Key, shape: StepShape, resident: Bytes) -> Option<Prediction> {
    plan.predict(key.phase, shape).or_else(|| predictor.predict(key, shape, resident))
}

/// What the keys of a run have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Keys {
    pub(crate) checkpointing: bool,
    pub(crate) platform: Platform,
    /// Batches up to this many samples run other kernels than larger ones, where gradients are computed.
    pub(crate) small_batch: u32,
}

impl Keys {
    fn of(config: &ControllerConfig) -> Self {
        let ControllerConfig { checkpointing, platform, small_batch, .. } = *config;
        Self { checkpointing, platform, small_batch }
    }

    pub(crate) fn key(self, phase: Phase, shape: StepShape) -> Key {
        // Without a gradient of weights there is one path only.
        let regime = u16::from(phase == Phase::Train && shape.samples <= self.small_batch);
        Key { phase, checkpointing: self.checkpointing, platform: self.platform, regime }
    }
}
