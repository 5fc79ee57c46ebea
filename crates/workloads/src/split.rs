//! What is trained on, and what is held out to validate and to test on.

use plimsoll_sampler::Permutation;

/// Decides the split; the same for every run, so that runs with different seeds can be compared.
const SPLIT_SEED: u64 = 0;

/// The parts of a data set that are held out.
///
/// Each is rounded to whole items, of which both have at least one where there are enough: the first two go to training
/// and validation. What is validated on is the same whatever is tested on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    /// To validate on.
    pub validation: f64,
    /// To test on; nothing where it is 0.
    pub test: f64,
}

/// Items by what they are for, each in the order that they had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Divided<T> {
    pub(crate) train: Vec<T>,
    pub(crate) validation: Vec<T>,
    pub(crate) test: Vec<T>,
}

impl<T> Default for Divided<T> {
    fn default() -> Self {
        Self { train: Vec::new(), validation: Vec::new(), test: Vec::new() }
    }
}

impl<T> Divided<T> {
    /// Adds what belongs to each part.
    pub(crate) fn extend(&mut self, other: Self) {
        self.train.extend(other.train);
        self.validation.extend(other.validation);
        self.test.extend(other.test);
    }

    /// Makes something of each part.
    pub(crate) fn map<U>(self, mut part: impl FnMut(Vec<T>) -> Vec<U>) -> Divided<U> {
        Divided { train: part(self.train), validation: part(self.validation), test: part(self.test) }
    }
}

impl Shares {
    /// Holds out this part to validate on, and nothing to test on.
    pub const fn validating(validation: f64) -> Self {
        Self { validation, test: 0.0 }
    }

    /// Divides items, the same number of them always in the same way; each `group` has a way of its own.
    pub(crate) fn divide<T>(self, group: u64, items: Vec<T>) -> Divided<T> {
        let n = items.len() as u64;
        let order = Permutation::new(n, SPLIT_SEED, group);
        let (n_validation, n_test) = self.held_out(n);
        let mut divided = Divided::default();
        for (item, at) in items.into_iter().zip(0..) {
            match order.at(at) {
                at if at < n_validation => divided.validation.push(item),
                at if at < n_validation + n_test => divided.test.push(item),
                _ => divided.train.push(item),
            }
        }
        divided
    }

    /// Returns how many of so many items are validated on, and tested on.
    fn held_out(self, n: u64) -> (u64, u64) {
        let n_validation = if n < 2 { 0 } else { rounded(self.validation, n).clamp(1, n - 1) };
        let n_left = n.saturating_sub(n_validation + 1);
        let n_test = if self.test <= 0.0 { 0 } else { rounded(self.test, n).max(1).min(n_left) };
        (n_validation, n_test)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a number of items is a smaller, non-negative number"
)]
fn rounded(share: f64, n: u64) -> u64 {
    (n as f64 * share).round() as u64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn divided(n: u64, validation: f64, test: f64, group: u64) -> Divided<u64> {
        Shares { validation, test }.divide(group, (0..n).collect())
    }

    #[track_caller]
    fn check(n: u64, shares: (f64, f64), expected: (usize, usize)) {
        for group in [0, 1, 7] {
            let Divided { train, validation, test } = divided(n, shares.0, shares.1, group);
            assert_eq!((validation.len(), test.len()), expected, "{n} items, {shares:?}");
            let all: BTreeSet<_> = train.iter().chain(&validation).chain(&test).copied().collect();
            assert_eq!((all.len() as u64, train.len() + validation.len() + test.len()), (n, all.len()), "each once");
            assert!([train, validation, test].iter().all(|part| part.is_sorted()));
        }
    }

    #[test]
    fn a_share_is_rounded_and_each_part_has_one_where_there_are_enough() {
        check(0, (0.5, 0.5), (0, 0));
        check(1, (1.0, 0.1), (0, 0));
        check(2, (0.0, 0.5), (1, 0));
        check(2, (1.0, 0.0), (1, 0));
        check(3, (0.1, 0.1), (1, 1));
        check(10, (0.24, 0.0), (2, 0));
        check(10, (0.25, 0.24), (3, 2));
        check(10, (0.9, 0.3), (9, 0));
        check(10, (0.5, 0.5), (5, 4));
    }

    #[test]
    fn what_is_validated_on_is_the_same_whatever_is_tested_on() {
        for n in 2..60 {
            let [without, with] = [0.0, 0.3].map(|test| divided(n, 0.2, test, 3));
            assert_eq!(without.validation, with.validation, "of {n}");
            assert!(with.test.iter().all(|it| without.train.contains(it)));
        }
    }

    #[test]
    fn groups_of_one_size_are_divided_in_ways_of_their_own() {
        assert_ne!(divided(100, 0.5, 0.1, 0), divided(100, 0.5, 0.1, 1));
    }
}
