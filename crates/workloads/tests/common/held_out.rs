//! What a job measures on what it holds out.

use plimsoll_policy::{FixedConfig, PolicyConfig};
use plimsoll_predict::{Platform, PredictorConfig};
use plimsoll_probe::{DeviceKind, open};
use plimsoll_train::{Controller, ControllerConfig, ForwardPasses, Inference, StopFlag};
use plimsoll_types::{Budget, Bytes, Features, Knobs, Recompute};

/// Validates as a run with fixed sizes does, under a capacity that holds whatever these tests measure.
pub(crate) fn with_inference<T>(features: Features, validate: impl FnOnce(Inference<'_>) -> T) -> T {
    let controller = ControllerConfig {
        predictor: PredictorConfig { features, ..PredictorConfig::default() },
        policy: PolicyConfig::Fixed(FixedConfig::of(Knobs { patch_size: 64, micro_batch_size: 16 })),
        recompute: Recompute::NEVER,
        platform: Platform::default(),
        planned: Vec::new(),
        replicas: 1,
        exact_peaks: true,
        small_batch: 0,
    };
    let mut controller = Controller::try_new(controller).unwrap();
    let capacity = Bytes::mib(512);
    let mut probe = open(DeviceKind::Flex, Some(capacity)).unwrap();
    let budget = Budget { capacity, budget: capacity };
    validate(Inference::new(ForwardPasses::new(&mut *probe), &mut controller, budget, StopFlag::default()))
}
