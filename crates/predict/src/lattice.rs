//! The finite set of shapes that a run uses.

mod edges;
mod partition;
mod rungs;

use plimsoll_types::StepShape;
use serde::{Deserialize, Serialize};

pub use self::edges::{Edges, edges, fewest_edges};
pub use self::rungs::rungs;
use crate::PredictError;

/// Edges by batch sizes: what is padded to a cell of it was planned or has run before.
///
/// Each rung halves, rounded up, to another one, so that a batch that failed is split into shapes of the same lattice.
///
/// # Example
///
/// ```
/// use plimsoll_predict::{Lattice, edges, rungs};
/// use plimsoll_types::StepShape;
///
/// let lengths = [12, 90, 31, 17, 64, 60, 30, 29];
/// let found = edges(&lengths, 3, 8)?;
/// assert_eq!(found.edges, [32, 64, 96]);
///
/// let lattice = Lattice::try_new(found.edges, rungs(20)?)?;
/// assert_eq!(lattice.cell_for(17, 40), Some(StepShape::new(18, 64)));
/// assert_eq!(lattice.cell_for(17, 97), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "State", into = "State")]
pub struct Lattice {
    edges: Vec<u32>,
    rungs: Vec<u32>,
}

impl Lattice {
    /// Accepts edges and rungs in any order.
    ///
    /// # Errors
    ///
    /// [`PredictError::NoCell`] without an edge or a rung or when one of them is zero, [`PredictError::NotHalvable`] when
    /// half of a rung, rounded up, is none.
    pub fn try_new(edges: Vec<u32>, rungs: Vec<u32>) -> Result<Self, PredictError> {
        let (edges, rungs) = (sorted("n_edges", "edge", edges)?, sorted("n_rungs", "rung", rungs)?);
        match rungs::not_halvable(&rungs) {
            Some(rung) => Err(PredictError::NotHalvable { rung, half: rung.div_ceil(2) }),
            None => Ok(Self { edges, rungs }),
        }
    }

    /// Returns the edges, smallest first; there is at least one.
    pub fn edges(&self) -> &[u32] {
        &self.edges
    }

    /// Returns the batch sizes, smallest first; the first is 1.
    pub fn rungs(&self) -> &[u32] {
        &self.rungs
    }

    /// Returns all cells, edge by edge, smallest first.
    pub fn cells(&self) -> impl Iterator<Item = StepShape> {
        self.edges.iter().flat_map(|edge| self.rungs.iter().map(|samples| StepShape::new(*samples, *edge)))
    }

    /// Returns the smallest cell that holds `samples` samples of at most this length, or `None` when none does.
    pub fn cell_for(&self, samples: u32, length: u32) -> Option<StepShape> {
        Some(StepShape::new(first_from(&self.rungs, samples)?, first_from(&self.edges, length)?))
    }
}

fn first_from(sorted: &[u32], least: u32) -> Option<u32> {
    sorted.get(sorted.partition_point(|it| *it < least)).copied()
}

fn sorted(count: &'static str, value: &'static str, mut values: Vec<u32>) -> Result<Vec<u32>, PredictError> {
    values.sort_unstable();
    values.dedup();
    match values.first() {
        None => Err(PredictError::NoCell(count)),
        Some(0) => Err(PredictError::NoCell(value)),
        Some(_) => Ok(values),
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    edges: Vec<u32>,
    rungs: Vec<u32>,
}

impl From<Lattice> for State {
    fn from(lattice: Lattice) -> Self {
        Self { edges: lattice.edges, rungs: lattice.rungs }
    }
}

impl TryFrom<State> for Lattice {
    type Error = PredictError;

    fn try_from(state: State) -> Result<Self, PredictError> {
        Self::try_new(state.edges, state.rungs)
    }
}
