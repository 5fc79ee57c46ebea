//! How many samples come into one window.

use super::compact::width;
use super::config::{ALL, PlanConfig, WINDOW};
use super::kinds::has_edges;
use super::narrow::narrow;
use crate::SampleIndex;

/// Kinds above this are too many to be counted.
const MOST_COUNTED: usize = 1 << 20;

/// The most bits that may tell what is taken of a window that nobody asked for: 3.3 kB of JSON.
const MOST_BITS: u64 = 20_000;

/// How many samples come into one window: what the configuration says, or less where nobody asked for it and samples are
/// of so many kinds that a position in so large a window would be large too.
pub(super) fn chosen_window<const AXES: usize>(index: &SampleIndex<AXES>, config: &PlanConfig<AXES>) -> usize {
    let n_samples = index.n_samples();
    let window = config.window(n_samples);
    if config.window.is_none() && AXES == 1 && window > WINDOW && n_bits(index, config) > MOST_BITS {
        return PlanConfig { window: Some(WINDOW), ..config.clone() }.window(n_samples);
    }
    window
}

/// How many bits it takes to say how many there are of each task and each length, or edge, on the first axis.
fn n_bits<const AXES: usize>(index: &SampleIndex<AXES>, config: &PlanConfig<AXES>) -> u64 {
    let has_edges = has_edges(config, 0);
    let n_lengths = 1 + if has_edges { config.lattice.n_edges(0) } else { index.longest()[0] as usize };
    let n_kinds = n_lengths.saturating_mul(index.n_tasks());
    if index.n_samples() > ALL || n_kinds > MOST_COUNTED {
        return u64::MAX;
    }
    let mut counts = vec![0u64; n_kinds];
    for id in 0..narrow(index.n_samples()) {
        let length = index.lengths(id)[0];
        let length = if has_edges { config.lattice.rank(0, length) } else { length as usize };
        let task = index.tasks().map_or(0, |tasks| usize::from(tasks[id as usize]));
        counts[task * n_lengths + length] += 1;
    }
    counts.into_iter().map(|count| u64::from(width(count))).sum()
}
