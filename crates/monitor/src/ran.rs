//! Which sizes ran: how fast each batch size was, and how many samples were padded or cut to each shape.

use plimsoll_types::{Extent, edge_or_edges};
use serde::{Deserialize, Serialize};

use crate::history::History;
use crate::work::rate;

/// What the committed steps of one size did; the first step of a run, which pays for the others, is left out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizeRate {
    /// The largest edge that was asked for.
    pub patch_size: u32,
    /// Samples of a micro-batch that were asked for.
    pub micro_batch_size: u32,
    /// Samples of these steps.
    pub samples: u64,
    /// Their time in seconds.
    pub seconds: f64,
    /// The one by the other.
    pub samples_per_second: Option<f64>,
}

/// Samples of the committed steps that were padded or cut to one shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeSamples {
    /// The edge, in the run's unit of length; a list along several axes.
    #[serde(with = "edge_or_edges")]
    pub edge: Extent,
    /// How many samples.
    pub samples: u64,
}

/// Returns the rates by patch size and micro-batch size, in growing order.
pub(crate) fn size_rates(history: &History) -> Vec<SizeRate> {
    let rates = history.curves.committed.rates.iter();
    let of_size = |(&(patch_size, micro_batch_size), &(samples, seconds)): (&(u32, u32), &(u64, f64))| SizeRate {
        patch_size,
        micro_batch_size,
        samples,
        seconds,
        samples_per_second: rate(samples, seconds),
    };
    rates.map(of_size).collect()
}

/// Returns the samples of each shape, from the fewest positions.
pub(crate) fn edge_samples(history: &History) -> Vec<EdgeSamples> {
    let all = history.curves.committed.edges.iter();
    let mut edges: Vec<_> = all.map(|(&edge, &samples)| EdgeSamples { edge, samples }).collect();
    edges.sort_by_key(|it| it.edge.positions());
    edges
}
