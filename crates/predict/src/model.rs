//! What one key has taught.

use std::collections::BTreeMap;

use plimsoll_types::{Bytes, Features, StepShape};
use serde::{Deserialize, Serialize};

use crate::alone::{Alone, EVIDENT, TELLING};
use crate::certificate::{Certificate, ShapeNeed};
use crate::estimate::fit;
use crate::judged::Judged;
use crate::lift::Lift;
use crate::recent::{MEMORY, Recent, factor, parts};
use crate::row::{Judgement, Row, RowKey, Shown, Start};
use crate::shape_readings::Readings;
use crate::simplex::Vector;
use crate::{PredictError, PredictorConfig};

/// A need that the bound of the others lies so near above is implied by them.
const IMPLIED: f64 = 5e-7;

/// The bound and the estimate of one key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "State", into = "State")]
pub(crate) struct Model {
    certificate: Certificate,
    /// Of each shape that the certificate keeps, what was read of it lately.
    readings: BTreeMap<StepShape, Readings>,
    /// The factors, as [`parts`], that lift the bound over what was read lately.
    stretch: Recent,
    n_observations: u64,
    n_violations: u64,
    /// By how much needs are lifted.
    lift: Option<Lift>,
    /// What single samples count as in the certificate.
    alone: Alone,
    /// Whether all there is comes from a step that kept much of what it read.
    is_provisional: bool,
    /// Coefficients of the point estimate, in bytes per feature.
    theta: Vector,
    judged: Judged,
}

/// What a step needs above what is resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Need {
    pub(crate) upper: Bytes,
    pub(crate) expected: Bytes,
}

impl Model {
    /// Starts without a reading, of programs with gradient checkpointing or without.
    pub(crate) fn new(features: Features, checkpointing: bool) -> Self {
        Self::on(Certificate::for_programs(features, checkpointing))
    }

    fn on(certificate: Certificate) -> Self {
        Self {
            certificate,
            readings: BTreeMap::new(),
            stretch: Recent::default(),
            n_observations: 0,
            n_violations: 0,
            lift: None,
            alone: Alone::default(),
            is_provisional: false,
            theta: Vector::default(),
            judged: Judged::default(),
        }
    }

    /// Returns how many shapes are kept.
    pub(crate) fn n_shapes(&self) -> usize {
        self.certificate.needs().len()
    }

    /// Returns how many readings were above their bound.
    pub(crate) fn n_violations(&self) -> u64 {
        self.n_violations
    }

    /// Returns the need of a shape, with the certificate widened `margin` times.
    pub(crate) fn need(&self, shape: StepShape, margin: f64, config: &PredictorConfig) -> Need {
        let it = self.judgement(shape);
        let upper = Bytes::from_f64_ceil(self.widened(it.bound * margin, config)).saturating_add(config.beside);
        let upper = upper.max(it.lower);
        Need { upper, expected: Bytes::from_f64_ceil(it.point).min(upper).max(it.lower) }
    }

    fn widened(&self, bound: f64, config: &PredictorConfig) -> f64 {
        bound * factor(self.stretch.most()) * (1.0 + config.rounding_margin)
    }

    /// Drops what was worked out.
    pub(crate) fn forget_answers(&mut self) {
        self.judged.clear();
    }

    fn judgement(&self, shape: StepShape) -> Judgement {
        let row = RowKey::of(shape, &self.certificate);
        let work_out = |start: &Start| Row::new(row, &self.certificate, &self.theta, start);
        let known = self.judged.read(row, || self.start(), work_out, |it| it.at(shape.samples, &self.certificate));
        known.unwrap_or_else(|| {
            let limits = self.start().limits(shape.extent());
            let bound = limits.at_most(shape.samples, self.certificate.ceiling(shape));
            let point = self.certificate.at(&self.theta, shape).min(bound);
            Judgement { bound, point, lower: limits.lower(shape.samples) }
        })
    }

    fn start(&self) -> Start {
        let has_tables = self.certificate.has_tables();
        let shown = |(shape, known): (&StepShape, &Readings)| Shown {
            need: ShapeNeed { shape: *shape, need: known.need() },
            is_most: has_tables && known.lifted.is_none(),
        };
        Start::new(&self.certificate, self.readings.iter().map(shown).collect())
    }

    /// Returns the factor that a bound lacks for a reading of this need.
    fn lacking(bound: f64, need: Bytes, config: &PredictorConfig) -> f64 {
        need.saturating_sub(config.beside).as_f64() / (bound * (1.0 + config.rounding_margin))
    }

