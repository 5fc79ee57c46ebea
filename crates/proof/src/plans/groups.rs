//! Which cells are planned and run.

use plimsoll_types::{Extent, StepShape};
use serde::{Deserialize, Serialize};

/// Cells that one plan covers: a plan knows one number of samples per optimizer step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Samples of an optimizer step.
    pub effective_batch_size: u32,
    /// Shapes of micro-batches to train with.
    pub training: Vec<StepShape>,
    /// Shapes of forward passes without gradients.
    pub inference: Vec<StepShape>,
}

impl Group {
    /// Returns the shape of the largest optimizer step.
    pub fn largest(&self) -> StepShape {
        let largest = self.training.iter().map(|it| it.extent()).reduce(Extent::joined);
        StepShape::of(self.effective_batch_size, largest.unwrap_or(Extent::new(1)))
    }
}

/// What the extent of a job's samples counts; the tables below are in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edges {
    /// Pixels along the side of an image.
    Pixels,
    /// Tokens or frames along a sequence: four for each pixel.
    Positions,
    /// Images of a sample, one for eight pixels, and words, three for four, of which a text has 24 at most.
    ImagesAndWords,
}

impl Edges {
    /// Returns the extent that stands for so many pixels.
    ///
    /// # Panics
    ///
    /// For fewer than 8 pixels, where samples have images and words.
    pub fn of(self, pixels: u32) -> Extent {
        match self {
            Self::Pixels => pixels.into(),
            Self::Positions => (4 * pixels).into(),
            Self::ImagesAndWords => Extent::try_new(&[pixels / 8, (3 * pixels / 4).min(24)])
                .unwrap_or_else(|error| panic!("failed to {error}")),
        }
    }
}

/// An edge in pixels, and batches.
type Row = (u32, &'static [u32]);

/// Steps of 16 samples: in one micro-batch, in several, and with a ragged one.
/// A software device takes about 0.1 ms per pixel of a training step, which is why the large edges have few.
const OF_16: [Row; 5] =
    [(16, &[1, 3, 5, 8, 12, 16]), (24, &[2, 4, 7, 16]), (32, &[6, 8, 16]), (48, &[3, 16]), (64, &[9])];

/// Steps of one large micro-batch.
const OF_64: [Row; 2] = [(16, &[24, 32, 48, 64]), (24, &[40, 64])];

/// Steps of 64 samples on a device that learns from few of them. Batches of up to 4 run other kernels there, which take
/// seconds at large edges.
const PROBED: [Row; 5] = [
    (16, &[1, 3, 5, 8, 12, 16, 32, 48, 64]),
    (24, &[4, 7, 16, 40, 64]),
    (32, &[6, 8, 16, 24, 48]),
    (48, &[5, 8, 16, 32]),
    (64, &[5, 8, 12]),
];

const INFERENCE: [Row; 4] = [(16, &[1, 16, 64]), (32, &[4, 24]), (48, &[2, 9]), (64, &[1, 8])];

/// Returns the plans of a device that keeps pools.
pub fn pooled_groups(edges: Edges) -> Vec<Group> {
    let shapes = |rows| shapes(rows, edges);
    vec![
        Group { effective_batch_size: 16, training: shapes(&OF_16[..]), inference: shapes(&INFERENCE) },
        Group { effective_batch_size: 64, training: shapes(&OF_64), inference: Vec::new() },
    ]
}

/// Returns the plan of a device without pools: there is one, since bounds are learned within a plan.
pub fn probed_groups(edges: Edges) -> Vec<Group> {
    let shapes = |rows| shapes(rows, edges);
    vec![Group { effective_batch_size: 64, training: shapes(&PROBED[..]), inference: shapes(&INFERENCE) }]
}

/// Keeps about `n_cells` cells, spread evenly; the first of each group stays.
pub fn thin(groups: &[Group], n_cells: usize) -> Vec<Group> {
    let n_all: usize = groups.iter().map(|it| it.training.len() + it.inference.len()).sum();
    let keep = |shapes: &[StepShape]| -> Vec<StepShape> {
        let n = if n_all <= n_cells { shapes.len() } else { (shapes.len() * n_cells).div_ceil(n_all) };
        (0..n).map(|i| shapes[i * shapes.len() / n]).collect()
    };
    groups
        .iter()
        .map(|it| Group { training: keep(&it.training), inference: keep(&it.inference), ..it.clone() })
        .collect()
}

fn shapes(rows: &[Row], edges: Edges) -> Vec<StepShape> {
    let row = |(edge, batches): &Row| {
        let extent = edges.of(*edge);
        batches.iter().map(move |batch| StepShape::of(*batch, extent))
    };
    rows.iter().flat_map(row).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_device_runs_at_least_24_cells_of_both_phases_and_each_once() {
        for groups in [pooled_groups(Edges::Pixels), probed_groups(Edges::Pixels)] {
            let training: Vec<_> = groups
                .iter()
                .flat_map(|it| it.training.iter().map(|shape| (it.effective_batch_size, *shape)))
                .collect();
            let inference: Vec<_> = groups.iter().flat_map(|it| &it.inference).collect();
            assert!(24 <= training.len() + inference.len() && 16 <= training.len() && 6 <= inference.len());
            let distinct: BTreeSet<_> = training.iter().collect();
            assert_eq!(distinct.len(), training.len());
            let spread = |value: fn(&StepShape) -> u32| {
                let values = || training.iter().map(|(_, it)| value(it));
                (values().min(), values().max())
            };
            assert_eq!(spread(|it| it.samples), (Some(1), Some(64)));
            assert_eq!(spread(|it| it.edge()), (Some(16), Some(64)));
        }
    }

    #[test]
    fn no_micro_batch_is_larger_than_its_step() {
        for group in pooled_groups(Edges::ImagesAndWords).into_iter().chain(probed_groups(Edges::Positions)) {
            assert!(group.training.iter().all(|it| it.samples <= group.effective_batch_size), "{group:?}");
        }
    }

    #[test]
    fn some_cells_have_a_ragged_part_and_some_accumulate_and_some_do_neither() {
        let cells = pooled_groups(Edges::Pixels).into_iter().flat_map(|it| {
            let n = it.effective_batch_size;
            it.training.into_iter().map(move |shape| (n, shape.samples))
        });
        let cells: Vec<_> = cells.collect();
        assert!(cells.iter().any(|(n, batch)| n % batch != 0));
        assert!(cells.iter().any(|(n, batch)| batch < n && n % batch == 0));
        assert!(cells.iter().any(|(n, batch)| n == batch));
    }

    #[test]
    fn fewer_cells_keep_the_spread_and_the_order() {
        let few = thin(&pooled_groups(Edges::Pixels), 12);
        let n: usize = few.iter().map(|it| it.training.len() + it.inference.len()).sum();
        assert!((12..=14).contains(&n), "{n}");
        assert_eq!(few[0].training[0], StepShape::new(1, 16));
        assert!(few[0].training.iter().any(|it| 48 <= it.edge()), "{few:?}");
        assert_eq!(thin(&pooled_groups(Edges::Pixels), 1000), pooled_groups(Edges::Pixels));
    }
}
