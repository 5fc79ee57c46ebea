//! Photos in two resolutions, decoded before they are needed, or when they are.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use plimsoll_signal::{Filter, RowResizer, Size};
use plimsoll_types::Bytes;

use super::model::SCALE;
use crate::image_file::{ImageFault, ImageFile};
use crate::room::StoreConfig;
use crate::store::{Store, Stored, Window};

/// One of the two resolutions of a photo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resolution {
    Low,
    High,
}

/// Decoded photos, as many as their file may hold; another takes the place of the one that was used longest ago.
#[derive(Debug)]
pub(crate) struct Gallery {
    files: Vec<ImageFile>,
    store: Store,
    shelf: RwLock<Shelf>,
    /// Counts uses.
    clock: AtomicU64,
    /// One photo is decoded at a time.
    turn: Mutex<Reserve>,
}

/// Memory that decoding will need, held where it happens next to training, so that training does not take it.
#[derive(Debug, Default)]
struct Reserve {
    size: usize,
    held: Vec<u8>,
}

/// Where each decoded photo lies, by its number.
#[derive(Debug, Default)]
struct Shelf(BTreeMap<usize, Place>);

#[derive(Debug)]
struct Place {
    offset: u64,
    n_bytes: u64,
    last_use: AtomicU64,
}

impl Gallery {
    /// Keeps photos in a file; none is decoded yet.
    pub(crate) fn create(files: Vec<ImageFile>, config: &StoreConfig) -> io::Result<Self> {
        let store = Store::create(config)?;
        Ok(Self { files, store, shelf: RwLock::default(), clock: AtomicU64::new(0), turn: Mutex::default() })
    }

    /// Returns width and height of a photo's file.
    pub(crate) fn size(&self, number: usize) -> Size {
        (self.files[number].width, self.files[number].height)
    }

    /// Whether a photo is decoded, or its place is free.
    pub(crate) fn has_room_for(&self, number: usize) -> bool {
        let (places, n_bytes) = (self.shelf(), stored_bytes(&self.files[number]));
        places.0.contains_key(&number) || places.gap(n_bytes.0, self.store.limit.0).is_some()
    }

    /// From here on photos are decoded next to other work: what that takes at most is held until then.
    pub(crate) fn reserve(&self) {
        let needed = self.files.iter().map(needed).max().unwrap_or(Bytes::ZERO);
        let mut reserve = self.turn();
        reserve.size = usize::try_from(needed.0).unwrap_or(usize::MAX);
        reserve.take();
    }

    /// Copies a window of a photo, which is decoded for it where it must be.
    ///
    /// # Shapes
    ///
    /// - `into`: `[window.height, window.width, 3]`
    pub(crate) fn read(
        &self,
        number: usize,
        resolution: Resolution,
        window: Window,
        into: &mut [u8],
    ) -> Result<(), ImageFault> {
        loop {
            let places = self.shelf();
            if let Some(place) = places.0.get(&number) {
                place.last_use.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
                let stored = place.stored(&self.files[number], resolution);
                return self.store.read_window(stored, window, into).map_err(ImageFault::Io);
            }
            drop(places);
            self.decode(number)?;
        }
    }

    /// Decodes a photo, unless it is there.
    pub(crate) fn decode(&self, number: usize) -> Result<(), ImageFault> {
        let mut reserve = self.turn();
        if self.shelf().0.contains_key(&number) {
            return Ok(());
        }
        let file = &self.files[number];
        let n_bytes = stored_bytes(file).0;
        // Nobody else takes places meanwhile, and what lies in a place is not read before it is on the shelf.
        let offset = self.shelf_mut().make_room(n_bytes, self.store.limit.0);
        reserve.give_back();
        let written = self.write(file, offset);
        reserve.take();
        written?;
        let last_use = AtomicU64::new(self.clock.fetch_add(1, Ordering::Relaxed));
        self.shelf_mut().0.insert(number, Place { offset, n_bytes, last_use });
        Ok(())
    }

