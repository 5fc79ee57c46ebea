//! How long real ranks take to agree, to add and to take over.

use std::thread;
use std::time::Instant;

use plimsoll_fleet::{Fleet, FleetError, InProcess};
use serde::{Deserialize, Serialize};

use crate::median::median;

/// What a step agrees on: its samples, whether it failed, and which it is.
const AGREED: [u64; 3] = [32, 0, 1_000];

/// Medians on the first of some ranks, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// What the ranks are.
    pub ranks: String,
    /// How many.
    pub n_ranks: u32,
    /// How long they take to tell each other three numbers.
    pub agree: f64,
    /// For each number of values: how long they take to add them, and to take over as many bytes.
    pub values: Vec<Moved>,
}

/// So many values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moved {
    /// How many.
    pub n_values: usize,
    /// To add them.
    pub sum: f64,
    /// To take over their bytes.
    pub broadcast: f64,
}

/// Measures ranks that are there already: each calls this with the same sizes.
///
/// # Errors
///
/// Those of [`Fleet::agree`].
pub fn measure_ranks(fleet: &mut impl Fleet, ranks: &str, sizes: &[usize]) -> Result<Exchange, FleetError> {
    let n_ranks = fleet.n_ranks();
    let agree = time(fleet, 101, |it| it.agree(&AGREED).map(drop))?;
    let mut values = Vec::new();
    for n_values in sizes.iter().copied() {
        // About as many values for each size.
        let n_times = (20_000_000 / n_values.max(1)).clamp(5, 101);
        let (mut own, mut bytes) = (vec![0.0; n_values], vec![0; size_of::<f32>() * n_values]);
        let sum = time(fleet, n_times, |it| it.sum(&mut own))?;
        let broadcast = time(fleet, n_times, |it| it.broadcast(&mut bytes))?;
        values.push(Moved { n_values, sum, broadcast });
    }
    Ok(Exchange { ranks: ranks.to_owned(), n_ranks, agree, values })
}

/// Measures so many threads.
///
/// # Errors
///
/// As [`measure_ranks`].
pub fn measure_threads(n_ranks: u32, sizes: &[usize]) -> Result<Exchange, FleetError> {
    thread::scope(|scope| {
        let rank = |mut fleet: InProcess| scope.spawn(move || measure_ranks(&mut fleet, "threads", sizes));
        let ranks: Vec<_> = InProcess::start(n_ranks).into_iter().map(rank).collect();
        let mut measured = ranks.into_iter().map(|it| it.join().unwrap_or(Err(FleetError::Gone { rank: 0 })));
        // All take the same time; the first says how long.
        let first = measured.next().unwrap_or(Err(FleetError::Gone { rank: 0 }));
        measured.try_for_each(|it| it.map(drop)).and(first)
    })
}

/// Returns the median of what a call takes, after one that does not count.
fn time<F: Fleet>(
    fleet: &mut F,
    n_times: usize,
    mut call: impl FnMut(&mut F) -> Result<(), FleetError>,
) -> Result<f64, FleetError> {
    call(fleet)?;
    let mut timed = || {
        let start = Instant::now();
        call(fleet).map(|()| start.elapsed().as_secs_f64())
    };
    let seconds: Vec<_> = (0..n_times).map(|_| timed()).collect::<Result<_, _>>()?;
    Ok(median(&seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_measured_at_every_size() {
        let Exchange { n_ranks, agree, values, .. } = measure_threads(2, &[1, 1_000]).unwrap();
        assert_eq!((n_ranks, values.iter().map(|it| it.n_values).collect::<Vec<_>>()), (2, vec![1, 1_000]));
        assert!(values.iter().flat_map(|it| [it.sum, it.broadcast, agree]).all(|it| 0.0 < it));
    }
}
