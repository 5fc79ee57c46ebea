//! Samples, the longest first.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use burn::tensor::Tensor;
use plimsoll_step::Loss;

use crate::error::Error;

/// Samples of a step, the longest first.
pub(crate) struct Sorted<'a, T> {
    samples: Vec<&'a T>,
    pub(crate) lengths: Vec<u32>,
    /// What each counts in the mean that a loss is, where that is said.
    pub(crate) units: Option<Vec<u64>>,
    /// Where each stood.
    pub(crate) places: Vec<usize>,
    /// The most values that a loss had.
    n_values: AtomicUsize,
}

impl<'a, T: Clone> Sorted<'a, T> {
    pub(crate) fn try_new(samples: &'a [T], length: impl Fn(&T) -> u32) -> Result<Self, Error> {
        let all: Vec<_> = samples.iter().map(length).collect();
        if let Some(index) = all.iter().position(|it| *it == 0) {
            return Err(Error::EmptySample { index });
        }
        let mut places: Vec<_> = (0..samples.len()).collect();
        // Of as long ones the order stays.
        places.sort_by_key(|at| Reverse(all[*at]));
        let (samples, lengths) = places.iter().map(|at| (&samples[*at], all[*at])).unzip();
        Ok(Self { samples, lengths, units: None, places, n_values: AtomicUsize::new(1) })
    }

    /// Says what each sample counts, in the order in which they came.
    pub(crate) fn counting(self, units: Option<&[u64]>) -> Self {
        Self { units: units.map(|units| self.places.iter().map(|at| units[*at]).collect()), ..self }
    }

    /// Returns some of them.
    pub(crate) fn part(&self, part: Range<usize>) -> Vec<T> {
        self.samples[part].iter().map(|it| (*it).clone()).collect()
    }

    /// Takes a loss that may have several values, and notes how many.
    pub(crate) fn loss(&self, loss: Tensor<1>) -> Loss {
        self.n_values.fetch_max(loss.dims()[0], Relaxed);
        loss.mean().into()
    }

    /// Returns the most values that a loss had.
    pub(crate) fn n_values(&self) -> usize {
        self.n_values.load(Relaxed)
    }
}
