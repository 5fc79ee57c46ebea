//! Which samples take part at all.

use super::config::Oversize;
use crate::{IndexError, SampleIndex};

/// Which lengths take part; what lies outside is refused, skipped with a count, or cut.
///
/// ```
/// use plimsoll_sampler::{Admit, Oversize};
///
/// let admit = Admit { shortest: 3, longest: 100, too_short: Oversize::Skip, too_long: Oversize::Truncate };
/// let admitted = admit.only(&[0, 2, 50, 70, 1_000], |id, _| id != 3)?;
/// assert_eq!(admitted.ids, [2, 4]);
/// assert_eq!(admitted.index.get(1), Some([100]));
/// assert_eq!((admitted.empty, admitted.too_short, admitted.filtered, admitted.truncated), (1, 1, 1, 1));
/// # Ok::<(), plimsoll_sampler::SamplerError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admit {
    /// The least length; at least 1.
    pub shortest: u32,
    /// The greatest length.
    pub longest: u32,
    /// What becomes of samples that are shorter, and of empty ones; there is nothing to truncate, so that
    /// [`Oversize::Truncate`] skips them too.
    pub too_short: Oversize,
    /// What becomes of samples that are longer.
    pub too_long: Oversize,
}

/// The samples that take part.
#[derive(Clone, Debug, PartialEq)]
pub struct Admitted {
    /// Their lengths, cut where that was asked for; a sample is named by its place among those that take part.
    pub index: SampleIndex<1>,
    /// By that place, the place that the sample had before.
    pub ids: Vec<u64>,
    /// Samples of length 0 that were skipped.
    pub empty: u64,
    /// Other samples that were skipped since they are too short.
    pub too_short: u64,
    /// Samples that were skipped since they are too long.
    pub too_long: u64,
    /// Samples that are cut to the greatest length.
    pub truncated: u64,
    /// Samples that the filter left out.
    pub filtered: u64,
}

impl Default for Admit {
    /// Any length but 0, which is refused.
    fn default() -> Self {
        Self { shortest: 1, longest: u32::MAX, too_short: Oversize::Refuse, too_long: Oversize::Refuse }
    }
}

impl Admit {
    /// Admits samples by their lengths.
    ///
    /// # Errors
    ///
    /// [`IndexError::AdmitsNothing`], [`IndexError::Outside`] for the first sample that is to be refused, and
    /// those of [`SampleIndex::try_new`].
    pub fn all(self, lengths: &[u32]) -> Result<Admitted, IndexError> {
        self.only(lengths, |_, _| true)
    }

    /// Admits samples by their lengths, of those that a filter keeps; it is asked for each sample and its length.
    ///
    /// # Errors
    ///
    /// Those of [`Admit::all`].
    pub fn only(self, lengths: &[u32], mut keep: impl FnMut(usize, u32) -> bool) -> Result<Admitted, IndexError> {
        let Self { shortest, longest, .. } = self;
        if shortest == 0 || longest < shortest {
            return Err(IndexError::AdmitsNothing { shortest, longest });
        }
        let (mut kept, mut ids, mut counts) = (Vec::new(), Vec::new(), Counts::default());
        for (id, length) in lengths.iter().copied().enumerate() {
            if !keep(id, length) {
                counts.filtered += 1;
            } else if let Some(length) = self.length(id, length, &mut counts)? {
                kept.push(length);
                ids.push(id as u64);
            }
        }
        let index = SampleIndex::try_new([kept])?;
        let Counts { empty, too_short, too_long, truncated, filtered } = counts;
        Ok(Admitted { index, ids, empty, too_short, too_long, truncated, filtered })
    }

    /// The length that a sample takes part with, if it does.
    fn length(self, id: usize, length: u32, counts: &mut Counts) -> Result<Option<u32>, IndexError> {
        let Self { shortest, longest, too_short, too_long } = self;
        let outside = IndexError::Outside { id: id as u64, length, shortest, longest };
        if length < shortest {
            let count = if length == 0 { &mut counts.empty } else { &mut counts.too_short };
            *count += 1;
            return if too_short == Oversize::Refuse { Err(outside) } else { Ok(None) };
        }
        if length <= longest {
            return Ok(Some(length));
        }
        match too_long {
            Oversize::Refuse => Err(outside),
            Oversize::Skip => {
                counts.too_long += 1;
                Ok(None)
            }
            Oversize::Truncate => {
                counts.truncated += 1;
                Ok(Some(longest))
            }
        }
    }
}

#[derive(Default)]
struct Counts {
    empty: u64,
    too_short: u64,
    too_long: u64,
    truncated: u64,
    filtered: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_outside_is_refused_by_id() {
        let refused = |admit: Admit, lengths: &[u32]| admit.all(lengths).unwrap_err().to_string();
        let message = "admit samples: sample 1 has length 0, wanted is 1 to 4294967295";
        assert_eq!(refused(Admit::default(), &[3, 0]), message);
        let short = Admit { longest: 9, ..Admit::default() };
        assert_eq!(refused(short, &[3, 10]), "admit samples: sample 1 has length 10, wanted is 1 to 9");
        let none = Admit { shortest: 5, longest: 4, ..Admit::default() };
        let message = "admit samples: `shortest` is 5 and `longest` is 4, they must be 1 <= shortest <= longest";
        assert_eq!(refused(none, &[5]), message);
        let skip = Admit { too_short: Oversize::Skip, ..Admit::default() };
        assert_eq!(refused(skip, &[0, 0]), "start an epoch: the data set has no samples");
    }

    #[test]
    fn what_is_skipped_is_counted() {
        let admit = Admit { shortest: 2, longest: 4, too_short: Oversize::Skip, too_long: Oversize::Skip };
        let admitted = admit.all(&[0, 1, 2, 4, 5, 9]).unwrap();
        assert_eq!((admitted.ids, admitted.empty, admitted.too_short, admitted.too_long), (vec![2, 3], 1, 1, 2));
    }
}
