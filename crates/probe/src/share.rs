//! What one thread takes of the work that is measured.

use std::cell::Cell;

use plimsoll_types::Bytes;

#[derive(Clone, Copy)]
struct Held {
    now: isize,
    most: isize,
}

thread_local! {
    static HELD: Cell<Held> = const { Cell::new(Held { now: 0, most: 0 }) };
}

/// Measures what this thread alone takes, whatever others take meanwhile.
///
/// For threads between which a step is divided: the peak of the program is that of all of them together, and depends on
/// which of them was where when; what one needs for its part does not.
#[derive(Debug)]
pub struct Share {
    before: isize,
}

impl Share {
    /// Begins at what this thread holds now.
    pub fn begin() -> Self {
        let Held { now, .. } = HELD.get();
        HELD.set(Held { now, most: now });
        Self { before: now }
    }

    /// Returns what this thread holds now, beyond what it held then.
    pub fn held(&self) -> Bytes {
        Bytes((HELD.get().now - self.before).max(0).unsigned_abs() as u64)
    }

    /// Returns the most that this thread has held at once since, beyond what it held then; of the last share that it began.
    pub fn most(&self) -> Bytes {
        Bytes((HELD.get().most - self.before).max(0).unsigned_abs() as u64)
    }
}

/// Counts bytes that this thread takes, or returns, and returns what it holds with them.
///
/// Less than nothing is held by a thread that returns what others took; only differences mean anything.
pub(crate) fn add(bytes: isize) -> isize {
    let added = HELD.try_with(|it| {
        let held = it.get();
        let now = held.now.wrapping_add(bytes);
        it.set(Held { now, ..held });
        now
    });
    // A thread that ends holds nothing any more.
    added.unwrap_or(bytes)
}

/// Raises the most that this thread has held to what it holds with a block.
pub(crate) fn raise(now: isize) {
    // As above.
    _ = HELD.try_with(|it| {
        let held = it.get();
        if held.most < now {
            it.set(Held { most: now, ..held });
        }
    });
}
