//! Up to a shape of which nothing is known.

use plimsoll_types::{Bytes, Extent, Prediction, StepShape};

/// Growth in positions, as a fraction of those of the last trial, below which a trial gets nowhere.
///
/// 0.02: where the bound allows no more, the last trial needed 96 % of what there is at least, if needs grow with the
/// square of the edge.
const PROGRESS: f64 = 0.02;

/// Trials after which the way is too long.
///
/// A need that grows with the edge takes 7 for a target that needs 95 % of what there is, whatever the smallest shape
/// needs; only one that hardly grows, and is near what there is at once, takes more.
const MOST_TRIALS: usize = 24;

/// Goes up to a shape in trials of which each is certain to fit by those before it.
///
/// The first trial is the smallest shape there is, since nothing else can be certain. Each next one is the largest on the
/// way whose upper bound lies within the limit: first the edge of one sample grows, along every axis up to the target's,
/// then the number of samples. The last
/// is the target itself, unless it is out of reach: then it has not run, and no more than the trials is known of it.
///
/// # Why so few
///
/// There are never more than 24 trials.
/// After a trial of edge `e` with need `a` the certificate allows for edges up to `e·√(limit/a)`, because a need may grow
/// with the square of the edge. One that grows in proportion to it therefore halves, with each trial, the way that is
/// left in the logarithm of the edge.
///
/// # Example
///
/// ```
/// use plimsoll_predict::{Approach, Key, Phase, Platform, Predictor, PredictorConfig, Reach};
/// use plimsoll_types::{Bytes, Observation, StepShape};
///
/// let key = Key { phase: Phase::Train, checkpointing: false, platform: Platform::default(), regime: 0 };
/// let mut predictor = Predictor::try_new(PredictorConfig::default())?;
/// let mut approach = Approach::new(Approach::SHORTEST, StepShape::new(1, 20_000), Bytes::mib(1000));
/// let reach = loop {
///     let shape = match approach.next(|shape| predictor.predict(key, shape, Bytes::ZERO)) {
///         Reach::Measure(shape) => shape,
///         reach => break reach,
///     };
///     let peak = Bytes::kib(100 * u64::from(shape.edge())); // Run a step and read its peak.
///     assert!(peak <= Bytes::mib(1000));
///     predictor.observe(key, Observation { shape, resident: Bytes::ZERO, peak })?;
///     approach.on_trial_done(shape);
/// };
/// // It would need 1 953 MiB, and half of it is what fits.
/// assert!(matches!(reach, Reach::Beyond { largest } if largest.edge() > 9_500));
/// # Ok::<(), plimsoll_predict::PredictError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approach {
    shortest: u32,
    /// What an edge grows by at least, but for the target's.
    multiple: u32,
    target: StepShape,
    limit: Bytes,
    tried: Vec<StepShape>,
}

/// How far one gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Run a step of this shape and observe its peak.
    Measure(StepShape),
    /// The target has run.
    Arrived,
    /// The target is not certain to fit, and nothing between it and this shape, the largest that ran, is.
    Beyond {
        /// The largest shape that ran.
        largest: StepShape,
    },
}

impl Approach {
    /// A good `shortest` edge to start at, in pixels or positions: any model takes it, and what it needs is nearly nothing.
    pub const SHORTEST: u32 = 16;

    /// Starts at one sample of the `shortest` edge, or of the target's where that is shorter; `limit` is what a trial may
    /// reach.
    pub fn new(shortest: u32, target: StepShape, limit: Bytes) -> Self {
        Self { shortest: shortest.clamp(1, longest(target)), multiple: 1, target, limit, tried: Vec::new() }
    }

    /// Lets edges grow by multiples of this only, such as the stride of a model that takes no others.
    #[must_use]
    pub fn in_multiples_of(self, multiple: u32) -> Self {
        Self { multiple: multiple.max(1), ..self }
    }

