//! The frames of recordings, kept from the first time that they are read.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use plimsoll_types::Bytes;

use crate::room::StoreConfig;
use crate::store::Store;

/// The frames of recordings in a file.
///
/// What has no room, or another length than its list says, is not kept.
#[derive(Debug)]
pub(crate) struct KeptFrames {
    store: Store,
    /// Where the values of each recording lie, by its number; [`NOWHERE`] until they do.
    places: Vec<AtomicU64>,
    end: AtomicU64,
}

const NOWHERE: u64 = u64::MAX;

impl KeptFrames {
    /// Makes the file for so many recordings; `None` where there can be none.
    pub(crate) fn try_new(config: &StoreConfig, n: usize) -> Option<Self> {
        let store = Store::create(config).ok()?;
        let places = (0..n).map(|_| AtomicU64::new(NOWHERE)).collect();
        Some(Self { store, places, end: AtomicU64::new(0) })
    }

    /// Returns the values of a recording: those that are kept, or else what is read, which is kept where there are so many.
    ///
    /// Two threads that read one recording at a time both keep it, and either is found from then on.
    pub(crate) fn get_or_read<E>(
        &self,
        number: usize,
        n_values: usize,
        read: impl FnOnce() -> Result<Vec<f32>, E>,
    ) -> Result<Vec<f32>, E> {
        if let Some(values) = self.get(number, n_values) {
            return Ok(values);
        }
        let values = read()?;
        if values.len() == n_values {
            self.keep(number, &values);
        }
        Ok(values)
    }

    fn get(&self, number: usize, n_values: usize) -> Option<Vec<f32>> {
        let place = Some(self.places[number].load(Acquire)).filter(|it| *it != NOWHERE)?;
        let mut values = vec![0.0; n_values];
        self.store.read(place, bytemuck::cast_slice_mut(&mut values)).ok()?;
        Some(values)
    }

    fn keep(&self, number: usize, values: &[f32]) {
        let behind = |end: u64| end.checked_add(size_of_val(values) as u64).filter(|it| Bytes(*it) <= self.store.limit);
        let Ok(place) = self.end.fetch_update(Relaxed, Relaxed, behind) else { return };
        match self.store.write(place, bytemuck::cast_slice(values)) {
            Ok(()) => self.places[number].store(place, Release),
            // The disk is full, and is left as it is from here on.
            Err(_) => self.end.store(u64::MAX, Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn kept(limit: Bytes) -> KeptFrames {
        let folder = tempfile::tempdir().unwrap();
        KeptFrames::try_new(&StoreConfig { folder: folder.path().to_owned(), limit }, 3).unwrap()
    }

    /// Returns the values of a recording, and whether they were read.
    fn get(kept: &KeptFrames, number: usize, values: &[f32], n_values: usize) -> (Vec<f32>, bool) {
        let mut is_read = false;
        let read = || -> Result<_, Infallible> {
            is_read = true;
            Ok(values.to_vec())
        };
        let Ok(found) = kept.get_or_read(number, n_values, read);
        (found, is_read)
    }

    #[test]
    fn a_recording_is_read_once_and_is_the_same_to_the_last_bit_from_then_on() {
        let (kept, values) = (kept(Bytes::MAX), [[0.1, -0.0, f32::MIN_POSITIVE / 2.0], [7.0, f32::INFINITY, 1e-30]]);
        for is_first in [true, false, false] {
            for (number, values) in [2, 0].into_iter().zip(&values) {
                let (found, is_read) = get(&kept, number, values, 3);
                let bits = |it: &[f32]| it.iter().map(|it| it.to_bits()).collect::<Vec<_>>();
                assert_eq!((bits(&found), is_read), (bits(values), is_first));
            }
        }
    }

    #[test]
    fn what_has_no_room_is_read_anew_and_takes_none_from_others() {
        let kept = kept(Bytes(5 * 4));
        for is_first in [true, false] {
            assert_eq!(get(&kept, 0, &[1.0; 3], 3), (vec![1.0; 3], is_first));
            assert_eq!(get(&kept, 1, &[2.0; 3], 3), (vec![2.0; 3], true));
            assert_eq!(get(&kept, 2, &[3.0; 2], 2), (vec![3.0; 2], is_first));
        }
    }

    #[test]
    fn what_is_of_another_length_than_was_expected_is_not_kept() {
        let kept = kept(Bytes::MAX);
        assert_eq!(get(&kept, 0, &[1.0; 4], 3), (vec![1.0; 4], true));
        assert_eq!(get(&kept, 0, &[1.0; 3], 3), (vec![1.0; 3], true));
        assert_eq!(get(&kept, 0, &[1.0; 4], 3), (vec![1.0; 3], false));
    }
}
