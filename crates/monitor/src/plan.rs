//! What a memory plan says, as its picture and its table show it.

use std::fmt;

use plimsoll_types::{Bytes, Extent, StepShape};

/// A memory plan to be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanView {
    /// What was planned, such as `sr, training`.
    pub job: String,
    /// The device that it was planned for.
    pub device: String,
    /// What the edge of a shape is, with its unit, such as `patch size (px)`.
    pub edge_name: String,
    /// What the device has.
    pub capacity: Bytes,
    /// What the run may use.
    pub budget: Bytes,
    /// Extents of the lattice; one that no cell has is shown as an empty row, one that only a cell has need not be here.
    pub extents: Vec<Extent>,
    /// Batch sizes of the lattice, in samples, likewise.
    pub batches: Vec<u32>,
    /// The planned cells, in the order of the table; of two with one shape, the picture shows the latter.
    pub cells: Vec<PlanCell>,
}

/// What a plan says of one shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanCell {
    /// The shape of a micro-batch.
    pub shape: StepShape,
    /// The reserved memory that is held against the budget; `None` where no budget is enough, because one allocation
    /// is larger than the device allows.
    pub reserved: Option<Bytes>,
    /// The in-use peak, where the device tells it.
    pub in_use: Option<Bytes>,
    /// Where the figures come from.
    pub source: PlanSource,
}

/// Where the figures of a cell come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlanSource {
    /// A real step of this shape.
    Memo,
    /// A step whose launches were dropped.
    DryRun,
    /// The upper bound that follows from other shapes.
    Certificate,
}

impl PlanSource {
    /// Every source.
    pub(crate) const ALL: [Self; 3] = [Self::Memo, Self::Certificate, Self::DryRun];
}

impl fmt::Display for PlanSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Memo => "memo",
            Self::DryRun => "dry run",
            Self::Certificate => "certificate",
        })
    }
}

impl PlanCell {
    /// Whether the reserved memory is within a budget.
    pub fn fits(&self, budget: Bytes) -> bool {
        self.reserved.is_some_and(|it| it <= budget)
    }

    /// Writes the share of a budget in percent, without the sign; `None` where there is no such number.
    ///
    /// Rounds away from 100, so that 100 fits and 101 does not.
    pub(crate) fn percent(&self, budget: Bytes, decimals: u32) -> Option<String> {
        let (reserved, budget, unit) = (u128::from(self.reserved?.0), u128::from(budget.0), 10u128.pow(decimals));
        let scaled = reserved * 100 * unit;
        let rounded = if reserved <= budget {
            scaled.checked_div(budget)?
        } else {
            scaled.checked_next_multiple_of(budget)? / budget
        };
        Some(match decimals {
            0 => rounded.to_string(),
            _ => format!("{}.{:0>width$}", rounded / unit, rounded % unit, width = decimals as usize),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_says_whether_the_cell_fits() {
        let percent = |reserved: u64, decimals: u32| {
            let shape = StepShape::new(1, 16);
            let cell = PlanCell { shape, reserved: Some(Bytes(reserved)), in_use: None, source: PlanSource::Memo };
            cell.percent(Bytes(10_000), decimals)
        };
        for (reserved, whole, tenths) in [
            (0, "0", "0.0"),
            (937, "9", "9.3"),
            (9999, "99", "99.9"),
            (10_000, "100", "100.0"),
            (10_001, "101", "100.1"),
            (25_000, "250", "250.0"),
        ] {
            assert_eq!((percent(reserved, 0).as_deref(), percent(reserved, 1).as_deref()), (Some(whole), Some(tenths)));
        }
    }

    #[test]
    fn nothing_is_a_share_of_no_budget() {
        let reserved = Some(Bytes::mib(1));
        let cell = PlanCell { shape: StepShape::new(1, 16), reserved, in_use: None, source: PlanSource::Memo };
        assert_eq!(cell.percent(Bytes::ZERO, 1), None);
        assert_eq!(PlanCell { reserved: None, ..cell }.percent(Bytes::mib(1), 1), None);
        assert!(!cell.fits(Bytes::ZERO) && cell.fits(Bytes::mib(1)));
    }
}
