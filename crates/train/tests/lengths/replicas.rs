//! Padded micro-batches that threads of one CPU share.

use std::sync::Arc;

use plimsoll_train::{ControllerConfig, FitConfig, LoaderConfig, StepUnit, Unit, replay};
use plimsoll_types::{Bytes, EndReason, StepDone};

use crate::common::{alone, steps};
use crate::job::{Rows, Tiny, tiny};
use crate::{check_epochs, config, fresh, kept};

const REPLICAS: u32 = 4;

/// Steps of one micro-batch for each length, as large as a step.
fn divided(replicas: u32, multiple_of: u32) -> FitConfig {
    let it = config(30, StepUnit::Samples, 16);
    FitConfig {
        controller: ControllerConfig { replicas, policy: kept(16), ..it.controller },
        loader: LoaderConfig { multiple_of, ..it.loader },
        ..it
    }
}

/// How many samples each micro-batch of the steps of the second epoch has.
fn sizes(job: &Tiny, config: &FitConfig) -> Vec<Vec<usize>> {
    let ran = fresh(job, config, Bytes::gib(1));
    assert_eq!(ran.outcome.unwrap().reason, EndReason::Completed);
    check_epochs(&ran.events, 3);
    let steps = steps(&ran.events);
    assert!(replay(&ran.events).unwrap().mismatches.is_empty());
    let of = |it: &&StepDone| it.micro_batches.iter().map(|it| it.ids.len()).collect();
    steps.iter().filter(|it| it.epoch == 1).map(of).collect()
}

#[test]
fn a_micro_batch_is_cut_where_threads_would_wait_for_the_one_that_has_it() {
    let _alone = alone();
    let job = tiny(false, Unit::Samples);
    let (whole, cut) = (sizes(&job, &divided(1, 1)), sizes(&job, &divided(REPLICAS, 1)));
    // The last of an epoch has four samples.
    assert!(whole.iter().any(|it| *it == [4]) && cut.iter().any(|it| *it == [1; 4]), "{whole:?} became {cut:?}");
    for sizes in &cut {
        let (most, all) = (sizes.iter().max().unwrap(), sizes.iter().sum::<usize>());
        assert!(2 * most <= all, "a thread has {most} of {all}");
    }
}

#[test]
fn samples_that_stay_together_are_not_cut_apart_and_multiples_stay_so() {
    let _alone = alone();
    let rows = Rows::new(false, None, 4);
    let of_groups = Tiny { rows: Arc::new(rows), ..tiny(false, Unit::Samples) };
    assert!(sizes(&of_groups, &divided(REPLICAS, 1)).iter().flatten().all(|it| it % 4 == 0));
    let of_fours = sizes(&tiny(false, Unit::Samples), &divided(REPLICAS, 4));
    assert!(of_fours.iter().flatten().all(|it| it % 4 == 0), "{of_fours:?}");
}
