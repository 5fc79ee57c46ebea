//! The finder of this project, driven as a rule.

use plimsoll_policy::{Finder, FinderConfig, Outcome as Trial, Search, Source};
use plimsoll_types::{Fraction, Prediction, StepShape};

use super::oracle::{Oracle, Outcome};
use super::paged::PagedBound;

/// With a dry run.
pub(crate) fn planned(oracle: &mut Oracle<'_>) -> u32 {
    let setting = oracle.setting();
    let mut finder = finder(oracle, setting.noise);
    loop {
        let search = finder.search(Source::Plan(&|shape| oracle.plan(shape.samples)));
        match search {
            Ok(Search::Try { batch, .. }) => learn(&mut finder, batch, oracle.step(batch)),
            Ok(Search::Found(found)) => return found.batch,
            Err(_) => return 0,
        }
    }
}

/// Without a dry run.
pub(crate) fn probed(oracle: &mut Oracle<'_>) -> u32 {
    let setting = oracle.setting();
    let mut bound = PagedBound::new(setting.edge, setting.noise);
    // The bound allows for the noise already.
    let mut finder = finder(oracle, Fraction::ZERO);
    loop {
        let predict = |shape: StepShape| bound.upper(shape.samples).map(|upper| Prediction { expected: upper, upper });
        match finder.search(Source::Probe(&predict)) {
            Ok(Search::Try { batch, .. }) => {
                let outcome = oracle.step(batch);
                if let Outcome::Fitted(reading) = outcome {
                    bound.observe(batch, reading).expect("a step that ran needed something");
                }
                learn(&mut finder, batch, outcome);
            }
            Ok(Search::Found(found)) => return found.batch,
            Err(_) => return 0,
        }
    }
}

/// The whole budget and no reduction: the rules are compared at the same budget.
fn finder(oracle: &Oracle<'_>, noise: Fraction) -> Finder {
    let setting = oracle.setting();
    let config = FinderConfig {
        edge: setting.edge,
        batch_max: setting.batch_max,
        target: Fraction::ONE,
        batch_reduction: Fraction::ZERO,
        noise,
        ..FinderConfig::default()
    };
    Finder::try_new(config, setting.budget).expect("a setting within the finder's ranges")
}

fn learn(finder: &mut Finder, batch: u32, outcome: Outcome) {
    let trial = match outcome {
        Outcome::Fitted(reading) => Trial::Fitted { resident: reading.resident, peak: reading.peak },
        Outcome::OutOfMemory => Trial::OutOfMemory,
    };
    finder.on_trial(batch, trial).expect("a batch that the finder asked for, and a step that needed something");
}
