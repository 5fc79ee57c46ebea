//! Where ranks add their gradients.

use plimsoll_probe::DeviceKind;
use plimsoll_train::{Fleet, FleetError};

use crate::values::Reduction;

/// Has a rank add where it was asked for: on its device, where that is to be, or else where it adds already.
///
/// All ranks do, each on the thread that it trains on, once nothing else may keep one of them from training.
///
/// # Errors
///
/// [`FleetError`] where NCCL, or the device, is missing on a rank.
#[cfg_attr(
    not(feature = "nccl"),
    expect(clippy::unnecessary_wraps, reason = "with the feature ranks may not come together")
)]
pub(super) fn adding_on(
    fleet: Box<dyn Fleet>,
    (reduction, kind): (Reduction, DeviceKind),
) -> Result<Box<dyn Fleet>, FleetError> {
    match (reduction, kind) {
        #[cfg(feature = "nccl")]
        (Reduction::Nccl, DeviceKind::Cuda(index)) if 1 < fleet.n_ranks() => {
            Ok(Box::new(plimsoll_fleet::Nccl::join(fleet, index)?))
        }
        _ => Ok(fleet),
    }
}