    /// Learns one more need, of a step whose graph had so many nodes; returns the bound of the shape where it was above that.
    ///
    /// A reading that holds what its step `kept` for good is too high by at most that: it serves only while nothing else is
    /// known, or where it is above its bound without it.
    pub(crate) fn learn(
        &mut self,
        read: ShapeNeed,
        nodes: u64,
        kept: Bytes,
        config: &PredictorConfig,
    ) -> Result<Option<Bytes>, PredictError> {
        self.certificate.check(read)?;
        let (is_first, is_clean) = (self.n_shapes() == 0, kept == Bytes::ZERO);
        let least = ShapeNeed { need: read.need.saturating_sub(kept), ..read };
        let bound = (!is_first).then(|| self.need(read.shape, 1.0, config).upper);
        let broken = bound.filter(|upper| *upper < least.need);
        let is_above = broken.is_some();
        if !is_clean && !is_first && !self.is_provisional && !is_above {
            return Ok(None);
        }
        // Where nothing is sure, what was read stands, whatever was kept.
        let it = if is_first || self.is_provisional { read } else { least };
        self.n_violations += u64::from(is_above);
        self.n_observations += 1;
        let mut is_explained = false;
        if is_clean && self.is_provisional {
            // What was known until now was too high, and is not worth lifting.
            let (n_observations, n_violations) = (self.n_observations, self.n_violations);
            *self = Self { n_observations, n_violations, ..Self::on(self.certificate.emptied()) };
        } else {
            self.is_provisional = !is_clean && (is_first || self.is_provisional);
            is_explained = is_above && self.raise_alone(it, config);
            if is_above && !is_explained {
                self.lift(it, config);
            }
        }
        if let Some(lift) = self.lift.filter(|it| it.is_over(self.n_observations)) {
            self.lapse(lift);
        }
        let is_new = !self.readings.contains_key(&it.shape);
        let pair = (is_new && it.shape.samples == 1).then(|| it.shape.with_samples(2));
        let two = pair.map(|it| self.certificate.value(it));
        let is_news = self.keep(it, nodes, is_above && !is_explained);
        if is_news && 1 < it.shape.samples {
            self.raise_alone(it, config);
        } else if pair.map(|it| self.certificate.value(it) * TELLING) < two {
            self.compare_with_batches(config);
        }
        let bound = if is_news { self.certificate.value(it.shape) } else { self.judgement(it.shape).bound };
        self.stretch.push(parts(Self::lacking(bound, it.need, config)), MEMORY);
        self.look_again();
        Ok(broken)
    }

    /// Counts single samples as more where those that are known by now would bound a batch that was read below what it took.
    fn compare_with_batches(&mut self, config: &PredictorConfig) {
        let of = |(shape, known): (&StepShape, &Readings)| ShapeNeed { shape: *shape, need: Bytes(known.needs.most()) };
        let batches = self.readings.iter().map(of).filter(|it| 1 < it.shape.samples);
        let worst = batches.max_by(|one, other| self.beyond(*one, config).total_cmp(&self.beyond(*other, config)));
        if let Some(worst) = worst {
            self.raise_alone(worst, config);
        }
    }

    /// Counts single samples as so much more that what a batch took is not above what they bound it by, for good, and says
    /// whether that does.
    fn raise_alone(&mut self, it: ShapeNeed, config: &PredictorConfig) -> bool {
        if it.shape.samples <= 1 || self.beyond(it, config) <= EVIDENT {
            return false;
        }
        let before = self.alone;
        let raised = before.raised(|alone| {
            self.count_again(alone);
            self.beyond(it, config) <= 1.0
        });
        self.count_again(raised.unwrap_or(before));
        raised.is_some()
    }

    /// Returns how many times the bound by tensors alone was needed: what stands on top of it is not there to hide how much
    /// batches take.
    fn beyond(&self, it: ShapeNeed, config: &PredictorConfig) -> f64 {
        it.need.as_f64() / self.widened(self.certificate.value(it.shape), config)
    }

    /// Lets the certificate have every need as it counts now, those of single samples by a factor.
    fn count_again(&mut self, alone: Alone) {
        self.alone = alone;
        let readings = &self.readings;
        self.certificate.replace_all(|shape| readings.get(&shape).map(|it| alone.counted(shape, it.need())));
        self.on_change();
    }

    /// Lifts every need by what the bound lacks for a reading, and that of its own shape up to it.
    ///
    /// It is measured against what was read before, so that one violation after the other lifts no more than the largest
    /// does; and what was read since the last of them is known.
    fn lift(&mut self, it: ShapeNeed, config: &PredictorConfig) {
        let before = self.settle(|_, _| None);
        let bound = self.certificate.value(it.shape) * factor(self.stretch.most());
        let lacking = Self::lacking(bound, it.need, config).max(1.0);
        let since = self.lift.map_or(u64::MAX, |it| it.at());
        let mut lift = self.lift.unwrap_or_default();
        lift.push(self.n_observations, Bytes::from_f64_ceil(it.need.as_f64() / lacking), it.need);
        self.settle(|shape, known| {
            let before = before.get(&shape).copied();
            if shape == it.shape {
                before.max(Some(it.need))
            } else if since.saturating_add(u64::from(2 * MEMORY)) <= known.due {
                before
            } else {
                Some(lift.of(Bytes(known.needs.most())))
            }
        });
        self.lift = Some(lift);
    }

