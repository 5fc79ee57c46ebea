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
/// let counts = admitted.counts;
/// assert_eq!((counts.empty, counts.too_short, counts.filtered, counts.truncated), (1, 1, 1, 1));
/// # Ok::<(), plimsoll_sampler::SamplerError>(())
/// ```
///
/// Samples that come one by one are asked for one by one:
///
/// ```
/// # use plimsoll_sampler::{Admit, AdmitCounts, Oversize};
/// let admit = Admit { longest: 100, too_long: Oversize::Truncate, ..Admit::default() };
/// let mut counts = AdmitCounts::default();
/// assert_eq!(admit.one(0, 70, &mut counts)?, Some(70));
/// assert_eq!(admit.one(1, 1_000, &mut counts)?, Some(100));
/// assert_eq!(counts.truncated, 1);
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
pub struct Admitted<const AXES: usize = 1> {
    /// Their lengths, cut where that was asked for; a sample is named by its place among those that take part.
    pub index: SampleIndex<AXES>,
    /// By that place, the place that the sample had before.
    pub ids: Vec<u64>,
    /// What became of the others.
    pub counts: AdmitCounts,
}

/// Samples that do not take part, or not as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdmitCounts {
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
        Self::along([self], [lengths], |id, [length]| keep(id, length))
    }

    /// Admits samples of several axes, each by its own lengths, of those that a filter keeps: one takes part where all of its
    /// lengths do, and counts by the first that does not.
    ///
    /// # Errors
    ///
    /// Those of [`Admit::all`], for the first axis that refuses a sample, and [`IndexError::AxisCount`].
    pub fn along<const AXES: usize>(
        axes: [Self; AXES],
        lengths: [&[u32]; AXES],
        mut keep: impl FnMut(usize, [u32; AXES]) -> bool,
    ) -> Result<Admitted<AXES>, IndexError> {
        axes.iter().try_for_each(|axis| axis.check())?;
        let n_samples = lengths.first().map_or(0, |axis| axis.len());
        if let Some((axis, of)) = lengths.iter().enumerate().find(|(_, of)| of.len() != n_samples) {
            return Err(IndexError::AxisCount { axis, lengths: of.len(), n_samples });
        }
        let (mut kept, mut ids, mut counts) = ([const { Vec::new() }; AXES], Vec::new(), AdmitCounts::default());
        for id in 0..n_samples {
            let of = lengths.map(|axis| axis[id]);
            if !keep(id, of) {
                counts.filtered += 1;
            } else if let Some(of) = Self::sample(&axes, id as u64, of, &mut counts)? {
                kept.iter_mut().zip(of).for_each(|(axis, length)| axis.push(length));
                ids.push(id as u64);
            }
        }
        Ok(Admitted { index: SampleIndex::try_new(kept)?, ids, counts })
    }

    /// The lengths that a sample takes part with, if it does; it is counted once, cut or left out.
    fn sample<const AXES: usize>(
        axes: &[Self; AXES],
        id: u64,
        lengths: [u32; AXES],
        counts: &mut AdmitCounts,
    ) -> Result<Option<[u32; AXES]>, IndexError> {
        let (before, mut planned) = (counts.truncated, lengths);
        for (axis, length) in axes.iter().zip(&mut planned) {
            let Some(admitted) = axis.one(id, *length, counts)? else {
                counts.truncated = before;
                return Ok(None);
            };
            *length = admitted;
        }
        counts.truncated = before + u64::from(planned != lengths);
        Ok(Some(planned))
    }

    fn check(self) -> Result<(), IndexError> {
        let Self { shortest, longest, .. } = self;
        let admits_any = 0 < shortest && shortest <= longest;
        if admits_any { Ok(()) } else { Err(IndexError::AdmitsNothing { shortest, longest }) }
    }

    /// The length that one sample takes part with, if it does; it is counted where it does not, or is cut.
    ///
    /// # Errors
    ///
    /// [`IndexError::AdmitsNothing`], and [`IndexError::Outside`] where it is to be refused.
    pub fn one(self, id: u64, length: u32, counts: &mut AdmitCounts) -> Result<Option<u32>, IndexError> {
        self.check()?;
        let Self { shortest, longest, too_short, too_long } = self;
        let outside = IndexError::Outside { id, length, shortest, longest };
        if length < shortest && too_short == Oversize::Refuse {
            return Err(outside);
        }
        if length < shortest {
            *if length == 0 { &mut counts.empty } else { &mut counts.too_short } += 1;
            return Ok(None);
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
    fn a_sample_of_two_axes_is_counted_once() {
        let of = |longest, too_long| Admit { shortest: 2, longest, too_short: Oversize::Skip, too_long };
        let axes = [of(4, Oversize::Truncate), of(9, Oversize::Truncate)];
        let lengths: [&[u32]; 2] = [&[5, 3, 5, 1, 0], &[9, 9, 10, 10, 1]];
        let admitted = Admit::along(axes, lengths, |_, _| true).unwrap();
        let counts = AdmitCounts { empty: 1, too_short: 1, truncated: 2, ..AdmitCounts::default() };
        assert_eq!((admitted.ids, admitted.counts), (vec![0, 1, 2], counts));
        assert_eq!(admitted.index.iter().collect::<Vec<_>>(), [[4, 9], [3, 9], [4, 9]]);
        let refused = Admit::along([of(4, Oversize::Skip); 2], [&[3], &[3, 4]], |_, _| true).unwrap_err();
        assert_eq!(refused.to_string(), "index the samples: axis 1 has 2 lengths for 1 samples");
    }

    #[test]
    fn what_is_skipped_is_counted() {
        let admit = Admit { shortest: 2, longest: 4, too_short: Oversize::Skip, too_long: Oversize::Skip };
        let admitted = admit.all(&[0, 1, 2, 4, 5, 9]).unwrap();
        let counts = AdmitCounts { empty: 1, too_short: 1, too_long: 2, ..AdmitCounts::default() };
        assert_eq!((admitted.ids, admitted.counts), (vec![2, 3], counts));
    }
}
