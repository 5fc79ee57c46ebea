//! What holds for every device on which a failure is survived.

use plimsoll_finder::FinderConfig;
use plimsoll_types::{Bytes, Fraction};
use proptest::prelude::*;

use crate::device::Device;

/// Shares in sixty-fourths, which a text holds exactly.
pub(crate) fn config() -> impl Strategy<Value = FinderConfig> {
    let share = |it: u8| Fraction::try_new(f64::from(it) / 64.0).unwrap();
    (1u32..8, 0u32..3000, 1u32..8, 32u8..=64, 0u8..12, any::<bool>()).prop_map(
        move |(batch_min, more, max_trials, target, reduction, survives)| FinderConfig {
            batch_min,
            batch_max: batch_min + more,
            max_trials,
            target: share(target),
            batch_reduction: share(reduction),
            survives,
            ..FinderConfig::default()
        },
    )
}

pub(crate) fn device() -> impl Strategy<Value = Device> {
    let instants = prop::collection::vec((0u64..1 << 20, 1u64..1 << 16), 1..4);
    let capacity = (1u64..1 << 26).prop_map(Bytes);
    (0u64..1 << 24, instants, 0u32..6, 0.25..4.0, capacity, any::<bool>()).prop_map(
        |(resident, instants, small_batch, small, capacity, tells)| Device {
            resident,
            instants,
            small_batch,
            small,
            capacity,
            tells,
        },
    )
}

proptest! {
    #[test]
    fn every_bound_holds_and_the_answer_is_certain(config in config(), device in device()) {
        let config = FinderConfig { survives: true, ..config };
        let (tried, found) = device.search(&config);
        let budget = device.capacity.scale(config.target);
        let n_first = if config.batch_min <= device.small_batch { 2 } else { 1 };
        prop_assert!(tried.len() <= (config.max_trials as usize).max(n_first), "{:?}", tried);
        prop_assert!(tried.iter().all(|it| it.upper.is_none_or(|upper| it.peak <= upper)), "{:?}", tried);
        let is_first = |batch| batch == config.batch_min || batch == device.small_batch + 1;
        let most = Bytes(device.capacity.0 + device.capacity.0.div_ceil(2));
        prop_assert!(tried.iter().all(|it| is_first(it.batch) || it.upper.is_some_and(|it| it <= most)), "{:?}", tried);
        let batches: std::collections::BTreeSet<_> = tried.iter().map(|it| it.batch).collect();
        prop_assert_eq!(batches.len(), tried.len(), "no batch is tried twice: {:?}", tried);
        if let Ok(found) = found {
            prop_assert!(device.peak(found.largest) <= found.upper && found.upper <= budget);
            prop_assert!((config.batch_min..=config.batch_max).contains(&found.batch) && found.batch <= found.largest);
            prop_assert!(Bytes::ZERO < found.per_sample && found.n_trials as usize == tried.len());
            let n_above = tried.iter().filter(|it| device.capacity < it.peak).count();
            prop_assert_eq!(found.n_out_of_memory as usize, n_above);
        }
    }

    #[test]
    fn an_answer_is_found_wherever_the_smallest_batch_of_a_path_fits(config in config(), device in device()) {
        let config = FinderConfig { survives: true, ..config };
        let above = config.batch_min.max(device.small_batch + 1);
        let budget = device.capacity.scale(config.target);
        let fits = |batch| batch <= config.batch_max && device.peak(batch) <= budget;
        let (_, found) = device.search(&config);
        prop_assert_eq!(found.is_ok(), fits(config.batch_min) || fits(above));
    }
}
