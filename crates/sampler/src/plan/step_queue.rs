//! Cutting batches into steps.

use std::cmp::Reverse;
use std::collections::VecDeque;

use super::step::{PlannedStep, StepBatch, StepSize};

/// A sample that waits for its step.
pub(super) trait Waiting<const AXES: usize> {
    fn id(&self) -> u64;

    /// What it counts for in a batch that is padded to this cell.
    fn weight(&self, size: StepSize, cell: [u32; AXES]) -> u64;
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
    pub(super) epoch: u64,
    /// What the epoch's steps have taken.
    pub(super) taken: u64,
    pub(super) pieces: VecDeque<Piece<S, AXES>>,
    /// What the pieces hold.
    held: u64,
}

impl<S: Waiting<AXES>, const AXES: usize> StepQueue<S, AXES> {
    pub(super) const fn new(size: StepSize, epoch: u64, taken: u64) -> Self {
        Self { size, epoch, taken, pieces: VecDeque::new(), held: 0 }
    }

    pub(super) fn push(&mut self, piece: Piece<S, AXES>) {
        self.held += piece.samples.iter().map(|sample| sample.weight(self.size, piece.cell)).sum::<u64>();
        self.pieces.push_back(piece);
    }

    /// Whether there is a whole step, and a sample after it: one that has none may be the last of its epoch.
    pub(super) fn holds_more_than_a_step(&self) -> bool {
        let last = self.pieces.back().and_then(|piece| Some(piece.samples.last()?.weight(self.size, piece.cell)));
        match self.size.end(self.taken) {
            Some(end) => last.is_some_and(|last| self.taken + self.held - last >= end),
            None => self.pieces.len() > 1,
        }
    }

    /// Takes the next step, or what there is of it.
    pub(super) fn take_step(&mut self) -> PlannedStep<AXES> {
        let start = self.taken;
        let end = self.size.end(start);
        let mut batches = Vec::new();
        while let Some(piece) = self.pieces.pop_front() {
            batches.push(self.cut(piece, end));
            if end.is_none_or(|end| end <= self.taken) {
                break;
            }
        }
        batches.sort_by_key(|batch| Reverse(batch.padded()));
        PlannedStep { epoch: self.epoch, span: start..self.taken, batches, ends_epoch: false }
    }

    /// Takes a piece up to the step's end; the rest of it begins the next step.
    fn cut(&mut self, mut piece: Piece<S, AXES>, end: Option<u64>) -> StepBatch<AXES> {
        let mut weights = piece.samples.iter().map(|sample| sample.weight(self.size, piece.cell));
        let (mut n, mut taken) = (0, self.taken);
        while end.is_none_or(|end| taken < end)
            && let Some(weight) = weights.next()
        {
            (n, taken) = (n + 1, taken + weight);
        }
        self.held -= taken - self.taken;
        self.taken = taken;
        let (rest, cell) = (piece.samples.split_off(n), piece.cell);
        if !rest.is_empty() {
            self.pieces.push_front(Piece { samples: rest, cell });
        }
        StepBatch { ids: piece.samples.iter().map(Waiting::id).collect(), cell }
    }
}
