//! What the cells promise.

use plimsoll_sampler::EpochEnd;
use plimsoll_types::{Cells, Extent};

use super::LoaderConfig;
use crate::index::Index;
use crate::source::{Lengths, Source, known_extents};
use crate::too_large::TooLarge;

/// Returns the part of the positions, from 0 to 1, that is padding where each sample is padded to its own cell, comes as often
/// as weights and shares say, and those that are too large are left out; `None` where samples are cut or packed, or somebody
/// has yet to look how long they are.
///
/// A micro-batch that mixes samples of several cells has more. Of a million samples it takes some 40 ms on a core
/// that is busy with others.
pub(crate) fn planned_padding(source: &impl Source, config: &LoaderConfig, too_large: &TooLarge) -> Option<f64> {
    let lengths = source.lengths();
    if let Lengths::Packed { .. } = lengths {
        return None;
    }
    let index = lengths.index();
    let weight = |id| index.as_ref().map_or(1.0, |it| it.weight(id));
    let mut sums = Vec::new();
    for ((id, task), extent) in (0..).zip(tasks(source, index.as_ref())).zip(known_extents(source)) {
        if sums.len() <= task {
            sums.resize(task + 1, Sum::default());
        }
        sums[task].add(extent?, weight(id), &config.cells, too_large);
    }
    let shares = config.tasks.shares.as_ref().filter(|_| config.tasks.ends != EpochEnd::AllOnce);
    padding(&sums, shares.map(Vec::as_slice))
}

/// Returns the task of each sample, or the source that it comes from.
fn tasks<'a>(source: &'a impl Source, index: Option<&'a Index>) -> Box<dyn Iterator<Item = usize> + 'a> {
    let sources = (0..).zip(source.sources()).flat_map(|(at, it)| (0..it.n_samples).map(move |_| at));
    match index {
        Some(index) => match index.tasks() {
            Some(tasks) => Box::new(tasks.iter().map(|it| usize::from(*it))),
            None => Box::new(std::iter::repeat(0)),
        },
        None if source.sources().is_empty() => Box::new(std::iter::repeat(0)),
        None => Box::new(sources),
    }
}

/// Adds up tasks, which have shares where not every sample comes once.
fn padding(sums: &[Sum], shares: Option<&[f64]>) -> Option<f64> {
    let (mut real, mut padded) = (0.0, 0.0);
    for (task, sum) in sums.iter().enumerate().filter(|(_, it)| 0.0 < it.weight) {
        let factor = shares.map_or(1.0, |it| it.get(task).copied().unwrap_or(0.0) / sum.weight);
        (real, padded) = (real + factor * sum.real, padded + factor * sum.padded);
    }
    (0.0 < padded).then(|| 1.0 - real / padded)
}

/// Positions of a task's samples, each times its weight.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sum {
    weight: f64,
    real: f64,
    /// In their cells.
    padded: f64,
}

impl Sum {
    fn add(&mut self, extent: Extent, weight: f64, cells: &Cells, too_large: &TooLarge) {
        let cell = cells.at(extent).map(|at| cells[at]);
        if let Some(cell) = cell.filter(|it| !too_large.has_cell(*it)) {
            self.weight += weight;
            self.real += weight * extent.positions() as f64;
            self.padded += weight * cell.positions() as f64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(lengths: &[u32], too_large: Option<u32>, weight: f64) -> Sum {
        let cells = vec![8, 16].into();
        let too_large = TooLarge::from(too_large.into_iter().map(Extent::new).collect(), &cells);
        let mut sum = Sum::default();
        for length in lengths {
            sum.add((*length).into(), weight, &cells, &too_large);
        }
        sum
    }

    #[test]
    fn each_sample_is_padded_to_its_own_cell() {
        let check = |lengths: &[u32], too_large: Option<u32>, [weight, real, padded]: [f64; 3]| {
            assert_eq!(sum(lengths, too_large, 1.0), Sum { weight, real, padded }, "{lengths:?}");
        };
        check(&[8, 16], None, [2.0, 24.0, 24.0]);
        check(&[6, 9], None, [2.0, 15.0, 24.0]);
        check(&[6, 9, 17], None, [2.0, 15.0, 24.0]);
        check(&[6, 9], Some(9), [1.0, 6.0, 8.0]);
    }

    #[test]
    fn what_comes_more_often_counts_for_more() {
        let (full, half) = ([8, 8, 8, 16], [4]);
        let sums = |weight| [sum(&full, None, 1.0), sum(&half, None, weight)];
        assert_eq!(padding(&sums(1.0), None), Some(1.0 - 44.0 / 48.0));
        assert_eq!(padding(&sums(5.0), None), Some(1.0 - 60.0 / 80.0));
        // Half of the samples are of either: ten positions on average without padding, and four with as many.
        assert_eq!(padding(&sums(1.0), Some(&[0.5, 0.5])), Some(1.0 - 14.0 / 18.0));
        assert_eq!(padding(&sums(5.0), Some(&[0.5, 0.5])), Some(1.0 - 14.0 / 18.0));
        assert_eq!(padding(&[Sum::default()], None), None);
    }
}
