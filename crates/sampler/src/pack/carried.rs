//! Pieces in few characters.

use std::sync::Arc;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::plan::compact::{Bits, read_gaps, write_gaps};

/// Which pieces a window has left to the next, in growing order, each as `id · pieces of the longest sample + number`.
///
/// They are written by their gaps, and a copy shares them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Carried(pub(super) Arc<[u64]>);

impl FromIterator<u64> for Carried {
    fn from_iter<I: IntoIterator<Item = u64>>(keys: I) -> Self {
        let mut keys: Vec<u64> = keys.into_iter().collect();
        keys.sort_unstable();
        Self(keys.into())
    }
}

impl Serialize for Carried {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write_gaps(&self.0).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Carried {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let keys = read_gaps(&Bits::deserialize(deserializer)?);
        keys.map(|keys| Self(keys.into())).ok_or_else(|| D::Error::custom("these are no pieces of samples"))
    }
}
