//! Which of several groups each thing belongs to, in as few bits as it takes to tell.

use std::ops::Range;

use super::compact::{BitReader, BitWriter};

/// The most things that can be divided: more would not be told apart by 32 bits.
const MOST: u64 = 1 << 28;

const HALF: u64 = 1 << 31;
const QUARTER: u64 = 1 << 30;

/// Writes which group each thing is of, when it is known how many of them each group has.
///
/// The groups are halved again and again, and each thing says which half it is in, in fewer bits the surer that is.
/// All of it takes the logarithm of the number of such divisions, and a few bits more.
///
/// # Sources
///
/// Arithmetic coding in integers: Witten, Neal and Cleary, "Arithmetic coding for data compression", Communications of the
/// ACM 30, 1987.
pub(super) fn write_division(coder: &mut Coder<'_>, of: &[u32], sizes: &[u32]) {
    write_half(coder, of, 0..sizes.len(), sizes);
}

/// Reads what [`write_division`] wrote; `None` when the sizes are none that can be written.
pub(super) fn read_division(decoder: &mut Decoder<'_, '_>, sizes: &[u32]) -> Option<Vec<u32>> {
    let n = total(sizes);
    if n > MOST {
        return None;
    }
    let mut of = vec![0; usize::try_from(n).ok()?];
    read_half(decoder, &(0..of.len()).collect::<Vec<_>>(), 0..sizes.len(), sizes, &mut of);
    Some(of)
}

fn total(sizes: &[u32]) -> u64 {
    sizes.iter().map(|size| u64::from(*size)).sum()
}

fn write_half(coder: &mut Coder<'_>, of: &[u32], groups: Range<usize>, sizes: &[u32]) {
    let Some((middle, mut left)) = halves(groups.clone(), sizes) else { return };
    let is_second = |group: &&u32| **group as usize >= middle;
    for group in of {
        coder.push(is_second(&group), &mut left);
    }
    let (second, first): (Vec<u32>, Vec<u32>) = of.iter().partition(is_second);
    write_half(coder, &first, groups.start..middle, sizes);
    write_half(coder, &second, middle..groups.end, sizes);
}

fn read_half(decoder: &mut Decoder<'_, '_>, places: &[usize], groups: Range<usize>, sizes: &[u32], of: &mut [u32]) {
    let Some((middle, mut left)) = halves(groups.clone(), sizes) else {
        let group = super::narrow::narrow(groups.start);
        return places.iter().for_each(|place| of[*place] = group);
    };
    let (second, first): (Vec<usize>, Vec<usize>) = places.iter().partition(|_| decoder.next(&mut left));
    read_half(decoder, &first, groups.start..middle, sizes, of);
    read_half(decoder, &second, middle..groups.end, sizes, of);
}

/// Where some groups are halved, and how many things each half has; `None` when there is one group at most.
fn halves(groups: Range<usize>, sizes: &[u32]) -> Option<(usize, [u64; 2])> {
    let middle = usize::midpoint(groups.start, groups.end);
    (groups.len() > 1).then(|| (middle, [total(&sizes[groups.start..middle]), total(&sizes[middle..groups.end])]))
}

/// Writes bits that are more or less likely.
pub(super) struct Coder<'a> {
    out: &'a mut BitWriter,
    interval: Interval,
    /// Bits that will be the opposite of the next one.
    n_open: u32,
}

/// Reads what a [`Coder`] wrote.
pub(super) struct Decoder<'a, 'b> {
    bits: &'a mut BitReader<'b>,
    interval: Interval,
    value: u64,
}

/// The numbers that begin as what was written so far does.
struct Interval {
    low: u64,
    high: u64,
}

impl Interval {
    const ALL: Self = Self { low: 0, high: 2 * HALF - 1 };

    /// The last number of the lower part, which is as large as its share.
    const fn split(&self, [first, second]: [u64; 2]) -> u64 {
        self.low + (self.high - self.low + 1) * first / (first + second) - 1
    }

    const fn narrow(&mut self, split: u64, is_second: bool) {
        if is_second { self.low = split + 1 } else { self.high = split }
    }

