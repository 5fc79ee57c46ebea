//! Optimizers of several ranks, each of which has its state on all of them.

use burn::optim::momentum::MomentumConfig;
use burn::optim::{AdaGradConfig, AdamWConfig, AdanConfig, LambConfig, RmsPropConfig, SgdConfig};
use plimsoll_train::{Existing, JobOptimizer};
use plimsoll_types::Bytes;

use super::{assert_close, dirs, events, of_batches, roomy, run_ranks_in, weights};
use crate::common::{alone, run};
use crate::tiny::Tiny;

#[test]
fn ranks_come_to_the_weights_of_one_device_by_other_optimizers_than_the_usual_one() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let optimizers: [fn() -> JobOptimizer; 6] = [
        || SgdConfig::new().with_momentum(Some(MomentumConfig::new())).build().into(),
        || AdamWConfig::new().build().into(),
        || AdaGradConfig::new().build().into(),
        || RmsPropConfig::new().build().into(),
        || AdanConfig::new().build().into(),
        || LambConfig::new().build().into(),
    ];
    for (at, optimizer) in optimizers.into_iter().enumerate() {
        let (one, two) = (folder.path().join(format!("{at}-1")), folder.path().join(format!("{at}-2")));
        let ran =
            run(&Tiny { optimizer, ..Tiny::new() }, &of_batches(12, 16), Bytes::gib(1), &one, Existing::Refuse, None);
        ran.outcome.unwrap();
        let ranks = [12, 4].map(|size| roomy(of_batches(12, size))).into();
        let job = |beside| Tiny { optimizer, ..Tiny::beside(beside) };
        events(run_ranks_in(ranks, dirs(2, &two, Existing::Refuse), &job, (Existing::Refuse, None), None));
        assert_close(&weights(&one, 12), &weights(&two, 12), optimizer().name());
    }
}
