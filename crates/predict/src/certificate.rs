//! A hard upper bound from the peaks of other shapes.

mod graphs;
mod state;

use plimsoll_types::{Bytes, Features, StepShape};
use serde::{Deserialize, Serialize};

use self::graphs::Graphs;
use self::state::State;
use crate::PredictError;
use crate::simplex::{Constraints, Corner, MAX_ROWS, Sweep, Vector, dot};

/// Relative error that the bound adds on top of the linear program's value.
///
/// The simplex neglects less than `1e-11` and a size beyond 8 PiB is rounded by `1e-16` when it becomes a float.
const FLOAT_ERROR: f64 = 1e-9;

/// Shapes that are looked at again before one goes: a linear program each.
const LOOKED_AT: usize = 4;

/// Parts per million in one.
const MILLION: f64 = 1e6;

/// What a step of one shape needs above what is resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShapeNeed {
    /// Padded shape of the step.
    pub shape: StepShape,
    /// Peak less resident bytes. Too much is safe, too little is not.
    pub need: Bytes,
}

/// A hard upper bound on the need of a fixed program, from what other shapes needed.
///
/// With the features `phi(x)` of a shape and the needs `a_i` of the observed shapes `x_i`,
///
/// ```text
/// bound(x) = max { theta · phi(x) : theta >= 0, theta · phi(x_i) <= a_i for all i }
/// ```
///
/// # Why it holds
///
/// At each instant `t` of a fixed program the live bytes are `theta_t · phi(x)` with `theta_t >= 0`, and the need is
/// their maximum `M(x)` over `t`.
/// Since `theta_t · phi(x_i) <= M(x_i) <= a_i`, each `theta_t` is allowed above, so that `M(x) <= bound(x)`.
/// An optimal `theta` is itself a possible program: nothing tighter follows from the same readings.
/// After one observation the bound is `a_1` times the largest of the ratios `phi_j(x) / phi_j(x_1)`.
///
/// It needs a program that is fixed, features that are complete for it ([`Features`]), and readings that are not too low.
/// Readings that no fixed program explains may leave `bound(x_i)` below `a_i`; [`Predictor`](crate::Predictor) makes up
/// for that.
///
/// # Tables
///
/// What a program keeps in tables that double is no combination of features, but how many buckets they have follows from
/// the nodes of its graph: where one of these is large, buckets are one feature more, of which `theta` holds at most so many
/// bytes as tables take.
/// Of a shape that was not read, the nodes are bounded by those of the others.
/// The proof needs besides that all tables of a graph have as many buckets, that at most one node in twenty has no entry,
/// and that a graph grows no faster than the product of its axes: frozen layers, whose nodes have no gradient, and loops
/// over pairs of positions break it.
///
/// # What is kept
///
/// One need per shape: readings carry noise, and a peak may be over-read.
/// Hence a higher reading of a known shape raises the bound.
/// Of 65 shapes, or 64 where tables count, the one goes whose absence raises the bound at its own shape least, in
/// proportion: for each, that is known from when it came, and the 4 where it was least are looked at again.
/// A dropped constraint only loosens the bound.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "State", into = "State")]
pub struct Certificate {
    features: Features,
    /// One per shape, oldest first.
    needs: Vec<ShapeNeed>,
    /// For each, by how many parts per million its bound by the others was above it, when that was last looked at.
    spare: Vec<u32>,
    /// The graph of each.
    graphs: Graphs,
    /// The features of each.
    values: Vec<Vector>,
    /// The most that each coefficient of `theta` can be, in bytes per feature.
    scales: Vector,
    /// The constraints, scaled to `row · z <= 1` with entries within 0 and 1.
    rows: Vec<Vector>,
    /// The same, for the linear program.
    constraints: Constraints,
}

impl Certificate {
    /// Starts without an observation, for programs whose tensors are combinations of these features.
    pub fn new(features: Features) -> Self {
        Self::with_graphs(features, Graphs::default())
    }

    /// The same, for programs with gradient checkpointing or without.
    pub(crate) fn for_programs(features: Features, checkpointing: bool) -> Self {
        Self::with_graphs(features, Graphs::new(checkpointing))
    }

