//! Which pieces of their samples are held, in few characters.

use std::sync::Arc;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::plan::compact::{BitWriter, Bits};

/// Small numbers, each in the fewer bits the smaller it is; a copy shares them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Numbers(pub(super) Arc<[u32]>);

impl Serialize for Numbers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut writer = BitWriter::default();
        // The last ones are 0, most often all.
        let n = self.0.iter().rposition(|number| *number > 0).map_or(0, |last| last + 1);
        for number in [self.0.len() as u64, n as u64].into_iter().chain(self.0[..n].iter().copied().map(u64::from)) {
            writer.push_gamma(number + 1);
        }
        writer.finish().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Numbers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(&Bits::deserialize(deserializer)?).ok_or_else(|| D::Error::custom("these are no numbers of pieces"))
    }
}

impl Numbers {
    fn read(bits: &Bits) -> Option<Self> {
        let mut reader = bits.reader();
        let mut next = || u32::try_from(reader.next_gamma()? - 1).ok();
        let (len, n) = (next()?, next()?);
        let mut numbers = (0..n).map(|_| next()).collect::<Option<Vec<_>>>()?;
        let n_zero = len.checked_sub(n).filter(|_| len <= MOST_NUMBERS)?;
        numbers.extend(std::iter::repeat_n(0, n_zero as usize));
        Some(Self(numbers.into()))
    }
}

/// No stream holds more pieces.
const MOST_NUMBERS: u32 = 1 << 24;
