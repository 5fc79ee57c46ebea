//! How large the graphs behind the needs of a certificate are.

use plimsoll_types::StepShape;
use serde::{Deserialize, Serialize};

use crate::ShapeNeed;
use crate::graph::{bytes_per_bucket, fewest_buckets, most_buckets, most_nodes};

/// The nodes of each need's graph, as soon as one of them is large.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Graphs {
    checkpointing: bool,
    /// One per need, or none as long as all graphs were small.
    counts: Vec<Count>,
}

/// How many nodes a graph had, zero where it was small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Count {
    fewest: u64,
    most: u64,
}

impl Graphs {
    pub(super) fn new(checkpointing: bool) -> Self {
        Self { checkpointing, counts: Vec::new() }
    }

    /// The same as they were before the first.
    pub(super) fn emptied(&self) -> Self {
        Self::new(self.checkpointing)
    }

    /// Whether they are those of so many needs.
    pub(super) fn are_for(&self, n_needs: usize) -> bool {
        self.counts.is_empty() || self.counts.len() == n_needs
    }

    pub(super) fn are_large(&self) -> bool {
        !self.counts.is_empty()
    }

    /// Returns the most bytes that all tables take together for one bucket of each.
    pub(super) fn bytes_per_bucket(&self) -> f64 {
        bytes_per_bucket(self.checkpointing)
    }

    /// Adds the graph of another need to those of so many.
    pub(super) fn push(&mut self, n_needs: usize, nodes: u64) {
        if 0 < nodes && !self.are_large() {
            self.counts = vec![Count::default(); n_needs];
        }
        if 0 < nodes || self.are_large() {
            self.counts.push(Count { fewest: nodes, most: nodes });
        }
    }

    /// Counts the nodes of a need's graph once more, and says whether that is news; the first large one comes with
    /// a shape.
    pub(super) fn widen(&mut self, at: usize, nodes: u64) -> bool {
        let Some(known) = self.counts.get_mut(at) else { return false };
        let was = std::mem::replace(known, Count { fewest: known.fewest.min(nodes), most: known.most.max(nodes) });
        was != *known
    }

    pub(super) fn remove(&mut self, at: usize) {
        if self.are_large() {
            self.counts.remove(at);
        }
    }

    /// Returns the fewest buckets that the tables of a need have: where they have more, it says less of the tensors.
    pub(super) fn buckets_of(&self, at: usize) -> u64 {
        self.counts.get(at).map_or(0, |it| fewest_buckets(it.fewest))
    }

    /// Returns the most buckets that the tables of a step of this shape have, by what was counted of all needs.
    pub(super) fn most_buckets(&self, shape: StepShape, needs: &[ShapeNeed]) -> u64 {
        let counted = needs.iter().zip(&self.counts);
        let nodes = counted.map(|(it, count)| most_nodes(shape, it.shape, count.most)).min();
        nodes.map_or(0, most_buckets)
    }
}

/// What is not known to run without gradient checkpointing may run with it.
impl Default for Graphs {
    fn default() -> Self {
        Self::new(true)
    }
}
