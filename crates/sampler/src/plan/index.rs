//! What is known of the samples before any of them is read.

use std::sync::Arc;

use crate::IndexError;
use crate::block_permutation::BlockPermutation;
use crate::hash::{digest, mix};

/// The most different lengths of an axis that are told apart when a rule is looked at.
const MOST_KINDS: usize = 1 << 16;

/// Up to this length, a bit for each length tells which there are: 1 MiB at most, and 1 ns a sample.
const MOST_MARKED: u32 = 1 << 23;

/// The lengths of all samples, on one axis or on several that are padded each on its own, and the task of each.
///
/// A sample's id is its place here, from 0.
/// The tables are shared, not copied, by the planners and epochs that are made of an index: 4 bytes a sample and axis,
/// 2 more for a task.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleIndex<const AXES: usize> {
    lengths: [Arc<[u32]>; AXES],
    longest: [u32; AXES],
    /// The different lengths on each axis, in growing order, or as many of them as a look needs.
    kinds: [Arc<[u32]>; AXES],
    tasks: Option<Arc<[u16]>>,
    n_tasks: usize,
    /// The weights up to each sample, where samples are drawn with replacement.
    weights: Option<Arc<[f64]>>,
    fingerprint: u64,
}

impl<const AXES: usize> SampleIndex<AXES> {
    /// Reads the lengths once; those of every axis are in the order of the ids.
    ///
    /// # Errors
    ///
    /// [`IndexError::NoSamples`], [`IndexError::TooManySamples`], [`IndexError::AxisCount`] when two axes
    /// disagree on the number of samples, and [`IndexError::ZeroLength`] with the first sample that has none.
    pub fn try_new(lengths: [impl Into<Arc<[u32]>>; AXES]) -> Result<Self, IndexError> {
        let lengths = lengths.map(Into::into);
        let n_samples = lengths.first().map_or(0, |axis| axis.len());
        if n_samples == 0 {
            return Err(IndexError::NoSamples);
        }
        if n_samples as u64 > BlockPermutation::MOST {
            return Err(IndexError::TooManySamples { n_samples: n_samples as u64, most: BlockPermutation::MOST });
        }
        for (axis, some) in lengths.iter().enumerate() {
            if some.len() != n_samples {
                return Err(IndexError::AxisCount { axis, lengths: some.len(), n_samples });
            }
            if let Some(id) = some.iter().position(|length| *length == 0) {
                return Err(IndexError::ZeroLength { id: id as u64, axis });
            }
        }
        let longest = lengths.each_ref().map(|axis| axis.iter().copied().max().unwrap_or(0));
        let kinds = std::array::from_fn(|axis| kinds(&lengths[axis], longest[axis]));
        let fingerprint = lengths.iter().fold(0, |state, axis| mix(state ^ digest(axis)));
        Ok(Self { lengths, longest, kinds, tasks: None, n_tasks: 1, weights: None, fingerprint })
    }

    /// Says which task each sample belongs to.
    ///
    /// # Errors
    ///
    /// [`IndexError::TaskCount`] when there are more tasks, or fewer, than samples.
    pub fn with_tasks(mut self, tasks: impl Into<Arc<[u16]>>) -> Result<Self, IndexError> {
        let tasks = tasks.into();
        if tasks.len() != self.n_samples() {
            return Err(IndexError::TaskCount { tasks: tasks.len(), n_samples: self.n_samples() });
        }
        self.fingerprint = mix(self.fingerprint ^ digest(&tasks));
        self.n_tasks = tasks.iter().max().map_or(1, |most| usize::from(*most) + 1);
        self.tasks = Some(tasks);
        Ok(self)
    }

    /// Draws as many samples as there are with replacement, each in proportion to its weight, rather than each once.
    ///
    /// # Errors
    ///
    /// [`IndexError::WeightCount`], [`IndexError::Weight`] for the first that is negative or no number, and
    /// [`IndexError::NoWeight`] when all are 0.
    pub fn with_weights(mut self, weights: &[f64]) -> Result<Self, IndexError> {
        if weights.len() != self.n_samples() {
            return Err(IndexError::WeightCount { weights: weights.len(), n_samples: self.n_samples() });
        }
        let is_wrong = |weight: &f64| !(*weight >= 0.0 && weight.is_finite());
        if let Some(id) = weights.iter().position(is_wrong) {
            return Err(IndexError::Weight { id: id as u64, weight: weights[id] });
        }
        let up_to = weights.iter().scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        let up_to: Arc<[f64]> = up_to.collect();
        if !up_to.last().is_some_and(|sum| *sum > 0.0 && sum.is_finite()) {
            return Err(IndexError::NoWeight { sum: up_to.last().copied().unwrap_or(0.0) });
        }
        self.fingerprint = mix(self.fingerprint ^ digest(&up_to.iter().map(|sum| sum.to_bits()).collect::<Vec<_>>()));
        self.weights = Some(up_to);
        Ok(self)
    }

    /// How often a sample is drawn beside the others; 1 where each comes once, 0 where there is no such sample.
    pub fn weight(&self, id: u64) -> f64 {
        let Some(at) = usize::try_from(id).ok().filter(|at| *at < self.n_samples()) else { return 0.0 };
        let up_to = |up_to: &Arc<[f64]>| up_to[at] - at.checked_sub(1).map_or(0.0, |before| up_to[before]);
        self.weights.as_ref().map_or(1.0, up_to)
    }

