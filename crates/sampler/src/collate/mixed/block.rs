//! Filling a block of memory from its start.

/// Takes the memory of a block, empty.
///
/// # Panics
///
/// When so much memory cannot be addressed.
pub(super) fn block<T>(elements: u64) -> Vec<T> {
    Vec::with_capacity(usize::try_from(elements).expect("a batch that can be addressed"))
}

/// Appends `real`, and padding up to `length` elements.
pub(super) fn extend<T: Copy>(block: &mut Vec<T>, real: &[T], length: u32, padding: T) {
    let end = block.len() + length as usize;
    block.extend_from_slice(real);
    pad(block, end, padding);
}

/// Appends which of `length` elements are real.
pub(super) fn mask(block: &mut Vec<bool>, n_real: usize, length: u32) {
    let end = block.len() + length as usize;
    pad(block, block.len() + n_real, true);
    pad(block, end, false);
}

/// Appends padding up to the element `end`.
pub(super) fn pad<T: Copy>(block: &mut Vec<T>, end: usize, padding: T) {
    block.resize(end, padding);
}