    /// Returns the next trial, or how it ended, given what is predicted now.
    pub fn next(&self, predict: impl Fn(StepShape) -> Option<Prediction>) -> Reach {
        let Some(largest) = self.tried.last().copied() else { return Reach::Measure(self.on_the_way(0)) };
        if largest == self.target {
            return Reach::Arrived;
        }
        let fits = |shape: StepShape| predict(shape).is_some_and(|it| it.upper <= self.limit);
        let reached = self.furthest(fits);
        let gets_on = |it: &StepShape| {
            *it == self.target
                || positions(largest) * (1.0 + PROGRESS) < positions(*it) && self.tried.len() < MOST_TRIALS
        };
        reached.filter(gets_on).map_or(Reach::Beyond { largest }, Reach::Measure)
    }

    /// Notes that a step of this shape has run.
    pub fn on_trial_done(&mut self, shape: StepShape) {
        self.tried.push(shape);
    }

    /// Returns the last shape on the way that fits; those before it fit as well.
    fn furthest(&self, fits: impl Fn(StepShape) -> bool) -> Option<StepShape> {
        let (mut least, mut most) = (0, self.length() + 1);
        while least < most {
            let middle = least + (most - least) / 2;
            if fits(self.on_the_way(middle)) { least = middle + 1 } else { most = middle }
        }
        least.checked_sub(1).map(|at: u64| self.on_the_way(at))
    }

    /// Returns how many shapes on the way are larger than the first.
    fn length(&self) -> u64 {
        u64::from(self.n_longer()) + u64::from(self.target.samples.saturating_sub(1))
    }

    /// Returns how many edges on the way are longer than the first.
    fn n_longer(&self) -> u32 {
        (longest(self.target) - self.shortest).div_ceil(self.multiple)
    }

    fn on_the_way(&self, at: u64) -> StepShape {
        let longer = u32::try_from(at).map_or(self.n_longer(), |at| at.min(self.n_longer()));
        let most = self.shortest.saturating_add(longer.saturating_mul(self.multiple));
        let cut: Vec<_> = self.target.edges().iter().map(|edge| (*edge).min(most)).collect();
        // What is cut has as many axes, and none is empty.
        let extent = Extent::try_new(&cut).unwrap_or(self.target.extent());
        let more = u32::try_from(at - u64::from(longer)).unwrap_or(u32::MAX);
        StepShape::of(more.saturating_add(1), extent)
    }
}

fn longest(shape: StepShape) -> u32 {
    shape.edges().iter().copied().max().unwrap_or(1).max(1)
}

fn positions(shape: StepShape) -> f64 {
    shape.positions() as f64
}

#[cfg(test)]
mod tests {
    use plimsoll_types::{Features, Observation};
    use proptest::prelude::*;

    use super::*;
    use crate::{Key, Phase, Platform, Predictor, PredictorConfig};

    const KEY: Key =
        Key { phase: Phase::Train, checkpointing: false, platform: Platform { device: 0, ..DEFAULT }, regime: 0 };
    const DEFAULT: Platform = Platform { device: 0, dtype: crate::Dtype::F32, fusion: false, autotune: false };
    const RESIDENT: Bytes = Bytes::mib(10);

    /// Runs trials of a program up to the target; returns them, and how it ended.
    fn approach(need: impl Fn(StepShape) -> f64, target: StepShape, limit: Bytes) -> (Vec<StepShape>, Reach) {
        let features = Features::complete(target.edges().len());
        let mut predictor = Predictor::try_new(PredictorConfig { features, ..PredictorConfig::default() }).unwrap();
        let mut approach = Approach::new(16, target, limit);
        loop {
            match approach.next(|shape| predictor.predict(KEY, shape, RESIDENT)) {
                Reach::Measure(shape) => {
                    let peak = RESIDENT.saturating_add(Bytes::from_f64_ceil(need(shape)));
                    predictor.observe(KEY, Observation { shape, resident: RESIDENT, peak }).unwrap();
                    approach.on_trial_done(shape);
                }
                reach => return (approach.tried, reach),
            }
        }
    }

