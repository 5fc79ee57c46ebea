//! What is known of the samples that take part.

use std::ops::Range;
use std::sync::Arc;

use plimsoll_sampler::{Admit, AdmitCounts, Admitted, IndexError, SampleIndex};
use plimsoll_types::{Extent, MAX_AXES};

/// Lengths, tasks and weights of the samples that take part, each by its place among them.
pub(super) struct Table {
    /// Of each axis.
    lengths: Vec<Arc<[u32]>>,
    tasks: Option<Vec<u16>>,
    weights: Option<Vec<f64>>,
    /// What their indices in the dataset are, where some are left out.
    indices: Option<Vec<usize>>,
    pub(super) left_out: AdmitCounts,
}

impl Table {
    /// Takes samples by their lengths on each axis, of which there is one where samples may be left out; of those that are, tasks
    /// and weights count for nothing.
    pub(super) fn try_new(
        lengths: Vec<Vec<u32>>,
        tasks: Option<Vec<u16>>,
        weights: Option<Vec<f64>>,
        admit: Option<Admit>,
    ) -> Result<Self, IndexError> {
        let n_samples = lengths.first().map_or(0, Vec::len);
        if let Some(weights) = weights.as_ref().filter(|it| it.len() != n_samples) {
            return Err(IndexError::WeightCount { weights: weights.len(), n_samples });
        }
        let Some(admit) = admit else {
            let left_out = AdmitCounts::default();
            let lengths = lengths.into_iter().map(Arc::from).collect();
            return Ok(Self { lengths, tasks, weights, indices: None, left_out });
        };
        let costs = lengths.first().map_or(&[][..], |costs| costs);
        let Admitted { index, ids, counts } = admit.all(costs)?;
        let indices: Vec<_> = ids.into_iter().filter_map(|id| usize::try_from(id).ok()).collect();
        Ok(Self {
            lengths: vec![index.iter().map(|[cost]| cost).collect()],
            tasks: tasks.map(|all| kept(&indices, &all)),
            weights: weights.map(|all| kept(&indices, &all)),
            indices: Some(indices),
            left_out: counts,
        })
    }

    pub(super) fn n_samples(&self) -> usize {
        self.lengths[0].len()
    }

    pub(super) const fn n_axes(&self) -> usize {
        self.lengths.len()
    }

    /// What the sample at a place costs: the product of its lengths.
    pub(super) fn cost(&self, at: usize) -> u32 {
        u32::try_from(self.extent(at).positions()).unwrap_or(u32::MAX)
    }

    /// What the sample at a place extends to along each axis.
    pub(super) fn extent(&self, at: usize) -> Extent {
        let mut edges = [1; MAX_AXES];
        for (edge, axis) in edges.iter_mut().zip(&self.lengths) {
            *edge = axis[at];
        }
        // No length is 0, and there are no more axes than an extent can have.
        Extent::try_new(&edges[..self.n_axes()]).unwrap_or(Extent::new(u32::MAX))
    }

    /// The index in the dataset of the sample at a place.
    pub(super) fn index_of(&self, at: usize) -> usize {
        self.indices.as_ref().map_or(at, |indices| indices[at])
    }

    /// The samples from one place to another, on so many axes.
    pub(super) fn samples<const AXES: usize>(&self, range: &Range<usize>) -> Result<SampleIndex<AXES>, IndexError> {
        let is_all = *range == (0..self.n_samples());
        let of = |lengths: &Arc<[u32]>| if is_all { Arc::clone(lengths) } else { lengths[range.clone()].into() };
        let mut index = SampleIndex::try_new(std::array::from_fn(|axis| of(&self.lengths[axis])))?;
        if let Some(tasks) = &self.tasks {
            index = index.with_tasks(&tasks[range.clone()])?;
        }
        match &self.weights {
            Some(weights) => index.with_weights(&weights[range.clone()]),
            None => Ok(index),
        }
    }
}

fn kept<T: Copy>(indices: &[usize], all: &[T]) -> Vec<T> {
    indices.iter().map(|at| all[*at]).collect()
}
