//! Pairs of sizes of a bounded number of places.

use std::collections::BTreeMap;

use plimsoll_types::Bytes;

/// Places that are kept at most.
const MOST: usize = 4096;

/// Pairs of what was foreseen and what was measured, each place once.
///
/// Up to 4096 of them are kept as they are. Where there are more, neighbours are joined in squares whose side doubles until
/// they are few enough again, and a square keeps the pair that was measured highest above what was foreseen.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Cloud {
    places: BTreeMap<(u64, u64), (Bytes, Bytes)>,
    /// Bytes of a side, as a power of two.
    side: u32,
}

impl Cloud {
    pub(crate) fn push(&mut self, foreseen: Bytes, measured: Bytes) {
        self.put((foreseen, measured));
        while MOST < self.places.len() {
            self.side += 1;
            let before = std::mem::take(&mut self.places);
            for it in before.into_values() {
                self.put(it);
            }
        }
    }

    fn put(&mut self, pair: (Bytes, Bytes)) {
        let above = |it: &(Bytes, Bytes)| i128::from(it.1.0) - i128::from(it.0.0);
        let kept = self.places.entry((pair.0.0 >> self.side, pair.1.0 >> self.side)).or_insert(pair);
        if above(kept) < above(&pair) {
            *kept = pair;
        }
    }

    /// Returns the pairs, what was foreseen first.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (Bytes, Bytes)> {
        self.places.values().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_pairs_are_few_places_and_what_was_above_its_bound_stays() {
        let mut cloud = Cloud::default();
        for it in 0..200_000u64 {
            cloud.push(Bytes(1_000_000 + it * 7919 % 65_536), Bytes(900_000 + it * 104_729 % 65_536));
        }
        cloud.push(Bytes(1_000_000), Bytes(1_000_003));
        assert!(1024 < cloud.places.len() && cloud.places.len() <= MOST, "{}", cloud.places.len());
        let above: Vec<_> = cloud.pairs().filter(|it| it.0 < it.1).collect();
        assert_eq!(above, [(Bytes(1_000_000), Bytes(1_000_003))]);
    }

    #[test]
    fn few_pairs_are_kept_as_they_are_each_once() {
        let mut cloud = Cloud::default();
        (0..9000).for_each(|it| cloud.push(Bytes(it % 3000), Bytes(7)));
        assert!(cloud.pairs().eq((0..3000).map(|it| (Bytes(it), Bytes(7)))));
    }
}
