//! How many groups fit.

use crate::CapacityRule;

/// How many groups of one padded shape fit, by a rule for samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupRule<R> {
    rule: R,
    most_samples: u32,
    /// Whether a group that does not fit is a batch of its own, which somebody divides.
    is_divided: bool,
}

impl<R: CapacityRule<1>> GroupRule<R> {
    pub(super) const fn new(rule: R, most_samples: u32, is_divided: bool) -> Self {
        Self { rule, most_samples, is_divided }
    }

    /// The same limits by another rule.
    pub(super) fn with(&self, rule: R) -> Self {
        Self { rule, ..*self }
    }

    /// How many samples of this length fit.
    pub(super) fn samples(&self, length: u32) -> u32 {
        self.rule.capacity([length]).min(self.most_samples)
    }
}

impl<R: CapacityRule<1>> CapacityRule<2> for GroupRule<R> {
    fn capacity(&self, [n_members, length]: [u32; 2]) -> u32 {
        let n_samples = self.samples(length);
        (n_samples / n_members.max(1)).max(u32::from(self.is_divided && 0 < n_samples))
    }

    fn sample_time(&self, [n_members, length]: [u32; 2]) -> f64 {
        f64::from(n_members) * self.rule.sample_time([length])
    }
}
