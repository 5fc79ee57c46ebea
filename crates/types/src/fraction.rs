//! Ratios between zero and one.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A ratio between 0 and 1, both included.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Fraction(f64);

/// A number that is no fraction.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{0} is not between 0 and 1")]
pub struct FractionOutOfRange(f64);

impl Fraction {
    /// Nothing.
    pub const ZERO: Self = Self(0.0);
    /// The whole.
    pub const ONE: Self = Self(1.0);

    /// Accepts a ratio.
    ///
    /// # Errors
    ///
    /// [`FractionOutOfRange`] when `ratio` is below 0, above 1 or no number.
    pub fn try_new(ratio: f64) -> Result<Self, FractionOutOfRange> {
        if (0.0..=1.0).contains(&ratio) { Ok(Self(ratio)) } else { Err(FractionOutOfRange(ratio)) }
    }

    /// Returns the ratio, 0 to 1.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Fraction {
    type Error = FractionOutOfRange;

    fn try_from(ratio: f64) -> Result<Self, Self::Error> {
        Self::try_new(ratio)
    }
}

impl From<Fraction> for f64 {
    fn from(fraction: Fraction) -> Self {
        fraction.0
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_zero_to_one_is_a_fraction() {
        assert_eq!(Fraction::try_new(0.9).map(Fraction::get), Ok(0.9));
        assert_eq!(Fraction::try_new(1.7).unwrap_err().to_string(), "1.7 is not between 0 and 1");
        assert!(Fraction::try_new(f64::NAN).is_err());
        assert!(serde_json::from_str::<Fraction>("-0.1").is_err());
    }
}
