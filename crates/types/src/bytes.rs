//! Sizes in bytes, shown in IEC units.

use std::fmt;
use std::iter::Sum;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::Fraction;

/// A size in bytes.
///
/// Displays in IEC units (`1.50 GiB`), parses them (`"1.5GiB"`, `"64 MiB"`, `"1000"`), and serialises as the number
/// of bytes; a text is accepted on the way in, so that a configuration may say `"192 MiB"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A text that is no size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no size: write a number and B, KiB, MiB, GiB or TiB, as in `1.5 GiB`")]
pub struct ParseBytesError(String);

const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);
    /// The largest size that can be written.
    pub const MAX: Self = Self(u64::MAX);

    /// Returns `n` KiB.
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }

    /// Returns `n` MiB.
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// Returns `n` GiB.
    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }

    /// Returns the number of bytes as a float, for ratios and regressions.
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }

    /// Returns the smallest size that holds `bytes`, which may be fractional; negative and NaN become zero.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float-to-integer cast saturates, which is what a size wants"
    )]
    pub fn from_f64_ceil(bytes: f64) -> Self {
        Self(bytes.ceil() as u64)
    }

    /// Returns the sum, or the largest size when it does not fit.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns the difference, or zero when `other` is larger.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Returns the sum, or `None` when it does not fit.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// Returns the difference, or `None` when `other` is larger.
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        self.0.checked_sub(other.0).map(Self)
    }

    /// Returns `n` times this size, or the largest size when it does not fit.
    #[must_use]
    pub const fn saturating_mul(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }

    /// Returns this fraction of the size, rounded down to whole bytes.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a fraction of a size is a smaller, non-negative size"
    )]
    #[must_use]
    pub fn scale(self, fraction: Fraction) -> Self {
        Self((self.as_f64() * fraction.get()).floor() as u64)
    }

    /// Returns the size in the unit that shows it, and that unit's place; it steps up once two decimals would round to
    /// 1024.
    fn unit(self) -> (f64, usize) {
        let (mut value, mut unit) = (self.as_f64(), 0);
        while value >= 1023.995 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        (value, unit)
    }

    /// Returns the smallest size that is shown as it is, and is not below this one: for advice that is followed to the
    /// letter.
    #[must_use]
    pub fn shown_up(self) -> Self {
        // A text that was rounded down is one hundredth of its unit short.
        let shown = |bytes: Self| bytes.to_string().parse().unwrap_or(bytes);
        let step = |bytes: Self| 1 << (10 * bytes.unit().1).saturating_sub(7);
        let mut size = self;
        while shown(size) < self {
            size = Self(size.0.saturating_add(step(size)));
        }
        shown(size)
    }

    /// Returns how many times `whole` this size is (1.0 when equal), or zero when `whole` is zero.
    pub fn share_of(self, whole: Self) -> f64 {
        if whole.0 == 0 { 0.0 } else { self.as_f64() / whole.as_f64() }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = self.unit();
        let text = match unit {
            0 => format!("{} B", self.0),
            _ => format!("{value:.2} {}", UNITS[unit]),
        };
        f.pad(&text)
    }
}

impl FromStr for Bytes {
    type Err = ParseBytesError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fail = || ParseBytesError(text.to_owned());
        let trimmed = text.trim();
        let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(split);
        let number = number.replace('_', "");
        let power = match unit.trim() {
            "" => 0,
            unit => UNITS.iter().position(|it| it.eq_ignore_ascii_case(unit)).ok_or_else(fail)?,
        };
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(1 << (10 * power)).map(Self).ok_or_else(fail);
        }
        let value =
            number.parse::<f64>().map_err(|_| fail())? * 1024f64.powi(i32::try_from(power).map_err(|_| fail())?);
        if value < u64::MAX as f64 { Ok(Self::from_f64_ceil(value)) } else { Err(fail()) }
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::ZERO, Self::saturating_add)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BytesVisitor)
    }
}

struct BytesVisitor;

impl de::Visitor<'_> for BytesVisitor {
    type Value = Bytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size such as \"1.5 GiB\", or a number of bytes")
    }

    fn visit_u64<E: de::Error>(self, n: u64) -> Result<Bytes, E> {
        Ok(Bytes(n))
    }

    fn visit_i64<E: de::Error>(self, n: i64) -> Result<Bytes, E> {
        u64::try_from(n).map(Bytes).map_err(|_| E::invalid_value(de::Unexpected::Signed(n), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Bytes, E> {
        text.parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_read_as_they_are_written() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("1.5GiB", 3 << 29),
            ("192 MiB", 192 << 20),
            ("2gib", 2 << 30),
            ("1_000 KiB", 1_024_000),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn a_text_that_is_no_size_is_quoted_in_the_error() {
        for text in ["", "GiB", "1.5 GB", "-1", "1e3", "nan", "99999999999 TiB", "1.2.3 MiB"] {
            let error = text.parse::<Bytes>().unwrap_err();
            assert!(error.to_string().starts_with(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn display_steps_up_before_it_would_show_1024() {
        assert_eq!(Bytes(1023).to_string(), "1023 B");
        assert_eq!(Bytes((1 << 20) - 1).to_string(), "1.00 MiB");
        assert_eq!(Bytes::mib(1536).to_string(), "1.50 GiB");
        assert_eq!(format!("{:>12}", Bytes::mib(8)), "    8.00 MiB");
    }

    #[test]
    fn a_text_or_a_number_deserialises() {
        assert_eq!(serde_json::from_str::<Bytes>("\"64 MiB\"").unwrap(), Bytes::mib(64));
        assert_eq!(serde_json::from_str::<Bytes>("4096").unwrap(), Bytes(4096));
        assert!(serde_json::from_str::<Bytes>("-1").is_err());
    }

    proptest! {
        #[test]
        fn what_is_displayed_parses_to_within_half_a_hundredth(n in 0u64..1 << 50) {
            let shown = Bytes(n).to_string();
            let parsed: Bytes = shown.parse().unwrap();
            // Half a hundredth of the unit that is shown, which is at most the size itself.
            let unit = (0..5).map(|power| 1024f64.powi(power)).take_while(|it| it * 0.999_995 <= n as f64).last();
            let hundredth = 0.01 * unit.unwrap_or(1.0);
            prop_assert!((parsed.as_f64() - n as f64).abs() <= 0.5 * hundredth + 1.0, "{}", shown);
        }

        #[test]
        fn what_is_shown_rounded_up_is_enough_and_no_hundredth_too_much(n in 0u64..1 << 50) {
            let up = Bytes(n).shown_up();
            let parsed: Bytes = up.to_string().parse().unwrap();
            prop_assert_eq!(parsed, up);
            prop_assert!(Bytes(n) <= up, "{up}");
            prop_assert!(up.as_f64() <= 1.02 * n as f64 + 1.0, "{up} of {n}");
            prop_assert_eq!(up.shown_up(), up);
        }

        #[test]
        fn arithmetic_never_wraps(a: u64, b: u64) {
            let (x, y) = (Bytes(a), Bytes(b));
            prop_assert!(x.saturating_add(y) >= x);
            prop_assert!(x.saturating_sub(y) <= x);
            prop_assert_eq!(x.checked_add(y).and_then(|sum| sum.checked_sub(y)), a.checked_add(b).map(|_| x));
        }
    }
}
