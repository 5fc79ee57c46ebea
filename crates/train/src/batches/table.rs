//! What is known of the samples that take part.

use std::ops::Range;
use std::sync::Arc;

use plimsoll_sampler::{Admit, AdmitCounts, Admitted, IndexError, SampleIndex};

/// Costs, tasks and weights of the samples that take part, each by its place among them.
pub(super) struct Table {
    costs: Arc<[u32]>,
    tasks: Option<Vec<u16>>,
    weights: Option<Vec<f64>>,
    /// What their indices in the dataset are, where some are left out.
    indices: Option<Vec<usize>>,
    pub(super) left_out: AdmitCounts,
}

impl Table {
    /// Takes samples by their costs; of those that are left out, tasks and weights count for nothing.
    pub(super) fn try_new(
        costs: Vec<u32>,
        tasks: Option<Vec<u16>>,
        weights: Option<Vec<f64>>,
        admit: Option<Admit>,
    ) -> Result<Self, IndexError> {
        let n_samples = costs.len();
        if let Some(weights) = weights.as_ref().filter(|it| it.len() != n_samples) {
            return Err(IndexError::WeightCount { weights: weights.len(), n_samples });
        }
        let Some(admit) = admit else {
            let left_out = AdmitCounts::default();
            return Ok(Self { costs: costs.into(), tasks, weights, indices: None, left_out });
        };
        let Admitted { index, ids, counts } = admit.all(&costs)?;
        let indices: Vec<_> = ids.into_iter().filter_map(|id| usize::try_from(id).ok()).collect();
        Ok(Self {
            costs: index.iter().map(|[cost]| cost).collect(),
            tasks: tasks.map(|all| kept(&indices, &all)),
            weights: weights.map(|all| kept(&indices, &all)),
            indices: Some(indices),
            left_out: counts,
        })
    }

    pub(super) fn n_samples(&self) -> usize {
        self.costs.len()
    }

    /// The index in the dataset of the sample at a place.
    pub(super) fn index_of(&self, at: usize) -> usize {
        self.indices.as_ref().map_or(at, |indices| indices[at])
    }

    /// The samples from one place to another.
    pub(super) fn samples(&self, range: Range<usize>) -> Result<SampleIndex<1>, IndexError> {
        let is_all = range == (0..self.n_samples());
        let costs = if is_all { Arc::clone(&self.costs) } else { self.costs[range.clone()].into() };
        let mut index = SampleIndex::try_new([costs])?;
        if let Some(tasks) = &self.tasks {
            index = index.with_tasks(&tasks[range.clone()])?;
        }
        match &self.weights {
            Some(weights) => index.with_weights(&weights[range]),
            None => Ok(index),
        }
    }
}

fn kept<T: Copy>(indices: &[usize], all: &[T]) -> Vec<T> {
    indices.iter().map(|at| all[*at]).collect()
}
