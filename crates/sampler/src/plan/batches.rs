//! Batches of sample ids.

use super::narrow::narrow;

/// One batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch<'a, const AXES: usize> {
    /// The samples, in the order in which they are laid into the batch.
    pub ids: &'a [u32],
    /// The length of the longest sample on each axis.
    pub longest: [u32; AXES],
    /// What every sample is padded to: the cell of the lattice, or `longest` where there is none.
    /// A sample that is longer was to be truncated, and has to be cut to it.
    pub cell: [u32; AXES],
}

/// A batch of its own, as an iterator returns it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnedBatch<const AXES: usize> {
    /// The samples, in the order in which they are laid into the batch.
    pub ids: Vec<u64>,
    /// What each is padded to: as [`Batch::cell`].
    pub cell: [u32; AXES],
}

/// Batches in the order of the steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batches<const AXES: usize> {
    pub(super) ids: Vec<u32>,
    pub(super) spans: Vec<Span<AXES>>,
}

/// Where a batch lies among the ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span<const AXES: usize> {
    pub(super) start: u32,
    pub(super) end: u32,
    /// Whether more samples would have fitted, had there been any that suit.
    pub(super) partial: bool,
    pub(super) longest: [u32; AXES],
    pub(super) cell: [u32; AXES],
}

impl<const AXES: usize> Default for Batches<AXES> {
    fn default() -> Self {
        Self { ids: Vec::new(), spans: Vec::new() }
    }
}

impl<const AXES: usize> Batches<AXES> {
    /// Number of batches.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there is no batch.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The batches in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Batch<'_, AXES>> + Clone {
        self.spans.iter().map(|span| self.batch(span))
    }

    /// One batch, if there are so many.
    pub fn get(&self, index: usize) -> Option<Batch<'_, AXES>> {
        self.spans.get(index).map(|span| self.batch(span))
    }

    /// Number of samples in all batches.
    pub fn n_samples(&self) -> usize {
        self.spans.iter().map(|span| (span.end - span.start) as usize).sum()
    }

    pub(super) fn batch(&self, span: &Span<AXES>) -> Batch<'_, AXES> {
        Batch { ids: self.ids_of(span), longest: span.longest, cell: span.cell }
    }

    pub(super) fn ids_of(&self, span: &Span<AXES>) -> &[u32] {
        &self.ids[span.start as usize..span.end as usize]
    }

    /// Puts other samples of the same cells into the batches, in the order of the batches.
    pub(super) fn replace(&mut self, mut other: impl FnMut(u32) -> u32) {
        let Self { ids, spans } = self;
        for span in spans {
            ids[span.start as usize..span.end as usize].iter_mut().for_each(|id| *id = other(*id));
        }
    }

    /// Looks for the longest of each batch anew.
    pub(super) fn measure(&mut self, lengths: impl Fn(u32) -> [u32; AXES]) {
        let Self { ids, spans } = self;
        for span in spans {
            span.longest = longest(ids[span.start as usize..span.end as usize].iter().map(|id| lengths(*id)));
        }
    }

    pub(super) fn clear(&mut self) {
        self.ids.clear();
        self.spans.clear();
    }

    /// Appends batches, their ids in the order of the batches.
    pub(super) fn append(&mut self, more: &Self) {
        self.spans.reserve(more.len());
        for span in &more.spans {
            let start = narrow(self.ids.len());
            self.ids.extend_from_slice(more.ids_of(span));
            self.spans.push(Span { start, end: narrow(self.ids.len()), ..*span });
        }
    }
}

/// The greatest length along each axis.
pub(super) fn longest<const AXES: usize>(of: impl Iterator<Item = [u32; AXES]>) -> [u32; AXES] {
    of.fold([0; AXES], |longest, of| std::array::from_fn(|axis| of[axis].max(longest[axis])))
}
