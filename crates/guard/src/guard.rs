//! The preflight check and the retry in halves.

use std::ops::Range;

use plimsoll_types::{Bytes, Prediction};

/// Why a part did not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure<E> {
    /// It ran out of memory.
    OutOfMemory {
        /// What the part needed, where that could be measured.
        needed: Option<Bytes>,
        /// Whether the same part may fit now that the device has been cleaned up.
        is_worth_a_retry: bool,
    },
    /// One of its tensors is larger than the device serves, however much is free.
    NeverFits {
        /// The tensor.
        allocation: Bytes,
        /// The largest that the device serves.
        largest: Bytes,
    },
    /// Something that has nothing to do with memory.
    Other(E),
}

/// Why a step did not happen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GuardError<E> {
    /// One sample alone does not fit.
    #[error("one sample alone does not fit: {}", needs(*.needed, *.budget))]
    NeverFits {
        /// Index of the sample inside the step.
        sample: usize,
        /// What it needed, where that could be measured.
        needed: Option<Bytes>,
        /// What it may use.
        budget: Bytes,
    },
    /// A tensor of one sample alone is larger than the device serves.
    #[error("a tensor of one sample needs {allocation}, and the device serves {largest} at most, however much is free")]
    TensorNeverFits {
        /// Index of the sample inside the step.
        sample: usize,
        /// The tensor.
        allocation: Bytes,
        /// The largest that the device serves.
        largest: Bytes,
    },
    /// The part failed for another reason.
    #[error("{0}")]
    Other(E),
}

fn needs(needed: Option<Bytes>, budget: Bytes) -> String {
    match needed {
        Some(needed) => format!("needs {needed}, budget {budget}"),
        None => format!("ran out of memory under a budget of {budget}"),
    }
}

/// What holds a step under its budget.
#[derive(Clone, Copy, Debug)]
pub struct Guard<P, L> {
    /// What a part may use.
    pub budget: Bytes,
    /// Predicts a part; `None` while nothing is known.
    pub predict: P,
    /// Returns what a single sample, by its index, needs at the very least, where that was measured and is more than there
    /// is; `None` for one that may be tried.
    pub too_much: L,
}

impl<P: Fn(&Range<usize>) -> Option<Prediction>, L: Fn(usize) -> Option<Bytes>> Guard<P, L> {
    /// Runs all parts, halving those that are predicted not to fit and those that ran out of memory.
    ///
    /// A part that is worth a retry is tried once more before it is halved.
    /// A single sample is tried though its upper bound says no, since that may be far too high; what it was measured to
    /// need is no such bound, and where that is too much it is not tried.
    /// Returns the parts that ran, in order. A part of `n` samples is tried in at most `⌈log2 n⌉ + 1` sizes on the way
    /// down to any one of its samples, in each at most twice.
    ///
    /// # Errors
    ///
    /// [`GuardError::NeverFits`] when one sample alone ran out of memory, or is known to need too much,
    /// [`GuardError::TensorNeverFits`] when one of its tensors is above what the device serves, [`GuardError::Other`] with
    /// the closure's own error.
    pub fn run<E>(
        &self,
        parts: impl IntoIterator<Item = Range<usize>>,
        mut attempt: impl FnMut(Range<usize>) -> Result<(), Failure<E>>,
    ) -> Result<Vec<Range<usize>>, GuardError<E>> {
        let mut waiting: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        waiting.reverse();
        let mut ran = Vec::with_capacity(waiting.len());
        while let Some(part) = waiting.pop() {
            if part.len() > 1 && !self.fits(&part) {
                waiting.extend(halves(&part));
                continue;
            }
            let sample = part.start;
            if let (1, Some(needed)) = (part.len(), (self.too_much)(sample)) {
                return Err(GuardError::NeverFits { sample, needed: Some(needed), budget: self.budget });
            }
            let mut tried = attempt(part.clone());
            if matches!(tried, Err(Failure::OutOfMemory { is_worth_a_retry: true, .. })) {
                tried = attempt(part.clone());
            }
            match tried {
                Ok(()) => ran.push(part),
                Err(Failure::Other(error)) => return Err(GuardError::Other(error)),
                Err(_) if part.len() > 1 => waiting.extend(halves(&part)),
                Err(Failure::OutOfMemory { needed, .. }) => {
                    return Err(GuardError::NeverFits { sample, needed, budget: self.budget });
                }
                Err(Failure::NeverFits { allocation, largest }) => {
                    return Err(GuardError::TensorNeverFits { sample, allocation, largest });
                }
            }
        }
        Ok(ran)
    }

    /// The preflight check: whether the upper bound of a part is inside the budget.
    ///
    /// Without a prediction the answer is yes: something must run first, and the recovery is there for it.
    pub fn fits(&self, part: &Range<usize>) -> bool {
        (self.predict)(part).is_none_or(|it| it.upper <= self.budget)
    }
}

/// Returns the weight of a part's mean in the mean over the whole step: its share of the samples, or of the tokens.
pub fn weight(n_units: u64, n_total: u64) -> f64 {
    n_units as f64 / n_total as f64
}

/// Splits a part in two, later half first, so that the earlier one is popped first.
fn halves(part: &Range<usize>) -> [Range<usize>; 2] {
    let middle = part.start + part.len().div_ceil(2);
    [middle..part.end, part.start..middle]
}

#[cfg(test)]
mod tests {
    use std::iter::once;

    use proptest::prelude::*;

    use super::*;

    const BUDGET: Bytes = Bytes::mib(90);

    fn unknown(_: &Range<usize>) -> Option<Prediction> {
        None
    }

