//! What was done in a time.

/// Divides samples by the time that they took, unless no time passed.
pub(crate) fn rate(samples: u64, seconds: f64) -> Option<f64> {
    (seconds > 0.0).then(|| samples as f64 / seconds)
}
