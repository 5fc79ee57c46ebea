//! How the samples of a step are divided into parts.

/// Returns how many of the samples that run at once are one replica's: the same for each of `n`, but none of the smallest
/// batches, up to `small_batch`, which have slow kernels, where there may be a larger one.
pub fn share_of_replica(at_once: u32, n: u32, small_batch: u32) -> u32 {
    let even = at_once.div_ceil(n.max(1)).max(1);
    if 1 < n && even <= small_batch { at_once.clamp(1, small_batch + 1) } else { even }
}

/// Returns how many samples a part has, of so many in a step and as many as `most` at once: full parts and a ragged one, or
/// where replicas share them, parts alike.
pub fn part_size(n_samples: u64, most: u32, replicas: u32, small_batch: u32) -> u32 {
    let most = most.max(1);
    if replicas <= 1 || n_samples == 0 {
        return most;
    }
    let rounds = n_samples.div_ceil(most.into());
    share_of_replica(u32::try_from(n_samples.div_ceil(rounds)).unwrap_or(most), replicas, small_batch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_alike_and_none_of_the_smallest() {
        let shares = [(8, 4), (12, 2), (3, 2), (1, 2), (8, 1)].map(|(n, replicas)| share_of_replica(n, replicas, 4));
        assert_eq!(shares, [5, 6, 3, 1, 8]);
    }

    #[test]
    fn parts_that_run_at_once_are_alike_and_none_of_the_smallest() {
        let sizes =
            |of: &[(u64, u32, u32)]| of.iter().map(|(n, most, r)| part_size(*n, *most, *r, 0)).collect::<Vec<_>>();
        // 32 samples, 24 at once: in two rounds of 16, which two replicas share.
        assert_eq!(sizes(&[(32, 24, 1), (32, 24, 2), (32, 32, 2), (26, 26, 4), (27, 13, 2)]), [24, 8, 16, 7, 5]);
        for (n, most, replicas) in [(1, 5, 3), (100, 7, 4), (5, 64, 8), (0, 3, 2)] {
            let size = part_size(n, most, replicas, 4);
            assert!((1..=most).contains(&size), "{size}");
        }
    }
}
