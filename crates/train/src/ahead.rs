//! Values that threads make ahead of need, in order.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_types::Bytes;

use crate::loader::LoaderError;
use crate::workers::Workers;

/// Makes a value of each task with several threads, and hands the values out in the order of the tasks.
pub(crate) struct Ahead<T, R> {
    workers: Workers<(u64, T), (u64, R)>,
    arrived: BTreeMap<u64, R>,
    arrived_bytes: Bytes,
    /// The largest so far, for those that are on their way.
    largest: Bytes,
    n_asked: u64,
    n_taken: u64,
    room: Room,
    size: fn(&R) -> Bytes,
    /// Whether values are asked for until there is no room.
    fills: bool,
    /// Before the size of any is known.
    most_unknown: u64,
}

/// How much may be made ahead; the next value is made in any case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) bytes: Bytes,
    pub(crate) values: u64,
}

/// Values that are made ahead before the size of any is known, unless there are more threads.
const MOST_UNKNOWN: u64 = 8;

impl<T: Send + 'static, R: Send + 'static> Ahead<T, R> {
    /// Starts the threads.
    pub(crate) fn start(
        n_workers: usize,
        room: Room,
        size: fn(&R) -> Bytes,
        make: impl Fn(T) -> R + Send + Sync + 'static,
    ) -> Self {
        let workers = Workers::start(n_workers, move |(ticket, task)| Some(Ok((ticket, make(task)))));
        Self {
            workers,
            arrived: BTreeMap::new(),
            arrived_bytes: Bytes::ZERO,
            largest: Bytes::ZERO,
            n_asked: 0,
            n_taken: 0,
            room,
            size,
            fills: true,
            most_unknown: MOST_UNKNOWN.max(n_workers as u64),
        }
    }

    /// Whether another value is to be asked for: until there is no room, and again when half of it is free, since waking a
    /// thread takes longer than all else here.
    ///
    /// Values on their way count as the largest so far.
    pub(crate) fn wants_more(&mut self) -> bool {
        let n_ahead = self.n_asked - self.n_taken;
        let n_on_their_way = n_ahead - self.arrived.len() as u64;
        let n_most = if self.largest == Bytes::ZERO { self.most_unknown } else { self.room.values };
        let bytes = self.arrived_bytes.saturating_add(self.largest.saturating_mul(n_on_their_way));
        let is_within =
            |share: u64| n_ahead < n_most.div_ceil(share) && bytes < Bytes(self.room.bytes.0.div_ceil(share));
        self.fills = if self.fills { is_within(1) } else { is_within(2) };
        self.fills || n_ahead == 0
    }

    /// Lets a thread make the value after those that were asked for.
    pub(crate) fn ask(&mut self, task: T) {
        self.workers.send((self.n_asked, task));
        self.n_asked += 1;
    }

    /// Lets a thread make the value anew that was taken last; it comes next.
    pub(crate) fn ask_again(&mut self, task: T) {
        self.n_taken -= 1;
        self.workers.send((self.n_taken, task));
    }

    /// Puts a value after those that were asked for.
    pub(crate) fn put(&mut self, value: R) {
        self.keep((self.n_asked, value));
        self.n_asked += 1;
    }

    /// Puts the value back that was taken last; it comes next.
    pub(crate) fn put_back(&mut self, value: R) {
        self.n_taken -= 1;
        self.keep((self.n_taken, value));
    }

    /// Whether the next value is there already.
    pub(crate) fn is_ready(&mut self) -> Result<bool, LoaderError> {
        while let Some(done) = self.workers.try_receive() {
            self.keep(done?);
        }
        Ok(self.arrived.contains_key(&self.n_taken))
    }

    /// Returns the next value, and waits for it where it must.
    pub(crate) fn take(&mut self) -> Result<R, LoaderError> {
        while !self.is_ready()? {
            let done = self.workers.receive()?;
            self.keep(done);
        }
        let value = self.arrived.remove(&self.n_taken).unwrap_or_else(|| unreachable!("it is ready"));
        self.n_taken += 1;
        self.arrived_bytes = self.arrived_bytes.saturating_sub((self.size)(&value));
        Ok(value)
    }

    /// Returns how long [`Self::take`] has waited so far.
    pub(crate) fn waited(&self) -> Duration {
        self.workers.waited()
    }

    fn keep(&mut self, (ticket, value): (u64, R)) {
        let bytes = (self.size)(&value);
        self.largest = self.largest.max(bytes);
        self.arrived_bytes = self.arrived_bytes.saturating_add(bytes);
        self.arrived.insert(ticket, value);
    }
}
