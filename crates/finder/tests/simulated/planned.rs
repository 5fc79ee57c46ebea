//! The search by a plan that lacks what real steps hold besides.

use plimsoll_finder::{Finder, FinderConfig, Found, Limit, Outcome, Search, Source};
use plimsoll_types::{Bytes, Fraction, Prediction, StepShape};
use proptest::prelude::*;

/// A device with pages: planned are `n_pages` of them, and held are so many more.
struct Paged {
    slope: u64,
    constant: u64,
    n_pages: u64,
    held: u64,
}

impl Paged {
    fn page(&self, batch: u32) -> u64 {
        (self.slope * u64::from(batch)).div_ceil(self.n_pages) + self.constant.div_ceil(self.n_pages)
    }

    fn planned(&self, batch: u32) -> u64 {
        self.page(batch) * self.n_pages
    }

    fn real(&self, batch: u32) -> Bytes {
        Bytes(self.planned(batch) + self.held * self.page(batch))
    }

    /// Returns the answer, and the batches that were tried.
    fn search(&self, config: &FinderConfig, capacity: Bytes) -> Option<(Found, Vec<u32>)> {
        let mut finder = Finder::try_new(config.clone(), capacity).unwrap();
        let (mut tried, mut shown) = (Vec::new(), None);
        loop {
            let plan = |shape: StepShape| {
                let (planned, page) = (self.planned(shape.samples), self.page(shape.samples));
                // Until a second batch has run, a page more may be held.
                let upper = planned + page * shown.filter(|_| tried.len() > 1).unwrap_or(1);
                Some(Prediction { expected: Bytes(planned), upper: Bytes(upper) })
            };
            match finder.search(Source::Plan(&plan)) {
                Ok(Search::Try { batch, .. }) => {
                    tried.push(batch);
                    let peak = self.real(batch);
                    let measured = Outcome::Measured { resident: Bytes::ZERO, peak };
                    finder.on_trial(batch, if peak <= capacity { measured } else { Outcome::OutOfMemory }).unwrap();
                    shown = Some(self.held);
                }
                Ok(Search::Found(found)) => return Some((found, tried)),
                Err(_) => return None,
            }
        }
    }
}

fn config() -> FinderConfig {
    let (target, batch_reduction) = (Fraction::ONE, Fraction::ZERO);
    FinderConfig { batch_max: 3000, target, batch_reduction, ..FinderConfig::default() }
}

proptest! {
    #[test]
    fn a_plan_with_pages_held_back_is_filled_in_three_steps(
        slope in 1u64..1 << 16, constant in 0u64..1 << 20, n_pages in 3u64..40, held in 0u64..2, capacity in 1u64..1 << 26,
    ) {
        let (device, capacity) = (Paged { slope, constant, n_pages, held }, Bytes(capacity));
        if let Some((found, tried)) = device.search(&config(), capacity) {
            prop_assert!(tried.len() <= 3);
            prop_assert!(tried.iter().all(|it| device.real(*it) <= capacity), "{:?}", tried);
            let next = found.largest + 1;
            // Two batches that ran tell the page.
            prop_assert!(tried.len() < 3 || next > 3000 || capacity < device.real(next), "{found:?}");
        } else {
            prop_assert!(capacity < device.real(1));
        }
    }
}

/// Searches where real steps need twice what is planned, and nobody says so; returns the answer, and what was tried.
fn twice_the_plan(max_trials: u32, budget: u64) -> (Found, Vec<u32>) {
    let config = FinderConfig { max_trials, ..config() };
    let (mut finder, mut tried) = (Finder::try_new(config, Bytes(budget)).unwrap(), Vec::new());
    let plan = |shape: StepShape| {
        let planned = Bytes(u64::from(shape.samples));
        Some(Prediction { expected: planned, upper: planned })
    };
    loop {
        match finder.search(Source::Plan(&plan)).unwrap() {
            Search::Found(found) => return (found, tried),
            Search::Try { batch, .. } => {
                tried.push(batch);
                let peak = Bytes(2 * u64::from(batch));
                let measured = Outcome::Measured { resident: Bytes::ZERO, peak };
                finder.on_trial(batch, if peak <= Bytes(budget) { measured } else { Outcome::OutOfMemory }).unwrap();
            }
        }
    }
}

#[test]
fn what_the_plan_did_not_foresee_is_halved_with_the_trials_that_are_left() {
    let (found, tried) = twice_the_plan(FinderConfig::default().max_trials, 1000);
    assert_eq!(tried, [1, 1000, 500, 750, 625, 562]);
    assert_eq!((found.largest, found.is_measured, found.n_out_of_memory), (500, true, 4));
    assert_eq!(found.limit, Limit::Trials, "up to 561 may fit");
}

#[test]
fn a_search_that_ends_with_its_trials_says_so_and_one_that_ends_at_the_budget_does_too() {
    let (found, tried) = twice_the_plan(2, 100);
    assert_eq!((tried, found.largest, found.limit), (vec![1, 100], 1, Limit::Trials));
    let (found, tried) = twice_the_plan(12, 100);
    assert_eq!((tried, found.largest, found.limit), (vec![1, 100, 50, 75, 62, 56, 53, 51], 50, Limit::Memory));
    let (found, tried) = twice_the_plan(7, 100);
    assert_eq!((tried.len(), found.largest, found.limit), (7, 50, Limit::Trials));
}

#[test]
fn a_plan_that_fails_or_exceeds_the_budget_costs_no_step() {
    let finder = Finder::try_new(FinderConfig { extent: 8.into(), ..config() }, Bytes(999)).unwrap();
    let planned = Prediction { expected: Bytes(1000), upper: Bytes(1200) };
    let error = finder.search(Source::Plan(&|_| Some(planned))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "find a batch size: the smallest batch, 1 × 8, is planned to need 1000 B, and 999 B may be used"
    );
    let error = finder.search(Source::Plan(&|_| None)).unwrap_err();
    assert_eq!(error.to_string(), "find a batch size: a dry run of the smallest batch, 1 × 8, fails");
    let all = Prediction { expected: Bytes(1), upper: Bytes(1) };
    let mut finder = Finder::try_new(FinderConfig { batch_max: 1, ..config() }, Bytes(999)).unwrap();
    finder.on_trial(1, Outcome::Measured { resident: Bytes::ZERO, peak: Bytes(7) }).unwrap();
    let Ok(Search::Found(found)) = finder.search(Source::Plan(&|_| Some(all))) else { panic!("it is over") };
    assert_eq!(found.limit, Limit::BatchMax);
}
