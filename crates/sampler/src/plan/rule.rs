//! How many samples fit.

/// Says how many samples of one padded shape fit into the budget.
///
/// A certificate is such a rule, and so is any function of the padded lengths:
///
/// ```
/// use plimsoll_sampler::CapacityRule;
///
/// // Attention: n · (L + L² / 512) may not exceed 65 536.
/// let attention = |[length]: [u32; 1]| (65_536.0 / (f64::from(length) * (1.0 + f64::from(length) / 512.0))) as u32;
/// assert_eq!(attention.capacity([512]), 64);
///
/// // The area of an image: n · h · w.
/// let area = |[height, width]: [u32; 2]| (1 << 20) / (height * width);
/// assert_eq!(area.capacity([128, 256]), 32);
///
/// // An encoder that keeps one frame in four, and pays attention between these.
/// let subsampled = |[frames]: [u32; 1]| 4_000_000 / (frames.div_ceil(4).pow(2) + 80 * frames);
/// assert_eq!(subsampled.capacity([1_600]), 13);
///
/// // Several limits at once: on the longest, on the sum with padding, and on the count.
/// let limits = |[length]: [u32; 1]| if length > 2_048 { 0 } else { (16_384 / length).min(64) };
/// assert_eq!([100, 1_024, 2_049].map(|length| limits.capacity([length])), [64, 16, 0]);
/// ```
///
/// A rule must not allow more samples of a larger shape than of a smaller one: a planner refuses one that does.
/// It is asked for lengths that samples have, or are padded to, on every axis, and for nothing beyond, so that it may be a
/// table.
pub trait CapacityRule<const AXES: usize> {
    /// The most samples that fit when each is padded to these lengths; 0 when not even one does.
    fn capacity(&self, padded: [u32; AXES]) -> u32;

    /// How long one sample of these padded lengths takes, in any unit; the sum of the lengths unless told otherwise.
    fn sample_time(&self, padded: [u32; AXES]) -> f64 {
        padded.into_iter().map(f64::from).sum()
    }
}

impl<const AXES: usize, F: Fn([u32; AXES]) -> u32> CapacityRule<AXES> for F {
    fn capacity(&self, padded: [u32; AXES]) -> u32 {
        self(padded)
    }
}

/// A budget for each axis: the number of samples times the padded length may not exceed it, on any axis.
#[doc(alias = "max_tokens")]
#[doc(alias = "max_frames")]
#[doc(alias = "max_duration")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaddedBudget<const AXES: usize>(pub [u64; AXES]);

impl<const AXES: usize> CapacityRule<AXES> for PaddedBudget<AXES> {
    fn capacity(&self, padded: [u32; AXES]) -> u32 {
        let fit = self.0.iter().zip(padded).map(|(budget, length)| budget / u64::from(length.max(1)));
        u32::try_from(fit.min().unwrap_or(0)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_axis_decides() {
        let budget = PaddedBudget([64, 4096]);
        assert_eq!(budget.capacity([4, 100]), 16);
        assert_eq!(budget.capacity([1, 1000]), 4);
        assert_eq!(budget.capacity([65, 1]), 0);
        assert_eq!(PaddedBudget([u64::MAX]).capacity([1]), u32::MAX);
    }

    #[test]
    fn time_is_the_sum_of_the_padded_lengths() {
        assert!((PaddedBudget([64, 4096]).sample_time([4, 100]) - 104.0).abs() < f64::EPSILON);
    }
}
