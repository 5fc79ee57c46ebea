//! What time recomputed activations take, and what larger micro-batches win.

use burn::tensor::Device;
use plimsoll_predict::Phase;
use plimsoll_types::{Extent, Recompute, StepShape, edge_or_edges};
use serde::{Deserialize, Serialize};

use crate::{DryRunPlanner, OpenProbe, OpenSteps, PlanError};

/// Steps of which the fastest counts; the one before them makes the optimizer's state, and kernels are compiled for it.
const TIMED: usize = 2;

/// How fast steps of one shape are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pace {
    /// Samples of a micro-batch.
    pub batch: u32,
    /// Seconds for each sample, the optimizer's step included.
    pub seconds: f64,
}

/// How fast steps of one extent are, in the largest micro-batches that fit, with activations kept and recomputed.
///
/// Both take as many samples for each optimizer step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compared {
    /// Extent of a sample.
    #[serde(rename = "edge", with = "edge_or_edges")]
    pub extent: Extent,
    /// Samples of the data that are padded to it; 1 where nothing tells.
    pub n_samples: u64,
    /// With activations kept.
    pub kept: Pace,
    /// With activations recomputed.
    pub recomputed: Pace,
}

impl Compared {
    /// Returns the seconds that recomputing saves in all samples of the extent; below zero where it costs time.
    fn saved(&self) -> f64 {
        (self.kept.seconds - self.recomputed.seconds) * self.n_samples as f64
    }
}

/// Returns whose activations to recompute, so that all the data take the least time: what is `needed`, and what is shorter
/// than that as far as it saves time in all.
///
/// `extents` are those that a run trains with; what was not compared is kept, and what is shorter than that with it.
pub fn fastest(compared: &[Compared], needed: Recompute, extents: &[Extent]) -> Recompute {
    let saved_of = |edge: u32| {
        let own = extents.iter().filter(|it| it.edge() == edge);
        own.map(|extent| compared.iter().find(|it| it.extent == *extent).map(Compared::saved)).sum::<Option<f64>>()
    };
    let mut edges: Vec<_> = extents.iter().map(|it| it.edge()).filter(|it| !needed.is_on(*it)).collect();
    edges.sort_unstable();
    edges.dedup();
    let (mut all, mut most, mut fastest) = (0.0, 0.0, needed);
    while let Some(saved) = edges.pop().and_then(saved_of) {
        all += saved;
        if most < all {
            (most, fastest) = (all, Recompute::above(edges.last().copied()));
        }
    }
    fastest
}

impl DryRunPlanner {
    /// Runs real steps of `n_samples` in micro-batches of a shape, apart from all else, and returns how fast they are; `None`
    /// where they ran out of memory.
    ///
    /// # Errors
    ///
    /// [`PlanError::Step`] when a step fails otherwise, [`PlanError::Probe`] when the device refuses.
    pub fn pace(
        &self,
        device: &Device,
        open: (OpenProbe<'_>, OpenSteps<'_>),
        shape: StepShape,
        n_samples: u32,
    ) -> Result<Option<Pace>, PlanError> {
        let ran = self.real_steps(device, open, (Phase::Train, shape, n_samples), 1 + TIMED)?;
        Ok(ran.map(|ran| {
            let fastest = ran.seconds.into_iter().skip(1).fold(f64::INFINITY, f64::min);
            Pace { batch: shape.samples, seconds: fastest / f64::from(n_samples) }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Milliseconds of a sample of each edge with activations kept and recomputed, where both were tried, and how many
    /// samples the data have of it.
    type Edge = (u32, Option<(f64, f64)>, u64);

    #[track_caller]
    fn check(edges: &[Edge], needed: Recompute, expected: Recompute) {
        let pace = |batch, ms| Pace { batch, seconds: ms * 1e-3 };
        let compared = |(edge, both, n_samples): &Edge| {
            let (extent, n_samples) = (Extent::new(*edge), *n_samples);
            both.map(|(kept, again)| Compared { extent, n_samples, kept: pace(2, kept), recomputed: pace(4, again) })
        };
        let extents: Vec<_> = edges.iter().map(|it| Extent::new(it.0)).collect();
        let compared: Vec<_> = edges.iter().filter_map(compared).collect();
        assert_eq!(fastest(&compared, needed, &extents), expected);
    }

    #[test]
    fn what_is_not_compared_is_kept() {
        check(&[(64, None, 9), (128, None, 9)], Recompute::NEVER, Recompute::NEVER);
        check(&[(64, None, 9), (128, None, 9)], Recompute::from(128), Recompute::from(128));
        check(&[(64, Some((2.0, 1.0)), 9), (128, None, 9)], Recompute::NEVER, Recompute::NEVER);
    }

    #[test]
    fn it_is_recomputed_where_that_saves_time_and_only_there() {
        let edges = [(64, Some((2.0, 2.1)), 9), (128, Some((4.0, 3.0)), 9), (256, Some((8.0, 6.0)), 1)];
        check(&edges, Recompute::NEVER, Recompute::from(65));
        check(&edges, Recompute::from(256), Recompute::from(65));
        let all = edges.map(|(edge, _, n)| (edge, Some((2.0, 1.0)), n));
        check(&all, Recompute::NEVER, Recompute::ALWAYS);
    }

    #[test]
    fn the_whole_data_decide_where_one_edge_loses_what_another_wins() {
        let edges = |n| [(64, None, 9), (128, Some((4.0, 3.0)), n), (256, Some((8.0, 9.0)), 10)];
        check(&edges(9), Recompute::NEVER, Recompute::NEVER);
        check(&edges(11), Recompute::NEVER, Recompute::from(65));
    }
}
