//! Activations that are kept or recomputed, whichever is faster, on a Vulkan device where one is installed.
#![cfg(feature = "vulkan")]
#![expect(clippy::print_stderr, reason = "a test that is skipped says why")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[expect(dead_code, reason = "it is shared, and not all of it is used here")]
mod common;
#[expect(dead_code, reason = "it is shared, and not all of it is used here")]
#[path = "fit/tiny.rs"]
mod tiny;

use plimsoll_plan::MemoryPlan;
use plimsoll_predict::{Dtype, Phase, PredictorConfig};
use plimsoll_probe::{DeviceKind, ProbeError, open};
use plimsoll_train::{LoaderConfig, MayRecompute, OptimizerRecovery, PlanRequest, plan_recomputing};
use plimsoll_types::{Bytes, Extent, Fraction, Recompute, StepShape};

use common::alone;
use tiny::Tiny;

const DEVICE: DeviceKind = DeviceKind::Vulkan(0);
const EDGE: u32 = 16;

fn plan(capacity: Bytes, may_recompute: MayRecompute) -> MemoryPlan {
    let request = PlanRequest {
        device: DEVICE,
        recompute: Recompute::NEVER,
        dtype: Dtype::F32,
        optimizer_recovery: OptimizerRecovery::Restore,
        target: Fraction::ONE,
        ladder: [8, 16, 32].map(|n| StepShape::new(n, EDGE)).to_vec(),
        lattice: Vec::new(),
        inference: Vec::new(),
        loader: LoaderConfig::cut(3, 32, EDGE, Bytes::mib(4)),
        predictor: PredictorConfig::default(),
        max_probes: 1,
        is_corrected: false,
        schedule_steps: 0,
    };
    let open_probe = || Ok(open(DEVICE, Some(capacity))?);
    let job = Tiny { n_products: 8, ..Tiny::new() };
    plan_recomputing(&job, &request, may_recompute, &open_probe, &mut |_, _, _| ()).unwrap()
}

#[test]
fn larger_micro_batches_that_recompute_are_timed_against_what_fits_without_and_the_faster_are_planned() {
    let _alone = alone();
    if let Err(error @ ProbeError::NoDevice { .. }) = open(DEVICE, None) {
        eprintln!("skipped: failed to {error}");
        return;
    }
    let roomy = plan(Bytes::gib(1), MayRecompute::WhereFaster);
    assert!(roomy.compared.is_empty(), "nothing is larger than all: {:?}", roomy.compared);
    let upper = |n| roomy.cell(Phase::Train, StepShape::new(n, EDGE)).unwrap().upper;
    // Room for eight, and for half of what eight more take.
    let tight = Bytes(u64::midpoint(upper(8).0, upper(16).0));
    let chosen = plan(tight, MayRecompute::WhereFaster);
    let [compared] = chosen.compared[..] else { unreachable!("one size: {:?}", chosen.compared) };
    assert_eq!((compared.extent, compared.kept.batch), (Extent::new(EDGE), 8));
    assert!(8 < compared.recomputed.batch, "{compared:?}");
    assert!(compared.kept.seconds > 0.0 && compared.recomputed.seconds > 0.0, "{compared:?}");
    let is_faster = compared.recomputed.seconds < compared.kept.seconds;
    assert_eq!(chosen.fingerprint.recompute.is_on(EDGE), is_faster, "{compared:?}");
    let batch = chosen.largest_batch(Extent::new(EDGE)).unwrap();
    if is_faster {
        // The comparison leaves room for a page more.
        assert!(compared.recomputed.batch <= batch, "{batch}: {compared:?}");
    } else {
        assert_eq!(batch, 8, "{compared:?}");
    }
}