    /// The same as it was when it started.
    pub(crate) fn emptied(&self) -> Self {
        Self::with_graphs(self.features, self.graphs.emptied())
    }

    fn with_graphs(features: Features, graphs: Graphs) -> Self {
        let (needs, spare, values, scales, rows, constraints) = Default::default();
        Self { features, needs, spare, graphs, values, scales, rows, constraints }
    }

    /// Learns several needs, in this order.
    ///
    /// # Errors
    ///
    /// As [`Self::observe`].
    pub fn try_new(features: Features, needs: impl IntoIterator<Item = ShapeNeed>) -> Result<Self, PredictError> {
        let mut certificate = Self::new(features);
        needs.into_iter().try_for_each(|it| certificate.observe(it))?;
        Ok(certificate)
    }

    /// Learns what a step of some shape needed.
    ///
    /// # Errors
    ///
    /// [`PredictError::EmptyShape`], [`PredictError::OtherAxes`] or [`PredictError::NothingNeeded`]; nothing is stored
    /// then.
    pub fn observe(&mut self, observed: ShapeNeed) -> Result<(), PredictError> {
        self.check(observed)?;
        match self.place(observed.shape) {
            Some(at) if observed.need <= self.needs[at].need => {}
            Some(at) => self.replace(at, observed.need),
            None => drop(self.push(observed, 0)),
        }
        Ok(())
    }

    /// Refuses what cannot be learnt.
    pub(crate) fn check(&self, ShapeNeed { shape, need }: ShapeNeed) -> Result<(), PredictError> {
        if shape.is_empty() {
            return Err(PredictError::EmptyShape(shape));
        }
        if !self.features.fit(shape) {
            return Err(PredictError::OtherAxes { shape, n_axes: self.features.n_axes() });
        }
        if need == Bytes::ZERO {
            return Err(PredictError::NothingNeeded { shape, resident: Bytes::ZERO, peak: need });
        }
        Ok(())
    }

    /// Returns where a shape is kept.
    pub(crate) fn place(&self, shape: StepShape) -> Option<usize> {
        self.needs.iter().position(|it| it.shape == shape)
    }

    /// Sets what a shape needs, be it more or less than before.
    pub(crate) fn replace(&mut self, at: usize, need: Bytes) {
        let was = std::mem::replace(&mut self.needs[at].need, need);
        self.spare[at] = spare((1.0 + f64::from(self.spare[at]) / MILLION) * was.share_of(need) - 1.0);
        self.rebuild();
    }

    /// Sets what all shapes need, where that is said.
    pub(crate) fn replace_all(&mut self, need: impl Fn(StepShape) -> Option<Bytes>) {
        for known in &mut self.needs {
            known.need = need(known.shape).unwrap_or(known.need);
        }
        self.rebuild();
    }

    /// Forgets a shape.
    pub(crate) fn forget(&mut self, at: usize) {
        self.remove(at);
        self.rebuild();
    }

    fn remove(&mut self, at: usize) {
        self.needs.remove(at);
        self.spare.remove(at);
        self.graphs.remove(at);
        self.values.remove(at);
    }

    /// Returns the bound at a shape that is kept by all the others, in bytes; endless where they are none.
    pub(crate) fn by_others(&self, at: usize) -> f64 {
        if self.needs.len() == 1 {
            return f64::INFINITY;
        }
        self.solve(&self.values[at], Corner::new(&self.constraints).without(at))
    }

