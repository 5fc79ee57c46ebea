//! How many samples fit: one rule for all methods.

use std::sync::Arc;

use plimsoll_predict::{
    Dtype, Explorer, Key, PartReading, Phase, Platform, PredictError, Predictor, PredictorConfig, Probe,
};
use plimsoll_sampler::{CapacityRule, StepSize};
use plimsoll_types::{Bytes, Prediction, StepShape};

/// The most samples of each padded length, from 1 to the longest; above it none fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule(Arc<[u32]>);

impl Rule {
    /// Takes the most samples of length 1, 2 and so on; it must not grow.
    pub fn new(most: Vec<u32>) -> Self {
        Self(most.into())
    }

    /// Allows no more than one of so many parts of a step, but one sample of any length that fits.
    #[must_use]
    pub fn up_to(self, step: StepSize, n_parts: u32) -> Self {
        let part = |length: u32| match step {
            StepSize::Samples(n) => n / n_parts,
            StepSize::Positions(n) => u32::try_from(n / u64::from(n_parts * length)).unwrap_or(u32::MAX),
            StepSize::Batch => u32::MAX,
        };
        Self((1..).zip(&*self.0).map(|(length, most)| part(length).max(1).min(*most)).collect())
    }
}

impl CapacityRule<1> for Rule {
    fn capacity(&self, [padded]: [u32; 1]) -> u32 {
        let at = padded.saturating_sub(1) as usize;
        self.0.get(at).copied().unwrap_or(0)
    }
}

/// How a rule is learnt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Learning {
    /// The lengths that are tried; the last one is the longest of all.
    pub edges: Vec<u32>,
    /// Samples of the longest length that the budget has room for, and no more.
    pub fixed: u32,
    /// The smallest batch that is tried; smaller ones may run other kernels.
    pub smallest: u32,
    /// The most real steps.
    pub most: u32,
}

/// A rule, and the budget that it keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certified {
    /// For each padded length, the largest batch whose upper bound is within the budget.
    pub rule: Rule,
    /// The upper bound of the first shape that was tried.
    pub budget: Bytes,
    /// The shapes that were tried, the one that makes the budget first.
    pub tried: Vec<StepShape>,
}

/// Learns a rule from real steps, the first of which makes the budget and all others are certain to keep it.
///
/// `most` says how many samples of a length make sense; `measure` runs steps of a shape until they are in the steady
/// state, and returns what the last one showed.
///
/// # Errors
///
/// [`PredictError`] when a reading or a length makes no sense, and the errors of `measure`.
pub fn certify<E: From<PredictError>>(
    learning: &Learning,
    most: impl Fn(u32) -> u32,
    measure: &mut dyn FnMut(StepShape) -> Result<PartReading, E>,
) -> Result<Certified, E> {
    let mut known = Known::try_new()?;
    let longest = learning.edges.last().copied().unwrap_or(0);
    let first = StepShape::new(learning.fixed, longest);
    known.learn(measure(first)?)?;
    let budget = known.upper(first);
    let cells = learning.edges.iter().flat_map(|edge| {
        let largest = if *edge == longest { learning.fixed } else { most(*edge) };
        (learning.smallest..=largest.max(learning.fixed)).map(|samples| StepShape::new(samples, *edge))
    });
    let mut explorer = Explorer::try_new(cells, budget, learning.most)?;
    while let Probe::Measure(shape) = explorer.probe(|it| known.predict(it)) {
        known.learn(measure(shape)?)?;
        explorer.on_trial_done(shape, |it| known.predict(it));
    }
    // What a program keeps from its first steps is in the budget too.
    let budget = known.upper(first);
    Ok(Certified { rule: known.rule(longest, budget, most), budget, tried: known.tried })
}

/// What the trials so far tell.
struct Known {
    predictor: Predictor,
    resident: Bytes,
    tried: Vec<StepShape>,
}

/// All steps are of one program.
const KEY: Key = Key {
    phase: Phase::Train,
    checkpointing: false,
    platform: Platform { device: 0, dtype: Dtype::F32, fusion: false, autotune: false },
    regime: 0,
};

impl Known {
    fn try_new() -> Result<Self, PredictError> {
        let predictor = Predictor::try_new(PredictorConfig::default())?;
        Ok(Self { predictor, resident: Bytes::ZERO, tried: Vec::new() })
    }

    fn learn(&mut self, part: PartReading) -> Result<(), PredictError> {
        self.resident = self.resident.max(part.before);
        self.tried.push(part.shape);
        self.predictor.observe(KEY, part).map(drop)
    }

    fn predict(&self, shape: StepShape) -> Option<Prediction> {
        self.predictor.predict(KEY, shape, self.resident)
    }

    fn upper(&self, shape: StepShape) -> Bytes {
        self.predict(shape).map_or(Bytes::MAX, |it| it.upper)
    }

    fn rule(&self, longest: u32, budget: Bytes, most: impl Fn(u32) -> u32) -> Rule {
        let fits = |samples, length| self.predict(StepShape::new(samples, length)).is_some_and(|it| it.upper <= budget);
        // A longer sample needs no less, so that the batch never grows.
        let mut largest = u32::MAX;
        let of = |length| {
            largest = largest.min(most(length));
            while largest > 0 && !fits(largest, length) {
                largest -= 1;
            }
            largest
        };
        Rule::new((1..=longest).map(of).collect())
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_types::Observation;

    use super::*;

    /// A transformer with 10 MiB resident, and what it needs above.
    fn observation(shape: StepShape) -> Observation {
        let (n, length) = (u64::from(shape.samples), u64::from(shape.edge()));
        let need = Bytes(1_000_000 + n * (2_000 + 20_000 * length + 40 * length * length));
        Observation { shape, resident: Bytes::mib(10), peak: Bytes::mib(10).saturating_add(need) }
    }

    fn learnt(learning: &Learning, most: u32) -> Certified {
        certify(learning, |_| most, &mut |shape| Ok::<_, PredictError>(observation(shape).into())).unwrap()
    }

    #[test]
    fn a_rule_keeps_the_budget_and_wastes_little_of_it() {
        let learning = Learning { edges: vec![20, 40, 90, 200, 400, 512], fixed: 6, smallest: 5, most: 12 };
        let Certified { rule, budget, tried } = learnt(&learning, 1000);
        assert!(tried[0] == StepShape::new(6, 512) && tried.len() <= 13, "{tried:?}");
        assert!(tried.iter().all(|it| observation(*it).peak <= budget), "{tried:?}");
        assert_eq!((rule.capacity([512]), rule.capacity([513])), (6, 0));
        for length in 1..=512 {
            let n = rule.capacity([length]);
            assert!(observation(StepShape::new(n, length)).peak <= budget, "{n} of {length}");
            // Between the lengths that were tried the bound is looser: one sample and a twentieth at most.
            let more = StepShape::new(n + 2 + n / 20, length);
            assert!(length < 20 || observation(more).peak > budget, "{n} of {length} are too few");
        }
    }

    #[test]
    fn no_batch_is_above_what_makes_sense() {
        let learning = Learning { edges: vec![32, 512], fixed: 6, smallest: 5, most: 4 };
        let rule = learnt(&learning, 9).rule;
        assert_eq!([1, 32, 512].map(|length| rule.capacity([length])), [9, 9, 6]);
    }
}
