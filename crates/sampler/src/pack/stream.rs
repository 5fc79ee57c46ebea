//! Rows from a stream whose length nobody knows.

use std::collections::{BTreeMap, VecDeque};

use plimsoll_types::Bytes;

use super::config::PackConfig;
use super::fill::Filling;
use super::piece::Piece;
use super::rows::PackedRows;
use super::stream_position::PackStreamPosition;
use crate::hash::{Rng, Use, hash};
use crate::plan::resuming::Resuming;
use crate::plan::stream_position::StreamIdentity;
use crate::{IndexError, Pushed, StreamError, StreamLimits, StreamSample};

/// The most pieces of one sample: they are held at once, in 1 MiB, whatever the buffer.
const MOST_PIECES: u32 = 1 << 16;

/// A row of a stream, whose samples are named by their ids.
pub(super) type Row = Vec<Piece<u64>>;

/// Packs a stream through a bounded look-ahead buffer, as [`crate::StreamPlanner`] plans one.
///
/// Half of the buffer fills up while the rows of the other half are taken; a full half is packed as a window of an epoch
/// is, and rows that are not full go into the next half.
/// The rows depend on which samples come after which half alone, not on when they are pushed or taken.
/// A sample is held, and counted once, until its last piece is taken.
/// The tasks of the samples, and the window, have no meaning here.
#[derive(Clone, Debug, PartialEq)]
pub struct PackStream {
    pub(super) config: PackConfig,
    /// What tells the stream from others.
    pub(super) identity: StreamIdentity,
    limits: StreamLimits,
    /// The samples of which a piece is held, and how many pieces are.
    pub(super) held: BTreeMap<u64, (StreamSample<1>, u32)>,
    held_bytes: Bytes,
    /// Pieces that are in no row: those that were before, and new ones.
    pub(super) carried: Row,
    pub(super) waiting: Row,
    /// Memory of their samples, for each of them.
    pub(super) open_bytes: Bytes,
    pub(super) ready: VecDeque<Row>,
    pub(super) epoch: u64,
    /// Windows of the epoch that were packed.
    pub(super) n_windows: u64,
    pub(super) finished: bool,
    pub(super) resuming: Option<Box<Resuming<PackStreamPosition, 1>>>,
}

impl PackStream {
    /// Starts with an empty buffer.
    ///
    /// # Errors
    ///
    /// [`crate::PlanError::BelowOne`] with the key that is 0, also when half of the buffer holds no sample, and
    /// [`crate::PackError::Overlap`].
    pub fn try_new(config: PackConfig, limits: StreamLimits) -> Result<Self, StreamError> {
        config.check()?;
        limits.check()?;
        Ok(Self {
            identity: StreamIdentity::new(config.seed, &config),
            config,
            limits,
            held: BTreeMap::new(),
            held_bytes: Bytes::ZERO,
            carried: Vec::new(),
            waiting: Vec::new(),
            open_bytes: Bytes::ZERO,
            ready: VecDeque::new(),
            epoch: 0,
            n_windows: 0,
            finished: false,
            resuming: None,
        })
    }

    /// Takes the next sample of the stream, unless there is no room, or rows of an epoch that has ended are left.
    ///
    /// # Errors
    ///
    /// [`IndexError::ZeroLength`]; [`StreamError::BufferedSample`] when the sample is larger than half of the buffer;
    /// [`crate::PackError::BeyondRow`] when it is longer than a row may be and is not to be cut; [`StreamError::ManyPieces`] when
    /// it would be cut into more than one sample may have; [`StreamError::HeldTwice`];
    /// [`StreamError::NotPending`] when others of a position come first.
    pub fn push(&mut self, sample: StreamSample<1>) -> Result<Pushed, StreamError> {
        let StreamSample { id, lengths: [length], bytes, .. } = sample;
        if length == 0 {
            return Err(IndexError::ZeroLength { id, axis: 0 }.into());
        }
        self.check_pieces(id, length)?;
        if let Some(resuming) = &mut self.resuming {
            resuming.push(sample)?;
            self.rebuild();
            return Ok(Pushed::Held);
        }
        self.limits.check_sample(id, bytes)?;
        let (n_held, held) = self.held();
        let is_full = n_held >= self.limits.samples || held.saturating_add(bytes) > self.limits.bytes;
        if is_full || self.finished && n_held > 0 {
            return Ok(Pushed::Full);
        }
        self.hold(sample)?;
        Ok(Pushed::Held)
    }

    /// Takes the next row; `None` when none is ready.
    pub fn next_row(&mut self) -> Option<Vec<Piece<u64>>> {
        let row = self.ready.pop_front()?;
        for piece in &row {
            self.let_go(piece.id);
        }
        Some(row)
    }

