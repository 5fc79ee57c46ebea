//! What holds where a step that runs out of memory is the end of the process.

use plimsoll_finder::{FinderConfig, Limit};
use plimsoll_types::{Bytes, Fraction};
use proptest::prelude::*;

use crate::device::Device;
use crate::random::{config, device};

proptest! {
    #[test]
    fn only_the_smallest_batch_of_all_can_fail(config in config(), device in device(), small in 0.34..4.0) {
        // A path that needs up to three times as much as the other is what the bounds allow for.
        let device = Device { small, tells: false, ..device };
        let config = FinderConfig { survives: false, ..config };
        let (tried, found) = device.search(&config);
        prop_assert_eq!((tried[0].batch, tried[0].upper), (config.batch_min, None));
        let budget = device.capacity.scale(config.target);
        for it in &tried[1..] {
            let is_certain = it.upper.is_some_and(|upper| it.peak <= upper && upper <= budget);
            prop_assert!(is_certain, "{:?}", tried);
        }
        prop_assert_eq!(found.is_ok(), device.peak(config.batch_min) <= budget);
    }

    #[test]
    fn more_capacity_never_gives_an_answer_that_is_two_per_cent_smaller(device in device(), more in 0u64..1 << 24) {
        let config = FinderConfig { max_trials: 100, batch_reduction: Fraction::ZERO, ..FinderConfig::default() };
        let device = Device { small_batch: 0, ..device };
        let larger = Device { capacity: device.capacity.saturating_add(Bytes(more)), ..device.clone() };
        let found = |device: &Device| device.search(&config).1.map_or(0, |it| it.batch);
        let (less, more) = (found(&device), found(&larger));
        prop_assert!(less <= more + more / 50, "{} and {}", less, more);
    }
}

#[test]
fn a_batch_that_no_bound_reaches_is_named_as_the_reason() {
    let config = FinderConfig { batch_reduction: Fraction::ZERO, ..FinderConfig::default() };
    let instants = vec![(4 << 20, 1 << 18)];
    let capacity = Bytes::mib(8);
    let device = Device { resident: 0, instants, small_batch: 4, small: 1.0, capacity, tells: false };
    let found = device.search(&config).1.unwrap();
    assert_eq!((found.largest, found.limit), (1, Limit::Bound));
}
