//! One model per key, and one front door for devices that tell different things.

use std::collections::BTreeMap;

use plimsoll_types::{Bytes, Prediction, StepShape};
use serde::{Deserialize, Serialize};

use crate::certificate::ShapeNeed;
use crate::model::{Model, Need};
use crate::{Key, PartReading, Peak, PredictError, PredictorConfig, Reserved, Source, Violation};

/// Predicts the peak of a step from what was read of earlier ones, and from plans.
///
/// # The route, by device
///
/// | the device tells | an answer comes from |
/// |---|---|
/// | exact peaks of the bytes in use ([`Peak::Exact`]) | the key's [`Certificate`](crate::Certificate), on top of what is resident |
/// | what its allocator reserves in pages ([`Peak::Reserved`]) | [`Reserved`]: memo, then plan ([`Self::plan`]), then the certificate route to reserved bytes |
///
/// What pages hold never becomes a constraint on the bytes in use: a [`PartReading`] says which of the two its peak is.
/// Of a shape that has neither run nor been planned both say something after one reading.
///
/// # The bound of what is in use
///
/// `upper = resident + bound · stretch · (1 + rounding_margin) + packed + beside`, and at least the need of every shape that is kept
/// and covered, where `bound` is the key's [`Certificate`](crate::Certificate) and `stretch` the largest factor, at least 1, that a reading of
/// the last 48 to 96 had above `bound`.
/// So an observed shape never gets a bound below its own need, whatever the observations are, while it is kept.
/// Peaks of a fixed program leave `stretch` at 1; readings that contradict one (noise, or a larger shape that needed less)
/// raise it by as much as they contradict.
///
/// # Products that pack
///
/// How much a product of matrices packs is no combination of features: its depth is cut into equal pieces of at most 512 or
/// 1 024, so that one of 640 packs less at a time than one of 512; and of a matrix with few rows all are packed, of one with
/// more only some.
/// So a batch may need more than a larger one, or more than lies on the line between two others; but never by more than is
/// packed at a time, and the most that ever was ([`PartReading::packed`]) stands on top of each bound.
/// A reading that packed more than any before it raises all bounds by that, and is held against its own as it is then.
///
/// Why that is enough, for a depth in proportion to a feature: of depth `k` pieces of `p(k) = k / ceil(k / q)` are packed.
/// Let `y` be the depth that was read for which `p(y) / y` is least; a combination of features that was nowhere above what was
/// packed reaches `p(y) k / y` by the bound alone. Then `p(k) <= p(y) k / y + p(y)`:
/// where `y <= q`, the first term is `k`; where `q < y < k`, the right side is at least `2 p(y)`, which is above `q`; and where
/// `k <= y`, with `j q < y <= (j + 1) q` and `k` in `i` pieces, it says `k (j + 1 - i) <= i y`, which follows from `k <= i q`.
/// Of rows that grow with a shape until only some are packed, it is what smaller shapes have shown: up to 1 024 of them.
///
/// # Work that is divided
///
/// Where a piece of work is large enough, threads divide it, and each has a buffer that one thread had for a smaller one: what
/// is needed jumps, as no combination of features does. A peak has one of these buffers as what one thread takes, divided or
/// not, and so every reading is at least the need with one; the others, as large as any that was seen, stand on top of each
/// bound with what is packed.
///
/// # Single samples
///
/// A batch may take more for each sample than one by itself: permuting the axes of a batch of one copies nothing, for example.
/// So what was read of single samples bounds batches only as far as these agree: from the first batch that took more, be it
/// read before or after, it counts by a factor, at most 2, and for good.
///
/// # Tables that double
///
/// Where a program keeps its graph in hash tables, these double from one shape to the next, and what they take is no
/// combination of features; but their buckets follow from the nodes of the graph, which a reading counts
/// ([`PartReading::nodes`]), and the [`Certificate`](crate::Certificate) takes them as one feature more.
/// Nobody knows in which of two neighbouring sizes a table is that is nearly full: a reading counts with the smaller one,
/// and a shape that was not read with the larger. A shape that was read has shown its tables, so that neither it nor what
/// it covers needs more than it took.
///
/// # A need falls
///
/// The need of a shape is the largest of its last 16 to 32 clean readings.
/// What was read once, because something else took memory just then, lapses with them; so does what a shape needed
/// before the program changed.
/// A shape that nobody read for 96 readings of its key is dropped when the others imply it or contradict it.
///
/// # A violation
///
/// A need above its upper bound shows that the program is not the one that was observed before, or that something else
/// took memory just then.
/// By the factor `s` that would have bounded it, *every* need of the key is lifted: the certificate is homogeneous, so that
/// the bound of every shape grows `s`-fold at once, and the need of the shape itself rises to what was read.
/// Where what single samples count as explains it, as above, these are raised, and nothing else.
/// Further violations are measured against what was read before the first, so that lifts do not add up; several of
/// them that an amount explains as well lift by the less of both, and what was read since is known.
///
/// What was read stays what it is meanwhile, the violation is not learnt yet, and after 48 readings without another the
/// lift is gone: what took memory for a moment leaves nothing behind, however often it comes.
/// Where one of the last 16 readings was still nearer to what it had been lifted to than to what it was, the program has
/// changed: then all needs are learnt as they were lifted, and each returns to what it reads after 16 to 32 further
/// readings of its shape.
///
/// # A step that keeps
///
/// The first step of a process creates the optimizer's state, thread pools and work space that stay: the reading of a part
/// that may have kept some of that is too high by what it kept.
/// Such a reading (more than a hundredth of what the step's parts need was kept) serves only while nothing else is known,
/// and is forgotten at the next clean one; without what was kept it is held against its bound all the same, and above that
/// it is learnt.
/// A part between others has kept what it left in use for the next, which as a rule is nothing: it is clean.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "State", into = "State")]
pub struct Predictor {
    config: PredictorConfig,
    /// The most that a product of matrices was read to pack.
    packed: Bytes,
    models: BTreeMap<Key, Model>,
    pools: BTreeMap<Key, Reserved>,
}

