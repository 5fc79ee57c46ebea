//! What larger micro-batches have brought.

use plimsoll_types::{Extent, Knobs, StepDone};

use crate::run::Run;
use crate::text::short;

/// A rate that differs by less than this part is the same.
const SAME_RATE: f64 = 0.05;
/// Steps of a size from which a rate can be told.
const RATED: usize = 3;

/// Steps of one size whose samples all extend alike.
struct Rate {
    knobs: Knobs,
    edges: Extent,
    samples_per_second: f64,
}

/// Says what larger micro-batches have brought, as far as it was measured: the rate of the last size against the first.
pub(crate) fn gain(run: &Run<'_>) -> String {
    let rates = rates(run);
    let (Some(first), Some(last)) = (rates.first(), rates.last()) else { return String::new() };
    let (small, large) = (first.knobs.micro_batch_size, last.knobs.micro_batch_size);
    // Longer samples or a larger patch are another amount of work.
    if small >= large || first.edges != last.edges {
        return String::new();
    }
    let (before, after) = (first.samples_per_second, last.samples_per_second);
    let ratio = after / before;
    let rate = format!("{} samples per second at batch {small}, {} at {large}", short(before), short(after));
    let settled = if ratio > 1.0 + SAME_RATE {
        "Larger micro-batches were faster"
    } else if ratio < 1.0 - SAME_RATE {
        "Larger micro-batches were slower"
    } else {
        "Larger micro-batches were no faster"
    };
    format!(" {settled}: {rate}.")
}

/// Returns the rate of each size in order, its first step left out; of steps that mix lengths none can be told, since what
/// a sample takes depends on its length.
fn rates(run: &Run<'_>) -> Vec<Rate> {
    let steps: Vec<_> = run.steps().filter(|it| it.committed).collect();
    let of_size = |alike: &[&StepDone]| {
        let settled = &alike[1..];
        let mut extents = settled.iter().flat_map(|it| &it.micro_batches).map(|it| it.edges);
        let edges = extents.next().filter(|first| extents.all(|it| it == *first))?;
        let seconds: f64 = settled.iter().map(|it| it.seconds).sum();
        let samples: u64 = settled.iter().map(|it| it.n_samples()).sum();
        let samples_per_second = samples as f64 / seconds;
        (RATED <= settled.len() && 0.0 < seconds).then_some(Rate { knobs: alike[0].rung, edges, samples_per_second })
    };
    steps.chunk_by(|a, b| a.rung == b.rung).filter_map(of_size).collect()
}
