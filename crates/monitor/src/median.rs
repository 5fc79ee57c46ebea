//! A median that takes a bounded amount of memory.

/// Values that are kept as they are.
const MOST: usize = 4096;
/// Width of a class.
const WIDTH: f64 = 1e-4;
/// Classes: they reach to the double of a whole.
const CLASSES: usize = 20_000;

/// The middle of some shares.
///
/// Of up to 4096 it is exact. More are counted in classes of 0.0001, whose middles stand for them: the median is then off by
/// 0.00005 at most, unless it is above 2.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Median {
    values: Vec<f64>,
    classes: Vec<u64>,
}

impl Median {
    /// The most that a median of many shares is off.
    pub(crate) const ERROR: f64 = WIDTH / 2.0;

    pub(crate) fn push(&mut self, share: f64) {
        if !self.classes.is_empty() {
            return self.count(share);
        }
        self.values.push(share);
        if MOST < self.values.len() {
            self.classes = vec![0; CLASSES];
            for it in std::mem::take(&mut self.values) {
                self.count(it);
            }
        }
    }

    fn count(&mut self, share: f64) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates, and is bounded")]
        let class = ((share / WIDTH) as usize).min(CLASSES - 1);
        self.classes[class] += 1;
    }

    /// Whether it is an estimate.
    pub(crate) const fn is_estimate(&self) -> bool {
        !self.classes.is_empty()
    }

    /// Returns the middle; of an even number, the mean of the middle two.
    pub(crate) fn value(&self) -> Option<f64> {
        if self.classes.is_empty() {
            return median(self.values.clone());
        }
        let n: u64 = self.classes.iter().sum();
        Some(f64::midpoint(self.of_rank((n - 1) / 2), self.of_rank(n / 2)))
    }

    /// Returns the middle of the class that the value of a rank is in, from 0.
    fn of_rank(&self, rank: u64) -> f64 {
        let mut n_before = 0;
        let is_before = |n: &&u64| {
            n_before += **n;
            n_before <= rank
        };
        (self.classes.iter().take_while(is_before).count() as f64 + 0.5) * WIDTH
    }
}

/// Returns the middle of some values, which are finite; of an even number, the mean of the middle two.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(median(vec![3.0, 1.0, 2.0, 10.0]), Some(2.5));
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![]), None);
    }

    #[test]
    fn a_median_of_many_is_off_by_no_more_than_it_says() {
        for n in [4096, 4097, 50_000, 50_001] {
            let shares: Vec<f64> = (0..n).map(|it| 0.3 + 0.6 * f64::from(it * 7919 % 10_007) / 10_007.0).collect();
            let mut streamed = Median::default();
            for it in &shares {
                streamed.push(*it);
            }
            let off = (streamed.value().unwrap() - median(shares).unwrap()).abs();
            assert_eq!(streamed.is_estimate(), 4096 < n);
            assert!(off <= if 4096 < n { Median::ERROR } else { 0.0 }, "{n}: {off}");
        }
    }
}
