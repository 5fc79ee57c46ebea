//! What waits in a stream.

use std::sync::Arc;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::compact::{Bits, read_gaps, write_gaps};

/// Samples that are in no step, in no order; a copy shares them.
///
/// As text they take some two bits more for each than the logarithm of the mean gap between their ids: a thousand of ten
/// million are 2.6 kB.
#[derive(Clone, Debug, Default)]
pub struct Pending(Arc<[u64]>);

impl Pending {
    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns their ids in growing order.
    pub fn ids(&self) -> Vec<u64> {
        let mut ids = self.0.to_vec();
        ids.sort_unstable();
        ids
    }
}

impl PartialEq for Pending {
    fn eq(&self, other: &Self) -> bool {
        self.ids() == other.ids()
    }
}

impl Eq for Pending {}

impl FromIterator<u64> for Pending {
    fn from_iter<I: IntoIterator<Item = u64>>(ids: I) -> Self {
        Self(ids.into_iter().collect())
    }
}

impl Serialize for Pending {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write_gaps(&self.ids()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Pending {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let ids = read_gaps(&Bits::deserialize(deserializer)?);
        Ok(Self(ids.ok_or_else(|| D::Error::custom("these are no ids of samples"))?.into()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_sample_that_waits_twice_comes_back_twice() {
        let pending: Pending = [7, 3, 7].into_iter().collect();
        let read: Pending = serde_json::from_str(&serde_json::to_string(&pending).unwrap()).unwrap();
        assert_eq!(read.ids(), [3, 7, 7]);
    }

    proptest! {
        #[test]
        fn what_waits_comes_back_whatever_the_order(
            ids in prop::collection::btree_set(prop_oneof![0u64..300, any::<u64>()], 0..300)
        ) {
            let pending: Pending = ids.iter().rev().copied().collect();
            let read: Pending = serde_json::from_str(&serde_json::to_string(&pending).unwrap()).unwrap();
            prop_assert_eq!(&read, &pending);
            prop_assert!(read.ids().iter().eq(&ids) && read.len() == ids.len());
        }

        #[test]
        fn any_text_is_ids_or_an_error(text in "[A-Za-z0-9_-]{0,40}|.{0,20}") {
            let _ = serde_json::from_value::<Pending>(serde_json::Value::String(text));
        }
    }
}
