//! When a need that moves is news: then every bound of its key is worked out anew.

use plimsoll_types::Bytes;

/// A need that counts for this part more than it is makes no bound larger by more than that part; equal steps of Flex differ by
/// less than half of it, but for few.
const NEGLIGIBLE: f64 = 1.0 / 1024.0;

/// Returns what a need counts as that is `now` so much, and that `counted` as so much so far.
///
/// It never counts for less than it is, and for at most a part of [`NEGLIGIBLE`] more; one that trembles upwards gets half of
/// that as room, so that it counts for the same however long it trembles.
pub(crate) fn recounted(counted: Bytes, now: Bytes) -> Bytes {
    let is_near = |less: Bytes, more: Bytes| more.as_f64() <= less.as_f64() * (1.0 + NEGLIGIBLE);
    if now <= counted {
        return if is_near(now, counted) { counted } else { now };
    }
    let room = if is_near(counted, now) { NEGLIGIBLE / 2.0 } else { 0.0 };
    Bytes::from_f64_ceil(now.as_f64() * (1.0 + room)).max(now)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_need_that_trembles_is_news_once_and_one_that_moves_is_what_it_is() {
        let counted = [1_000_000, 1_000_040, 1_000_400, 1_000_500, 1_000_000, 999_600, 999_000, 1_100_000].map(Bytes);
        let counted = counted.into_iter().scan(Bytes(1_000_000), |counted, now| {
            *counted = recounted(*counted, now);
            Some(counted.0)
        });
        let room = 1_000_529;
        assert_eq!(counted.collect::<Vec<_>>(), [1_000_000, room, room, room, room, room, 999_000, 1_100_000]);
    }

    proptest! {
        #[test]
        fn a_need_counts_for_no_less_than_it_is_and_for_at_most_a_thousandth_more(needs in prop::collection::vec(any::<u64>(), 1..20)) {
            let mut counted = Bytes(needs[0]);
            for now in needs.into_iter().map(Bytes) {
                counted = recounted(counted, now);
                prop_assert!(now <= counted && counted.as_f64() <= now.as_f64() * 1.001 + 1.0, "{now}: {counted}");
            }
        }
    }
}
