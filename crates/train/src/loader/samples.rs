//! What one step is given.

use std::ops::Range;

use plimsoll_types::Extent;

use super::ended::EndedEpoch;
use super::shares::Dealt;
use crate::job::Unit;
use crate::source::Draw;

/// The samples of one optimizer step, on the host.
#[derive(Debug)]
pub struct StepSamples<B> {
    /// Which samples.
    pub draw: Draw,
    /// Lengths of each sample.
    pub extents: Vec<Extent>,
    /// Positions of each sample at which there is something to learn.
    pub counted: Vec<u64>,
    /// Task of each sample.
    pub tasks: Vec<u16>,
    /// Who runs them.
    pub(crate) dealt: Dealt,
    /// Samples that could not be read and are left out.
    pub skipped: Vec<u64>,
    /// Their content.
    pub buffer: B,
    /// Whether the epoch ends with this step.
    pub ends_epoch: bool,
    /// Epochs that ended before this step, with one of which no sample was left, or that was left out.
    pub ended: Vec<EndedEpoch>,
}

impl<B> StepSamples<B> {
    /// Returns what each row counts: the sum over its samples.
    pub(crate) fn units(&self, unit: Unit) -> Vec<u64> {
        let count = |samples: Range<usize>| match unit {
            Unit::Samples => samples.len() as u64,
            Unit::Positions => self.counted[samples].iter().sum(),
        };
        self.draw.rows().map(count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Part;

    #[test]
    fn a_row_counts_its_samples_or_the_positions_at_which_they_have_something_to_learn() {
        let packed = Part { packed: Some(vec![2, 1]), ..Part::new(vec![3, 0, 1], 16) };
        let draw = Draw { epoch: 0, parts: vec![packed, Part::new(vec![2], 8)] };
        let samples = StepSamples {
            extents: [9, 5, 12, 8].map(Extent::new).to_vec(),
            counted: vec![9, 2, 12, 7],
            tasks: vec![0; 4],
            dealt: Dealt::to_one(&draw),
            draw,
            skipped: Vec::new(),
            buffer: (),
            ends_epoch: false,
            ended: Vec::new(),
        };
        assert_eq!(samples.units(Unit::Samples), [2, 1, 1]);
        assert_eq!(samples.units(Unit::Positions), [11, 12, 7]);
    }
}
