//! The micro-batch that was chosen, against all that could have been.

use plimsoll_types::{Bytes, Extent, edge_or_edges};
use serde::Serialize;

/// The speed of a job by the size of its micro-batches.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sweep {
    /// The job.
    pub job: String,
    /// What the memory was capped at.
    pub capacity: Bytes,
    /// Extent of the samples.
    #[serde(rename = "edge", with = "edge_or_edges")]
    pub extent: Extent,
    /// The micro-batch that was chosen.
    pub chosen: u32,
    /// Micro-batches, each with its samples per second.
    pub tried: Vec<(u32, f64)>,
}

impl Sweep {
    /// Returns the fastest micro-batch, and its samples per second.
    pub fn best(&self) -> Option<(u32, f64)> {
        self.tried.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Returns the speed of the chosen one as a part of the best.
    pub fn share(&self) -> Option<f64> {
        let chosen = self.tried.iter().find(|it| it.0 == self.chosen)?.1;
        self.best().map(|(_, best)| chosen / best)
    }

    /// Returns the cells of a table, under [`Self::HEAD`].
    pub(crate) fn cells(&self) -> Vec<String> {
        let tried: Vec<_> = self.tried.iter().map(|(batch, speed)| format!("{batch}: {speed:.1}")).collect();
        let share = self.share().map_or("not measured".to_owned(), |it| format!("{it:.2}"));
        let edge = self.extent.to_string();
        vec![self.job.clone(), edge, self.capacity.to_string(), self.chosen.to_string(), tried.join(", "), share]
    }

    /// The columns of a table of sweeps.
    pub(crate) const HEAD: [&'static str; 6] =
        ["job", "edge", "capacity", "chosen micro-batch", "samples per second by micro-batch", "chosen of best"];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_micro_batch_is_held_against_the_fastest() {
        let tried = vec![(1, 10.0), (2, 40.0), (4, 30.0)];
        let sweep = Sweep { job: "sr".into(), capacity: Bytes::mib(64), extent: 16.into(), chosen: 4, tried };
        assert_eq!((sweep.best(), sweep.share()), (Some((2, 40.0)), Some(0.75)));
        assert_eq!(Sweep { chosen: 8, ..sweep }.share(), None);
    }
}
