//! What holds for every device, and for every bound and plan, however absurd.

use plimsoll_types::{Fraction, Prediction};
use proptest::prelude::*;

use super::*;

/// A device whose steps need the most of some `constant + slope · batch`, in bytes, and nobody knows it.
#[derive(Clone, Debug)]
struct Device {
    resident: u64,
    instants: Vec<(u64, u64)>,
}

impl Device {
    fn peak(&self, batch: u32) -> Bytes {
        let at = |(constant, slope): &(u64, u64)| constant + slope * u64::from(batch);
        Bytes(self.resident + self.instants.iter().map(at).max().unwrap_or_default())
    }

    fn step(&self, batch: u32, capacity: Bytes) -> Outcome {
        let (resident, peak) = (Bytes(self.resident), self.peak(batch));
        if peak <= capacity { Outcome::Fitted { resident, peak } } else { Outcome::OutOfMemory }
    }
}

/// Returns the bound of a fixed program: a larger batch needs at most proportionally more than any that ran.
fn bound(trials: &[Trial], shape: StepShape) -> Option<Prediction> {
    let scaled = |it: &Trial| {
        let need = it.peak.saturating_sub(it.resident).0;
        let samples = u64::from(shape.samples.max(it.batch));
        it.resident.saturating_add(Bytes((need * samples).div_ceil(u64::from(it.batch))))
    };
    let upper = trials.iter().map(scaled).min()?;
    Some(Prediction { expected: upper, upper })
}

/// The batches that were tried, each with its upper bound.
type Tried = Vec<(u32, Option<Bytes>)>;

/// Searches to the end.
fn probe(finder: &mut Finder, step: &mut dyn FnMut(u32) -> Outcome) -> Result<(Tried, Found), PolicyError> {
    let mut tried = vec![];
    loop {
        let trials = finder.trials.clone();
        match finder.search(Source::Probe(&|shape| bound(&trials, shape)))? {
            Search::Try { batch, upper } => {
                tried.push((batch, upper));
                finder.on_trial(batch, step(batch)).unwrap();
            }
            Search::Found(found) => return Ok((tried, found)),
        }
    }
}

fn config() -> impl Strategy<Value = FinderConfig> {
    // Sixty-fourths, which a text holds exactly.
    let share = |it: u8| Fraction::try_new(f64::from(it) / 64.0).unwrap();
    (1u32..5, 0u32..3000, 1u32..6, 32u8..=64, 0u8..12).prop_map(
        move |(batch_min, more, max_trials, target, reduction)| FinderConfig {
            batch_min,
            batch_max: batch_min + more,
            max_trials,
            target: share(target),
            batch_reduction: share(reduction),
            ..FinderConfig::default()
        },
    )
}

fn device() -> impl Strategy<Value = Device> {
    let instant = (0u64..1 << 20, 1u64..1 << 16);
    (0u64..1 << 24, prop::collection::vec(instant, 1..4)).prop_map(|(resident, instants)| Device { resident, instants })
}

fn find(config: &FinderConfig, device: &Device, capacity: Bytes) -> Result<Found, PolicyError> {
    let mut finder = Finder::try_new(config.clone(), capacity)?;
    probe(&mut finder, &mut |batch| device.step(batch, capacity)).map(|(_, found)| found)
}

