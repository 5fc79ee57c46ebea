//! The first samples that an extent holds.

use plimsoll_types::{Extent, StepShape};

use crate::loader::twice;
use crate::source::{Draw, Item, Lengths, Source, SourceError};

/// Reads the first samples that an extent holds, again and again where there are too few.
pub(crate) fn first_samples<S: Source>(
    source: &S,
    n: u32,
    extent: Extent,
) -> Result<(Draw, Vec<S::Item>), SourceError> {
    let (n, cut) = (n as usize, source.lengths() == Lengths::Cut);
    // One that cannot be read is no reason not to measure; the run will say so.
    let fitting = |id| twice(|| source.read(0, id)).ok().filter(|item| cut || extent.covers(item.extent()));
    let found = (0..source.n_samples()).filter_map(|id| Some((id, fitting(id)?)));
    let (mut ids, mut items): (Vec<_>, Vec<_>) = found.take(n).unzip();
    let n_found = ids.len();
    if n_found == 0 {
        let reason = format!("no sample that can be read is short enough for an edge of {extent}");
        return Err(SourceError { sample_id: 0, reason });
    }
    for at in n_found..n {
        items.push(twice(|| source.read(0, ids[at % n_found]))?);
        ids.push(ids[at % n_found]);
    }
    Ok((Draw::of_extent(0, ids, extent), items))
}

/// Returns a buffer that is full of such samples, in one batch of this shape.
pub(crate) fn filled<S: Source>(source: &S, shape: StepShape) -> Result<S::Buffer, SourceError> {
    let (draw, items) = first_samples(source, shape.samples, shape.extent())?;
    let mut buffer = source.buffer(shape);
    source.collate(&draw, &items, &mut buffer)?;
    Ok(buffer)
}