    /// Keeps a shape that is not kept yet, with a graph of so many nodes, unless it would be the first to go, and says whether
    /// it does.
    pub(crate) fn push(&mut self, it: ShapeNeed, nodes: u64) -> bool {
        let is_first = self.needs.is_empty() || 0 < nodes && !self.has_tables();
        let above = self.value(it.shape) / it.need.as_f64() - 1.0;
        let spare = if is_first { u32::MAX } else { spare(above) };
        // Tables have a row of their own.
        let most = MAX_ROWS - usize::from(self.has_tables() || 0 < nodes);
        if most <= self.needs.len() {
            let least = if spare == 0 { None } else { Some(self.least_informative()) };
            let Some(least) = least.filter(|least| self.spare[*least] <= spare) else { return false };
            self.remove(least);
        }
        if most <= self.needs.len() {
            // What goes next is found among what is left.
            self.rebuild();
            let least = self.least_informative();
            self.remove(least);
        }
        self.graphs.push(self.needs.len(), nodes);
        self.needs.push(it);
        self.spare.push(spare);
        self.values.push(self.values_of(it.shape, self.graphs.buckets_of(self.needs.len() - 1)));
        self.rebuild();
        true
    }

    /// Counts the nodes of the graph of a shape that is kept, and says whether that was news.
    pub(crate) fn count(&mut self, at: usize, nodes: u64) -> bool {
        let is_news = self.graphs.widen(at, nodes);
        if is_news {
            self.revalue();
        }
        is_news
    }

    /// Whether a graph was so large that tables count.
    pub(crate) fn has_tables(&self) -> bool {
        self.graphs.are_large()
    }

    /// Returns how many features there are, with that of tables.
    pub(crate) fn n_slots(&self) -> usize {
        self.features.len() + usize::from(self.has_tables())
    }

    /// Returns the most buckets that the tables of a step of this shape have, or zero where graphs are small.
    pub(crate) fn buckets(&self, shape: StepShape) -> u64 {
        self.graphs.most_buckets(shape, &self.needs)
    }

    /// Returns the features of a shape, with that of its tables.
    fn values_of(&self, shape: StepShape, buckets: u64) -> Vector {
        let mut values = Vector::default();
        let of_shape = self.features.of(shape);
        values[..of_shape.len()].copy_from_slice(&of_shape);
        values[self.features.len()] = buckets as f64;
        values
    }

    /// Looks again at the shapes that told least, and returns the one that tells least now, the oldest among equals.
    fn least_informative(&mut self) -> usize {
        let mut order: Vec<usize> = (0..self.needs.len()).collect();
        order.select_nth_unstable_by_key(LOOKED_AT - 1, |at| (self.spare[*at], *at));
        for at in &order[..LOOKED_AT] {
            self.spare[*at] = spare(self.by_others(*at) / self.needs[*at].need.as_f64() - 1.0);
        }
        order[..LOOKED_AT].iter().copied().min_by_key(|at| (self.spare[*at], *at)).unwrap_or(0)
    }

    /// Returns the most that a step of this shape can need, or `None` without an observation, and for a shape with other
    /// axes than those that were observed.
    pub fn bound(&self, shape: StepShape) -> Option<Bytes> {
        (!self.needs.is_empty() && self.features.fit(shape)).then(|| Bytes::from_f64_ceil(self.ceiling(shape)))
    }

    /// Returns the least that a step of this shape needs: the largest need of a shape that it covers.
    pub fn lower(&self, shape: StepShape) -> Bytes {
        self.needs.iter().filter(|it| shape.covers(it.shape)).map(|it| it.need).max().unwrap_or_default()
    }

    /// Returns what tensors are combinations of.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// Returns the needs behind the bound, one per shape, oldest first.
    pub fn needs(&self) -> &[ShapeNeed] {
        &self.needs
    }

    /// Returns the bound before it is rounded to whole bytes, or zero without an observation.
    pub(crate) fn ceiling(&self, shape: StepShape) -> f64 {
        self.value(shape) * (1.0 + FLOAT_ERROR)
    }

    /// Returns the maximum of the linear program in bytes, or zero without an observation.
    pub(crate) fn value(&self, shape: StepShape) -> f64 {
        if self.needs.is_empty() {
            return 0.0;
        }
        self.solve(&self.values_of(shape, self.buckets(shape)), Corner::new(&self.constraints))
    }

    /// Returns what a program with these coefficients needs for a shape, in bytes.
    pub(crate) fn at(&self, theta: &Vector, shape: StepShape) -> f64 {
        dot(theta, &self.values_of(shape, self.buckets(shape)))
    }