    #[test]
    fn a_model_that_takes_multiples_only_is_given_no_other_edge() {
        let target = StepShape::new(3, 100);
        let mut approach = Approach::new(16, target, Bytes::gib(1)).in_multiples_of(32);
        let shapes: Vec<_> = (0..=approach.length()).map(|at| approach.on_the_way(at)).collect();
        let expected = [(1, 16), (1, 48), (1, 80), (1, 100), (2, 100), (3, 100)];
        assert_eq!(shapes, expected.map(|(n, edge)| StepShape::new(n, edge)));
        approach.on_trial_done(target);
        assert_eq!(approach.next(|_| None), Reach::Arrived);
    }

    #[test]
    fn a_target_far_below_the_limit_is_the_second_trial() {
        let target = StepShape::new(1, 400);
        let (tried, reach) = approach(|it| 1e5 * positions(it), target, Bytes::gib(20));
        assert_eq!((tried, reach), (vec![StepShape::new(1, 16), target], Reach::Arrived));
    }

    #[test]
    fn the_smallest_shape_may_be_the_target() {
        for target in [StepShape::new(1, 16), StepShape::new(1, 3)] {
            assert_eq!(approach(|_| 1e6, target, Bytes::gib(1)), (vec![target], Reach::Arrived));
        }
    }

    #[test]
    fn the_samples_grow_when_the_edge_has_grown() {
        let target = StepShape::new(8, 100);
        let (tried, reach) = approach(|it| 1e6 * positions(it), target, Bytes::mib(800));
        assert_eq!((tried.last(), reach), (Some(&target), Reach::Arrived));
        assert!(tried.windows(2).all(|pair| pair[1].covers(pair[0])), "{tried:?}");
    }

    #[test]
    fn a_smallest_shape_that_fills_the_limit_is_the_only_trial() {
        let (tried, reach) = approach(|_| 1e9, StepShape::new(1, 100), Bytes::mib(500));
        let largest = StepShape::new(1, 16);
        assert_eq!((tried, reach), (vec![largest], Reach::Beyond { largest }));
    }

    #[test]
    fn the_largest_shapes_there_are_do_not_overflow() {
        const MOST: u32 = u32::MAX;
        let axes = |edges: &[u32]| StepShape::of(MOST, Extent::try_new(edges).unwrap());
        let shapes =
            [StepShape::new(MOST, 16), StepShape::new(MOST, MOST), axes(&[MOST, MOST]), axes(&[1, MOST, MOST])];
        for target in shapes {
            let (tried, reach) = approach(|_| 1.0, target, Bytes::MAX);
            assert_eq!((tried.last(), reach), (Some(&target), Reach::Arrived));
            let (_, reach) = approach(|it| 1e3 * positions(it), target, Bytes::gib(1));
            assert!(matches!(reach, Reach::Beyond { .. }), "{reach:?}");
        }
    }

    proptest! {
        #[test]
        fn no_trial_after_the_first_passes_the_limit_and_what_fits_well_is_reached(
            theta in prop::array::uniform3(1e2..1e5), edge in 16..30_000u32, samples in 1..20u32, limit_mib in 20..20_000u64,
        ) {
            let need = |it: StepShape| {
                let (n, e) = (f64::from(it.samples), f64::from(it.edge()));
                10.0 * theta[0] + theta[1] * n * e + theta[2] * n * e * e / 1e3
            };
            let (target, limit) = (StepShape::new(samples, edge), Bytes::mib(limit_mib));
            let (tried, reach) = approach(need, target, limit);
            let room = limit.saturating_sub(RESIDENT).as_f64();
            prop_assert!(tried[1..].iter().all(|it| need(*it) <= room), "{tried:?}");
            prop_assert!(tried.len() <= MOST_TRIALS);
            prop_assert!(need(target) <= room || reach != Reach::Arrived || tried.len() == 1);
            prop_assert!(0.9 * room < need(target) || reach == Reach::Arrived, "{reach:?} of {target}: {tried:?}");
        }
    }
}
