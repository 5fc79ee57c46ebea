//! What is said of every number of samples of one extent.

use plimsoll_types::{Bytes, Extent, StepShape};

use crate::certificate::{Certificate, ShapeNeed};
use crate::simplex::{Corner, Line, Sweep, Vector, dot};

/// What the readings say of a shape, without margins, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Judgement {
    pub(crate) bound: f64,
    pub(crate) point: f64,
    pub(crate) lower: Bytes,
}

/// What was read of one shape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    pub(crate) need: ShapeNeed,
    /// Whether its need is enough for every shape that it covers, whatever the tables of those are thought to be.
    pub(crate) is_most: bool,
}

/// What all rows of a certificate start from.
#[derive(Debug)]
pub(crate) struct Start {
    corner: Corner,
    /// Shapes of few samples first.
    shown: Vec<Shown>,
}

/// What shapes of one extent take by those that were read, by the number of samples.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    /// The largest need that is covered, from so many samples on.
    lower: Vec<(u32, Bytes)>,
    /// The least that is known to be enough, up to so many samples.
    most: Vec<(u32, Bytes)>,
}

/// What a row goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RowKey {
    /// One sample of an extent, or where a job names a higher power of the samples, a shape alone.
    shape: StepShape,
    buckets: u64,
}

/// The bound, the estimate and the least of one extent, as functions of the number of samples.
///
/// Each tensor has its size, or so much for each sample, so that the bound is the largest of few straight lines: one walk
/// finds them, and then a question costs next to nothing.
#[derive(Debug)]
pub(crate) struct Row {
    bound: Sweep,
    point: Line,
    limits: Limits,
}

impl Start {
    pub(crate) fn new(certificate: &Certificate, mut shown: Vec<Shown>) -> Self {
        shown.sort_unstable_by_key(|it| it.need.shape.samples);
        Self { corner: certificate.corner(), shown }
    }

    /// Returns the limits of shapes of this extent.
    pub(crate) fn limits(&self, extent: Extent) -> Limits {
        let Limits { mut lower, mut most } = Limits::default();
        for Shown { need: it, .. } in self.shown.iter().filter(|it| extent.covers(it.need.shape.extent())) {
            if lower.last().is_none_or(|last| last.1 < it.need) {
                lower.push((it.shape.samples, it.need));
            }
        }
        for Shown { need: it, .. } in self.shown.iter().rev().filter(|it| it.is_most) {
            if it.shape.extent().covers(extent) && most.last().is_none_or(|last| it.need < last.1) {
                most.push((it.shape.samples, it.need));
            }
        }
        Limits { lower, most }
    }
}

impl Limits {
    /// Returns the largest need that so many samples cover.
    pub(crate) fn lower(&self, samples: u32) -> Bytes {
        let n_covered = self.lower.partition_point(|it| it.0 <= samples);
        n_covered.checked_sub(1).map_or(Bytes::ZERO, |at| self.lower[at].1)
    }

    /// Returns what is known to be enough for so many samples, or a bound where that is less.
    pub(crate) fn at_most(&self, samples: u32, bound: f64) -> f64 {
        let n_covering = self.most.partition_point(|it| samples <= it.0);
        n_covering.checked_sub(1).map_or(bound, |at| self.most[at].1.as_f64().min(bound))
    }
}

impl RowKey {
    /// Returns what the row of a shape goes by.
    pub(crate) fn of(shape: StepShape, certificate: &Certificate) -> Self {
        let buckets = certificate.buckets(shape);
        let shape = if certificate.features().are_linear_in_samples() { shape.with_samples(1) } else { shape };
        Self { shape, buckets }
    }
}

impl Row {
    /// Begins a row.
    pub(crate) fn new(of: RowKey, certificate: &Certificate, theta: &Vector, start: &Start) -> Self {
        let (base, slope) = certificate.along_samples(of.shape, of.buckets);
        let bound = certificate.sweep(start.corner.clone(), &base, &slope);
        let point = Line { base: dot(theta, &base), slope: dot(theta, &slope) };
        Self { bound, point, limits: start.limits(of.shape.extent()) }
    }

