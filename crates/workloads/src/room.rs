//! What loading may use.

use std::path::{Path, PathBuf};

use plimsoll_types::Bytes;

/// What loading may use: memory while it decodes, and a file for what does not stay in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// Memory that the process may hold.
    pub capacity: Bytes,
    /// Memory that it holds already.
    pub in_use: Bytes,
    /// Where what is decoded goes.
    pub store: StoreConfig,
}

/// Where what is decoded is kept, and how much of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// A folder on the disk that is to hold them. They lie in a file without a name there, which is gone with the data
    /// set, and with the process if that is killed.
    pub folder: PathBuf,
    /// Bytes that the file may have.
    pub limit: Bytes,
}

impl Room {
    /// Sets no limits, and keeps what is decoded in this folder.
    pub fn boundless(folder: &Path) -> Self {
        let store = StoreConfig { folder: folder.to_owned(), limit: Bytes::MAX };
        Self { capacity: Bytes::MAX, in_use: Bytes::ZERO, store }
    }

    /// Returns the memory that is left.
    pub(crate) fn left(&self) -> Bytes {
        self.capacity.saturating_sub(self.in_use)
    }

    /// Returns a capacity that would leave so much, rounded up as it is shown, so that whoever sets it is not refused again.
    pub(crate) fn capacity_for(&self, needed: Bytes) -> Bytes {
        // What a process holds before it loads differs a little from one to the next.
        let before = self.in_use.saturating_add(Bytes(self.in_use.0 / 16));
        before.saturating_add(needed).shown_up()
    }
}
