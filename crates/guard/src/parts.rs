//! The parts of a step: those that wait, the one under way, and those that ran.

use std::ops::Range;

use plimsoll_types::{Bytes, StepShape};

use crate::GuardError;

/// What is known of a part before it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ahead {
    /// Its shape, where one that failed says something of others like it.
    pub shape: Option<StepShape>,
    /// The most that it is predicted to need; `None` while nothing is known.
    pub upper: Option<Bytes>,
    /// What a part of one sample was measured to need at the very least, where that is more than there is.
    pub too_much: Option<Bytes>,
}

/// Why a part did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
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
}

/// The parts of a step.
///
/// A part of `n` samples is tried in at most `⌈log2 n⌉ + 1` sizes on the way down to any one of its samples, in each at
/// most twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    /// As the step was asked for.
    whole: Vec<Range<usize>>,
    budget: Bytes,
    may_halve: bool,
    /// Those that wait, the next one last.
    waiting: Vec<Range<usize>>,
    under_way: Option<UnderWay>,
    ran: Vec<Range<usize>>,
    /// A shape that did not fit on its own: none like it, or larger, is tried again in this step.
    too_large: Option<StepShape>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct UnderWay {
    part: Range<usize>,
    shape: Option<StepShape>,
    is_retry: bool,
}

impl Parts {
    pub(crate) fn new(parts: impl IntoIterator<Item = Range<usize>>, budget: Bytes, may_halve: bool) -> Self {
        let whole = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let mut parts = Self { whole, budget, may_halve, ..Self::default() };
        parts.begin_again();
        parts
    }

    /// Forgets what ran, and what did not fit.
    pub(crate) fn begin_again(&mut self) {
        self.waiting = self.whole.iter().rev().cloned().collect();
        (self.under_way, self.too_large) = (None, None);
        self.ran.clear();
    }

    pub(crate) fn ran(&self) -> &[Range<usize>] {
        &self.ran
    }

    /// Takes the next part, if any waits.
    pub(crate) fn next(&mut self) -> Option<Range<usize>> {
        let part = self.waiting.pop()?;
        self.under_way = Some(UnderWay { part: part.clone(), shape: None, is_retry: false });
        Some(part)
    }

    /// Decides by what is known of the part under way: returns it where it is to run, and none where its halves are.
    ///
    /// Without a prediction it runs: something must first, and the recovery is there for it. So does a single sample whose
    /// upper bound says no, since that may be far too high; what it was measured to need is no such bound.
    pub(crate) fn look(&mut self, ahead: Ahead) -> Result<Option<Range<usize>>, GuardError> {
        let Some(under_way) = &mut self.under_way else { return Ok(None) };
        let part = under_way.part.clone();
        under_way.shape = ahead.shape;
        let has_failed = ahead.shape.zip(self.too_large).is_some_and(|(shape, failed)| shape.covers(failed));
        let beyond = ahead.upper.filter(|upper| self.budget < *upper);
        if self.may_halve && 1 < part.len() && (has_failed || beyond.is_some()) {
            self.halve(&part);
            return Ok(None);
        }
        if let Some(needed) = ahead.too_much.filter(|_| part.len() == 1) {
            return Err(self.never_fits(part.start, Some(needed)));
        }
        match beyond.filter(|_| !self.may_halve) {
            Some(upper) => Err(self.not_divided(part.len(), Some(upper))),
            None => Ok(Some(part)),
        }
    }

    /// The part under way ran.
    pub(crate) fn note_ran(&mut self) {
        self.ran.extend(self.under_way.take().map(|it| it.part));
    }

    /// It did not: returns it where it is to run once more, and none where its halves are.
    pub(crate) fn note_failed(&mut self, failure: Failure) -> Result<Option<Range<usize>>, GuardError> {
        let Some(under_way) = &mut self.under_way else { return Ok(None) };
        let (part, sample) = (under_way.part.clone(), under_way.part.start);
        let is_worth_a_retry = matches!(failure, Failure::OutOfMemory { is_worth_a_retry: true, .. });
        if is_worth_a_retry && !std::mem::replace(&mut under_way.is_retry, true) {
            return Ok(Some(part));
        }
        self.too_large = under_way.shape;
        if self.may_halve && 1 < part.len() {
            self.halve(&part);
            return Ok(None);
        }
        Err(match failure {
            Failure::OutOfMemory { needed, .. } if !self.may_halve => self.not_divided(part.len(), needed),
            Failure::NeverFits { allocation, .. } if !self.may_halve => self.not_divided(part.len(), Some(allocation)),
            Failure::OutOfMemory { needed, .. } => self.never_fits(sample, needed),
            Failure::NeverFits { allocation, largest } => GuardError::TensorNeverFits { sample, allocation, largest },
        })
    }

    fn never_fits(&self, sample: usize, needed: Option<Bytes>) -> GuardError {
        GuardError::NeverFits { sample, needed, budget: self.budget }
    }

    fn not_divided(&self, n_samples: usize, needed: Option<Bytes>) -> GuardError {
        GuardError::NotDivided { n_samples, needed, budget: self.budget }
    }

    /// Lets two halves wait, the earlier one next.
    fn halve(&mut self, part: &Range<usize>) {
        let middle = part.start + part.len().div_ceil(2);
        self.waiting.extend([middle..part.end, part.start..middle]);
        self.under_way = None;
    }
}
