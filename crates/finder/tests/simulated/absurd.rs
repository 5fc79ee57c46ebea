//! Bounds, plans and outcomes that contradict one another.

use plimsoll_finder::{Finder, Outcome, Search, Source};
use plimsoll_types::{Bytes, Prediction, StepShape};
use proptest::prelude::*;

use crate::random::config;

proptest! {
    #[test]
    fn absurd_bounds_plans_and_outcomes_end_all_the_same(
        config in config(), small_batch in 0u32..6, capacity in 1u64..1000, planned in any::<bool>(),
        sizes in prop::collection::vec(prop::option::of(0u64..1500), 1..40),
        outcomes in prop::collection::vec((0u64..1000, 1u64..1000, prop::bool::weighted(0.2)), 10),
    ) {
        let config = plimsoll_finder::FinderConfig { small_batch, ..config };
        let mut finder = Finder::try_new(config.clone(), Bytes(capacity)).unwrap();
        let size = |shape: StepShape| sizes[shape.samples as usize % sizes.len()].map(Bytes);
        let bound = |shape| size(shape).map(|upper| Prediction { expected: upper, upper });
        let source = if planned { Source::Plan(&bound) } else { Source::Probe(&bound) };
        for (resident, need, fails) in outcomes {
            let saved = serde_json::to_string(&finder).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Finder>(&saved).unwrap(), &finder);
            match finder.search(source) {
                Ok(Search::Try { batch, .. }) => {
                    prop_assert!((config.batch_min..=config.batch_max).contains(&batch));
                    let measured = Outcome::Measured { resident: Bytes(resident), peak: Bytes(resident + need) };
                    finder.on_trial(batch, if fails { Outcome::OutOfMemory } else { measured }).unwrap();
                }
                Ok(Search::Found(found)) => {
                    prop_assert!((config.batch_min..=config.batch_max).contains(&found.batch), "{found:?}");
                    prop_assert!(found.upper <= found.budget, "{found:?}");
                    return Ok(());
                }
                Err(_) => return Ok(()),
            }
        }
        prop_assert!(false, "eight trials are the most");
    }
}
