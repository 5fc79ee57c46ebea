//! Numbers in few characters.

use std::sync::Arc;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What six bits are written as.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Bits as text, six a letter; a copy shares them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bits(Arc<str>);

/// Writes numbers of any width one after the other.
#[derive(Debug, Default)]
pub(super) struct BitWriter {
    text: String,
    /// Bits that do not fill a letter yet, the last one lowest.
    open: u8,
    n_open: u32,
}

/// Reads what a [`BitWriter`] wrote.
#[derive(Debug)]
pub(super) struct BitReader<'a> {
    letters: &'a [u8],
    /// Bits that were read.
    at: usize,
}

impl BitWriter {
    /// Appends the lowest bits of a number, the highest of them first.
    pub(super) fn push(&mut self, number: u64, n_bits: u32) {
        for bit in (0..n_bits).rev() {
            self.open = self.open << 1 | u8::from(number >> bit & 1 == 1);
            self.n_open += 1;
            if self.n_open == 6 {
                self.close();
            }
        }
    }

    pub(super) fn finish(mut self) -> Bits {
        if self.n_open > 0 {
            self.open <<= 6 - self.n_open;
            self.close();
        }
        Bits(self.text.into())
    }

    fn close(&mut self) {
        self.text.push(char::from(LETTERS[usize::from(self.open)]));
        (self.open, self.n_open) = (0, 0);
    }
}

impl Bits {
    pub(super) fn reader(&self) -> BitReader<'_> {
        BitReader { letters: self.0.as_bytes(), at: 0 }
    }
}

impl BitReader<'_> {
    /// Returns the next number; `None` when there are no more bits, or a letter is none.
    pub(super) fn next(&mut self, n_bits: u32) -> Option<u64> {
        let mut number = 0;
        for _ in 0..n_bits {
            let letter = self.letters.get(self.at / 6)?;
            number = number << 1 | u64::from(value(*letter)? >> (5 - self.at % 6) & 1);
            self.at += 1;
        }
        Some(number)
    }
}

const fn value(letter: u8) -> Option<u8> {
    Some(match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'-' => 62,
        b'_' => 63,
        _ => return None,
    })
}

/// How many bits it takes to tell the numbers from 0 to `most` apart.
pub(super) const fn width(most: u64) -> u32 {
    u64::BITS - most.leading_zeros()
}

impl Serialize for Bits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Bits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(String::deserialize(deserializer)?.into()))
    }
}

/// Writes ids in growing order: the gap between two takes some two bits more than the logarithm of the mean gap (Rice's
/// code).
pub(crate) fn write_gaps(ids: &[u64]) -> Bits {
    let n = ids.len() as u64;
    let low = width(ids.last().copied().unwrap_or(0) / n.max(1)).min(63);
    let mut writer = BitWriter::default();
    writer.push(n, 32);
    writer.push(low.into(), 6);
    let mut least = 0;
    for id in ids {
        let gap = id - least;
        for _ in 0..gap >> low {
            writer.push(1, 1);
        }
        writer.push(0, 1);
        writer.push(gap, low);
        least = *id;
    }
    writer.finish()
}

/// Reads what [`write_gaps`] wrote.
pub(crate) fn read_gaps(bits: &Bits) -> Option<Vec<u64>> {
    let mut reader = bits.reader();
    let (n, low) = (reader.next(32)?, u32::try_from(reader.next(6)?).ok()?);
    let (mut ids, mut least) = (Vec::new(), 0u64);
    for _ in 0..n {
        let mut high = 0u64;
        while reader.next(1)? == 1 {
            high += 1;
        }
        let gap = high.checked_mul(1 << low)?.checked_add(reader.next(low)?)?;
        let id = gap.checked_add(least)?;
        ids.push(id);
        least = id;
    }
    Some(ids)
}

/// Ids in growing order, written by their gaps; a copy shares them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ids(pub(super) Arc<[u32]>);

impl Ids {
    fn bits(&self) -> Bits {
        write_gaps(&self.0.iter().copied().map(u64::from).collect::<Vec<_>>())
    }

    fn read(bits: &Bits) -> Option<Self> {
        read_gaps(bits)?.into_iter().map(|id| u32::try_from(id).ok()).collect::<Option<_>>().map(Self)
    }
}

impl FromIterator<u32> for Ids {
    fn from_iter<I: IntoIterator<Item = u32>>(ids: I) -> Self {
        let mut ids: Vec<u32> = ids.into_iter().collect();
        ids.sort_unstable();
        Self(ids.into())
    }
}

impl Serialize for Ids {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.bits().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Ids {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(&Bits::deserialize(deserializer)?).ok_or_else(|| D::Error::custom("these are no ids of samples"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_back(numbers in prop::collection::vec((any::<u64>(), 0u32..64), 0..50)) {
            let mut writer = BitWriter::default();
            for (number, n_bits) in &numbers {
                writer.push(*number, *n_bits);
            }
            let saved = serde_json::to_string(&writer.finish()).unwrap();
            let bits: Bits = serde_json::from_str(&saved).unwrap();
            let mut reader = bits.reader();
            for (number, n_bits) in numbers {
                prop_assert_eq!(reader.next(n_bits), Some(number & ((1 << n_bits) - 1)));
            }
            prop_assert!(reader.next(6).is_none_or(|rest| rest == 0) && reader.next(6).is_none());
        }

        #[test]
        fn ids_come_back_in_two_bits_more_than_their_gaps(
            ids in prop::collection::btree_set(prop_oneof![0u32..300, any::<u32>()], 0..300)
        ) {
            let ids: Ids = ids.into_iter().collect();
            let saved = serde_json::to_string(&ids).unwrap();
            let gap = f64::from(ids.0.last().copied().unwrap_or(0)) / ids.0.len().max(1) as f64;
            let most = 38.0 + ids.0.len() as f64 * (gap.max(1.0).log2() + 3.0);
            prop_assert!(saved.len() as f64 <= 3.0 + most / 6.0, "{} letters", saved.len());
            prop_assert_eq!(serde_json::from_str::<Ids>(&saved).unwrap(), ids);
        }

        #[test]
        fn any_text_is_ids_or_an_error(text in "[A-Za-z0-9_-]{0,40}|.{0,20}") {
            let _ = serde_json::from_value::<Ids>(serde_json::Value::String(text));
        }
    }
}
