//! What shapes that have run reserved.

use std::collections::BTreeMap;

use plimsoll_types::{Bytes, StepShape};
use serde::{Deserialize, Serialize};

use crate::recent::Recent;

/// Shapes that are remembered: more than a ladder has rungs, or a lattice edges times batches.
const MOST: usize = 256;

/// Readings of one shape that count for its memo: the largest of the last 16 to 32, as for a need of the bytes in use.
const READINGS: u32 = 16;

/// What shapes reserved lately; of too many, the one that was read longest ago is forgotten.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<(StepShape, Memo)>", into = "Vec<(StepShape, Memo)>")]
pub(super) struct Memos {
    of: BTreeMap<StepShape, Memo>,
}

/// What one shape reserved lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Memo {
    reserved: Recent,
    /// What was in use before those steps.
    resident: Recent,
    /// Higher for what was read later.
    at: u64,
}

impl Memos {
    /// Returns the most that was reserved for a shape.
    pub(super) fn most(&self, shape: StepShape) -> Option<Bytes> {
        self.of.get(&shape).map(|it| Bytes(it.reserved.most()))
    }

    /// Returns the same for a step that begins with so much in use: more by what no step that was read began with.
    pub(super) fn need(&self, shape: StepShape, resident: Bytes) -> Option<Bytes> {
        let memo = self.of.get(&shape)?;
        let beyond = resident.saturating_sub(Bytes(memo.resident.most()));
        Some(Bytes(memo.reserved.most()).saturating_add(beyond))
    }

    /// Multiplies every memo by a factor of at least 1.
    pub(super) fn widen(&mut self, factor: f64) {
        self.of.values_mut().for_each(|it| it.reserved.widen(factor));
    }

    /// Takes a reading.
    pub(super) fn push(&mut self, shape: StepShape, resident: Bytes, reserved: Bytes) {
        let at = 1 + self.of.values().map(|it| it.at).max().unwrap_or(0);
        if MOST <= self.of.len() && !self.of.contains_key(&shape) {
            let oldest = self.of.iter().min_by_key(|(_, it)| it.at).map(|(shape, _)| *shape);
            oldest.map(|it| self.of.remove(&it));
        }
        let memo = self.of.entry(shape).or_default();
        memo.reserved.push(reserved.0, READINGS);
        memo.resident.push(resident.0, READINGS);
        memo.at = at;
    }

    /// Forgets a shape.
    pub(super) fn forget(&mut self, shape: StepShape) {
        self.of.remove(&shape);
    }
}

impl From<Memos> for Vec<(StepShape, Memo)> {
    fn from(memos: Memos) -> Self {
        memos.of.into_iter().collect()
    }
}

impl From<Vec<(StepShape, Memo)>> for Memos {
    fn from(memos: Vec<(StepShape, Memo)>) -> Self {
        Self { of: memos.into_iter().collect() }
    }
}