    /// Lets needs be what was read, or learns what they were lifted to where that lasts.
    fn lapse(&mut self, lift: Lift) {
        let lasts = lift.lasts(self.n_observations);
        for known in self.readings.values_mut() {
            let met = std::mem::take(&mut known.met);
            known.lifted.filter(|_| lasts).into_iter().for_each(|it| known.push(it.max(met)));
        }
        self.settle(|_, _| None);
        self.lift = None;
    }

    /// Lifts needs to so much, or lets them be what was read; returns what they were lifted to before.
    fn settle(&mut self, lifted: impl Fn(StepShape, Readings) -> Option<Bytes>) -> BTreeMap<StepShape, Bytes> {
        let (mut before, mut has_changed) = (BTreeMap::new(), false);
        for (shape, known) in &mut self.readings {
            let now = lifted(*shape, *known);
            let was = std::mem::replace(&mut known.lifted, now);
            has_changed |= was != known.lifted;
            before.extend(was.map(|was| (*shape, was)));
        }
        if has_changed {
            self.count_again(self.alone);
        }
        before
    }

    /// Takes a reading into those of its shape, which is kept unless the others tell more, and says whether what was learnt has
    /// changed any bound.
    ///
    /// One that is above its bound has lifted its shape, and is not learnt on top of that: what takes memory for a moment
    /// leaves nothing behind, and what lasts is read again. Meanwhile the shape needs no less than that.
    fn keep(&mut self, it: ShapeNeed, nodes: u64, is_above: bool) -> bool {
        let due = self.n_observations + u64::from(2 * MEMORY);
        let mut is_met = false;
        if let Some(known) = self.readings.get_mut(&it.shape) {
            known.due = due;
            let (was, read) = (known.need(), Bytes(known.needs.most()));
            let meets = |lift: &mut Lift| lift.meets(self.n_observations, (read, was), it.need);
            is_met = is_above || known.lifted.is_some() && self.lift.as_mut().is_some_and(meets);
            if is_met {
                known.met = known.met.max(it.need);
            } else {
                known.push(it.need);
            }
            let (now, at) = (known.need(), self.certificate.place(it.shape));
            let is_counted = !is_met && at.is_some_and(|at| self.certificate.count(at, nodes));
            if now == was && !is_counted {
                return false;
            }
            if let Some(at) = at {
                self.certificate.replace(at, self.alone.counted(it.shape, now));
            }
        } else {
            let need = self.alone.counted(it.shape, it.need);
            if !self.certificate.push(ShapeNeed { need, ..it }, nodes) {
                return false;
            }
            if self.n_shapes() <= self.readings.len() {
                let needs = self.certificate.needs();
                self.readings.retain(|shape, _| needs.iter().any(|it| it.shape == *shape));
            }
            let mut known = Readings { due, ..Readings::default() };
            known.push(it.need);
            self.readings.insert(it.shape, known);
        }
        self.on_change();
        !is_met
    }

    /// Drops a shape that was not read for long and whose need the others imply, or contradict: what is newer counts.
    fn look_again(&mut self) {
        let Some((shape, old)) = self.readings.iter_mut().min_by_key(|(_, it)| it.due) else { return };
        // What is lifted says little of what implies what.
        if self.n_observations < old.due || self.lift.is_some() {
            return;
        }
        old.due = self.n_observations + u64::from(MEMORY);
        let (shape, need) = (*shape, self.alone.counted(*shape, old.need()).as_f64());
        let Some(at) = self.certificate.place(shape) else { return };
        if self.certificate.by_others(at) <= need * (1.0 + IMPLIED) {
            self.certificate.forget(at);
            self.readings.remove(&shape);
            self.on_change();
        }
    }

    fn on_change(&mut self) {
        self.theta = fit(&self.certificate);
        self.judged.clear();
    }
}

/// A model as it is written: what was read, and nothing that follows from it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    certificate: Certificate,
    /// In the order of the certificate's.
    readings: Vec<Readings>,
    stretch: Recent,
    n_observations: u64,
    n_violations: u64,
    #[serde(default)]
    lift: Option<Lift>,
    #[serde(default)]
    alone: Alone,
    is_provisional: bool,
}

impl From<Model> for State {
    fn from(model: Model) -> Self {
        let Model { certificate, readings, stretch, n_observations, n_violations, lift, alone, is_provisional, .. } =
            model;
        let readings = certificate.needs().iter().map(|it| readings.get(&it.shape).copied().unwrap_or_default());
        let readings = readings.collect();
        Self { certificate, readings, stretch, n_observations, n_violations, lift, alone, is_provisional }
    }
}

impl From<State> for Model {
    fn from(state: State) -> Self {
        let State { certificate, readings, stretch, n_observations, n_violations, lift, alone, is_provisional } = state;
        let readings: BTreeMap<_, _> = certificate.needs().iter().map(|it| it.shape).zip(readings).collect();
        let theta = fit(&certificate);
        let judged = Judged::default();
        Self {
            certificate,
            readings,
            stretch,
            n_observations,
            n_violations,
            lift,
            alone,
            is_provisional,
            theta,
            judged,
        }
    }
}
