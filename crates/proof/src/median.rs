//! The middle of measured values.

/// Returns the median, or zero of nothing.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len(), sorted.len() / 2) {
        (0, _) => 0.0,
        (n, middle) if n % 2 == 1 => sorted[middle],
        (_, middle) => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}