/// How an observation compares with what was predicted for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Residual {
    /// What was predicted before the observation; `None` when nothing was known.
    pub predicted: Option<Prediction>,
    /// Whether the peak was above the upper bound from the same key, which the observation has now lifted.
    ///
    /// A bound borrowed from another regime is an assumption and is never violated in this sense.
    pub violated: bool,
    /// Actual need over expected need, resident bytes excluded; `None` when nothing was known.
    pub ratio: Option<f64>,
}

/// A part that may have kept more than one part in so many of what its step needed reads too much to learn from: the rounding
/// margin is as large.
pub const KEPT_SHARE: u64 = 100;

impl Predictor {
    /// Starts without an observation.
    ///
    /// # Errors
    ///
    /// [`PredictError::OutOfRange`] for a setting outside its range.
    pub fn try_new(config: PredictorConfig) -> Result<Self, PredictError> {
        config.check()?;
        Ok(Self { config, packed: Bytes::ZERO, models: BTreeMap::new(), pools: BTreeMap::new() })
    }

    /// Learns what was read of the parts of one step, in order, which kept `kept` bytes for good, and returns the readings
    /// that were above their bounds.
    ///
    /// A part that stayed within what was in use before it teaches nothing.
    /// What a part keeps may lie in its own peak, and is no need of the next step: of a step that keeps much, so much less
    /// is asked of the bounds of the parts that may have kept it.
    ///
    /// # Errors
    ///
    /// [`PredictError::EmptyShape`] or [`PredictError::OtherAxes`] for a part; those before it are learnt then.
    pub fn observe_step(&mut self, parts: &[(Key, PartReading)], kept: Bytes) -> Result<Vec<Violation>, PredictError> {
        let most = parts.iter().map(|(_, it)| it.need()).max().unwrap_or(Bytes::ZERO);
        let mut violations = Vec::new();
        for (at, (key, it)) in parts.iter().enumerate().filter(|(_, (_, it))| Bytes::ZERO < it.need()) {
            let own = kept_by(parts, at, kept);
            let is_much = most < own.saturating_mul(KEPT_SHARE) && matches!(it.peak, Peak::Exact(_));
            let own = if is_much { own } else { Bytes::ZERO };
            let upper = self.observe_part(*key, *it, own)?;
            violations.extend(upper.map(|upper| Violation { shape: it.shape, upper, peak: it.peak.bytes() }));
        }
        Ok(violations)
    }

