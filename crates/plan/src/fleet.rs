//! The plans of several devices, and what these take together.

use plimsoll_predict::Phase;
use plimsoll_types::{Bytes, Extent, edge_or_edges};
use serde::{Deserialize, Serialize};

use crate::{Fit, MemoryPlan, PlannedCell};

/// Version of the file's layout.
pub const PLAN_VERSION: u32 = 4;

/// What every cell of a lattice needs on each device of a run, for one program: what `memory_plan.json` holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetPlan {
    /// Version of the layout: [`PLAN_VERSION`].
    pub version: u32,
    /// One for each device, in the order of the ranks.
    pub plans: Vec<MemoryPlan>,
    /// What training takes of each planned extent, from the smallest.
    pub together: Vec<Together>,
}

/// What the devices of a run take at once of samples of one extent, each within its own budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Together {
    /// The extent.
    #[serde(rename = "edge", with = "edge_or_edges")]
    pub extent: Extent,
    /// The largest planned micro-batch that is certain to fit each device; zero where none is.
    pub batches: Vec<u32>,
    /// All of them.
    pub samples: u64,
    /// The place of the device that takes the fewest samples, or of several that take as many the one that has the least
    /// beside them.
    pub tightest: usize,
}

impl FleetPlan {
    /// Says what devices take together, of which each has its own plan of the same program.
    pub fn new(plans: Vec<MemoryPlan>) -> Self {
        let mut extents: Vec<Extent> = plans.iter().flat_map(|it| it.of(Phase::Train)).map(|it| it.extent).collect();
        extents.sort_unstable_by_key(|it| (it.positions(), *it));
        extents.dedup();
        let together = extents.into_iter().map(|extent| Together::of(&plans, extent)).collect();
        Self { version: PLAN_VERSION, plans, together }
    }

    /// Returns the place of the device that takes the least of the largest extent; none where nothing was planned.
    pub fn tightest(&self) -> Option<usize> {
        self.together.last().map(|it| it.tightest)
    }
}

impl Together {
    fn of(plans: &[MemoryPlan], extent: Extent) -> Self {
        let largest: Vec<_> = plans.iter().map(|it| largest(it, extent)).collect();
        let batches: Vec<u32> = largest.iter().map(|it| it.map_or(0, |cell| cell.batch)).collect();
        let left = |at: usize| plans[at].budget.saturating_sub(largest[at].map_or(Bytes::ZERO, |it| it.upper));
        let tightest = (0..plans.len()).min_by_key(|at| (batches[*at], left(*at))).unwrap_or(0);
        Self { extent, samples: batches.iter().map(|it| u64::from(*it)).sum(), batches, tightest }
    }
}

/// Returns the largest micro-batch of an extent that fits a device.
fn largest(plan: &MemoryPlan, extent: Extent) -> Option<&PlannedCell> {
    plan.of(Phase::Train).filter(|it| it.extent == extent && it.fit == Fit::Fits).max_by_key(|it| it.batch)
}
