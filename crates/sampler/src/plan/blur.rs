//! Mixing neighbours in length.
//!
//! Samples that are padded alike are mixed for free, by the order in which they were drawn; a blur mixes the others,
//! and pads them for it.
//! With the 24 edges that pad least, cells alone keep 1.8 % of mates in 100 000 chats, which are padded by 7.9 % in all,
//! and 1.05 % in as much speech (2.1 %).
//! Sorted by length and blurred across the edges, they kept 2.9 and 3.0 %, and were padded by 10.5 and 2.6 %.

use super::entry::Entry;
use super::knots::Knots;
use super::line::Line;
use crate::hash::Rng;

/// How much a window may be blurred: a pool of more than this share of its batches pads more than mixing is worth.
/// So an epoch of few batches keeps more mates than may be kept: [`crate::Mixing::reachable`].
/// On several axes the batches are those of a band, in the mean: 100 000 samples of images and tokens keep 4.7 % and
/// are padded by 4.1 %, a million keep 3.1 % and are padded by 0.7 %; without a blur, 69 and 10 %, and 0.5 and 0.2 %.
/// Keeping 3 % of the mates of 100 000 was measured to pad by 6.2 %: a batch of 100 samples that is padded by 1 % has,
/// among them, samples of some six batches that it could be mixed with.
/// No other law of waiting does much better while epochs are drawn independently: the mean wait in batches, which is what
/// pads, times the share of mates is 1 / 4 for the exponential law, and 0.238 for the best of the gamma laws.
const fn most_pool(n_axes: usize) -> f64 {
    if n_axes == 1 { 1.0 / 64.0 } else { 1.0 / 60.0 }
}

/// Sends the entries of bands through a pool from which they leave at random, where their cells alone would keep too
/// many mates.
///
/// An entry waits for an exponentially distributed time, and so lies in a batch whose longest sample is little above it
/// more often than in one far above it; for the same mixing, that pads a quarter less than smaller windows do.
pub(super) struct Blur<const AXES: usize> {
    /// The samples that the pool may hold at each knot, of all bands one after the other.
    sizes: std::vec::IntoIter<usize>,
    knots: Knots,
    pool: Vec<Entry<AXES>>,
}

impl<const AXES: usize> Blur<AXES> {
    /// Mixes as much as it takes, or as is worth it, and says which share of a batch's pairs meet again at most when their
    /// samples are in one window again; `None` when cells mix enough.
    pub(super) fn new(knots: Knots, line: &Line<'_, AXES>) -> (Option<Self>, f64) {
        let pools = knots.pools(line.most_kept, most_pool(AXES));
        let reachable = knots.reachable(pools.as_deref(), line.window_share);
        (pools.map(|sizes| Self { sizes: sizes.into_iter(), knots, pool: Vec::new() }), reachable)
    }

    /// Mixes the next band.
    pub(super) fn mix(&mut self, entries: &mut [Entry<AXES>], rng: &mut Rng) {
        let Self { sizes, knots, pool } = self;
        let stride = knots.stride(entries.len());
        pool.clear();
        let mut n_out = 0;
        for start in (0..entries.len()).step_by(stride) {
            let most = sizes.next().unwrap_or(0);
            for index in start..entries.len().min(start + stride) {
                pool.push(entries[index]);
                // Where the pool shrinks, two leave for each that enters.
                for _ in 0..2 {
                    if pool.len() > most {
                        entries[n_out] = pool.swap_remove(rng.below(pool.len()));
                        n_out += 1;
                    }
                }
            }
        }
        rng.shuffle(pool);
        entries[n_out..].copy_from_slice(pool);
    }
}
