//! Rows without padding.

use super::super::reference::{Filled, shuffled};
use crate::finder::Random;

/// Samples that axolotl packs at a time: its default.
const GROUP: usize = 100_000;

/// Puts each sample, the longest first, into the first row that has room.
pub(super) fn first_fit_decreasing(lengths: &[Vec<u32>; 1], [row_len]: [u64; 1], epoch: u64) -> Filled {
    let ids = longest_first(&lengths[0], epoch);
    let mut rows = Vec::new();
    fit_first(&ids, &lengths[0], row_len, &mut rows);
    Filled::of(rows.iter().map(Vec::as_slice))
}

/// Puts each sample of a group in random order into the first row that has room.
pub(super) fn first_fit(lengths: &[Vec<u32>; 1], [row_len]: [u64; 1], epoch: u64) -> Filled {
    let mut rows = Vec::new();
    for group in shuffled(lengths[0].len(), &mut Random::new(epoch)).chunks(GROUP) {
        fit_first(group, &lengths[0], row_len, &mut rows);
    }
    Filled::of(rows.iter().map(Vec::as_slice))
}

/// Puts each sample, the longest first, into the fullest row that has room.
pub(super) fn best_fit_decreasing(lengths: &[Vec<u32>; 1], [row_len]: [u64; 1], epoch: u64) -> Filled {
    let most = usize::try_from(row_len).unwrap_or(usize::MAX);
    // The rows with so much room, the last one first.
    let mut with_room: Vec<Vec<usize>> = vec![Vec::new(); most + 1];
    let mut tree = Most::new(most + 1);
    let mut rows: Vec<Vec<u32>> = Vec::new();
    for id in longest_first(&lengths[0], epoch) {
        let length = lengths[0][id as usize] as usize;
        let (row, room) = if let Some(room) = tree.first_from(length, 1) {
            let row = with_room[room].pop().unwrap_or_default();
            tree.set(room, u64::from(!with_room[room].is_empty()));
            (row, room)
        } else {
            rows.push(Vec::new());
            (rows.len() - 1, most)
        };
        rows[row].push(id);
        with_room[room - length].push(row);
        tree.set(room - length, 1);
    }
    Filled::of(rows.iter().map(Vec::as_slice))
}

/// The samples from the longest to the shortest, those of one length in random order.
fn longest_first(lengths: &[u32], epoch: u64) -> Vec<u32> {
    let mut ids = shuffled(lengths.len(), &mut Random::new(epoch));
    ids.sort_by_key(|id| std::cmp::Reverse(lengths[*id as usize]));
    ids
}

/// Appends rows of these samples.
fn fit_first(ids: &[u32], lengths: &[u32], row_len: u64, rows: &mut Vec<Vec<u32>>) {
    let first = rows.len();
    // No row is emptier than one that does not exist yet.
    let mut room = Most::new(ids.len());
    (0..ids.len()).for_each(|at| room.set(at, row_len));
    for id in ids {
        let length = u64::from(lengths[*id as usize]);
        let Some(at) = room.first_from(0, length) else { continue };
        if first + at == rows.len() {
            rows.push(Vec::new());
        }
        rows[first + at].push(*id);
        room.set(at, room.get(at) - length);
    }
}

/// Numbers, and the greatest of each pair, of each four, and so on.
struct Most {
    /// The greatest of all is at 1, those of its halves at 2 and 3, and the numbers from `n` on.
    tree: Vec<u64>,
    n: usize,
}

impl Most {
    fn new(n: usize) -> Self {
        let n = n.next_power_of_two();
        Self { tree: vec![0; 2 * n], n }
    }

    fn get(&self, at: usize) -> u64 {
        self.tree[self.n + at]
    }

    fn set(&mut self, at: usize, value: u64) {
        let mut at = self.n + at;
        self.tree[at] = value;
        while at > 1 {
            at /= 2;
            self.tree[at] = self.tree[2 * at].max(self.tree[2 * at + 1]);
        }
    }

    /// The first place from `start` on whose number is at least this.
    fn first_from(&self, start: usize, least: u64) -> Option<usize> {
        let mut at = self.n + start;
        // Up, until something to the right has it.
        while self.tree[at] < least {
            while at % 2 == 1 {
                at /= 2;
            }
            if at == 0 {
                return None;
            }
            at += 1;
        }
        while at < self.n {
            at *= 2;
            if self.tree[at] < least {
                at += 1;
            }
        }
        Some(at - self.n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_several_is_found() {
        let mut most = Most::new(5);
        for (at, value) in [3, 1, 4, 1, 5].into_iter().enumerate() {
            most.set(at, value);
        }
        assert_eq!([1, 2, 4, 5, 6].map(|least| most.first_from(0, least)), [Some(0), Some(0), Some(2), Some(4), None]);
        assert_eq!([1, 2].map(|least| most.first_from(1, least)), [Some(1), Some(2)]);
        assert_eq!([most.first_from(3, 2), most.first_from(5, 1)], [Some(4), None]);
    }

    #[test]
    fn the_longest_come_first_and_gaps_are_filled() {
        let lengths = [vec![3, 6, 4, 7, 2]];
        let rows = |filled: Filled| {
            let length = |ids: &[u32]| ids.iter().map(|id| lengths[0][*id as usize]).collect::<Vec<_>>();
            filled.iter().map(length).collect::<Vec<_>>()
        };
        assert_eq!(rows(first_fit_decreasing(&lengths, [10], 0)), [vec![7, 3], vec![6, 4], vec![2]]);
        assert_eq!(rows(best_fit_decreasing(&lengths, [10], 0)), [vec![7, 3], vec![6, 4], vec![2]]);
    }

    #[test]
    fn the_fullest_row_need_not_be_the_first() {
        let lengths = [vec![15, 11, 6, 3]];
        let rows = |filled: Filled| filled.iter().map(<[u32]>::to_vec).collect::<Vec<_>>();
        assert_eq!(rows(first_fit_decreasing(&lengths, [20], 0)), [vec![0, 3], vec![1, 2]]);
        assert_eq!(rows(best_fit_decreasing(&lengths, [20], 0)), [vec![0], vec![1, 2, 3]]);
    }
}