    /// A guard that knows of no sample that needs too much.
    fn guard<P>(predict: P) -> Guard<P, impl Fn(usize) -> Option<Bytes>> {
        Guard { budget: BUDGET, predict, too_much: |_| None }
    }

    fn out_of_memory() -> Failure<String> {
        Failure::OutOfMemory { needed: Some(Bytes::mib(100)), is_worth_a_retry: false }
    }

    #[test]
    fn what_is_predicted_not_to_fit_is_halved_before_it_is_tried() {
        let per_sample = |part: &Range<usize>| {
            let upper = Bytes::mib(20).saturating_mul(part.len() as u64);
            Some(Prediction { expected: upper, upper })
        };
        let mut tried = Vec::new();
        let ran = guard(per_sample).run([0..10, 10..12], |part| {
            tried.push(part);
            Ok::<_, Failure<String>>(())
        });
        assert_eq!(ran.unwrap(), [0..3, 3..5, 5..8, 8..10, 10..12]);
        assert_eq!(tried.len(), 5);
    }

    #[test]
    fn a_single_sample_is_tried_even_when_the_bound_says_no() {
        let hopeless = |_: &Range<usize>| Some(Prediction { expected: Bytes::gib(1), upper: Bytes::gib(1) });
        let ran = guard(hopeless).run(once(0..2), |_| Ok::<_, Failure<String>>(()));
        assert_eq!(ran.unwrap(), [0..1, 1..2]);
    }

    #[test]
    fn a_single_sample_that_was_measured_to_need_too_much_is_not_tried() {
        let too_much = |sample| (sample == 1).then_some(Bytes::mib(100));
        let mut tried = Vec::new();
        let error = Guard { budget: BUDGET, predict: unknown, too_much }.run([0..1, 1..2, 2..3], |part| {
            tried.push(part.start);
            Ok::<_, Failure<String>>(())
        });
        assert_eq!(error, Err(GuardError::NeverFits { sample: 1, needed: Some(Bytes::mib(100)), budget: BUDGET }));
        assert_eq!(tried, [0]);
        // What several samples need together says nothing of one.
        let ran =
            Guard { budget: BUDGET, predict: unknown, too_much }.run(once(0..2), |_| Ok::<_, Failure<String>>(()));
        assert_eq!(ran.unwrap().len(), 1);
    }

    #[test]
    fn one_sample_that_does_not_fit_ends_the_step_with_the_numbers() {
        let error = guard(unknown)
            .run(once(0..4), |part| if part.contains(&1) { Err(out_of_memory()) } else { Ok(()) })
            .unwrap_err();
        assert_eq!(error, GuardError::NeverFits { sample: 1, needed: Some(Bytes::mib(100)), budget: BUDGET });
        assert_eq!(error.to_string(), "one sample alone does not fit: needs 100.00 MiB, budget 90.00 MiB");
    }

    #[test]
    fn what_a_cleanup_may_help_is_tried_once_more_before_it_is_halved() {
        let mut tried = Vec::new();
        let ran = guard(unknown).run(once(0..4), |part| {
            tried.push(part.clone());
            // The first part fits after a cleanup, as if something else had held the memory.
            let fits = part.len() <= 2 && tried.iter().filter(|it| **it == part).count() > 1;
            if fits { Ok(()) } else { Err(Failure::<String>::OutOfMemory { needed: None, is_worth_a_retry: true }) }
        });
        assert_eq!(ran.unwrap(), [0..2, 2..4]);
        assert_eq!(tried, [0..4, 0..4, 0..2, 0..2, 2..4, 2..4]);
    }

    #[test]
    fn a_tensor_that_is_never_served_is_halved_at_once_and_at_last_named() {
        let (allocation, largest) = (Bytes::gib(5), Bytes::gib(4));
        let mut tries = 0;
        let error = guard(unknown)
            .run(once(0..2), |_| {
                tries += 1;
                Err(Failure::<String>::NeverFits { allocation, largest })
            })
            .unwrap_err();
        assert_eq!((tries, &error), (2, &GuardError::TensorNeverFits { sample: 0, allocation, largest }));
        assert!(error.to_string().contains("5.00 GiB") && error.to_string().contains("4.00 GiB"), "{error}");
    }

    #[test]
    fn a_failure_that_is_not_about_memory_is_not_retried() {
        let mut tries = 0;
        let error = guard(unknown).run(once(0..4), |_| {
            tries += 1;
            Err(Failure::Other("shape mismatch"))
        });
        assert_eq!((error, tries), (Err(GuardError::Other("shape mismatch")), 1));
    }

    proptest! {
        #[test]
        fn samples_are_conserved_in_order_and_tries_are_bounded(
            sizes in prop::collection::vec(0usize..70, 1..6),
            limit in 1usize..40,
        ) {
            let mut start = 0;
            let parts: Vec<_> = sizes.iter().map(|n| { start += n; start - n..start }).collect();
            let mut tries = vec![0usize; start];
            let ran = guard(unknown)
                .run(parts, |part| {
                    part.clone().for_each(|it| tries[it] += 1);
                    if part.len() <= limit { Ok(()) } else { Err(out_of_memory()) }
                })
                .unwrap();
            prop_assert_eq!(ran.iter().cloned().flatten().collect::<Vec<_>>(), (0..start).collect::<Vec<_>>());
            prop_assert!(ran.iter().all(|part| part.len() <= limit));
            let total: f64 = ran.iter().map(|part| weight(part.len() as u64, start as u64)).sum();
            prop_assert!(start == 0 || (total - 1.0).abs() < 1e-9);
            let depth = sizes.iter().max().unwrap().max(&1).next_power_of_two().trailing_zeros() as usize;
            prop_assert!(tries.iter().all(|it| *it <= depth + 1));
        }
    }
}