    /// What may be taken from every number of the interval before it is doubled: a bit that is sure, or a quarter.
    const fn sure(&self) -> Option<u64> {
        if self.high < HALF {
            Some(0)
        } else if self.low >= HALF {
            Some(HALF)
        } else if self.low >= QUARTER && self.high < HALF + QUARTER {
            Some(QUARTER)
        } else {
            None
        }
    }

    const fn double(&mut self, less: u64) {
        self.low = 2 * (self.low - less);
        self.high = 2 * (self.high - less) + 1;
    }
}

impl<'a> Coder<'a> {
    pub(super) const fn new(out: &'a mut BitWriter) -> Self {
        Self { out, interval: Interval::ALL, n_open: 0 }
    }

    /// Writes which kind a thing is of, and takes it from what is left of each kind.
    fn push(&mut self, is_second: bool, left: &mut [u64; 2]) {
        if left[0] > 0 && left[1] > 0 {
            let split = self.interval.split(*left);
            self.interval.narrow(split, is_second);
            while let Some(less) = self.interval.sure() {
                if less == QUARTER {
                    self.n_open += 1;
                } else {
                    self.bit(less == HALF);
                }
                self.interval.double(less);
            }
        }
        left[usize::from(is_second)] -= 1;
    }

    fn bit(&mut self, bit: bool) {
        self.out.push(bit.into(), 1);
        for _ in 0..std::mem::take(&mut self.n_open) {
            self.out.push((!bit).into(), 1);
        }
    }

    /// Writes what tells the last interval from others.
    pub(super) fn finish(mut self) {
        self.n_open += 1;
        self.bit(self.interval.low >= QUARTER);
    }
}

impl<'a, 'b> Decoder<'a, 'b> {
    pub(super) fn new(bits: &'a mut BitReader<'b>) -> Self {
        let value = (0..32).fold(0, |value, _| value << 1 | bits.next(1).unwrap_or(0));
        Self { bits, interval: Interval::ALL, value }
    }

    /// Reads which kind a thing is of, and takes it from what is left of each kind.
    fn next(&mut self, left: &mut [u64; 2]) -> bool {
        let is_second = if left[0] > 0 && left[1] > 0 { self.read(*left) } else { left[0] == 0 };
        left[usize::from(is_second)] -= 1;
        is_second
    }

    fn read(&mut self, left: [u64; 2]) -> bool {
        let split = self.interval.split(left);
        let is_second = self.value > split;
        self.interval.narrow(split, is_second);
        while let Some(less) = self.interval.sure() {
            self.interval.double(less);
            // What follows the last bit may be anything.
            self.value = 2 * (self.value - less) + self.bits.next(1).unwrap_or(0);
        }
        is_second
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The bits of a division that comes back.
    fn there_and_back(of: &[u32], n_groups: usize) -> usize {
        let mut sizes = vec![0; n_groups];
        for group in of {
            sizes[*group as usize] += 1;
        }
        let mut writer = BitWriter::default();
        let mut coder = Coder::new(&mut writer);
        write_division(&mut coder, of, &sizes);
        coder.finish();
        let n_bits = writer.n_bits();
        let bits = writer.finish();
        let mut reader = bits.reader();
        assert_eq!(read_division(&mut Decoder::new(&mut reader), &sizes).as_deref(), Some(of));
        n_bits
    }

    fn log2_factorial(n: u32) -> f64 {
        (1..=n).map(|it| f64::from(it).log2()).sum()
    }

    proptest! {
        #[test]
        fn a_division_takes_the_logarithm_of_how_many_there_are(of in prop::collection::vec(0u32..40, 0..400)) {
            let n_bits = there_and_back(&of, 40);
            let sizes = (0..40).map(|group| of.iter().filter(|it| **it == group).count());
            let least = log2_factorial(of.len().try_into().unwrap())
                - sizes.map(|size| log2_factorial(size.try_into().unwrap())).sum::<f64>();
            prop_assert!((n_bits as f64) < least + 3.0, "{} bits, {} at least", n_bits, least);
        }
    }

    #[test]
    fn what_is_sure_takes_no_bits() {
        assert!(there_and_back(&[3; 1000], 7) <= 2);
    }

    #[test]
    fn more_than_can_be_divided_is_refused() {
        let bits = BitWriter::default().finish();
        assert_eq!(read_division(&mut Decoder::new(&mut bits.reader()), &[1 << 28, 1]), None);
    }
}