    /// Learns a part that may hold `kept` bytes which stay, and returns its bound where it was above that.
    fn observe_part(&mut self, key: Key, it: PartReading, kept: Bytes) -> Result<Option<Bytes>, PredictError> {
        let PartReading { shape, before, peak, nodes, packed } = it;
        match peak {
            Peak::Exact(_) => {
                self.note_packed(packed);
                let config = self.config_with_packed();
                let model =
                    self.models.entry(key).or_insert_with(|| Model::new(self.config.features, key.checkpointing));
                let learnt = model.learn(ShapeNeed { shape, need: it.need() }, nodes, kept, &config);
                self.models.retain(|_, it| it.n_shapes() > 0);
                Ok(learnt?.map(|it| before.saturating_add(kept).saturating_add(it)))
            }
            Peak::Reserved { bytes, page } => {
                let learnt = self.pool(key).observe_reading(shape, before, (bytes, page))?;
                let others = self.pools.iter_mut().filter(|(other, _)| **other != key && other.shares_pages_with(key));
                others.for_each(|(_, it)| it.observe_page(page));
                Ok(learnt)
            }
        }
    }

    /// Learns the peak of a step that kept nothing, and tells how it compares with the prediction.
    ///
    /// # Errors
    ///
    /// [`PredictError::EmptyShape`] without a sample or an extent, [`PredictError::OtherAxes`] when the job's features are
    /// over others, [`PredictError::NothingNeeded`] when the peak is not above the resident bytes; nothing is stored
    /// then.
    pub fn observe(&mut self, key: Key, reading: impl Into<PartReading>) -> Result<Residual, PredictError> {
        let part = reading.into();
        let (shape, resident, peak) = (part.shape, part.before, part.peak.bytes());
        let need = part.need();
        if need == Bytes::ZERO {
            return Err(PredictError::NothingNeeded { shape, resident, peak });
        }
        let known = self.need(key, shape);
        let violated = self.observe_part(key, part, Bytes::ZERO)?.is_some();
        let (predicted, ratio) = (known.map(|it| above(resident, it)), known.map(|it| need.share_of(it.expected)));
        Ok(Residual { predicted, violated, ratio })
    }

    /// Notes what a product of matrices packs at most.
    pub fn note_packed(&mut self, packed: Bytes) {
        self.packed = self.packed.max(packed);
    }

    /// Returns the configuration, with what products pack beside the tensors of a step.
    fn config_with_packed(&self) -> PredictorConfig {
        PredictorConfig { beside: self.config.beside.saturating_add(self.packed), ..self.config }
    }

    /// Notes what a dry run says that an allocator with pages reserves for a shape, in place of an earlier plan of it.
    ///
    /// # Errors
    ///
    /// As [`Reserved::plan`].
    pub fn plan(&mut self, key: Key, shape: StepShape, planned: Prediction) -> Result<(), PredictError> {
        let pool = self.pool(key);
        pool.plan(shape, planned.expected)?;
        pool.correct(planned.upper.saturating_sub(planned.expected).max(pool.correction()));
        Ok(())
    }

    /// Returns what is known of a key's reserved bytes; what it has not read itself begins with the pages that others have read.
    fn pool(&mut self, key: Key) -> &mut Reserved {
        let page = self.pools.iter().filter(|(other, _)| other.shares_pages_with(key)).map(|(_, it)| it.page()).max();
        self.pools.entry(key).or_insert_with(|| {
            let mut pool = Reserved::new(self.config.features);
            if let Some(page) = page {
                pool.observe_page(page);
            }
            pool
        })
    }

