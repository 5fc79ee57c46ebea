//! Numbers in few characters.

use std::sync::Arc;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The digits of numbers to base 85, none of which JSON escapes.
///
/// # Sources
///
/// `ZeroMQ`'s RFC 32, "Z85", 2010.
const LETTERS: &[u8; 85] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

const BASE: u64 = LETTERS.len() as u64;

/// Five letters are 32 bits, 6.4 each.
const LETTERS_OF_WORD: usize = 5;
const WORD: u32 = u32::BITS;

/// Bits as text; a copy shares them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bits(Arc<str>);

/// Writes numbers of any width one after the other.
#[derive(Debug, Default)]
pub(crate) struct BitWriter {
    text: String,
    /// Bits that do not fill a word yet, the last one lowest.
    open: u64,
    n_open: u32,
}

/// Reads what a [`BitWriter`] wrote.
#[derive(Debug)]
pub(crate) struct BitReader<'a> {
    letters: &'a [u8],
    /// Bits of the last word that are not read yet, the next one highest.
    open: u32,
    n_open: u32,
}

impl BitWriter {
    /// Appends the lowest bits of a number, the highest of them first.
    pub(super) fn push(&mut self, number: u64, n_bits: u32) {
        for bit in (0..n_bits).rev() {
            self.open = self.open << 1 | number >> bit & 1;
            self.n_open += 1;
            if self.n_open == WORD {
                self.close();
            }
        }
    }

    /// Appends a number above 0 in twice the bits that it has, less one (Elias' gamma code).
    pub(crate) fn push_gamma(&mut self, number: u64) {
        let n_bits = width(number);
        self.push(0, n_bits - 1);
        self.push(number, n_bits);
    }

    /// How many bits there are.
    #[cfg(test)]
    pub(super) fn n_bits(&self) -> usize {
        self.text.len() / LETTERS_OF_WORD * WORD as usize + self.n_open as usize
    }

    pub(crate) fn finish(mut self) -> Bits {
        if self.n_open > 0 {
            self.open <<= WORD - self.n_open;
            self.close();
        }
        Bits(self.text.into())
    }

    fn close(&mut self) {
        let mut word = std::mem::take(&mut self.open);
        let mut letters = [0; LETTERS_OF_WORD];
        for letter in letters.iter_mut().rev() {
            (*letter, word) = (LETTERS[(word % BASE) as usize], word / BASE);
        }
        self.text.extend(letters.map(char::from));
        self.n_open = 0;
    }
}

impl Bits {
    pub(crate) fn reader(&self) -> BitReader<'_> {
        BitReader { letters: self.0.as_bytes(), open: 0, n_open: 0 }
    }
}

impl BitReader<'_> {
    /// Returns the next number; `None` when there are no more bits, or a letter is none.
    pub(super) fn next(&mut self, n_bits: u32) -> Option<u64> {
        let mut number = 0;
        for _ in 0..n_bits {
            if self.n_open == 0 {
                let (word, rest) = self.letters.split_first_chunk::<LETTERS_OF_WORD>()?;
                let value = word.iter().try_fold(0, |sum, letter| Some(sum * BASE + value(*letter)?))?;
                (self.open, self.n_open, self.letters) = (u32::try_from(value).ok()?, WORD, rest);
            }
            number = number << 1 | u64::from(self.open >> (WORD - 1));
            (self.open, self.n_open) = (self.open << 1, self.n_open - 1);
        }
        Some(number)
    }

    /// Returns the next number that was appended by [`BitWriter::push_gamma`].
    pub(crate) fn next_gamma(&mut self) -> Option<u64> {
        let mut n_more = 0;
        while self.next(1)? == 0 {
            n_more += 1;
        }
        if n_more < u64::BITS { Some(1 << n_more | self.next(n_more)?) } else { None }
    }
}

/// The place of a letter.
fn value(letter: u8) -> Option<u64> {
    VALUES.get(usize::from(letter)).copied().filter(|value| *value < BASE)
}

const VALUES: [u64; 128] = {
    let (mut values, mut at) = ([BASE; 128], 0);
    while at < LETTERS.len() {
        values[LETTERS[at] as usize] = at as u64;
        at += 1;
    }
    values
};

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

/// Writes ids in growing order.
pub(crate) fn write_gaps(ids: &[u64]) -> Bits {
    let mut writer = BitWriter::default();
    push_gaps(&mut writer, ids);
    writer.finish()
}

/// Reads what [`write_gaps`] wrote.
pub(crate) fn read_gaps(bits: &Bits) -> Option<Vec<u64>> {
    next_gaps(&mut bits.reader())
}

/// Appends ids in growing order: the gap between two takes some one and a half bits more than the logarithm of the mean
/// gap (Rice's code).
pub(super) fn push_gaps(writer: &mut BitWriter, ids: &[u64]) {
    let n = ids.len() as u64;
    let gap = ids.last().copied().unwrap_or(0) / n.max(1);
    // Half of the gaps between random ids are below two thirds of their mean: one bit is enough for the rest of these.
    let low = width(gap / 3 * 2).min(63);
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
}

/// Returns the next ids that were appended by [`push_gaps`].
pub(super) fn next_gaps(reader: &mut BitReader<'_>) -> Option<Vec<u64>> {
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
            let rest: Vec<_> = std::iter::from_fn(|| reader.next(1)).collect();
            prop_assert!(rest.len() < 32 && rest.iter().all(|bit| *bit == 0));
        }

        #[test]
        fn ids_come_back_in_two_bits_more_than_their_gaps(
            ids in prop::collection::btree_set(prop_oneof![0u32..300, any::<u32>()], 0..300)
        ) {
            let ids: Ids = ids.into_iter().collect();
            let saved = serde_json::to_string(&ids).unwrap();
            let gap = f64::from(ids.0.last().copied().unwrap_or(0)) / ids.0.len().max(1) as f64;
            let most = 38.0 + ids.0.len() as f64 * (gap.max(1.0).log2() + 3.0);
            prop_assert!(saved.len() as f64 <= 7.0 + most / 6.4, "{} letters", saved.len());
            prop_assert_eq!(serde_json::from_str::<Ids>(&saved).unwrap(), ids);
        }

        #[test]
        fn any_text_is_ids_or_an_error(text in "[A-Za-z0-9.:=-]{0,40}|.{0,20}") {
            let _ = serde_json::from_value::<Ids>(serde_json::Value::String(text));
        }
    }
}
