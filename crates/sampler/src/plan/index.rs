//! What is known of the samples before any of them is read.

use std::sync::Arc;

use crate::SamplerError;
use crate::block_permutation::BlockPermutation;

/// The lengths of all samples, on one axis or on several that are padded each on its own, and the task of each.
///
/// A sample's id is its place here, from 0.
/// The tables are shared, not copied, by the planners and epochs that are made of an index: 4 bytes a sample and axis,
/// 2 more for a task.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleIndex<const AXES: usize> {
    lengths: [Arc<[u32]>; AXES],
    longest: [u32; AXES],
    tasks: Option<Arc<[u16]>>,
    n_tasks: usize,
}

impl<const AXES: usize> SampleIndex<AXES> {
    /// Reads the lengths once; those of every axis are in the order of the ids.
    ///
    /// # Errors
    ///
    /// [`SamplerError::NoSamples`], [`SamplerError::TooManySamples`], [`SamplerError::AxisCount`] when two axes
    /// disagree on the number of samples, and [`SamplerError::ZeroLength`] with the first sample that has none.
    pub fn try_new(lengths: [impl Into<Arc<[u32]>>; AXES]) -> Result<Self, SamplerError> {
        let lengths = lengths.map(Into::into);
        let n_samples = lengths.first().map_or(0, |axis| axis.len());
        if n_samples == 0 {
            return Err(SamplerError::NoSamples);
        }
        if n_samples as u64 > BlockPermutation::MOST {
            return Err(SamplerError::TooManySamples { n_samples: n_samples as u64, most: BlockPermutation::MOST });
        }
        for (axis, some) in lengths.iter().enumerate() {
            if some.len() != n_samples {
                return Err(SamplerError::AxisCount { axis, lengths: some.len(), n_samples });
            }
            if let Some(id) = some.iter().position(|length| *length == 0) {
                return Err(SamplerError::ZeroLength { id: id as u64, axis });
            }
        }
        let longest = lengths.each_ref().map(|axis| axis.iter().copied().max().unwrap_or(0));
        Ok(Self { lengths, longest, tasks: None, n_tasks: 1 })
    }

    /// Says which task each sample belongs to.
    ///
    /// # Errors
    ///
    /// [`SamplerError::TaskCount`] when there are more tasks, or fewer, than samples.
    pub fn with_tasks(mut self, tasks: impl Into<Arc<[u16]>>) -> Result<Self, SamplerError> {
        let tasks = tasks.into();
        if tasks.len() != self.n_samples() {
            return Err(SamplerError::TaskCount { tasks: tasks.len(), n_samples: self.n_samples() });
        }
        self.n_tasks = tasks.iter().max().map_or(1, |most| usize::from(*most) + 1);
        self.tasks = Some(tasks);
        Ok(self)
    }

    /// Number of samples.
    pub fn n_samples(&self) -> usize {
        self.lengths[0].len()
    }

    /// The greatest length on each axis.
    pub const fn longest(&self) -> [u32; AXES] {
        self.longest
    }

    /// The lengths of a sample.
    ///
    /// # Panics
    ///
    /// When there is no such sample.
    pub fn lengths(&self, id: u32) -> [u32; AXES] {
        self.lengths.each_ref().map(|axis| axis[id as usize])
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(index: Result<SampleIndex<2>, SamplerError>, message: &str) {
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
}