proptest! {
    #[test]
    fn no_trial_has_a_bound_above_the_budget_and_the_answer_is_certified(
        config in config(), device in device(), capacity in (1u64..1 << 26).prop_map(Bytes),
    ) {
        let mut finder = Finder::try_new(config.clone(), capacity).unwrap();
        let budget = finder.budget();
        let smallest = device.peak(config.batch_min);
        let result = probe(&mut finder, &mut |batch| device.step(batch, capacity));
        prop_assert_eq!(result.is_ok(), smallest <= budget);
        if let Ok((tried, found)) = result {
            prop_assert!(tried.len() <= config.max_trials as usize);
            prop_assert_eq!(tried[0], (config.batch_min, None));
            prop_assert!(tried.windows(2).all(|pair| pair[0].0 < pair[1].0), "{:?}", tried);
            prop_assert!(tried[1..].iter().all(|it| it.1.is_some_and(|upper| upper <= budget)), "{:?}", tried);
            prop_assert!(device.peak(found.largest) <= found.upper && found.upper <= budget);
            prop_assert!((config.batch_min..=config.batch_max).contains(&found.largest));
            prop_assert_eq!(found.batch, config.reduced(found.largest));
            prop_assert_eq!((found.n_out_of_memory, found.n_trials as usize), (0, tried.len()));
        }
    }

    #[test]
    fn more_capacity_never_gives_a_smaller_answer(
        config in config(), device in device(), less in 1u64..1 << 26, more in 0u64..1 << 24,
    ) {
        let found = |capacity| find(&config, &device, Bytes(capacity)).map_or(0, |it| it.batch);
        prop_assert!(found(less) <= found(less + more));
    }

    #[test]
    fn noise_that_is_allowed_for_never_leads_out_of_memory(
        device in device(), capacity in 1u64..1 << 26, wobble in prop::collection::vec(-0.02..=0.02, 6),
    ) {
        let noise = Fraction::try_new(0.02).unwrap();
        let config = FinderConfig { noise, target: Fraction::ONE, batch_max: 3000, ..FinderConfig::default() };
        let capacity = Bytes(capacity);
        let resident = Bytes(device.resident);
        let need = |batch: u32| device.peak(batch).saturating_sub(resident).as_f64();
        let mut wobble = wobble.into_iter();
        let mut step = |batch| {
            let factor: f64 = 1.0 + wobble.next().unwrap();
            let wobbly = Bytes::from_f64_ceil((need(batch) * factor).floor());
            let peak = resident.saturating_add(wobbly.max(Bytes(1)));
            if capacity < peak { Outcome::OutOfMemory } else { Outcome::Fitted { resident, peak } }
        };
        let mut finder = Finder::try_new(config, capacity).unwrap();
        if let Ok((_, found)) = probe(&mut finder, &mut step) {
            prop_assert_eq!(found.n_out_of_memory, 0);
            let worst = resident.as_f64() + need(found.largest) * 1.02;
            prop_assert!(found.largest == 1 || worst <= capacity.as_f64());
        }
    }

    #[test]
    fn a_plan_with_pages_held_back_is_filled_in_three_steps(
        slope in 1u64..1 << 16, constant in 0u64..1 << 20, n_pages in 3u64..40, held in 0u64..3, extra in 0u64..1 << 20,
        capacity in 1u64..1 << 26,
    ) {
        let (max_held_pages, target, batch_max) = (2, Fraction::ONE, 3000);
        let config = FinderConfig { batch_max, target, max_held_pages, ..FinderConfig::default() };
        let plan = |shape: StepShape| {
            let page = (slope * u64::from(shape.samples)).div_ceil(n_pages) + constant.div_ceil(n_pages);
            Some(Planned { reserved: Bytes(page * n_pages), page: Bytes(page) })
        };
        let real = |batch| {
            let Planned { reserved, page } = plan(StepShape::new(batch, 1)).unwrap();
            Bytes(reserved.0 + held * page.0 + extra)
        };
        let mut finder = Finder::try_new(config.clone(), Bytes(capacity)).unwrap();
        let mut n_steps = 0;
        let found = loop {
            match finder.search(Source::Plan(&plan)) {
                Ok(Search::Try { batch, .. }) => {
                    n_steps += 1;
                    let fits = real(batch) <= Bytes(capacity);
                    prop_assert!(fits || batch == 1, "{batch}");
                    let fitted = Outcome::Fitted { resident: Bytes(0), peak: real(batch) };
                    finder.on_trial(batch, if fits { fitted } else { Outcome::OutOfMemory }).unwrap();
                }
                Ok(Search::Found(found)) => break found,
                Err(_) => {
                    prop_assert!(Bytes(capacity) < real(1));
                    return Ok(());
                }
            }
        };
        prop_assert!(n_steps <= 3);
        prop_assert!(real(found.largest) <= Bytes(capacity));
        // Two batches that ran tell pages from bytes, as soon as their pages differ by more than what is left open.
        let next = found.largest + 1;
        prop_assert!(n_steps < 3 || next > config.batch_max || Bytes(capacity) < real(next), "{found:?}");
    }

    #[test]
    fn absurd_bounds_plans_and_outcomes_end_all_the_same(
        config in config(), capacity in 1u64..1000, sizes in prop::collection::vec(prop::option::of(0u64..1500), 1..40),
        outcomes in prop::collection::vec((0u64..1000, 1u64..1000, prop::bool::weighted(0.1)), 8),
        planned in any::<bool>(),
    ) {
        let mut finder = Finder::try_new(config.clone(), Bytes(capacity)).unwrap();
        let size = |shape: StepShape| sizes[shape.samples as usize % sizes.len()].map(Bytes);
        let plan = |shape| size(shape).map(|reserved| Planned { reserved, page: Bytes(reserved.0 / 7) });
        let predict = |shape| size(shape).map(|upper| Prediction { expected: upper, upper });
        let source = if planned { Source::Plan(&plan) } else { Source::Probe(&predict) };
        for (resident, need, fails) in outcomes {
            let saved = serde_json::to_string(&finder).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Finder>(&saved).unwrap(), &finder);
            match finder.search(source) {
                Ok(Search::Try { batch, .. }) => {
                    let fitted = Outcome::Fitted { resident: Bytes(resident), peak: Bytes(resident + need) };
                    finder.on_trial(batch, if fails { Outcome::OutOfMemory } else { fitted }).unwrap();
                }
                Ok(Search::Found(found)) => {
                    prop_assert!((config.batch_min..=config.batch_max).contains(&found.batch), "{found:?}");
                    prop_assert!(found.upper <= found.budget, "{found:?}");
                    return Ok(());
                }
                Err(_) => return Ok(()),
            }
        }
        prop_assert!(false, "five trials are the most");
    }
}

