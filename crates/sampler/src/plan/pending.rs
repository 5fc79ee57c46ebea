//! What waits in a stream.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::compact::{BitReader, BitWriter, Bits, next_gaps, push_gaps};
use super::division::{Coder, Decoder, read_division, write_division};
use super::narrow::narrow;

/// The samples that a stream holds, those that are planned in their batches; a copy shares them.
///
/// As text they take little more than it takes to tell which they are and which batch each is in: of ten million samples,
/// 1 024 are 3.9 kB at most in batches that are padded to a few edges, and 3.4 kB in batches of 16.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending<const AXES: usize> {
    /// Batch after batch, and then those that are in none; each of these in growing order.
    ids: Arc<[u64]>,
    batches: Arc<[Group<AXES>]>,
}

/// A batch, without its samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Group<const AXES: usize> {
    /// What its samples are padded to.
    pub(crate) cell: [u32; AXES],
    /// How many there are; at least 1.
    pub(crate) n: u32,
}

impl<const AXES: usize> Default for Pending<AXES> {
    fn default() -> Self {
        Self::new(std::iter::empty(), std::iter::empty())
    }
}

impl<const AXES: usize> Pending<AXES> {
    pub(crate) fn new(
        batches: impl Iterator<Item = ([u32; AXES], Vec<u64>)>,
        waiting: impl Iterator<Item = u64>,
    ) -> Self {
        let (mut ids, mut groups) = (Vec::new(), Vec::new());
        for (cell, of) in batches {
            groups.push(Group { cell, n: append(&mut ids, of) });
        }
        append(&mut ids, waiting);
        Self { ids: ids.into(), batches: groups.into() }
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Returns their ids in growing order.
    pub fn ids(&self) -> Vec<u64> {
        let mut ids = self.ids.to_vec();
        ids.sort_unstable();
        ids
    }

    /// The same without some samples, and without batches that have no other.
    pub(crate) fn only(&self, keep: impl Fn(u64) -> bool) -> Self {
        let kept = |ids: &[u64]| ids.iter().copied().filter(|id| keep(*id)).collect::<Vec<_>>();
        let (mut batches, mut ids) = (Vec::new(), &*self.ids);
        for batch in &*self.batches {
            let (of_batch, rest) = ids.split_at(batch.n as usize);
            batches.push((batch.cell, kept(of_batch)));
            ids = rest;
        }
        Self::new(batches.into_iter().filter(|(_, ids)| !ids.is_empty()), kept(ids).into_iter())
    }

    /// Batch after batch, and then those that are in none.
    pub(crate) fn in_order(&self) -> &[u64] {
        &self.ids
    }

    pub(crate) fn batches(&self) -> &[Group<AXES>] {
        &self.batches
    }

    fn bits(&self) -> Bits {
        let mut writer = BitWriter::default();
        let (kinds, of) = self.kinds();
        let batches = self.batches.iter().zip(0..).flat_map(|(batch, at)| (0..batch.n).map(move |_| at));
        let none = std::iter::repeat(narrow(self.batches.len()));
        let mut places: Vec<(u64, u32)> = self.ids.iter().copied().zip(batches.chain(none)).collect();
        places.sort_unstable();
        push_gaps(&mut writer, &places.iter().map(|(id, _)| *id).collect::<Vec<_>>());
        write_kinds(&mut writer, &kinds);
        let mut coder = Coder::new(&mut writer);
        let counts: Vec<u32> = kinds.iter().map(|(_, count)| *count).collect();
        write_division(&mut coder, &of, &counts);
        let batch_of: Vec<u32> = places.iter().map(|(_, batch)| *batch).collect();
        write_division(&mut coder, &batch_of, &sizes(&self.batches, self.ids.len()));
        coder.finish();
        writer.finish()
    }

    /// The different batches, as their samples are not looked at, how many there are of each, and which each batch is.
    fn kinds(&self) -> (Vec<(Group<AXES>, u32)>, Vec<u32>) {
        let mut counts = BTreeMap::new();
        self.batches.iter().for_each(|batch| *counts.entry(*batch).or_insert(0) += 1);
        let kinds: Vec<_> = counts.into_iter().collect();
        let kind = |batch: &Group<AXES>| narrow(kinds.partition_point(|(kind, _)| kind < batch));
        let of = self.batches.iter().map(kind).collect();
        (kinds, of)
    }

    fn read(bits: &Bits) -> Option<Self> {
        let mut reader = bits.reader();
        let ids = next_gaps(&mut reader)?;
        let kinds = read_kinds(&mut reader, ids.len() as u64)?;
        let mut decoder = Decoder::new(&mut reader);
        let counts: Vec<u32> = kinds.iter().map(|(_, count)| *count).collect();
        let of = read_division(&mut decoder, &counts)?;
        let batches: Vec<_> = of.into_iter().map(|kind| kinds[kind as usize].0).collect();
        let batch_of = read_division(&mut decoder, &sizes(&batches, ids.len()))?;
        let mut places: Vec<(u32, u64)> = batch_of.into_iter().zip(ids).collect();
        places.sort_unstable();
        Some(Self { ids: places.into_iter().map(|(_, id)| id).collect(), batches: batches.into() })
    }
}

/// Appends ids in growing order, and says how many.
fn append(ids: &mut Vec<u64>, more: impl IntoIterator<Item = u64>) -> u32 {
    let start = ids.len();
    ids.extend(more);
    ids[start..].sort_unstable();
    narrow(ids.len() - start)
}

/// How many samples are in each batch, and in none; there are no fewer samples than are in batches.
fn sizes<const AXES: usize>(batches: &[Group<AXES>], n_samples: usize) -> Vec<u32> {
    let mut sizes: Vec<u32> = batches.iter().map(|batch| batch.n).collect();
    sizes.push(narrow(n_samples) - sizes.iter().sum::<u32>());
    sizes
}

fn write_kinds<const AXES: usize>(writer: &mut BitWriter, kinds: &[(Group<AXES>, u32)]) {
    writer.push_gamma(kinds.len() as u64 + 1);
    let mut first = 0;
    for (Group { cell, n }, count) in kinds {
        for (axis, length) in cell.iter().enumerate() {
            // They grow on the first axis.
            let less = if axis == 0 { std::mem::replace(&mut first, *length) } else { 0 };
            writer.push_gamma(u64::from(length - less) + 1);
        }
        writer.push_gamma((*n).into());
        writer.push_gamma((*count).into());
    }
}

/// Reads what [`write_kinds`] wrote; `None` when the batches would have more samples than there are.
fn read_kinds<const AXES: usize>(reader: &mut BitReader<'_>, n_samples: u64) -> Option<Vec<(Group<AXES>, u32)>> {
    let n_kinds = reader.next_gamma()? - 1;
    let (mut kinds, mut first, mut n_left) = (Vec::new(), 0u32, n_samples);
    for _ in 0..n_kinds {
        let mut cell = [0; AXES];
        for (axis, length) in cell.iter_mut().enumerate() {
            let less = if axis == 0 { first } else { 0 };
            *length = u32::try_from(reader.next_gamma()? - 1).ok()?.checked_add(less)?;
        }
        first = cell.first().copied().unwrap_or(0);
        let (n, count) = (u32::try_from(reader.next_gamma()?).ok()?, u32::try_from(reader.next_gamma()?).ok()?);
        n_left = n_left.checked_sub(u64::from(n) * u64::from(count))?;
        kinds.push((Group { cell, n }, count));
    }
    Some(kinds)
}

impl<const AXES: usize> Serialize for Pending<AXES> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.bits().serialize(serializer)
    }
}