    /// Returns the corner where the newest of the shapes that are kept needs most: from there it is not far to where
    /// another shape does.
    pub(crate) fn corner(&self) -> Corner {
        let mut corner = Corner::new(&self.constraints);
        corner.climb(&self.constraints, &self.objective(&self.values.last().copied().unwrap_or_default()).0);
        corner
    }

    /// Returns the features that a shape with tables of so many buckets has whatever its samples are, and those of one
    /// sample; where some grow faster, the features of the shape itself.
    pub(crate) fn along_samples(&self, shape: StepShape, buckets: u64) -> (Vector, Vector) {
        if !self.features.are_linear_in_samples() {
            return (self.values_of(shape, buckets), Vector::default());
        }
        let [none, one] = [0, 1].map(|n| self.values_of(shape.with_samples(n), buckets));
        (none, std::array::from_fn(|feature| one[feature] - none[feature]))
    }

    /// Returns the bound as a function of the number of samples, as the maximum of `base + n · slope`, from a corner of this
    /// certificate.
    pub(crate) fn sweep(&self, corner: Corner, base: &Vector, slope: &Vector) -> Sweep {
        Sweep::new(corner, multiply(base, &self.scales), multiply(slope, &self.scales))
    }

    /// Returns the bound of so many samples, as [`Self::ceiling`], or `None` where finding it takes too many pivots.
    pub(crate) fn along(&self, sweep: &mut Sweep, samples: u32) -> Option<f64> {
        sweep.line(samples, &self.constraints).map(|it| it.at(samples) * (1.0 + FLOAT_ERROR))
    }

    /// Returns an objective whose largest coefficient is 1, and what that stands for.
    fn objective(&self, values: &Vector) -> (Vector, f64) {
        let objective = multiply(values, &self.scales);
        let largest = objective.into_iter().fold(0.0, f64::max);
        (objective.map(|value| value / largest), largest)
    }

    fn solve(&self, values: &Vector, mut corner: Corner) -> f64 {
        let (objective, largest) = self.objective(values);
        largest * corner.climb(&self.constraints, &objective)
    }

    /// Returns the constraints of all needs, and the factors that they are scaled by.
    pub(crate) fn scaled(&self) -> (&[Vector], Vector) {
        (&self.rows, self.scales)
    }

    /// Works out the features of all needs anew.
    fn revalue(&mut self) {
        let shapes = self.needs.iter().enumerate();
        self.values = shapes.map(|(at, it)| self.values_of(it.shape, self.graphs.buckets_of(at))).collect();
        self.rebuild();
    }

    fn rebuild(&mut self) {
        let (n, n_features) = (self.n_slots(), self.features.len());
        self.scales = Vector::default();
        self.scales[..n_features].fill(f64::INFINITY);
        let most = self.graphs.bytes_per_bucket();
        self.scales[n_features..n].fill(most);
        for (it, values) in self.needs.iter().zip(&self.values) {
            let need = it.need.as_f64();
            self.scales[..n].iter_mut().zip(values).for_each(|(scale, value)| *scale = scale.min(need / value));
        }
        self.rows.clear();
        for (it, values) in self.needs.iter().zip(&self.values) {
            let per_byte = 1.0 / it.need.as_f64();
            self.rows.push(multiply(values, &self.scales).map(|cost| cost * per_byte));
        }
        let mut tables = Vector::default();
        tables[n_features] = self.scales[n_features] / most;
        let tables = (n_features < n).then_some(&tables);
        self.constraints = Constraints::new(n, self.rows.iter().chain(tables));
    }
}

impl Default for Certificate {
    fn default() -> Self {
        Self::new(Features::default())
    }
}

fn multiply(a: &Vector, b: &Vector) -> Vector {
    std::array::from_fn(|feature| a[feature] * b[feature])
}

/// Returns a share above 0 in whole parts per million; what is below 0 tells nothing.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float-to-integer cast saturates, and what is below 0 becomes 0"
)]
fn spare(above: f64) -> u32 {
    (above * MILLION) as u32
}
