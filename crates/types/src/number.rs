//! Numbers that may be none.

use serde::{Deserialize, Deserializer};

/// Reads `null` as NaN, for the fields that a diverging model makes NaN or infinite: JSON has neither, and writes `null`.
///
/// A field that is not there at all is still an error.
///
/// # Errors
///
/// Those of the deserializer, for anything else than a number or `null`.
///
/// # Example
///
/// ```
/// #[derive(serde::Deserialize)]
/// struct Read {
///     #[serde(deserialize_with = "plimsoll_types::null_as_nan")]
///     loss: f64,
/// }
/// let Read { loss } = serde_json::from_str(r#"{"loss":null}"#)?;
/// assert!(loss.is_nan());
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn null_as_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

/// Whether a count or a size is zero, and not worth writing: for serde's `skip_serializing_if`.
pub fn is_zero<T: Default + PartialEq>(n: &T) -> bool {
    *n == T::default()
}
