//! Cutting batches into steps.

use std::cmp::Reverse;
use std::collections::VecDeque;

use super::step::{PlannedStep, StepBatch, StepSize, positions};

/// A sample that waits for its step.
pub(super) trait Waiting<const AXES: usize> {
    fn id(&self) -> u64;

    /// What it counts for in a batch that is padded to this cell.
    fn weight(&self, size: StepSize, cell: [u32; AXES]) -> u64;

    /// The padded positions that it takes there.
    fn padded(&self, cell: [u32; AXES]) -> u64 {
        positions(cell)
    }
}

/// A batch, or what a step has left of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Piece<S, const AXES: usize> {
    pub(super) samples: Vec<S>,
    pub(super) cell: [u32; AXES],
}

/// The batches that no step has taken yet, in the order in which they came.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StepQueue<S, const AXES: usize> {
    pub(super) size: StepSize,
    /// The most padded positions of a step; one sample may have more.
    pub(super) room: u64,
    pub(super) epoch: u64,
    /// What the epoch's steps have taken.
    pub(super) taken: u64,
    pub(super) pieces: VecDeque<Piece<S, AXES>>,
    /// What the pieces hold.
    held: Held,
}

/// What samples come to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Held {
    weight: u64,
    padded: u64,
}

impl<S: Waiting<AXES>, const AXES: usize> StepQueue<S, AXES> {
    pub(super) fn new(size: StepSize) -> Self {
        Self { size, room: u64::MAX, epoch: 0, taken: 0, pieces: VecDeque::new(), held: Held::default() }
    }

    /// Lets go of all pieces, and stands where so much of an epoch is taken.
    pub(super) fn start(&mut self, epoch: u64, taken: u64) {
        self.pieces.clear();
        (self.epoch, self.taken, self.held) = (epoch, taken, Held::default());
    }

    pub(super) fn push(&mut self, piece: Piece<S, AXES>) {
        for sample in &piece.samples {
            self.held.weight += sample.weight(self.size, piece.cell);
            self.held.padded = self.held.padded.saturating_add(sample.padded(piece.cell));
        }
        self.pieces.push_back(piece);
    }

    /// Whether there is a whole step, and a sample after it: one that has none may be the last of its epoch.
    pub(super) fn holds_more_than_a_step(&self) -> bool {
        let last = self.pieces.back().and_then(|piece| Some(piece.samples.last()?.weight(self.size, piece.cell)));
        match self.size.end(self.taken) {
            Some(end) => last.is_some_and(|last| self.taken + self.held.weight - last >= end) || self.is_beyond_room(),
            None => self.pieces.len() > 1,
        }
    }

    /// Whether the pieces are more than a step has room for.
    fn is_beyond_room(&self) -> bool {
        self.room < self.held.padded && 1 < self.pieces.iter().map(|it| it.samples.len()).sum::<usize>()
    }

    /// Takes the next step, or what there is of it.
    pub(super) fn take_step(&mut self) -> PlannedStep<AXES> {
        let start = self.taken;
        let end = self.size.end(start);
        let (mut batches, mut padded) = (Vec::new(), 0);
        while let Some(piece) = self.pieces.pop_front() {
            let n = piece.samples.len();
            let batch = self.cut(piece, end, &mut padded);
            let is_cut = batch.ids.len() < n;
            if !batch.ids.is_empty() {
                batches.push(batch);
            }
            if is_cut || end.is_none_or(|end| end <= self.taken) {
                break;
            }
        }
        batches.sort_by_key(|batch| Reverse(batch.padded()));
        PlannedStep { epoch: self.epoch, span: start..self.taken, batches, ends_epoch: false }
    }

    /// Takes a piece up to the step's end, or as far as there is room; the rest of it begins the next step.
    ///
    /// A step that is a batch is as large as its rule says, whatever the room.
    fn cut(&mut self, mut piece: Piece<S, AXES>, end: Option<u64>, padded: &mut u64) -> StepBatch<AXES> {
        let mut n = 0;
        for sample in &piece.samples {
            let with = padded.saturating_add(sample.padded(piece.cell));
            let is_room = with <= self.room || *padded == 0;
            if end.is_some_and(|end| end <= self.taken || !is_room) {
                break;
            }
            let weight = sample.weight(self.size, piece.cell);
            self.held.padded = self.held.padded.saturating_sub(with - *padded);
            self.held.weight -= weight;
            (n, *padded, self.taken) = (n + 1, with, self.taken + weight);
        }
        let (rest, cell) = (piece.samples.split_off(n), piece.cell);
        if !rest.is_empty() {
            self.pieces.push_front(Piece { samples: rest, cell });
        }
        StepBatch { ids: piece.samples.iter().map(Waiting::id).collect(), cell }
    }
}