    /// The weights up to each sample, where samples are drawn with replacement.
    pub(crate) const fn weights(&self) -> Option<&Arc<[f64]>> {
        self.weights.as_ref()
    }

    /// Number of samples.
    pub fn n_samples(&self) -> usize {
        self.lengths[0].len()
    }

    /// The greatest length on each axis.
    pub const fn longest(&self) -> [u32; AXES] {
        self.longest
    }

    /// Different lengths on an axis, in growing order and with the longest: all of them, or else 2^16.
    pub(super) fn kinds(&self, axis: usize) -> &[u32] {
        &self.kinds[axis]
    }

    /// What tells these lengths and tasks from others, but for one chance in 2^64.
    pub const fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// The lengths of a sample, if there is such a sample.
    pub fn get(&self, id: u64) -> Option<[u32; AXES]> {
        let id = u32::try_from(id).ok().filter(|id| (*id as usize) < self.n_samples())?;
        Some(self.lengths(id))
    }

    /// The lengths of all samples, in the order of their ids.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = [u32; AXES]> {
        (0..self.n_samples()).map(|id| self.lengths.each_ref().map(|axis| axis[id]))
    }

    /// The lengths of a sample that there is.
    pub(crate) fn lengths(&self, id: u32) -> [u32; AXES] {
        self.lengths.each_ref().map(|axis| axis[id as usize])
    }

    /// The sum of all lengths on the first axis.
    pub(crate) fn total(&self) -> u64 {
        self.lengths[0].iter().map(|length| u64::from(*length)).sum()
    }

    /// The first sample that is longer than this on the first axis, and its length.
    pub(crate) fn longer_than(&self, limit: u32) -> Option<(u64, u32)> {
        (0..).zip(&*self.lengths[0]).find(|(_, length)| **length > limit).map(|(id, length)| (id, *length))
    }

    /// The task of each sample, where the samples have tasks.
    pub fn tasks(&self) -> Option<&[u16]> {
        self.tasks.as_deref()
    }

    /// One more than the greatest task; 1 where the samples have none.
    pub const fn n_tasks(&self) -> usize {
        self.n_tasks
    }
}

fn kinds(lengths: &[u32], longest: u32) -> Arc<[u32]> {
    let mut kinds: Vec<u32> = if longest <= MOST_MARKED { marked(lengths, longest) } else { lengths.to_vec() };
    kinds.sort_unstable();
    kinds.dedup();
    thinned(&kinds, MOST_KINDS).into()
}

/// Some of these in order, the last among them.
pub(super) fn thinned(lengths: &[u32], most: usize) -> Vec<u32> {
    let stride = lengths.len().div_ceil(most).max(1);
    let mut some: Vec<u32> = lengths.iter().rev().step_by(stride).copied().collect();
    some.reverse();
    some
}

/// The lengths that there are, each once.
fn marked(lengths: &[u32], longest: u32) -> Vec<u32> {
    let mut marks = vec![0u64; longest as usize / 64 + 1];
    for length in lengths {
        marks[*length as usize / 64] |= 1 << (length % 64);
    }
    (0..=longest).filter(|length| marks[*length as usize / 64] >> (length % 64) & 1 == 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(index: Result<SampleIndex<2>, IndexError>, message: &str) {
        assert_eq!(index.unwrap_err().to_string(), message);
    }

    #[test]
    fn bad_tables_are_refused_with_the_place() {
        let index = |a: &[u32], b: &[u32]| SampleIndex::try_new([a, b]);
        refused(index(&[], &[]), "start an epoch: the data set has no samples");
        refused(index(&[3, 4], &[3]), "index the samples: axis 1 has 1 lengths for 2 samples");
        refused(index(&[3, 4], &[3, 0]), "index the samples: sample 1 has length 0 on axis 1, it must be at least 1");
        let tasks = index(&[3, 4], &[3, 1]).unwrap().with_tasks([0]);
        refused(tasks, "index the samples: there are 1 tasks for 2 samples");
    }

    #[test]
    fn an_index_knows_its_extremes() {
        let index = SampleIndex::try_new([[3, 9], [8, 1]]).unwrap().with_tasks([0, 4]).unwrap();
        assert_eq!((index.longest(), index.lengths(1), index.n_tasks()), ([9, 8], [9, 1], 5));
    }

    #[test]
    fn an_index_knows_which_lengths_there_are() {
        let index = SampleIndex::try_new([[9, 3, 9, 4], [u32::MAX, 1, 1, 7]]).unwrap();
        assert_eq!((index.kinds(0), index.kinds(1)), (&[3, 4, 9][..], &[1, 7, u32::MAX][..]));
        let many = SampleIndex::try_new([(1..200_000).collect::<Vec<_>>()]).unwrap();
        assert!(many.kinds(0).len() <= MOST_KINDS && many.kinds(0).last() == Some(&199_999));
    }

    #[test]
    fn a_fingerprint_tells_lengths_and_tasks_apart() {
        let index = |a: [u32; 2], b: [u32; 2]| SampleIndex::try_new([a, b]).unwrap();
        let (here, tasks) = (index([3, 9], [8, 1]), [0, 4]);
        assert_eq!(here.fingerprint(), index([3, 9], [8, 1]).fingerprint());
        assert_ne!(here.fingerprint(), index([9, 3], [8, 1]).fingerprint());
        assert_ne!(here.fingerprint(), index([8, 1], [3, 9]).fingerprint());
        assert_ne!(here.fingerprint(), here.clone().with_tasks(tasks).unwrap().fingerprint());
    }
}
