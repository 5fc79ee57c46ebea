//! Packed rows of random configurations.

use std::iter;

use plimsoll_sampler::{PackBudget, PackConfig, PackPlanner, PackedEpoch, PackedRows, SampleIndex, Split};

use super::{N_CASES, below, hold};
use crate::common::Numbers;
use crate::pack::{check_whole, pieces};

#[derive(Debug)]
struct Case {
    lengths: Vec<u32>,
    config: PackConfig,
    overlap: u32,
    budget: PackBudget,
}

fn case(seed: u64) -> Case {
    let mut numbers = Numbers::new(seed.wrapping_mul(0x9e37_79b9));
    let (n, longest) = (1 + below(&mut numbers, 60), 1 + below(&mut numbers, 80));
    let lengths = (0..n).map(|_| 1 + below(&mut numbers, longest)).collect();
    let row_len = 1 + below(&mut numbers, 60);
    let piece = 1 + below(&mut numbers, row_len);
    let row_squares =
        (below(&mut numbers, 2) == 0).then(|| u64::from(piece).pow(2) + u64::from(below(&mut numbers, 9)));
    let overlap = below(&mut numbers, piece);
    let window = (below(&mut numbers, 2) == 0).then(|| 1 + below(&mut numbers, 40) as usize);
    let squares = row_squares.unwrap_or(u64::from(row_len).pow(2)) + u64::from(below(&mut numbers, 4_000));
    let config = PackConfig { row_len, row_squares, split: Split::Cut { overlap }, seed, window };
    Case { lengths, config, overlap, budget: PackBudget { rows: 1 + below(&mut numbers, 5), squares } }
}

impl Case {
    #[track_caller]
    fn check(&self) {
        let index = SampleIndex::try_new([self.lengths.clone()]).unwrap();
        let planner = PackPlanner::try_new(index, self.config).unwrap();
        let start = || planner.epoch(self.config.seed % 3);
        let batches: Vec<_> = self.rest(start()).collect();
        for rows in &batches {
            self.check_rows(rows);
        }
        let mut all: Vec<_> = batches.iter().flat_map(pieces).collect();
        all.sort_unstable();
        check_whole(&all, &self.lengths, self.overlap);
        // An epoch that is interrupted somewhere goes on with the same rows.
        let n_before = usize::try_from(self.config.seed).unwrap() % (batches.len() + 1);
        let mut epoch = start();
        (0..n_before).for_each(|_| drop(epoch.next_batch(&self.budget).unwrap()));
        let saved = serde_json::to_string(&epoch.position()).unwrap();
        let resumed = planner.resume(&serde_json::from_str(&saved).unwrap()).unwrap();
        assert!(self.rest(resumed).eq(batches[n_before..].iter().cloned()), "resumed after {n_before} batches");
    }

    fn rest(&self, mut epoch: PackedEpoch) -> impl Iterator<Item = PackedRows> {
        iter::from_fn(move || epoch.next_batch(&self.budget).unwrap())
    }

    /// Rows and batch are within their limits, and the boundaries are where pieces meet.
    #[track_caller]
    fn check_rows(&self, rows: &PackedRows) {
        let square = |row: &[u64]| row.iter().map(|length| length * length).sum::<u64>();
        let (mut squares, mut ends, mut expected) = (0, Vec::new(), vec![0]);
        for (start, row) in (0..).step_by(rows.row_len() as usize).zip(rows.iter()) {
            let lengths: Vec<u64> = row.iter().map(|piece| u64::from(piece.len())).collect();
            assert!(!row.is_empty() && lengths.iter().sum::<u64>() <= u64::from(self.config.row_len), "{row:?}");
            assert!(square(&lengths) <= self.config.row_squares.unwrap_or(u64::MAX), "{row:?}");
            squares += square(&lengths);
            expected.extend(row.iter().scan(start, |end, piece| {
                *end += piece.len();
                Some(*end)
            }));
            // What is left of a row is a segment too.
            expected.push(start + rows.row_len());
            expected.dedup();
        }
        assert!(
            rows.len() <= self.budget.rows as usize && squares <= self.budget.squares,
            "{squares} in {}",
            rows.len()
        );
        rows.cu_seqlens(&mut ends);
        assert_eq!(ends, expected);
        self.check_layout(rows);
    }

    /// Each position knows its place, and attends to its own piece.
    #[track_caller]
    fn check_layout(&self, rows: &PackedRows) {
        let n = rows.row_len() as usize;
        let mut found = vec![u32::MAX; rows.len() * n];
        rows.position_ids(&mut found);
        for (row, of_row) in rows.iter().zip(found.chunks(n)) {
            let own = row.iter().flat_map(|piece| 0..piece.len()).chain(iter::repeat(0)).take(n);
            assert!(own.eq(of_row.iter().copied()), "{row:?}");
        }
        // A mask has as many entries as squares.
        if !self.config.seed.is_multiple_of(16) {
            return;
        }
        for causal in [false, true] {
            let mut mask = vec![true; rows.len() * n * n];
            rows.block_mask(causal, &mut mask);
            for (row, of_row) in rows.iter().zip(mask.chunks(n * n)) {
                let pieces =
                    row.iter().zip(1..).flat_map(|(piece, number)| iter::repeat_n(number, piece.len() as usize));
                let piece_of: Vec<u32> = pieces.chain(iter::repeat(0)).take(n).collect();
                let attends = |query: usize, key: usize| piece_of[query] == piece_of[key] && !(causal && query < key);
                assert!((0..n * n).all(|at| of_row[at] == attends(at / n, at % n)), "{row:?}");
            }
        }
    }
}

#[test]
fn every_packed_epoch_keeps_rows_budget_pieces_boundaries_and_positions() {
    hold(N_CASES, case, Case::check);
}