    /// Writes the low resolution of a file, and the high one after it.
    fn write(&self, file: &ImageFile, offset: u64) -> Result<(), ImageFault> {
        let ((width, height), low) = sizes(file);
        let (row_len, mut high_end) = (3 * width as usize, offset + n_bytes(low));
        let (mut low_end, mut left, mut failed) = (offset, height, Ok(()));
        let mut resizer = RowResizer::new(Filter::CatmullRom, (width, height), low);
        let mut write = |end: &mut u64, row: &[u8]| {
            failed = std::mem::replace(&mut failed, Ok(())).and_then(|()| self.store.write(*end, row));
            *end += row.len() as u64;
            failed.is_ok()
        };
        file.rows(&mut |row| {
            // An odd row is left out.
            if left > 0 && write(&mut high_end, &row[..row_len]) {
                resizer.push(&row[..row_len], &mut |row| _ = write(&mut low_end, row));
                left -= 1;
                return ControlFlow::Continue(());
            }
            ControlFlow::Break(())
        })?;
        failed.map_err(ImageFault::Io)?;
        if left > 0 {
            return Err(ImageFault::Damaged(format!("{left} of its {height} rows are missing")));
        }
        Ok(())
    }

    fn shelf(&self) -> RwLockReadGuard<'_, Shelf> {
        self.shelf.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn shelf_mut(&self) -> RwLockWriteGuard<'_, Shelf> {
        self.shelf.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(&self) -> MutexGuard<'_, Reserve> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reserve {
    fn take(&mut self) {
        self.held.reserve_exact(self.size);
    }

    fn give_back(&mut self) {
        self.held = Vec::new();
    }
}

impl Shelf {
    /// Returns where so many bytes have room, after those that were used longest ago have made it.
    fn make_room(&mut self, n_bytes: u64, limit: u64) -> u64 {
        loop {
            if let Some(offset) = self.gap(n_bytes, limit) {
                return offset;
            }
            let oldest = self.0.iter().min_by_key(|(_, it)| it.last_use.load(Ordering::Relaxed));
            let Some(oldest) = oldest.map(|(number, _)| *number) else { return 0 };
            self.0.remove(&oldest);
        }
    }

    /// Returns the first place for so many bytes.
    fn gap(&self, n_bytes: u64, limit: u64) -> Option<u64> {
        let mut taken: Vec<_> = self.0.values().map(|it| (it.offset, it.offset + it.n_bytes)).collect();
        taken.sort_unstable();
        let mut start = 0;
        for (next, end) in taken {
            if n_bytes <= next - start {
                break;
            }
            start = end;
        }
        (n_bytes <= limit.saturating_sub(start)).then_some(start)
    }
}

impl Place {
    fn stored(&self, file: &ImageFile, resolution: Resolution) -> Stored {
        let (high, low) = sizes(file);
        match resolution {
            Resolution::Low => Stored { offset: self.offset, width: low.0, height: low.1 },
            Resolution::High => Stored { offset: self.offset + n_bytes(low), width: high.0, height: high.1 },
        }
    }
}

/// Returns what decoding a photo into both resolutions holds at most.
pub(crate) fn needed(file: &ImageFile) -> Bytes {
    let (high, low) = sizes(file);
    file.needed.saturating_add(RowResizer::needed(Filter::CatmullRom, high, low))
}

/// Returns what both resolutions of a photo take when they are kept.
pub(crate) fn stored_bytes(file: &ImageFile) -> Bytes {
    let (high, low) = sizes(file);
    Bytes(n_bytes(high) + n_bytes(low))
}

/// Returns the sides that are used, at the output and at the input resolution.
pub(crate) fn sizes(file: &ImageFile) -> (Size, Size) {
    let low = (file.width / SCALE, file.height / SCALE);
    ((low.0 * SCALE, low.1 * SCALE), low)
}

fn n_bytes(size: Size) -> u64 {
    3 * u64::from(size.0) * u64::from(size.1)
}
