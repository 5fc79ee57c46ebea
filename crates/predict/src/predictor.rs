//! One model per key.

use std::collections::BTreeMap;

use plimsoll_types::{Bytes, Observation, Prediction, StepShape};
use serde::{Deserialize, Serialize};

use crate::certificate::{Certificate, ShapeNeed};
use crate::model::{Model, Need};
use crate::{Key, PredictError, PredictorConfig};

/// Predicts the peak of a step from the peaks of earlier ones.
///
/// # The bound
///
/// `upper = resident + bound · scale · (1 + rounding_margin) + page`, where `bound` is the key's [`Certificate`] and
/// `scale` the smallest factor, at least 1, for which every need that is kept lies below.
/// So an observed shape never gets a bound below its own peak, whatever the observations are.
/// Peaks of a fixed program leave `scale` at 1; readings that contradict one (say, of a larger shape that needed less)
/// raise it by as much as they contradict.
/// The observation of a new shape therefore lowers the bound or leaves it, unless it contradicts the earlier ones.
///
/// # A violation
///
/// A need above its upper bound shows that the program is not the one that was observed before.
/// By the factor `s` that would have bounded it, *every* earlier need of the key is multiplied, as if it had been read
/// anew, and then the observation is learnt as it was read.
/// The certificate is homogeneous, so that the bound of every shape grows `s`-fold at once; the new constraint lies on
/// the grown bound and lowers it nowhere.
/// No need is forgotten or lowered, so that each `upper(x_i) >= a_i` as before.
/// (A shape that was known, and whose low reading was what contradicted the others, may take the contradiction with it:
/// then `scale` falls, and the bound elsewhere grows less than `s`-fold.)
/// Later observations tighten the bound where it was grown too much, except at the shapes that were multiplied:
/// a transient peak is undone by [`Predictor::forget`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "State", into = "State")]
pub struct Predictor {
    config: PredictorConfig,
    models: BTreeMap<Key, Model>,
}

/// How an observation compares with what was predicted for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Residual {
    /// What was predicted before the observation; `None` when nothing was known.
    pub predicted: Option<Prediction>,
    /// Whether the peak was above the upper bound from the same key, which the observation has now widened.
    ///
    /// A bound borrowed from another regime is an assumption and is never violated in this sense.
    pub violated: bool,
    /// Actual need over expected need, resident bytes excluded; `None` when nothing was known.
    pub ratio: Option<f64>,
}

impl Predictor {
    /// Starts without an observation.
    ///
    /// # Errors
    ///
    /// [`PredictError::OutOfRange`] for a setting outside its range.
    pub fn try_new(config: PredictorConfig) -> Result<Self, PredictError> {
        config.check()?;
        Ok(Self { config, models: BTreeMap::new() })
    }

    /// Learns the peak of a step and tells how it compares with the prediction.
    ///
    /// # Errors
    ///
    /// [`PredictError::EmptyShape`] without a sample or an extent, [`PredictError::OtherAxes`] when the job's features are
    /// over others, [`PredictError::NothingNeeded`] when the peak is not above the resident bytes; nothing is stored
    /// then.
    pub fn observe(&mut self, key: Key, observation: Observation) -> Result<Residual, PredictError> {
        let Observation { shape, resident, peak } = observation;
        let need = peak.saturating_sub(resident);
        if !self.config.features.fit(shape) {
            return Err(PredictError::OtherAxes { shape, n_axes: self.config.features.n_axes() });
        }
        if need == Bytes::ZERO {
            return Err(PredictError::NothingNeeded { shape, resident, peak });
        }
        let observed = ShapeNeed { shape, need };
        let known = self.need(key, shape);
        let residual = |violated| Residual {
            predicted: known.map(|it| above(resident, it)),
            violated,
            ratio: known.map(|it| need.share_of(it.expected)),
        };
        // The steady state of a run: a shape that is known, and no higher than it was.
        if self.models.get(&key).is_some_and(|model| model.certificate().knows(observed)) {
            return Ok(residual(false));
        }
        let (model, factor) = Model::learn(self.models.get(&key), observed, &self.config)?;
        self.models.insert(key, model);
        Ok(residual(factor.is_some()))
    }

    /// Returns what a step of this shape needs on top of `resident` bytes, or `None` when nothing is known, and for
    /// other axes than those of the job's features.
    ///
    /// While the key itself has no observation, the sibling regime (same phase, checkpointing and platform) with
    /// the largest bound stands in, and the bound is multiplied by [`PredictorConfig::regime_margin`]: assumed, not proved.
    pub fn predict(&self, key: Key, shape: StepShape, resident: Bytes) -> Option<Prediction> {
        self.need(key, shape).map(|it| above(resident, it))
    }

    /// Returns how many distinct shapes the key's model keeps, at most 64.
    pub fn n_observations(&self, key: Key) -> usize {
        self.models.get(&key).map_or(0, |model| model.certificate().needs().len())
    }

    /// Drops all observations of a key: after a change that makes them misleading, such as the end of autotuning.
    pub fn forget(&mut self, key: Key) {
        self.models.remove(&key);
    }

    fn need(&self, key: Key, shape: StepShape) -> Option<Need> {
        if !self.config.features.fit(shape) {
            return None;
        }
        if let Some(own) = self.models.get(&key) {
            return Some(own.need(shape, 1.0, &self.config));
        }
        let siblings = self.models.iter().filter(|(other, _)| other.is_sibling_of(key));
        siblings.map(|(_, model)| model.need(shape, self.config.regime_margin, &self.config)).max()
    }
}

fn above(resident: Bytes, need: Need) -> Prediction {
    Prediction { expected: resident.saturating_add(need.expected), upper: resident.saturating_add(need.upper) }
}

/// A predictor as it is written: its keys are no text, so that they cannot be the keys of a JSON object.
#[derive(Serialize, Deserialize)]
struct State {
    config: PredictorConfig,
    models: Vec<(Key, Vec<ShapeNeed>)>,
}

impl From<Predictor> for State {
    fn from(predictor: Predictor) -> Self {
        let models = predictor.models.iter().map(|(key, model)| (*key, model.certificate().needs().to_vec())).collect();
        Self { config: predictor.config, models }
    }
}

impl TryFrom<State> for Predictor {
    type Error = PredictError;

    fn try_from(state: State) -> Result<Self, PredictError> {
        let mut predictor = Self::try_new(state.config)?;
        for (key, needs) in state.models {
            let certificate = Certificate::try_new(state.config.features, needs)?;
            predictor.models.extend(Model::restored(certificate, &state.config).map(|model| (key, model)));
        }
        Ok(predictor)
    }
}