    /// Returns what a step of this shape needs on top of `resident` bytes, or `None` when nothing is known, and for
    /// other axes than those of the job's features.
    ///
    /// While the key itself has no observation, the sibling regime (same phase, checkpointing and platform) with
    /// the largest bound stands in, and the bound is multiplied by [`PredictorConfig::regime_margin`]: assumed, not proved.
    pub fn predict(&self, key: Key, shape: StepShape, resident: Bytes) -> Option<Prediction> {
        let reserved = self.pools.get(&key).and_then(|it| it.predict(shape, resident));
        let reserved = reserved.map(|it| Prediction { expected: it.expected, upper: it.upper });
        reserved.or_else(|| self.need(key, shape).map(|it| above(resident, it)))
    }

    /// Whether a shape, or one that covers it, was planned, or the shape has run where pages are read.
    pub fn is_planned(&self, key: Key, shape: StepShape) -> bool {
        let found = self.pools.get(&key).and_then(|it| it.predict(shape, Bytes::ZERO));
        found.is_some_and(|it| it.source != Source::Certificate)
    }

    /// Returns what it was told.
    pub fn config(&self) -> &PredictorConfig {
        &self.config
    }

    /// Returns how many readings were above their bound, of all keys.
    pub fn n_violations(&self) -> u64 {
        let of_pools = self.pools.values().map(Reserved::n_violations);
        self.models.values().map(Model::n_violations).chain(of_pools).sum()
    }

    /// Drops what was worked out and can be worked out again: a part is read with all that the program holds.
    pub fn forget_answers(&mut self) {
        self.models.values_mut().for_each(Model::forget_answers);
    }

    /// Drops all observations of a key: after a change that makes them misleading, such as the end of autotuning.
    pub fn forget(&mut self, key: Key) {
        self.models.remove(&key);
        self.pools.remove(&key);
    }

    fn need(&self, key: Key, shape: StepShape) -> Option<Need> {
        if !self.config.features.fit(shape) {
            return None;
        }
        let config = self.config_with_packed();
        if let Some(own) = self.models.get(&key) {
            return Some(own.need(shape, 1.0, &config));
        }
        let siblings = self.models.iter().filter(|(other, _)| other.is_sibling_of(key));
        siblings.map(|(_, model)| model.need(shape, config.regime_margin, &config)).max()
    }
}

/// Returns how much of what a step kept may lie in the peak of one of its parts: at most what that part has left in use for
/// the next one.
///
/// The first part leaves the sum of gradients as well, and the window of the last holds the optimizer's step: either may
/// have kept all there is.
fn kept_by(parts: &[(Key, PartReading)], at: usize, kept: Bytes) -> Bytes {
    match parts.get(at + 1) {
        Some((_, next)) if 0 < at => next.before.saturating_sub(parts[at].1.before).min(kept),
        _ => kept,
    }
}

fn above(resident: Bytes, need: Need) -> Prediction {
    Prediction { expected: resident.saturating_add(need.expected), upper: resident.saturating_add(need.upper) }
}

/// A predictor as it is written: its keys are no text, so that they cannot be the keys of a JSON object.
#[derive(Serialize, Deserialize)]
struct State {
    config: PredictorConfig,
    #[serde(default, skip_serializing_if = "plimsoll_types::is_zero")]
    packed: Bytes,
    models: Vec<(Key, Model)>,
    pools: Vec<(Key, Reserved)>,
}

impl From<Predictor> for State {
    fn from(predictor: Predictor) -> Self {
        let Predictor { config, packed, models, pools } = predictor;
        Self { config, packed, models: models.into_iter().collect(), pools: pools.into_iter().collect() }
    }
}

impl TryFrom<State> for Predictor {
    type Error = PredictError;

    fn try_from(state: State) -> Result<Self, PredictError> {
        let mut predictor = Self { packed: state.packed, ..Self::try_new(state.config)? };
        predictor.models.extend(state.models);
        predictor.pools.extend(state.pools);
        Ok(predictor)
    }
}