    /// Returns what is said of so many samples, or `None` where that takes too many pivots.
    pub(crate) fn at(&mut self, samples: u32, certificate: &Certificate) -> Option<Judgement> {
        // What holds nothing needs no more than one sample.
        let bound = self.limits.at_most(samples, certificate.along(&mut self.bound, samples.max(1))?);
        Some(Judgement { bound, point: self.point.at(samples).min(bound), lower: self.limits.lower(samples) })
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_types::Features;
    use proptest::prelude::*;

    use super::*;

    /// The peaks of a convolutional network's step at three instants, in bytes per feature.
    const INSTANTS: [[f64; 6]; 3] = [
        [4e6, 1e3, 100.0, 1e4, 1200.0, 2500.0],
        [1e6, 2e3, 300.0, 2e4, 3000.0, 2460.0],
        [5e5, 3e4, 10.0, 3e5, 100.0, 2540.0],
    ];

    fn taught(
        features: Features,
        program: &[impl AsRef<[f64]>],
        shapes: impl Iterator<Item = StepShape>,
    ) -> Certificate {
        let need = |shape| {
            let values = features.of(shape);
            let at = |theta: &[f64]| theta.iter().zip(values).map(|(a, b)| a * b).sum::<f64>();
            Bytes::from_f64_ceil(program.iter().map(|theta| at(theta.as_ref())).fold(1.0, f64::max))
        };
        Certificate::try_new(features, shapes.map(|shape| ShapeNeed { shape, need: need(shape) })).unwrap()
    }

    /// A thousand shapes of 1 to 64 samples and edges of 16 to 1039, no two equal, of which 64 are kept.
    fn crowded() -> Certificate {
        let cell = |i: u32| i.wrapping_mul(40_503) % 65_536;
        let shapes = (0..1000).map(|i| StepShape::new(1 + cell(i) % 64, 16 + cell(i) / 64));
        taught(Features::default(), &INSTANTS, shapes)
    }

    fn start(certificate: &Certificate) -> Start {
        let shown = certificate.needs().iter().map(|it| Shown { need: *it, is_most: false });
        Start::new(certificate, shown.collect())
    }

    fn row(shape: StepShape, certificate: &Certificate, start: &Start) -> Row {
        Row::new(RowKey::of(shape, certificate), certificate, &Vector::default(), start)
    }

    /// From nothing, one shape takes 12 pivots here, and 60 of them 700.
    #[test]
    fn all_batches_of_an_extent_take_hardly_more_work_than_one() {
        let certificate = crowded();
        let start = start(&certificate);
        assert_eq!(certificate.needs().len(), 64);
        for edge in [32, 64, 128, 256, 512] {
            let mut row = row(StepShape::new(1, edge), &certificate, &start);
            assert!((1..=60).all(|samples| row.at(samples, &certificate).is_some()));
            let n_pivots = row.bound.n_pivots();
            assert!(n_pivots <= 32, "{n_pivots} pivots for edge {edge}");
            assert!((1..=60).rev().all(|samples| row.at(samples, &certificate).is_some()));
            assert_eq!(row.bound.n_pivots(), n_pivots, "nothing is worked out twice");
        }
    }

    #[test]
    fn the_order_of_questions_changes_no_bit() {
        let certificate = crowded();
        let start = start(&certificate);
        let asked = |samples: &[u32]| {
            let mut row = row(StepShape::new(1, 200), &certificate, &start);
            samples.iter().map(|it| row.at(*it, &certificate).unwrap()).last()
        };
        for samples in [1, 2, 7, 20, 64, 500, u32::MAX] {
            assert_eq!(asked(&[samples]), asked(&[u32::MAX, 1, 30, samples]));
        }
    }

    /// Shapes with few samples, for programs over one to three axes, and one whose tensors grow with their square.
    fn any_case() -> impl Strategy<Value = (Features, Vec<Vec<f64>>, Vec<StepShape>, Vec<StepShape>)> {
        let pairs = Features::try_new(&[&[0, 0], &[1, 1], &[2, 0], &[2, 1]]).unwrap();
        let features =
            prop::sample::select(vec![Features::complete(1), Features::complete(2), Features::complete(3), pairs]);
        features.prop_flat_map(|features| {
            let coefficient = prop_oneof![Just(0.0), (0.0..9.0f64).prop_map(|power| 10f64.powf(power))];
            let program = prop::collection::vec(prop::collection::vec(coefficient, features.len()), 1..8);
            let shape = (1..=256u32, prop::collection::vec(1..=200u32, features.n_axes()));
            let shape = shape.prop_map(|(samples, edges)| StepShape::of(samples, Extent::try_new(&edges).unwrap()));
            (Just(features), program, prop::collection::vec(shape.clone(), 1..40), prop::collection::vec(shape, 1..8))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_row_says_of_each_batch_what_its_own_program_says((features, program, seen, asked) in any_case()) {
            let certificate = taught(features, &program, seen.into_iter());
            let start = start(&certificate);
            for shape in asked {
                // One in ten thousand takes too many pivots, and is worked out alone.
                let Some(it) = row(shape, &certificate, &start).at(shape.samples, &certificate) else { continue };
                let alone = certificate.ceiling(shape);
                prop_assert!((it.bound / alone - 1.0).abs() < 1e-9, "{shape}: {} is not {alone}", it.bound);
                prop_assert_eq!(it.lower, certificate.lower(shape));
            }
        }
    }
}