impl<'de, const AXES: usize> Deserialize<'de> for Pending<AXES> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let pending = Self::read(&Bits::deserialize(deserializer)?);
        pending.ok_or_else(|| D::Error::custom("these are no samples that a stream holds"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn there_and_back<const AXES: usize>(pending: &Pending<AXES>) -> usize {
        let text = serde_json::to_string(pending).unwrap();
        assert_eq!(serde_json::from_str::<Pending<AXES>>(&text).unwrap(), *pending);
        text.len()
    }

    #[test]
    fn a_sample_that_waits_twice_comes_back_twice() {
        let pending = Pending::new([([9], vec![7, 3, 7])].into_iter(), [7, 7].into_iter());
        there_and_back(&pending);
        assert_eq!((pending.ids(), pending.in_order()), (vec![3, 7, 7, 7, 7], &[3, 7, 7, 7, 7][..]));
    }

    #[test]
    fn a_thousand_of_ten_million_take_less_than_four_kilobytes_in_batches_of_any_size() {
        let ids: Vec<u64> = (0..1024).map(|place| crate::hash::mix(place) % 10_000_000).collect();
        let letters = |n: usize| {
            let edge = |at: usize| [[64, 128, 256, 512][at % 4]];
            let batches = ids.chunks(n).enumerate().map(|(at, ids)| (edge(at), ids.to_vec()));
            there_and_back(&Pending::new(batches, std::iter::empty()))
        };
        let taken = [2, 16, 64].map(letters);
        assert!(taken[0] <= 3900 && taken[1] <= 3400 && taken[2] <= 3100, "{taken:?}");
    }

    proptest! {
        #[test]
        fn what_waits_comes_back_in_its_batches(
            batches in prop::collection::vec(([0u32..=4, 0u32..=u32::MAX], prop::collection::vec(any::<u64>(), 1..9)), 0..40),
            waiting in prop::collection::vec(0u64..300, 0..100)
        ) {
            let pending = Pending::new(batches.iter().cloned(), waiting.iter().copied());
            there_and_back(&pending);
            prop_assert_eq!(pending.len(), waiting.len() + batches.iter().map(|(_, ids)| ids.len()).sum::<usize>());
        }

        #[test]
        fn any_text_is_ids_or_an_error(text in "[A-Za-z0-9.:=-]{0,60}|.{0,20}") {
            let _ = serde_json::from_value::<Pending<1>>(serde_json::Value::String(text));
        }
    }
}