fn finder(capacity: Bytes) -> Finder {
    let config = FinderConfig { edge: 8, target: Fraction::ONE, ..FinderConfig::default() };
    Finder::try_new(config, capacity).unwrap()
}

#[test]
fn a_smallest_batch_that_does_not_fit_is_an_error_with_both_sizes() {
    let message = "find a batch size: the smallest batch, 1 × 8, needs at least 1000 B, and 999 B may be used";
    let planned = Planned { reserved: Bytes(1000), page: Bytes(0) };
    let error = finder(Bytes(999)).search(Source::Plan(&|_| Some(planned))).unwrap_err();
    assert_eq!(error.to_string(), message);
    let mut failed = finder(Bytes(999));
    failed.on_trial(1, Outcome::OutOfMemory).unwrap();
    assert_eq!(failed.search(Source::Probe(&|_| None)).unwrap_err().to_string(), message);
    let error = finder(Bytes(999)).search(Source::Plan(&|_| None)).unwrap_err();
    assert_eq!(error.to_string(), "find a batch size: a dry run of the smallest batch, 1 × 8, fails");
}

#[test]
fn a_trial_that_says_nothing_is_refused() {
    let mut finder = finder(Bytes(999));
    let nothing = Outcome::Fitted { resident: Bytes(7), peak: Bytes(7) };
    let error = finder.on_trial(1, nothing).unwrap_err();
    assert_eq!(error.to_string(), "peak is 7 B, allowed is any size above the resident 7 B");
    assert_eq!(finder.on_trial(0, nothing).unwrap_err().to_string(), "batch is 0, allowed is 1 to 4096");
    assert!(Finder::try_new(FinderConfig::default(), Bytes::ZERO).is_err());
    assert_eq!(finder.search(Source::Probe(&|_| None)), Ok(Search::Try { batch: 1, upper: None }));
}

#[test]
fn a_bound_that_fails_leaves_the_largest_batch_that_ran() {
    let mut finder = finder(Bytes(999));
    let fitted = |peak| Outcome::Fitted { resident: Bytes(100), peak: Bytes(peak) };
    finder.on_trial(1, fitted(200)).unwrap();
    finder.on_trial(5, fitted(300)).unwrap();
    finder.on_trial(50, Outcome::OutOfMemory).unwrap();
    let Ok(Search::Found(found)) = finder.search(Source::Probe(&|_| None)) else { panic!("the search is over") };
    assert_eq!((found.largest, found.upper, found.stop), (5, Bytes(300), Stop::OutOfMemory));
    assert_eq!((found.n_trials, found.n_out_of_memory), (3, 1));
}

#[test]
fn the_answer_says_what_was_measured() {
    let mut finder = finder(Bytes(999));
    finder.on_trial(1, Outcome::Fitted { resident: Bytes(100), peak: Bytes(200) }).unwrap();
    finder.on_trial(5, Outcome::Fitted { resident: Bytes(110), peak: Bytes(500) }).unwrap();
    let Ok(Search::Found(found)) = finder.search(Source::Probe(&|_| None)) else { panic!("the search is over") };
    assert_eq!((found.start, found.peak, found.current), (Bytes(100), Bytes(500), Bytes(110)));
    assert_eq!((found.per_sample, found.stop), (Bytes(75), Stop::NothingCertified));
}