    /// Packs what is left when the stream has ended, unless there are samples of a position that have not come yet.
    pub fn finish(&mut self) {
        if self.resuming.is_none() {
            self.pack(true);
            self.finished = true;
        }
    }

    /// What is wanted of the rows.
    pub const fn config(&self) -> &PackConfig {
        &self.config
    }

    /// Samples in the buffer, and their host memory.
    pub fn held(&self) -> (usize, Bytes) {
        self.resuming.as_ref().map_or((self.held.len(), self.held_bytes), |it| it.n_held())
    }

    /// Refuses a sample that is longer than a row may be and is not to be cut, or only into too many pieces.
    fn check_pieces(&self, id: u64, length: u32) -> Result<(), StreamError> {
        self.config.check_length(id, length)?;
        match self.config.n_pieces(length) {
            n_pieces if MOST_PIECES < n_pieces => Err(StreamError::ManyPieces { id, n_pieces, most: MOST_PIECES }),
            _ => Ok(()),
        }
    }

    /// Counts a piece of a sample as held.
    pub(super) fn keep(&mut self, sample: StreamSample<1>) {
        let of = self.held.entry(sample.id).or_insert((sample, 0));
        of.1 += 1;
        if of.1 == 1 {
            self.held_bytes = self.held_bytes.saturating_add(sample.bytes);
        }
    }

    fn let_go(&mut self, id: u64) {
        let Some((sample, n_pieces)) = self.held.get_mut(&id) else { return };
        *n_pieces -= 1;
        if *n_pieces == 0 {
            self.held_bytes = self.held_bytes.saturating_sub(sample.bytes);
            self.held.remove(&id);
        }
    }

    fn hold(&mut self, sample: StreamSample<1>) -> Result<(), StreamError> {
        let StreamSample { id, lengths: [length], .. } = sample;
        if self.held.contains_key(&id) {
            return Err(StreamError::HeldTwice { id });
        }
        if self.finished {
            (self.finished, self.epoch, self.n_windows) = (false, self.epoch + 1, 0);
        }
        for number in 0..self.config.n_pieces(length) {
            self.keep(sample);
            let (start, end) = self.config.piece(length, number);
            self.waiting.push(Piece { id, start, end });
            self.open_bytes = self.open_bytes.saturating_add(sample.bytes);
        }
        self.pack_half();
        Ok(())
    }

    /// Packs what is in no row when it is half of the buffer.
    pub(super) fn pack_half(&mut self) {
        let n_pieces = self.carried.len() + self.waiting.len();
        if n_pieces >= self.limits.samples / 2 || self.open_bytes.0 >= self.limits.bytes.0 / 2 {
            self.pack(false);
        }
    }

    /// Sums up the memory of samples of which a piece is in no row.
    pub(super) fn count_open(&mut self) {
        let of = |piece: &Piece<u64>| self.held.get(&piece.id).map_or(Bytes::ZERO, |(sample, _)| sample.bytes);
        self.open_bytes = self.carried.iter().chain(&self.waiting).map(of).sum();
    }

    /// Packs all pieces that are in no row, and keeps rows that are not full for the next time unless it is the last.
    pub(super) fn pack(&mut self, last: bool) {
        let n_pieces = self.carried.len() + self.waiting.len();
        if n_pieces == 0 {
            return;
        }
        let most = if last { 0 } else { (n_pieces / 2).min(self.limits.samples / 4) };
        let (seed, round) = (self.config.seed, self.epoch + 1);
        // An order that depends on nothing but the pieces: a position does not hold another.
        for pieces in [&mut self.carried, &mut self.waiting] {
            pieces.sort_by_cached_key(|piece| (hash(Use::Stream, seed, round, piece.id), *piece));
        }
        let (mut filling, mut rows) = (Filling::new(), PackedRows::new(self.config.row_len));
        filling.n_carried = self.carried.len();
        filling.pieces.append(&mut self.carried);
        filling.pieces.append(&mut self.waiting);
        filling.fill(&self.config, &mut rows);
        self.carried = filling.take_back(&mut rows, most);
        self.count_open();
        if self.open_bytes.0 >= self.limits.bytes.0 / 2 {
            // It would be packed again at once.
            (self.carried, self.open_bytes) = (Row::new(), Bytes::ZERO);
            filling.fill(&self.config, &mut rows);
        }
        Filling::<u64>::shuffle(&mut rows, &mut Rng::new(Use::Rows, seed, self.epoch, self.n_windows));
        self.ready.extend(rows.iter().map(|row| in_order(row.to_vec(), seed)));
        self.n_windows += 1;
    }
}

/// The pieces of a row in an order that depends on nothing but what they are.
pub(super) fn in_order(mut row: Row, seed: u64) -> Row {
    row.sort_by_cached_key(|piece| (hash(Use::Stream, seed, 0, piece.id), *piece));
    row
}
